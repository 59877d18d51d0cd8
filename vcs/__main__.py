"""`python -m vcs` and the `vcs` command: runs the command line and turns mistakes into one sentence."""
from __future__ import annotations

import sys
from collections.abc import Sequence

from vcs.errors import VcsError


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line with `argv` (default: the process's arguments) and end the process.

    Exit codes: 0 done; 2 something given cannot be used, with one sentence on standard error; 130
    interrupted.
    """
    try:
        from vcs import cli

        cli.run(sys.argv[1:] if argv is None else list(argv))
    except VcsError as error:
        print(f"vcs: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "vcs":
            raise
        print(f"vcs: this command needs the package {error.name}, which is not installed: "
              "pip install 'glassvcs[all]'", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("vcs: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

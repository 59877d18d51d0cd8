"""`python -m vcs` and the `vcs` command: runs the command line and turns mistakes into one sentence."""
from __future__ import annotations

import sys
from collections.abc import Sequence

from vcs.command import guarded


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line with `argv` (default: the process's arguments) and end the process.

    Exit codes: 0 done; 2 something given cannot be used, with one sentence on standard error; 130
    interrupted.
    """
    def command() -> None:
        from vcs import cli

        cli.run(sys.argv[1:] if argv is None else list(argv))

    guarded(command, "vcs", last=argv is None)


if __name__ == "__main__":
    main()

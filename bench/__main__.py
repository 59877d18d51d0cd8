"""``python -m bench``."""

from vcs.command import guarded


def main() -> None:
    """Run the command line and end the process; Ctrl-C may come while it is still imported."""
    from bench import cli

    cli.app()


if __name__ == "__main__":
    guarded(main, "bench")

"""``python -m tests.fuzz``; see runner.py."""

from vcs.command import guarded


def main() -> None:
    """Run the command line and end the process; Ctrl-C may come while it is still imported."""
    from tests.fuzz.runner import app

    app()


if __name__ == "__main__":
    guarded(main, "tests.fuzz")

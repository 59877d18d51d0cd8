"""``python -m tests.fuzz``; see runner.py."""

from tests.fuzz.runner import app

if __name__ == "__main__":
    app()

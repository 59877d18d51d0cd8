"""The one exception of the package."""
from __future__ import annotations


class VcsError(ValueError):
    """Something the caller gave us cannot be used.

    The message is one sentence that says what was wrong, what is accepted and how to fix it. The command line
    prints it and ends with exit code 2; library users may catch it as `ValueError`.
    """

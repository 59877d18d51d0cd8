"""Random input against what the machine promises, and random programs against other machines."""

from __future__ import annotations

from vcs import command

command.quiet("tests.fuzz")  # before the imports that take long

from hypothesis import HealthCheck, Phase, settings  # noqa: E402


def searching(examples: int) -> settings:
    """Settings of a search outside pytest: so many inputs, the finding shrunk, nothing kept or printed."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )

"""The page of figures is what its data says, and every fault it lists has its test."""

from __future__ import annotations

from tests import reliability


def test_the_page_is_up_to_date() -> None:
    assert reliability.PAGE.read_text() == reliability.page(reliability.read()), (
        "run python -m tests.reliability report"
    )


def test_every_fault_is_guarded() -> None:
    missing = [f["guard"] for f in reliability.read()["faults"] if not reliability.guarded(f["guard"])]
    assert not missing

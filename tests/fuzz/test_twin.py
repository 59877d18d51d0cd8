"""A few random programs for every mapper beside ale-py; `python -m tests.fuzz.twin` runs any number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.carts import LAYOUTS
from tests.fuzz import twin
from vcs import cart


@pytest.fixture(scope="module")
def machines() -> Iterator[twin.Twin]:
    pytest.importorskip("ale_py")
    pair = twin.Twin()
    yield pair
    pair.reference.close()


@pytest.mark.parametrize("mapper", LAYOUTS)
def test_layout_is_recognised(mapper: str) -> None:
    assert cart.detect(twin.build(mapper, [], 0), "") == mapper


@pytest.mark.parametrize("mapper", LAYOUTS)
def test_programs(machines: twin.Twin, mapper: str) -> None:
    before = machines.compared
    found = twin.search(machines, mapper, 3, 1)
    assert found is None, f"{found[0]}\n{found[2]}"
    assert machines.compared > before


def test_a_difference_is_found_and_shrunk(machines: twin.Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a machine that is wrong about one cell, the search ends at the shortest program."""
    right = twin.ours

    def wrong(*args: object) -> list[twin.Frame]:
        frames = right(*args)  # type: ignore[arg-type]
        for frame in frames:
            frame.ram = frame.ram[:-1] + bytes((frame.ram[-1] ^ 1,))
        return frames

    monkeypatch.setattr(twin, "ours", wrong)
    found = twin.search(machines, "4K", 5, 0)
    assert found is not None
    problem, image, text = found
    assert "RAM FF" in problem and len(image) == 4096 and len(text.splitlines()) == 1

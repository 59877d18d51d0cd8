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


def latch_probe(cell: int) -> bytes:
    """An image whose frames end, by the limit of instructions, in code that runs in TIA space.

    There the opcode is the low six bits of the data-bus latch. RAM holds CLC ($18), but SEC ($38) at `cell`;
    RAM $8D counts how often SEC ran."""
    data = bytearray([0xEA] * 4096)
    start = bytes.fromhex("A918 A280 9500 E8 D0FB A2FC 9A A900 858D")  # all of RAM $18, SP $FC, no count
    start += bytes((0xA9, 0x38, 0x85, 0x80 + cell)) + bytes.fromhex("A900 18 A200 4C002A")
    # after 128 reads of TIA space ISB $3F00,X leaves A = $14 + C, and BRK comes here
    again = bytes.fromhex("C915 A900 658D 858D A2FC 9A A900 A200 18 4C002A")
    data[: len(start)] = start
    data[0x80 : 0x80 + len(again)] = again
    data[-4:] = bytes.fromhex("00F0 80F0")
    return bytes(data)


@pytest.mark.parametrize("cell", [1, twin.LAST_READ, 126, 127])
def test_latch_after_a_frame(machines: twin.Twin, cell: int) -> None:
    """Rules read RAM over the bus, last (in this game) one; after an act or a reset all of it is read."""
    image = latch_probe(cell)
    machines.check(image, [0] * 5)
    path = machines.folder / f"{twin.GAME}.bin"
    path.write_bytes(image)
    counts = [frame.ram[0x0D] for frame in twin.ours(path, [0] * 5)]
    assert (counts[0] > 50) == (cell == twin.LAST_READ)
    assert (counts[5] > counts[0]) == (cell == 127)


def test_random_bytes(machines: twin.Twin) -> None:
    """Images that are no program at all, which run wherever they end up."""
    found = twin.search(machines, "4K", 10, 3, True)
    assert found is None, found and found[0]

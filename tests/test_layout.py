"""The numbering of locations: names and ids, and the constants that the core holds too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vcs import layout
from vcs.errors import VcsError

STATE = Path(layout.__file__).parent / "_hard" / "state.pxd"


def test_the_core_uses_the_same_numbers() -> None:
    text = STATE.read_text(encoding="utf-8")
    core = {m[1]: int(m[2]) for m in re.finditer(r"LOC_(\w+) = (\d+)", text)}
    assert core == {
        name: getattr(layout, name)
        for name in ("RAM", "CPU", "TIA_W", "TIA_X", "TIA_R", "RIOT", "INPUT", "CART", "ROM")
    }


def test_names_and_ids_are_inverse() -> None:
    ids = [
        *range(128),
        *range(128, 139),
        *range(192, 256),
        *range(256, 264),
        *range(320, 336),
        *range(336, 344),
        *range(352, 371),
        1024,
        1024 + 255,
        65536,
        65536 + 0xFFFF,
    ]
    names = [layout.name(i) for i in ids]
    assert len(set(names)) == len(ids)
    assert [layout.parse(n) for n in names] == ids
    assert [layout.parse(n.lower()) for n in names] == ids


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("RAM[0x1C]", 28),
        ("RAM[28]", 28),
        ("RAM[$1C]", 28),
        ("A", 128),
        ("PC", 138),
        ("COLUP0", 198),
        ("pos BL", 263),
        ("INTIM", 340),
        ("P0 right", 355),
        ("ROM[0x123]", 65536 + 0x123),
    ],
)
def test_examples(text: str, location: int) -> None:
    assert layout.parse(text) == location


@pytest.mark.parametrize("text", ["", "RAM[128]", "RAM[]", "COLUP9", "ROM[-1]"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(VcsError):
        layout.parse(text)


@pytest.mark.parametrize("location", [-1, 139, 344, 400, 1023])
def test_ids_that_name_nothing_are_refused(location: int) -> None:
    with pytest.raises(VcsError):
        layout.name(location)

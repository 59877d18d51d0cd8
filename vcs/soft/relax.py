"""The fully relaxed reads of soft.md 3: which bytes lie beside an address, and how much each weighs.

Only ROM and RIOT RAM are relaxed (relaxation.md 4.1): over four neighbours on each side, wrapping inside the
128 bytes of RAM or inside the mapped 4 KiB of the cartridge. Registers of the TIA and the RIOT, pulls and
cartridge RAM are exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vcs import layout
from vcs.soft.ops import read_weights

WINDOW: Final = 4
_PAGE: Final = 4096


def neighbours(location: int, rom_size: int) -> list[int]:
    """The locations beside a RAM or ROM location: -1, +1, -2, +2, ... +4; empty for any other location."""
    steps = [s * k for k in range(1, WINDOW + 1) for s in (-1, 1)]
    if location < layout.RAM_SIZE:
        return [location + k & 0x7F for k in steps]
    if location >= layout.ROM:
        index = location - layout.ROM
        size = min(_PAGE, rom_size)
        start = index // size * size
        return [layout.ROM + start + (index - start + k) % size for k in steps]
    return []


def relaxed_rom(rom: npt.NDArray[np.uint8], temperature: float) -> npt.NDArray[np.uint8]:
    """Every byte of an image as a relaxed read sees it, uint8[N]."""
    size = min(_PAGE, len(rom))
    banks = rom.astype(np.float64)[: len(rom) // size * size].reshape(-1, size)
    weights = read_weights(temperature, WINDOW)
    total = weights[0] * banks
    for k in range(1, WINDOW + 1):
        total = total + weights[2 * k] * (np.roll(banks, k, axis=1) + np.roll(banks, -k, axis=1))
    out = rom.copy()
    out[: banks.size] = np.rint(total).reshape(-1)
    return out

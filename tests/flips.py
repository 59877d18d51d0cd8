"""One bit of a machine turned over: the exact counterfactual that tests hold derivatives against."""

from __future__ import annotations

import vcs
from vcs import layout


def flipped(m: vcs.Machine, location: int, bit: int) -> tuple[vcs.Machine, int]:
    """A copy with a bit of a RAM or ROM byte flipped, and the step +1 or -1."""
    copy = m.clone()
    if location < layout.RAM_SIZE:
        old = int(m.ram[location])
        copy.poke_ram(location, old ^ 1 << bit)
    else:
        old = int(m.rom[location - layout.ROM])
        copy.poke_rom(location - layout.ROM, old ^ 1 << bit)
    return copy, -1 if old >> bit & 1 else 1

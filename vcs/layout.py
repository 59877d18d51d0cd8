"""The one numbering of every state location: RAM, registers, TIA, RIOT, inputs, cartridge RAM and ROM.

Traces, gradients and interventions name a place in the machine by one integer. The same constants are
in `vcs/_hard/state.pxd` (a test compares them). Names look like "RAM[0x1C]", "A", "COLUP0", "CXM0P",
"pos P0", "INTIM", "P0 right", "CART[0x10]", "ROM[0x123]".
"""

from __future__ import annotations

import re
from typing import Final

from vcs.data import load_csv
from vcs.errors import VcsError

RAM: Final = 0  # 128 RIOT RAM cells
CPU: Final = 128  # A X Y SP N V D I Z C PC
TIA_W: Final = 192  # 64 write registers: the last byte written
TIA_X: Final = 256  # inner state of the TIA, see INNER
TIA_R: Final = 320  # 16 read registers
RIOT: Final = 336  # ports and timer, see RIOT_NAMES
INPUT: Final = 352  # input lines, one value a frame, see INPUTS
CART: Final = 1024  # cartridge RAM
ROM: Final = 65536  # ROM image

RAM_SIZE: Final = 128
TIA_W_SIZE: Final = 64
TIA_R_SIZE: Final = 16
CART_SIZE: Final = ROM - CART

CPU_NAMES: Final = ("A", "X", "Y", "SP", "N", "V", "D", "I", "Z", "C", "PC")
FLAGS: Final = ("N", "V", "D", "I", "Z", "C")
INNER: Final = ("GRP0OLD", "GRP1OLD", "ENABLOLD", "pos P0", "pos P1", "pos M0", "pos M1", "pos BL")
POSITION: Final = TIA_X + 3  # positions of P0 P1 M0 M1 BL
RIOT_NAMES: Final = ("SWCHA", "SWACNT", "SWCHB", "SWBCNT", "INTIM", "INSTAT", "TIMER", "TIMER shift")
TIMER: Final = RIOT + 6  # the byte written to TIM1T, TIM8T, TIM64T or T1024T
INPUTS: Final = (
    "P0 up",
    "P0 down",
    "P0 left",
    "P0 right",
    "P0 fire",
    "P1 up",
    "P1 down",
    "P1 left",
    "P1 right",
    "P1 fire",
    "SELECT",
    "RESET",
    "colour",
    "difficulty L",
    "difficulty R",
    "paddle 0",
    "paddle 1",
    "paddle 2",
    "paddle 3",
)
INPUT_SIZE: Final = 32


def _registers(access: str, size: int) -> tuple[str, ...]:
    names = [f"{'TIA' if access == 'write' else 'TIAR'}[0x{i:02X}]" for i in range(size)]
    for row in load_csv("registers.csv"):
        if row["chip"] == "TIA" and row["access"] == access:
            names[int(row["address"], 16)] = row["name"]
    return tuple(names)


TIA_W_NAMES: Final = _registers("write", TIA_W_SIZE)
TIA_R_NAMES: Final = _registers("read", TIA_R_SIZE)

# part of a state or an attribution -> first location, number, whether its elements are bytes (eight
# derivatives under `bit` rules); cartridge RAM, ROM and inputs differ in size from game to game
PARTS: Final[dict[str, tuple[int, int, bool]]] = {
    "ram": (RAM, RAM_SIZE, True),
    "registers": (CPU, 4, True),
    "flags": (CPU + 4, 6, False),
    "pc": (CPU + 10, 1, False),
    "tia": (TIA_W, TIA_W_SIZE, True),
    "delayed": (TIA_X, 3, True),
    "positions": (POSITION, 5, False),
    "latches": (TIA_R, TIA_R_SIZE, True),
    "swacnt": (RIOT + 1, 1, True),
    "timer": (TIMER, 1, True),
}

# start, names: the groups whose locations have a fixed name each
_GROUPS: Final = (
    (CPU, CPU_NAMES),
    (TIA_W, TIA_W_NAMES),
    (TIA_X, INNER),
    (TIA_R, TIA_R_NAMES),
    (RIOT, RIOT_NAMES),
    (INPUT, INPUTS),
)
_BY_NAME: Final = {name.upper(): start + i for start, names in _GROUPS for i, name in enumerate(names)}
_CELL: Final = re.compile(r"(RAM|CART|ROM)\[\s*(0x[0-9a-f]+|\$[0-9a-f]+|[0-9]+)\s*\]", re.IGNORECASE)
_CELLS: Final = {"RAM": (RAM, RAM_SIZE), "CART": (CART, CART_SIZE), "ROM": (ROM, 1 << 20)}


def name(location: int) -> str:
    """The name of a location id, for example 28 -> "RAM[0x1C]".

    Raises VcsError for an id that names nothing.
    """
    if RAM <= location < RAM + RAM_SIZE:
        return f"RAM[0x{location - RAM:02X}]"
    for start, names in _GROUPS:
        if start <= location < start + len(names):
            return names[location - start]
    if CART <= location < ROM:
        return f"CART[0x{location - CART:02X}]"
    if location >= ROM:
        return f"ROM[0x{location - ROM:03X}]"
    raise VcsError(f"{location} is not a location: see the table in vcs/layout.py for the ids in use")


def parse(text: str) -> int:
    """The id of a named location, for example "RAM[0x1C]" -> 28; the inverse of `name`.

    Numbers may be decimal, 0x or $ hexadecimal; case does not matter. Raises VcsError for an unknown name.
    """
    if not isinstance(text, str):
        raise VcsError(f"{text!r} names no location: give a text such as COLUP0 or RAM[0x1C]")
    cell = _CELL.fullmatch(text.strip())
    if cell:
        start, size = _CELLS[cell[1].upper()]
        digits = cell[2]
        index = int(digits[1:], 16) if digits[0] == "$" else int(digits, 0)
        if index >= size:
            raise VcsError(f"{text} does not exist: {cell[1].upper()} indices go from 0 to {size - 1}")
        return start + index
    known = _BY_NAME.get(text.strip().upper())
    if known is None:
        raise VcsError(
            f"{text!r} names no location: use a register name such as A or COLUP0, an input such as "
            '"P0 right", or a cell such as RAM[0x1C], CART[0] or ROM[0x123]'
        )
    return known

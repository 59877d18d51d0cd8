"""The fully relaxed reads of soft.md 3: which bytes lie beside an address, and how much each weighs.

Only ROM and RIOT RAM are relaxed (relaxation.md 4.1): over four neighbours on each side, wrapping inside the
128 bytes of RAM or inside the mapped 4 KiB of the cartridge. Registers of the TIA and the RIOT, pulls and
cartridge RAM are exact.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs import layout, trace
from vcs.errors import VcsError
from vcs.soft.cpu import OPCODES
from vcs.soft.ops import gate, read_weights, signed

WINDOW: Final = 4
_PAGE: Final = 4096
# inside this corner every read and every branch rounds to its exact value (docs/gradients.md)
CORNER_ALPHA: Final = math.log(255)
CORNER_T: Final = 1 / math.log(1019)


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


def refuse_outside(
    instr: npt.NDArray[Any],
    x0: npt.NDArray[np.int32],
    rom: npt.NDArray[np.uint8],
    alpha: float,
    temperature: float,
) -> None:
    """Raise VcsError if the fully relaxed machine would leave the path of these rows of a trace.

    instr, x0: `Trace.instr` and `Trace.x0`. It finds what `vcs.soft.replay` finds as it runs: every relaxed
    read and branch of the path must round to what the trace has. Costs nothing inside the corner.
    """
    if alpha <= CORNER_ALPHA:
        _refuse_branches(instr, alpha)
    if temperature >= CORNER_T:
        refuse_code(instr, rom, temperature)
        _refuse_reads(instr, x0, rom, temperature)


def _left(instr: npt.NDArray[Any], k: int, alpha: str, what: str) -> VcsError:
    row = instr[k]
    return VcsError(
        f"relaxed at {alpha} the machine leaves the trace at instruction {k} (frame {int(row['frame'])}, PC "
        f"${int(row['pc']):04X}): {what}; use alpha above 5.5413 and T below 0.1443"
    )


def _refuse_branches(instr: npt.NDArray[Any], alpha: float) -> None:
    kinds = np.array([o.mode == "relative" for o in OPCODES])
    branches = np.flatnonzero(kinds[instr["opcode"]])
    delta = np.array([signed(b) for b in range(256)])[instr["b1"][branches]]
    taken = instr["flags"][branches] & trace.TAKEN != 0
    blend = np.where(taken, gate(1, alpha), gate(-1, alpha)) * delta
    # the sum is rounded, not the blend: ties go to the even counter
    start = instr["pc"][branches].astype(np.int64) + 2
    wrong = branches[np.rint(start + blend) != start + np.where(taken, delta, 0)]
    if len(wrong):
        raise _left(instr, int(wrong[0]), f"alpha {alpha}", "its branch goes elsewhere")


def refuse_code(instr: npt.NDArray[Any], rom: npt.NDArray[np.uint8], temperature: float) -> None:
    """Raise VcsError unless every instruction byte in ROM, read relaxed, is what ran."""
    relaxed = relaxed_rom(rom, temperature)
    for column, byte in (("loc0", "opcode"), ("loc1", "b1"), ("loc2", "b2")):
        location = instr[column]
        here = np.flatnonzero(location >= layout.ROM)
        wrong = here[relaxed[location[here] - layout.ROM] != instr[byte][here]]
        if len(wrong):
            k = int(wrong[0])
            value = int(relaxed[location[k] - layout.ROM])
            what = f"it reads {value} instead of {int(instr[byte][k])} from {layout.name(int(location[k]))}"
            raise _left(instr, k, f"T {temperature}", what)


def _refuse_reads(
    instr: npt.NDArray[Any], x0: npt.NDArray[np.int32], rom: npt.NDArray[np.uint8], temperature: float
) -> None:
    weights = read_weights(temperature, WINDOW)
    image = relaxed_rom(rom, temperature)
    ram = x0[: layout.RAM_SIZE].astype(np.float64)
    beside = np.array([[i, *neighbours(i, len(rom))] for i in range(layout.RAM_SIZE)])

    def check(k: int, location: int, exact: int) -> None:
        if location >= layout.ROM:
            relaxed = int(image[location - layout.ROM])
        elif 0 <= location < layout.RAM_SIZE:
            relaxed = round(float(weights @ ram[beside[location]]))
        else:
            return
        if relaxed != exact:
            what = f"it reads {relaxed} instead of {exact} from {layout.name(location)}"
            raise _left(instr, k, f"T {temperature}", what)

    names = "opcode pc sp p loc1 loc2 b1 b2 ea_loc rd wr flags ptr0 ptr1"
    rows = zip(*(instr[name].tolist() for name in names.split()))
    for k, (opcode, pc, sp, p, loc1, loc2, b1, b2, where, rd, wr, flags, ptr0, ptr1) in enumerate(rows):
        mnemonic, mode = OPCODES[opcode][:2]
        pulls = mnemonic in ("PLA", "PLP", "RTS", "RTI")
        if flags & trace.READ and not pulls and mnemonic not in ("JMP", "BRK"):
            check(k, where, rd)
        for location, byte in ((loc1, b1), (loc2, b2)):
            if mode in ("immediate", "relative") or mnemonic in ("JMP", "JSR"):
                check(k, location, byte)
        if mode == "indirect" or mnemonic == "BRK":
            for location in (ptr0, ptr1):
                cell = ram[location] if 0 <= location < layout.RAM_SIZE else -1
                check(k, location, int(rom[location - layout.ROM] if location >= layout.ROM else cell))
        pushed = [wr] if flags & trace.WROTE else []
        if mnemonic in ("JSR", "BRK"):
            pushed = [pc + 2 >> 8 & 255, pc + 2 & 255, p | 0x30][: 3 if mnemonic == "BRK" else 2]
            for j, byte in enumerate(pushed):
                if (sp - j) & 0x80:
                    ram[(sp - j) & 0x7F] = byte
        elif pushed and 0 <= where < layout.RAM_SIZE:
            ram[where] = wr

"""From "frame 1234 differs" to an instruction, a scanline and a colour clock.

The differing frame is traced again from the last equal state, so what is reported is what our machine did:
for a pixel the instruction during which it was drawn and the TIA registers in force, for a RAM cell the
instructions of the frame that wrote it, both with the registers before the instruction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.panels import Indices
from vcs.asm import format_instruction

CLOCKS_PER_LINE, HBLANK = 228, 68


def instruction(trace: Any, i: int) -> dict[str, Any]:
    """One traced instruction for people: where, what, and the registers before it."""
    r = trace.instr[i]
    return {
        "instruction": int(i),
        "pc": f"${int(r['pc']):04X}",
        "bank": int(r["bank"]),
        "code": format_instruction(int(r["opcode"]), int(r["b1"]), int(r["b2"]), int(r["pc"])),
        "a": int(r["a"]),
        "x": int(r["x"]),
        "y": int(r["y"]),
        "sp": int(r["sp"]),
        "p": int(r["p"]),
        "cycles": int(r["cycles"]),
    }


def clock(trace: Any, i: int) -> dict[str, int]:
    """Scanline and colour clock within it at which instruction ``i`` of the trace starts."""
    r = trace.instr[i]
    start = int(trace.frames[int(r["frame"])]["start_clock"])
    line, h = divmod(3 * int(r["cycles"]) - start, CLOCKS_PER_LINE)
    return {"scanline": line, "colour_clock": h}


def pixel(trace: Any, ours: Indices, theirs: Indices, y_start: int) -> dict[str, Any]:
    """The first differing pixel in drawing order, and the run of pixels of ours that covers it."""
    row, x = (int(v) for v in np.argwhere(ours != theirs)[0])
    found: dict[str, Any] = {
        "row": row,
        "column": x,
        "scanline": y_start + row,
        "colour_clock": HBLANK + x,
        "ours": int(ours[row, x]),
        "theirs": int(theirs[row, x]),
        "differing_pixels": int((ours != theirs).sum()),
        "differing_rows": int((ours != theirs).any(axis=1).sum()),
    }
    s = trace.segments
    hit = np.flatnonzero((s["row"] == row) & (s["x0"] <= x) & (x < s["x1"]))
    if len(hit):
        segment = s[hit[-1]]
        found["drawn_during"] = instruction(trace, int(segment["instr"]))
        found["drawing_state"] = {
            n: np.asarray(segment[n]).tolist()
            for n in (
                "colu",
                "pos",
                "grp",
                "pf",
                "nusiz",
                "ctrlpf",
                "refp",
                "en",
                "vdel",
                "vblank",
                "reflect",
                "skip",
                "m0mode",
                "comb",
            )
        }
    else:
        found["drawn_during"] = "not drawn in this frame (left from an earlier one)"
    return found


def memory(trace: Any, ours: npt.NDArray[np.uint8], theirs: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """The differing RAM cells and, for the one written first in this frame, its writers."""
    cells = [int(c) for c in np.flatnonzero(ours != theirs)]
    found: dict[str, Any] = {"cells": {f"${0x80 + c:02X}": [int(ours[c]), int(theirs[c])] for c in cells}}
    instr = trace.instr
    wrote = np.flatnonzero((instr["flags"] & 8) > 0)
    writers = wrote[np.isin(instr["ea_loc"][wrote], cells)]
    if len(writers):
        first = int(writers[0])
        found.update(clock(trace, first))
        found["first_written_by"] = {**instruction(trace, first), "value": int(instr["wr"][first])}
        found["last_written_by"] = {
            **instruction(trace, int(writers[-1])),
            "value": int(instr["wr"][writers[-1]]),
        }
    else:
        found["first_written_by"] = "no instruction of this frame wrote these cells"
    return found


def y_start(m: Any) -> int:
    """Scanline of the screen's first row."""
    tia = m.tia()
    return int(tia["D0"] - tia["F"]) // CLOCKS_PER_LINE

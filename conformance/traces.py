"""A trace that another emulator wrote, against our machine (the command `trace`).

The file is one of ours (`vcs.trace.Trace.save`). It says by itself where the run began: the image, our
snapshot and the actions; an emulator gets them from a trace of ours and hands them on. What it has not
modelled it leaves as zeros and does not ask to be compared.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from conformance import locate
from conformance.cases import DIFFERENT, EQUAL, Case, Outcome
from vcs.demo import instruction
from vcs.errors import VcsError
from vcs.machine import Machine, Snapshot
from vcs.trace import INSTR, Trace

COLUMNS = ("pc", "opcode", "a", "x", "y", "sp", "p")
PICTURES = ("screens", "winner")
SHOWN = ("pc", "a", "x", "y", "sp", "p", "cycles")


def ours(theirs: Trace) -> Trace:
    """Our machine's trace of the same run: the image, start and actions of theirs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* has no game rules")  # none are needed to run instructions
        machine = Machine(theirs.rom.tobytes())
    machine.restore(Snapshot.from_bytes(theirs.start.tobytes()))
    return machine.trace(theirs.frames["action"])


def compare(theirs: Trace, what: tuple[str, ...] = COLUMNS) -> Outcome:
    """The first difference between a trace and our machine's run from the same start.

    what: columns of `Trace.instr`, and "screens" or "winner" for pixels. The outcome counts what was equal
    before it. Raises VcsError for another name.
    """
    unknown = [name for name in what if name not in (*(INSTR.names or ()), *PICTURES)]
    if unknown or not what:
        raise VcsError(
            f"a trace has no column {unknown[0] if unknown else ''!r} to compare: use "
            f"{', '.join((*(INSTR.names or ()), *PICTURES))}"
        )
    mine = ours(theirs)
    case = Case("trace", mine.rom_sha256[:12], {"what": list(what)})
    columns = [name for name in what if name not in PICTURES]
    n = min(len(mine), len(theirs))
    wrong = np.zeros(n, bool)
    for name in columns:
        wrong |= mine.instr[name][:n] != theirs.instr[name][:n]
    k = int(wrong.argmax()) if wrong.any() else n
    counts = {"instructions": k if columns else 0}
    if columns and (wrong.any() or len(mine) != len(theirs)):
        return Outcome(case, DIFFERENT, counts, message=_sentence(mine, theirs, columns, k),
                       difference=_instruction(mine, theirs, columns, k))
    for name in [name for name in what if name in PICTURES]:
        a, b = getattr(mine, name), getattr(theirs, name)
        if a.shape != b.shape:
            return Outcome(case, DIFFERENT, counts, message=f"{name}: shape {b.shape} instead of {a.shape}")
        places = np.argwhere(a != b)
        counts["pixels"] = counts.get("pixels", 0) + int(a.size)
        if len(places):
            frame, row, column = (int(i) for i in places[0])
            return Outcome(
                case, DIFFERENT, counts,
                message=f"{name}: {len(places)} pixels, first frame {frame}, row {row}, column {column}: "
                f"{b[frame, row, column]} instead of {a[frame, row, column]}",
            )
    return Outcome(case, EQUAL, counts)


def _instruction(mine: Trace, theirs: Trace, columns: list[str], k: int) -> dict[str, Any]:
    """Both processors before instruction k, and the instruction that led there."""
    found: dict[str, Any] = {"after": locate.instruction(mine, k - 1)} if k else {}
    for who, trace in (("ours", mine), ("theirs", theirs)):
        if k < len(trace):
            found[who] = {name: int(trace.instr[name][k]) for name in dict.fromkeys((*SHOWN, *columns))}
    return found


def _sentence(mine: Trace, theirs: Trace, columns: list[str], k: int) -> str:
    if k == min(len(mine), len(theirs)):
        return f"{len(theirs)} instructions instead of {len(mine)}"
    differ = [name for name in columns if mine.instr[name][k] != theirs.instr[name][k]]
    values = ", ".join(
        f"{name} {int(theirs.instr[name][k]):X} instead of {int(mine.instr[name][k]):X}" for name in differ
    )
    before = f" after {instruction(mine, k - 1)}" if k else " at the start"
    return f"instruction {k}:{before}: {values}"

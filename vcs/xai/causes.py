"""What can be done to the machine: interventions (`Do`, `Act`) and the named causes of the audit.

Section 2 and 3 of the audit protocol. A `Do` writes one state location (the numbering of docs/design.md)
at a frame boundary or before a given instruction; an `Act` replaces the action of one frame. Both are
plain frozen values, so they hash, compare, pickle and travel into records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcs import checks
from vcs.errors import VcsError

RAM, CPU, TIA, TIA_INNER, RIOT, CART, ROM = 0, 128, 192, 256, 336, 1024, 65536
COLUBK = TIA + 9
RIGHT, RIGHT_LINE = 3, 3  # the action, and its place among the lines up down left right fire

OPS = ("set", "flip", "delta", "occlude")


@dataclass(frozen=True, order=True)
class Do:
    """do(location, op value): one write into the machine's state.

    location: integer of docs/design.md (RAM 0..127, CPU 128.., TIA 192.., RIOT 336.., cartridge RAM
        1024.., ROM 65536..).
    op: ``set`` stores ``value``; ``flip`` inverts bit ``value``; ``delta`` adds ``value`` modulo the
        size of the location; ``occlude`` stores 0 and ignores ``value``.
    frame: frames after the checkpoint at which it acts, at the frame boundary (2.3).
    instruction: None, or the number of instructions of that frame to run before acting.
    """

    location: int
    op: str = "set"
    value: int = 0
    frame: int = 0
    instruction: int | None = None

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise VcsError(f"unknown operation {self.op!r}; choose one of {', '.join(OPS)}")
        for what in ("location", "value", "frame", "instruction"):
            number = getattr(self, what)
            if not hasattr(number, "__index__") and (number is not None or what != "instruction"):
                raise VcsError(f"the {what} of an intervention is {number!r}: give a whole number")
        if self.frame < 0 or (self.instruction is not None and self.instruction < 0):
            raise VcsError("an intervention acts at a frame and instruction from 0 upwards")
        if self.op == "flip" and not 0 <= self.value <= 15:
            raise VcsError(f"flip takes a bit number 0..7 (0..15 for PC), not {self.value}")

    @property
    def name(self) -> str:
        """Short text for records, as ``ram[54]:set 17``."""
        what = "occlude" if self.op == "occlude" else f"{self.op} {self.value}"
        at = f"@{self.frame}" if self.instruction is None else f"@{self.frame}.{self.instruction}"
        return f"{location_name(self.location)}:{what}{at}"


@dataclass(frozen=True, order=True)
class Act:
    """Replace the action of one frame after the checkpoint (2.6).

    action: 0..17, another number raises VcsError. frame: frames after the checkpoint.
    """

    action: int
    frame: int = 0

    def __post_init__(self) -> None:
        checks.whole("the action", self.action, 0, 17)
        checks.whole("the frame", self.frame, 0)

    @property
    def name(self) -> str:
        """Short text for records."""
        return f"action:{self.action}@{self.frame}"


Intervention = Do | Act


def location_name(location: int) -> str:
    """Readable name of a location for records and messages."""
    if 0 <= location < 128:
        return f"ram[{location}]"
    if 128 <= location <= 138:
        return ("A", "X", "Y", "SP", "N", "V", "D", "I", "Z", "C", "PC")[location - 128]
    for base, end, name in (
        (TIA, 256, "tia"),
        (TIA_INNER, 320, "tia_inner"),
        (320, 336, "tia_read"),
        (RIOT, 352, "riot"),
        (352, 384, "input"),
        (CART, ROM, "cart"),
    ):
        if base <= location < end:
            return f"{name}[{location - base}]"
    return f"rom[{location - ROM}]"


@dataclass(frozen=True)
class Cause:
    """A named candidate cause: what it does, and what occluding it does (2.7).

    name: its text in records. do: the interventions. cell: the RAM cell it writes, -1 for others. concept:
    the published label of that cell, "" without one. A cause without occlusion (the joystick) leaves the
    machine alone when occluded.
    """

    name: str
    do: tuple[Intervention, ...]
    occlusion: tuple[Intervention, ...] = ()
    cell: int = -1
    concept: str = ""


def audit_causes(cells: Sequence[int], ram: Sequence[int], concepts: Mapping[int, str]) -> list[Cause]:
    """The 2k + 2 causes of k candidate cells (section 3), in protocol order.

    ram: the 128 bytes at the checkpoint.
    """
    causes = []
    for i in cells:
        gone = (Do(RAM + i, "set", 0),)
        concept = concepts.get(i, "")
        causes.append(
            Cause(f"ram[{i}]:set", (Do(RAM + i, "set", (int(ram[i]) + 17) % 256),), gone, i, concept)
        )
        causes.append(Cause(f"ram[{i}]:occlude", gone, gone, i, concept))
    causes.append(Cause("tia[COLUBK]:set", (Do(COLUBK, "set", 14),), (Do(COLUBK, "set", 0),)))
    causes.append(Cause("joystick:RIGHT", (Act(RIGHT),)))
    return causes

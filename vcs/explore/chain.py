"""The way back from what is seen: from a pixel or a RAM byte through stores and loads to ROM, RAM and
inputs.

It follows values, not derivatives: the instruction that stored a byte, the register it stored, the
instruction that loaded that register, and so on to a byte of ROM, an input port, or a byte that was there
when the trace began. Where a byte was picked by an index or a pointer, the way back from that is followed
too (`via` "address"). Flags and branches, which decide whether an instruction runs at all, are left out:
the gradient and the oracle have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from vcs import asm, gradient, layout
from vcs.demo import OBJECTS, instruction
from vcs.errors import VcsError
from vcs.explore.tape import position
from vcs.trace import READ, WROTE, Trace

DEEP: Final = 20  # instructions followed along one way
MOST: Final = 48  # links of a whole chain

# register -> mnemonics that write it; register -> mnemonics that also use its old value
_WRITES: Final = {
    "A": "LDA LAX TXA TYA PLA ADC SBC AND ORA EOR ANC ASR ARR ANE LXA RLA RRA SLO SRE ISB LAS",
    "X": "LDX LAX TAX TSX INX DEX SBX LXA LAS",
    "Y": "LDY TAY INY DEY",
    "SP": "TXS LAS SHS",
}
_USES: Final = {
    "A": "ADC SBC AND ORA EOR ANC ASR ARR ANE LXA RLA RRA SLO SRE ISB",
    "X": "INX DEX SBX",
    "Y": "INY DEY",
    "SP": "LAS",
}
_MOVES: Final = {"TXA": "X", "TYA": "Y", "TAX": "A", "TAY": "A", "TSX": "SP", "TXS": "X"}
_STORES: Final = {"STA": "A", "STX": "X", "STY": "Y", "PHA": "A", "SAX": "AX"}
_COUNTS: Final = ("INX", "DEX", "INY", "DEY")
_SHIFTS: Final = ("ASL", "LSR", "ROL", "ROR")
_COLUMN: Final = {"A": "a", "X": "x", "Y": "y", "SP": "sp"}
_MODES: Final = [op.mode for op in asm.OPCODES]
_NAMES: Final = [op.mnemonic for op in asm.OPCODES]


def _codes(register: str) -> Any:
    names = _WRITES[register].split()
    return np.array(
        [
            op.code
            for op in asm.OPCODES
            if op.mnemonic in names
            or (register == "A" and op.mnemonic in _SHIFTS and op.mode == "accumulator")
        ],
        np.uint8,
    )


_CODES: Final = {register: _codes(register) for register in _WRITES}
# object of `Trace.winner` -> its number among P0 P1 M0 M1 BL
_MOVABLE: Final = {3: 0, 5: 1, 4: 2, 6: 3, 2: 4}


@dataclass
class Link:
    """One step of a chain.

    text: the instruction, or what is found at the end of the way. via: "value" or "address". location: name
    of the place read or written, if any; value: its byte. end: why the way ends here ("ROM", "start",
    "input", "chip", "more"), "" if it goes on. row: the row of `Trace.instr`, -1 for none. pc, bank, frame,
    line, clock: where and when that instruction ran. times: how often it ran in a row (a counting loop).
    links: the steps before it.
    """

    text: str
    via: str = "value"
    location: str = ""
    value: int | None = None
    end: str = ""
    row: int = -1
    pc: int = -1
    bank: int = 0
    frame: int = 0
    line: int = 0
    clock: int = 0
    times: int = 1
    links: list[Link] = field(default_factory=list)


def _link(trace: Trace, k: int, via: str) -> Link:
    row = trace.instr[k]
    line, clock = position(trace, k)
    return Link(
        instruction(trace, k).split(" ", 1)[1],
        via,
        row=k,
        pc=int(row["pc"]),
        bank=int(row["bank"]),
        frame=int(row["frame"]),
        line=line,
        clock=clock,
    )


class _Walk:
    """Looks backwards through a trace. left: links that the present chain may still have."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.left = MOST
        rows = trace.instr
        self.writers = {
            name: np.flatnonzero(np.isin(rows["opcode"], codes)) for name, codes in _CODES.items()
        }
        self.stores = np.flatnonzero(rows["flags"] & WROTE)
        self.places = rows["ea_loc"][self.stores]

    def _writer(self, register: str, k: int) -> int:
        """The last row before k that wrote a register, -1 for none."""
        at = int(np.searchsorted(self.writers[register], k))
        return int(self.writers[register][at - 1]) if at else -1

    def _store(self, location: int, k: int) -> int:
        """The last row before k that wrote a byte of memory, -1 for none."""
        found = np.flatnonzero(self.places[: int(np.searchsorted(self.stores, k))] == location)
        return int(self.stores[found[-1]]) if len(found) else -1

    def register(self, name: str, k: int, via: str, depth: int) -> list[Link]:
        """The way back from a register as it was before instruction k."""
        j = self._writer(name, k)
        if j < 0:
            value = int(self.trace.x0[layout.parse(name)])
            return [Link(f"{name} when the trace began", via, name, value, "start")]
        return self._instruction(j, name, via, depth)

    def _instruction(self, j: int, writes: str, via: str, depth: int) -> list[Link]:
        """The way back from instruction j, which wrote a register or (writes "") memory."""
        if depth >= DEEP or self.left <= 0:
            return [Link("further back", via, end="more")]
        self.left -= 1
        link = _link(self.trace, j, via)
        if writes and j + 1 < len(self.trace.instr):
            link.value = int(self.trace.instr[_COLUMN[writes]][j + 1])
        if writes and _NAMES[int(self.trace.instr["opcode"][j])] in _COUNTS:
            j, link.times = self._loop(j, writes)
        row = self.trace.instr[j]
        name, mode = _NAMES[int(row["opcode"])], _MODES[int(row["opcode"])]
        if writes:
            link.location = writes
            if name in _USES[writes].split() or mode == "accumulator":
                link.links += self.register(writes, j, via, depth + 1)
            if name in _MOVES:
                link.links += self.register(_MOVES[name], j, via, depth + 1)
            elif mode == "immediate":
                link.links += self.place(int(row["loc1"]), int(row["b1"]), j, via, depth + 1)
            elif int(row["flags"]) & READ:
                link.links += self.place(int(row["ea_loc"]), int(row["rd"]), j, via, depth + 1)
                link.links += self._address(j, mode, depth + 1)
        else:
            link.value, link.location = int(row["wr"]), self._name(int(row["ea_loc"]))
            for register in _STORES.get(name, ""):
                link.links += self.register(register, j, via, depth + 1)
            if int(row["flags"]) & READ:
                link.links += self.place(int(row["ea_loc"]), int(row["rd"]), j, via, depth + 1)
        return [link]

    def _loop(self, j: int, register: str) -> tuple[int, int]:
        """The first of the equal counting instructions that wrote the register one after the other, and how
        many."""
        column = self.trace.instr["opcode"]
        rows = self.writers[register]
        rows = rows[: int(np.searchsorted(rows, j + 1))]
        other = np.flatnonzero(column[rows] != column[j])
        same = rows[int(other[-1]) + 1 :] if len(other) else rows
        return int(same[0]), len(same)

    def _address(self, j: int, mode: str, depth: int) -> list[Link]:
        """The ways back from the index and the pointer that picked what instruction j read."""
        row = self.trace.instr[j]
        links: list[Link] = []
        for index in ("X", "Y"):
            if f",{index}" in mode:
                links += self.register(index, j, "address", depth)
        if mode == "(indirect),Y":
            low = int(row["ptr0"])
            byte = (int(row["ea"]) - int(row["y"])) & 0xFF
            links += self.place(low, byte, j, "address", depth)
        return links

    @staticmethod
    def _name(location: int) -> str:
        return layout.name(location) if location >= 0 else "unmapped"

    def place(self, location: int, value: int, k: int, via: str, depth: int) -> list[Link]:
        """The way back from a byte that instruction k read: the store before it, or where it has always
        been."""
        name = self._name(location)
        if location >= layout.ROM:
            return [Link("a byte of the cartridge", via, name, value, "ROM")]
        if layout.RAM <= location < layout.RAM_SIZE or layout.CART <= location < layout.ROM:
            j = self._store(location, k)
            if j >= 0:
                return self._instruction(j, "", via, depth)
            return [Link("there when the trace began", via, name, value, "start")]
        if layout.RIOT <= location < layout.INPUT or location in (layout.TIA_R + 12, layout.TIA_R + 13):
            return [Link("a port or the timer, read by the program", via, name, value, "input")]
        return [Link("read from a chip", via, name, value, "chip")]

    def store(self, row: int) -> list[Link]:
        """The way back from a write to a TIA register: row of `Trace.tia`, -1 for before the trace."""
        self.left = MOST
        if row < 0:
            return [Link("set before the trace began: look further back", end="start")]
        write = self.trace.tia[row]
        k = int(write["instr"])
        link = _link(self.trace, k, "value")
        frame = int(self.trace.instr["frame"][k])
        link.line, link.clock = divmod(int(write["clock"]), 228)
        link.frame, link.location = frame, layout.TIA_W_NAMES[int(write["reg"])]
        link.value = int(write["value"])
        for register in _STORES.get(_NAMES[int(self.trace.instr["opcode"][k])], ""):
            link.links += self.register(register, k, "value", 1)
        return [link]


def _last(trace: Trace, register: str, before: int) -> int:
    found = np.flatnonzero(trace.tia["reg"][:before] == layout.TIA_W_NAMES.index(register))
    return int(found[-1]) if len(found) else -1


def _shape(trace: Trace, winner: int, segment: int, column: int) -> str:
    """The graphics register that holds a pixel's bit, "" for the background."""
    if winner in (3, 5):
        return ("GRP0", "GRP1")[winner == 5]
    if winner in (4, 6):
        return ("ENAM0", "ENAM1")[winner == 6]
    if winner == 2:
        return "ENABL"
    if winner in (1, 7, 8):
        bit = column // 4 % 20
        if column >= 80 and trace.segments["reflect"][segment]:
            bit = 19 - bit
        return "PF0" if bit < 4 else "PF1" if bit < 12 else "PF2"
    return ""


def pixel(trace: Trace, row: int, column: int) -> dict[str, Any]:
    """What drew a pixel of a trace's last frame, and the ways back from its colour, shape and position.

    Returns a dict: object (text), code (of `Trace.winner`), colour (palette index), register (of the colour),
    instruction (the row during which it was drawn), position (of a movable object), and chains (name -> list
    of `Link`). Raises VcsError for a pixel that does not exist.
    """
    _, height, width = trace.screens.shape
    if not (0 <= row < height and 0 <= column < width):
        raise VcsError(f"there is no pixel {row},{column}: rows go to {height - 1}, columns to {width - 1}")
    winner = int(trace.winner[-1, row, column])
    answer: dict[str, Any] = {
        "row": row,
        "column": column,
        "code": winner,
        "object": OBJECTS[winner],
        "colour": int(trace.screens[-1, row, column]),
        "register": "",
        "instruction": -1,
        "chains": {},
    }
    if winner == 255:
        return answer
    found = gradient.origin(trace, gradient.Pixel(row, column))
    seg = trace.segments[found.segment]
    before = int(seg["tia"])
    answer["register"], answer["instruction"] = found.register, int(seg["instr"])
    walk = _Walk(trace)
    chains: dict[str, list[Link]] = {"colour": walk.store(found.write)}
    shape = _shape(trace, winner, found.segment, column)
    if shape:
        limit = before
        old = {"GRP0": ("GRP1", 0), "GRP1": ("GRP0", 1), "ENABL": ("GRP1", 2)}.get(shape)
        if old and seg["vdel"][old[1]]:  # the delayed copy was taken when the other register was written
            limit = max(_last(trace, old[0], before), 0)
        chains[f"shape ({shape})"] = walk.store(_last(trace, shape, limit))
    if winner in _MOVABLE:
        n = _MOVABLE[winner]
        name = ("P0", "P1", "M0", "M1", "BL")[n]
        answer["position"] = int(seg["pos"][n])
        chains[f"motion (HM{name})"] = walk.store(_last(trace, f"HM{name}", before))
        chains[f"placed by RES{name}"] = walk.store(_last(trace, f"RES{name}", before))
        placed = chains[f"placed by RES{name}"][0]
        placed.value, placed.links = None, []  # a strobe: when it was written counts, not what
    answer["chains"] = chains
    return answer


def cell(trace: Trace, location: int) -> list[Link]:
    """The way back from what a RAM or cartridge RAM byte holds when the trace ends."""
    value = trace.x1[location] if location < layout.CART else trace.cart1[location - layout.CART]
    return _Walk(trace).place(location, int(value), len(trace.instr), "value", 0)

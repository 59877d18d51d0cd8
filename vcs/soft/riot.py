"""RIOT of the soft machine: ports and timer (riot.md; `vcs/_hard/riot.pxi` is its twin). RAM is in
`replay.py`,
because it needs no code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vcs import layout, trace
from vcs.soft.ops import Cell, plain

if TYPE_CHECKING:
    from vcs.soft.replay import Run

_SHIFTS: Final = (0, 3, 6, 10)  # TIM1T TIM8T TIM64T T1024T
_AT_ONCE: Final = 0xFFFFFFFF  # of `_elapsed`: in the cycle of the write, where only an opcode can be fetched
# SWCHA bit -> input line: right port up down left right, then left port (riot.md 3)
_PORT_A: Final = (5, 6, 7, 8, 0, 1, 2, 3)
# the lines of SWCHB: RESET, SELECT, colour, difficulty left, right
_PORT_B: Final = (11, 10, 12, 13, 14)


class Riot:
    def __init__(self, run: Run, swacnt: Any, timer: Any) -> None:
        x0 = run.x0
        self.run = run
        self.op = run.op
        self.swacnt = swacnt
        self.timer = timer  # the byte written
        self.shift = x0[layout.TIMER + 1]
        self.set_at = x0[trace.TIMER_SET]
        self.read_at = x0[trace.TIMER_READ_AT]
        self.was_read = bool(x0[trace.TIMER_READ])

    def rebase(self, cycles: int) -> None:
        """The cycle counter was restarted `cycles` cycles after its old zero (riot.md 1.3)."""
        self.set_at -= cycles
        self.read_at -= cycles

    def read(self, location: int) -> Any:
        """A port or timer register read at the trace's current instruction."""
        register = location - layout.RIOT
        if register == 0:
            return self.op.port_a(*[self.run.line(k) for k in _PORT_A])
        if register == 1:
            return self.swacnt
        if register == 2:
            return self.op.port_b(*[self.run.line(k) for k in _PORT_B])
        if register == 3:
            return Cell(0)
        return self._intim() if register == 4 else self._instat()

    def _elapsed(self) -> tuple[int, int]:
        """Cycles after the one that follows the write, and how many of them the timer runs."""
        since = (self.run.access_cycle() - self.set_at - 1) & 0xFFFFFFFF
        return since, plain(self.timer) << self.shift

    def _intim(self) -> Any:
        since, length = self._elapsed()
        if since == _AT_ONCE:
            return Cell(length & 255)
        if since < length:
            return self.op.intim(self.timer, since >> self.shift)
        excess = since - length
        if excess == 0:
            return Cell(0xFF)
        if not self.was_read:
            self.was_read = True
            self.read_at = self.run.access_cycle()
        frozen = self.read_at - self.set_at - length
        return Cell(-(excess >> self.shift) - frozen & 255)

    def _instat(self) -> Any:
        since, length = self._elapsed()
        return Cell(0x80 if since >= length and not self.was_read else 0)

    def write(self, location: int, address: int, value: Any) -> None:
        if location == layout.RIOT + 1:
            self.swacnt = value
        elif location == layout.TIMER:
            self.timer = value
            self.shift = _SHIFTS[address & 3]
            self.set_at = self.run.access_cycle()
            self.was_read = False

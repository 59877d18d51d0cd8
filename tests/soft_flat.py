"""One instruction of the soft CPU on a flat memory, for tests: the bus of `Cpu`, without a trace."""

from __future__ import annotations

from typing import Any

from vcs.soft.cpu import OPCODES, Cpu
from vcs.soft.ops import Cell, plain
from vcs.soft.rules import rule_set

Registers = tuple[int, int, int, int, int, int]
OPERATIONS = rule_set("value")


class FlatBus:
    """What `Cpu` asks of a run, answered from 64 KiB."""

    full = False
    alpha = 10.0

    def __init__(self, mem: Any, registers: Registers, alpha: float = 10.0) -> None:
        self.op = OPERATIONS
        self.alpha = alpha
        self.mem = mem
        self.written: list[tuple[int, int]] = []
        self.changed: dict[int, int] = {}
        self.pc = registers[5]
        self.ea = self._effective(registers)

    def read(self, address: int) -> int:
        """A byte of memory, as this instruction has changed it."""
        address &= 0xFFFF
        return self.changed.get(address, self.mem[address])

    def _word(self, low: int, high: int) -> int:
        return self.read(low) | self.read(high) << 8

    def _effective(self, registers: Registers) -> int:
        _, x, y, _, _, pc = registers
        b1 = self.read(pc + 1)
        mode = OPCODES[self.read(pc)].mode
        if mode.startswith("zeropage"):
            return b1 + {"X": x, "Y": y}.get(mode[-1], 0) & 255
        if mode.startswith("absolute"):
            return (b1 | self.read(pc + 2) << 8) + {"X": x, "Y": y}.get(mode[-1], 0) & 0xFFFF
        if mode == "(indirect,X)":
            return self._word(b1 + x & 255, (b1 + x & 255) + 1)
        if mode == "(indirect),Y":
            return self._word(b1, b1 + 1) + y & 0xFFFF
        return pc + 1 & 0xFFFF

    def operand(self) -> Cell:
        return Cell(self.read(self.ea))

    def target(self) -> tuple[Cell, Cell]:
        if OPCODES[self.read(self.pc)].mode == "indirect":
            return self.pointer()
        low = Cell(self.read(self.pc + 1))
        return low, Cell(self.read(self.pc + 2))

    def pointer(self) -> tuple[Cell, Cell]:
        if self.read(self.pc) == 0:
            return Cell(self.read(0xFFFE)), Cell(self.read(0xFFFF))
        at = self._word(self.pc + 1, self.pc + 2)
        return Cell(self.read(at)), Cell(self.read(at & 0xFF00 | at + 1 & 0xFF))

    def idle(self) -> None:
        pass

    def cell_stepped(self) -> int:
        return -1  # no increments to put together: one instruction runs

    def address(self) -> int:
        return self.ea

    def return_address(self) -> int:
        return self.pc + 2 & 0xFFFF

    def push(self, sp: int, value: Any) -> None:
        self._write(0x100 + sp, value)

    def pull(self, sp: int, n: int) -> Cell:
        return Cell(self.read(0x100 + sp))

    def store(self, value: Any) -> None:
        self._write(self.ea, value)

    def _write(self, address: int, value: Any) -> None:
        self.written.append((address, plain(value)))
        self.changed[address] = plain(value)


def execute(mem: Any, registers: Registers, alpha: float = 10.0) -> tuple[Registers, list[tuple[int, int]]]:
    """Registers (A X Y SP P PC) after one instruction, and (address, value) of every store, in order."""
    a, x, y, sp, p, pc = registers
    bus = FlatBus(mem, registers, alpha)
    cells = [Cell(v) for v in (a, x, y, sp)]
    flags = [Cell(p >> k & 1) for k in (7, 6, 3, 2, 1, 0)]
    cpu = Cpu(bus, cells, flags, Cell(pc))  # type: ignore[arg-type]
    cpu.step(bus.read(pc))
    after = (plain(cpu.a), plain(cpu.x), plain(cpu.y), plain(cpu.sp), cpu.packed(), cpu.plain_pc())
    return after, bus.written

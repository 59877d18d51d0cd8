"""The 6507 of the soft machine: every opcode as primitives (cpu.md; `vcs/_hard/cpu.pxi` is its twin).

Models registers, flags as real-valued state, the stack, decimal mode and the undocumented instructions.
Which instruction runs and which cell it addresses are decisions of the trace; what it computes is computed
here. Left out: time, which the trace holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vcs.data import load_csv
from vcs.soft.ops import Cell, plain

if TYPE_CHECKING:
    from vcs.soft.replay import Run


class Opcode(NamedTuple):
    """A row of `vcs/data/opcodes.csv`."""

    mnemonic: str
    mode: str
    length: int
    cycles: int
    penalty: bool  # one more cycle if the index leaves the page


OPCODES: Final = tuple(
    Opcode(row["mnemonic"], row["mode"], int(row["bytes"]), int(row["cycles"]), row["page_penalty"] == "1")
    for row in load_csv("opcodes.csv")
)

# flag and sense of each branch: +1 branch if set, -1 branch if clear
_BRANCHES: Final = {
    "BMI": ("n", 1),
    "BPL": ("n", -1),
    "BVS": ("v", 1),
    "BVC": ("v", -1),
    "BCS": ("c", 1),
    "BCC": ("c", -1),
    "BEQ": ("z", 1),
    "BNE": ("z", -1),
}
ZERO: Final = Cell(0)
ONE: Final = Cell(1)


class Cpu:
    """Registers and flags, each a Cell, boxed or not, and one method per instruction."""

    def __init__(self, run: Run, registers: list[Any], flags: list[Any], pc: Any) -> None:
        self.run = run
        self.op = run.op
        # by place ("x", "y" or a RAM cell): what it held before the increments in a row, and how many
        self.steps: dict[str | int, tuple[Any, int]] = {}
        self.a, self.x, self.y, self.sp = registers
        self.n, self.v, self.d, self.i, self.z, self.c = flags
        self._pc = pc
        self._ahead = 0  # bytes executed since _pc was set: one node a jump instead of one an instruction

    @property
    def x(self) -> Any:
        return self._x

    @x.setter
    def x(self, value: Any) -> None:
        self.steps.pop("x", None)
        self._x = value

    @property
    def y(self) -> Any:
        return self._y

    @y.setter
    def y(self, value: Any) -> None:
        self.steps.pop("y", None)
        self._y = value

    @property
    def pc(self) -> Any:
        if self._ahead:
            self._pc = self.op.advance(self._pc, self._ahead)
            self._ahead = 0
        return self._pc

    def plain_pc(self) -> int:
        return plain(self._pc) + self._ahead & 0xFFFF

    def packed(self) -> int:
        """P as an int."""
        return (
            plain(self.n) << 7
            | plain(self.v) << 6
            | 0x30
            | plain(self.d) << 3
            | plain(self.i) << 2
            | plain(self.z) << 1
            | plain(self.c)
        )

    def step(self, opcode: int) -> None:
        """Execute the trace's current instruction."""
        handler, length = _TABLE[opcode]
        self._ahead += length
        handler(self)

    # ------------------------------------------------------------------------------ helpers

    def nz(self, r: Any) -> None:
        self.n = self.op.bit(r, 7)
        self.z = self.op.zero(r)

    def adc(self, m: Any) -> None:
        op, a, c, d = self.op, self.a, self.c, plain(self.d)
        self.v = op.add_overflow(a, m, c, d)
        self.c = op.add_carry(a, m, c, d)
        self.a = op.add(a, m, c, d)
        self.nz(self.a)

    def sbc(self, m: Any) -> None:
        op, a, c, d = self.op, self.a, self.c, plain(self.d)
        self.v = op.sub_overflow(a, m, c, d)
        self.c = op.sub_carry(a, m, c, d)
        self.a = op.sub(a, m, c, d)
        self.nz(self.a)

    def compare(self, reg: Any, m: Any) -> None:
        self.c = self.op.not_less(reg, m)
        self.nz(self.op.difference(reg, m))

    def stepped(self, place: str | int, held: Any, by: int) -> Any:
        """What a place holds after one more increment (by = 1) or decrement of what it held."""
        base, n = self.steps.get(place, (held, 0))
        self.steps[place] = base, n + by
        return self.op.stepped(base, n + by)

    def _step_x(self, by: int) -> None:
        self._x = self.stepped("x", self._x, by)
        self.nz(self._x)

    def _step_y(self, by: int) -> None:
        self._y = self.stepped("y", self._y, by)
        self.nz(self._y)

    def asl(self, u: Any) -> Any:
        self.c = self.op.bit(u, 7)
        return self.op.shift_left(u, 0)

    def rol(self, u: Any) -> Any:
        r = self.op.shift_left(u, self.c)
        self.c = self.op.bit(u, 7)
        return r

    def lsr(self, u: Any) -> Any:
        self.c = self.op.bit(u, 0)
        return self.op.shift_right(u, 0)

    def ror(self, u: Any) -> Any:
        r = self.op.shift_right(u, self.c)
        self.c = self.op.bit(u, 0)
        return r

    def push(self, value: Any) -> None:
        self.run.push(plain(self.sp), value)
        self.sp = self.op.decrement(self.sp)

    def pull(self, n: int = 0) -> Any:
        """The n-th byte that the instruction pulls."""
        self.sp = self.op.increment(self.sp)
        return self.run.pull(plain(self.sp), n)

    def push_return(self) -> None:
        """The return address is an address: it carries no derivative (docs/gradients.md 1.6)."""
        back = self.run.return_address()
        self.push(Cell(back >> 8))
        self.push(Cell(back & 255))

    def jump(self, low: Any, high: Any, offset: int = 0) -> None:
        self._pc = self.op.word(low, high, offset)
        self._ahead = 0

    def unpack(self, p: Any) -> None:
        self.n, self.v, self.d, self.i, self.z, self.c = (self.op.bit(p, k) for k in (7, 6, 3, 2, 1, 0))

    def branch(self, name: str, sense: int) -> None:
        """A conditional branch on the flag `name`, which it pins: from here on this path knows its value."""
        run = self.run
        flag = getattr(self, name)
        self._ahead -= 2
        gate = self.op.relaxed_branch if run.full else self.op.branch
        self._pc = gate(self.pc, flag, run.operand(), sense, run.alpha)
        setattr(self, name, Cell(plain(flag)))

    def high_of_address(self) -> int:
        """H of SHA, SHX, SHY: one more than the address's high byte, 0 where that is 256 (cpu.md 9)."""
        return (self.run.address() >> 8) + 1 & 0xFF

    # ------------------------------------------------------------------------------ instructions
    def LDA(self) -> None:
        self.a = self.run.operand()
        self.nz(self.a)

    def LDX(self) -> None:
        self.x = self.run.operand()
        self.nz(self.x)

    def LDY(self) -> None:
        self.y = self.run.operand()
        self.nz(self.y)

    def LAX(self) -> None:
        self.a = self.x = self.run.operand()
        self.nz(self.a)

    def STA(self) -> None:
        self.run.store(self.a)

    def STX(self) -> None:
        self.run.store(self.x)

    def STY(self) -> None:
        self.run.store(self.y)

    def SAX(self) -> None:
        self.run.store(self.op.and_(self.a, self.x))

    def TAX(self) -> None:
        self.x = self.a
        self.nz(self.x)

    def TAY(self) -> None:
        self.y = self.a
        self.nz(self.y)

    def TXA(self) -> None:
        self.a = self.x
        self.nz(self.a)

    def TYA(self) -> None:
        self.a = self.y
        self.nz(self.a)

    def TSX(self) -> None:
        self.x = self.sp
        self.nz(self.x)

    def TXS(self) -> None:
        self.sp = self.x

    def ADC(self) -> None:
        self.adc(self.run.operand())

    def SBC(self) -> None:
        self.sbc(self.run.operand())

    def CMP(self) -> None:
        self.compare(self.a, self.run.operand())

    def CPX(self) -> None:
        self.compare(self.x, self.run.operand())

    def CPY(self) -> None:
        self.compare(self.y, self.run.operand())

    def AND(self) -> None:
        self.a = self.op.and_(self.a, self.run.operand())
        self.nz(self.a)

    def ORA(self) -> None:
        self.a = self.op.or_(self.a, self.run.operand())
        self.nz(self.a)

    def EOR(self) -> None:
        self.a = self.op.xor(self.a, self.run.operand())
        self.nz(self.a)

    def BIT(self) -> None:
        m = self.run.operand()
        self.z = self.op.zero(self.op.and_(self.a, m))
        self.n = self.op.bit(m, 7)
        self.v = self.op.bit(m, 6)

    def _modify(self, change: Callable[[Any], Any]) -> Any:
        """Read-modify-write of memory."""
        r = change(self.run.operand())
        self.run.store(r)
        return r

    def _step_memory(self, by: int) -> Any:
        """INC and DEC of memory."""
        run = self.run
        place = run.cell_stepped()
        if place < 0:
            return self._modify(self.op.increment if by > 0 else self.op.decrement)
        r = self.stepped(place, run.operand(), by)
        chain = self.steps[place]
        run.store(r)  # which ends a chain
        self.steps[place] = chain
        return r

    def INC(self) -> None:
        self.nz(self._step_memory(1))

    def DEC(self) -> None:
        self.nz(self._step_memory(-1))

    def INX(self) -> None:
        self._step_x(1)

    def INY(self) -> None:
        self._step_y(1)

    def DEX(self) -> None:
        self._step_x(-1)

    def DEY(self) -> None:
        self._step_y(-1)

    def ASL(self) -> None:
        self.nz(self._modify(self.asl))

    def ROL(self) -> None:
        self.nz(self._modify(self.rol))

    def LSR(self) -> None:
        self.nz(self._modify(self.lsr))

    def ROR(self) -> None:
        self.nz(self._modify(self.ror))

    def _accumulator(self, change: Callable[[Any], Any]) -> None:
        self.a = change(self.a)
        self.nz(self.a)

    def ASL_A(self) -> None:
        self._accumulator(self.asl)

    def ROL_A(self) -> None:
        self._accumulator(self.rol)

    def LSR_A(self) -> None:
        self._accumulator(self.lsr)

    def ROR_A(self) -> None:
        self._accumulator(self.ror)

    def PHA(self) -> None:
        self.push(self.a)

    def _flags(self) -> Any:
        return self.op.flags_byte(self.n, self.v, self.d, self.i, self.z, self.c)

    def PHP(self) -> None:
        self.push(self._flags())

    def PLA(self) -> None:
        self.a = self.pull()
        self.nz(self.a)

    def PLP(self) -> None:
        self.unpack(self.pull())

    def JMP(self) -> None:
        self.jump(*self.run.target())

    def JSR(self) -> None:
        self.push_return()
        self.jump(*self.run.target())

    def RTS(self) -> None:
        low = self.pull()
        self.jump(low, self.pull(1), 1)

    def RTI(self) -> None:
        self.unpack(self.pull())
        low = self.pull(1)
        self.jump(low, self.pull(2))

    def BRK(self) -> None:
        self.push_return()
        self.push(self._flags())
        self.i = ONE
        self.jump(*self.run.pointer())

    def CLC(self) -> None:
        self.c = ZERO

    def SEC(self) -> None:
        self.c = ONE

    def CLD(self) -> None:
        self.d = ZERO

    def SED(self) -> None:
        self.d = ONE

    def CLI(self) -> None:
        self.i = ZERO

    def SEI(self) -> None:
        self.i = ONE

    def CLV(self) -> None:
        self.v = ZERO

    def NOP(self) -> None:
        self.run.idle()

    def KIL(self) -> None:
        """Stops the processor: nothing moves after it."""

    # ------------------------------------------------------------------------------ undocumented (cpu.md 9)
    def SLO(self) -> None:
        self.a = self.op.or_(self.a, self._modify(self.asl))
        self.nz(self.a)

    def RLA(self) -> None:
        self.a = self.op.and_(self.a, self._modify(self.rol))
        self.nz(self.a)

    def SRE(self) -> None:
        self.a = self.op.xor(self.a, self._modify(self.lsr))
        self.nz(self.a)

    def RRA(self) -> None:
        self.adc(self._modify(self.ror))

    def DCP(self) -> None:
        self.compare(self.a, self._step_memory(-1))

    def ISB(self) -> None:
        self.sbc(self._step_memory(1))

    def ANC(self) -> None:
        self.AND()
        self.c = self.n

    def ASR(self) -> None:
        self._accumulator(lambda a: self.lsr(self.op.and_(a, self.run.operand())))

    def ARR(self) -> None:
        op, d, c = self.op, plain(self.d), self.c
        t = op.and_(self.a, self.run.operand())
        self.a = op.arr_a(t, c, d)
        self.n, self.v, self.z, self.c = (f(t, c, d) for f in (op.arr_n, op.arr_v, op.arr_z, op.arr_c))

    def ANE(self) -> None:
        op = self.op
        self.a = op.and_(op.and_(op.or_(self.a, 0xEE), self.x), self.run.operand())
        self.nz(self.a)

    def LXA(self) -> None:
        self.a = self.x = self.op.and_(self.op.or_(self.a, 0xEE), self.run.operand())
        self.nz(self.a)

    def SBX(self) -> None:
        t, m = self.op.and_(self.a, self.x), self.run.operand()
        self.c = self.op.not_less(t, m)
        self.x = self.op.difference(t, m)
        self.nz(self.x)

    def LAS(self) -> None:
        self.a = self.x = self.sp = self.op.and_(self.sp, self.run.operand())
        self.nz(self.a)

    def SHA(self) -> None:
        self.run.store(self.op.and_(self.op.and_(self.a, self.x), self.high_of_address()))

    def SHS(self) -> None:
        self.sp = self.op.and_(self.a, self.x)
        self.run.store(self.op.and_(self.sp, self.high_of_address()))

    def SHX(self) -> None:
        self.run.store(self.op.and_(self.x, self.high_of_address()))

    def SHY(self) -> None:
        self.run.store(self.op.and_(self.y, self.high_of_address()))


def _branching(name: str, sense: int) -> Callable[[Cpu], None]:
    return lambda cpu: cpu.branch(name, sense)


def _handler(opcode: Opcode) -> Callable[[Cpu], None]:
    if opcode.mnemonic in _BRANCHES:
        return _branching(*_BRANCHES[opcode.mnemonic])
    name = opcode.mnemonic + ("_A" if opcode.mode == "accumulator" else "")
    handler: Callable[[Cpu], None] = getattr(Cpu, name)
    return handler


_TABLE: Final = tuple((_handler(opcode), opcode.length) for opcode in OPCODES)

"""Generates cpu.pxi, the 6507 of the hard engine, from vcs/data/opcodes.csv.

Models cpu.md: the whole base cost is charged after the opcode fetch, accesses follow in the order of
section 5. One source gives five functions, so that what a specialisation does not need costs nothing:

* ``run_plain``   the machine as it is, for code in the fast window of the cartridge (cart.pxi); it returns
                  where the program counter leaves that window,
* ``run_slow``    the same for code anywhere, with the data-bus latch kept after every access,
* ``run_traced``  the same, recording every instruction (trace.pxi),
* ``run_relaxed`` branches and ROM/RAM reads relaxed and rounded (relax.pxi),
* ``run_flat``    a 64 KiB flat memory with an access log, for the instruction vectors.

Registers, flags and the cycle counter live in C locals during a batch; N and Z are kept as the byte
they were last set from (``nz``), with bit 8 for an N that this byte does not show (BIT, PLP).
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

MODES = {
    "implied": "imp",
    "accumulator": "acc",
    "immediate": "imm",
    "relative": "rel",
    "zeropage": "zp",
    "zeropage,X": "zpx",
    "zeropage,Y": "zpy",
    "absolute": "abs",
    "absolute,X": "abx",
    "absolute,Y": "aby",
    "indirect": "ind",
    "(indirect,X)": "izx",
    "(indirect),Y": "izy",
}

# bytes of an instruction by its addressing mode
BYTES = {
    "imp": 1,
    "acc": 1,
    "imm": 2,
    "rel": 2,
    "zp": 2,
    "zpx": 2,
    "zpy": 2,
    "izx": 2,
    "izy": 2,
    "abs": 3,
    "abx": 3,
    "aby": 3,
    "ind": 3,
}

READ = {
    "LDA",
    "LDX",
    "LDY",
    "LAX",
    "ADC",
    "SBC",
    "AND",
    "ORA",
    "EOR",
    "CMP",
    "CPX",
    "CPY",
    "BIT",
    "NOP",
    "ANC",
    "ASR",
    "ARR",
    "ANE",
    "LXA",
    "SBX",
    "LAS",
}
WRITE = {"STA": "a", "STX": "x", "STY": "y", "SAX": "a & x"}
STORE_HIGH = {"SHA": "a & x & high", "SHS": "a & x & high", "SHX": "x & high", "SHY": "y & high"}
RMW = {"ASL", "LSR", "ROL", "ROR", "INC", "DEC", "SLO", "RLA", "SRE", "RRA", "DCP", "ISB"}
BRANCH = {
    "BPL": "nz & 0x180 == 0",
    "BMI": "nz & 0x180 != 0",
    "BVC": "v == 0",
    "BVS": "v != 0",
    "BCC": "c == 0",
    "BCS": "c != 0",
    "BNE": "nz & 0xFF != 0",
    "BEQ": "nz & 0xFF == 0",
}
FLAG = {
    "CLC": "c = 0",
    "SEC": "c = 1",
    "CLI": "i = 0",
    "SEI": "i = 1",
    "CLV": "v = 0",
    "CLD": "d = 0",
    "SED": "d = 1",
}
MOVE = {
    "TAX": ("x", "a"),
    "TXA": ("a", "x"),
    "TAY": ("y", "a"),
    "TYA": ("a", "y"),
    "TSX": ("x", "sp"),
    "INX": ("x", "(x + 1) & 0xFF"),
    "INY": ("y", "(y + 1) & 0xFF"),
    "DEX": ("x", "(x - 1) & 0xFF"),
    "DEY": ("y", "(y - 1) & 0xFF"),
}

ADC = [
    "if d:",
    "    t = adc_decimal(a, val, c)",
    "    a = t & 0xFF",
    "    c = (t >> 8) & 1",
    "    v = (t >> 9) & 1",
    "else:",
    "    t = a + val + c",
    "    v = (~(a ^ val) & (a ^ t)) & 0x80",
    "    c = t >> 8",
    "    a = t & 0xFF",
    "nz = a",
]
SBC = [
    "if d:",
    "    t = sbc_decimal(a, val, c)",
    "    a = t & 0xFF",
    "    c = (t >> 8) & 1",
    "    v = (t >> 9) & 1",
    "else:",
    "    val ^= 0xFF",
    "    t = a + val + c",
    "    v = (~(a ^ val) & (a ^ t)) & 0x80",
    "    c = t >> 8",
    "    a = t & 0xFF",
    "nz = a",
]


def compare(reg: str, operand: str = "val") -> list[str]:
    return [f"t = {reg} - {operand}", f"c = 1 if {reg} >= {operand} else 0", "nz = t & 0xFF"]


BODY: dict[str, list[str]] = {
    "LDA": ["nz = a = val"],
    "LDX": ["nz = x = val"],
    "LDY": ["nz = y = val"],
    "LAX": ["nz = a = x = val"],
    "ADC": ADC,
    "SBC": SBC,
    "AND": ["nz = a = a & val"],
    "ORA": ["nz = a = a | val"],
    "EOR": ["nz = a = a ^ val"],
    "CMP": compare("a"),
    "CPX": compare("x"),
    "CPY": compare("y"),
    "BIT": ["nz = (a & val) | ((val & 0x80) << 1)", "v = val & 0x40"],
    "NOP": [],
    "ANC": ["nz = a = a & val", "c = a >> 7"],
    "ASR": ["t = a & val", "c = t & 1", "nz = a = t >> 1"],
    "ANE": ["nz = a = (a | 0xEE) & x & val"],
    "LXA": ["nz = a = x = (a | 0xEE) & val"],
    "SBX": ["t = a & x", "c = 1 if t >= val else 0", "nz = x = (t - val) & 0xFF"],
    "LAS": ["nz = a = x = sp = sp & val"],
    "ARR": [
        "t = a & val",
        "nz = a = (t >> 1) | (c << 7)",
        "if d == 0:",
        "    c = (a >> 6) & 1",
        "    v = ((a >> 6) ^ (a >> 5)) & 1",
        "else:",
        "    v = (t ^ a) & 0x40",
        "    if (t & 0x0F) + (t & 1) > 5:",
        "        a = (a & 0xF0) | ((a + 6) & 0x0F)",
        "    if (t & 0xF0) + (t & 0x10) > 0x50:",
        "        c = 1",
        "        a = (a + 0x60) & 0xFF",
        "    else:",
        "        c = 0",
    ],
}

# read-modify-write: (what gives r from val, what follows the write)
MODIFY: dict[str, tuple[list[str], list[str]]] = {
    "ASL": (["c = val >> 7", "r = (val << 1) & 0xFF"], ["nz = r"]),
    "LSR": (["c = val & 1", "r = val >> 1"], ["nz = r"]),
    "ROL": (["r = ((val << 1) | c) & 0xFF", "c = val >> 7"], ["nz = r"]),
    "ROR": (["r = (val >> 1) | (c << 7)", "c = val & 1"], ["nz = r"]),
    "INC": (["r = (val + 1) & 0xFF"], ["nz = r"]),
    "DEC": (["r = (val - 1) & 0xFF"], ["nz = r"]),
    "SLO": (["c = val >> 7", "r = (val << 1) & 0xFF"], ["nz = a = a | r"]),
    "RLA": (["r = ((val << 1) | c) & 0xFF", "c = val >> 7"], ["nz = a = a & r"]),
    "SRE": (["c = val & 1", "r = val >> 1"], ["nz = a = a ^ r"]),
    "RRA": (["r = (val >> 1) | (c << 7)", "c = val & 1"], ["val = r", *ADC]),
    "DCP": (["r = (val - 1) & 0xFF"], compare("a", "r")),
    "ISB": (["r = (val + 1) & 0xFF"], ["val = r", *SBC]),
}

# run_plain jumps from the end of an instruction straight to the next one's code where the compiler has
# labels as values: each opcode then has a jump of its own for the processor to learn. The table of labels is
# copied into the machine, where one instruction reads it (from position-independent code it takes three).
# Elsewhere the loop's switch does it. Where the code of the window ends is read from the machine each time:
# an access that asks to stop, or changes the mapping, sets it to 0 (leave_window), and nothing has to be
# asked after each access.
THREADED = '''cdef extern from *:
    """
    #if defined(__GNUC__)
    #define VCS_LABELS(ops) \\
        static const void *const vcs_ops[256] = {@ops@}; \\
        if ((ops)[0] == NULL) memcpy((void *)(ops), vcs_ops, sizeof(vcs_ops));
    #define VCS_LABEL(op) vcs_op_##op: ;
    #define VCS_GO(op, ops) goto *(ops)[op];
    #define VCS_INSIDE(p, end) 0 /* VCS_NEXT has asked */
    #define VCS_NEXT(p, end, budget, ops) \\
        if (__builtin_expect((p) < (end), 1) && __builtin_expect(--(budget) >= 0, 1)) \\
            goto *(ops)[*(const uint8_t *)(p)];
    #else
    #define VCS_LABELS(ops)
    #define VCS_LABEL(op)
    #define VCS_GO(op, ops)
    #define VCS_INSIDE(p, end) ((p) < (end))
    #define VCS_NEXT(p, end, budget, ops)
    #endif
    """
    void VCS_LABELS(const void**) noexcept nogil
    void VCS_LABEL(int) noexcept nogil
    void VCS_GO(uint32_t, const void**) noexcept nogil
    bint VCS_INSIDE(uint64_t, uint64_t) noexcept nogil
    void VCS_NEXT(uint64_t, uint64_t, int32_t, const void**) noexcept nogil
'''

PACK = (
    "((nz | nz >> 1) & 0x80) | (0x40 if v else 0) | 0x30 | (d << 3) | (i << 2)"
    " | (2 if nz & 0xFF == 0 else 0) | c"
)
UNPACK = [
    "nz = ((t & 0x80) << 1) | ((t & 2) ^ 2)",
    "v = t & 0x40",
    "d = (t >> 3) & 1",
    "i = (t >> 2) & 1",
    "c = t & 1",
]


class Gen:
    """Emits one specialisation."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.out: list[str] = []
        self.ind = 0
        self.jumps = False

    def put(self, *lines: str) -> None:
        for line in lines:
            # run_plain keeps no latch: code in the window runs on into the window, so only a jump can reach
            # an opcode fetch that sees it, and jumps store it
            if self.kind in ("plain", "relaxed") and line.startswith("latch = "):
                if self.kind == "relaxed":
                    pass  # the hook keeps the exact bytes
                elif self.jumps:
                    self.out.append("    " * self.ind + "s.latch = <uint8_t>(" + line[8:] + ")")
                continue
            self.out.append("    " * self.ind + line if line else "")

    # -- bus accesses; `prev` is the byte on the bus before, which only a TIA read can see
    def rd(self, dst: str, ea: str, prev: str) -> None:
        if self.kind == "flat":
            self.put(f"{dst} = flat_read(f, {ea}, cyc)")
        elif self.kind == "relaxed":
            self.put(f"{dst} = relax_read(m, {ea}, cyc)")
        elif self.kind == "plain":
            self.put(
                f"e = {ea} - m.win_lo",
                "if e < m.win_span:",
                f"    {dst} = m.win_base[e]",
                "else:",
                f"    {dst} = bus_read(m, {ea}, {prev}, cyc)",
            )
        else:
            self.put(f"{dst} = bus_read(m, {ea}, {prev}, cyc)")

    def rdz(self, dst: str, ea: str, prev: str) -> None:
        """A read of page zero at ea < $100."""
        if self.kind in ("flat", "relaxed"):
            self.rd(dst, ea, prev)
        else:
            miss = f"{dst} = low_read(m, {ea}, {prev}, cyc)"
            self.ram_or(f"{ea} & 0x80", f"{dst} = s.ram[{ea} & 0x7F]", miss)

    def ram_or(self, inside: str, hit: str, *miss: str) -> None:
        """An access that `hit` does if it is `inside` RAM, and that else goes to the chips by `miss`."""
        self.put(f"if {inside}:", f"    {hit}", "else:")
        self.ind += 1
        self.put(*miss)
        self.event()
        self.ind -= 1

    def event(self) -> None:
        """After an access that may have ended the frame."""
        if self.kind != "plain":  # there leave_window sees to it
            self.put("if s.stop:", "    budget = 0")

    def wr(self, ea: str, val: str, zero_page: bool = False) -> None:
        if self.kind == "relaxed":
            self.put(f"m.relax_bus = {val}")
        if self.kind == "flat":
            self.put(f"flat_write(f, {ea}, {val}, cyc)")
        elif zero_page:
            miss = f"cyc = low_write(m, {ea}, {val}, cyc)"
            self.ram_or(f"{ea} & 0x80", f"s.ram[{ea} & 0x7F] = <uint8_t>({val})", miss)
        else:
            miss = f"cyc = bus_write(m, {ea}, {val}, cyc)"
            self.ram_or(f"({ea}) & 0x1280 == 0x80", f"s.ram[({ea}) & 0x7F] = <uint8_t>({val})", miss)

    def pull(self, dst: str, prev: str) -> None:
        """A read of the stack, which no specialisation relaxes."""
        if self.kind == "relaxed":
            self.put(f"{dst} = bus_read(m, 0x100 + sp, m.relax_bus, cyc)", f"m.relax_bus = {dst}")
        elif self.kind == "flat":
            self.rd(dst, "(0x100 + sp)", prev)
        else:
            miss = f"{dst} = bus_read(m, 0x100 + sp, {prev}, cyc)"
            self.ram_or("sp & 0x80", f"{dst} = s.ram[sp & 0x7F]", miss)

    def push(self, val: str, after_write: bool = False) -> None:
        if self.kind == "relaxed":
            self.put(f"m.relax_bus = {val}")
        if self.kind == "flat":
            self.put(f"flat_write(f, 0x100 + sp, {val}, cyc)")
        else:
            miss = [f"cyc = bus_write(m, 0x100 + sp, {val}, cyc)"]
            if after_write:
                miss = ["m.after_write = 1", *miss, "m.after_write = 0"]
            self.ram_or("sp & 0x80", f"s.ram[sp & 0x7F] = <uint8_t>({val})", *miss)
        self.put("sp = (sp - 1) & 0xFF")

    # -- the program counter; run_plain keeps it as p, the place in memory: pc = p + m.win_bias
    def byte(self, offset: int) -> str:
        """The byte `offset` bytes after the program counter (run_plain)."""
        return f"(<const uint8_t*>p)[{offset}]"

    def at(self, offset: int) -> str:
        """The address `offset` bytes after the program counter."""
        return (
            f"((<uint32_t>p + m.win_bias + {offset}) & 0xFFFF)"
            if self.kind == "plain"
            else f"((pc + {offset}) & 0xFFFF)"
        )

    def advance(self, size: int) -> None:
        self.put(f"p += {size}" if self.kind == "plain" else f"pc = (pc + {size}) & 0xFFFF")

    def jump(self, target: str) -> None:
        # an address below the window gives a place far behind its end
        self.put(
            f"p = <uint64_t>m.win_base + <uint32_t>(({target}) - m.win_lo)"
            if self.kind == "plain"
            else f"pc = {target}"
        )

    def trace(self, *lines: str) -> None:
        if self.kind == "traced":
            self.put(*lines)

    # -- addressing
    def pointer(self, prev: str = "b1") -> None:
        """lo, hi at p and p + 1 (a word sum: $FF takes its high byte from $0100)."""
        if self.kind in ("flat", "relaxed"):
            self.rd("lo", "p0", prev)
            self.rd("hi", "(p0 + 1)", "lo")
        else:
            self.put(
                "if p0 - 0x80 < 0x7F:",
                "    lo = s.ram[p0 & 0x7F]",
                "    hi = s.ram[(p0 + 1) & 0x7F]",
                "else:",
                f"    lo = bus_read(m, p0, {prev}, cyc)",
                "    hi = bus_read(m, p0 + 1, lo, cyc)",
            )
        self.trace("rec.ptr0 = bus_loc(m, p0, False)", "rec.ptr1 = bus_loc(m, p0 + 1, False)")

    def address(self, mode: str, penalty: bool) -> str:
        """Computes ea; returns the byte that was on the bus last."""
        index = {"zpx": "x", "zpy": "y", "abx": "x", "aby": "y", "izy": "y"}.get(mode, "")
        if mode == "zp":
            self.put("ea = b1")
            return "b1"
        if mode in ("zpx", "zpy"):
            self.put(f"ea = (b1 + {index}) & 0xFF")
            return "b1"
        if mode == "abs":
            self.put("ea = b1 | (b2 << 8)")
            return "b2"
        if mode in ("abx", "aby"):
            self.put("t = b1 | (b2 << 8)", f"ea = t + {index}")
            self.cross(penalty)
            return "b2"
        if mode == "izx":
            self.put("p0 = (b1 + x) & 0xFF")
            self.pointer()
            self.put("ea = lo | (hi << 8)")
            return "hi"
        assert mode == "izy", mode
        self.put("p0 = b1")
        self.pointer()
        self.put("t = lo | (hi << 8)", "ea = t + y")
        self.cross(penalty)
        return "hi"

    def cross(self, penalty: bool) -> None:
        if penalty:
            self.put("if (t ^ ea) & 0x1FF00:", "    cyc += 1")
            self.trace("    rec.flags |= 2")
        self.put("ea &= 0xFFFF")

    def instruction(self, op: int, name: str, mode: str, cycles: int, penalty: bool) -> None:
        put = self.put
        zero = mode in ("zp", "zpx", "zpy")
        self.jumps = name in BRANCH or name in ("JMP", "JSR", "RTS", "RTI", "BRK", "KIL")
        if name == "KIL":
            self.advance(1)
            put("cyc += 2")
            put("f.jam = 1" if self.kind == "flat" else "s.jam = 1", f"latch = 0x{op:02X}", "budget = 0")
            return
        put(f"cyc += {cycles}")
        size = BYTES[mode]
        if self.kind == "plain" and (size > 1 or name == "BRK"):
            put(f"b1 = {self.byte(1)}")
            if size > 2:
                put(f"b2 = {self.byte(2)}")
        if name in READ and mode != "imp":
            if mode == "imm":
                self.advance(2)
                put("val = b1")
            else:
                self.advance(size)
                prev = self.address(mode, penalty)
                if self.kind == "plain" and op in (0xAD, 0xAE, 0xAC, 0x2C):
                    put(
                        "if ea == 0x284 and m.opt & 2:",
                        f"    t = skip_timer_loop(m, {self.at(0)}, {0 if op != 0x2C else 1}, cyc, budget)",
                        "    cyc += t * m.loop_cycles",
                        "    budget -= <int32_t>(2 * t)",
                    )
                (self.rdz if zero else self.rd)("val", "ea", prev)
                self.trace(
                    "rec.ea = <uint16_t>ea",
                    "rec.ea_loc = bus_loc(m, ea, False)",
                    "rec.rd = <uint8_t>val",
                    "rec.flags |= 4",
                )
            put("latch = val")
            put(*BODY[name])
        elif name in WRITE or name in STORE_HIGH:
            self.advance(size)
            self.address(mode, False)
            if name in STORE_HIGH:
                put("high = (ea >> 8) + 1")
                if name == "SHS":
                    put("sp = a & x")
            put(f"val = {(WRITE | STORE_HIGH)[name]}")
            self.trace(
                "rec.ea = <uint16_t>ea",
                "rec.ea_loc = bus_loc(m, ea, True)",
                "rec.wr = <uint8_t>val",
                "rec.flags |= 8",
            )
            self.wr("ea", "val", zero)
            put("latch = val")
        elif name in RMW:
            before, after = MODIFY[name]
            self.advance(size)
            if mode == "acc":
                put("val = a", *before, "a = r", f"latch = 0x{op:02X}", *after)
                return
            prev = self.address(mode, False)
            (self.rdz if zero else self.rd)("val", "ea", prev)
            self.trace("rec.ea = <uint16_t>ea", "rec.ea_loc = bus_loc(m, ea, True)", "rec.rd = <uint8_t>val")
            put(*before)
            self.trace("rec.wr = <uint8_t>r", "rec.flags |= 12")
            self.wr("ea", "r", zero)
            put("latch = r", *after)
        elif name in BRANCH:
            self.advance(2)
            put("latch = b1")
            if self.kind == "relaxed":
                put(
                    f"cond = {BRANCH[name]}",
                    "t = relax_branch(m, pc, b1, cond)",
                    "if cond:",
                    "    ea = (pc + b1 + (0xFF00 if b1 & 0x80 else 0)) & 0xFFFF",
                    "    cyc += 2 if (ea ^ pc) & 0xFF00 and not m.relax_mode & RELAX_DROP_CYCLE else 1",
                    "pc = t",
                )
                return
            if self.kind == "plain":
                # out of the window the loop's top wraps it to 16 bits
                put(
                    f"if {BRANCH[name]}:",
                    "    t = <uint32_t>p + m.win_bias",
                    "    p += <uint64_t><int64_t><int8_t>b1",
                    "    cyc += 1 + (((t ^ (t + <int8_t>b1)) >> 8) & 1)",
                    "    if p < <uint64_t>m.win_base:",
                    "        m.win_end = 0",
                )
                return
            put(
                f"if {BRANCH[name]}:",
                "    t = (pc + b1 + (0xFF00 if b1 & 0x80 else 0)) & 0xFFFF",
                "    cyc += 2 if (t ^ pc) & 0xFF00 else 1",
                "    pc = t",
            )
            self.trace("    rec.flags |= 1")
        elif name in FLAG:
            self.advance(1)
            put(f"latch = 0x{op:02X}", FLAG[name])
        elif name in MOVE:
            dst, src = MOVE[name]
            self.advance(1)
            put(f"latch = 0x{op:02X}", f"nz = {dst} = {src}")
        elif name == "TXS":
            self.advance(1)
            put(f"latch = 0x{op:02X}", "sp = x")
        elif name == "NOP":
            self.advance(1)
            put(f"latch = 0x{op:02X}")
        elif name in ("PHA", "PHP"):
            self.advance(1)
            put(f"val = {'a' if name == 'PHA' else PACK}")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, True)",
                "rec.wr = <uint8_t>val",
                "rec.flags |= 8",
            )
            self.push("val")
            put("latch = val")
        elif name in ("PLA", "PLP"):
            self.advance(1)
            self.pull("t", f"0x{op:02X}")
            put("sp = (sp + 1) & 0xFF")
            self.pull("val", "t")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, False)",
                "rec.rd = <uint8_t>val",
                "rec.flags |= 4",
            )
            put("latch = val")
            put(*(["nz = a = val"] if name == "PLA" else ["t = val", *UNPACK]))
        elif name == "JMP":
            put("t = b1 | (b2 << 8)")
            if mode == "abs":
                self.jump("t")
                put("latch = b2")
            else:
                self.rd("lo", "t", "b2")
                self.trace("rec.ptr0 = bus_loc(m, t, False)")
                put("p0 = (t & 0xFF00) | ((t + 1) & 0xFF)")
                self.rd("hi", "p0", "lo")
                self.trace("rec.ptr1 = bus_loc(m, p0, False)")
                self.jump("lo | (hi << 8)")
                put("latch = hi")
        elif name == "JSR":
            self.pull("t", "b1")
            put(f"t = {self.at(2)}")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, True)",
                "rec.wr = <uint8_t>(t >> 8)",
                "rec.flags |= 8",
            )
            self.push("t >> 8")
            self.push("t & 0xFF", after_write=True)
            if self.kind == "flat":
                self.rd("b2", "((pc + 2) & 0xFFFF)", "t")
            elif self.kind != "plain":
                # from ROM the byte cannot have changed; elsewhere the pushes may just have written it
                relaxed = self.kind == "relaxed"
                if not relaxed:
                    put("if slow:")
                self.ind += not relaxed
                self.rd("b2", "((pc + 2) & 0xFFFF)", "t & 0xFF")
                self.trace("rec.b2 = <uint8_t>b2")
                self.ind -= not relaxed
            self.jump("b1 | (b2 << 8)")
            put("latch = b2")
        elif name == "RTS":
            self.pull("t", f"0x{op:02X}")
            put("sp = (sp + 1) & 0xFF")
            self.pull("lo", "t")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, False)",
                "rec.rd = <uint8_t>lo",
                "rec.flags |= 4",
            )
            put("sp = (sp + 1) & 0xFF")
            self.pull("hi", "lo")
            put("t = lo | (hi << 8)")
            self.rd("r", "t", "hi")
            put("latch = r")
            self.jump("(t + 1) & 0xFFFF")
        elif name == "RTI":
            self.pull("t", f"0x{op:02X}")
            put("sp = (sp + 1) & 0xFF")
            self.pull("val", "t")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, False)",
                "rec.rd = <uint8_t>val",
                "rec.flags |= 4",
            )
            put("sp = (sp + 1) & 0xFF")
            self.pull("lo", "val")
            put("sp = (sp + 1) & 0xFF")
            self.pull("hi", "lo")
            put("t = val", *UNPACK)
            self.jump("lo | (hi << 8)")
            put("latch = hi")
        elif name == "BRK":
            put(f"t = {self.at(2)}")
            self.trace(
                "rec.ea = <uint16_t>(0x100 + sp)",
                "rec.ea_loc = bus_loc(m, 0x100 + sp, True)",
                "rec.wr = <uint8_t>(t >> 8)",
                "rec.flags |= 8",
            )
            self.push("t >> 8")
            self.push("t & 0xFF", after_write=True)
            put(f"val = {PACK}")
            self.push("val", after_write=True)
            put("i = 1")
            self.rd("lo", "0xFFFE", "val")
            self.trace("rec.ptr0 = bus_loc(m, 0xFFFE, False)")
            self.rd("hi", "0xFFFF", "lo")
            self.trace("rec.ptr1 = bus_loc(m, 0xFFFF, False)")
            self.jump("lo | (hi << 8)")
            put("latch = hi")
        else:
            raise ValueError(f"opcode {op:02X}: no rule for {name} {mode}")

    def fetch(self) -> None:
        put = self.put
        if self.kind == "flat":
            put(
                "op = flat_read(f, pc, cyc)",
                "b1 = b2 = 0",
                "if OP_BYTES[op] > 1:",
                "    b1 = flat_read(f, (pc + 1) & 0xFFFF, cyc + OP_BASE[op])",
                "if OP_BYTES[op] > 2 and op != 0x20:",
                "    b2 = flat_read(f, (pc + 2) & 0xFFFF, cyc + OP_BASE[op])",
            )
            return
        slow = [
            "slow = True",
            "op = bus_read(m, pc, latch, cyc)",
            "b1 = b2 = 0",
            "if OP_BYTES[op] > 1:",
            "    b1 = bus_read(m, (pc + 1) & 0xFFFF, op, cyc + OP_BASE[op])",
            "if OP_BYTES[op] > 2 and op != 0x20:",
            "    b2 = bus_read(m, (pc + 2) & 0xFFFF, b1, cyc + OP_BASE[op])",
        ]
        if self.kind == "relaxed":
            put(
                "op = relax_read(m, pc, cyc)",
                "b1 = b2 = 0",
                "if OP_BYTES[op] > 1:",
                "    b1 = relax_read(m, (pc + 1) & 0xFFFF, cyc + OP_BASE[op])",
                "if OP_BYTES[op] > 2 and op != 0x20:",
                "    b2 = relax_read(m, (pc + 2) & 0xFFFF, cyc + OP_BASE[op])",
            )
            return
        if self.kind == "plain":
            put(
                "if budget <= 0 or s.stop:",
                "    break",
                "if not VCS_INSIDE(p, m.win_end):",
                "    pc = (<uint32_t>p + m.win_bias) & 0xFFFF",
                "    if not code_window(m, pc):",
                "        break",
                "    p = <uint64_t>m.win_base + (pc - m.win_lo)",
                "    m.win_end = <uint64_t>m.win_base + m.win_span",
                "    m.win_bias = m.win_lo - <uint32_t><uint64_t>m.win_base",
                "budget -= 1",
                f"op = {self.byte(0)}",
                "VCS_GO(op, m.ops)",
            )
            return
        put(
            "t = (pc & 0xFFF) - m.fast_lo",
            "if pc & 0x1000 and t < m.fast_n and t + 2 < m.fast_n and (pc & 0x3FF) < 0x3FE:",
        )
        self.ind += 1
        put(
            "code = m.seg[((pc >> 10) & 3) | ((pc >> 11) & 4)] + (pc & 0x3FF)",
            "op = code[0]",
            "b1 = code[1]",
            "b2 = code[2]",
            "slow = False",
        )
        self.ind -= 1
        put("else:")
        self.ind += 1
        put(*slow)
        self.ind -= 1

    def function(self, table: list[tuple[int, str, str, int, bool]]) -> str:
        put = self.put
        if self.kind == "flat":
            put("cdef void run_flat(Flat* f, int32_t budget) noexcept nogil:")
        else:
            put(f"cdef int32_t run_{self.kind}(VCS* m, int32_t budget) noexcept nogil:")
        self.ind += 1
        if self.kind == "flat":
            put("cdef Flat* s = f", "cdef uint32_t latch = 0")
        else:
            put("cdef State* s = &m.s")
            if self.kind == "plain":
                # addresses m.win_lo <= a < m.win_lo + m.win_span read m.win_base[a - m.win_lo]
                put("cdef uint64_t p = s.pc", "cdef uint32_t e")
            else:
                if self.kind != "relaxed":
                    put("cdef const uint8_t* code")
                    put("cdef bint slow", "cdef uint32_t latch = s.latch")
        if self.kind == "relaxed":
            put("cdef bint cond", "m.relax_bus = s.latch", "m.rx_span = 0", "m.event = 0")
        put(
            "cdef uint32_t pc = s.pc, cyc = s.cycles, a = s.a, x = s.x, y = s.y, sp = s.sp",
            "cdef uint32_t c = s.p & 1, v = s.p & 0x40, d = (s.p >> 3) & 1, i = (s.p >> 2) & 1",
            "cdef uint32_t nz = ((s.p & 0x80) << 1) | ((s.p & 2) ^ 2)",
            "cdef uint32_t op",
            "cdef uint32_t b1 = 0, b2 = 0, ea = 0, val = 0, t = 0, r = 0, p0 = 0, lo = 0, hi = 0, high = 0",
        )
        if self.kind == "traced":
            put("cdef Instr* rec")
        put("if s.jam:", "    return" if self.kind == "flat" else "    return 0")
        if self.kind == "plain":
            put("m.win_span = 0", "m.win_end = 0", "m.win_bias = 0", "VCS_LABELS(m.ops)", "while True:")
        else:
            put("while budget > 0:", "    budget -= 1")
            if self.kind == "relaxed":
                put("    if m.event:", "        m.event = 0", "        m.rx_span = 0")
        self.ind += 1
        self.fetch()
        if self.kind == "traced":
            put("rec = trace_next(m, pc, op, b1, b2, cyc)")
            put(
                "rec.a = <uint8_t>a",
                "rec.x = <uint8_t>x",
                "rec.y = <uint8_t>y",
                "rec.sp = <uint8_t>sp",
                f"rec.p = <uint8_t>({PACK})",
            )
        first = True
        for op, name, mode, cycles, penalty in table:
            put(f"{'if' if first else 'elif'} op == 0x{op:02X}:  # {name} {mode}")
            first = False
            self.ind += 1
            if self.kind == "plain":
                put(f"VCS_LABEL(0x{op:02X})")
            self.instruction(op, name, mode, cycles, penalty)
            if self.kind == "plain":
                put("VCS_NEXT(p, m.win_end, budget, m.ops)")
            self.ind -= 1
        self.ind -= 1
        put(
            "s.pc = <uint16_t>(<uint32_t>p + m.win_bias)" if self.kind == "plain" else "s.pc = <uint16_t>pc",
            "s.cycles = cyc",
            "s.a = <uint8_t>a",
            "s.x = <uint8_t>x",
            "s.y = <uint8_t>y",
            "s.sp = <uint8_t>sp",
            f"s.p = <uint8_t>({PACK})",
        )
        if self.kind == "relaxed":
            put("s.latch = <uint8_t>m.relax_bus")
        elif self.kind != "plain":
            put("s.latch = <uint8_t>latch")
        if self.kind != "flat":
            put("return budget")
        self.ind -= 1
        put("")
        return "\n".join(self.out)


def load_table(path: Path) -> list[tuple[int, str, str, int, bool]]:
    rows = []
    with path.open(newline="") as f:
        for row in csv.DictReader(f):
            rows.append(
                (
                    int(row["opcode"], 16),
                    row["mnemonic"],
                    MODES[row["mode"]],
                    int(row["cycles"]),
                    row["page_penalty"] == "1",
                )
            )
    return sorted(rows)


def generate(table: list[tuple[int, str, str, int, bool]]) -> str:
    # the number of bytes FETCHED: BRK reads and drops one
    fetched = [2 if name == "BRK" else BYTES[mode] for _, name, mode, _, _ in table]
    head = [
        "# Generated by gen_cpu.py from vcs/data/opcodes.csv; do not edit.",
        "",
        "cdef uint8_t* OP_BYTES = [" + ", ".join(map(str, fetched)) + "]",
        "cdef uint8_t* OP_BASE = [" + ", ".join(str(r[3]) for r in table) + "]",
        "",
        THREADED.replace("@ops@", ", ".join(f"&&vcs_op_0x{r[0]:02X}" for r in table)),
    ]
    return (
        "\n".join(head)
        + "\n"
        + "\n\n".join(Gen(kind).function(table) for kind in ("plain", "slow", "traced", "relaxed", "flat"))
    )


def main(argv: list[str]) -> int:
    out = Path(argv[1]) if len(argv) > 1 else HERE / "cpu.pxi"
    text = generate(load_table(HERE.parent / "data" / "opcodes.csv"))
    if not out.exists() or out.read_text() != text:
        tmp = out.with_suffix(".tmp")
        tmp.write_text(text)
        tmp.replace(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The collapsed machine of the published ports, restated from soft.md 7 and relaxation.md 3.

A 6502 on a bus without TIA: every address outside the cartridge and the RIOT's ports is RAM[a & 0x7F], the
timer never
ticks, SWCHA and SWCHB read 255, BRK stays where it is, page crossings cost nothing. Only the documented
opcodes are
here; the ports' undocumented ones are not executed by the games of the study, and act as one-byte no-ops
(what they do
with $D7, which decides the rows with T >= 0.18).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np

from vcs.data import load_csv

START: Final = (0, 0, 0, 0xFD, 0x34)


@cache
def _opcodes() -> dict[int, tuple[str, str]]:
    return {
        int(r["opcode"], 16): (r["mnemonic"], r["mode"])
        for r in load_csv("opcodes.csv")
        if r["documented"] == "yes"
    }


class Collapsed:
    """One machine; `alpha` and `temperature` None: exact. `step` runs one instruction."""

    def __init__(self, rom: bytes, alpha: float | None = None, temperature: float | None = None) -> None:
        self.rom = rom
        self.ram = bytearray(128)
        self.a, self.x, self.y, self.sp, self.p = START
        self.timer = 0
        self.alpha = alpha
        self.seen_rom = rom if temperature is None else self._relax(np.frombuffer(rom, np.uint8), temperature)
        self.temperature = temperature
        self.w = [] if temperature is None else [math.exp(-k / temperature) for k in range(128)]
        self.pc = rom[0xFFC % len(rom)] | rom[0xFFD % len(rom)] << 8
        self.wrong: tuple[str, int, int, int] | None = None

    @staticmethod
    def _relax(image: np.ndarray[tuple[int], np.dtype[np.uint8]], temperature: float) -> bytes:
        """The whole array as relaxed reads see it: softmax over all of it, no wrap; beyond 64 places weights
        are 0."""
        values = image.astype(np.float64)
        total = np.ones(len(values))
        mixed = values.copy()
        for k in range(1, 64):
            w = math.exp(-k / temperature)
            mixed[:-k] += w * values[k:]
            mixed[k:] += w * values[:-k]
            total[:-k] += w
            total[k:] += w
        return np.rint(mixed / total).astype(np.uint8).tobytes()

    def read(self, a: int) -> int:
        if a & 0x1000:
            return self.seen_rom[(a & 0xFFF) % len(self.rom)]
        if a & 0x280 == 0x280:
            r = a & 7
            return 255 if r in (0, 2) else 0 if r in (1, 3) else self.timer if not r & 1 else 0
        i = a & 0x7F
        if self.temperature is None:
            return self.ram[i]
        total = acc = 0.0
        for j in range(max(0, i - 24), min(128, i + 25)):
            w = self.w[abs(j - i)]
            total += w
            acc += w * self.ram[j]
        value = round(acc / total)
        if value != self.ram[i] and self.wrong is None:
            self.wrong = ("ram", a, self.ram[i], value)
        return value

    def write(self, a: int, v: int) -> None:
        if a & 0x1000:
            return
        if a & 0x280 == 0x280:
            if a & 0x14 == 0x14:
                self.timer = v
            return
        self.ram[a & 0x7F] = v

    def _nz(self, v: int) -> int:
        self.p = self.p & 0x7D | v & 0x80 | (2 if v == 0 else 0)
        return v

    def _add(self, m: int) -> None:
        c = self.p & 1
        if self.p & 8:
            t = 10 * (self.a >> 4) + (self.a & 15) + 10 * (m >> 4) + (m & 15) + c
            self.p = self.p & 0xFE | (t > 99)
            t %= 100
            self.a = self._nz(t // 10 << 4 | t % 10)
            return
        t = self.a + m + c
        v = ~(self.a ^ m) & (self.a ^ t) & 0x80
        self.p = self.p & 0xBE | (t > 255) | (0x40 if v else 0)
        self.a = self._nz(t & 0xFF)

    def _sub(self, m: int) -> None:
        if not self.p & 8:
            self._add(m ^ 0xFF)
            return
        t = 10 * (self.a >> 4) + (self.a & 15) - 10 * (m >> 4) - (m & 15) - 1 + (self.p & 1)
        self.p = self.p & 0xFE | (t >= 0)
        t %= 100
        self.a = self._nz(t // 10 << 4 | t % 10)

    def _push(self, v: int) -> None:
        self.write(0x100 + self.sp, v)
        self.sp = (self.sp - 1) & 0xFF

    def _pull(self) -> int:
        self.sp = (self.sp + 1) & 0xFF
        return self.read(0x100 + self.sp)

    def _compare(self, r: int, m: int) -> None:
        self.p = self.p & 0xFE | (r >= m)
        self._nz((r - m) & 0xFF)

    def _modify(self, name: str, m: int) -> int:
        c = self.p & 1
        if name == "INC":
            return self._nz((m + 1) & 0xFF)
        if name == "DEC":
            return self._nz((m - 1) & 0xFF)
        if name in ("ASL", "ROL"):
            self.p = self.p & 0xFE | m >> 7
            return self._nz((m << 1 | (c if name == "ROL" else 0)) & 0xFF)
        self.p = self.p & 0xFE | m & 1
        return self._nz(m >> 1 | (c << 7 if name == "ROR" else 0))

    def _word(self, a: int, wrap: int = 0xFFFF) -> int:
        return self.read(a) | self.read(a & ~wrap | (a + 1) & wrap) << 8

    def step(self) -> None:
        """One instruction."""
        pc = self.pc
        name, mode = _opcodes().get(self.read(pc), ("NOP", "implied"))
        if name == "BRK":
            return
        if mode == "relative":
            b = self.read((pc + 1) & 0xFFFF)
            self._branch(name, pc + 2, b - 256 if b > 127 else b)
            return
        ea = -1
        size = 1
        if mode == "immediate":
            ea, size = (pc + 1) & 0xFFFF, 2
        elif mode.startswith("zeropage"):
            index = self.x if mode.endswith("X") else self.y if mode.endswith("Y") else 0
            ea, size = (self.read((pc + 1) & 0xFFFF) + index) & 0xFF, 2
        elif mode.startswith("absolute"):
            index = self.x if mode.endswith("X") else self.y if mode.endswith("Y") else 0
            ea, size = (self._word((pc + 1) & 0xFFFF) + index) & 0xFFFF, 3
        elif mode == "indirect":
            ea, size = self._word(self._word((pc + 1) & 0xFFFF), 0xFF), 3
        elif mode == "(indirect,X)":
            ea, size = self._word((self.read((pc + 1) & 0xFFFF) + self.x) & 0xFF, 0xFF), 2
        elif mode == "(indirect),Y":
            ea, size = (self._word(self.read((pc + 1) & 0xFFFF), 0xFF) + self.y) & 0xFFFF, 2
        self.pc = (pc + size) & 0xFFFF
        self._execute(name, mode, ea, pc)

    def _branch(self, name: str, after: int, delta: int) -> None:
        bit, want = {
            "BPL": (0x80, 0),
            "BMI": (0x80, 1),
            "BVC": (0x40, 0),
            "BVS": (0x40, 1),
            "BCC": (1, 0),
            "BCS": (1, 1),
            "BNE": (2, 0),
            "BEQ": (2, 1),
        }[name]
        taken = bool(self.p & bit) == bool(want)
        exact = after + (delta if taken else 0)
        if self.alpha is not None:
            g = 1 / (1 + math.exp(-self.alpha if taken else self.alpha))
            relaxed = round(after + g * delta)
            if relaxed != exact and self.wrong is None:
                self.wrong = ("branch", after - 2, exact, relaxed)
            exact = relaxed
        self.pc = exact & 0xFFFF

    def _execute(self, name: str, mode: str, ea: int, pc: int) -> None:
        if name in ("LDA", "LDX", "LDY"):
            setattr(self, name[2].lower(), self._nz(self.read(ea)))
        elif name in ("STA", "STX", "STY"):
            self.write(ea, getattr(self, name[2].lower()))
        elif name in ("ADC", "SBC"):
            (self._add if name == "ADC" else self._sub)(self.read(ea))
        elif name in ("AND", "ORA", "EOR"):
            m = self.read(ea)
            self.a = self._nz(self.a & m if name == "AND" else self.a | m if name == "ORA" else self.a ^ m)
        elif name in ("CMP", "CPX", "CPY"):
            self._compare({"CMP": self.a, "CPX": self.x, "CPY": self.y}[name], self.read(ea))
        elif name == "BIT":
            m = self.read(ea)
            self.p = self.p & 0x3D | m & 0xC0 | (2 if self.a & m == 0 else 0)
        elif name in ("INC", "DEC", "ASL", "LSR", "ROL", "ROR"):
            if mode == "accumulator":
                self.a = self._modify(name, self.a)
            else:
                self.write(ea, self._modify(name, self.read(ea)))
        elif name in ("INX", "INY", "DEX", "DEY"):
            r = name[2].lower()
            setattr(self, r, self._nz((getattr(self, r) + (1 if name[0] == "I" else -1)) & 0xFF))
        elif name in ("TAX", "TAY", "TXA", "TYA", "TSX"):
            source = "sp" if name == "TSX" else name[1].lower()
            setattr(self, name[2].lower(), self._nz(getattr(self, source)))
        elif name == "TXS":
            self.sp = self.x
        elif name in ("CLC", "SEC", "CLI", "SEI", "CLV", "CLD", "SED"):
            bit = {"C": 1, "I": 4, "V": 0x40, "D": 8}[name[2]]
            self.p = self.p & ~bit | (bit if name[0] == "S" else 0)
        elif name == "JMP":
            self.pc = ea
        elif name == "JSR":
            self._push((pc + 2) >> 8 & 0xFF)
            self._push((pc + 2) & 0xFF)
            self.pc = ea
        elif name == "RTS":
            self.pc = ((self._pull() | self._pull() << 8) + 1) & 0xFFFF
        elif name == "RTI":
            self.p = self._pull() | 0x30
            self.pc = self._pull() | self._pull() << 8
        elif name in ("PHA", "PHP"):
            self._push(self.a if name == "PHA" else self.p | 0x30)
        elif name == "PLA":
            self.a = self._nz(self._pull())
        elif name == "PLP":
            self.p = self._pull() | 0x30


def run(rom: bytes, n: int) -> list[int]:
    """The PCs before the first n instructions of the exact collapsed machine."""
    m = Collapsed(rom)
    pcs = []
    for _ in range(n):
        pcs.append(m.pc)
        m.step()
    return pcs


def n_div(rom: bytes, alpha: float, temperature: float, n: int) -> int | None:
    """First instruction (from 1) after which PC or RAM of the relaxed collapsed machine differ; None within
    n."""
    exact, relaxed = Collapsed(rom), Collapsed(rom, alpha, temperature)
    for i in range(1, n + 1):
        exact.step()
        relaxed.step()
        if exact.pc != relaxed.pc or exact.ram != relaxed.ram:
            return i
    return None

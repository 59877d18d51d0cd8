"""Two passes over the source: the first fixes every length, so that labels get their values; the second
emits."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from vcs import checks
from vcs.asm.opcodes import ENCODING, MNEMONICS, OPERAND, REGISTERS
from vcs.errors import VcsError

LARGEST = 512 * 1024  # bytes of output, the largest cartridge

_NUMBER = re.compile(r"\$([0-9A-Fa-f]+)|%([01]+)|([0-9]+)|'(.)'?")
_NAME = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"(\.?[A-Za-z_][A-Za-z0-9_]*):?(?=\s|$|=)")
# binary operators, loosest first
_LEVELS: tuple[tuple[str, ...], ...] = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_BINARY: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a // b, "%": lambda a, b: a % b,
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a, "~": lambda a: ~a, "<": lambda a: a & 0xFF, ">": lambda a: a >> 8 & 0xFF,
}


class _Unknown(Exception):
    """A name whose value is not known (yet)."""


@dataclass(frozen=True)
class ListingLine:
    """What one source line became: address, emitted bytes, line number (from 1), source text."""

    address: int
    data: bytes
    number: int
    text: str

    def __str__(self) -> str:
        shown = self.data[:8].hex(" ") + (" .." if len(self.data) > 8 else "")
        return f"{self.number:5d}  {self.address:04X}  {shown:<27} {self.text}"


@dataclass(frozen=True)
class Program:
    """An assembled source.

    data: the bytes from `origin` to the last emitted one; places nobody wrote hold 0.
    origin: address of the first byte. symbols: labels and equates, local labels as `GLOBAL.local`.
    """

    data: bytes
    origin: int
    symbols: dict[str, int]
    listing: list[ListingLine] = field(repr=False)


class _Expression:
    """A recursive-descent reader of one expression."""

    def __init__(self, text: str, lookup: Callable[[str], int]) -> None:
        self.text, self.at, self.lookup, self.depth = text, 0, lookup, 0

    def value(self) -> int:
        result = self.binary(0)
        if self.peek():
            raise ValueError(f"cannot read {self.text[self.at:].strip()!r}")
        return result

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at:]

    def operator(self, choices: tuple[str, ...]) -> str | None:
        rest = self.peek()
        for choice in choices:
            # `<` and `>` alone are unary operators, never a beginning of a binary one here
            if rest.startswith(choice):
                self.at += len(choice)
                return choice
        return None

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while (op := self.operator(_LEVELS[level])) is not None:
            right = self.binary(level + 1)
            if op in "/%" and right == 0:
                raise ValueError("division by zero")
            if op in ("<<", ">>") and not 0 <= right <= 32:
                raise ValueError(f"a shift by {right} is out of range 0 to 32")
            left = _BINARY[op](left, right)
            if abs(left) > 0xFFFFFFFF:
                raise ValueError("a value does not fit in 32 bits")
        return left

    def unary(self) -> int:
        self.depth += 1
        if self.depth > 50:
            raise ValueError("the expression is nested too deeply")
        try:
            op = self.operator(tuple(_UNARY))
            return self.atom() if op is None else _UNARY[op](self.unary())
        finally:
            self.depth -= 1

    def atom(self) -> int:
        rest = self.peek()
        if rest.startswith("("):
            self.at += 1
            result = self.binary(0)
            if not self.peek().startswith(")"):
                raise ValueError("a ')' is missing")
            self.at += 1
            return result
        if rest.startswith("*"):
            self.at += 1
            return self.lookup("*")
        number = _NUMBER.match(rest)
        if number:
            self.at += number.end()
            hexadecimal, binary, decimal, character = number.groups()
            if len(number.group()) > 33:
                raise ValueError("a value does not fit in 32 bits")
            if hexadecimal:
                return int(hexadecimal, 16)
            if binary:
                return int(binary, 2)
            return int(decimal) if decimal else ord(character)
        name = _NAME.match(rest)
        if name:
            self.at += name.end()
            return self.lookup(name.group())
        raise ValueError(f"an expression is missing before {rest!r}" if rest else "an expression is missing")


def _strip(line: str) -> str:
    """The line without its comment; a `;` in quotes is kept."""
    quoted = False
    for i, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char == ";" and not quoted and line[i - 1:i] != "'":
            return line[:i].rstrip()
    return line.rstrip()


def _split(text: str) -> list[str]:
    """Arguments separated by commas outside quotes and brackets."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "()":
            depth += 1 if char == "(" else -1
        elif not quoted and depth == 0 and char == ",":
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


class _Assembler:
    def __init__(self, source: str, name: str) -> None:
        self.source, self.name = source.splitlines(), name
        self.symbols: dict[str, int] = {}
        self.modes: dict[int, str] = {}  # line -> the mode chosen in pass 1, kept so that lengths cannot move
        self.final = False

    def run(self) -> Program:
        self.one_pass()
        self.final = True
        self.one_pass()
        if not self.memory:
            raise VcsError(f"{self.name}: the source emits no byte: begin with `org $F000` and write "
                           "instructions")
        origin, end = min(self.memory), max(self.memory) + 1
        data = bytes(self.memory.get(a, 0) for a in range(origin, end))
        return Program(data, origin, dict(self.symbols), self.listing)

    def one_pass(self) -> None:
        self.pc, self.scope, self.emitting = 0, "", True
        self.memory: dict[int, int] = {}
        self.listing: list[ListingLine] = []
        self.defined: dict[str, int] = {}
        for number, text in enumerate(self.source, 1):
            self.number = number
            start = self.here = self.pc
            self.out = bytearray()
            try:
                stop = self.line(_strip(text))
                for i, byte in enumerate(self.out):
                    if self.final and self.memory.get(start + i) is not None:
                        raise ValueError(f"address ${start + i:04X} is written twice")
                    self.memory[start + i] = byte
            except (_Unknown, ValueError) as why:
                raise VcsError(f"{self.name}:{self.number}: {why}") from None
            if self.final:
                self.listing.append(ListingLine(start, bytes(self.out), self.number, text))
            if stop:
                break

    # --- one line

    def line(self, text: str) -> bool:
        """Process a line; True ends the source."""
        label = None
        if text and not text[0].isspace():
            found = _LABEL.match(text)
            if not found:
                raise ValueError(f"{text.split()[0]!r} is no label: a label starts with a letter, "
                                 "and an instruction is indented")
            label, text = found.group(1), text[found.end():]
        words = text.split(None, 1)
        head = words[0].lower() if words else ""
        rest = words[1].strip() if len(words) > 1 else ""
        if head.startswith("="):
            head, rest = "=", text.strip()[1:].strip()
        if head in ("=", "equ"):
            if label is None:
                raise ValueError("`=` needs a name before it")
            self.define(label, self.known(rest), at_label=False)
            return False
        if head == "org":
            self.pc = self.known(rest)
            if not 0 <= self.pc <= 0xFFFF:
                raise ValueError(f"org ${self.pc:X} is out of range $0 to $FFFF")
        if label is not None:
            self.define(label, self.pc, at_label=True)
        if not head or head == "org":
            return False
        if head == "end":
            return True
        directive = _DIRECTIVES.get(head)
        if directive:
            directive(self, rest)
        else:
            self.instruction(head, rest)
        return False

    def define(self, label: str, value: int, at_label: bool) -> None:
        if label.startswith("."):
            label = self.scope + label
        elif at_label:
            self.scope = label
        if label in self.defined:
            raise ValueError(f"{label} is defined twice")
        if label.upper() in MNEMONICS or label in REGISTERS:
            raise ValueError(f"{label} is the name of an instruction or register: choose another name")
        if self.final and self.symbols.get(label) != value:
            raise ValueError(f"{label} moved between the two passes: define the names it depends on earlier")
        self.defined[label] = self.symbols[label] = value

    def lookup(self, name: str) -> int:
        if name == "*":
            return self.here
        full = self.scope + name if name.startswith(".") else name
        if full in self.symbols:
            return self.symbols[full]
        if full in REGISTERS:
            return REGISTERS[full]
        raise _Unknown(f"{name} is not defined")

    def known(self, text: str) -> int:
        """The value of an expression that must not refer forwards: it decides lengths."""
        return _Expression(text, self.lookup).value()

    def later(self, text: str) -> int | None:
        """The value of an expression, or None if it is not known in the first pass."""
        try:
            return self.known(text)
        except _Unknown:
            if self.final:
                raise
            return None

    def emit(self, values: bytes) -> None:
        if not self.emitting:
            raise ValueError("a byte is emitted in a `seg.u`: only `ds` reserves space there, `seg` ends it")
        if self.pc + len(values) > 0x10000 or len(self.memory) > LARGEST:
            raise ValueError("the program runs past address $FFFF")
        self.out += values
        self.pc += len(values)

    def number_bytes(self, text: str, size: int) -> bytes:
        value = self.later(text)
        low, high = -(1 << 8 * size - 1), (1 << 8 * size) - 1
        if value is not None and not low <= value <= high:
            raise ValueError(f"{value} does not fit in {size} byte{'s' * (size > 1)} ({low} to {high})")
        return ((value or 0) & high).to_bytes(size, "little")

    # --- directives

    def bytes_(self, rest: str) -> None:
        for part in _split(rest):
            if len(part) > 1 and part[0] == part[-1] == '"':
                self.emit(part[1:-1].encode("ascii", "strict"))
            else:
                self.emit(self.number_bytes(part, 1))

    def words(self, rest: str) -> None:
        for part in _split(rest):
            self.emit(self.number_bytes(part, 2))

    def space(self, rest: str) -> None:
        count, fill = (*_split(rest), "0")[:2]
        self.fill(self.known(count), fill)

    def align(self, rest: str) -> None:
        step, fill = (*_split(rest), "0")[:2]
        to = self.known(step)
        if to < 1:
            raise ValueError("align needs a number of bytes from 1")
        self.fill(-self.pc % to, fill)

    def fill(self, count: int, fill: str) -> None:
        if not 0 <= count <= 0x10000:
            raise ValueError(f"{count} bytes of space are out of range 0 to 65536")
        if self.emitting:
            self.emit(self.number_bytes(fill, 1) * count)
        else:
            self.pc += count

    def segment(self, rest: str) -> None:
        self.emitting = True

    def unwritten(self, rest: str) -> None:
        self.emitting = False

    def processor(self, rest: str) -> None:
        if rest.lower() not in ("6502", "6507"):
            raise ValueError(f"processor {rest} is not known: this assembler writes 6502 code")

    # --- instructions

    def instruction(self, head: str, rest: str) -> None:
        name, _, width = head.partition(".")
        name = name.upper()
        if name not in MNEMONICS:
            raise ValueError(f"{head!r} is neither an instruction nor a directive (a label starts in column "
                             "1)")
        modes, expression = self.operand(name, rest, width)
        for mode in modes:
            if (name, mode) in ENCODING:
                break
        else:
            raise ValueError(f"{name} has no such operand: {rest or 'none given'}")
        opcode = ENCODING[name, mode]
        if mode == "relative":
            target = self.later(expression)
            distance = 0 if target is None else target - self.pc - 2
            if not -128 <= distance <= 127 and self.final:
                raise ValueError(f"the branch to ${target:04X} is {distance} bytes away, out of range -128 "
                                 "to 127")
            self.emit(bytes((opcode.code, distance & 0xFF)))
        else:
            size = OPERAND[mode]
            operand = self.number_bytes(expression, size) if size else b""
            self.emit(bytes((opcode.code,)) + operand)

    def operand(self, name: str, text: str, width: str) -> tuple[tuple[str, ...], str]:
        """The modes that fit the operand's form, best first, and its expression."""
        if width not in ("", "b", "z", "w", "a"):
            raise ValueError(f"unknown width .{width}: use .b for zero page or .w for absolute")
        if not text:
            return ("implied", "accumulator"), ""
        if text.upper() == "A":
            return ("accumulator",), ""
        if text.startswith("#"):
            return ("immediate",), text[1:]
        tight = re.sub(r"\s*([(),])\s*", r"\1", text)
        if tight.startswith("(") and tight.upper().endswith(",X)"):
            return ("(indirect,X)",), tight[1:-3]
        if tight.startswith("(") and tight.upper().endswith("),Y"):
            return ("(indirect),Y",), tight[1:-3]
        if (name, "indirect") in ENCODING and tight.startswith("(") and tight.endswith(")"):
            return ("indirect",), tight[1:-1]
        if (name, "relative") in ENCODING:
            return ("relative",), text
        index = tight[-2:].upper() if tight[-2:].upper() in (",X", ",Y") else ""
        expression = tight[:-2] if index else tight
        short, long = "zeropage" + index, "absolute" + index
        if width:
            return ((short,) if width in "bz" else (long,)), expression
        if self.number not in self.modes:
            value = self.later(expression)
            fits = value is not None and 0 <= value <= 0xFF and (name, short) in ENCODING
            fits = fits or (name, long) not in ENCODING
            self.modes[self.number] = short if fits else long
        return (self.modes[self.number],), expression


_DIRECTIVES: dict[str, Callable[[_Assembler, str], None]] = {
    ".byte": _Assembler.bytes_, "byte": _Assembler.bytes_, "dc": _Assembler.bytes_, "dc.b": _Assembler.bytes_,
    ".word": _Assembler.words, "word": _Assembler.words, "dc.w": _Assembler.words,
    "ds": _Assembler.space, "ds.b": _Assembler.space, "align": _Assembler.align,
    "seg": _Assembler.segment, "seg.u": _Assembler.unwritten, "processor": _Assembler.processor,
}


def assemble(source: str, name: str = "source") -> Program:
    """Assemble 6502 source text (syntax: `help(vcs.asm)`).

    name: what error messages call the source. Raises VcsError, naming the line, at the first mistake.
    """
    return _Assembler(checks.instance("the source", source, str, "the text of a program"), name).run()

"""From bytes back to text. What `disassemble` prints, `assemble` turns into the same bytes again."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vcs.asm.opcodes import ENCODING, OPCODES, READ, WRITE, Opcode
from vcs.errors import VcsError

_FORMS = {
    "implied": "", "accumulator": "A", "immediate": "#{}", "zeropage": "{}", "zeropage,X": "{},X",
    "zeropage,Y": "{},Y", "(indirect,X)": "({},X)", "(indirect),Y": "({}),Y", "relative": "{}",
    "absolute": "{}", "absolute,X": "{},X", "absolute,Y": "{},Y", "indirect": "({})",
}
_ENDS = {"BRK", "JMP", "RTI", "RTS", "KIL"}


@dataclass(frozen=True)
class Line:
    """An instruction or one data byte: where it is in the image and in the address space, and its text."""

    offset: int
    address: int
    data: bytes
    text: str
    is_code: bool

    def __str__(self) -> str:
        return f"{self.address:04X}  {self.data.hex(' '):<9} {self.text}"


def register_name(address: int, write: bool) -> str | None:
    """The TIA or RIOT register that a CPU access at `address` (16 bits) reaches, or None."""
    if address & 0x1080 == 0:
        return WRITE.get(address & 0x3F) if write else READ.get(address & 0x0F)
    if address & 0x1280 == 0x280:
        if write:
            return WRITE.get(address & 0x297 if address & 4 else address & 0x283)
        return READ.get(0x280 | address & (5 if address & 4 else 3))
    return None


def _operand(op: Opcode, value: int) -> str:
    digits = 2 * (op.length - 1)
    plain = f"${value:0{digits}X}"
    if not op.mode.startswith(("zeropage", "absolute")) or op.mnemonic in ("JMP", "JSR"):
        return plain
    table = WRITE if op.stores else READ
    if value in table:
        return table[value]
    # games read TIA registers at their mirrors, $30 to $3D: show which register that is
    if value & 0xFFF0 == 0x30 and not op.stores and value & 0x0F in READ:
        return f"{READ[value & 0x0F]}|$30"
    return plain


def format_instruction(opcode: int, b1: int, b2: int, pc: int) -> str:
    """One instruction as text, for example `STA COLUP0` or `BNE $F012`.

    opcode, b1, b2: its byte and the two that follow (ignored if the instruction is shorter), 0 to 255.
    pc: its address, 0 to 65535; relative branches show their target.
    """
    op = OPCODES[opcode & 0xFF]
    if op.length == 1:
        return f"{op.mnemonic} {_FORMS[op.mode]}".rstrip()
    if op.mode == "relative":
        text = f"${(pc + 2 + (b1 ^ 0x80) - 0x80) & 0xFFFF:04X}"
    else:
        text = _operand(op, b1 & 0xFF if op.length == 2 else (b1 & 0xFF) | (b2 & 0xFF) << 8)
    # an absolute operand in page zero would assemble to the shorter form
    forced = op.length == 3 and b2 == 0 and (op.mnemonic, op.mode.replace("absolute", "zeropage")) in ENCODING
    width = ".w" if forced and op.mode.startswith("absolute") else ""
    return f"{op.mnemonic}{width} {_FORMS[op.mode].format(text)}"


def _exact(op: Opcode, target: int) -> bool:
    """Whether assembling the text of `op` gives `op` again."""
    return ENCODING[op.mnemonic, op.mode] == op and 0 <= target <= 0xFFFF


def disassemble(data: bytes, origin: int | None = None, entries: Iterable[int] | None = None) -> list[Line]:
    """The image as instructions and data bytes, in order, every byte exactly once.

    data: up to 65536 bytes that are contiguous in the address space: a 2K or 4K cartridge or one bank.
    origin: address of the first byte; by default such that the image ends at $FFFF.
    entries: addresses where code starts; by default the reset and BRK vectors at the end of the image. What
    the
        flow of control reaches from there (branches, JMP, JSR) is shown as instructions, all else as `.byte`.
    """
    if not 0 < len(data) <= 0x10000:
        raise VcsError(f"{len(data)} bytes cannot be disassembled at once: give 1 to 65536, for instance one "
                       "bank")
    origin = 0x10000 - len(data) if origin is None else origin
    if not 0 <= origin <= 0x10000 - len(data):
        raise VcsError(f"origin {origin:#x} is out of range: {len(data)} bytes must end at $FFFF or before")
    size = len(data)

    def offset(address: int) -> int | None:
        """Where an address of the cartridge window is in the image; the window repeats in the address
        space."""
        if address & 0x1000 == 0 and origin & 0x1000:
            return None
        within = (address - origin) % (size if size <= 0x1000 else 0x10000)
        return within if within < size else None

    if entries is None:
        vectors = data[-4:] if size >= 4 else b""
        entries = [vectors[i] | vectors[i + 1] << 8 for i in range(0, len(vectors), 2)]
    todo = [o for o in map(offset, entries) if o is not None]
    starts: dict[int, Opcode] = {}
    taken = bytearray(size)
    while todo:
        at = todo.pop()
        while at < size and not taken[at]:
            op = OPCODES[data[at]]
            end = at + op.length
            if end > size or any(taken[at:end]):
                break
            operand = int.from_bytes(data[at + 1:end], "little")
            target = origin + end + (operand ^ 0x80) - 0x80 if op.mode == "relative" else operand
            if not _exact(op, target):
                break
            starts[at] = op
            taken[at:end] = b"\1" * op.length
            if op.mode == "relative" or (op.mnemonic in ("JMP", "JSR") and op.mode == "absolute"):
                there = offset(target)
                if there is not None:
                    todo.append(there)
            if op.mnemonic in _ENDS:
                break
            at = end
    lines, at = [], 0
    while at < size:
        opcode = starts.get(at)
        length = opcode.length if opcode else 1
        chunk = bytes(data[at:at + length])
        b0, b1, b2 = (*chunk, 0, 0)[:3]
        text = format_instruction(b0, b1, b2, origin + at) if opcode else f".byte ${b0:02X}"
        lines.append(Line(at, origin + at, chunk, text, opcode is not None))
        at += length
    return lines


def source(lines: Iterable[Line]) -> str:
    """Text that `assemble` turns into the bytes of `lines` again."""
    kept = list(lines)
    return "\n".join([f"    org ${kept[0].address:04X}", *(f"    {line.text}" for line in kept)]) + "\n"

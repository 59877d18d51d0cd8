"""The instruction set, from `vcs/data/opcodes.csv`, and the register names, from `vcs/data/registers.csv`."""
from __future__ import annotations

from dataclasses import dataclass

from vcs.data import load_csv

# Operand bytes of each addressing mode. BRK is one byte in a source: the byte it skips is the program's data.
OPERAND = {
    "implied": 0, "accumulator": 0, "immediate": 1, "zeropage": 1, "zeropage,X": 1, "zeropage,Y": 1,
    "(indirect,X)": 1, "(indirect),Y": 1, "relative": 1, "absolute": 2, "absolute,X": 2, "absolute,Y": 2,
    "indirect": 2,
}
_STORES = {"STA", "STX", "STY", "SAX", "SHA", "SHX", "SHY", "SHS"}


@dataclass(frozen=True)
class Opcode:
    """One of the 256 opcodes.

    cycles: base cycles. documented: False for the opcodes that the makers of the 6502 did not publish.
    """

    code: int
    mnemonic: str
    mode: str
    cycles: int
    documented: bool

    @property
    def length(self) -> int:
        """Bytes of the instruction in a source, 1 to 3."""
        return 1 + OPERAND[self.mode]

    @property
    def stores(self) -> bool:
        """True if the instruction writes its operand without reading it."""
        return self.mnemonic in _STORES


OPCODES: tuple[Opcode, ...] = tuple(
    Opcode(int(row["opcode"], 16), row["mnemonic"], row["mode"], int(row["cycles"]),
           row["documented"] == "yes")
    for row in sorted(load_csv("opcodes.csv"), key=lambda row: int(row["opcode"], 16)))

# (mnemonic, mode) -> the opcode an assembler picks: the published one, else the one with the lowest number
ENCODING: dict[tuple[str, str], Opcode] = {}
for _op in sorted(OPCODES, key=lambda op: (not op.documented, op.code)):
    ENCODING.setdefault((_op.mnemonic, _op.mode), _op)
MNEMONICS = frozenset(op.mnemonic for op in OPCODES)

# register names by address; a name may be a place to read and another may be the place to write
WRITE: dict[int, str] = {}
READ: dict[int, str] = {}
for _row in load_csv("registers.csv"):
    if _row["access"] != "read":
        WRITE[int(_row["address"], 16)] = _row["name"]
    if _row["access"] != "write":
        READ[int(_row["address"], 16)] = _row["name"]
REGISTERS: dict[str, int] = {name: address for table in (READ, WRITE) for address, name in table.items()}

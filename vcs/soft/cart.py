"""The cartridge of the soft machine: the ROM as a tensor of weights, cartridge RAM as a tape.

Which bank is mapped is a decision: the trace names the image's byte behind every access, for every
mapper (`vcs/_hard/cart.pxi` does the mapping). A byte that a mapper makes up (location -1) is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcs import layout

if TYPE_CHECKING:
    from vcs.soft.replay import Run


class Cart:
    def __init__(self, run: Run, rom: Any, ram: Any) -> None:
        self.op = run.op
        self.rom = rom
        self.ram = ram
        self._rom_cells: dict[int, Any] = {}
        self._ram_cells: dict[int, Any] = {}

    def rom_cell(self, index: int) -> Any:
        """Byte `index` of the image: one node however often it is read."""
        cell = self._rom_cells.get(index)
        if cell is None:
            cell = self._rom_cells[index] = self.op.read(self.rom, index)
        return cell

    def ram_cell(self, index: int) -> Any:
        cell = self._ram_cells.get(index)
        if cell is None:
            cell = self._ram_cells[index] = self.op.read(self.ram, index)
        return cell

    def write(self, location: int, value: Any) -> None:
        if layout.CART <= location < layout.ROM:
            self._ram_cells[location - layout.CART] = value

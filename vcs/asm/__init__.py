"""A small 6502 assembler and disassembler for 2600 cartridges, driven by the opcode table of the machine
itself.

    python -m vcs.asm game.asm -o game.bin        assemble (add -l game.lst for a listing)
    python -m vcs.asm -d space_invaders           disassemble an image

Syntax, close to dasm's:

* a label starts in column 1, an optional `:` ends it; `.name` is local to the last global label
* `NAME = expression` (or `equ`); `*` is the address where the line starts; TIA and RIOT registers are
  predefined
* numbers `$1F`, `%101`, `31`, `'A`; operators `( )  - ~ < >  * / %  + -  << >>  &  ^  |`, tightest first;
  `<x` and `>x` are the low and the high byte of x (they bind tightly: write `<(x+1)`)
* `lda #1`, `lda zp`, `lda zp,x`, `lda (zp),y`, `jmp (abs)`, `asl a`; `sta.w WSYNC` forces the absolute form,
  `.b` the zero-page one; a name that is defined further down counts as absolute
* `org`, `.byte`/`byte`/`dc.b` (numbers and "text"), `.word`/`word`/`dc.w`, `ds COUNT[,FILL]`, `align
  N[,FILL]`, `seg`/`seg.u` (the latter: addresses only, for variables), `processor 6502`, `end`; `;` starts a
  comment

Left out: macros, includes and conditional assembly.
"""
from __future__ import annotations

from vcs.asm.assembler import ListingLine, Program, assemble
from vcs.asm.disassembler import Line, disassemble, format_instruction, register_name, source
from vcs.asm.opcodes import OPCODES, REGISTERS, Opcode

__all__ = [
    "OPCODES", "REGISTERS", "Line", "ListingLine", "Opcode", "Program", "assemble", "disassemble",
    "format_instruction", "register_name", "source",
]

"""The limits of the published ports (spec/soft.md 7): a counterfactual of the hard machine for each that is
lifted.

A program of a few instructions per limit: every bit of the cause is flipped, the machine runs again, and what
changes is what both engines' derivatives said. Limits 2, 6, 12, 13 and 16 have their tests in
`test_gradient.py` and `test_join.py`; the table of docs/gradients.md names them all.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import vcs
from tests.flips import flipped
from vcs import asm, layout
from vcs.gradient import grad, grads

ENGINES = ("adjoint", "soft")
TOP = """
        processor 6502
        org $F000
start   ldx #$FF
        txs
        cld
        lda #2
        sta $00             ; VSYNC
        sta $02
        sta $02
        sta $02
        lda #0
        sta $00
        sta $01             ; VBLANK
        ldx #40
blank   sta $02
        dex
        bne blank
"""
END = """
        ldx #150
rest    sta $02
        dex
        bne rest
        jmp start
"""
VECTORS = """
        org $FFFC
        word start
        word start
"""


def machine(
    body: str, ram: Mapping[int, int], after: str = "", vectors: str = VECTORS, lines: int = 150
) -> vcs.Machine:
    """A machine that runs ``body`` and some lines once a frame, its RAM as given (offset -> byte)."""
    program = asm.assemble(TOP + body + END.replace("150", str(lines)) + after + vectors)
    return started(program.data, ram)


def started(image: bytes, ram: Mapping[int, int]) -> vcs.Machine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no game rules
        m = vcs.Machine(image)
    m.reset()
    for cell, byte in ram.items():
        m.poke_ram(cell, byte)
    m.step(0)
    for cell, byte in ram.items():
        m.poke_ram(cell, byte)
    return m


def poked(m: vcs.Machine, location: int, bit: int) -> tuple[vcs.Machine, int]:
    """A copy one frame on, a bit of RAM or ROM flipped before it, and the step of the bit."""
    copy, step = flipped(m, location, bit)
    copy.step(0)
    return copy, step


def read(m: vcs.Machine, output: Any) -> int:
    return int(m.screen[output[1:]]) if output[0] == "pixel" else int(m.ram[output[1]])


def exact_all(m: vcs.Machine, causes: Sequence[int], outputs: Sequence[Any], engine: str) -> dict[int, int]:
    """Every bit of every cause does to every output what its derivative says; returns how many of these do
    something, by cause."""
    found = dict.fromkeys(causes, 0)
    idle = m.clone()
    trace = idle.trace([0])
    gradients = grads(trace, outputs, rules="bit", engine=engine)
    for cause in causes:
        for bit in range(8):
            copy, step = poked(m, cause, bit)
            for output, g in zip(outputs, gradients):
                slope = g.rom[cause - layout.ROM, bit] if cause >= layout.ROM else g.ram[cause, bit]
                assert read(copy, output) - read(idle, output) == step * slope, (cause, output, bit)
                found[cause] += int(slope != 0)
    return found


def exact(m: vcs.Machine, cause: int, output: Any, engine: str) -> int:
    """`exact_all` of one cause and one output."""
    return exact_all(m, [cause], [output], engine)[cause]


def drawn_row(m: vcs.Machine, column: int = 100) -> int:
    """The first row of the next frame that is not black."""
    copy = m.clone()
    copy.step(0)
    return int(np.flatnonzero(copy.screen[:, column])[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_limit_1_a_register_is_no_cell_of_ram(engine: str) -> None:
    """COLUPF ($08) is not RAM $88, as on the ports' collapsed bus."""
    m = machine(" lda $81 \n sta $08 \n lda $88 \n sta $90", {1: 0x2E, 8: 0x5B})
    assert exact(m, 8, ("ram", 0x10), engine) == 8
    assert exact(m, 1, ("ram", 0x10), engine) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_limit_3_brk_goes_on_through_its_vector(engine: str) -> None:
    """The handler stores A and the status that BRK pushed: bit 7 of it is N, bit 1 Z, of the byte loaded."""
    handler = "\nbrkat   sta $91 \n pla \n sta $92 \n pla \n pla \n jmp back\n"
    m = machine(
        " lda $80 \n brk \n byte 0 \nback    nop",
        {0: 0x81},
        handler,
        " org $FFFC \n word start \n word brkat\n",
    )
    assert exact(m, 0, ("ram", 0x11), engine) == 8
    assert exact(m, 0, ("ram", 0x12), engine) == 1  # N
    m.poke_ram(0, 0x00)
    g = grad(m.clone().trace([0]), ("ram", 0x12), rules="bit", engine=engine)
    assert g.ram[0].tolist() == [-2] * 7 + [126]  # Z, and N in bit 7
    assert exact(m, 0, ("ram", 0x12), engine) == 8


@pytest.mark.parametrize("engine", ENGINES)
def test_limits_4_and_7_a_line_shows_what_was_in_force_when_it_was_drawn(engine: str) -> None:
    """Three lines by WSYNC, three bytes as background colours; the second changes PF1 in mid-line, which
    shows twice on it."""
    body = """
        lda #0
        sta $08             ; COLUPF
        ldx $80
        ldy $81
        lda $82
        sta $02
        stx $09
        sta $02
        sty $09
        ldx $83
        stx $0E             ; PF1 for the left half
        ldx $84
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        nop
        stx $0E             ; and for the right half
        sta $02
        sta $09
        ldx #0
        stx $0E
        sta $02
        stx $09
    """
    m = machine(body, {0: 0x1E, 1: 0x46, 2: 0x8A, 3: 0b10010110, 4: 0b01101001})
    first = drawn_row(m)
    for line in (0, 2):
        found = exact_all(m, range(3), [("pixel", first + line, 100)], engine)
        assert found == {cell: 7 if cell == line else 0 for cell in range(3)}
    left, right = 16, 80 + 16  # PF1's first bit, 7, and four columns a bit
    for cell, half in ((3, left), (4, right)):
        places = [("pixel", first + 1, half + 4 * k) for k in range(8)]
        assert exact_all(m, (3, 4), places, engine) == {cell: 8, 7 - cell: 0}
    # where no bit is lit, it is the background's
    dark = ("pixel", first + 1, left + 4)
    assert exact(m, 1, dark, engine) == 7


@pytest.mark.parametrize("engine", ENGINES)
def test_limit_5_the_bank_that_is_switched_in_is_read(engine: str) -> None:
    """Both banks of an F8 cartridge run the same code but for a table byte at the same address."""
    body = " cmp $FFF8 \n lda table \n sta $90 \n cmp $FFF9 \n lda table \n sta $91\n"
    half = asm.assemble(TOP + body + END + " org $FE00\ntable   byte 0\n" + VECTORS).data
    assert len(half) == 4096
    image = bytearray(half + half)
    image[0xE00], image[0x1E00] = 0x35, 0xC6
    m = started(bytes(image), {})
    low, high = layout.ROM + 0xE00, layout.ROM + 0x1E00
    for cause, output, count in (
        (low, 0x10, 8),
        (low, 0x11, 0),
        (high, 0x11, 8),
        (high, 0x10, 0),
    ):
        assert exact(m, cause, ("ram", output), engine) == count


OPERATIONS = {
    # limit 8: what the ports run as a no-op
    "limit_8_lax": (" byte $A7,$80 \n stx $90", 8, 0),
    "limit_8_dcp": (" lda $81 \n byte $C7,$80 \n lda $80 \n sta $90", 8, 0),
    "limit_8_sbx": (" lda $81 \n ldx $80 \n byte $CB,$05 \n stx $90", 4, 4),
    # limit 9
    "limit_9_and": (" lda $80 \n and $81 \n sta $90", 4, 4),
    "limit_9_ora": (" lda $80 \n ora $81 \n sta $90", 4, 4),
    "limit_9_eor": (" lda $80 \n eor $81 \n sta $90", 8, 8),
    "limit_9_asl": (" lda $80 \n asl a \n sta $90", 7, 0),
    "limit_9_lsr": (" lda $80 \n lsr a \n sta $90", 7, 0),
    "limit_9_rol": (" lda $81 \n asl a \n lda $80 \n rol a \n sta $90", 7, 1),
    "limit_9_ror": (" lda $81 \n lsr a \n lda $80 \n ror a \n sta $90", 7, 1),
    "limit_9_sax": (" lda $80 \n ldx $81 \n byte $87,$90", 4, 4),
    "limit_9_bit": (" bit $80 \n php \n pla \n and #$C0 \n sta $90", 2, 0),
    # limit 10: into a flag and out of it again
    "limit_10_carry_of_a_compare": (" lda $80 \n cmp $81 \n lda #0 \n rol a \n sta $90", 1, None),
    "limit_10_carry_of_a_sum": (" lda $80 \n clc \n adc $81 \n lda #0 \n adc #0 \n sta $90", None, None),
    "limit_10_overflow": (" clc \n lda $80 \n adc $81 \n php \n pla \n and #$40 \n sta $90", None, None),
    "limit_10_zero": (" lda $80 \n php \n pla \n and #$02 \n sta $90", None, 0),
    # limit 11
    "limit_11_sum_that_wraps": (" lda $80 \n clc \n adc $81 \n sta $90", 8, 8),
    "limit_11_difference_that_wraps": (" lda $81 \n sec \n sbc $80 \n sta $90", 8, 8),
    "limit_11_decimal_sum": (" sed \n lda $80 \n clc \n adc $81 \n cld \n sta $90", None, None),
    "limit_11_decimal_difference": (" sed \n lda $80 \n sec \n sbc $81 \n cld \n sta $90", None, None),
    # limit 15
    "limit_15_push_and_pull": (" lda $80 \n pha \n lda $81 \n jsr sub \n pla \n sta $90", 8, 0),
    "limit_15_the_stack_pointer": (" lda $80 \n and #$0F \n tax \n txs \n pla \n tsx \n stx $90", 4, 0),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("values", [(0x9C, 0x65), (0x03, 0x01), (0xF0, 0x17), (0x47, 0x39)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_of_an_instruction(name: str, values: tuple[int, int], engine: str) -> None:
    """Each bit of both operands, whatever carries, wraps and masks do. (How many bits do something is checked
    for the first pair.)"""
    body, *counts = OPERATIONS[name]
    m = machine(body, dict(enumerate(values)), "\nsub     rts\n", lines=2)
    for cause, count in enumerate(counts):
        found = exact(m, cause, ("ram", 0x10), engine)
        if count is not None and values == (0x9C, 0x65):
            assert found == count


SPRITE = """
        ldx #6
        sta $02
wait    dex
        bne wait
        sta $10             ; RESP0
        sta $12             ; RESM0
        lda $84
        sta $20             ; HMP0
        sta $02
        sta $2A             ; HMOVE
        lda $82
        sta $06             ; COLUP0
        lda $83
        sta $0B             ; REFP0
        lda $85
        sta $25             ; VDELP0
        lda $86
        sta $1B             ; GRP0
        lda $87
        sta $1C             ; GRP1: GRP0 goes into its delayed copy
        lda #0
        sta $1C
        lda $81
        sta $1B
        lda $88
        sta $1D             ; ENAM0
        sta $02
        sta $02
        lda #0
        sta $1B
        sta $1C
        sta $1B
        sta $1D
        sta $0B
        sta $25
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("delayed", "reflected"), [(0, 0), (0, 8), (1, 0), (1, 8)])
def test_limit_17_a_sprite_in_all_its_registers(delayed: int, reflected: int, engine: str) -> None:
    """Colour, graphics (new and delayed), reflection and delay of a player, the enable bit of a missile:
    every bit, in every pixel that the sprite covers."""
    m = machine(
        SPRITE,
        {1: 0b10110010, 2: 0x4E, 3: reflected, 4: 0x30, 5: delayed, 6: 0b01100111, 7: 0, 8: 0},
    )
    copy = m.clone()
    copy.step(0)
    rows, columns = np.nonzero(copy.screen)
    row, left = int(rows.max()), int(columns.min())
    around = [("pixel", row, column) for column in range(left - 1, left + 16)]
    found = exact_all(m, (1, 2, 3, 5, 6, 8), around, engine)
    shown = 6 if delayed else 1
    assert found[shown] >= 7 and found[7 - shown] == 0
    assert found[2] == 7 * int(np.count_nonzero(copy.screen[row]))
    assert found[3] > 0 and found[5] > 0 and found[8] > 0
    # the motion, by the column of the sprite's middle: one column to the left per unit of the high nibble
    trace = m.clone().trace([0])
    for bit in range(4, 7):
        at = layout.POSITION
        slope = grad(trace, at, rules="bit", engine=engine).ram[4][bit]
        moved, step = poked(m, 4, bit)
        assert moved.tia()["pos"][0] - copy.tia()["pos"][0] == step * slope != 0

"""vcs.grad: pokes on the hard machine confirm its derivatives, and bad input is refused in one sentence.

A predicted change is the derivative times the step; for a bit that is flipped, the step is +1 or -1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vcs
from tests.flips import flipped
from vcs import asm, layout
from vcs.errors import VcsError
from vcs.gradient import Attribution, Pixel, Ram, grad, grads, origin

ENGINES = ("adjoint", "soft")

# How each program here begins its frame: VSYNC, and 40 blank lines.
TOP = """
        processor 6502
        org $F000
start   lda #2
        sta $01             ; VBLANK
        sta $00             ; VSYNC
        sta $02
        sta $02
        sta $02
        lda #0
        sta $00
        ldx #40
blank   sta $02
        dex
        bne blank
        stx $01
"""
# A frame with a stripe for each cause: the joystick's byte, the running timer and a score byte as
# playfield bits.
SOURCE = TOP + """
        lda $80
        sta $0296           ; TIM64T := RAM
        lda #$1E
        sta $08             ; COLUPF
        ldx #20
joy     sta $02
        lda $0280           ; SWCHA
        sta $09             ; COLUBK
        dex
        bne joy
        ldx #20
timer   sta $02
        lda $0284           ; INTIM
        sta $09
        dex
        bne timer
        stx $09
        lda $81             ; the score
        sta $0E             ; PF1
        ldx #20
score   sta $02
        dex
        bne score
        stx $0E
        ldx #132
rest    sta $02
        dex
        bne rest
        inc $82
        jmp start
        org $FFFC
        word start
        word start
"""
JOYSTICK_ROW, TIMER_ROW, SCORE_ROW = 19, 39, 59


@cache
def _stripes() -> vcs.Machine:
    program = asm.assemble(SOURCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine(program.data)
    m.reset()
    m.poke_ram(0, 200)
    m.poke_ram(1, 0b10100101)
    m.step(0)
    return m


@cache
def _game(name: str, frames: int) -> vcs.Machine:
    m = vcs.Machine(name)
    m.reset()
    for frame in range(frames):
        m.step(1 if frame % 20 == 0 else 0)
    return m


def shown(m: vcs.Machine, actions: tuple[int, ...] = (0,)) -> Any:
    """The picture after the actions, on a copy."""
    copy = m.clone()
    for action in actions:
        copy.step(action)
    return copy.screen.astype(int)


def confirm(
    m: vcs.Machine, location: int, pixel: tuple[int, int], slopes: Any, actions: tuple[int, ...] = (0,)
) -> int:
    """Flip every bit with a derivative and compare the pixel; returns how many were compared."""
    before = shown(m, actions)[pixel]
    for k in np.flatnonzero(slopes):
        copy, step = flipped(m, location, int(k))
        assert shown(copy, actions)[pixel] - before == slopes[k] * step, (layout.name(location), k)
    return int(np.count_nonzero(slopes))


# ------------------------------------------------------------------------------- each cause, with its poke


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pixel_of_a_paddle_names_its_causes(engine: str, rom: Callable[[str], Any]) -> None:
    """The colour register, the store that set it and the byte the value came from; the poke agrees."""
    rom("pong")
    m = _game("pong", 200)
    t = m.clone().trace([0, 0])  # the colours are set at the end of the frame before
    row, column = (int(i) for i in np.argwhere(t.winner[-1] == 3)[10])  # player 0: a paddle
    cause = origin(t, Pixel(row, column))
    assert cause.register == "COLUP0"
    assert t.tia["reg"][cause.write] == layout.parse("COLUP0") - layout.TIA_W
    assert t.tia["value"][cause.write] == t.screens[-1, row, column]
    store = t.instr[cause.instruction]
    assert store["flags"] & 8 and store["wr"] == t.screens[-1, row, column]
    g = grad(t, ("pixel", row, column), rules="bit", engine=engine)
    # the colour's byte in ROM, read as data: its derivative is one to one in every wired bit
    code = {int(i) - layout.ROM for column in ("loc0", "loc1", "loc2") for i in t.instr[column]}
    colour = [
        i
        for i in np.flatnonzero(np.abs(g.rom).sum(axis=1))
        if i not in code and np.array_equal(g.rom[i], [0, 2, 4, 8, 16, 32, 64, 128])
    ]
    assert len(colour) == 1
    assert t.rom[colour[0]] == t.screens[-1, row, column]
    assert confirm(m, layout.ROM + int(colour[0]), (row, column), g.rom[colour[0]], (0, 0)) == 7


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graphics_byte_in_rom(engine: str, rom: Callable[[str], Any]) -> None:
    """Space Invaders' cannon: the bit of the sprite's byte that a pixel shows, and the colour mask in RAM."""
    rom("space_invaders")
    m = _game("space_invaders", 200)
    t = m.clone().trace([0])
    row, column = (int(i) for i in np.argwhere(t.winner[-1] == 5)[20])  # player 1: an invader
    g = grad(t, ("pixel", row, column), rules="bit", engine=engine)
    ones = [i for i in np.flatnonzero(np.abs(g.rom).sum(axis=1)) if np.count_nonzero(g.rom[i]) == 1]
    graphics = [i for i in ones if np.abs(g.rom[i]).max() == t.screens[-1, row, column]]
    assert graphics
    assert confirm(m, layout.ROM + int(graphics[0]), (row, column), g.rom[graphics[0]]) == 1
    assert confirm(m, 0x47, (row, column), g.ram[0x47]) >= 5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("game", "cell", "place", "bits"),
    [
        ("adventure", 0x08, "pos P1", (0, 1, 2, 3)),
        ("adventure", 0x0B, "pos BL", (0, 1, 2, 3)),
        ("asteroids", 0x17, "pos P0", (4, 5, 6, 7)),
        ("qbert", 0x40, "pos P0", (4, 5, 6, 7)),
    ],
)
def test_a_position_byte_in_ram(
    game: str, cell: int, place: str, bits: tuple[int, ...], engine: str, rom: Callable[[str], Any]
) -> None:
    """Through subtractions, shifts and HMOVE to the column, in pixels; the machine moves by as many."""
    rom(game)
    m = _game(game, 200)
    g = grad(m.clone().trace([0]), place, rules="bit", engine=engine)
    where = layout.parse(place) - layout.POSITION

    def column(machine: vcs.Machine) -> int:
        copy = machine.clone()
        copy.step(0)
        return int(copy.tia()["pos"][where])

    before = column(m)
    for k in bits:
        copy, step = flipped(m, cell, k)
        assert (column(copy) - before + 80) % 160 - 80 == g.ram[cell, k] * step != 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_position_reaches_the_pixels(engine: str, rom: Callable[[str], Any]) -> None:
    """The centre of mass of Adventure's player 1 moves by a pixel per unit of its RAM byte."""
    rom("adventure")
    m = _game("adventure", 200)
    t = m.clone().trace([0])
    rows, _ = np.nonzero(t.winner[-1] == 5)
    if not len(rows):
        pytest.skip("nothing of player 1 is on the screen")
    weights = np.zeros(t.screens.shape[1:])
    weights[rows.min() : rows.max() + 1, :] = np.arange(160)
    slope = grad(t, weights, rules="value", engine=engine).ram[0x08]
    before = (shown(m) * weights).sum()
    up, down = m.clone(), m.clone()
    up.poke_ram(0x08, int(m.ram[0x08]) + 1)
    down.poke_ram(0x08, int(m.ram[0x08]) - 1)
    central = ((shown(up) * weights).sum() - (shown(down) * weights).sum()) / 2
    assert before > 0 and slope == pytest.approx(central)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_joystick_bit(engine: str) -> None:
    m = _stripes()
    g = grad(m.clone().trace([0]), ("pixel", JOYSTICK_ROW, 100), engine=engine)
    before = shown(m)[JOYSTICK_ROW, 100]
    for line, action in (("P0 up", 2), ("P0 right", 3), ("P0 left", 4), ("P0 down", 5)):
        assert shown(m, (action,))[JOYSTICK_ROW, 100] - before == g.at(line)[0] != 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_joystick_bit_of_a_real_game(engine: str, rom: Callable[[str], Any]) -> None:
    """Seaquest keeps the stick's four lines in a RAM cell: one derivative each, as the actions show."""
    rom("seaquest")
    m = _game("seaquest", 200)
    g = grad(m.clone().trace([0]), Ram(4), rules="bit", engine=engine)
    idle = m.clone()
    idle.step(0)
    for line, action in (("P0 up", 2), ("P0 right", 3), ("P0 left", 4), ("P0 down", 5)):
        copy = m.clone()
        copy.step(action)
        assert int(copy.ram[4]) - int(idle.ram[4]) == g.at(line)[0] != 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_timer_value(engine: str) -> None:
    """RAM -> TIM64T -> INTIM some intervals later -> background: one to one (but for a colour's bit 0)."""
    m = _stripes()
    t = m.clone().trace([0])
    g = grad(t, ("pixel", TIMER_ROW, 100), rules="value", engine=engine)
    assert g.ram[0] == 1.0
    before = shown(m)[TIMER_ROW, 100]
    for step in (-2, 2, 20):
        copy = m.clone()
        copy.poke_ram(0, 200 + step)
        assert shown(copy)[TIMER_ROW, 100] - before == step * g.ram[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_score_byte_in_ram(engine: str) -> None:
    """A score that is shown as playfield bits: each pixel has the derivative of its bit, lit or not."""
    m = _stripes()
    t = m.clone().trace([0])
    for bit in range(8):
        pixel = (SCORE_ROW, 16 + 4 * (7 - bit))
        g = grad(t, ("pixel", *pixel), rules="bit", engine=engine)
        assert np.flatnonzero(g.ram[1]).tolist() == [bit]
        assert confirm(m, 1, pixel, g.ram[1]) == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("game", "cell", "pixel", "bits"),
    [
        ("assault", 0, (5, 61), 3),
        ("boxing", 18, (6, 50), 2),
        ("freeway", 104, (8, 118), 3),
        ("riverraid", 85, (171, 89), 7),
        ("video_pinball", 48, (7, 133), 4),
    ],
)
def test_a_score_digit_through_its_font(
    game: str, cell: int, pixel: tuple[int, int], bits: int, engine: str, rom: Callable[[str], Any]
) -> None:
    """A digit in RAM picks the glyph by a pointer or an index: the pixel changes as the table says."""
    rom(game)
    m = _game(game, 200)
    g = grad(m.clone().trace([0, 0]), ("pixel", *pixel), rules="bit", engine=engine)
    assert confirm(m, cell, pixel, g.ram[cell], (0, 0)) == bits


# Reads a table through each indexed mode, into a row of colours each; X, Y and the pointer are in RAM.
TABLES = TOP + """
        ldx $80
        ldy $81
        lda table,x
        sta $09
        sta $02
        lda table,y
        sta $09
        sta $02
        lda $90,x
        sta $09
        sta $02
        lda ($84),y
        sta $09
        sta $02
        ldx #0
        lda ($84,x)
        sta $09
        sta $02
        stx $09
        ldx #190
rest    sta $02
        dex
        bne rest
        jmp start
        org $F300
table   byte $00,$12,$36,$48,$5A,$6C,$7E,$90,$A2,$B4,$C6,$D8,$EA,$FC,$1E,$30
        org $F400
        byte $22,$44,$66,$88,$AA,$CC,$EE,$10,$32,$54,$76,$98,$BA,$DC,$FE,$20
        org $FFFC
        word start
        word start
"""


@cache
def _tables() -> vcs.Machine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine(asm.assemble(TABLES).data)
    m.reset()
    for cell, byte in {0: 5, 1: 2, 4: 0x01, 5: 0xF3, **{0x10 + k: 6 * k & 0xFE for k in range(16)}}.items():
        m.poke_ram(cell, byte)
    m.step(0)
    return m


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("row", "cells"), [(-1, (0,)), (0, (1,)), (1, (0,)), (2, (1, 4, 5)), (3, (4, 5))], ids=range(5)
)
def test_a_table_is_looked_up(row: int, cells: tuple[int, ...], engine: str) -> None:
    """Every bit of an index or of a pointer that stays in the cartridge or in RAM has its exact difference,
    in each indexed mode; under `value` the slope is half the difference of the neighbours."""
    m = _tables()
    picture = shown(m)
    first = int(np.flatnonzero(picture[:, 100])[0])
    pixel = (first + 1 + row, 100)
    t = m.clone().trace([0])
    g = grad(t, ("pixel", *pixel), rules="bit", engine=engine)
    slopes = grad(t, ("pixel", *pixel), rules="value", engine=engine).ram
    for cell in cells:
        compared = confirm(m, cell, pixel, g.ram[cell])
        assert compared >= (1 if cell == 5 else 4)
        for k in range(4):
            copy, step = flipped(m, cell, k)
            assert shown(copy)[pixel] - picture[pixel] == step * g.ram[cell, k]
        if cell != 5:
            up, down = m.clone(), m.clone()
            up.poke_ram(cell, int(m.ram[cell]) + 1)
            down.poke_ram(cell, int(m.ram[cell]) - 1)
            assert slopes[cell] == pytest.approx((shown(up)[pixel] - shown(down)[pixel]) / 2)


# The ball, enabled and moved by RAM, over playfield bits from RAM; CXBLPF becomes the background below.
HITS = TOP + """
        sta $2C             ; CXCLR
        lda $82
        sta $24             ; HMBL
        sta $02
        sta $2A             ; HMOVE
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
        sta $14             ; RESBL
        sta $02
        sta $2A
        lda $80
        sta $1F             ; ENABL
        lda $81
        sta $0E             ; PF1
        sta $02
        sta $02
        sta $02
        stx $0E
        stx $1F
        lda $06             ; CXBLPF
        and #$80
        sta $09
        ldx #150
rest    sta $02
        dex
        bne rest
        stx $09
        ldx #40
more    sta $02
        dex
        bne more
        jmp start
        org $FFFC
        word start
        word start
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rules", ["bit", "value"])
def test_a_collision_is_a_gate(rules: str, engine: str) -> None:
    """From the read of a latch to what made the hit, several lines of it: the enable and the playfield bit
    in RAM, as pokes confirm; what is out of reach has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine(asm.assemble(HITS).data)
    m.reset()
    m.poke_ram(0, 2)
    m.poke_ram(1, 0xFF)
    m.step(0)
    pixel = (100, 100)
    before = shown(m)
    assert before[pixel] == 0x80
    g = grad(m.clone().trace([0]), ("pixel", *pixel), rules=rules, engine=engine)
    assert g.ram[0].sum() != 0
    hits = 0
    for cell, k in ((0, 1), *((1, k) for k in range(8))):
        copy, step = flipped(m, cell, k)
        change = shown(copy)[pixel] - before[pixel]
        # under `value` the AND of a mask with one bit passes an eighth
        predicted = g.ram[cell, k] if rules == "bit" else g.ram[cell] * 2**k * 8
        hits += change != 0
        if rules == "bit" or change:
            assert step * predicted == change, (cell, k)
    assert hits == 2
    assert g.at("CXBLPF")[7] == 128 if rules == "bit" else g.at("CXBLPF") == pytest.approx(1 / 8)


@pytest.mark.parametrize("rules", ["bit", "value"])
def test_a_latch_is_carried_over_the_blocks_of_a_long_horizon(rules: str) -> None:
    """A frame reads what hit in the frame before it, which was traced in another block."""
    read = "        lda $06             ; CXBLPF\n        and #$80\n        sta $09\n"
    early = read.replace("$09", "$83") + "        sta $2C             ; CXCLR\n"
    source = HITS.replace(read, "").replace("        sta $2C             ; CXCLR\n", early)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine(asm.assemble(source).data)
    m.reset()
    m.poke_ram(0, 2)
    m.poke_ram(1, 0xFF)
    m.step(0)
    whole = grad(m.clone().trace([0, 0]), Ram(3), rules=rules)
    long = vcs.horizon.grad_long(m.clone(), [0, 0], Ram(3), rules=rules, block=1)
    assert np.abs(whole.ram[0]).sum() > 0
    for name, part in whole.parts.items():
        assert np.allclose(part, long.parts[name], rtol=1e-12, atol=0), name


def until(t: vcs.Trace, k: int) -> vcs.Trace:
    """The trace up to and with its instruction k."""
    frames = t.frames[: int(t.instr["frame"][k]) + 1].copy()
    frames["end_instr"][-1] = k + 1
    arrays = {name: getattr(t, name) for name in ("x0", "cart0", "x1", "cart1", "rom", "start")}
    return vcs.Trace(
        **arrays,
        instr=t.instr[: k + 1].copy(),
        tia=t.tia[t.tia["instr"] <= k].copy(),
        segments=t.segments[t.segments["instr"] <= k].copy(),
        frames=frames,
        screens=t.screens[: len(frames)],
        winner=t.winner[: len(frames)],
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("game", "frames", "register", "bits"),
    [
        ("seaquest", 25, "CXP1FB", ((39, 1),)),
        ("montezuma_revenge", 125, "CXP0FB", ((30, 4), (31, 1), (31, 4), (43, 6), (43, 7), (54, 6))),
        ("venture", 325, "CXP1FB", ((62, 4), (62, 7))),
    ],
)
def test_a_collision_in_a_game(
    game: str,
    frames: int,
    register: str,
    bits: tuple[tuple[int, int], ...],
    engine: str,
    rom: Callable[[str], Any],
) -> None:
    """The RAM bits of the objects that hit each other: flipped, the flag that was read is 0."""
    rom(game)
    m = vcs.Machine(game)
    rng = np.random.RandomState(3)
    for _ in range(frames // 25):
        m.run(rng.randint(18, size=25).astype(np.int32))
    t = m.clone().trace([0])
    at = (t.ea_loc == layout.parse(register)) & (t.instr["rd"] & 0xC0 != 0)
    k = int(np.flatnonzero(at)[0])
    flag, mask = ("N", 0x80) if t.instr["rd"][k] & 0x80 else ("V", 0x40)
    g = grad(until(t, k), flag, rules="bit", engine=engine)
    for cell, bit in bits:
        copy, step = flipped(m, cell, bit)
        copy.set_inputs(0)
        for _ in range(k + 1):
            copy.step_instruction()
        assert copy.cpu()[4] & mask == 0 and step * g.ram[cell, bit] == -1, (cell, bit)


# ------------------------------------------------------------------------------- what an attribution is


def test_an_attribution_says_what_it_is() -> None:
    t = _stripes().clone().trace([0])
    g = grad(t, {("pixel", TIMER_ROW, 100): 2.0, Ram(2): 1.0}, rules="bit", alpha=6.0, T=0.14, engine="soft")
    assert isinstance(g, Attribution)
    assert (g.rules, g.alpha, g.T, g.mode, g.control, g.engine, g.horizon) == (
        "bit",
        6.0,
        0.14,
        "ste",
        "pc",
        "soft",
        1,
    )
    assert g.output == f"2 pixel(0, {TIMER_ROW}, 100) + 1 RAM[0x02]"
    assert g.value == 2 * int(t.screens[0, TIMER_ROW, 100]) + int(t.x1[2])
    assert g.ram.shape == (128, 8) and g.rom.shape == (len(t.rom), 8) and g.inputs.shape == (1, 32)
    assert g.at("RAM[2]")[0] == g.ram[2, 0]
    names = [name for name, _ in g.top(5, ["ram"])]
    assert all(name.startswith("RAM[") and ":" in name for name in names)


def test_several_outputs_are_those_alone() -> None:
    t = _stripes().clone().trace([0])
    outputs = [("pixel", TIMER_ROW, 100), Ram(2), "A"]
    for engine in ENGINES:
        together = grads(t, outputs, engine=engine)
        for output, one in zip(outputs, together):
            alone = grad(t, output, engine=engine)
            assert alone.value == one.value
            assert all(np.array_equal(alone.parts[name], one.parts[name]) for name in alone.parts)


def test_weightings() -> None:
    t = _stripes().clone().trace([0, 0])
    weights = np.zeros(t.screens.shape)
    weights[1, TIMER_ROW, 100] = 3.0
    whole = grad(t, weights)
    assert np.array_equal(whole.ram, 3 * grad(t, Pixel(TIMER_ROW, 100, 1)).ram)
    assert np.array_equal(whole.ram, grad(t, weights[1]).ram)
    assert np.array_equal(grad(t, np.eye(128)[5]).ram, grad(t, "RAM[5]").ram)
    assert list(grad(t, "A", wrt=["ram", "A", "P0 fire"]).parts) == ["ram", "registers", "inputs"]


def test_an_attribution_is_saved(tmp_path: Path) -> None:
    g = grad(_stripes().clone().trace([0]), "A", engine="soft")
    with np.load(g.save(tmp_path / "g.npz"), allow_pickle=False) as saved:
        assert str(saved["rules"]) == "bit" and np.array_equal(saved["ram"], g.ram)


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (("pixel", 300, 0), "pixel"),
        (("pixel", 0, 160), "pixel"),
        (("pixel", 5, 0, 0), "pixel"),
        (("pixel", 0.5, 0), "whole"),
        (("pixel", -1, 0), "pixel"),
        (("ram", 128), "location"),
        (Ram(-1), "location"),
        ("COLUP9", "location"),
        (3.5, "output"),
        ({}, "empty"),
        (np.zeros((3, 3)), "shape"),
        (np.full(128, np.nan), "finite"),
        ("SWCHA", "location"),
        (None, "output"),
    ],
)
def test_bad_outputs_are_refused(output: Any, word: str) -> None:
    t = _stripes().clone().trace([0])
    for engine in ENGINES:
        with pytest.raises(VcsError, match=word) as caught:
            grad(t, output, engine=engine)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"rules": "x"}, "rule set"),
        ({"engine": "x"}, "engine"),
        ({"mode": "hard"}, "mode"),
        ({"wrt": ["nowhere"]}, "wrt"),
        ({"wrt": "INTIM"}, "inputs"),
        ({"alpha": -1.0}, "alpha"),
        ({"T": 0.0}, "T"),
        ({"control": "x"}, "control"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], word: str) -> None:
    t = _stripes().clone().trace([0])
    for engine in [options["engine"]] if "engine" in options else ENGINES:
        with pytest.raises(VcsError, match=word):
            grad(t, "A", **{**options, "engine": engine})


def test_something_else_than_a_trace_is_refused() -> None:
    with pytest.raises(VcsError, match="Trace"):
        grad(np.zeros(3), "A")  # type: ignore[arg-type]

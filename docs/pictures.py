"""Draws the pictures of docs/machine.md from traces of our own cartridge.

    python docs/pictures.py [FOLDER]
"""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

import vcs
from vcs import asm, demo, files, gradient, join, layout, pictures
from vcs.trace import NOBODY, Trace

RIGHT = 3
CLOCKS, HBLANK = 228, 68  # colour clocks of a line, and those before its first pixel
# what a TIA register is for: name, registers, colour
GROUPS = (
    ("wait for the next line (WSYNC)", ("WSYNC",), "#9aa0a6"),
    ("playfield", ("PF0", "PF1", "PF2", "CTRLPF"), "#1a73e8"),
    ("players", ("GRP0", "GRP1", "NUSIZ0", "NUSIZ1", "REFP0", "REFP1"), "#d93025"),
    ("missiles and ball", ("ENAM0", "ENAM1", "ENABL"), "#f29900"),
    ("colours", ("COLUP0", "COLUP1", "COLUPF", "COLUBK"), "#188038"),
    ("positions (RESxx, HMxx, HMOVE)", ("RESP0", "RESP1", "RESM0", "RESM1", "RESBL", "HMP0", "HMP1", "HMM0",
                                        "HMM1", "HMBL", "HMOVE", "HMCLR"), "#9334e6"),
    ("sync and blank", ("VSYNC", "VBLANK"), "#000000"),
)
# A player that is moved a pixel to the right on every other line of a plain blue screen.
STAIRS = """
        processor 6502
        org $F000
start   sei
        cld
        ldx #$FF
        txs
frame   lda #2
        sta VSYNC
        sta VBLANK
        sta WSYNC
        sta WSYNC
        sta WSYNC
        lda #0
        sta VSYNC
        lda #$84
        sta COLUBK
        lda #$1E
        sta COLUP0
        lda #$F0
        sta HMP0
        ldx #36
wait    sta WSYNC
        dex
        bne wait
        sta WSYNC
        ldy #6
place   dey
        bne place
        sta RESP0
        lda #0
        sta VBLANK
        lda #$FF
        sta GRP0
        ldx #96
pair    sta WSYNC
        sta HMOVE
        sta WSYNC
        dex
        bne pair
        lda #2
        sta VBLANK
        ldx #30
over    sta WSYNC
        dex
        bne over
        jmp frame
        org $FFFC
        .word start
        .word start
"""


def play(frames: int = 60) -> vcs.Machine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Glass has no game rules
        machine = vcs.Machine("glass")
    machine.run([RIGHT] * frames)
    return machine


def winner(machine: vcs.Machine) -> Figure:
    """The picture beside the object that each of its pixels shows."""
    trace = machine.clone().trace([RIGHT])
    machine.step(RIGHT)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    pictures.show_screen(left, machine.screen_rgb, None, "what the television shows")
    codes = [code for code in demo.OBJECTS if code != NOBODY]
    shown = trace.winner[-1].astype(int)
    shown[shown == NOBODY] = len(codes)
    colours = ["#f1f3f4", "#1a73e8", "#f29900", "#d93025", "#ff8a80", "#188038", "#a8dab5", "#7baaf7",
               "#aecbfa", "#3c4043"]
    image = right.imshow(shown, cmap=ListedColormap(colours), aspect=1 / pictures.WIDE,
                         interpolation="nearest",
                         norm=BoundaryNorm(np.arange(len(codes) + 2) - 0.5, len(codes) + 1))
    right.set_title("which object each pixel shows", fontsize=10)
    right.tick_params(labelsize=7)
    bar = figure.colorbar(image, ax=right, ticks=range(len(codes) + 1), fraction=0.05)
    bar.set_ticklabels([*(demo.OBJECTS[code] for code in codes), "blank"], fontsize=7)
    return figure


def beam(trace: Trace) -> Figure:
    """Every write to the TIA during a frame, where the beam was when it happened."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes: Any = figure.subplots()
    axes.axvspan(0, HBLANK, color="#e8eaed")
    axes.axhspan(0, 40, color="#e8eaed")
    axes.axhspan(232, 262, color="#e8eaed")
    line, clock = trace.tia["clock"] // CLOCKS, trace.tia["clock"] % CLOCKS
    for label, names, colour in GROUPS:
        chosen = np.isin(trace.tia["reg"], [layout.parse(name) - layout.TIA_W for name in names])
        axes.plot(clock[chosen], line[chosen], "s", ms=2, color=colour, label=label, linestyle="none")
    axes.set(xlim=(0, CLOCKS), ylim=(262, 0), xlabel="colour clock of the line; three are one CPU cycle",
             ylabel="line")
    for x, y, text in (
        (HBLANK / 2, 246, "horizontal blank"), (148, 30, "vertical sync and blank: objects get their places"),
        (148, 247, "overscan: the game thinks"), (125, 140, "the picture,\n160 x 192 pixels"),
    ):
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color="#5f6368")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, markerscale=3, frameon=False)
    axes.set_title("one frame of Glass: who writes what, and where the beam is then", fontsize=10)
    return figure


def hmove() -> Figure:
    """The comb: lines on which HMOVE is struck begin with eight black pixels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = vcs.Machine(asm.assemble(STAIRS).data)
    machine.run([0] * 3)
    row = int(np.flatnonzero((machine.screen == 0x84).any(1))[0])
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes: Any = figure.subplots()
    part = machine.screen_rgb[row:row + 26, :110]
    axes.imshow(part, aspect=1 / pictures.WIDE, interpolation="nearest", extent=(0, 110, row + 26, row))
    axes.set_title("HMOVE on every other line: a step to the right, and the comb at the left edge",
                   fontsize=10)
    axes.set_xlabel("column", fontsize=8)
    axes.set_ylabel("row", fontsize=8)
    axes.tick_params(labelsize=7)
    return figure


def heat(machine: vcs.Machine) -> Figure:
    """A pixel, and its derivative by every byte of RAM."""
    codes = [RIGHT] * 4
    start = machine.clone()
    trace = machine.clone().trace(codes)
    place, _, _ = demo.interesting(start, codes, trace)
    answer = gradient.grad(trace, gradient.Pixel(*place), rules="bit")
    machine.run(codes)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.7))
    pictures.show_screen(left, machine.screen_rgb, place, f"row {place[0]}, column {place[1]}")
    pictures.show_ram(right, demo.per_byte(answer.ram), trace.ram0,
                      "its derivative by each byte of RAM, four frames before")
    return figure


def branch(machine: vcs.Machine) -> Figure:
    """Both outcomes of a branch, from where they part to where they meet."""
    trace = machine.clone().trace([RIGHT])
    joins = join.find(machine, trace)
    count = np.diff(joins.start)
    long = np.minimum(joins.steps, joins.meet - joins.branch)
    k = int(np.argmax(np.where(count > 0, long, 0)))  # both ways round are as long as possible
    first, meet, steps = int(joins.branch[k]), int(joins.meet[k]), int(joins.steps[k])
    main = machine.clone()
    main.set_inputs(RIGHT)
    for _ in range(first):
        main.step_instruction()
    other = main.clone()
    mask = join._MASK[int(trace.opcode[first])]
    paths = []
    for which, length in ((main, meet - first), (other, steps + 1)):
        if which is other:
            p = which.registers.P
            which.set_cpu(p=p ^ mask)
        line = [which.registers.PC]
        for step in range(length):
            which.step_instruction()
            if which is other and step == 0:
                which.set_cpu(p=p)
            line.append(which.registers.PC)
        paths.append(line)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes: Any = figure.subplots()
    axes.plot(paths[0], "o-", ms=3, color="#1a73e8", label="the outcome that happened")
    axes.plot(paths[1], "o--", ms=3, color="#d93025", label="the other outcome")
    axes.plot(0, paths[0][0], "o", ms=9, mfc="none", color="black")
    for line in paths:
        axes.plot(len(line) - 1, line[-1], "s", ms=8, mfc="none", color="black")
    names = [layout.name(int(i)) for i in joins.place[joins.start[k]:joins.start[k + 1]]]
    axes.set_title(f"{demo.instruction(trace, first)}: the paths meet again with different "
                   f"{', '.join(names[:4])}", fontsize=10)
    axes.yaxis.set_major_formatter(lambda value, _: f"${int(value):04X}")
    axes.set(xlabel="instructions after the branch", ylabel="program counter")
    axes.legend(fontsize=8, frameon=False)
    return figure


def main(folder: str | None = None) -> None:
    """Draw all pictures into a folder, by default docs/img."""
    out = Path(folder) if folder else Path(__file__).parent / "img"
    machine = play()
    drawn = {
        "winner": winner(machine.clone()), "beam": beam(machine.clone().trace([RIGHT])), "hmove": hmove(),
        "heat": heat(machine.clone()), "branch": branch(machine.clone()),
    }
    for name, figure in drawn.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=100, bbox_inches="tight", metadata={"Software": None})
        files.write_bytes(out / f"{name}.png", buffer.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:2])

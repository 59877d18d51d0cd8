"""`vcs demo` and `vcs grad`: a pixel, what it depends on, and the proof.

The proof has three parts: the differentiable machine equals the exact one after every instruction and in
every pixel; the compiled gradient equals the readable one; and flipping a bit that the gradient names changes
the pixel by the predicted amount.
"""
from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import vcs
from vcs import actions, asm, files, gradient, layout, pictures, roms, soft
from vcs.errors import VcsError
from vcs.trace import READ, Trace, start_values

if TYPE_CHECKING:
    from rich.console import Console

    from vcs.machine import Machine

# what the codes of `Trace.winner` mean
OBJECTS = {
    0: "background", 1: "playfield", 2: "ball", 3: "player 0", 4: "missile 0", 5: "player 1", 6: "missile 1",
    7: "playfield, left half", 8: "playfield, right half", 255: "blank",
}
OTHER = ("registers", "flags", "tia", "delayed", "positions", "timer", "swacnt", "latches", "inputs")
MOTION = range(0x20, 0x25)  # HMP0 HMP1 HMM0 HMM1 HMBL


@dataclass(frozen=True)
class Flip:
    """A bit that a gradient names, and what flipping it at the start of the trace really did to the pixel."""

    location: int
    bit: int
    predicted: float
    seen: int

    @property
    def held(self) -> bool:
        return abs(self.predicted - self.seen) < 1e-9


def use(trace: Trace, location: int) -> str:
    """Where the trace first read a location: the instruction's address and text, or why there is none."""
    rows = trace.instr
    wanted = (rows["loc1"] == location) | (rows["loc2"] == location) | (rows["ptr0"] == location) \
        | (rows["ptr1"] == location) | ((rows["ea_loc"] == location) & (rows["flags"] & READ > 0))
    found = np.flatnonzero(wanted)
    if not len(found):
        return "from the start"
    return instruction(trace, int(found[0]))


def instruction(trace: Trace, k: int) -> str:
    """Address and text of the k-th instruction of a trace."""
    row = trace.instr[k]
    text = asm.format_instruction(int(row["opcode"]), int(row["b1"]), int(row["b2"]), int(row["pc"]))
    return f"{int(row['pc']):04X} {text}"


def content(trace: Trace, location: int) -> int:
    """The value of a location when the trace began."""
    if location >= layout.ROM:
        return int(trace.rom[location - layout.ROM])
    if location >= layout.CART:
        return int(trace.cart0[location - layout.CART])
    return int(trace.x0[location])


def per_byte(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """One number a byte: the part itself, or of eight derivatives the largest one."""
    if part.ndim == 1:
        return part
    largest: NDArray[np.float64] = part[np.arange(len(part)), np.abs(part).argmax(1)]
    return largest


def candidates(trace: Trace, each: int = 6) -> list[tuple[int, int]]:
    """Pixels worth asking about: left edges of what the last frame shows, some of each object."""
    winner = trace.winner[-1]
    found: list[tuple[int, int]] = []
    for code in (3, 5, 4, 6, 2, 7, 8, 1, 0):
        edge = winner == code
        edge[:, 1:] &= ~edge[:, :-1].copy()
        places = np.argwhere(edge)
        if len(places):
            found += [(int(r), int(c)) for r, c in places[np.linspace(0, len(places) - 1, each).astype(int)]]
    return found or [(0, 0)]


def flips(machine: Machine, codes: Sequence[int], pixel: tuple[int, int], bits: gradient.Attribution,
          most: int) -> list[Flip]:
    """Flip the RAM and ROM bits with the largest derivatives, one at a time, and play the actions again.

    machine: as it was at the start of the trace. bits: made with the `bit` rules.
    """
    def play(location: int | None = None, bit: int = 0) -> int:
        twin = machine.clone()
        if location is not None and location >= layout.ROM:
            twin.poke_rom(location - layout.ROM, twin.rom[location - layout.ROM] ^ 1 << bit)
        elif location is not None:
            twin.poke_ram(location, int(twin.ram[location]) ^ 1 << bit)
        for code in codes:
            twin.step(code)
        return int(twin.screen[pixel])

    before = play()
    results = []
    rom = np.frombuffer(machine.rom, np.uint8)
    for part, first, array in (("ram", layout.RAM, machine.ram), ("rom", layout.ROM, rom)):
        derivative = bits.parts[part]
        order = np.argsort(-np.abs(derivative), axis=None, kind="stable")[:most]
        for index, bit in zip(*np.unravel_index(order, derivative.shape)):
            if derivative[index, bit]:
                step = 1 - 2 * (int(array[index]) >> int(bit) & 1)
                results.append(Flip(first + int(index), int(bit), step * float(derivative[index, bit]),
                                    play(first + int(index), int(bit)) - before))
    return results


def interesting(machine: Machine, codes: Sequence[int], trace: Trace) -> tuple[tuple[int, int], int, int]:
    """The candidate pixel with the most bytes of RAM, then bits, whose predicted effect is the true one.

    Returns it, and how many flips were tried over all candidates and how many did exactly as predicted.
    """
    places = candidates(trace)
    pixels = [gradient.Pixel(*place) for place in places]
    answers = gradient.grads(trace, pixels, wrt=["ram", "rom"], rules="bit")

    tests = [flips(machine, codes, *pair, 8) for pair in zip(places, answers)]

    def worth(i: int) -> tuple[int, int]:
        held = [flip for flip in tests[i] if flip.held and flip.seen]
        return len({flip.location for flip in held if flip.location < layout.RAM_SIZE}), len(held)

    every = [flip for test in tests for flip in test]
    return places[max(range(len(places)), key=worth)], len(every), sum(flip.held for flip in every)


def lines_of(trace: Trace, attribution: gradient.Attribution, parts: Sequence[str], count: int) -> list[str]:
    """The largest derivatives in words: location, content, derivative, and the instruction that used it."""
    text = []
    for name, value in attribution.top(count, [part for part in parts if part in attribution.parts]):
        if "@" in name:  # an input line has no content and no single reader
            text.append(f"{name:<10}    {value:>+9.4g}")
            continue
        location = layout.parse(name.split(":")[0])
        text.append(f"{name:<10} {content(trace, location):02X} {value:>+9.4g}  {use(trace, location)}")
    return text or ["nothing"]


def picture(machine: Machine, trace: Trace, place: tuple[int, int], attribution: gradient.Attribution,
            title: str) -> bytes:
    """The PNG of `vcs demo` and `vcs grad`. machine: at the end of the trace."""
    columns = [
        [f"{name:<8}holds    deriv.  first used by", *lines_of(trace, attribution, parts, count)]
        for name, parts, count in (("ROM", ("rom",), 18), ("RAM", ("ram", "cart"), 8), ("other", OTHER, 7))]
    return pictures.explanation(machine.screen_rgb, place, per_byte(attribution.ram), trace.ram0,
                                columns[0], [*columns[1], "", *columns[2]], title)


def explain(machine: Machine, codes: Sequence[int], wanted: tuple[int, int] | None, rules: str, engine: str,
            out: Path, console: Console) -> None:
    """`vcs grad`: trace the actions, differentiate a pixel of the last frame, write and print the answer."""
    start = machine.clone()
    trace = machine.trace(codes)
    place = wanted if wanted is not None else interesting(start, codes, trace)[0]
    began = time.perf_counter()
    answer = gradient.grad(trace, gradient.Pixel(*place), rules=rules, engine=engine)
    seconds = time.perf_counter() - began
    name = machine.game or machine.name
    title = f"{name}, frame {machine.frame}: what made this pixel {int(answer.value)}"
    top = answer.top(40)
    record: dict[str, Any] = {
        "rom": name, "rom_sha256": trace.rom_sha256, "frame": machine.frame, "horizon": answer.horizon,
        "pixel": list(place), "value": answer.value, "object": OBJECTS[int(trace.winner[-1][place])],
        "rules": rules, "engine": engine, "seconds": seconds,
        "top": [{"location": label, "derivative": value} for label, value in top], "version": vcs.__version__,
    }
    files.write_bytes(out / "gradient.png", picture(machine, trace, place, answer, title))
    files.write_text(out / "gradient.json", json.dumps(record, indent=1) + "\n")
    answer.save(out / "gradient.npz")
    table = Table("location", "derivative", "first used by", title=title)
    for label, value in top[:15]:
        where = "" if "@" in label else use(trace, layout.parse(label.split(":")[0]))
        table.add_row(label, f"{value:+.4g}", where)
    console.print(table)
    console.print(f"{len(trace):,} instructions, gradient in {1000 * seconds:.1f} ms ({engine}, {rules} "
                  f"rules); written: {out}/gradient.png .json .npz", highlight=False)


def run(rom: str | None, out: Path, frames: int, seed: int, console: Console) -> None:
    """`vcs demo`: play, trace, differentiate, prove, and write one picture."""
    if rom is None:
        rom = "space_invaders" if "space_invaders" in roms.available() else "glass"
    clock = time.perf_counter
    with console.status("switching the console on"):
        machine = vcs.Machine(rom, seed=seed)
    codes = actions.choose("random", frames + 1, seed, machine.game, "ale")
    with console.status("playing"):
        began = clock()
        for code in codes[:-1]:
            machine.step(code)
            if machine.game_over:
                machine.reset()
        played = clock() - began
    start = machine.clone()
    began = clock()
    trace = machine.trace(codes[-1:])
    traced = clock() - began

    with console.status("looking for a pixel worth explaining"):
        place, every, every_held = interesting(start, codes[-1:], trace)
    pixel = gradient.Pixel(*place)
    began = clock()
    answer = gradient.grad(trace, pixel)
    adjoint = clock() - began
    tests = flips(start, codes[-1:], place, answer, 8)

    with console.status("checking the differentiable machine against the exact one"):
        began = clock()
        steps = prove(start, codes[-1:], trace)
        proved = clock() - began
        began = clock()
        readable = gradient.grad(trace, pixel, engine="soft")
        softly = clock() - began
    largest = max(float(np.abs(part).max(initial=0)) for part in readable.parts.values()) or 1.0
    apart = max(float(np.abs(answer.parts[part] - array).max(initial=0))
                for part, array in readable.parts.items()) / largest

    name = machine.game or machine.name
    shown = int(answer.value)
    title = f"{name}: what made the pixel at row {place[0]}, column {place[1]} show colour {shown}"
    files.write_bytes(out, picture(machine, trace, place, answer, title))

    table = Table("what", "found", title=title, show_lines=False)
    table.add_row("the pixel shows", f"{OBJECTS[int(trace.winner[-1][place])]}, colour {shown}")
    for part in ("ram", "rom", "tia"):
        for i, line in enumerate(lines_of(trace, answer, (part,), 4)):
            table.add_row("" if i else f"{part.upper()} it depends on", line)
    table.add_section()
    held = sum(flip.held for flip in tests)
    for flip in [flip for flip in tests if flip.seen][:6]:
        table.add_row(f"flip bit {flip.bit} of {layout.name(flip.location)}",
                      f"pixel {shown} -> {shown + flip.seen}, predicted {shown + flip.predicted:g}"
                      + ("" if flip.held else "  (not what the first derivative says)"))
    table.add_row("flips, this pixel", f"{held} of {len(tests)} exactly as predicted")
    table.add_row("flips, many pixels", f"{every_held} of {every} exactly as predicted")
    table.add_row("soft machine = exact machine", f"yes: all {steps:,} instructions, every pixel")
    table.add_row("compiled = readable gradient", f"to {apart:.1e} of the largest derivative")
    table.add_section()
    table.add_row("playing", f"{frames / played:,.0f} frames a second")
    table.add_row("tracing one frame", f"{1000 * traced:.1f} ms, {len(trace):,} instructions")
    table.add_row("gradient, compiled", f"{1000 * adjoint:.1f} ms")
    table.add_row("gradient, readable", f"{1000 * softly:.0f} ms; the check {1000 * proved:.0f} ms")
    console.print(table)
    console.print("[dim]A derivative promises the first order only: a flipped bit of a position moves its "
                  "object by many pixels, which no derivative at one pixel foretells.[/dim]", highlight=False)
    console.print(f"picture: {out}", highlight=False)


def prove(machine: Machine, codes: Sequence[int], trace: Trace) -> int:
    """Compare the soft machine with a second run of the exact one after every instruction: registers, flags,
    all of RAM, all TIA registers and positions; and, along the trace, every load, store and pixel.

    machine: as it was at the start of the trace; it is run. Returns the number of instructions; VcsError
    names the first difference.
    """
    starts = dict(zip(trace.frames["first_instr"].tolist(), codes))
    parts = ((layout.RAM, layout.RAM_SIZE), (layout.TIA_W, layout.TIA_W_SIZE), (layout.POSITION, 5))
    count = 0
    for step in soft.replay(trace).steps():
        if step.k in starts:
            machine.set_inputs(starts[step.k])
        machine.step_instruction()
        cells = start_values(machine)
        hard = [machine.cpu(), *(tuple(cells[first:first + n].tolist()) for first, n in parts)]
        # the chip keeps the upper half of a motion register only
        tia = tuple(byte & 0xF0 if r in MOTION else byte for r, byte in enumerate(step.tia))
        mine = [(step.a, step.x, step.y, step.sp, step.p, step.pc), step.ram, tia, step.positions]
        if hard != mine:
            raise VcsError(f"the soft machine differs from the exact one after instruction {step.k}, "
                           f"{instruction(trace, step.k)}: this is a bug, please report it")
        count += 1
    return count

"""How much of the exact effect of the machine's causes each control rule recovers.

    python -m bench.join_study --games all --json bench/studies/join.json

Causes: each line of the left joystick held for two frames, random one-bit changes of RAM, one-bit changes of
the RAM cells that a branch tests at once (RAM flag), and the collision latches that are read: every read in
the two frames gives the other value. Outputs: the 128 bytes of RAM two frames later. The exact effect is the
machine's, run again with the change. A rule's prediction is its `bit` derivative times the change, for `join`
with the secant's slope 1. Shown per kind of cause: pairs (cause, byte) with an effect, the share of them a
rule predicts with the right sign (recall), the share of its nonzero predictions that have an effect of that
sign (precision), the share it predicts exactly (equal), and how often and how soon paths meet again. A run
that was stopped goes on with the games its file does not hold yet.
"""

from __future__ import annotations

import pathlib
import time
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import vcs
from bench.study import collect, run
from vcs import join, layout
from vcs._adjoint import sweep
from vcs.command import INTERRUPTED
from vcs.gradient import weighting

FRAMES = 2
# action and input line: up, down, left, right, fire
LINES = ((2, 0), (5, 1), (4, 2), (3, 3), (1, 4))


CAUSES = ("joystick", "RAM bit", "RAM flag", "collision")
# loads and BIT of a zero page or absolute address -> register changed (None: N and V only)
READS = {0xA5: 0, 0xA6: 1, 0xA4: 2, 0x24: None, 0xAD: 0, 0xAE: 1, 0xAC: 2, 0x2C: None}


def tested(trace: vcs.Trace) -> list[int]:
    """RAM cells that some instruction read right before a branch."""
    t = trace.instr
    branch = np.flatnonzero(t["opcode"] & 0x1F == 0x10)
    before = t[branch[branch > 0] - 1]
    cells = before["ea_loc"][(before["flags"] & 4 != 0) & (before["ea_loc"] >= 0)]
    return sorted({int(c) for c in cells if c < layout.RAM_SIZE})


def collided(m: vcs.Machine, register: int, bit: int) -> Any:
    """RAM two frames on, every read of a collision latch giving the other value."""
    copy = m.clone()
    copy.set_inputs(0)
    for _ in range(FRAMES):
        ended = False
        while not ended and not copy.jammed:
            pc = copy.cpu()[5]
            opcode, where = copy.peek(pc), copy.peek(pc + 1 & 0xFFFF)
            if opcode & 8:
                where |= copy.peek(pc + 2 & 0xFFFF) << 8
            ended = copy.step_instruction()
            if opcode in READS and where & 0x1080 == 0 and where & 15 == register:
                a, x, y, _, p, _ = copy.cpu()
                registers = [a, x, y]
                flags = p ^ bit
                which = READS[opcode]
                if which is not None:
                    registers[which] ^= 1 << bit.bit_length() - 1
                    flags = p & ~0x82 | registers[which] & 0x80 | (0 if registers[which] else 2)
                copy.set_cpu(a=registers[0], x=registers[1], y=registers[2], p=flags)
    return copy.ram.astype(int)


def study(game: str, warmup: int, bits: int) -> dict[str, Any]:
    """Figures of one game, from the state after `warmup` frames of random play."""
    rng = np.random.RandomState(0)
    m = vcs.Machine(game)
    m.run(rng.randint(18, size=warmup))
    ahead = m.clone()
    ahead.run(np.zeros(FRAMES, np.int32))
    if ahead.game_over:
        m.reset()
        m.run(np.zeros(60, np.int32))
    trace = m.clone().trace([0] * FRAMES)
    start = time.process_time()
    joins = join.find(m, trace)
    cost = (time.process_time() - start) / FRAMES
    targets = [weighting(("ram", i), trace) for i in range(layout.RAM_SIZE)]
    derivatives = {
        "pc": sweep(trace, targets, rules="bit"),
        "join": sweep(trace, targets, rules="bit", control="join", joins=joins, slope=1.0),
    }
    base = trace.x1[: layout.RAM_SIZE].astype(int)
    exact: dict[str, list[Any]] = {cause: [] for cause in CAUSES}
    predicted: dict[tuple[str, str], list[Any]] = {}

    def cause(kind: str, after: Any, slope: Any) -> None:
        exact[kind].append(after - base)
        for rule, results in derivatives.items():
            predicted.setdefault((kind, rule), []).append([slope(arrays) for arrays, _ in results])

    def flip(kind: str, cell: int, bit: int) -> None:
        changed = m.clone()
        old = int(m.ram[cell])
        changed.poke_ram(cell, old ^ 1 << bit)
        changed.run(np.zeros(FRAMES, np.int32))
        sign = -1 if old >> bit & 1 else 1
        cause(kind, changed.ram.astype(int), lambda arrays: sign * arrays["ram"][cell, bit])

    for action, line in LINES:
        changed = m.clone()
        changed.run(np.full(FRAMES, action, np.int32))
        cause("joystick", changed.ram.astype(int), lambda arrays, k=line: arrays["inputs"][:, k].sum())
    for cell, bit in zip(rng.randint(128, size=bits), rng.randint(8, size=bits)):
        flip("RAM bit", int(cell), int(bit))
    flags = [(cell, bit) for cell in tested(trace) for bit in range(8)]
    for k in rng.permutation(len(flags))[:bits]:
        flip("RAM flag", *flags[k])
    t = trace.instr
    read = (t["ea_loc"] >= layout.TIA_R) & (t["ea_loc"] < layout.TIA_R + 8)
    read &= np.isin(t["opcode"], list(READS))
    for register in sorted({int(loc) - layout.TIA_R for loc in t["ea_loc"][read]}):
        values = t["rd"][read & (t["ea_loc"] == layout.TIA_R + register)]
        for bit in (0x80, 0x40) if register != 6 else (0x80,):
            if len({int(v) & bit for v in values}) == 1:  # one sign for all its reads
                sign, k = -1 if values[0] & bit else 1, bit.bit_length() - 1
                after = collided(m, register, bit)
                cause("collision", after, lambda a, r=register, k=k, s=sign: s * a["latches"][r, k])
    out: dict[str, Any] = {
        "game": game,
        "instructions": len(trace),
        "branches": joins.branches,
        "met": joins.met,
        "steps": [float(x) for x in np.percentile(joins.steps, (50, 90))] if len(joins) else [0.0, 0.0],
        "same time": float((joins.cycles == 0).mean()) if len(joins) else 0.0,
        "seconds per frame": cost,
    }
    for kind in CAUSES:
        e = np.array(exact[kind], float).reshape(-1, layout.RAM_SIZE)
        for rule in derivatives:
            p = np.array(predicted.get((kind, rule), [])).reshape(-1, layout.RAM_SIZE)
            right = (np.sign(p) == np.sign(e)) & (e != 0)
            out[f"{kind}, {rule}"] = {
                "effects": int((e != 0).sum()),
                "predictions": int((p != 0).sum()),
                "right": int(right.sum()),
                "equal": int(((np.abs(p - e) < 1e-6) & (e != 0)).sum()),
            }
    return out


def main(
    games: Annotated[str, typer.Option(help="'core', 'all', or names joined by commas")] = "core",
    warmup: Annotated[int, typer.Option(min=0, help="frames of random play before")] = 300,
    bits: Annotated[int, typer.Option(min=1, help="RAM bits and RAM flags tried")] = 200,
    path: Annotated[pathlib.Path | None, typer.Option("--json", help="read from and written to")] = None,
) -> None:
    """Compare the control rules with the machine's own effects."""
    console = Console(width=130)
    results, interrupted = collect(
        "join",
        games,
        {"warmup": warmup, "bits": bits},
        path,
        lambda game: study(game, warmup, bits),
        lambda result: f"{result['met']:.2f} of its branches meet",
        console,
    )
    rows = list(results.values())
    if not rows:
        raise typer.Exit(INTERRUPTED if interrupted else 0)
    for name in ("met", "same time", "seconds per frame"):
        console.print(f"{name}: {np.mean([row[name] for row in rows]):.3f}")
    steps = np.mean([row["steps"] for row in rows], axis=0)
    console.print(f"instructions until they meet, median and 90 %: {steps}")
    names = ("cause", "rule", "games", "effects", "recall", "precision", "equal")
    table = Table(*names, title=f"{len(rows)} games")
    for cause in CAUSES:
        for rule in ("pc", "join"):
            some = [row[f"{cause}, {rule}"] for row in rows if row[f"{cause}, {rule}"]["effects"]]
            if some:
                effects, predictions, right, equal = (
                    sum(row[name] for row in some) for name in ("effects", "predictions", "right", "equal")
                )
                shares = (right / effects, right / max(1, predictions), equal / effects)
                table.add_row(cause, rule, str(len(some)), str(effects), *(f"{x:.3f}" for x in shares))
    console.print(table)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


if __name__ == "__main__":
    run(main)

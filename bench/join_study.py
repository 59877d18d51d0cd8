"""How much of the exact effect of joystick lines and RAM bits each control rule recovers.

    python -m bench.join_study --games freeway,seaquest --json join.json

Causes: each line of the left joystick held for two frames, and random one-bit changes of RAM; outputs: the
128 bytes of RAM two frames later. The exact effect is the machine's, run again with the change. A rule's
prediction is its `bit` derivative times the change, for `join` with the secant's slope 1. Shown per game and
kind of cause: pairs (cause, byte) with an effect, the share of them a rule predicts with the right sign
(recall), the share of its nonzero predictions that have an effect of that sign (precision), the share it
predicts exactly (equal), and how often and how soon paths meet again.
"""

from __future__ import annotations

import json
import pathlib
import time
import warnings
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import vcs
from vcs import files, join, layout
from vcs._adjoint import sweep
from vcs.gradient import weighting

FRAMES = 2
# action and input line: up, down, left, right, fire
LINES = ((2, 0), (5, 1), (4, 2), (3, 3), (1, 4))


def study(game: str, warmup: int, bits: int) -> dict[str, Any]:
    """Figures of one game, from the state after `warmup` frames of random play."""
    rng = np.random.RandomState(0)
    m = vcs.Machine(game)
    m.run(rng.randint(18, size=warmup))
    if m.game_over:
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
    exact: dict[str, list[Any]] = {"joystick": [], "RAM bit": []}
    predicted: dict[tuple[str, str], list[Any]] = {}
    for action, line in LINES:
        changed = m.clone()
        changed.run(np.full(FRAMES, action, np.int32))
        exact["joystick"].append(changed.ram.astype(int) - base)
        for rule, results in derivatives.items():
            row = [arrays["inputs"][:, line].sum() for arrays, _ in results]
            predicted.setdefault(("joystick", rule), []).append(row)
    for cell, bit in zip(rng.randint(128, size=bits), rng.randint(8, size=bits)):
        changed = m.clone()
        old = int(m.ram[cell])
        changed.poke_ram(int(cell), old ^ 1 << int(bit))
        changed.run(np.zeros(FRAMES, np.int32))
        exact["RAM bit"].append(changed.ram.astype(int) - base)
        sign = -1 if old >> bit & 1 else 1
        for rule, results in derivatives.items():
            row = [sign * arrays["ram"][cell, bit] for arrays, _ in results]
            predicted.setdefault(("RAM bit", rule), []).append(row)
    out: dict[str, Any] = {
        "game": game,
        "instructions": len(trace),
        "branches": joins.branches,
        "met": joins.met,
        "steps": [float(x) for x in np.percentile(joins.steps, (50, 90))],
        "same time": float((joins.cycles == 0).mean()),
        "seconds per frame": cost,
    }
    for cause, effects in exact.items():
        e = np.array(effects, float)
        for rule in derivatives:
            p = np.array(predicted[cause, rule])
            right = (np.sign(p) == np.sign(e)) & (e != 0)
            out[f"{cause}, {rule}"] = {
                "effects": int((e != 0).sum()),
                "recall": float(right.sum() / max(1, (e != 0).sum())),
                "precision": float(right.sum() / max(1, (p != 0).sum())),
                "equal": float((np.abs(p - e) < 1e-6)[e != 0].mean()) if (e != 0).any() else 0.0,
            }
    return out


def main(
    games: Annotated[str, typer.Option(help="names joined by commas")] = "freeway,seaquest,space_invaders",
    warmup: Annotated[int, typer.Option(min=0, help="frames of random play before")] = 300,
    bits: Annotated[int, typer.Option(min=1, help="RAM bits tried")] = 200,
    path: Annotated[pathlib.Path | None, typer.Option("--json", help="write the figures here")] = None,
) -> None:
    """Compare the control rules with the machine's own effects."""
    warnings.simplefilter("ignore")
    console = Console(width=130)
    rows = []
    try:
        for game in games.split(","):
            rows.append(study(game.strip(), warmup, bits))
            console.print(rows[-1])
    except KeyboardInterrupt:
        console.print("stopped; what there is:")
    table = Table("cause", "rule", "recall", "precision", "equal", title=f"means over {len(rows)} games")
    for cause in ("joystick", "RAM bit"):
        for rule in ("pc", "join"):
            some = [row[f"{cause}, {rule}"] for row in rows if row[f"{cause}, {rule}"]["effects"]]
            if some:
                means = [np.mean([row[name] for row in some]) for name in ("recall", "precision", "equal")]
                table.add_row(cause, rule, *(f"{mean:.3f}" for mean in means))
    console.print(table)
    if path is not None:
        files.write_text(path, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

"""How the gradients of both rule sets agree with the machine's exact one-bit effects.

    python -m bench.faithfulness --games all --json bench/studies/faithfulness.json

Per game, after some frames of random play: outputs are drawn pixels of one frame and RAM bytes at its end,
causes are one-bit changes 0, 1, 5 and 15 frames before that frame starts (0: at its start): all 1024 bits of
RAM, random bits of the ROM bytes that the frames read, and the lines of the left joystick in the first
frame. The exact effect is the machine's, run again with the change; the prediction is the derivative times
the change of the bit (`value`: of the byte). Per kind of cause and of output:

effects, predictions: pairs (cause, output) with one. right: pairs with an effect of the predicted sign.
equal: effects predicted to the unit. pearson: correlation over the causes, mean over the outputs that any
cause changes (0 where the derivative is 0 throughout). top8: of the eight causes with the largest derivative
those with an effect, out of eight or of all that have one.

A run that was stopped goes on with the games its file does not hold yet.
"""

from __future__ import annotations

import pathlib
import time
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table

import vcs
from bench.study import collect, run
from vcs import files, layout
from vcs.command import INTERRUPTED
from vcs.errors import VcsError
from vcs.gradient import grads
from vcs.trace import NOBODY
from vcs.xai.oracle import Oracle, action_lines, do

Array = npt.NDArray[np.float64]

HORIZONS = (0, 1, 5, 15)
PIXELS, BYTES, ROM_BITS = 200, 20, 128
RULES = ("value", "bit")
CAUSES = ("RAM bit", "ROM bit", "joystick")
OUTPUTS = ("pixel", "RAM")
CHUNK = 128  # re-runs whose pictures are held at once


def play(game: str, warmup: int) -> tuple[vcs.Machine, list[int]]:
    """A machine after `warmup` frames of random play, and the actions that follow. A game that ends
    before they do begins anew."""
    rng = np.random.RandomState(0)
    m = vcs.Machine(game)
    m.run(rng.randint(18, size=warmup).astype(np.int32))
    tail = rng.randint(18, size=HORIZONS[-1] + 1).tolist()
    ahead = m.clone()
    ahead.run(np.array(tail, np.int32))
    if ahead.game_over:
        m.reset()
        m.run(np.zeros(60, np.int32))
    return m, tail


def rom_bits(trace: vcs.Trace, rng: np.random.RandomState) -> list[tuple[int, int]]:
    """Bits of ROM bytes that the trace read as data or as an immediate operand."""
    t = trace.instr
    data = t["ea_loc"][(t["ea_loc"] >= layout.ROM) & (t["flags"] & 4 != 0)]
    immediate = np.isin(t["opcode"], [0x09, 0x29, 0x49, 0x69, 0xA0, 0xA2, 0xA9, 0xC0, 0xC9, 0xE0, 0xE9])
    places = np.unique(np.concatenate([data, t["loc1"][immediate]]))
    places = places[places >= layout.ROM]
    chosen = rng.choice(len(places) * 8, min(ROM_BITS, len(places) * 8), replace=False)
    return [(int(places[i // 8]), int(i % 8)) for i in chosen]


def exact(oracle: Oracle, runs: list[Any], pixels: npt.NDArray[np.int64], cells: Any) -> Array:
    """Effects float64[causes, outputs]: of every run on the pixels, then on the bytes."""

    def read(outcome: Any) -> Array:
        shown = outcome.picture()[pixels[:, 0], pixels[:, 1]]
        return np.concatenate([shown, outcome.ram[cells]]).astype(float)

    base = read(oracle.baseline)
    rows = []
    for at in range(0, len(runs), CHUNK):
        rows += [read(outcome) - base for outcome in oracle.run(runs[at : at + CHUNK], screens=True)]
    return np.array(rows).reshape(len(runs), len(base))


def agreement(p: Array, e: Array) -> dict[str, float]:
    """The figures of predictions and effects, both [causes, outputs]; see the top of this file."""
    close = np.abs(p - e) < 1e-6
    right = (np.sign(p) == np.sign(e)) & (e != 0)
    correlations, hits = [], []
    for k in np.flatnonzero((e != 0).any(axis=0)):
        spread = p[:, k].std() * e[:, k].std()
        product = ((p[:, k] - p[:, k].mean()) * (e[:, k] - e[:, k].mean())).mean()
        correlations.append(product / spread if spread > 0 else 0.0)
        largest = np.argsort(-np.abs(p[:, k]), kind="stable")[:8]
        found = (p[largest, k] != 0) & (e[largest, k] != 0)
        hits.append(found.sum() / min(8, (e[:, k] != 0).sum()))
    return {
        "effects": int((e != 0).sum()),
        "predictions": int((p != 0).sum()),
        "right": int(right.sum()),
        "equal": int((close & (e != 0)).sum()),
        "outputs": len(hits),
        "pearson": round(float(np.mean(correlations)), 4) if hits else 0.0,
        "top8": round(float(np.mean(hits)), 4) if hits else 0.0,
    }


def study(game: str, warmup: int, pixels_wanted: int, bytes_wanted: int) -> dict[str, Any]:
    """The figures of one game: {"rows": [...], one per horizon, rule set, kind of cause and of output."""
    start = time.process_time()
    m, tail = play(game, warmup)
    rng = np.random.RandomState(1)
    rows: list[dict[str, Any]] = []
    where: Any = None
    cells: Any = None
    for horizon in HORIZONS[::-1]:
        # the last frame is the same for all horizons
        at = m.clone()
        at.run(np.array(tail[: len(tail) - 1 - horizon], np.int32))
        actions = tail[len(tail) - 1 - horizon :]
        trace = at.clone().trace(actions)
        if len(trace.frames) != len(actions):
            raise VcsError(f"{game} plays {len(trace.frames)} frames in {len(actions)} steps: skip it")
        if where is None:
            drawn = np.argwhere(trace.winner[-1] != NOBODY)
            where = drawn[rng.choice(len(drawn), min(pixels_wanted, len(drawn)), replace=False)]
            cells = rng.choice(layout.RAM_SIZE, bytes_wanted, replace=False)
        rom = rom_bits(trace, rng)
        lines = [k for k in range(5) if _possible(actions[0], k)]
        runs: list[Any] = [(do(c, flip=b),) for c in range(layout.RAM_SIZE) for b in range(8)]
        runs += [(do(c, flip=b),) for c, b in rom]
        runs += [(do(layout.INPUT + k, flip=0),) for k in lines]
        oracle = Oracle(at, actions, threads=1)
        effects = exact(oracle, runs, where, cells)
        outputs = [("pixel", int(r), int(c)) for r, c in where] + [("ram", int(c)) for c in cells]
        ram, image = np.asarray(oracle.ram), np.frombuffer(at.rom, np.uint8)
        places = [(c, b, int(ram[c])) for c in range(layout.RAM_SIZE) for b in range(8)]
        places += [(c, b, int(image[c - layout.ROM])) for c, b in rom]
        steps = np.array([-1.0 if byte >> b & 1 else 1.0 for _, b, byte in places])
        pressed = action_lines(actions[0])
        for rules in RULES:
            predicted = np.empty_like(effects)
            for k, g in enumerate(grads(trace, outputs, rules=rules)):
                ram_part = g.ram if rules == "bit" else np.outer(g.ram, 2.0 ** np.arange(8))
                part = [
                    g.rom[c - layout.ROM] if rules == "value" else g.rom[c - layout.ROM, b] for c, b in rom
                ]
                scale = [2.0**b if rules == "value" else 1.0 for _, b in rom]
                slopes = np.concatenate([ram_part.reshape(-1), np.array(part) * np.array(scale)])
                predicted[: len(steps), k] = slopes * steps
                predicted[len(steps) :, k] = [g.inputs[0, i] * (-1 if pressed[i] else 1) for i in lines]
            first = 0
            for cause, n in zip(CAUSES, (1024, len(rom), len(lines))):
                for kind, columns in zip(OUTPUTS, (slice(0, len(where)), slice(len(where), None))):
                    here = slice(first, first + n)
                    figures = agreement(predicted[here, columns], effects[here, columns])
                    rows.append(
                        {"horizon": horizon, "rules": rules, "cause": cause, "output": kind, **figures}
                    )
                first += n
    return {"rows": rows, "seconds": time.process_time() - start}


def _possible(action: int, line: int) -> bool:
    """Whether an action exists with this line changed: opposite directions cannot both be pressed."""
    lines = list(action_lines(action))
    lines[line] = 1 - lines[line]
    return not (lines[0] and lines[1]) and not (lines[2] and lines[3])


def summary(games: dict[str, Any]) -> list[dict[str, Any]]:
    """Over the games: pooled shares of pairs, means of the correlation and of top8."""
    out = []
    for cause in CAUSES:
        for kind in OUTPUTS:
            for horizon in HORIZONS:
                for rules in RULES:
                    some = [
                        row
                        for game in games.values()
                        for row in game["rows"]
                        if (row["cause"], row["output"], row["horizon"], row["rules"])
                        == (cause, kind, horizon, rules)
                        and row["outputs"]
                    ]
                    if not some:
                        continue
                    total = {
                        k: sum(row[k] for row in some) for k in ("effects", "predictions", "right", "equal")
                    }
                    out.append(
                        {
                            "cause": cause,
                            "output": kind,
                            "horizon": horizon,
                            "rules": rules,
                            "games": len(some),
                            "pearson": float(np.mean([row["pearson"] for row in some])),
                            "recall": total["right"] / total["effects"],
                            "precision": total["right"] / max(1, total["predictions"]),
                            "equal": total["equal"] / total["effects"],
                            "top8": float(np.mean([row["top8"] for row in some])),
                        }
                    )
    return out


def plot(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Correlation, signs and top-8 hits by horizon, for RAM bits, both rule sets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figures = ("pearson", "recall", "precision", "top8")
    figure, axes = plt.subplots(
        2, len(figures), figsize=(12, 5), sharex=True, sharey=True, layout="constrained"
    )
    for line, kind in zip(axes, OUTPUTS):
        for axis, name in zip(line, figures):
            for rules, style in zip(RULES, ("o--", "s-")):
                some = [r for r in rows if (r["cause"], r["output"], r["rules"]) == ("RAM bit", kind, rules)]
                axis.plot(range(len(some)), [r[name] for r in some], style, label=rules)
            axis.set_title(f"{name}, {kind}", fontsize=10)
            axis.set_xticks(range(len(HORIZONS)), [str(h) for h in HORIZONS])
            axis.set_ylim(0, 1)
            axis.grid(alpha=0.3)
    axes[0, 0].legend(loc="upper right")
    figure.supxlabel("frames between the change and the frame that is read")
    files.write(path, lambda file: figure.savefig(file, format="png", dpi=100))
    plt.close(figure)


def main(
    games: Annotated[str, typer.Option(help="'core', 'all', or names joined by commas")] = "core",
    warmup: Annotated[int, typer.Option(min=0, help="frames of random play before")] = 300,
    pixels: Annotated[int, typer.Option(min=1, help="pixels of each game")] = PIXELS,
    cells: Annotated[int, typer.Option(min=1, max=128, help="RAM outputs of each game")] = BYTES,
    path: Annotated[pathlib.Path | None, typer.Option("--json", help="read from and written to")] = None,
    picture: Annotated[pathlib.Path | None, typer.Option("--plot", help="write the curves here")] = None,
) -> None:
    """Compare the gradients of both rule sets with exact one-bit interventions."""
    console = Console(width=130)
    results, interrupted = collect(
        "faithfulness",
        games,
        {"warmup": warmup, "pixels": pixels, "cells": cells},
        path,
        lambda game: study(game, warmup, pixels, cells),
        lambda result: f"{result['seconds']:.1f} s",
        console,
    )
    rows = summary(results)
    names = (
        "cause",
        "output",
        "horizon",
        "rules",
        "games",
        "pearson",
        "recall",
        "precision",
        "equal",
        "top8",
    )
    table = Table(*names, title=f"{len(results)} games")
    for row in rows:
        table.add_row(*(f"{row[n]:.3f}" if isinstance(row[n], float) else str(row[n]) for n in names))
    console.print(table)
    if picture is not None and rows:
        plot(rows, picture)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


if __name__ == "__main__":
    run(main)

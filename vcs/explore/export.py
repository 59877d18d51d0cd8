"""An explanation as files: arrays (npz), a table (CSV), and the program that computes the same numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

import vcs
from vcs import layout
from vcs.demo import content
from vcs.explore.explain import OWN, Array, Moment, Target, agreement
from vcs.explore.tape import Poke


@dataclass(frozen=True)
class Explanation:
    """What the page shows of one target: everything that goes into a file.

    source: the ROM as it was named on the command line. actions: up to the end; pokes: of the tape. start,
    end: frames of the tape. method: "gradient" or a registered one; scores: float64[1024], its attribution
    to the flips of RAM, for "gradient" the predictions. effects: float64[1024], the oracle's.
    """

    source: str
    actions: Sequence[int]
    pokes: Sequence[Poke]
    start: int
    end: int
    moment: Moment
    target: Target
    rules: str
    method: str
    scores: Array
    effects: Array

    @property
    def agreement(self) -> float | None:
        """Pearson correlation of the two, None for n/a."""
        return agreement(self.scores, self.effects)


def npz(e: Explanation) -> bytes:
    """The arrays: derivative of every part, scores and effects [128, 8] over the bits of RAM, and the
    settings."""
    derivative = e.moment.gradient(e.target, e.rules)
    settings = {
        "target": e.target.text, "rules": e.rules, "method": e.method, "value": derivative.value,
        "horizon": derivative.horizon, "start": e.start, "end": e.end,
        "rom_sha256": e.moment.machine.rom_sha256,
        "agreement": np.nan if e.agreement is None else e.agreement, "version": vcs.__version__,
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        allow_pickle=False,
        **{name: np.array(value) for name, value in settings.items()},
        **{f"d_{name}": array for name, array in derivative.parts.items()},
        scores=e.scores.reshape(128, 8),
        effects=e.effects.reshape(128, 8),
        ram=e.moment.trace.ram0,
        screen=e.moment.trace.screens[-1],
        actions=np.array(e.actions, np.uint8),
        pokes=np.array([p for p in e.pokes if p.frame < e.end], np.int64).reshape(-1, 3),
    )
    return buffer.getvalue()


def table(e: Explanation) -> str:
    """The bits of RAM as CSV: location, bit, content of the byte, score and effect of the flip."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["location", "bit", "content", e.method, "effect"])
    for flip, score, effect in zip(e.moment.ram_flips, e.scores.tolist(), e.effects.tolist()):
        writer.writerow(
            [
                layout.name(flip.index),
                flip.bit,
                content(e.moment.trace, flip.index),
                repr(score),
                repr(effect),
            ]
        )
    return out.getvalue()


def _list(values: Sequence[int]) -> str:
    """A list of actions as short Python."""
    runs = [(value, len(list(group))) for value, group in groupby(values)]
    lines: list[str] = []
    plain: list[int] = []

    def flush() -> None:
        for at in range(0, len(plain), 30):
            lines.append(f"[{', '.join(map(str, plain[at : at + 30]))}]")
        plain.clear()

    for value, count in runs:
        if count > 4:
            flush()
            lines.append(f"[{value}] * {count}")
        else:
            plain.extend([value] * count)
    flush()
    return "(\n    " + "\n    + ".join(lines or ["[]"]) + "\n)"


def program(e: Explanation) -> str:
    """Python that computes the same derivative, effects and agreement with the public API."""
    t = e.target
    if t.kind == "ram":
        graded, output = f"vcs.Ram({t.cell})", f"outputs.Content.of({t.cell})"
    elif t.kind == "pixel":
        graded, output = f"vcs.Pixel({t.row}, {t.column})", f"outputs.Pixel.of({t.row}, {t.column})"
    else:
        graded = "weights"
        output = f"outputs.Region.of({t.row}, {t.bottom}, {t.column}, {t.right})"
    pokes: dict[int, list[tuple[int, int]]] = {}
    for p in e.pokes:
        if p.frame <= e.start:
            pokes.setdefault(p.frame, []).append((p.location, p.value))
    machine = e.moment.machine
    steps = (
        "derivative.ram * signs"
        if e.rules == "bit"
        else "derivative.ram[:, None] * signs * 2.0 ** np.arange(8)"
    )
    lines: list[Any] = [
        f'"""What the {t.text} of frame {e.end} depends on; written by vcs explore {vcs.__version__}."""',
        "import numpy as np",
        "",
        "import vcs",
        "from vcs.explore.tape import store",
        "from vcs.xai import oracle, outputs",
        "",
        f"machine = vcs.Machine({e.source!r}, protocol={machine.protocol!r}, seed={machine.seed})",
        f"assert machine.rom_sha256 == {machine.rom_sha256!r}, 'another cartridge'",
        f"actions = {_list(e.actions)}",
        f"pokes = {pokes!r}  # frame: (location, value), see vcs.layout",
        f"start = {e.start}  # the explanation looks back from frame {e.end} to this one",
        "",
        "rams = []",
        "for frame in range(start + 1):",
        "    for location, value in pokes.get(frame, []):",
        "        store(machine, location, value)",
        "    rams.append(machine.ram)",
        "    if frame < start:",
        "        machine.step(actions[frame])",
        "",
        "# the gradient, along what the machine really did",
        "trace = machine.clone().trace(actions[start:])",
    ]
    if t.kind == "region":
        lines += [
            "weights = np.zeros(trace.screens.shape[1:])",
            f"weights[{t.row}:{t.bottom}, {t.column}:{t.right}] = 1",
            "weights /= weights.sum()",
        ]
    lines += [
        f"derivative = vcs.grad(trace, {graded}, rules={e.rules!r})",
        "",
        "# the oracle: flip each bit of RAM at the start, play the same actions, see what changes",
        "exact = oracle.Oracle(machine, actions[start:])",
        f"output = {output}",
        "runs = [(oracle.do(cell, flip=bit),) for cell in range(128) for bit in range(8)]",
        "outcomes = exact.run(runs, screens=True)",
        "effects = np.array([output.read(o) for o in outcomes]) - output.read(exact.baseline)",
        "effects = effects.reshape(128, 8)",
        "",
    ]
    if e.method == OWN:
        lines += [
            "# what the gradient foretells of each flip, to first order",
            "signs = 1.0 - 2.0 * (machine.ram[:, None] >> np.arange(8) & 1)",
            f"scores = {steps}",
        ]
    else:
        target = ", ".join(f"{k}={v!r}" for k, v in vars(t).items() if v or k == "kind")
        lines += [
            "# the method's score of each flip",
            "from vcs.explore.explain import POOL, Moment, Target",
            "",
            "pool = np.stack(([rams[0]] * POOL + rams)[-POOL:])",
            "moment = Moment(machine, actions[start:], trace, lambda: pool)",
            f"scores = moment.scores(Target({target}), {e.method!r}).reshape(128, 8)",
        ]
    lines += [
        "",
        "varied = np.ptp(abs(scores)) > 0 and np.ptp(abs(effects)) > 0",
        "agreement = np.corrcoef(abs(scores).ravel(), abs(effects).ravel())[0, 1] if varied else None",
        "",
        'if __name__ == "__main__":',
        '    print(f"value {derivative.value:g}, agreement {agreement}")',
        "    for name, slope in derivative.top(10):",
        '        print(f"{name:16} {slope:+.6g}")',
        "    for cell in np.flatnonzero(abs(effects).max(axis=1)):",
        '        print(f"RAM[0x{cell:02X}] by bit", effects[cell])',
    ]
    return "\n".join(lines) + "\n"

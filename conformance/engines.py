"""Hard against soft against adjoint, along traces of real games (pxc2).

The soft machine replays a trace with its own values. After every instruction its registers, packed flags,
RAM, TIA registers and object positions are compared not with the trace but with the plain machine run again
by single steps, so that an error of the recorder cannot hide behind itself; then every drawn pixel with the
picture. Gradients of pixels and RAM bytes by both engines are compared part by part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import vcs
from conformance import locate
from conformance.cases import DIFFERENT, EQUAL, Case, Outcome
from conformance.records import legal
from vcs import layout
from vcs.gradient import Attribution, grads
from vcs.soft import Step, replay
from vcs.trace import start_values

TOLERANCE = 1e-9  # of adjoint against soft, relative to the largest derivative of the part
REGISTERS = ("a", "x", "y", "sp", "p", "pc")
# locations compared after every instruction: first and number
COMPARED = {
    "RAM": (layout.RAM, layout.RAM_SIZE),
    "TIA": (layout.TIA_W, layout.TIA_W_SIZE),
    "position": (layout.POSITION, 5),
}
MOTION = (0x20, 0x25)  # HMP0 to HMBL among the TIA registers
CELLS = 3  # RAM bytes differentiated, besides a pixel per visible object and a weighting of all pixels


def _hard_after(m: Any, trace: Any, actions: list[int]) -> list[tuple[Any, ...]]:
    """Registers, RAM, TIA registers and positions of the plain machine after each instruction."""
    states: list[tuple[Any, ...]] = []
    starts = {int(f["first_instr"]): action for f, action in zip(trace.frames, actions, strict=True)}
    for k in range(len(trace.instr)):
        if k in starts:
            m.set_inputs(legal(m, starts[k]))
        m.step_instruction()
        r, cells = m.registers, start_values(m)
        parts = (tuple(cells[first : first + n].tolist()) for first, n in COMPARED.values())
        states.append((r.A, r.X, r.Y, r.SP, r.P, r.PC, *parts))
    return states


def _soft_state(step: Step) -> tuple[Any, ...]:
    """The soft machine's state in the form of `_hard_after`'s.

    It keeps the whole byte stored to a motion register, of which only the upper nibble exists (tia.md 3).
    """
    first, last = MOTION
    tia = step.tia
    tia = (*tia[:first], *(v & 0xF0 for v in tia[first:last]), *tia[last:])
    return (step.a, step.x, step.y, step.sp, step.p, step.pc, step.ram, tia, step.positions)


def _unequal(soft: tuple[Any, ...], hard: tuple[Any, ...]) -> dict[str, list[int]]:
    """What differs between two states of `_hard_after`'s form: name -> [soft, hard]."""
    registers = len(REGISTERS)
    found = {n: [a, b] for n, a, b in zip(REGISTERS, soft, hard, strict=False) if a != b}
    for what, ours, theirs in zip(COMPARED, soft[registers:], hard[registers:], strict=True):
        found |= {f"{what}[{i}]": [a, b] for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b}
    return found


def _outputs(trace: Any) -> list[Any]:
    """A pixel of each object the last frame shows, some RAM bytes, and a weighting of everything; seeded."""
    rng = np.random.RandomState(0)
    winner = trace.winner[-1]
    pixels = []
    for kind in np.unique(winner[winner != 255]):
        places = np.argwhere(winner == kind)
        row, column = places[rng.randint(len(places))]
        pixels.append(("pixel", int(row), int(column)))
    cells = [("ram", int(i)) for i in rng.permutation(128)[:CELLS]]
    return [*pixels, *cells, rng.standard_normal(trace.screens.shape)]


def error(ours: Attribution, theirs: Attribution) -> tuple[float, str]:
    """The largest difference of two attributions relative to the part's largest derivative, and the part."""
    worst = (0.0, "")
    for name, b in theirs.parts.items():
        a: npt.NDArray[np.float64] = ours.parts[name]
        scale = max(float(np.abs(b).max(initial=0.0)), float(np.abs(a).max(initial=0.0)))
        if scale > 0:
            worst = max(worst, (float(np.abs(a - b).max()) / scale, name))
    return worst


def run(case: Case) -> Outcome:
    """Parameters: frames, warmup, settings (list of [alpha, T]), rules (list of rule sets)."""
    p = case.params
    m = vcs.Machine(case.game)
    rng = np.random.RandomState(0)
    for action in rng.randint(18, size=p["warmup"]).tolist():
        if m.game_over:
            m.reset()
        m.step(action)
    if m.game_over:
        m.reset()
    actions = rng.randint(18, size=p["frames"]).tolist()
    start = m.snapshot()
    trace = m.trace(actions)
    m.restore(start)
    hard = _hard_after(m, trace, actions)
    counts = {"instructions": 0, "pixels": 0, "gradients": 0}
    for rules in p["rules"]:
        for alpha, t in p["settings"]:
            where = f"rules {rules}, alpha {alpha:g}, T {t:g}"
            soft = replay(trace, rules=rules, alpha=alpha, T=t)
            for k, (step, state) in enumerate(zip(soft.steps(), hard, strict=True)):
                mine = _soft_state(step)
                if mine != state:
                    wrong = _unequal(mine, state)
                    detail: dict[str, Any] = {"values": wrong, "after": locate.instruction(trace, k)}
                    detail.update(locate.clock(trace, k))
                    return Outcome(
                        case,
                        DIFFERENT,
                        counts,
                        difference=detail,
                        message=f"{', '.join(wrong)} after instruction {k} ({where})",
                    )
                counts["instructions"] += 1
            # a pass with checks compares every drawn pixel too, and raises where one differs
            counts["pixels"] += int((trace.winner != 255).sum())
            outputs = _outputs(trace)
            pair = [
                grads(trace, outputs, rules=rules, alpha=alpha, T=t, engine=e) for e in ("adjoint", "soft")
            ]
            for ours, theirs in zip(*pair, strict=True):
                size, part = error(ours, theirs)
                if size > TOLERANCE or abs(ours.value - theirs.value) > TOLERANCE * max(
                    1.0, abs(theirs.value)
                ):
                    a, b = ours.parts[part], theirs.parts[part]
                    i = int(np.abs(a - b).argmax())
                    return Outcome(
                        case,
                        DIFFERENT,
                        counts,
                        message=f"gradient of {ours.output} by {part}: {size:.2g} relative ({where})",
                        difference={
                            "output": ours.output,
                            "part": part,
                            "element": i,
                            "adjoint": float(a.reshape(-1)[i]),
                            "soft": float(b.reshape(-1)[i]),
                            "value": [ours.value, theirs.value],
                        },
                    )
                counts["gradients"] += 1
    return Outcome(case, EQUAL, counts)

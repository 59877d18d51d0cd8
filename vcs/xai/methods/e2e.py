"""Methods on the true end-to-end gradient of the machine, instead of the study's hand-made handles.

The gradient runs through everything the machine did in the 15 frames of the tail (`vcs.grads`, the adjoint
engine), once per rule set: `value` (one number a byte) and `bit` (eight). The content output is a RAM byte
and has a gradient. The position output counts changed pixels: at the baseline it is 0 and a minimum, so its
own derivative is 0 everywhere; what has a derivative is the picture behind it. A cause's score is the norm
of the picture's change, ||J u||, over the last frame, estimated from seeded sign vectors e as
sqrt(mean((e . J u)^2)): unbiased for its square, at one reverse sweep a vector instead of one a pixel.

`saliency` takes |gradient| per place, `gradient x input` the first-order effect of setting it to 0, `patch`
that of each intervention (it can tell `set` from `occlude`). The path methods average the gradient over other
RAM contents, rounded to bytes, each with its own re-run and trace; such states were never played, so what the
program does in them is part of what these methods measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vcs.gradient import Attribution as Gradient
from vcs.gradient import grads
from vcs.trace import Trace
from vcs.xai.causes import COLUBK, RAM, RIGHT_LINE, TIA, Act, Cause, Do
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.oracle import action_lines
from vcs.xai.outputs import Bytes, Content, Output, Pixel, Region
from vcs.xai.rng import Generator
from vcs.xai.state import State

SIGNS = 16  # sign vectors for the norm of the picture's change
POINTS, POINT_SIGNS = 6, 4  # RAM contents of the path methods, sign vectors in each
SIGMA = 8.0
PARTS = ("ram", "tia", "inputs")

Vector = NDArray[np.float64]


def sweeps(trace: Trace, output: Output, rules: str, signs: int) -> list[Gradient]:
    """The reverse sweeps behind an output: one for a byte, a pixel or a region, ``signs`` for the picture."""
    targets: list[object]
    if isinstance(output, Content):
        targets = [("ram", output.cell)]
    elif isinstance(output, Pixel):
        targets = [("pixel", output.row, output.col)]
    elif isinstance(output, Region):
        weights = np.zeros(trace.screens.shape[1:])
        area = (output.bottom - output.top) * (output.right - output.left)
        weights[output.top : output.bottom, output.left : output.right] = 1 / area
        targets = [weights]
    else:
        rng = np.random.default_rng(0)
        shape = trace.screens.shape[1:]
        targets = [rng.choice(np.array([-1.0, 1.0]), shape) for _ in range(signs)]
    return grads(trace, targets, wrt=PARTS, rules=rules, engine="adjoint")


def gradients(state: State, output: Output, rules: str) -> list[Gradient]:
    """`sweeps` of the tail from the checkpoint, kept on the state: three methods share them."""
    key = (output.name if isinstance(output, (Content, Pixel, Region)) else "picture", rules)
    if key not in state.gradients:
        state.gradients[key] = sweeps(state.trace, output, rules, SIGNS)
    return state.gradients[key]


def _bits(value: int) -> Vector:
    return np.array([(value >> k) & 1 for k in range(8)], np.float64)


def directional(state: State, g: Gradient, u: Do | Act) -> float:
    """Gradient times the change that an intervention makes: its first-order effect."""
    if isinstance(u, Act):
        before, after = action_lines(state.tail[u.frame]), action_lines(u.action)
        return float(g.inputs[u.frame, :5] @ (np.array(after, float) - np.array(before, float)))
    if u.location >= TIA:
        part, old = g.tia[u.location - TIA], int(state.machine.peek(u.location - TIA))
    else:
        part, old = g.ram[u.location - RAM], int(state.ram[u.location - RAM])
    if g.rules == "bit":
        return float(part @ (_bits(u.value) - _bits(old)))
    return float(part * (u.value - old))


def size(g: Gradient, cause: Cause) -> float:
    """|gradient| of a cause's place: of its byte, the sum over its bits, or of the RIGHT line."""
    if cause.cell >= 0:
        return float(np.abs(g.ram[cause.cell]).sum())
    u = cause.do[0]
    if isinstance(u, Do):
        return float(np.abs(g.tia[u.location - TIA]).sum())
    return float(abs(g.inputs[u.frame, RIGHT_LINE]))


def to_zero(state: State, g: Gradient, cause: Cause) -> float:
    """gradient x input of a cause's place: the first-order effect of setting it to 0."""
    if cause.cell >= 0:
        return directional(state, g, Do(RAM + cause.cell, "set", 0))
    if isinstance(cause.do[0], Do):
        return directional(state, g, Do(COLUBK, "set", 0))
    return float(g.inputs[0, RIGHT_LINE] * action_lines(state.tail[0])[RIGHT_LINE])


def norm(values: Sequence[Sequence[float]] | Vector) -> Vector:
    """Root mean square over sweeps (first axis); of a single sweep the absolute value."""
    x = np.asarray(values, float)
    top = float(np.abs(x).max(initial=0.0))
    if not 0 < top < np.inf:
        return np.asarray(np.abs(x).max(axis=0))
    # gradients through long loops grow beyond 1e200, whose squares no float holds
    return np.asarray(np.sqrt(np.mean(np.square(x / top), axis=0)) * top)


def along(g: Gradient, old: Bytes, new: Bytes) -> Vector:
    """First-order effect of each RAM byte going from ``old`` to ``new``, float64[128]."""
    if g.rules == "bit":
        step = np.unpackbits(new[:, None], axis=1, bitorder="little").astype(float)
        step -= np.unpackbits(old[:, None], axis=1, bitorder="little")
        return np.asarray((g.ram * step).sum(axis=1))
    return np.asarray(g.ram * (new.astype(float) - old))


def _bytes(ram: NDArray[np.floating]) -> Bytes:
    return np.asarray(np.clip(np.rint(ram), 0, 255), np.uint8)


def averaged(
    state: State, output: Output, rules: str, points: Sequence[tuple[Bytes, Callable[[Gradient], Vector]]]
) -> Vector:
    """Over 128 cells, the norm over sign vectors of the mean over points of what each sweep gives there."""
    total: Vector | None = None
    for ram, read in points:
        found = np.array([read(g) for g in sweeps(state.trace_at(ram), output, rules, POINT_SIGNS)])
        total = found if total is None else total + found
    assert total is not None
    return norm(total / len(points))


def _add(rules: str) -> None:
    facts = {"tradition": "gradient", "rules": rules}

    @register(
        f"saliency_e2e_{rules}",
        title=f"Saliency, end to end ({rules} rules)",
        reference="Simonyan et al. 2014",
        **facts,
    )
    def saliency(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """Absolute end-to-end gradient of the output by each cause's place."""
        found = gradients(state, output, rules)
        over = norm([np.abs(g.ram).reshape(128, -1).sum(axis=1).tolist() for g in found])
        values = norm([[size(g, c) for c in causes] for g in found])
        return Attribution(values, extra={"sweeps": len(found)}, arrays={"saliency_over_ram": over})

    @register(
        f"gradient_x_input_e2e_{rules}",
        title=f"Gradient x input, end to end ({rules} rules)",
        reference="Shrikumar et al. 2017",
        **facts,
    )
    def gradient_x_input(state: State, output: Output, causes: Sequence[Cause]) -> Vector:
        """End-to-end first-order effect of setting the place to 0."""
        return norm([[to_zero(state, g, c) for c in causes] for g in gradients(state, output, rules)])

    @register(
        f"patch_e2e_{rules}",
        title=f"Attribution patching, end to end ({rules} rules)",
        reference="Nanda 2023",
        **facts,
    )
    def patch(state: State, output: Output, causes: Sequence[Cause]) -> Vector:
        """First-order prediction of each intervention: end-to-end gradient times the change it makes."""
        found = gradients(state, output, rules)
        return norm([[sum(directional(state, g, u) for u in c.do) for c in causes] for g in found])

    @register(
        f"integrated_gradients_e2e_{rules}",
        title=f"Integrated gradients, end to end ({rules} rules)",
        reference="Sundararajan et al. 2017",
        **facts,
    )
    def integrated_gradients(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """End-to-end gradient averaged over RAM contents between all zeros and the checkpoint."""
        zero = np.zeros(128, np.uint8)
        points = [
            (_bytes(state.ram * (j + 0.5) / POINTS), lambda g: along(g, zero, state.ram))
            for j in range(POINTS)
        ]
        over = averaged(state, output, rules, points)
        return Attribution(
            per_cause(causes, over),
            extra={"points": POINTS, "baseline": "zeros"},
            arrays={"saliency_over_ram": over},
        )

    @register(
        f"smoothgrad_e2e_{rules}",
        title=f"SmoothGrad, end to end ({rules} rules)",
        reference="Smilkov et al. 2017",
        **facts,
    )
    def smoothgrad(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """Absolute end-to-end gradient averaged over noisy RAM contents."""
        generator = Generator(0)
        rams = [_bytes(state.ram + SIGMA * generator.normals(128)) for _ in range(POINTS)]
        points = [(ram, lambda g: np.abs(g.ram).reshape(128, -1).sum(axis=1)) for ram in rams]
        over = averaged(state, output, rules, points)
        return Attribution(
            per_cause(causes, over),
            extra={"points": POINTS, "sigma": SIGMA},
            arrays={"saliency_over_ram": over},
        )

    @register(
        f"expected_gradients_e2e_{rules}",
        title=f"Expected gradients, end to end ({rules} rules)",
        reference="Erion et al. 2021",
        **facts,
    )
    def expected_gradients(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """End-to-end gradient between RAM contents of the gameplay and the checkpoint, averaged."""
        generator = Generator(1234567)
        points: list[tuple[Bytes, Callable[[Gradient], Vector]]] = []
        for _ in range(POINTS):
            row = state.pool[1 + generator.below(len(state.pool) - 1)]
            alpha = generator.uniform32()
            between = _bytes(row + alpha * (state.ram.astype(float) - row))
            points.append((between, partial(along, old=row, new=state.ram)))
        over = averaged(state, output, rules, points)
        return Attribution(
            per_cause(causes, over), extra={"points": POINTS}, arrays={"saliency_over_ram": over}
        )


for _rules in ("value", "bit"):
    _add(_rules)

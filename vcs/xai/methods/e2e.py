"""Methods on the true end-to-end gradient of the machine, instead of the study's hand-made handles.

The gradient runs through everything the machine did in the 15 frames of the tail (`vcs.grads`, the adjoint
engine), once per rule set: `value` (one number a byte) and `bit` (eight). The content output is a RAM byte
and has a gradient. The position output counts changed pixels: at the baseline it is 0 and a minimum, so its
own derivative is 0 everywhere; what has a derivative is the picture behind it. A cause's score is the norm
of the picture's change, ||J u||, over the last frame, estimated from seeded sign vectors e as
sqrt(mean((e . J u)^2)), which is unbiased for its square and needs one reverse sweep a vector, not one a pixel.

Three methods: `saliency` (|gradient| per location), `gradient x input`, and `patch`, the first-order
prediction of each intervention (gradient times the change it makes), which can tell `set` from `occlude`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.gradient import Attribution as Gradient
from vcs.gradient import grads
from vcs.xai.causes import COLUBK, RAM, TIA, Act, Cause, Do
from vcs.xai.methods import Attribution, register
from vcs.xai.oracle import action_lines
from vcs.xai.outputs import Content, Output
from vcs.xai.state import State

SIGNS = 16                  # sign vectors for the norm of the picture's change
PARTS = ("ram", "tia", "inputs")


def gradients(state: State, output: Output, rules: str) -> list[Gradient]:
    """The reverse sweeps behind an output: one for a byte, `SIGNS` for the picture. Kept on the state."""
    cache: dict[tuple[str, str], list[Gradient]] = state.__dict__.setdefault("_e2e", {})
    key = (output.name if isinstance(output, Content) else "picture", rules)
    if key not in cache:
        if isinstance(output, Content):
            targets: list[object] = [("ram", output.cell)]
        else:
            rng = np.random.default_rng(0)
            shape = state.trace.screens.shape[1:]
            targets = [rng.choice(np.array([-1.0, 1.0]), shape) for _ in range(SIGNS)]
        cache[key] = grads(state.trace, targets, wrt=PARTS, rules=rules, engine="adjoint")
    return cache[key]


def _tia(state: State, register_: int) -> int:
    """The byte last stored in a TIA register before the checkpoint."""
    return int(state.machine.peek(register_))


def _bits(value: int) -> NDArray[np.float64]:
    return np.array([(value >> k) & 1 for k in range(8)], np.float64)


def directional(state: State, g: Gradient, u: Do | Act) -> float:
    """Gradient times the change that an intervention makes: its first-order effect."""
    if isinstance(u, Act):
        before, after = action_lines(state.tail[u.frame]), action_lines(u.action)
        return float(g.inputs[u.frame, :5] @ (np.array(after, float) - np.array(before, float)))
    if u.location >= TIA:
        part, old = g.tia[u.location - TIA], _tia(state, u.location - TIA)
    else:
        part, old = g.ram[u.location - RAM], int(state.ram[u.location - RAM])
    if g.rules == "bit":
        return float(part @ (_bits(u.value) - _bits(old)))
    return float(part * (u.value - old))


def _size(g: Gradient, cause: Cause) -> float:
    """|gradient| of a cause's place: of its byte, the sum over its bits, or of the RIGHT line."""
    if cause.cell >= 0:
        return float(np.abs(g.ram[cause.cell]).sum())
    u = cause.do[0]
    if isinstance(u, Do):
        return float(np.abs(g.tia[u.location - TIA]).sum())
    return float(abs(g.inputs[u.frame, 3]))


def _input(state: State, g: Gradient, cause: Cause) -> float:
    """gradient x input of a cause's place: the first-order effect of setting it to 0."""
    if cause.cell >= 0:
        return directional(state, g, Do(RAM + cause.cell, "set", 0))
    if isinstance(cause.do[0], Do):
        return directional(state, g, Do(COLUBK, "set", 0))
    return float(g.inputs[0, 3] * action_lines(state.tail[0])[3])


def _norm(values: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Root mean square over sweeps; of a single sweep the absolute value."""
    return np.asarray(np.sqrt(np.mean(np.square(np.array(values, float)), axis=0)))


def _add(rules: str) -> None:
    facts = {"tradition": "gradient", "rules": rules}

    @register(f"saliency_e2e_{rules}", title=f"Saliency, end to end ({rules} rules)",
              reference="Simonyan et al. 2014", **facts)
    def saliency(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """Absolute end-to-end gradient of the output by each cause's place."""
        sweeps = gradients(state, output, rules)
        over = _norm([np.abs(g.ram).reshape(128, -1).sum(axis=1).tolist() for g in sweeps])
        return Attribution(_norm([[_size(g, c) for c in causes] for g in sweeps]), extra={"sweeps": len(sweeps)},
                           arrays={"saliency_over_ram": over})

    @register(f"gradient_x_input_e2e_{rules}", title=f"Gradient x input, end to end ({rules} rules)",
              reference="Shrikumar et al. 2017", **facts)
    def gradient_x_input(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """End-to-end gradient times what the place holds."""
        sweeps = gradients(state, output, rules)
        return Attribution(_norm([[_input(state, g, c) for c in causes] for g in sweeps]),
                           extra={"sweeps": len(sweeps)})

    @register(f"patch_e2e_{rules}", title=f"Attribution patching, end to end ({rules} rules)",
              reference="Nanda 2023", **facts)
    def patch(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
        """First-order prediction of each intervention: end-to-end gradient times the change it makes."""
        sweeps = gradients(state, output, rules)
        values = [[sum(directional(state, g, u) for u in c.do) for c in causes] for g in sweeps]
        return Attribution(_norm(values), extra={"sweeps": len(sweeps)})


for _rules in ("value", "bit"):
    _add(_rules)

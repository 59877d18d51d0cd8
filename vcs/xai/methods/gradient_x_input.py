"""Gradient x input, equal to DeepLIFT with a zero baseline (9.1), with its own choice of content cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Content, Output
from vcs.xai.state import State


def score_cell(state: State, output: Output) -> Output:
    """The content cell of 9.1: a score cell that persists, else the cell that keeps most of its own +17."""
    if output.kind != "content":
        return output
    alive = [c for c in state.cells if state.ram[c]]
    if not alive:
        return Content.of(state.cells[0])
    runs = [state.write({c: (int(state.ram[c]) + 17) % 256}) for c in alive]
    kept = {
        c: abs(float(o.ram[c]) - float(state.baseline.ram[c]))
        for c, o in zip(alive, state.outcomes(runs), strict=True)
    }
    scores = [c for c in alive if "score" in state.concepts[c].lower() and kept[c] > 0]
    return Content.of(max(scores or alive, key=lambda c: kept[c]))


@register(
    "gradient_x_input",
    title="Gradient x input (DeepLIFT, zero baseline)",
    tradition="gradient",
    rules="hand-made",
    choose=score_cell,
    reference="Shrikumar et al. 2017",
    published=(0.4856, 0.8563, 0.1150),
)
def gradient_x_input(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Absolute product of each RAM byte with the gradient of the read-out."""
    ram = state.ram.astype(np.float32)
    product = np.abs(ram * output.readout.gradient(ram))
    return Attribution(per_cause(causes, product), arrays={"saliency_over_ram": product.astype(np.float64)})

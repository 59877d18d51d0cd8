"""Extremal perturbation: a greedy smallest mask of causes that moves the output most (9.6)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vcs.xai import metrics
from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, register
from vcs.xai.outputs import Output
from vcs.xai.state import State


@register(
    "extremal_perturbation",
    title="Extremal perturbation",
    tradition="intervention",
    reference="Fong et al. 2019",
    published=(0.4605, 0.5736, 0.3474),
)
def extremal_perturbation(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Occlude causes greedily, at most a quarter of them, while the output moves further."""
    y0 = state.value(output)
    single = np.abs(state.values(output, [state.occluded([c]) for c in causes]) - y0)
    mask: list[int] = []
    entry: dict[int, float] = {}
    current = 0.0
    for _ in range(max(1, math.ceil(0.25 * len(causes)))):
        rest = [i for i in range(len(causes)) if i not in mask]
        runs = [state.occluded([causes[k] for k in [*mask, i]]) for i in rest]
        moved = np.abs(state.values(output, runs) - y0)
        best = int(np.argmax(moved))
        if moved[best] <= current + 1e-12:
            break
        current = float(moved[best])
        mask.append(rest[best])
        entry[rest[best]] = current
    values = single.copy()
    for i, reached in entry.items():
        values[i] = max(single[i], reached) + single.max()
    effects = state.effects(output, causes)
    top = {causes[i].cell for i in metrics.descending(effects)[:3] if effects[i] > 0}
    named = {causes[i].cell for i in mask}
    union = top | named
    return Attribution(
        values,
        extra={
            "mask": [causes[i].name for i in mask],
            "mask_iou_with_top_movers": len(top & named) / len(union) if union else None,
        },
    )

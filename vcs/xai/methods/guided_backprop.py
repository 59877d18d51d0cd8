"""Guided backprop: negative gradients are cut before the absolute value (9.4).

On this machine the cut has no layers to act on; it only meets the final gradient. The position gradient of
the hand-made sampler is -1 or 0 (5.4), so its map is always 0: an artefact of the sampler's sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.state import State


@register(
    "guided_backprop",
    title="Guided backprop",
    tradition="gradient",
    rules="hand-made",
    reference="Springenberg et al. 2015",
    published=(0.3223, 0.6447, 0.0000),
)
def guided_backprop(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Gradient of the read-out with its negative entries removed."""
    gradient = output.readout.gradient(state.ram.astype(np.float32))
    kept = np.maximum(gradient, 0.0).astype(np.float64)
    negative = int(np.count_nonzero(gradient < 0))
    return Attribution(
        per_cause(causes, kept), extra={"negative_entries_cut": negative}, arrays={"saliency_over_ram": kept}
    )

"""Vanilla gradient: |d read-out / d RAM cell| at the checkpoint (section 6 of the audit protocol)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.state import State


@register(
    "saliency",
    title="Vanilla gradient (saliency)",
    tradition="gradient",
    record_name="vanilla_saliency",
    rules="hand-made",
    reference="Simonyan et al. 2014",
    published=(0.3798, 0.6447, 0.1150),
)
def saliency(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Absolute gradient of the study's read-out: a one-hot RAM read, or the triangular sampler."""
    gradient = np.abs(output.readout.gradient(state.ram.astype(np.float32)))
    return Attribution(per_cause(causes, gradient), arrays={"saliency_over_ram": gradient.astype(np.float64)})

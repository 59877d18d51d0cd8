"""SmoothGrad: the mean |gradient| over 50 noisy copies of RAM, seeded (9.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.rng import Generator
from vcs.xai.state import State

COPIES, SIGMA = 50, 8.0


@register(
    "smoothgrad",
    title="SmoothGrad",
    tradition="gradient",
    rules="hand-made",
    reference="Smilkov et al. 2017",
    published=(0.3799, 0.6447, 0.1151),
)
def smoothgrad(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Absolute gradient of the read-out averaged over Gaussian noise of 8 counts on every cell."""
    generator = Generator(0)
    total = np.zeros(128)
    for _ in range(COPIES):
        noisy = (state.ram + SIGMA * generator.normals(128)).astype(np.float32)
        total += np.abs(output.readout.gradient(noisy))
    mean = total / COPIES
    return Attribution(
        per_cause(causes, mean), extra={"copies": COPIES, "sigma": SIGMA}, arrays={"saliency_over_ram": mean}
    )

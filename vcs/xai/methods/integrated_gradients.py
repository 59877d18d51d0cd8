"""Integrated gradients from four named baselines; the recorded one is all zeros (9.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Output, Readout
from vcs.xai.rng import Generator
from vcs.xai.state import State

STEPS = 64


def integrate(readout: Readout, x: NDArray[np.float32], x0: NDArray[np.float32]) -> NDArray[np.float32]:
    """(x - x0) times the mean gradient over 64 midpoints of the straight path, float32[128]."""
    total = np.zeros(128, np.float32)
    for j in range(STEPS):
        alpha = np.float32((j + 0.5) / STEPS)
        total += readout.gradient(x0 + alpha * (x - x0))
    return np.asarray((x - x0) * (total / np.float32(STEPS)), np.float32)


@register(
    "integrated_gradients",
    title="Integrated gradients",
    tradition="gradient",
    rules="hand-made",
    reference="Sundararajan et al. 2017",
    published=(0.3794, 0.6443, 0.1146),
)
def integrated_gradients(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Gradient of the read-out averaged along the path from a baseline, times the way travelled."""
    x = state.ram.astype(np.float32)
    generator = Generator(9973)
    baselines = {
        "zeros": np.zeros(128, np.float32),
        "mean": np.full(128, x.mean(), np.float32),
        "uniform": np.array([generator.below(256) for _ in range(128)], np.float32),
        "frame45": state.pool[45].astype(np.float32),
    }
    maps = {name: np.abs(integrate(output.readout, x, x0)) for name, x0 in baselines.items()}
    arrays = {"saliency_over_ram": maps["zeros"].astype(np.float64)}
    arrays |= {f"attr_{name}": per_cause(causes, m) for name, m in maps.items()}
    return Attribution(
        per_cause(causes, maps["zeros"]), extra={"baseline": "zeros", "steps": STEPS}, arrays=arrays
    )

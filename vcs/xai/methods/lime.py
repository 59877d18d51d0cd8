"""LIME: a weighted linear surrogate over random maskings (9.8), with a stability check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.methods.rise import random_masks
from vcs.xai.outputs import Output
from vcs.xai.rng import Generator
from vcs.xai.state import State

SAMPLES, RIDGE, FITS = 300, 1e-6, 5


def fit(state: State, output: Output, seed: int) -> NDArray[np.float64]:
    """|coefficient| per sorted cell for one seed, float64[C]."""
    cells = state.sorted_cells
    n = len(cells)
    masks = np.ones((SAMPLES, n), bool)
    masks[1:] = random_masks(Generator(1000003 * seed + 6271), SAMPLES - 1, n)
    runs = [state.masked(c for c, kept in zip(cells, mask, strict=True) if not kept) for mask in masks]
    y = state.values(output, runs)
    if np.ptp(y) == 0:
        # The output answers no mask: there is nothing to fit, and the solver's rounding noise is no
        # attribution (the study published the correlation of that noise for two games).
        return np.zeros(n)
    distance = 1.0 - np.sqrt(masks.sum(axis=1) / n)
    weight = np.exp(-((distance / (0.75 * np.sqrt(n))) ** 2))
    x = np.hstack([np.ones((SAMPLES, 1)), masks])
    normal = x.T @ (weight[:, None] * x) + np.diag([0.0] + [RIDGE] * n)
    return np.asarray(np.abs(np.linalg.solve(normal, x.T @ (weight * y))[1:]))


@register(
    "lime",
    title="LIME",
    tradition="intervention",
    reference="Ribeiro et al. 2016",
    published=(0.6441, 0.6973, 0.5910),
)
def lime(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Coefficients of a local linear model of the output in which cells are kept."""
    fits = [fit(state, output, 101 * s) for s in range(FITS)]
    cells = state.sorted_cells
    return Attribution(
        per_cause(causes, dict(zip(cells, fits[0], strict=True))),
        extra={"samples": SAMPLES, "coefficient_std_max": float(np.std(fits, axis=0).max())},
        arrays={"coefficients_per_seed": np.stack(fits)},
    )

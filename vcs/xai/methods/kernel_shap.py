"""KernelSHAP over the candidate cells, by the study's own sampler (9.9) and by the shap library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.errors import VcsError
from vcs.xai.causes import Cause
from vcs.xai.methods import per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.rng import Generator
from vcs.xai.state import State

COALITIONS, RIDGE = 512, 1e-8


def coalitions(generator: Generator, cells: int, count: int) -> dict[tuple[int, ...], float]:
    """Distinct coalitions (sorted indices present), in order of first draw, with summed kernel weights."""
    sizes = np.arange(1, cells)
    p = (cells - 1) / (sizes * (cells - sizes))
    cumulative = np.cumsum(p / p.sum())
    found: dict[tuple[int, ...], float] = {}
    for _ in range(count):
        r = generator.uniform()
        size = int(sizes[min(int(np.searchsorted(cumulative, r, side="left")), cells - 2)])
        present = tuple(sorted(i - 1 for i in generator.permutation(cells)[:size]))
        weight = (cells - 1) / (math.comb(cells, size) * size * (cells - size))
        found[present] = found.get(present, 0.0) + weight
    return found


@register(
    "kernel_shap",
    title="KernelSHAP",
    tradition="intervention",
    reference="Lundberg and Lee 2017",
    published=(0.6518, 0.7083, 0.5954),
)
def kernel_shap(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """Shapley values of the cells, a masked cell being 0, from 512 sampled coalitions."""
    cells = state.sorted_cells
    n = len(cells)
    f0, f1 = state.values(output, [state.masked(cells), ()])
    if n == 1:
        return per_cause(causes, {cells[0]: abs(f1 - f0)})
    drawn = coalitions(Generator(6151), n, COALITIONS)
    x = np.zeros((len(drawn), n))
    for row, present in enumerate(drawn):
        x[row, list(present)] = 1.0
    runs = [state.masked(c for k, c in enumerate(cells) if k not in set(present)) for present in drawn]
    target = state.values(output, runs) - f0
    weight = np.fromiter(drawn.values(), float)
    normal = x.T @ (weight[:, None] * x) + RIDGE * np.eye(n)
    phi = np.linalg.solve(normal, x.T @ (weight * target))
    along = np.linalg.solve(normal, np.ones(n))
    phi += along * ((f1 - f0) - phi.sum()) / along.sum()
    return per_cause(causes, dict(zip(cells, np.abs(phi), strict=True)))


@register(
    "kernel_shap_lib",
    title="KernelSHAP (shap library)",
    tradition="intervention",
    reference="Lundberg and Lee 2017; shap.KernelExplainer",
)
def kernel_shap_lib(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """The same values by shap.KernelExplainer with 512 samples, without regularisation."""
    try:
        import shap
    except ImportError:
        raise VcsError("kernel_shap_lib needs the shap package: pip install 'glassvcs[xai]'") from None
    cells = state.sorted_cells

    def model(keep: NDArray[np.float64]) -> NDArray[np.float64]:
        return state.values(
            output, [state.masked(c for c, k in zip(cells, row, strict=True) if k < 0.5) for row in keep]
        )

    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002 - shap draws from NumPy's global stream
    try:
        explainer = shap.KernelExplainer(model, np.zeros((1, len(cells))))
        phi = explainer.shap_values(
            np.ones(len(cells)), nsamples=COALITIONS, l1_reg=f"num_features({len(cells)})", silent=True
        )
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return per_cause(causes, dict(zip(cells, np.abs(np.ravel(phi)), strict=True)))

"""RISE: importance of a cell as the mean output over random masks that keep it (9.7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.rng import Generator
from vcs.xai.state import State

MASKS, KEEP = 500, 0.5


def random_masks(generator: Generator, count: int, cells: int) -> NDArray[np.bool_]:
    """bool[count, cells], true = kept, one double of the generator per cell, row by row."""
    return np.array([[generator.uniform() < KEEP for _ in range(cells)] for _ in range(count)], bool)


@register(
    "rise",
    title="RISE",
    tradition="intervention",
    reference="Petsiuk et al. 2018",
    published=(0.5522, 0.6644, 0.4399),
)
def rise(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """Mean output over 500 random maskings that keep the cell, against the mean over cells."""
    cells = state.sorted_cells
    masks = random_masks(Generator(7919), MASKS, len(cells))
    runs = [state.masked(c for c, kept in zip(cells, mask, strict=True) if not kept) for mask in masks]
    importance = masks.T @ state.values(output, runs) / (MASKS * KEEP)
    return per_cause(causes, dict(zip(cells, np.abs(importance - importance.mean()), strict=True)))

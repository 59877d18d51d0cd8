"""Expected gradients over the RAM of the gameplay so far (9.11): F from one seed, S and M from five."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Output
from vcs.xai.rng import Generator
from vcs.xai.state import State

DRAWS, SEEDS, FIRST_SEED = 64, 5, 1234567


def one(state: State, output: Output, seed: int) -> NDArray[np.float64]:
    """|EG| over the 128 cells for one generator seed, float64[128]."""
    generator = Generator(seed)
    x = state.ram.astype(np.float32)
    total = np.zeros(128, np.float32)
    for _ in range(DRAWS):
        row = state.pool[1 + generator.below(len(state.pool) - 1)].astype(np.float32)
        alpha = np.float32(generator.uniform32())
        total += (x - row) * output.readout.gradient(row + alpha * (x - row))
    return np.asarray(np.abs(total / np.float32(DRAWS)), np.float64)


@register(
    "expected_gradients",
    title="Expected gradients",
    tradition="gradient",
    rules="hand-made",
    reference="Erion et al. 2021",
    published=(0.1754, 0.3252, 0.0255),
)
def expected_gradients(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Integrated gradients with baselines drawn from the 90 frames played before."""
    maps = [one(state, output, FIRST_SEED + s) for s in range(SEEDS)]
    vectors = [per_cause(causes, m) for m in maps]
    return Attribution(
        vectors[0],
        averaged=np.mean(vectors, axis=0),
        extra={"draws": DRAWS, "seeds": SEEDS},
        arrays={"saliency_over_ram": maps[0], "attr_per_seed": np.stack(vectors)},
    )

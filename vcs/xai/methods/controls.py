"""Controls: the oracle as a method scores 1, noise scores about 0."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import register
from vcs.xai.outputs import Output
from vcs.xai.state import State


@register("oracle", title="Oracle (control)", tradition="control")
def oracle(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """The exact effects themselves: F is 1 wherever they are not constant."""
    return state.effects(output, causes)


@register("random", title="Random (control)", tradition="control")
def random(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """Uniform noise, seeded by game, output and state: F is about 0."""
    text = f"{state.rom_sha256} {output.name} {state.seed}".encode()
    seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
    return np.asarray(np.random.default_rng(seed).uniform(size=len(causes)))

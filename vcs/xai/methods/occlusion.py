"""Occlusion: the effect of setting a cause's place to 0 (9.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vcs.xai.causes import Cause
from vcs.xai.methods import register
from vcs.xai.outputs import Output
from vcs.xai.state import State


@register(
    "occlusion",
    title="Occlusion",
    tradition="intervention",
    reference="Zeiler and Fergus 2014",
    published=(0.6869, 0.7543, 0.6194),
)
def occlusion(state: State, output: Output, causes: Sequence[Cause]) -> NDArray[np.float64]:
    """Change of the output, on the true machine, when the cause is occluded."""
    return np.abs(state.values(output, [state.occluded([c]) for c in causes]) - state.value(output))

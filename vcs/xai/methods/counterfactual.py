"""Counterfactual search: bytes of earlier frames written into the checkpoint (9.10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, per_cause, register
from vcs.xai.outputs import Content, Output
from vcs.xai.state import State

FRAMES = (15, 22, 30, 45, 60, 67, 75, 80)
TARGET = 0.5


def changeable_cell(state: State, output: Output) -> Output:
    """The content cell of 9.10: among cells that differ in some alternative, the most moved one."""
    if output.kind != "content":
        return output
    cells = state.sorted_cells
    differ = [
        c for c in cells if (state.pool[list(FRAMES), c] != state.ram[c]).any() and state.persistence[c] > 0
    ]
    return Content.of(max(differ or cells, key=lambda c: state.persistence[c]))


@register(
    "counterfactual",
    title="Counterfactual",
    tradition="intervention",
    choose=changeable_cell,
    reference="Wachter et al. 2018",
    published=(0.4329, 0.5886, 0.2772),
)
def counterfactual(state: State, output: Output, causes: Sequence[Cause]) -> Attribution:
    """Change of the output when one cell takes its value of an earlier frame, the one that moves it most."""
    cells, y0 = state.sorted_cells, state.value(output)
    whole = [state.write({c: int(state.pool[f, c]) for c in cells}) for f in FRAMES]
    moves = np.abs(state.values(output, whole) - y0)
    chosen = int(np.argmax(moves))
    frame, goal = FRAMES[chosen], float(moves[chosen])
    other = {c: int(state.pool[frame, c]) for c in cells}
    single = np.abs(state.values(output, [state.write({c: other[c]}) for c in cells]) - y0)
    minimal: list[int] = []
    reached = 0.0
    while goal > 0 and reached < TARGET * goal and len(minimal) < len(cells):
        rest = [c for c in cells if c not in minimal]
        moved = np.abs(
            state.values(output, [state.write({k: other[k] for k in [*minimal, c]}) for c in rest]) - y0
        )
        minimal.append(rest[int(np.argmax(moved))])
        reached = float(moved.max())
    return Attribution(
        per_cause(causes, dict(zip(cells, single, strict=True))),
        extra={
            "alternative_frame": frame,
            "full_move": goal,
            "minimal_set": minimal,
            "minimal_set_move": reached,
        },
    )

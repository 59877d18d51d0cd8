"""Frames per second of 64 preprocessed environments, beside ale-py's own vector environment.

The same configuration on both sides: 84 x 84 gray, stack of 4, frame skip 4 with max-pool, autoreset, random
actions chosen beforehand. The unit is emulated frames per second (steps x environments x 4). One thread and
two (if this process may use two processors) show the scaling, which the last row gives.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from bench.harness import Row, interleave, summaries

ENVIRONMENTS, SKIP = 64, 4
PEER = "ale-py AtariVectorEnv"


def _stretch(env: Any, actions: np.ndarray) -> Callable[[], float]:
    def stretch() -> float:
        for row in actions:
            env.step(row)
        return float(len(actions) * ENVIRONMENTS * SKIP)

    return stretch


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game and thread count, then medians, then the scaling over threads."""
    from ale_py.vector_env import AtariVectorEnv as Reference

    from vcs.env.vector import AtariVectorEnv

    steps = max(8, int(100 * seconds))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows: dict[str, list[Row]] = {}
    for game in games:
        for threads in sorted({1, min(2, cores)}):
            kind = f"{threads} thread{'s' if threads > 1 else ''}"
            envs = [
                make(game, num_envs=ENVIRONMENTS, num_threads=threads) for make in (AtariVectorEnv, Reference)
            ]
            space = envs[0].single_action_space
            assert isinstance(space, Discrete)
            actions = np.random.RandomState(0).randint(int(space.n), size=(steps, ENVIRONMENTS))
            for env in envs:
                env.reset(seed=0)
            ours, theirs = (_stretch(env, actions) for env in envs)
            row = interleave(f"{game} {kind}", "frames/s", ours, PEER, theirs, repeats)
            for env in envs:
                env.close()
            rows.setdefault(kind, []).append(row)
            yield row
    yield from summaries(rows)
    if len(rows) == 2:
        one, two = rows.values()
        scaling = [b.ours / a.ours for a, b in zip(one, two, strict=True)]
        yield Row("scaling, 1 to 2 threads", "x", statistics.median(scaling), "-", None, None)

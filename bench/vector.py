"""Frames per second of 64 preprocessed environments, beside ale-py's own vector environment.

The same configuration on both sides: 84 x 84 gray, stack of 4, frame skip 4 with max-pool, autoreset, random
actions chosen beforehand. The unit is emulated frames per second (steps x environments x 4), on one thread
and on two (if this process may use two processors).

The rows ``scaling`` say how much faster two threads are than one, both timed in turn. Their peer is what the
computer allows: two environments of half the size and one thread each, driven at once by two threads that
never wait for one another.
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from bench.harness import Row, interleave, rate, summaries

ENVIRONMENTS, SKIP = 64, 4
PEER = "ale-py AtariVectorEnv"
APART = "two pools apart"


def _actions(env: Any, steps: int) -> np.ndarray:
    space = env.single_action_space
    assert isinstance(space, Discrete)
    return np.random.RandomState(0).randint(int(space.n), size=(steps, ENVIRONMENTS))


def _stretch(env: Any, actions: np.ndarray) -> Callable[[], float]:
    def stretch() -> float:
        for row in actions:
            env.step(row)
        return float(len(actions) * ENVIRONMENTS * SKIP)

    return stretch


def _scaling(game: str, steps: int, repeats: int) -> Row:
    """Two threads over one, and two pools apart over one."""
    from vcs.env.vector import AtariVectorEnv

    sizes = ((ENVIRONMENTS, 1), (ENVIRONMENTS, 2), *2 * ((ENVIRONMENTS // 2, 1),))
    envs = [AtariVectorEnv(game, num_envs=n, num_threads=threads) for n, threads in sizes]
    one, two, *halves = envs
    actions = _actions(one, steps)
    for env, seed in zip(envs, (0, 0, 0, ENVIRONMENTS // 2), strict=True):
        env.reset(seed=seed)

    def apart() -> float:
        parts = np.split(actions, 2, axis=1)
        stretches = [_stretch(env, part) for env, part in zip(halves, parts, strict=True)]
        threads = [threading.Thread(target=stretch) for stretch in stretches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return float(steps * ENVIRONMENTS * SKIP)

    works = (_stretch(one, actions), _stretch(two, actions), apart)
    for work in works:
        work()
    samples = []
    for _ in range(repeats):
        a, b, c = (rate(work) for work in works)
        samples.append([b / a, c / a])
    for env in envs:
        env.close()
    ours, theirs = (statistics.median(column) for column in zip(*samples, strict=True))
    ratio = statistics.median(b / c for b, c in samples)
    return Row(f"{game} scaling, 1 to 2 threads", "x", ours, APART, theirs, ratio, samples)


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game and thread count, and the scaling over threads, then medians."""
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
            actions = _actions(envs[0], steps)
            for env in envs:
                env.reset(seed=0)
            ours, theirs = (_stretch(env, actions) for env in envs)
            row = interleave(f"{game} {kind}", "frames/s", ours, PEER, theirs, repeats)
            for env in envs:
                env.close()
            rows.setdefault(kind, []).append(row)
            yield row
        if cores > 1:
            row = _scaling(game, steps, repeats)
            rows.setdefault("scaling, 1 to 2 threads", []).append(row)
            yield row
    yield from summaries(rows)

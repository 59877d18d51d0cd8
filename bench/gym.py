"""Steps per second of ``gymnasium.make("VCS/Pong-v5")`` at frame skip 4, as a Python user calls it.

The peer of the first rows is the core: the same machine with the same frame skip and sticky actions, stepped
without Gymnasium and without fetching an observation. Their ratio is the share of a user's step that goes to
the game; an environment that costs 1.3 times the core has 0.77. The peer of the other rows is ale-py's
``ALE/Pong-v5``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np

import vcs
import vcs.env
from bench.harness import Row, interleave, summaries
from vcs.games import get_game

OBSERVATIONS = ("rgb", "grayscale", "ram")
SKIP, STICKY = 4, 0.25


def _environment(env: gymnasium.Env[Any, Any], actions: list[int]) -> float:
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return float(len(actions))


def _core(
    step: Callable[[int], Any], over: Callable[[], bool], reset: Callable[[], Any], actions: list[int]
) -> float:
    for action in actions:
        step(action)
        if over():
            reset()
    return float(len(actions))


def _made(name: str, obs_type: str) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make(name, obs_type=obs_type)
    env.reset(seed=0)
    return env


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game, then medians. ``seconds`` is the rough length of one timed stretch."""
    import ale_py

    gymnasium.register_envs(ale_py)
    steps = max(20, int(5_000 * seconds))
    rows: dict[str, list[Row]] = {}
    for game in games:
        theirs = get_game(game).gymnasium_id
        m = vcs.Machine(game, protocol="ale", frame_skip=SKIP, repeat_action_probability=STICKY)
        actions = np.random.RandomState(0).randint(len(m.actions), size=steps).tolist()
        codes = [m.actions[a] for a in actions]
        core = partial(_core, m.step, partial(getattr, m, "game_over"), m.reset, codes)
        for obs_type in OBSERVATIONS:
            ours = partial(_environment, _made(theirs.replace("ALE/", "VCS/"), obs_type), actions)
            peer = partial(_environment, _made(theirs, obs_type), actions)
            for kind, other, work in ((f"{obs_type} beside the core", "our core", core),
                                      (f"{obs_type} beside ALE", "ale-py", peer)):
                row = interleave(f"{game} {kind}", "steps/s", ours, other, work, repeats)
                rows.setdefault(kind, []).append(row)
                yield row
    yield from summaries(rows)

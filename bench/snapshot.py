"""Saving and restoring the machine, beside ale-py's cloneState and restoreState.

Ours is complete (pictures, random streams, held sticky action included), theirs is not (environment.md
section 8). ``branch`` restores, then plays one frame, as a tree search does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import vcs
from bench.harness import Row, interleave, summaries
from bench.rollout import PEER, reference

WARMUP = 60  # frames before the state that is saved


def _pairs(save: Callable[[], Any], restore: Callable[[Any], Any], n: int) -> float:
    for _ in range(n):
        restore(save())
    return float(n)


def _branches(
    save: Callable[[], Any], restore: Callable[[Any], Any], step: Callable[[int], Any], n: int
) -> float:
    root = save()
    for k in range(n):
        restore(root)
        step(k % 18)
    restore(root)
    return float(n)


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game, then medians. ``seconds`` is the rough length of one timed stretch."""
    pairs = max(100, int(20_000 * seconds))
    branches = max(20, pairs // 10)
    rows: dict[str, list[Row]] = {}
    for game in games:
        m, ale = vcs.Machine(game, protocol="ale"), reference(game)
        for _ in range(WARMUP):
            m.step(0)
            ale.act(0)
        for kind, unit, ours, theirs in (
            (
                "snapshot + restore",
                "pairs/s",
                partial(_pairs, m.snapshot, m.restore, pairs),
                partial(_pairs, ale.cloneState, ale.restoreState, pairs),
            ),
            (
                "branch",
                "branches/s",
                partial(_branches, m.snapshot, m.restore, m.step, branches),
                partial(_branches, ale.cloneState, ale.restoreState, ale.act, branches),
            ),
        ):
            row = interleave(f"{game} {kind}", unit, ours, PEER, theirs, repeats)
            rows.setdefault(kind, []).append(row)
            yield row
    yield from summaries(rows)

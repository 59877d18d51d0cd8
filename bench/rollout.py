"""Frames per second of one machine on one core, beside ale-py playing the same random actions.

Both draw every frame. ``act`` is a Python loop over ``Machine.step`` and ``ALEInterface.act``; ``skip 4`` is
the same with the frame skip inside the machine (the unit stays emulated frames); ``observe`` also fetches the
RGB screen of every step; ``traced`` records every instruction, TIA write and pixel winner as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import vcs
from bench.harness import Row, interleave, summaries

PEER = "ale-py"


def reference(game: str, frame_skip: int = 1) -> Any:
    """An ALEInterface playing ``game`` without sticky actions."""
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", frame_skip)
    ale.loadROM(str(vcs.roms.find(game).path))
    return ale


def _play(
    step: Callable[[int], Any],
    over: Callable[[], bool],
    reset: Callable[[], Any],
    actions: list[int],
    frames_per_step: int,
) -> float:
    for action in actions:
        if over():
            reset()
        step(action)
    return float(len(actions) * frames_per_step)


def _one(game: str, frames: int, repeats: int) -> Iterator[tuple[str, Row]]:
    actions = np.random.RandomState(0).randint(18, size=frames).tolist()
    for skip in (1, 4):
        kind = "act" if skip == 1 else f"skip {skip}"
        ours, theirs, part = (
            vcs.Machine(game, protocol="ale", frame_skip=skip),
            reference(game, skip),
            frames // skip,
        )
        yield (
            kind,
            interleave(
                f"{game} {kind}",
                "frames/s",
                partial(
                    _play, ours.step, partial(getattr, ours, "game_over"), ours.reset, actions[:part], skip
                ),
                PEER,
                partial(_play, theirs.act, theirs.game_over, theirs.reset_game, actions[:part], skip),
                repeats,
            ),
        )
    m, ale = vcs.Machine(game, protocol="ale"), reference(game)
    over = partial(getattr, m, "game_over")
    yield (
        "observe",
        interleave(
            f"{game} observe",
            "frames/s",
            partial(_play, lambda a: (m.step(a), m.screen_rgb), over, m.reset, actions, 1),
            PEER,
            partial(
                _play, lambda a: (ale.act(a), ale.getScreenRGB()), ale.game_over, ale.reset_game, actions, 1
            ),
            repeats,
        ),
    )
    yield (
        "traced",
        interleave(
            f"{game} traced",
            "frames/s",
            partial(_play, lambda a: m.trace([a]), over, m.reset, actions[: max(30, frames // 20)], 1),
            f"{PEER} (untraced)",
            partial(_play, ale.act, ale.game_over, ale.reset_game, actions, 1),
            repeats,
        ),
    )


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game, then medians. ``seconds`` is the rough length of one timed stretch."""
    rows: dict[str, list[Row]] = {}
    for game in games:
        for kind, row in _one(game, max(60, int(20_000 * seconds)), repeats):
            rows.setdefault(kind, []).append(row)
            yield row
    yield from summaries(rows)

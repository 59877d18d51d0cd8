"""Our machine against the installed ale-py, live, frame by frame.

Both get the same image, seed, options and actions; after every step RAM, screen, reward, lives, game over
and both frame counters are compared, and both are reset when the game is over. ale-py is a black box here:
only its public interface is used.
"""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import numpy as np

import vcs
from conformance import locate, panels
from conformance.cases import DIFFERENT, EQUAL, Case, Outcome
from vcs.data import load_csv
from vcs.errors import VcsError
from vcs.machine import palette


def supported_games() -> list[str]:
    """The games that the reference can play, in alphabetical order."""
    return [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]


def reference(case: Case) -> Any:
    """An ALEInterface that has loaded the case's game; raises VcsError if ale-py is missing."""
    if importlib.util.find_spec("ale_py") is None:
        raise VcsError("ale-py is not installed: `pip install 'glassvcs[env]'` brings the reference")
    from ale_py import ALEInterface, LoggerMode

    p = case.params
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", p["seed"])
    ale.setFloat("repeat_action_probability", p["sticky"])
    ale.setInt("frame_skip", p.get("frame_skip", 1))
    image = vcs.roms.find(case.game).path
    assert image is not None, "games are files of ale-py's wheel"
    ale.loadROM(str(image))
    return ale


def modes_of(game: str) -> list[tuple[int, int]]:
    """Every (mode, difficulty) pair that the reference offers for a game."""
    ale = reference(Case("ale", game, {"seed": 0, "sticky": 0.0}))
    return [(int(m), int(d)) for m in ale.getAvailableModes() for d in ale.getAvailableDifficulties()]


class _Pair:
    """The two machines of a case, always in the same situation."""

    def __init__(self, case: Case) -> None:
        p = case.params
        self.ale = reference(case)
        self.ours = vcs.Machine(
            case.game,
            protocol="ale",
            seed=p["seed"],
            frame_skip=p.get("frame_skip", 1),
            repeat_action_probability=p["sticky"],
        )
        height, width = self.ale.getScreenDims()
        self.screen = np.empty((height, width), np.uint8)
        if p.get("mode") is not None:
            self.ale.setMode(p["mode"])
            self.ale.setDifficulty(p["difficulty"])
            self.ours.mode = p["mode"]
            self.ours.difficulty = p["difficulty"]
            self.reset()

    def reset(self) -> None:
        self.ale.reset_game()
        self.ours.reset()

    def different(self, ours_reward: float, reward: float) -> list[str]:
        """Names of what differs now."""
        ale, m = self.ale, self.ours
        self.ale.getScreen(self.screen)
        screen = m.screen
        wrong = []
        if not np.array_equal(m.ram, ale.getRAM()):
            wrong.append("ram")
        if screen.shape != self.screen.shape or not np.array_equal(screen, self.screen):
            wrong.append("screen")
        if ours_reward != reward:
            wrong.append("reward")
        if m.lives != ale.lives():
            wrong.append("lives")
        if bool(m.game_over) != ale.game_over():
            wrong.append("game_over")
        if m.frame != ale.getFrameNumber():
            wrong.append("frame_number")
        if m.episode_frame != ale.getEpisodeFrameNumber():
            wrong.append("episode_frame_number")
        return wrong


def run(case: Case) -> Outcome:
    """Parameters: frames, seed, sticky; optional frame_skip, mode, difficulty, out, video (steps)."""
    p = case.params
    pair = _Pair(case)
    actions = np.random.RandomState(p["seed"]).randint(18, size=p["frames"])
    counts = {"frames": 0, "resets": 0}
    wrong = pair.different(0.0, 0.0)
    if wrong:
        return _report(case, counts, pair, wrong, 0, None, None, 0.0, 0.0)
    video = panels.Video(pathlib.Path(p["out"]) / f"{case.game}.mp4") if p.get("video") else None
    colours = palette(pair.ours.pal)
    try:
        for i, action in enumerate(actions.tolist()):
            if pair.ale.game_over():
                pair.reset()
                counts["resets"] += 1
                wrong = pair.different(0.0, 0.0)
                if wrong:
                    return _report(case, counts, pair, wrong, i, None, None, 0.0, 0.0)
            before = pair.ours.snapshot()
            reward = float(pair.ale.act(action))
            ours = float(pair.ours.step(action))
            wrong = pair.different(ours, reward)
            if wrong:
                return _report(case, counts, pair, wrong, i + 1, before, action, ours, reward)
            counts["frames"] = i + 1
            if video is not None and i < p["video"]:
                video.add(panels.panel(pair.ours.screen, pair.screen, colours, ("ours", "ale-py")))
    finally:
        if video is not None:
            video.close()
    return Outcome(case, EQUAL, counts)


def _report(
    case: Case,
    counts: dict[str, int],
    pair: _Pair,
    wrong: list[str],
    frame: int,
    before: Any,
    action: int | None,
    ours: float,
    theirs: float,
) -> Outcome:
    """Locate the first difference; ``before`` is our state before the step, None if a reset differs."""
    m, ale = pair.ours, pair.ale
    when = f"at frame {frame}" if before is not None else f"after the boot before frame {frame}"
    detail: dict[str, Any] = {
        "frame": frame,
        "action": action,
        "fields": wrong,
        "ours": {
            "reward": ours,
            "lives": m.lives,
            "game_over": bool(m.game_over),
            "frame_number": m.frame,
            "episode_frame_number": m.episode_frame,
            "registers": dict(m.registers._asdict()),
            "cycles": m.cycles,
            "ram": m.ram.tobytes().hex(),
        },
        "theirs": {
            "reward": theirs,
            "lives": ale.lives(),
            "game_over": ale.game_over(),
            "frame_number": ale.getFrameNumber(),
            "episode_frame_number": ale.getEpisodeFrameNumber(),
            "ram": ale.getRAM().tobytes().hex(),
        },
    }
    our_screen, our_ram = m.screen, m.ram
    trace = None
    if before is not None and action is not None:
        m.restore(before)
        trace = m.trace([action])
    if "ram" in wrong:
        detail["ram"] = (
            locate.memory(trace, our_ram, ale.getRAM())
            if trace is not None
            else {"cells": [int(c) for c in np.flatnonzero(our_ram != ale.getRAM())]}
        )
    if "screen" in wrong and our_screen.shape == pair.screen.shape:
        if trace is not None:
            detail["screen"] = locate.pixel(trace, our_screen, pair.screen, locate.y_start(m))
        if case.params.get("out"):
            name = f"{case.game}_seed{case.params['seed']}_frame{frame}"
            if case.params.get("mode") is not None:
                name += f"_mode{case.params['mode']}_difficulty{case.params['difficulty']}"
            path = pathlib.Path(case.params["out"]) / f"{name}.png"
            panels.save_png(panels.panel(our_screen, pair.screen, palette(m.pal), ("ours", "ale-py")), path)
            detail["panel"] = str(path)
    return Outcome(case, DIFFERENT, counts, message=f"{', '.join(wrong)} {when}", difference=detail)

"""The speed shortcuts change nothing: every game frame by frame with all, some, none of them, and traced."""

from __future__ import annotations

import numpy as np
import pytest

import vcs
from vcs.data import load_csv

GAMES = [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]
FRAMES = 40
ALL = 7  # every shortcut of Core.shortcuts: merged stores, INTIM loops, undrawn pictures
SKIP = 4


def state(m: vcs.Machine) -> dict[str, object]:
    return {
        "cpu": m.cpu(),
        "cycles": m.cycles,
        "ram": m.ram.tobytes(),
        "cartridge": (m.cart(), m.cart_ram.tobytes()),
        "tia": m.tia(),
        "riot": m.riot(),
        "screen": m.screen.tobytes(),
    }


@pytest.mark.parametrize("game", GAMES)
def test_shortcuts_change_nothing(game: str) -> None:
    fast = vcs.Machine(game)
    others = {}
    for shortcuts in range(3):
        others[f"shortcuts {shortcuts}"] = m = fast.clone()
        m.shortcuts = shortcuts
    traced = fast.clone()
    assert fast.shortcuts == ALL
    for action in np.random.RandomState(5).randint(18, size=FRAMES).tolist():
        if fast.game_over:
            for m in (fast, traced, *others.values()):
                m.reset()
        reward = fast.step(action)
        expected = state(fast)
        for name, m in others.items():
            assert m.step(action) == reward
            assert state(m) == expected, name
        assert traced.record([action])["rewards"].tolist() == [reward]
        assert state(traced) == expected, "traced"


@pytest.mark.parametrize("game", GAMES)
def test_undrawn_pictures_change_nothing(game: str) -> None:
    """Of a step of four frames only the last two pictures are drawn; both, and everything else, are as if
    all were."""
    fast = vcs.Machine(game, frame_skip=SKIP, repeat_action_probability=0.25)
    slow = fast.clone()
    slow.shortcuts = 0
    for action in np.random.RandomState(6).randint(18, size=FRAMES // SKIP).tolist():
        if fast.game_over:
            fast.reset()
            slow.reset()
        assert fast.step(action) == slow.step(action)
        assert state(fast) == state(slow)
        assert (fast.previous_screen == slow.previous_screen).all()

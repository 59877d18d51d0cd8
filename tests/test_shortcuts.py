"""The speed shortcuts change nothing: every game frame by frame with all, some, none of them, and traced."""

from __future__ import annotations

import numpy as np
import pytest

import vcs
from vcs.data import load_csv

GAMES = [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]
FRAMES = 40
# every shortcut of Core.shortcuts: merged stores, INTIM loops, undrawn pictures, and, where the processor has
# AVX2, 32 pixels at a time
ALL = (7, 15)


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
    for shortcuts in (0, 1, 2, 7, 8):
        others[f"shortcuts {shortcuts}"] = m = fast.clone()
        m.shortcuts = shortcuts
    traced = fast.clone()
    assert fast.shortcuts in ALL
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
@pytest.mark.parametrize("skip", [2, 3, 4])
def test_undrawn_pictures_change_nothing(game: str, skip: int) -> None:
    """Of a long step only the last picture is drawn, and the one before it when somebody asks; both, and
    everything else, are as if all were. Seldom asked: a machine that was draws both for a while."""
    fast = vcs.Machine(game, frame_skip=skip, repeat_action_probability=0.25)
    slow = fast.clone()
    slow.shortcuts = 0
    rng = np.random.RandomState(skip)
    for step, action in enumerate(rng.randint(18, size=FRAMES // 2).tolist()):
        if fast.game_over:
            fast.reset()
            slow.reset()
        if step == 4:  # what a picture is drawn from must not be what happens after it
            fast.poke_ram(5, 77)
            slow.poke_ram(5, 77)
        assert fast.step(action) == slow.step(action)
        assert state(fast) == state(slow)
        if step in (3, 4):
            assert (fast.previous_screen == slow.previous_screen).all()
        if step == 2:
            kept = fast.snapshot()
            assert kept == slow.snapshot()
    fast.restore(kept)
    slow.restore(kept)
    assert state(fast) == state(slow)
    assert fast.step(0) == slow.step(0)
    assert (fast.previous_screen == slow.previous_screen).all()


def test_the_picture_before_the_last_is_drawn_late() -> None:
    """A ROM byte changed after a step is not in the picture of that step, though it is drawn only now."""
    fast = vcs.Machine("glass", frame_skip=4)
    slow = fast.clone()
    slow.shortcuts = 0
    for m in (fast, slow):
        m.step(0)
        m.step(3)
        for offset in range(0x100, 0x140):
            m.poke_rom(offset, 0xEA)
    assert (fast.previous_screen == slow.previous_screen).all()
    assert (fast.screen == slow.screen).all()

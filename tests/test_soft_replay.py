"""The soft machine along traces of real games: equal to the hard one in every value, at every temperature."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import vcs
from vcs import layout, soft
from vcs.errors import VcsError
from vcs.trace import READ, WROTE, Trace

GAMES = ("pong", "breakout", "space_invaders", "seaquest", "ms_pacman", "qbert")
ALPHAS = (2.0, 6.0, 20.0)
TEMPERATURES = (0.05, 0.14, 1.0)


@cache
def machine(game: str) -> vcs.Machine:
    """A machine 60 frames into a game; clone it before use."""
    m = vcs.Machine(game)
    m.reset()
    for frame in range(60):
        m.step(1 if frame < 2 else 0)
    return m


@cache
def trace(game: str, frames: int) -> Trace:
    actions = [0, 3, 4, 1][:frames]
    return machine(game).clone().trace(actions)


@pytest.mark.parametrize(("alpha", "T"), list(zip(ALPHAS, TEMPERATURES)))
@pytest.mark.parametrize("game", GAMES)
def test_soft_equals_hard(game: str, alpha: float, T: float, rom: Callable[[str], Any]) -> None:
    """Registers, flags, loads, stores, motions after every instruction and every pixel of a frame."""
    rom(game)
    soft.replay(trace(game, 1), alpha=alpha, T=T)()


@pytest.mark.slow
@pytest.mark.parametrize("T", TEMPERATURES)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("game", GAMES)
def test_soft_equals_hard_for_three_frames(
    game: str, alpha: float, T: float, rom: Callable[[str], Any]
) -> None:
    rom(game)
    for rules in ("value", "bit"):
        soft.replay(trace(game, 3), alpha=alpha, T=T, rules=rules)()


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(vcs.roms.available()))
def test_soft_equals_hard_on_every_cartridge(game: str) -> None:
    """Two frames in the middle of play: every mapper, PAL, paddles, timers that expire, Cosmic Ark."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some images have no game rules
        m = vcs.Machine(game)
    m.reset()
    for frame in range(200):
        m.step((0, 1, 3, 4, 2, 5, 11, 12)[frame % 8])
    soft.replay(m.trace([3, 1]))()


@pytest.mark.parametrize("game", ["pong", "space_invaders", "glass"])
def test_every_location_after_every_instruction(game: str, rom: Callable[[str], Any]) -> None:
    """All of RAM, the TIA's registers and positions against a second hard machine, stepped instruction by
    instruction."""
    rom(game)
    t = trace(game, 1)
    twin = machine(game).clone()
    twin.set_inputs(0)
    for step in soft.replay(t).steps():
        twin.step_instruction()
        assert twin.cpu() == (step.a, step.x, step.y, step.sp, step.p, step.pc), step.k
        assert bytes(step.ram) == bytes(twin.ram), step.k
        tia = twin.tia()
        written = list(tia["regs"])
        written[0x20:0x25] = [nibble << 4 for nibble in tia["hm"]]
        mine = list(step.tia)
        mine[0x20:0x25] = [byte & 0xF0 for byte in mine[0x20:0x25]]
        assert mine == written, step.k
        assert list(step.positions) == list(tia["pos"]), step.k


def test_the_final_state_is_the_machines(rom: Callable[[str], Any]) -> None:
    rom("breakout")
    m = machine("breakout").clone()
    out = soft.replay(m.trace([0, 0]))()
    assert np.array_equal(out.ram, m.ram)
    assert tuple(out.registers) == m.cpu()[:4]
    assert out.pc[0] == m.cpu()[5]


def test_all_pixels_as_outputs(rom: Callable[[str], Any]) -> None:
    rom("pong")
    t = trace("pong", 1)
    out = soft.replay(t, pixels="all")()
    assert np.array_equal(np.reshape(out.pixels, t.screens.shape), t.screens)


def test_rewritten_history_is_found(rom: Callable[[str], Any]) -> None:
    """The comparison is real: one changed byte of RAM or ROM that was read does not pass."""
    rom("pong")
    t = trace("pong", 1)
    f = soft.replay(t)
    touched = t.ea_loc[t.ea_loc < layout.RAM_SIZE]
    first = touched[touched >= 0][0]
    assert t.flags[t.ea_loc == first][0] & READ and not t.flags[t.ea_loc == first][0] & WROTE
    immediate = t.loc1[t.opcode == 0xA9][0] - layout.ROM
    for part, index in (("ram", first), ("rom", immediate)):
        state = f.start()
        state[part][index] += 1
        with pytest.raises(VcsError, match="left the trace"):
            f(state)


def test_a_wrong_picture_is_found(rom: Callable[[str], Any]) -> None:
    rom("pong")
    t = trace("pong", 1)
    screens = t.screens.copy()
    screens[0, 100, 80] ^= 2
    fields = {
        name: getattr(t, name)
        for name in (
            "instr",
            "tia",
            "segments",
            "frames",
            "winner",
            "x0",
            "cart0",
            "x1",
            "cart1",
            "rom",
            "start",
        )
    }
    with pytest.raises(VcsError, match="row 100, column 80"):
        soft.replay(Trace(screens=screens, **fields))()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"rules": "x"}, "rule set"),
        ({"mode": "soft"}, "mode"),
        ({"control": "x"}, "control"),
        ({"alpha": 0}, "alpha"),
        ({"T": float("nan")}, "T"),
        ({"pixels": [(0, 0, 160)]}, "pixel"),
        ({"pixels": [(1, 0, 0)]}, "pixel"),
        ({"pixels": "some"}, "pixels"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], word: str, rom: Callable[[str], Any]) -> None:
    rom("pong")
    with pytest.raises(VcsError, match=word):
        soft.replay(trace("pong", 1), **options)


def test_full_mode_is_exact_inside_its_corner_and_refused_outside(rom: Callable[[str], Any]) -> None:
    rom("space_invaders")
    t = trace("space_invaders", 1)
    soft.replay(t, mode="full", alpha=6.0, T=0.14)()
    with pytest.raises(VcsError, match="relaxed"):
        soft.replay(t, mode="full", alpha=6.0, T=0.3)()
    with pytest.raises(VcsError, match="relaxed"):
        soft.replay(t, mode="full", alpha=2.0, T=0.14)()


def test_input_lines_reach_the_state(rom: Callable[[str], Any]) -> None:
    rom("space_invaders")
    t = machine("space_invaders").clone().trace([3])  # RIGHT
    f = soft.replay(t)
    assert f.start()["inputs"][0, layout.parse("P0 right") - layout.INPUT] == 1

"""Snapshots are complete: from any point, on every cartridge, the future after a restore is the future."""
from __future__ import annotations

import importlib
import os
import pickle
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vcs
from vcs._hard.machine import Snapshot, restore_all
from vcs.data import load_csv
from vcs.errors import VcsError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no game rules")

GAMES = [row["name"] for row in load_csv("roms.csv")]


def look(m: vcs.Machine) -> tuple[Any, ...]:
    """Everything an agent, a debugger or a gradient can see of a machine now."""
    return (m.screen.tobytes(), m.ram.tobytes(), m.registers, m.cycles, m.total_cycles, m.frame,
            m.episode_frame, m.lives, m.game_over, m.cart_ram.tobytes())


def play(m: vcs.Machine, actions: Any) -> list[tuple[Any, ...]]:
    """What each action leads to; a new episode where one has ended."""
    seen = []
    for action in actions:
        if m.game_over:
            m.reset()
        seen.append((m.step(int(action)), *look(m)))
    return seen


def check(game: str, protocol: str, points: int, frames: int, spread: int) -> None:
    """Restore snapshots from `points` random points of one long run and compare `frames` frames after each.

    The other machine has lived another life, with sticky actions from another seed; nothing of it may
    show."""
    rng = np.random.default_rng(zlib.crc32(game.encode()))
    settings: dict[str, Any] = {"protocol": protocol}
    if protocol == "ale":
        settings["repeat_action_probability"] = 0.25
    m = vcs.Machine(game, seed=1, **settings)
    other = vcs.Machine(game, seed=2, **settings)
    play(other, rng.integers(0, 18, 50))
    starts = np.sort(rng.choice(spread, points, replace=False))
    actions = rng.integers(0, 18, spread + frames)
    truth, snapshots = [], {}
    for t, action in enumerate(actions):
        if t in starts:
            snapshots[t] = (m.snapshot(), look(m))
        truth += play(m, [action])
    for t in starts:
        snapshot, then = snapshots[t]
        other.restore(snapshot)
        right = look(other) == then  # not inside assert: pytest would write the pictures out
        assert right, f"{game}: not right at once, frame {t}"
        for k, action in enumerate(actions[t : t + frames], t):
            right = play(other, [action])[0] == truth[k]
            assert right, f"{game}: frame {k - t} after point {t}"


@pytest.mark.parametrize("game", GAMES)
def test_every_cartridge(game: str, rom: Any) -> None:
    rom(game)
    check(game, "ale", points=3, frames=20, spread=40)


@pytest.mark.parametrize("game", ["pong", "pitfall2", "tetris", "elevator_action", "air_raid"])
def test_xitari(game: str, rom: Any) -> None:
    rom(game)
    check(game, "xitari", points=3, frames=40, spread=60)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_cartridge_long(game: str, rom: Any) -> None:
    """The measure of the issue: 1,000 frames from each of 100 points."""
    rom(game)
    check(game, "ale", points=int(os.environ.get("VCS_SNAPSHOT_POINTS", "100")), frames=1000, spread=3000)


def test_between_frames() -> None:
    """A snapshot in the middle of a frame goes on in the middle of that frame."""
    m, other = vcs.Machine("glass"), vcs.Machine("glass")
    for _ in range(1234):
        m.step_instruction()
    snapshot = m.snapshot()
    other.restore(snapshot)
    for _ in range(3000):
        m.step_instruction()
        other.step_instruction()
        assert m.registers == other.registers
    assert look(m) == look(other)


def test_taking_one_changes_nothing() -> None:
    a, b = vcs.Machine("glass"), vcs.Machine("glass")
    kept = []
    for action in np.arange(60) % 18:
        kept.append(a.snapshot())
        assert play(a, [action]) == play(b, [action])
    assert len({s.digest for s in kept}) == len(kept)


def test_one_into_many() -> None:
    m = vcs.Machine("glass")
    play(m, [2] * 30)
    snapshot, then = m.snapshot(), look(m)
    many = [vcs.Machine("glass") for _ in range(5)]
    restore_all(many, snapshot)
    for n in many:
        assert look(n) == then
    # they share the snapshot's pictures until they draw
    futures = [play(n, [k] * 20) for k, n in enumerate(many)]
    for k, n in enumerate(many):
        n.restore(snapshot)
        assert look(n) == then and play(n, [k] * 20) == futures[k]
    assert len({f[-1] for f in futures}) > 1


def test_bytes_and_pickle() -> None:
    m = vcs.Machine("glass")
    play(m, [3] * 25)
    snapshot = m.snapshot()
    future = play(m, [2] * 25)
    for again in (Snapshot.from_bytes(snapshot.to_bytes()), pickle.loads(pickle.dumps(snapshot))):
        assert again == snapshot and again.digest == snapshot.digest
        n = vcs.Machine("glass")
        n.restore(again)
        assert play(n, [2] * 25) == future
    assert np.array_equal(snapshot.ram, pickle.loads(pickle.dumps(snapshot)).ram)


@cache
def _sealed() -> bytes:
    m = vcs.Machine("glass")
    play(m, [3] * 5)
    return bytes(m.snapshot().to_bytes())


DAMAGES = {
    "empty": lambda raw: b"",
    "not a snapshot": lambda raw: b"PK\x03\x04" + raw[4:],
    "version": lambda raw: raw[:4] + struct.pack("<I", 999) + raw[8:],
    "truncated": lambda raw: raw[:-1],
    "longer": lambda raw: raw + b"\0",
    "a bit": lambda raw: raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:],
}


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_ones_are_refused(how: str) -> None:
    with pytest.raises(VcsError, match=r"snapshot"):
        Snapshot.from_bytes(DAMAGES[how](_sealed()))


def test_foreign_ones_are_refused(rom: Any) -> None:
    snapshot = vcs.Machine("glass").snapshot()
    pong = vcs.Machine(rom("pong"))
    before = look(pong)
    with pytest.raises(VcsError, match="another ROM"):
        pong.restore(snapshot)
    with pytest.raises(TypeError):
        pong.restore(None)
    assert look(pong) == before


def test_planning_example(rom: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree search of examples/planning.py leaves the machine where it was."""
    rom("freeway")
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "examples"))
    planning = importlib.import_module("planning")
    m = vcs.Machine("freeway", frame_skip=5)
    before = look(m)
    action = planning.plan(m, np.random.default_rng(0), simulations=8, depth=4)
    assert action in m.actions and look(m) == before

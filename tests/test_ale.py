"""`vcs.env.ALE` beside `ale_py.ALEInterface`: options, errors, pictures, states.

And what only ours promises: complete states, errors instead of the end of the process.
"""
from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vcs import VcsError, env
from vcs.env import ALE, Action, ALEError, ALEState, LoggerMode
from vcs.env.ale import blend

Rom = Callable[[str], Any]

KEYS = (
    "random_seed", "system_random_seed", "repeat_action_probability", "frame_skip",
    "max_num_frames_per_episode", "color_averaging", "truncate_on_loss_of_life", "reward_min", "reward_max",
    "paddle_min", "paddle_max", "sound_obs", "display_screen", "restricted_action_set", "send_rgb",
    "run_length_encoding", "max_num_frames", "fragsize", "record_screen_dir", "record_sound_filename",
    "rom_file", "cpu", "no_such_key",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> None:
    ALE.setLoggerMode(LoggerMode.Error)


def ours(path: Path, **options: Any) -> ALE:
    return _load(ALE(), path, options)


def _load(ale: Any, path: Path, options: dict[str, Any]) -> Any:
    for key, value in {"repeat_action_probability": 0.0, "random_seed": 0, **options}.items():
        kind = "Bool" if isinstance(value, bool) else "Int" if isinstance(value, int) else "Float"
        getattr(ale, f"set{kind}")(key, value)
    ale.loadROM(str(path))
    return ale


def both(path: Path, **options: Any) -> tuple[ALE, Any]:
    ale_py = pytest.importorskip("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ours(path, **options), _load(ale_py.ALEInterface(), path, options)


def same(a: ALE, b: Any) -> None:
    for name in ("getRAM", "getScreen", "getScreenRGB", "getScreenGrayscale"):
        assert np.array_equal(getattr(a, name)(), getattr(b, name)()), name
    for name in (
        "lives", "game_over", "game_truncated", "getFrameNumber", "getEpisodeFrameNumber", "getScreenDims",
    ):  # fmt: skip
        assert getattr(a, name)() == getattr(b, name)(), name
    assert a.game_over(False) == b.game_over(False)


# ---------------------------------------------------------------------------------------- options


def test_options_and_defaults() -> None:
    ale_py = pytest.importorskip("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    a, b = ALE(), ale_py.ALEInterface()
    for change in (
        lambda x: None,
        lambda x: x.setFloat("repeat_action_probability", 0.123456789),
        lambda x: x.setInt("random_seed", -(2**31)),
        lambda x: x.setInt("frame_skip", True),
        lambda x: x.setInt("paddle_max", 1000000),
        lambda x: x.setBool("color_averaging", True),
        lambda x: x.setString("record_screen_dir", "/tmp/x"),
        lambda x: x.setFloat("repeat_action_probability", 1),
    ):
        change(a)
        change(b)
        for key in KEYS:
            for getter in ("getInt", "getFloat", "getBool", "getString"):
                assert getattr(a, getter)(key) == getattr(b, getter)(key), (getter, key)


@pytest.mark.parametrize(
    ("setter", "key", "value", "kind"),
    [
        ("setInt", "foo", 1, RuntimeError), ("setFloat", "frame_skip", 1.0, RuntimeError),
        ("setBool", "frame_skip", True, RuntimeError), ("setString", "frame_skip", "2", RuntimeError),
        ("setInt", "display_screen", 1, RuntimeError), ("setInt", "frame_skip", 1.5, TypeError),
        ("setInt", "random_seed", 2**31, TypeError), ("setBool", "sound_obs", 1, TypeError),
        ("setString", "rom_file", 1, TypeError),
    ],
)  # fmt: skip
def test_wrong_options(setter: str, key: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        getattr(ALE(), setter)(key, value)


def test_names_of_ale_py_are_here() -> None:
    ale_py = pytest.importorskip("ale_py")
    for mine, theirs in ((ALE, ale_py.ALEInterface), (ALEState, ale_py.ALEState)):
        assert {n for n in dir(theirs) if not n.startswith("_")} <= set(dir(mine))
    assert {a.name: a.value for a in ale_py.Action} == {a.name: a.value for a in Action}
    assert {m.name: m.value for m in ale_py.LoggerMode} == {m.name: m.value for m in LoggerMode}
    assert env.ALEInterface is ALE


# ------------------------------------------------------------------------------- playing, pictures


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("pong", {"repeat_action_probability": 0.25, "random_seed": 42}),
        ("breakout", {"frame_skip": 4, "truncate_on_loss_of_life": True}),
        ("air_raid", {"repeat_action_probability": 0.9999, "random_seed": -5}),  # odd colours
        ("seaquest", {"color_averaging": True}),
        ("ms_pacman", {"color_averaging": True, "frame_skip": 3}),
        ("kaboom", {"paddle_min": 100000, "paddle_max": 300000, "system_random_seed": 9}),
        ("tetris", {"max_num_frames_per_episode": 50, "reward_max": 0}),
    ],
)
def test_play_with_options(game: str, options: dict[str, Any], rom: Rom) -> None:
    a, b = both(rom(game).path, **options)
    rng = np.random.default_rng(0)
    same(a, b)
    for _ in range(150):
        if a.game_over():
            assert a.act(0) == b.act(0) == 0
            a.reset_game()
            b.reset_game()
        action, strength = int(rng.integers(18)), float(rng.choice([1.0, 0.7, -0.5]))
        assert a.act(action, strength) == b.act(action, strength)
        same(a, b)


def test_modes_and_difficulties(rom: Rom) -> None:
    a, b = both(rom("space_invaders").path)
    assert a.getAvailableModes() == b.getAvailableModes()
    assert a.getAvailableDifficulties() == b.getAvailableDifficulties()
    for x in (a, b):
        x.setMode(5)
        x.setDifficulty(1)
        x.act(1)
    same(a, b)
    a.reset_game()
    b.reset_game()
    same(a, b)
    for x in (a, b):
        with pytest.raises(RuntimeError, match="Invalid game mode requested"):
            x.setMode(99)
        with pytest.raises(RuntimeError, match="Invalid difficulty requested"):
            x.setDifficulty(9)
        x.loadROM(str(rom("space_invaders").path))  # back to the defaults
    same(a, b)


def test_set_ram(rom: Rom) -> None:
    a, b = both(rom("pong").path)
    for x in (a, b):
        x.setRAM(13, 20)
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.setRAM(128, 1)
        for index, value in ((-1, 1), (3, 256), (3, -1)):
            with pytest.raises(TypeError):
                x.setRAM(index, value)
    same(a, b)
    for _ in range(60):
        assert a.act(0) == b.act(0)
    same(a, b)


def test_paddle_limit_stays_set(rom: Rom) -> None:
    """environment.md 5.4: what backgammon sets leaks into a later load, in ale-py and so here."""
    a, b = both(rom("backgammon").path)
    for x in (a, b):
        x.loadROM(str(rom("breakout").path))
        assert x.getInt("paddle_max") == 1000000
    assert a.machine.paddle[0] == 513725
    for _ in range(30):
        assert a.act(3) == b.act(3)
    same(a, b)


def test_buffers(rom: Rom) -> None:
    ale = ours(rom("pong").path)
    for name, shape in (("getRAM", (128,)), ("getScreen", (210, 160)), ("getScreenGrayscale", (210, 160)),
                        ("getScreenRGB", (210, 160, 3))):  # fmt: skip
        read = getattr(ale, name)
        buffer = np.zeros(shape, np.uint8)
        assert read(buffer) is None and np.array_equal(buffer, read()) and read().dtype == np.uint8
        with pytest.raises(RuntimeError, match="Invalid shape"):
            read(np.zeros((3, *shape), np.uint8))
        for bad in (np.zeros(shape, np.int8), np.zeros((2, *shape), np.uint8).T, [0]):
            with pytest.raises(TypeError):
                read(bad)


def test_blend_keeps_equal_colours_near() -> None:
    table = blend(False)
    assert table.shape == (256, 256) and not (table & 1).any()
    assert table[0x0E, 0x00] == table[0x00, 0x0E]


def test_png(rom: Rom, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    ale = ours(rom("pong").path)
    ale.saveScreenPNG(tmp_path / "x.png")
    with image.open(tmp_path / "x.png") as picture:
        assert picture.size == (320, 210)
        assert np.array_equal(np.asarray(picture.convert("RGB"))[:, ::2], ale.getScreenRGB())


# ----------------------------------------------------------------------------------------- states


def test_states_are_complete(rom: Rom) -> None:
    """RAM and screen at once after a restore, and the same future, held sticky action included."""
    for game in ("yars_revenge", "tic_tac_toe_3d", "pong"):
        ale = ours(rom(game).path, repeat_action_probability=0.5, random_seed=7)
        for _ in range(40):
            ale.act(3)
        state = ale.cloneSystemState()
        before = (ale.getRAM(), ale.getScreen())
        future = [(ale.act(k % 18), ale.getRAM(), ale.getScreen()) for k in range(30)]
        ale.reset_game()
        ale.act(4)
        ale.restoreSystemState(pickle.loads(pickle.dumps(state)))
        assert all(np.array_equal(x, y) for x, y in zip(before, (ale.getRAM(), ale.getScreen()), strict=True))
        for k, (reward, ram, screen) in enumerate(future):
            assert ale.act(k % 18) == reward
            assert np.array_equal(ale.getRAM(), ram) and np.array_equal(ale.getScreen(), screen)


def test_states_with_and_without_the_sticky_stream(rom: Rom) -> None:
    """Without include_rng the stream goes on, as in ale-py; the system stream comes back in both."""
    for include in (False, True):
        a, b = both(rom("assault").path, repeat_action_probability=0.5, random_seed=3)
        states = [x.cloneState(include) for x in (a, b)]
        for x in (a, b):
            for _ in range(10):
                x.act(0)
            x.reset_game()  # lets go of the held action, which ale-py's states do not hold
        a.restoreState(states[0])
        b.restoreState(states[1])
        for k in range(40):
            assert a.act(k % 7) == b.act(k % 7)
            same(a, b)
        a.reset_game()
        b.reset_game()
        same(a, b)


def test_state_values(rom: Rom) -> None:
    ale = ours(rom("breakout").path)
    ale.setMode(4)
    ale.setDifficulty(1)
    ale.act(1)
    state = ale.cloneState()
    assert (state.getFrameNumber(), state.getEpisodeFrameNumber()) == (1, 1)
    assert (state.getCurrentMode(), state.getDifficulty()) == (4, 1)
    again = ALEState(state.serialize())
    assert again == state and again.equals(ale.cloneState()) and hash(again) == hash(state)
    assert state != ale.cloneState(True) and state != ALEState()


def test_bad_states_are_refused(rom: Rom) -> None:
    ale = ours(rom("pong").path)
    data = ale.cloneState().serialize()
    rng = np.random.default_rng(1)
    for at in (0, 4, 5, 40, len(data) - 1, *rng.integers(0, len(data), 20)):
        damaged = bytearray(data)
        damaged[int(at)] ^= 1 << int(rng.integers(8))
        with pytest.raises(VcsError):
            ALEState(bytes(damaged))
    for bad in (b"", data[:50], data[:-1], data + b"\0"):
        with pytest.raises(VcsError):
            ALEState(bad)
    with pytest.raises(VcsError, match="empty"):
        ale.restoreState(ALEState())
    with pytest.raises(VcsError, match="another ROM"):
        ours(rom("breakout").path).restoreState(ale.cloneState())
    with pytest.raises(TypeError):
        ale.restoreState(data)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- errors


def test_nothing_works_before_a_rom() -> None:
    for name in ("lives", "reset_game", "getScreen", "getLegalActionSet", "game_over", "cloneState"):
        with pytest.raises(RuntimeError, match="ROM not set"):
            getattr(ALE(), name)()


def test_actions_out_of_range(rom: Rom) -> None:
    ale = ours(rom("pong").path)
    for action in (-1, 18, 40, 10**6):
        with pytest.raises(ALEError, match="does not exist"):
            ale.act(action)
    for bad in ("x", 1.5, None):
        with pytest.raises(TypeError):
            ale.act(bad)  # type: ignore[arg-type]
    assert ale.act(Action.FIRE) == ale.act(np.int64(1)) == 0


def test_sound_and_windows_are_refused(rom: Rom) -> None:
    for key, words in (("sound_obs", "no sound"), ("sound", "no sound"), ("display_screen", "no window")):
        ale = ALE()
        ale.setBool(key, True)
        with pytest.raises(RuntimeError, match=words):
            ale.loadROM(rom("pong").path)
    with pytest.raises(RuntimeError, match="no sound"):
        ours(rom("pong").path).getAudio()


def test_images(rom: Rom, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ALE.isSupportedROM(rom("pong").path) == "pong"
    other = tmp_path / "something.bin"
    other.write_bytes(rom("pong").data)
    assert ALE.isSupportedROM(str(other)) == "pong"
    changed = tmp_path / "pong.bin"
    changed.write_bytes(rom("pong").data[:-2] + b"\0\xf0")
    assert ALE.isSupportedROM(changed) is None
    ALE.setLoggerMode(LoggerMode.Warning)
    ale = ours(changed)  # the name decides, with a warning
    assert "not the known image of pong" in capsys.readouterr().err
    assert ale.getAvailableModes() == [0, 1] and ale.getString("rom_file") == str(changed)
    for missing in (tmp_path / "none.bin", "pong"):
        with pytest.raises(RuntimeError, match="doesn't exist"):
            ALE().loadROM(missing)
    with pytest.raises(TypeError):
        ALE().loadROM(None)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*no game rules")
def test_images_that_ale_py_refuses_play(rom: Rom) -> None:
    ale = ours(rom("combat").path)
    assert ale.act(1) == 0 and ale.lives() == 0 and not ale.game_over()
    assert len(ale.getMinimalActionSet()) == 18

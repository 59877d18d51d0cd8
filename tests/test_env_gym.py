"""`VCS/<Game>-v5` beside `ALE/<Game>-v5` (spec/environment.md 9.1, 9.2)."""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import vcs.env  # noqa: E402
from vcs import VcsError, roms  # noqa: E402
from vcs.env.gym import AtariEnv  # noqa: E402

pytestmark = [
    pytest.mark.skipif("pong" not in roms.available(), reason="the images of the games come with ale-py"),
    pytest.mark.filterwarnings("ignore:.*symmetric and normalized"),
]


def pair(game: str, **kwargs: Any) -> tuple[Any, Any]:
    ale_py = pytest.importorskip("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)
    return gym.make(f"VCS/{game}-v5", **kwargs), gym.make(f"ALE/{game}-v5", **kwargs)


def same_reset(a: Any, b: Any, seed: int | None = None) -> None:
    (mine, info), (theirs, other) = a.reset(seed=seed), b.reset(seed=seed)
    assert np.array_equal(mine, theirs) and mine.dtype == theirs.dtype and info == other


@pytest.mark.parametrize(
    ("game", "steps", "kwargs"),
    [
        ("Pong", 2000, {}),
        ("Pong", 200, {"obs_type": "ram", "mode": 1, "difficulty": 2}),
        ("Breakout", 200, {"obs_type": "grayscale", "frameskip": (2, 5)}),
        ("AirRaid", 200, {"full_action_space": True, "frameskip": 1}),
        ("DoubleDunk", 100, {"repeat_action_probability": 0.5, "max_num_frames_per_episode": 100}),
        ("Kaboom", 200, {"continuous": True}),
        ("Skiing", 200, {"continuous": True, "continuous_action_threshold": 0.2}),
    ],
)
def test_same_episode(game: str, steps: int, kwargs: dict[str, Any]) -> None:
    a, b = pair(game, **kwargs)
    assert a.action_space == b.action_space and a.observation_space == b.observation_space
    assert a.unwrapped.get_action_meanings() == b.unwrapped.get_action_meanings()
    same_reset(a, b, seed=42)
    assert a.unwrapped.np_random_seed == b.unwrapped.np_random_seed
    a.action_space.seed(1)
    for _ in range(steps):
        action = a.action_space.sample()
        mine, theirs = a.step(action), b.step(action)
        assert np.array_equal(mine[0], theirs[0]) and mine[1:] == theirs[1:]
        if mine[2] or mine[3]:
            same_reset(a, b)
    same_reset(a, b, seed=7)


def test_keys_and_metadata() -> None:
    for full in (False, True):
        a, b = (e.unwrapped for e in pair("Boxing", full_action_space=full))
        assert a.get_keys_to_action() == b.get_keys_to_action() and a.metadata == b.metadata
    for left_right in (-1, 0, 1):
        for down_up in (-1, 0, 1):
            for fire in (False, True):
                theirs = b.map_action_idx(left_right, down_up, fire)
                assert a.map_action_idx(left_right, down_up, fire) == theirs.value


def test_specs_are_the_same() -> None:
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)
    mine = {i.split("/")[1]: s for i, s in gym.registry.items() if i.startswith("VCS/")}
    theirs = {i.split("/")[1]: s for i, s in gym.registry.items() if i.startswith("ALE/")}
    assert mine.keys() == theirs.keys() and len(mine) == 104
    for name, spec in mine.items():
        for field in ("kwargs", "max_episode_steps", "reward_threshold", "nondeterministic", "version"):
            assert getattr(spec, field) == getattr(theirs[name], field), (name, field)
    vcs.env.gym.register()  # again: nothing happens


@pytest.mark.parametrize("kwargs", [{"render_mode": "rgb_array"}, {"obs_type": "ram"}, {"continuous": True}])
def test_check_env(kwargs: dict[str, Any]) -> None:
    check_env(gym.make("VCS/Pong-v5", **kwargs).unwrapped, skip_render_check=True)


def test_human_window(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = AtariEnv("pong", render_mode="human", frameskip=2)
    env.reset(seed=0)
    env.step(0)
    assert env.render() is None
    assert pygame.display.get_surface().get_size() == (640, 420)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    with pytest.raises(VcsError, match="window was closed"):
        env.step(0)
    env.close()
    env.close()


def test_render_and_states() -> None:
    env = AtariEnv("seaquest", render_mode="rgb_array", obs_type="ram")
    env.reset(seed=3)
    picture = env.render()
    assert picture is not None and picture.shape == (210, 160, 3)
    assert np.array_equal(picture, env.ale.getScreenRGB())
    state = env.clone_state(include_rng=True)
    first = [env.step(k % 18)[0] for k in range(20)]
    env.restore_state(state)
    assert all(np.array_equal(x, env.step(k % 18)[0]) for k, x in enumerate(first))
    again = pickle.loads(pickle.dumps(env))
    assert again.reset(seed=3)[1] == env.reset(seed=3)[1]


def test_unseeded_environments_differ() -> None:
    assert AtariEnv("pong").ale.getInt("random_seed") != AtariEnv("pong").ale.getInt("random_seed")


@pytest.mark.parametrize(
    ("words", "kwargs"),
    [
        ("Invalid observation type", {"obs_type": "foo"}),
        ("must be positive", {"frameskip": 0}),
        ("expected length 2", {"frameskip": (1,)}),
        ("strictly less", {"frameskip": (5, 2)}),
        ("lower bound must be positive", {"frameskip": (0, 2)}),
        ("frameskip type", {"frameskip": "a"}),
        ("not supported", {"render_mode": "foo"}),
        ("no sound", {"sound_obs": True}),
        ("from 0 to 1", {"repeat_action_probability": 2.0}),
    ],
)
def test_bad_arguments(words: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(gym.error.Error, match=words) as caught:
        AtariEnv("pong", **kwargs)
    assert isinstance(caught.value, VcsError)


def test_bad_calls() -> None:
    with pytest.raises(RuntimeError, match="Invalid game mode"):
        AtariEnv("pong", mode=9)
    with pytest.raises(RuntimeError, match="Invalid difficulty"):
        AtariEnv("pong", difficulty=9)
    with pytest.raises(VcsError, match="unknown game"):
        AtariEnv("pongg")
    with pytest.raises(VcsError, match="no game rules"):
        AtariEnv("combat")
    env = AtariEnv("pong", continuous=True)
    for bad in (3, [0.5, 1.0], np.zeros(3), np.full(3, np.nan, np.float32)):
        with pytest.raises(VcsError, match="float32"):
            env.step(bad)
    for seed in (-1, np.int64(3), 1.5):
        with pytest.raises(gym.error.Error, match="seed"):
            env.reset(seed=seed)  # type: ignore[arg-type]
    with pytest.raises(gym.error.Error, match="render mode"):
        env.render()
    with pytest.raises(IndexError):
        AtariEnv("pong").step(6)

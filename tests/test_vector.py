"""The thread pool: equal streams on any number of threads, partial resets and steps, snapshots, bad input."""
from __future__ import annotations

import gc
import os
import pickle
import signal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium

from vcs.env.vector import AtariVectorEnv
from vcs.errors import VcsError

# our own cartridge has no game rules: it never ends, and says so once
pytestmark = pytest.mark.filterwarnings("ignore:.*has no game rules")

N = 4


def make(game: Any = "glass", n: int = N, **settings: Any) -> AtariVectorEnv:
    return AtariVectorEnv(game, n, **{"num_threads": 2, "noop_max": 5, **settings})


def actions(steps: int, n: int = N, seed: int = 0, most: int = 18) -> Any:
    return np.random.default_rng(seed).integers(0, most, (steps, n))


def copies(results: Any) -> list[Any]:
    """The arrays of a result, and those of its infos, as they are now."""
    arrays = [np.array(a) for a in results if isinstance(a, np.ndarray)]
    return arrays + [np.array(results[-1][k]) for k in ("lives", "frame_number", "episode_frame_number")]


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def play(env: AtariVectorEnv, plan: Any, seed: int = 3) -> list[list[Any]]:
    seen = [copies(env.reset(seed=seed))]
    return seen + [copies(env.step(row)) for row in plan]


def test_threads_do_not_matter() -> None:
    plan = actions(20)
    first = play(make(num_threads=1), plan)
    for threads in (2, 5):
        assert all(same(a, b) for a, b in zip(first, play(make(num_threads=threads), plan), strict=True))


@pytest.mark.parametrize("shape", [
    {}, {"img_height": 210, "img_width": 160}, {"img_height": 105, "img_width": 80}, {"img_width": 20},
    {"img_height": 200, "img_width": 131, "maxpool": False}, {"img_height": 37, "img_width": 53},
    {"img_height": 1, "img_width": 1},
])  # fmt: skip
@pytest.mark.parametrize("game", ["seaquest", "qbert", "air_raid"])
def test_wide_pictures_are_equal(game: str, shape: dict[str, Any], rom: Any) -> None:
    """Preprocessing 32 bytes at a time gives the bytes of the plain way (both are the same without AVX2)."""
    rom(game)
    settings = {"max_num_frames_per_episode": 30, "img_height": 84, **shape}
    narrow = type("Narrow", (AtariVectorEnv,), {"_wide": 0})(game, N, num_threads=2, noop_max=5, **settings)
    plan = actions(12, most=6)
    for a, b in zip(play(make(game, **settings), plan), play(narrow, plan), strict=True):
        assert same(a, b)


def test_send_and_recv() -> None:
    plan = actions(12)
    env = make()
    expected = play(make(num_threads=1), plan)
    assert same(expected[0], copies(env.reset(seed=3)))
    for row, want in zip(plan, expected[1:], strict=True):
        env.send(row)
        assert same(want, copies(env.recv()))


def test_small_batches() -> None:
    """With a batch_size below num_envs results come as they finish; each environment has its own stream."""
    plan = actions(60)
    lone = make(num_threads=1)
    steps = [lone.reset(seed=3)[0].copy(), *(lone.step(row)[0].copy() for row in plan[:, :])]
    env = make(batch_size=2)
    played = np.zeros(N, int)
    obs, info = env.reset(seed=3)
    for _ in range(40):
        ids = info["env_id"]
        for k, i in enumerate(ids):
            assert np.array_equal(obs[k], steps[played[i]][i])
        if played.max() == len(plan):
            break
        env.send(np.array([plan[played[i], i] for i in ids]))
        played[ids] += 1
        obs, _, _, _, info = env.recv()
    assert played.sum() >= 20


def test_reset_mask_and_step_mask() -> None:
    env = make()
    plan = actions(6)
    env.reset(seed=3)
    before = copies(env.step(plan[0]))
    mask = np.array([True, False, False, True])
    after = copies(env.reset(seed=[7, None, None, 8], options={"reset_mask": mask}))
    fresh = make(n=2)
    obs, _ = fresh.reset(seed=7)
    assert np.array_equal(after[0][mask], obs)
    assert np.array_equal(after[0][~mask], before[0][~mask])
    stepped = copies(env.step(plan[1], mask=~mask))
    assert np.array_equal(stepped[0][mask], after[0][mask])
    assert not stepped[1][mask].any() and not stepped[2].any()
    assert (stepped[-2] - after[-2] == np.where(mask, 0, 4)).all()
    # a stream does not notice what its neighbours did meanwhile
    lone = make()
    lone.reset(seed=3)
    lone.step(plan[0])
    assert np.array_equal(lone.step(plan[1])[0][~mask], stepped[0][~mask])


def test_autoreset_modes() -> None:
    limit = {"max_num_frames_per_episode": 8}
    plan = actions(5)
    following = play(make(**limit), plan)
    assert [bool(s[3].all()) for s in following[1:]] == [False, True, False, False, True]
    at_once = play(make(autoreset_mode="SameStep", **limit), plan)
    assert [bool(s[3].all()) for s in at_once[1:]] == [False, True, False, True, False]
    assert np.array_equal(at_once[2][0], following[3][0])       # the reset observation, one step earlier
    env = make(autoreset_mode="SameStep", **limit)
    env.reset(seed=3)
    env.step(plan[0])
    info = env.step(plan[1])[4]
    assert np.array_equal(info["final_obs"], following[2][0]) and info["_final_obs"].all()
    env = make(autoreset_mode="Disabled", **limit)
    env.reset(seed=3)
    env.step(plan[0])
    assert env.step(plan[1])[3].all()
    with pytest.raises(VcsError, match="environment 0 has ended; reset it with"):
        env.step(plan[2])
    env.reset(options={"reset_mask": np.ones(N, bool)})
    env.step(plan[2])


@pytest.mark.parametrize(("argument", "word"), [
    ({"sound_obs": True}, "no sound"), ({"obs_type": "ram"}, "vectorization_mode='sync'"),
])  # fmt: skip
def test_arguments_of_single_environments(argument: dict[str, Any], word: str, rom: Any) -> None:
    rom("pong")
    import vcs.env  # noqa: F401  (registers the games)

    with pytest.raises(VcsError, match=word):
        gymnasium.make_vec("VCS/Pong-v5", num_envs=2, **argument)


def test_different_games(rom: Any) -> None:
    names = ["pong", "air_raid", "breakout", "pong"]
    for name in names:
        rom(name)
    plan = actions(15)
    mixed = play(make(names, full_action_space=True), plan, seed=5)
    for i, name in enumerate(names):
        lone = make(name, 1, full_action_space=True)
        alone = [copies(lone.reset(seed=5 + i)), *(copies(lone.step(row[i:i + 1])) for row in plan)]
        for a, b in zip(mixed, alone, strict=True):
            assert all(np.array_equal(x[i:i + 1], y) for x, y in zip(a, b, strict=True)), name


def test_arrays_may_be_kept() -> None:
    env = make()
    obs, _ = env.reset(seed=3)
    kept, copied = [], []
    for row in actions(12):
        obs, reward, *_ = env.step(row)
        kept.append(obs[1:3])                    # a view holds its array too
        copied.append(obs[1:3].copy())
    assert all(np.array_equal(a, b) for a, b in zip(kept, copied, strict=True))
    del obs, reward, kept
    for row in actions(8):
        env.step(row)
    assert len(env._batches) <= 4


def test_noop_counts() -> None:
    env = make(n=10, noop_max=30, use_fire_reset=False)
    assert env.reset(seed=0)[1]["frame_number"].tolist() == [16, 12, 13, 16, 29, 6, 26, 2, 26, 0]


def test_seeds() -> None:
    env = make(noop_max=30)
    a = copies(env.reset(seed=11))
    b = copies(env.reset(seed=np.array([11, 12, 13, 14])))
    assert same(a, b) and not same(a, copies(env.reset()))
    assert same(a, copies(env.reset(seed=11)))


def test_snapshots_of_environments() -> None:
    env = make(maxpool=True)
    plan = actions(12)
    env.reset(seed=3)
    for row in plan[:5]:
        shown = env.step(row)[0].copy()
    snap = pickle.loads(pickle.dumps(env.snapshot(2)))
    future = [env.step(row)[0][2].copy() for row in plan[5:]]
    obs = env.restore(snap)[0]
    assert (obs == shown[2]).all()
    same_actions = np.repeat(plan[5:, 2:3], N, 1)
    for row, want in zip(same_actions, future, strict=True):
        assert (env.step(row)[0] == want).all()
    # into some only, and into another pool
    other = make()
    other.reset(seed=9)
    was = other.step(plan[0])[0].copy()
    mask = np.array([False, True, False, False])
    obs = other.restore(snap, mask)[0]
    assert np.array_equal(obs[1], shown[2]) and np.array_equal(obs[~mask], was[~mask])
    with pytest.raises(VcsError, match="other settings"):
        _restored(make(stack_num=2), snap)
    snap.wrapper = snap.wrapper[:-1]
    with pytest.raises(VcsError, match="damaged"):
        env.restore(snap)


def _restored(env: AtariVectorEnv, snap: Any) -> None:
    env.reset(seed=0)
    env.restore(snap)


def test_make_vec(rom: Any) -> None:
    import vcs.env  # noqa: F401

    rom("pong")
    env = gymnasium.make_vec("VCS/Pong-v5", num_envs=3)
    assert isinstance(env.unwrapped, AtariVectorEnv)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (3, 4, 84, 84) and env.action_space.nvec.tolist() == [6, 6, 6]
    assert len(env.render()) == 3
    env.close()


def test_continuous_actions(rom: Any) -> None:
    rom("breakout")
    discrete, polar = make("breakout"), make("breakout", continuous=True)
    discrete.reset(seed=1)
    polar.reset(seed=1)
    right = np.tile(np.array([1.0, 0.0, 0.0], np.float32), (N, 1))
    for _ in range(5):
        a, b = discrete.step(np.full(N, 2))[0], polar.step(right)[0]
        assert np.array_equal(a, b)


BAD_ARGUMENTS = [
    ({"num_envs": 0}, "num_envs is 0; it must be a whole number from 1"),
    ({"num_threads": -1}, "num_threads"),
    ({"batch_size": 9}, "batch_size is 9"),
    ({"frameskip": 0}, "frameskip"),
    ({"stack_num": 0}, "stack_num"),
    ({"img_height": 300}, "img_height is 300; it must be a whole number from 1 to 210"),
    ({"img_width": 84.5}, "img_width"),
    ({"noop_max": -1}, "noop_max"),
    ({"autoreset_mode": "never"}, "NextStep, SameStep, Disabled"),
    ({"repeat_action_probability": 2.0}, "repeat_action_probability"),
    ({"render_mode": "human"}, "rgb_array"),
    ({"continuous_action_threshold": float("nan")}, "continuous_action_threshold"),
    ({"game": ["glass"]}, "1 games were given for 4"),
    ({"game": "glasss"}, "did you mean glass"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_ARGUMENTS)
def test_bad_arguments(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(VcsError, match=message):
        AtariVectorEnv(**{"game": "glass", "num_envs": N, **settings})


def test_games_with_different_actions(rom: Any) -> None:
    rom("pong")
    rom("freeway")
    with pytest.raises(VcsError, match="full_action_space=True"):
        AtariVectorEnv(["pong", "freeway"])


def test_bad_calls() -> None:
    env = make()
    good = np.zeros(N, np.int64)
    with pytest.raises(VcsError, match="call reset"):
        env.step(good)
    with pytest.raises(VcsError, match="call reset"):
        env.send(good)
    with pytest.raises(VcsError, match="never been reset"):
        env.reset(options={"reset_mask": np.array([True, False, False, False])})
    env.reset(seed=0)
    for bad, message in (
        (np.zeros(N + 1, int), "shape"), (np.zeros(N), "whole numbers"), (np.full(N, 18), "0 to 17"),
        (np.full(N, -1), "0 to 17"), (None, "shape"),
    ):
        with pytest.raises(VcsError, match=message):
            env.step(bad)
    with pytest.raises(VcsError, match="bool array of shape"):
        env.step(good, mask=np.array([True, False]))
    with pytest.raises(VcsError, match="seeds were given"):
        env.reset(seed=[1, 2])
    with pytest.raises(VcsError, match="env_ids"):
        env.send(good, np.array([0, 1, 1, 2]))
    with pytest.raises(VcsError, match="only 0 steps are in flight"):
        env.recv()                               # would wait for ever
    env.send(good)
    with pytest.raises(VcsError, match="still stepping"):
        env.send(good)
    with pytest.raises(VcsError, match="in flight"):
        env.step(good)
    with pytest.raises(VcsError, match="in flight"):
        env.reset()
    env.recv()
    with pytest.raises(VcsError, match="index"):
        env.snapshot(N)
    env.close()
    with pytest.raises(VcsError, match="closed"):
        env.step(good)


def test_closing_with_steps_in_flight() -> None:
    env = make()
    env.reset(seed=0)
    env.send(np.zeros(N, int))
    env.close()
    env.close()


def test_after_a_fork() -> None:
    """Threads do not survive a fork; the child is told, and the parent plays on."""
    env = make(n=2)
    env.reset(seed=0)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            env.step(np.zeros(2, int))
        except VcsError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    env.step(np.zeros(2, int))


@pytest.mark.skipif(any(name in os.environ.get("LD_PRELOAD", "") for name in ("libtsan", "liblsan")),
                    reason="the sanitizer knows no threads that start in a forked process")
@pytest.mark.parametrize("flying", [False, True])
def test_forks_while_threads_run(flying: bool) -> None:
    """A fork while the threads sleep or step: the child can drop what it inherited and exit in the usual way,
    a pool of its own plays there, and the parent's stream is that of a pool nobody forked."""
    plan = actions(6, n=8)
    expected = play(make(n=8, num_threads=1), plan)
    env = make(n=8, num_threads=3)
    env.reset(seed=3)
    for row, want in zip(plan, expected[1:], strict=True):
        if flying:
            env.send(row)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout's cannot end a wait in C++
                signal.alarm(30)
                with pytest.raises(VcsError, match="forked"):
                    env.recv() if flying else env.step(row)
                del env
                gc.collect()
                own = play(make(n=8), plan[:2])
                code = 0 if all(same(a, b) for a, b in zip(own, expected, strict=False)) else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert same(want, copies(env.recv() if flying else env.step(row)))


def test_no_game_leaks_into_another() -> None:
    """Environments of one process share nothing: two pools interleaved equal two pools in turn."""
    plan = actions(6)
    expected = play(make(), plan, 1), play(make(), plan, 2)
    a, b = make(), make()
    a.reset(seed=1)
    b.reset(seed=2)
    for k, row in enumerate(plan):
        assert np.array_equal(a.step(row)[0], expected[0][k + 1][0])
        assert np.array_equal(b.step(row)[0], expected[1][k + 1][0])

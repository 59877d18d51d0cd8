"""Wrong types, shapes and numbers at every door of the Python interface: one sentence each, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

import vcs
from vcs import games, horizon, join, layout, soft, xai
from vcs.errors import VcsError
from vcs.gradient import Weighting
from vcs.xai import causes, oracle

pytestmark = pytest.mark.filterwarnings("ignore:.*has no game rules")
NAN = float("nan")
Call = Callable[[], object]


@cache
def machine() -> vcs.Machine:
    return vcs.Machine("glass")


@cache
def trace() -> vcs.Trace:
    return machine().clone().trace([0])


@cache
def state() -> xai.State:
    return xai.State("glass")


def machines() -> Iterator[Call]:
    for rom in (None, 3, [], {}, object(), "", b"", np.zeros(4096), True, "a\0b"):
        yield lambda rom=rom: vcs.Machine(rom)
    for name in ("frame_skip", "seed", "height", "ystart", "paddle_min", "max_num_frames_per_episode"):
        for value in ("x", NAN, 1.5, [], 2**70, object()):
            yield lambda name=name, value=value: vcs.Machine("glass", **{name: value})
    for value in ("x", NAN, -1, [], object()):
        yield lambda value=value: vcs.Machine("glass", repeat_action_probability=value)
    for action in (None, "x", -1, 18, NAN, [], np.zeros(2)):
        yield lambda action=action: machine().clone().step(action)
    for actions in (None, "x", 3, NAN, [[1]], [1.5], [99], [-1], [[1], [1, 2]], [True, False]):
        yield lambda actions=actions: machine().clone().trace(actions)


def gradients() -> Iterator[Call]:
    hand = Weighting
    one, none, cells = np.ones(1), np.zeros(0), np.zeros(0, np.int64)
    for output in (
        None, "nope", 3.5, b"x", ("pixel",), ("pixel", 1.5, 2), vcs.Pixel("a", 2), vcs.Ram(NAN), {}, [], True,
        {vcs.Ram(1): "x"}, {vcs.Ram(1): NAN}, np.array(["x"]), np.zeros((210, 160), complex), 2**70,
        hand(np.zeros((1, 3), np.int64), none, cells, none, ""),
        hand(np.full((1, 3), 999), one, cells, none, ""),
        hand(np.zeros((0, 3), np.int64), none, np.array([-5]), one, ""),
    ):  # fmt: skip
        yield lambda output=output: vcs.grad(trace(), output)
    for engine in ("adjoint", "soft"):
        for name in ("wrt", "rules", "alpha", "T", "mode", "control"):
            for value in ("nope", 0, NAN, ["nope"], object()):
                given = {"engine": engine, name: value}
                yield lambda given=given: vcs.grad(trace(), vcs.Ram(3), **given)
    for wrong in (None, "x", [1]):
        yield lambda wrong=wrong: vcs.grad(wrong, vcs.Ram(3))
        yield lambda wrong=wrong: soft.replay(wrong)
        yield lambda wrong=wrong: soft.rollout(wrong)
        yield lambda wrong=wrong: join.find(wrong, trace())
        yield lambda wrong=wrong: join.find(machine(), wrong)
        yield lambda wrong=wrong: join.grad_join(trace(), vcs.Ram(1), wrong)
        yield lambda wrong=wrong: horizon.grad_long(wrong, [0], vcs.Ram(1))
    for pixels in ("x", [(1, 2)], [(0, 300, 1)], [("a", 1, 2)], 3, None, [(0, 1, NAN)], [(0, 1), (1,)]):
        yield lambda pixels=pixels: soft.replay(trace(), pixels=pixels)
        yield lambda pixels=pixels: soft.rollout(trace(), pixels=pixels)
    for start in (3, {}, {"x": 1}):
        yield lambda start=start: soft.replay(trace())(start)
    yield lambda: soft.rollout(trace())(3)
    for name in (None, 3, "", "nope"):
        yield lambda name=name: layout.parse(name)
        yield lambda name=name: games.get_game(name)


def joins() -> Iterator[Call]:
    """A `Joins` that somebody put together."""
    empty = np.zeros(0, np.int32)
    for branch, start in (([5], [0, 1]), ([-1], [0, 0]), ([10**9], [0, 0]), ([5.5], [0, 0])):
        rows = [np.array(branch), np.array(branch) + 1, np.array(start), empty, empty, empty, empty, empty]
        made = join.Joins(*rows, 1)
        yield lambda made=made: join.grad_join(trace(), vcs.Ram(1), made)


def explanations() -> Iterator[Call]:
    for game in (None, 3, "", []):
        yield lambda game=game: xai.State(game)
    for settings in (
        {"seed": "x"}, {"seed": -1}, {"threads": "x"}, {"threads": 2**70}, {"labels": "x"},
        {"labels": {300: "x"}}, {"labels": {"a": 1}},
    ):  # fmt: skip
        yield lambda settings=settings: xai.State("glass", **settings)
    for method in ("nope", None, 3):
        yield lambda method=method: xai.score(state(), method, "content")
    for output in ("nope", None, 3, vcs.Pixel(1, 2), xai.Pixel.of(1, 1)):
        yield lambda output=output: xai.score(state(), "saliency", output)
    yield lambda: xai.score("glass", "saliency", "content")
    yield lambda: xai.Content.of(500)
    for answer in ([1, 2], "x", None, [NAN] * len(state().causes), np.zeros((2, 2))):
        method = xai.Method("made_up", lambda s, o, c, answer=answer: answer)
        yield lambda method=method: xai.score(state(), method, "content")
    for do in (
        (1, "x"),
        (1, "set", "x"),
        (1, "delta", NAN),
        ("x", "set", 1),
        (None, None, None),
        (1, "flip", 99),
    ):
        yield lambda do=do: causes.Do(*do)
    for act in ((-1,), ("x",), (1, NAN), (1, -1)):
        yield lambda act=act: causes.Act(*act)
    for runs in (None, 3, "x", [3], [[3]], [[None]]):
        yield lambda runs=runs: state().oracle.run(runs)
    for places in (None, 3, "x", [-1], [99999], ["x"]):
        yield lambda places=places: state().oracle.map(places)
    for who, actions in ((None, [0]), ("glass", [0]), (machine(), None), (machine(), ["x"]), (machine(), [])):
        yield lambda who=who, actions=actions: oracle.Oracle(who, actions)
    yield lambda: xai.register(3)


def environments() -> Iterator[Call]:
    from vcs.env.vector import AtariVectorEnv

    make = AtariVectorEnv
    for game in (None, 3, "nope", []):
        yield lambda game=game: make(game, 2)
    for game in (3, object()):
        yield lambda game=game: make(game)
    for name in ("num_envs", "num_threads", "img_height", "stack_num", "frameskip", "noop_max", "batch_size"):
        for value in ("x", -1, NAN, [], 2**70):
            yield lambda name=name, value=value: make("glass", **{"num_envs": 2, name: value})
    for name in ("grayscale", "maxpool", "episodic_life", "reward_clipping", "autoreset_mode"):
        for value in ("x", -1, NAN, [], 2**70, object()):
            yield lambda name=name, value=value: make("glass", 2, **{name: value})
    env = make("glass", 3, num_threads=1, img_height=42, img_width=40)
    env.reset(seed=1)
    for actions in (
        None,
        "x",
        1,
        [1],
        [1, 2, 99],
        [1.5, 2, 3],
        np.zeros((3, 1)),
        np.array([NAN] * 3),
        ["a"] * 3,
    ):
        yield lambda actions=actions: env.step(actions)
    for seed in ("x", NAN, 1.5, [1], [1, 2, NAN], [1, 2, "x"], object()):
        yield lambda seed=seed: env.reset(seed=seed)
    for options in (3, "x", {"reset_mask": 3}, {"reset_mask": np.ones(2, bool)}, {"reset_mask": np.ones(3)}):
        yield lambda options=options: env.reset(options=options)
    for snapshot in (None, 3, "x", machine().snapshot()):
        yield lambda snapshot=snapshot: env.restore(snapshot)


def atari() -> Iterator[Call]:
    from vcs.env.gym import AtariEnv

    for name in (
        "mode",
        "difficulty",
        "repeat_action_probability",
        "max_num_frames_per_episode",
        "frameskip",
    ):
        for value in ("x", NAN, [], object()):
            yield lambda name=name, value=value: AtariEnv("pong", **{name: value})
    env = AtariEnv("pong")
    env.reset(seed=1)
    for action in (None, "x", 99, NAN, [], 1.5, object()):
        yield lambda action=action: env.step(action)
    for seed in ("x", -1, 1.5, []):
        yield lambda seed=seed: env.reset(seed=seed)


@pytest.mark.parametrize("door", [machines, gradients, joins, explanations, environments, atari])
def test_one_sentence(door: Callable[[], Iterator[Call]]) -> None:
    if door in (environments, atari):
        pytest.importorskip("gymnasium")
    if door is atari and "pong" not in vcs.roms.available():
        pytest.skip("needs the images of ale-py")
    for call in door():
        given = call.__defaults__ or ("?",)  # type: ignore[attr-defined]
        with pytest.raises(VcsError) as refused:
            call()
            pytest.fail(f"accepted: {given!r}")
        text = str(refused.value)
        assert 10 < len(text) < 1000 and "\n" not in text, given

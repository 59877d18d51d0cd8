"""`AtariVectorEnv`: many games at once, on the threads of a C++ pool, with the usual Atari preprocessing.

Takes the arguments of ale-py's `AtariVectorEnv` and gives the same arrays bit for bit (specification
`spec/environment.md` 9.3 and 9.4; compared live in `tests/test_vector_live.py`). What it adds:

* different games in one pool (a list of names), a mode and a difficulty;
* autoreset can be switched off, and `reset(options={"reset_mask": mask})` restarts some environments;
* `step(actions, mask=mask)` steps some environments, so that starts can be spread out;
* `snapshot(i)` and `restore(snapshot, mask)` for whole environments, preprocessing included;
* what arrives is checked: ale-py ends the process on an action number that does not exist.

`reset(seed=s)` gives environment i the seed s + i. The arrays that `reset`, `step` and `recv` return were
written by the threads themselves, without a copy; they are used again only when nobody holds them any more,
so they may be kept.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from vcs._hard._pool import Batch as NativeBatch
from vcs._hard._pool import Pool
from vcs._hard.machine import api, handle, restore_all
from vcs.checks import flag, instance, whole
from vcs.checks import seed as checked_seed
from vcs.env.ale import NO_SOUND
from vcs.errors import VcsError
from vcs.machine import Machine, Snapshot, palette

__all__ = ["AtariVectorEnv", "EnvSnapshot"]

Method = TypeVar("Method", bound=Callable[..., Any])
Results = tuple[
    NDArray[np.uint8], NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]

MODES: Final = {AutoresetMode.NEXT_STEP: 0, AutoresetMode.SAME_STEP: 1, AutoresetMode.DISABLED: 2}
ROWS, COLUMNS = 210, 160

# Discrete action of (right/none/left, up/none/down, fire) -> number (environment.md 9.2); index 1 + sign.
_DIRECTIONS: Final = np.array(
    [[[9, 17], [4, 12], [7, 15]], [[5, 13], [0, 1], [2, 10]], [[8, 16], [3, 11], [6, 14]]], np.int32
)


class EnvSnapshot:
    """One environment of an `AtariVectorEnv` at one moment: the machine, and its preprocessing (frame stack,
    step counter, no-op stream). It pickles; restore it with `AtariVectorEnv.restore`."""

    __slots__ = ("machine", "settings", "wrapper")

    def __init__(self, machine: Snapshot, wrapper: bytes, settings: tuple[Any, ...]) -> None:
        self.machine = machine
        self.wrapper = wrapper
        self.settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return EnvSnapshot, (self.machine, self.wrapper, self.settings)


class _Batch:
    """The arrays of one set of results, and the view that the threads have of them."""

    def __init__(self, rows: int, shape: tuple[int, ...], final: bool) -> None:
        numbers = [np.zeros(rows, np.int32) for _ in range(3)]
        self.arrays: list[NDArray[Any]] = [
            np.zeros((rows, *shape), np.uint8), np.zeros(rows, np.int32), np.zeros(rows, np.bool_),
            np.zeros(rows, np.bool_), *numbers, np.zeros((rows if final else 0, *shape), np.uint8),
        ]  # fmt: skip
        self.native = NativeBatch(tuple(self.arrays), int(np.prod(shape)))
        self._unused = self._held()

    def _held(self) -> list[int]:
        return [sys.getrefcount(a) for a in self.arrays]

    @property
    def unused(self) -> bool:
        """Whether nobody but us holds one of the arrays, or a view of it."""
        return self._held() == self._unused


def _alone(call: Method) -> Method:
    """Let one thread at a time into a method: two that step one pool would wait for each other's results."""

    @wraps(call)
    def guarded(env: AtariVectorEnv, *arguments: Any, **named: Any) -> Any:
        if not env._lock.acquire(blocking=False):
            raise VcsError("another thread is using this vector environment; give each thread its own")
        try:
            return call(env, *arguments, **named)
        finally:
            env._lock.release()

    return cast(Method, guarded)


class AtariVectorEnv(gymnasium.vector.VectorEnv[NDArray[np.uint8], NDArray[Any], NDArray[Any]]):
    """Many Atari games stepped together.

    game: name of a game as `vcs.Machine` takes it, or a sequence of `num_envs` names.
    num_envs: environments. batch_size: results that one `recv` waits for (0: all).
    num_threads: threads (0: one per processor, at most num_envs). thread_affinity_offset: processor of the
        first thread (-1: the system decides).
    max_num_frames_per_episode: frames after which an episode is truncated.
    repeat_action_probability: of sticky actions. full_action_space: all legal actions of the game instead of
        its minimal set; needed for games whose minimal sets differ.
    continuous: actions are float32 (r, theta, fire), compared with continuous_action_threshold.
    autoreset_mode: `gymnasium.vector.AutoresetMode` or its value. With NEXT_STEP the step after an ended
        episode ignores its action and resets; with SAME_STEP the reset happens at once and
        `info["final_obs"]` holds the last observations; with DISABLED ended environments are reset by
        `reset(options={"reset_mask": mask})`.
    img_height, img_width: size of an observation, at most the game's own (210 x 160 for most).
    grayscale: else RGB. stack_num: frames of one observation. frameskip: frames of one step.
    maxpool: take the larger byte of the last two frames. noop_max: no-ops after a reset, fewer than this.
    episodic_life: a lost life ends the episode (and resets the game). life_loss_info: a lost life sets
        `terminated`. reward_clipping: clip to -1, 0, 1. use_fire_reset: press FIRE after a reset.
    mode, difficulty: numbers the game offers. system_random_seed: of the console's power-on RAM and timer.
    render_mode: "rgb_array" or None. obs_type, sound_obs: arguments of `AtariEnv` that are refused here.

    Observations: uint8 (num_envs, stack_num, img_height, img_width), with a last axis of 3 if not grayscale.
    Rewards: int32. Infos: env_id, lives, frame_number, episode_frame_number, int32 (num_envs,).
    Raises VcsError for arguments out of range.
    """

    _wide = 1  # pictures 32 bytes at a time where the processor can; 0 in the test that compares both ways

    def __init__(
        self,
        game: str | Sequence[str],
        num_envs: int | None = None,
        *,
        batch_size: int = 0,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        max_num_frames_per_episode: int = 108_000,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        img_height: int = 84,
        img_width: int = 84,
        grayscale: bool = True,
        stack_num: int = 4,
        frameskip: int = 4,
        maxpool: bool = True,
        noop_max: int = 30,
        episodic_life: bool = False,
        life_loss_info: bool = False,
        reward_clipping: bool = True,
        use_fire_reset: bool = True,
        mode: int | None = None,
        difficulty: int | None = None,
        system_random_seed: int = 4753849,
        render_mode: str | None = None,
        obs_type: str | None = None,
        sound_obs: bool = False,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._arguments: dict[str, Any] = arguments
        self._lock = threading.RLock()
        several = not isinstance(game, (str, bytes, os.PathLike))
        if several:
            instance("the game", game, (Sequence, np.ndarray), "a name, a path or bytes, or a list of them")
        self.num_envs = whole("num_envs", (len(game) if several else 1) if num_envs is None else num_envs, 1)
        games: list[Any] = list(game) if several else [game] * self.num_envs
        if len(games) != self.num_envs:
            raise VcsError(f"{len(games)} games were given for {self.num_envs} environments; give one game "
                           "for all, or one for each")
        self.batch_size = whole("batch_size", batch_size, 0, self.num_envs) or self.num_envs
        by_value = {m.value: m for m in MODES}
        if isinstance(autoreset_mode, str):
            autoreset_mode = by_value.get(autoreset_mode, autoreset_mode)
        if not isinstance(autoreset_mode, AutoresetMode):
            raise VcsError(f"autoreset_mode is {autoreset_mode!r}; use one of {', '.join(by_value)}")
        if render_mode not in (None, "rgb_array"):
            raise VcsError(f"render_mode is {render_mode!r}; a vector environment offers 'rgb_array' or None")
        if obs_type is not None:
            raise VcsError(f"obs_type is {obs_type!r}, but these observations are pictures that grayscale, "
                           "img_height and img_width describe; for others use gymnasium.make_vec(..., "
                           "vectorization_mode='sync')")
        if sound_obs:
            raise VcsError(NO_SOUND)
        if not continuous_action_threshold >= 0.0:
            raise VcsError(f"continuous_action_threshold is {continuous_action_threshold}; it must not be "
                           "negative")
        threads = whole("num_threads", num_threads, 0, 1024)
        if not threads:
            known = hasattr(os, "sched_getaffinity")
            threads = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        self.autoreset_mode = autoreset_mode
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "autoreset_mode": autoreset_mode}

        originals: dict[str, Machine] = {}
        self._machines: list[Machine] = []
        for name in games:
            if name in originals:
                self._machines.append(originals[name].clone())
                continue
            originals[name] = Machine(
                name, protocol="ale", repeat_action_probability=repeat_action_probability, mode=mode,
                difficulty=difficulty, system_random_seed=system_random_seed,
            )  # fmt: skip
            self._machines.append(originals[name])
        rows = min(m.rows for m in originals.values())
        height = whole("img_height", img_height, 1, rows)
        width = whole("img_width", img_width, 1, COLUMNS)
        settings = {
            "frame_skip": whole("frameskip", frameskip, 1), "stack": whole("stack_num", stack_num, 1, 1024),
            "height": height, "width": width, "noop_max": whole("noop_max", noop_max, 0),
            "max_frames": whole("max_num_frames_per_episode", max_num_frames_per_episode, 1),
            "gray": flag("grayscale", grayscale), "maxpool": flag("maxpool", maxpool),
            "episodic_life": flag("episodic_life", episodic_life),
            "life_loss_info": flag("life_loss_info", life_loss_info),
            "clip": flag("reward_clipping", reward_clipping),
            "fire_reset": flag("use_fire_reset", use_fire_reset), "autoreset": MODES[autoreset_mode],
            "system_seed": system_random_seed & 0xFFFFFFFF,
        }  # fmt: skip
        self._settings = tuple(settings.values())

        every = full_action_space or continuous
        sets = {m.rules.legal_actions if every else m.actions for m in originals.values()}
        if len(sets) > 1:
            raise VcsError("the games have different sets of actions; pass full_action_space=True, or games "
                           "with equal sets")
        self._actions = np.array(sets.pop(), np.int32)
        self.continuous = continuous
        self._threshold = float(continuous_action_threshold)
        if continuous:
            low, high = np.array([0, -np.pi, 0], np.float32), np.array([1, np.pi, 1], np.float32)
            self.single_action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(low, high, dtype=np.float32)
        else:
            self.single_action_space = gymnasium.spaces.Discrete(len(self._actions))
        self._shape = (stack_num, height, width) + (() if grayscale else (3,))
        self.single_observation_space: gymnasium.Space[Any] = gymnasium.spaces.Box(
            0, 255, self._shape, np.uint8
        )
        self.observation_space = batch_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)

        setup = np.array(
            [[m.mode if mode is not None else m.rules.default_mode, m.difficulty, 1 in self._actions]
             for m in self._machines], np.int32,
        )  # fmt: skip
        colours = [palette(pal) for pal in (False, True)]
        # gray is the blue byte of the next colour; past the end of the table it is 0 (environment.md 7.2)
        gray = np.stack([np.append(c[1:, 2], np.uint8(0)) for c in colours])
        self._final = autoreset_mode is AutoresetMode.SAME_STEP
        self._pool = Pool(
            self._machines, [handle(m) for m in self._machines], api(), {**settings, "wide": self._wide},
            gray, np.stack(colours), setup, min(threads, self.num_envs),
            whole("thread_affinity_offset", thread_affinity_offset, -1),
        )  # fmt: skip
        self._all = np.arange(self.num_envs, dtype=np.int32)
        self._seeded = np.zeros(self.num_envs, np.bool_)
        self._batches: list[_Batch] = []
        self._pending: _Batch | None = None
        self._last = self._all[: self.batch_size]
        self._started = False

    # ------------------------------------------------------------------------------------ Gymnasium's methods
    @_alone
    def reset(
        self, *, seed: int | Sequence[int | None] | NDArray[Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start episodes.

        seed: s gives environment i the seed s + i; a sequence gives each its own (None or -1: its streams go
            on). Before the first seeded reset the streams start from the system's entropy.
        options: `{"reset_mask": bool (num_envs,)}` resets some; the rows of the others repeat what they last
            showed.

        Returns observations uint8[batch_size, *observation] and infos (of the first `batch_size` environments
        to finish, if that is fewer than num_envs; the rest comes from `recv`). Raises VcsError for bad
        input, or while steps are in flight.
        """
        self._ready("reset")
        instance("options", options or {}, Mapping, "a dict such as {'reset_mask': mask}")
        ids = self._mask((options or {}).get("reset_mask"), "reset_mask")
        if not self._started and len(ids) < self.num_envs:
            raise VcsError("some environments have never been reset; call reset() without reset_mask first")
        seeds = self._seeds(seed)
        unknown = ~self._seeded & (seeds < 0)
        seeds[unknown] = np.random.SeedSequence().generate_state(self.num_envs)[unknown]
        self._seeded[ids] = True
        self._started = True
        if self.batch_size < self.num_envs:
            self._pool.send_reset(ids, seeds[ids], None)
            obs, _, _, _, info = self.recv()
            return obs, info
        batch = self._batch()
        self._run(self._pool.reset, ids, seeds[ids], batch.native)
        obs, _, _, _, info = self._results(batch, self._all)
        return obs, info

    @_alone
    def step(self, actions: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> Results:
        """Step every environment, or those of the mask.

        actions: integers below the size of the action set, (num_envs,); float32 (num_envs, 3) if continuous.
        mask: bool (num_envs,), environments to step. The rows of the others repeat what they last showed,
            with reward 0 and both flags false; their actions are ignored.

        Returns (observations, rewards, terminated, truncated, infos). Raises VcsError for bad input, for an
        ended environment if autoreset is disabled, or before the first reset.
        """
        if self.batch_size < self.num_envs:
            self.send(actions)
            return self.recv()
        self._ready("step")
        ids = self._mask(mask, "mask")
        codes, strengths = self._codes(actions, ids if mask is not None else None, self.num_envs)
        self._may_step(ids)
        batch = self._batch()
        self._run(self._pool.step, ids, codes, strengths, batch.native)
        return self._results(batch, self._all)

    @_alone
    def send(self, actions: NDArray[Any], env_ids: NDArray[np.integer[Any]] | None = None) -> None:
        """Begin a step and return at once.

        actions: as for `step`, one for each of `env_ids` (None: the environments that the last reset or recv
            returned). Raises VcsError for bad input or an environment whose step is still in flight.
        """
        self._open()
        if not self._started:
            raise VcsError("no environment has been reset; call reset() first")
        ids = self._last if env_ids is None else self._ids(env_ids)
        codes, strengths = self._codes(actions, None, len(ids))
        busy = self._pool.busy()[ids]
        if busy.any():
            raise VcsError(f"environment {ids[busy][0]} is still stepping; call recv() first")
        self._may_step(ids)
        direct = self.batch_size == self.num_envs == len(ids)
        self._pending = self._batch() if direct else None
        self._pool.send(ids, codes, strengths, self._pending.native if self._pending else None)

    @_alone
    def recv(self) -> Results:
        """Wait for `batch_size` results of `send`; returns them as `step` does, `info["env_id"]` tells whose.

        They come in the order in which they finish, in that of env_id if they are all. Raises VcsError if
        fewer steps are in flight, for then the wait would not end.
        """
        self._open()
        waiting = self._pool.in_flight()
        if waiting < self.batch_size:
            raise VcsError(f"recv() waits for {self.batch_size} results but only {waiting} steps are in "
                           "flight; call send() first")
        batch, direct = self._pending, self._pending is not None
        if batch is None:
            batch = self._batch()
        self._last = self._run(self._pool.receive, self.batch_size, batch.native, direct)
        self._pending = None
        return self._results(batch, self._last)

    @_alone
    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """The screens as they are: one uint8[rows, 160, 3] per environment. VcsError: steps are in flight."""
        self._ready("render")
        return tuple(m.screen_rgb for m in self._machines)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads. Steps in flight are dropped."""
        self._pool.close()

    # ----------------------------------------------------------------------------------------- more than that
    @property
    def machines(self) -> list[Machine]:
        """The machine of each environment, to look at between steps: the pool's threads run them meanwhile.

        Raises VcsError while steps are in flight."""
        if self._pool.in_flight():
            raise VcsError("the machines are running; call recv() before you look at them")
        return self._machines

    @_alone
    def snapshot(self, index: int) -> EnvSnapshot:
        """Environment `index` at this moment: machine, frame stack, counters, random streams."""
        self._ready("snapshot")
        index = whole("index", index, 0, self.num_envs - 1)
        return EnvSnapshot(self._machines[index].snapshot(), self._pool.save(index), self._settings)

    @_alone
    def restore(self, snapshot: EnvSnapshot, mask: NDArray[np.bool_] | None = None) -> Results:
        """Put one snapshot into all environments, or into those of the mask (bool (num_envs,)).

        Returns what every environment shows now, as `step` does with reward 0. Raises VcsError if the
        snapshot is of another game or of other settings.
        """
        self._ready("restore")
        instance("the snapshot", snapshot, EnvSnapshot, "what the method snapshot returned")
        ids = self._mask(mask, "mask")
        if snapshot.settings != self._settings:
            raise VcsError("the snapshot is of an environment with other settings; restore it where "
                           "img_height, stack_num and so on are the same")
        restore_all((self._machines[i] for i in ids), snapshot.machine)
        if not all(self._pool.load(i, snapshot.wrapper) for i in ids):
            raise VcsError("the snapshot is damaged; take it again")
        batch = self._batch()
        self._pool.show(batch.native)
        return self._results(batch, self._all)

    @_alone
    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        if self._pool.in_flight():
            raise VcsError("a vector environment cannot be copied or pickled while steps are in flight; call "
                           "recv() first, or do it before reset()")
        states = [self.snapshot(i) for i in range(self.num_envs)] if self._started else None
        return _revive, (type(self), self._arguments, states)

    # ------------------------------------------------------------------------------------------------- inside
    def _open(self) -> None:
        if not self._pool.usable:
            raise VcsError("this vector environment was closed, or this process was forked from its owner; "
                           "make a new one")

    def _ready(self, what: str) -> None:
        self._open()
        if self._pool.in_flight():
            raise VcsError(f"{what}() cannot run while steps are in flight; call recv() first")
        if what != "reset" and not self._started:
            raise VcsError("no environment has been reset; call reset() first")

    def _run(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except RuntimeError as why:
            raise VcsError(str(why)) from None

    def _batch(self) -> _Batch:
        """A set of arrays that nobody reads any more, or a new one."""
        for batch in self._batches:
            if batch is not self._pending and batch.unused:
                return batch
        batch = _Batch(self.batch_size, self._shape, self._final)
        self._batches = [*self._batches[-3:], batch]
        return batch

    def _results(self, batch: _Batch, ids: NDArray[np.int32]) -> Results:
        obs, rewards, terminated, truncated, lives, frame, episode_frame, final = batch.arrays
        info = {"env_id": ids.copy(), "lives": lives, "frame_number": frame,
                "episode_frame_number": episode_frame}
        if self._final and (terminated.any() or truncated.any()):
            info["final_obs"] = final
            info["_final_obs"] = terminated | truncated
        return obs, rewards, terminated, truncated, info

    def _ids(self, env_ids: Any) -> NDArray[np.int32]:
        ids = np.asarray(env_ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(np.unique(ids)) != len(ids) or (
            len(ids) and not (ids.min() >= 0 and ids.max() < self.num_envs)
        ):
            raise VcsError(f"env_ids must be different whole numbers from 0 to {self.num_envs - 1}, for "
                           "example those of info['env_id']")
        return ids.astype(np.int32)

    def _mask(self, mask: Any, name: str) -> NDArray[np.int32]:
        if mask is None:
            return self._all
        chosen = np.asarray(mask)
        if chosen.dtype != np.bool_ or chosen.shape != (self.num_envs,):
            raise VcsError(f"{name} has shape {chosen.shape} and dtype {chosen.dtype}; pass a bool array of "
                           f"shape ({self.num_envs},)")
        some: NDArray[np.int32] = self._all[chosen]
        return some

    def _seeds(self, seed: Any) -> NDArray[np.int64]:
        if seed is None:
            return np.full(self.num_envs, -1, np.int64)
        if isinstance(seed, (int, np.integer)):
            if seed == -1:
                return np.full(self.num_envs, -1, np.int64)
            values = [int(seed) + i for i in range(self.num_envs)]
        else:
            instance("the seed", seed, (Sequence, np.ndarray), "a whole number, or one for each environment")
            values = [-1 if s is None else checked_seed("a seed", s) for s in seed]
            if len(values) != self.num_envs:
                raise VcsError(f"{len(values)} seeds were given for {self.num_envs} environments; give one "
                               "number, or one seed for each")
        return np.array([s if s == -1 else s & 0xFFFFFFFF for s in values], np.int64)

    def _may_step(self, ids: NDArray[np.int32]) -> None:
        if self.autoreset_mode is AutoresetMode.DISABLED:
            ended = self._pool.ended()[ids]
            if ended.any():
                raise VcsError(f"the episode of environment {ids[ended][0]} has ended; reset it with "
                               "reset(options={'reset_mask': mask})")

    def _codes(
        self, actions: Any, ids: NDArray[np.int32] | None, rows: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Machine actions and paddle strengths, of `ids` among `rows` given actions, or of all."""
        given = np.asarray(actions)
        if self.continuous:
            if given.shape != (rows, 3) or given.dtype.kind not in "fiu":
                raise VcsError(f"the actions have shape {given.shape} and dtype {given.dtype}; pass float32 "
                               f"of shape ({rows}, 3): radius, angle, fire")
            polar = (given if ids is None else given[ids]).astype(np.float32)
            return self._continuous(polar)
        if given.shape != (rows,) or given.dtype.kind not in "iu":
            raise VcsError(f"the actions have shape {given.shape} and dtype {given.dtype}; pass whole "
                           f"numbers of shape ({rows},)")
        if ids is not None:
            given = given[ids]
        if len(given) and not (given.min() >= 0 and given.max() < len(self._actions)):
            raise VcsError(f"the actions lie between {given.min()} and {given.max()}; this environment has "
                           f"the actions 0 to {len(self._actions) - 1}")
        return self._actions[given], np.ones(len(given), np.float32)

    def _continuous(self, polar: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """environment.md 9.2; the number found is an index into the legal set (9.3)."""
        r, theta, fire = polar.T
        x, y = r * np.cos(theta), r * np.sin(theta)
        t = self._threshold
        across = 1 + (x > t).astype(np.int32) - (x < -t)
        along = 1 + (y > t).astype(np.int32) - (y < -t)
        codes = _DIRECTIONS[across, along, (fire > t).astype(np.int32)]
        if codes.size and codes.max() >= len(self._actions):
            raise VcsError(f"this game has only {len(self._actions)} legal actions, too few for continuous "
                           "ones; use discrete actions")
        return self._actions[codes], np.ascontiguousarray(r)


def _revive(
    kind: type[AtariVectorEnv], arguments: dict[str, Any], states: list[EnvSnapshot] | None
) -> AtariVectorEnv:
    """Rebuild a pickled environment: a pool of its own, then the state of each environment."""
    env = kind(**arguments)
    if states is not None:
        env.reset()
        for i, state in enumerate(states):
            env.restore(state, np.arange(env.num_envs) == i)
    return env

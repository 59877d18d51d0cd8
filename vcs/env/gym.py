"""`AtariEnv`: the games as Gymnasium environments, `VCS/Pong-v5` beside ale-py's `ALE/Pong-v5`.

Keyword arguments, spaces, observations, rewards, infos and random streams are those of ale-py 0.12.1
(specification `spec/environment.md` 9.1, 9.2), so that a seeded episode is the same in both. Sound is left
out.
"""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from typing import Any, Final, Literal, TypedDict

import gymnasium as gym
import numpy as np
from gymnasium import error, spaces
from gymnasium.utils import EzPickle, seeding
from numpy.typing import NDArray

from vcs import checks, games, roms
from vcs._hard.machine import picture_gray, picture_rgb, play
from vcs.env.ale import ALE, NO_SOUND, Action, ALEState, gray_levels
from vcs.errors import VcsError
from vcs.machine import colour_words

__all__ = ["AtariEnv", "EnvError", "Info", "register"]

Observation = NDArray[np.uint8]

# what each action does: fire, up - down, right - left
_PARTS: Final = {
    a: ("FIRE" in a.name, ("UP" in a.name) - ("DOWN" in a.name), ("RIGHT" in a.name) - ("LEFT" in a.name))
    for a in Action
}
_FROM_PARTS: Final = {parts: a for a, parts in _PARTS.items()}
WINDOW_FPS: Final = 60  # frames of the machine shown per second


class EnvError(VcsError, error.Error):
    """An argument that cannot be used; also a gymnasium.error.Error, as in ale-py."""


class ActionError(EnvError, IndexError):
    """An action that the environment has not; an IndexError too, as ale-py's environment raises."""


class Info(TypedDict, total=False):
    """The info of `reset` and `step`; `seeds` only after `reset(seed=...)`."""

    lives: int
    episode_frame_number: int
    frame_number: int
    seeds: tuple[np.uint32, np.uint32]


class AtariEnv(gym.Env[Observation, int], EzPickle):
    """One game. Usually made by `gymnasium.make("VCS/Pong-v5", ...)`.

    game: name in snake case. mode, difficulty: numbers the game offers (None: default).
    obs_type: "rgb" (uint8[rows, 160, 3]), "grayscale" (uint8[rows, 160]) or "ram" (uint8[128]).
    frameskip: frames of one step, or (low, high): drawn anew each step, high excluded.
    repeat_action_probability: of sticky actions. full_action_space: all legal actions instead of the minimal
    ones.
    continuous: actions are (radius, angle, fire), float32[3]; beyond continuous_action_threshold a direction
    or the
        button counts, and the radius scales paddle movement.
    max_num_frames_per_episode: truncate after so many frames (None: never).
    render_mode: "rgb_array", "human" (a pygame window) or None. sound_obs: refused, there is no sound.

    Raises EnvError (a VcsError and a gymnasium.error.Error) for bad arguments, VcsError for an unknown game.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 30}

    def __init__(
        self,
        game: str,
        mode: int | None = None,
        difficulty: int | None = None,
        obs_type: Literal["rgb", "grayscale", "ram"] = "rgb",
        frameskip: tuple[int, int] | int = 4,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        max_num_frames_per_episode: int | None = None,
        render_mode: Literal["human", "rgb_array"] | None = None,
        sound_obs: bool = False,
    ) -> None:
        EzPickle.__init__(
            self, game, mode, difficulty, obs_type, frameskip, repeat_action_probability, full_action_space,
            continuous, continuous_action_threshold, max_num_frames_per_episode, render_mode, sound_obs,
        )  # fmt: skip
        if obs_type not in ("rgb", "grayscale", "ram"):
            raise EnvError(f"Invalid observation type: {obs_type}. Expecting: rgb, grayscale, ram.")
        if render_mode not in (None, "human", "rgb_array"):
            raise EnvError(f"Render mode {render_mode} not supported (rgb_array, human).")
        if sound_obs:
            raise EnvError(NO_SOUND)
        _check_frameskip(frameskip)
        try:
            checks.real("repeat_action_probability", repeat_action_probability, 0, 1)
            threshold = checks.real("continuous_action_threshold", continuous_action_threshold)
            for name, number in (
                ("mode", mode),
                ("difficulty", difficulty),
                ("max_num_frames_per_episode", max_num_frames_per_episode),
            ):
                if number is not None:
                    checks.whole(name, number, -(2**31))
        except VcsError as why:
            raise EnvError(str(why)) from None

        self.render_mode = render_mode
        self.continuous = continuous
        self.continuous_action_threshold = threshold
        self._frameskip = frameskip
        self._obs_type = obs_type
        self._mode, self._difficulty = mode, difficulty
        self._window: Any = None
        self._clock: Any = None
        self._rom = roms.find(game)
        if self._rom.game is None:
            raise EnvError(f"{game!r} has no game rules, so it is no task: use one of vcs.games.game_names()")

        self.ale = ALE(log=False)
        self.ale.setFloat("repeat_action_probability", repeat_action_probability)
        if max_num_frames_per_episode is not None:
            self.ale.setInt("max_num_frames_per_episode", max_num_frames_per_episode)
        self._load(secrets.randbits(32))

        rules = self.ale.machine.rules
        full = full_action_space or continuous
        self._action_set = [Action(a) for a in (rules.legal_actions if full else rules.minimal_actions)]
        self.action_space: spaces.Space[Any]
        if continuous:
            low, high = np.array([0.0, -np.pi, 0.0], np.float32), np.array([1.0, np.pi, 1.0], np.float32)
            self.action_space = spaces.Box(low, high)
        else:
            self.action_space = spaces.Discrete(len(self._action_set))
        shape: tuple[int, ...] = (128,) if obs_type == "ram" else (self.ale.machine.rows, 160)
        self.observation_space = spaces.Box(0, 255, (*shape, 3) if obs_type == "rgb" else shape, np.uint8)

    def _load(self, random_seed: int) -> None:
        """loadROM with this seed of sticky actions, then the mode and difficulty asked for."""
        self.ale.setInt("random_seed", (random_seed + 2**31) % 2**32 - 2**31)  # as int32
        path = self._rom.path
        assert path is not None  # roms.find of a name gives a file
        self.ale.loadROM(path)
        if self._mode is not None:
            self.ale.setMode(self._mode)
        if self._difficulty is not None:
            self.ale.setDifficulty(self._difficulty)
        self._machine = self.ale.machine
        self._colours = colour_words(self._machine.pal)
        self._grays = gray_levels(self._machine.pal)

    # ------------------------------------------------------------------ Gymnasium
    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start an episode. With a seed the ROM is loaded anew, so that everything after it is determined.

        seed: 0 or more. options: none are known. Returns the observation and the info.
        """
        del options
        seeds: tuple[np.uint32, np.uint32] | None = None
        if seed is not None:
            if not isinstance(seed, int) or seed < 0:
                raise EnvError(f"the seed is {seed!r}: use a Python int of 0 or more")
            first, second = np.random.SeedSequence(seed).generate_state(2)
            self._np_random, _ = seeding.np_random(int(first))
            self._np_random_seed = seed
            self._load(int(second))
            seeds = (first, second)
        self.ale.reset_game()
        info = self._get_info()
        if seeds is not None:
            info["seeds"] = seeds
        if self.render_mode == "human":
            self._show()
        return self._get_obs(), info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:  # type: ignore[override]
        """Play one step.

        action: index into the action set, or, if continuous, float32[3] (radius 0..1, angle, fire 0..1).
        Returns observation, reward, terminated (the game has ended), truncated (the frame limit) and info.
        """
        if isinstance(self._frameskip, int):
            frames = self._frameskip
        else:
            frames = int(self.np_random.integers(*self._frameskip))
        if self.continuous:
            number, strength = self._from_continuous(action)
        else:
            try:
                number, strength = self._action_set[action], 1.0
            except (TypeError, IndexError):
                raise ActionError(
                    f"{action!r:.60} is no action: use a whole number from 0 to {len(self._action_set) - 1}"
                ) from None
        m = self._machine
        if self.render_mode == "human":
            reward = 0.0
            for _ in range(frames):
                reward += play(m, number, 1, strength)
                self._show()
        else:
            reward = float(play(m, number, frames, strength))
        return self._get_obs(), reward, m.over, m.truncated, self._get_info()

    def render(self) -> Observation | None:  # type: ignore[override]
        """Mode "rgb_array": the picture, uint8[rows, 160, 3]. Mode "human" shows frames by itself: None."""
        if self.render_mode == "rgb_array":
            picture: Observation = picture_rgb(self._machine, self._colours)
            return picture
        if self.render_mode == "human":
            return None
        raise EnvError(f"Invalid render mode `{self.render_mode}`. Supported modes: `human`, `rgb_array`.")

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            import pygame

            pygame.display.quit()
            self._window = None

    # ------------------------------------------------------------------ ale-py's extras
    def get_action_meanings(self) -> list[str]:
        """Names of the actions, in the order of the action space."""
        return [a.name for a in self._action_set]

    def get_keys_to_action(self) -> dict[tuple[str, ...], int]:
        """Keys held together -> action, for `gymnasium.utils.play`: w s d a, space fires, e does nothing."""
        keys = {}
        for index, a in enumerate(self._action_set):
            fire, vertical, horizontal = _PARTS[a]
            held = (("w", "", "s")[1 - vertical], ("d", "", "a")[1 - horizontal], " " if fire else "")
            keys[tuple(k for k in held if k) or ("e",)] = index
        return keys

    @staticmethod
    def map_action_idx(left_center_right: int, down_center_up: int, fire: bool) -> Action:
        """The action of left_center_right and down_center_up (-1, 0 or 1 each) and of the button, fire."""
        return _FROM_PARTS[bool(fire), down_center_up, left_center_right]

    def clone_state(self, include_rng: bool = False) -> ALEState:
        """The state now, with the stream of sticky actions if include_rng; see `ALE.cloneState`."""
        return self.ale.cloneState(include_rng)

    def restore_state(self, state: ALEState) -> None:
        """Put a state back; see `ALE.restoreState`."""
        self.ale.restoreState(state)

    # ------------------------------------------------------------------ inside
    def _from_continuous(self, action: Any) -> tuple[Action, float]:
        a = np.asarray(action)
        if a.shape != (3,) or a.dtype != np.float32 or not np.isfinite(a).all():
            raise EnvError(f"a continuous action is float32[3] (radius, angle, fire), not {action!r:.60}")
        radius, angle, fire = a
        t = self.continuous_action_threshold
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        horizontal, vertical = int(x > t) - int(x < -t), int(y > t) - int(y < -t)
        return _FROM_PARTS[bool(fire > t), vertical, horizontal], float(radius)

    def _get_obs(self) -> Observation:
        obs: Observation
        if self._obs_type == "rgb":
            obs = picture_rgb(self._machine, self._colours)
        elif self._obs_type == "ram":
            obs = self._machine.ram
        else:
            obs = picture_gray(self._machine, self._grays)
        return obs

    def _get_info(self) -> Info:
        m = self._machine
        return {"lives": m.lives, "episode_frame_number": m.episode_frame, "frame_number": m.frame}

    def _show(self) -> None:
        """Draw the frame in the window and wait until it is time for the next."""
        try:
            import pygame
        except ImportError:
            raise EnvError('render_mode="human" needs pygame: pip install "glassvcs[human]", '
                           'or use render_mode="rgb_array"') from None  # fmt: skip
        # pixels are about twice as wide as high
        picture = np.repeat(picture_rgb(self._machine, self._colours), 2, axis=1)
        size = (picture.shape[1] * 2, picture.shape[0] * 2)
        if self._window is None:
            pygame.display.init()
            pygame.display.set_caption(f"Glass VCS: {self._rom.name}")
            self._window = pygame.display.set_mode(size)
            self._clock = pygame.time.Clock()
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                self.close()
                raise EnvError("the window was closed: make a new environment to play on")
        surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        pygame.transform.scale(surface, size, self._window)
        pygame.display.flip()
        self._clock.tick(WINDOW_FPS)


def _check_frameskip(frameskip: Any) -> None:
    if isinstance(frameskip, bool) or not isinstance(frameskip, int | tuple | list):
        raise EnvError(f"Invalid frameskip type: {type(frameskip)}: use a positive int or (low, high).")
    if isinstance(frameskip, int):
        if frameskip <= 0:
            raise EnvError(f"Invalid frameskip of {frameskip}, frameskip must be positive.")
        return
    if len(frameskip) != 2:
        raise EnvError(f"Invalid stochastic frameskip length of {len(frameskip)}, expected length 2.")
    if frameskip[0] <= 0:
        raise EnvError("Invalid stochastic frameskip, lower bound must be positive.")
    if frameskip[0] >= frameskip[1]:
        raise EnvError("Invalid stochastic frameskip, lower bound must be strictly less than upper bound.")


def register() -> None:
    """Register `VCS/<Game>-v5` for every game, with the arguments of ALE/<Game>-v5, once."""
    vector = "vcs.env.vector:AtariVectorEnv" if find_spec("vcs.env.vector") else None
    for game in games.load_games().values():
        name = f"VCS/{game.gymnasium_id.split('/')[1]}"
        if name in gym.registry:
            continue
        gym.register(
            name,
            entry_point="vcs.env.gym:AtariEnv",
            vector_entry_point=vector,
            kwargs={
                "game": game.name,
                "repeat_action_probability": 0.25,
                "full_action_space": False,
                "frameskip": 4,
                "max_num_frames_per_episode": 108_000,
            },
        )

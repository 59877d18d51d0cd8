"""Train PPO of stable-baselines3 on a vector of games.

    pip install 'glassvcs[env,rl]'
    python examples/train_sb3.py --game pong --steps 1000000

`SB3VecEnv` gives `vcs.env.AtariVectorEnv` the interface of stable-baselines3: frame skip, gray 84 x 84
pictures, frame stack and reward clipping happen on the threads of the pool, so no wrapper of SB3's is needed.
Episodes are whole games (`episodic_life=False`); their unclipped length and clipped return arrive in
`info["episode"]`.
"""
from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from vcs.env import AtariVectorEnv


class SB3VecEnv(VecEnv):
    """`AtariVectorEnv` as a VecEnv of stable-baselines3; arguments are those of AtariVectorEnv."""

    def __init__(self, game: str, num_envs: int, seed: int | None = None, **settings: Any) -> None:
        self.pool = AtariVectorEnv(game, num_envs, autoreset_mode="SameStep", **settings)
        self._first_seed = seed
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, int)
        self.render_mode = "rgb_array"
        super().__init__(num_envs, self.pool.single_observation_space, self.pool.single_action_space)

    def reset(self) -> NDArray[np.uint8]:
        obs, _ = self.pool.reset(seed=self._first_seed)
        self._first_seed = None                  # seeded once; later resets go on with the same streams
        self._returns[:] = 0
        self._lengths[:] = 0
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        self.pool.send(np.asarray(actions))

    def step_wait(
        self,
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        obs, rewards, terminated, truncated, info = self.pool.recv()
        done = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"lives": int(n)} for n in info["lives"]]
        for i in np.flatnonzero(done):
            infos[i]["terminal_observation"] = info["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i])
            infos[i]["episode"] = {"r": float(self._returns[i]), "l": int(self._lengths[i])}
            self._returns[i] = self._lengths[i] = 0
        return obs, rewards.astype(np.float32), done, infos

    def close(self) -> None:
        self.pool.close()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        self._first_seed = seed
        return [None if seed is None else seed + i for i in range(self.num_envs)]

    def get_images(self) -> Sequence[NDArray[np.uint8]]:
        return self.pool.render()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        value = self.render_mode if attr_name == "render_mode" else getattr(self.pool, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the settings of the pool's environments are fixed; make a new pool")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        machines = [self.pool.machines[i] for i in self._get_indices(indices)]
        return [getattr(m, method_name)(*args, **kwargs) for m in machines]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def train(game: str, steps: int, num_envs: int = 8, seed: int = 0, verbose: int = 1, **ppo: Any) -> PPO:
    """PPO with the usual Atari settings; returns the trained model."""
    env = SB3VecEnv(game, num_envs, seed)
    settings: dict[str, Any] = {
        "n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1,
        "ent_coef": 0.01, "device": "cpu", **ppo,
    }
    model = PPO("CnnPolicy", env, seed=seed, verbose=verbose, **settings)
    try:
        model.learn(steps)
    except KeyboardInterrupt:
        print(f"stopped after {model.num_timesteps} steps")
    finally:
        env.close()
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="pong", help="name of a game (default pong)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="agent steps (default 1000000)")
    parser.add_argument("--envs", type=int, default=8, help="environments (default 8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="", help="save the model to this file")
    a = parser.parse_args()
    trained = train(a.game, a.steps, a.envs, a.seed)
    if a.out:
        trained.save(a.out)

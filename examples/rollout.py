"""Play a game and keep what was seen: scores, speed, and a strip of pictures.

    python examples/rollout.py --game pong --frames 1200 --out rollout.png

Random actions of the game's minimal set, on one machine and on a vector of eight.
"""
from __future__ import annotations

import argparse
import time

import numpy as np

import vcs
from vcs import files, pictures
from vcs.env import AtariVectorEnv


def one(game: str, frames: int, seed: int) -> tuple[float, np.ndarray, float]:
    """Summed reward, eight pictures side by side as uint8[rows, 8 * 160, 3], and frames a second."""
    machine = vcs.Machine(game, seed=seed)
    rng = np.random.default_rng(seed)
    reward, shots, spent = 0.0, [], 0.0
    for _ in range(8):
        actions = rng.choice(machine.actions, max(1, frames // 8))
        began = time.perf_counter()
        reward += float(machine.run(actions.astype(np.int32)).sum())
        spent += time.perf_counter() - began
        shots.append(machine.screen_rgb)
        if machine.game_over:
            machine.reset()
    return reward, np.concatenate(shots, axis=1), 8 * max(1, frames // 8) / spent


def many(game: str, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """Summed reward of each of eight environments, and frames a second of all together."""
    envs = AtariVectorEnv(game, num_envs=8, reward_clipping=False)
    envs.reset(seed=seed)
    envs.action_space.seed(seed)
    total = np.zeros(8)
    began = time.perf_counter()
    for _ in range(steps):
        _, rewards, _, _, _ = envs.step(envs.action_space.sample())
        total += rewards
    speed = 8 * 4 * steps / (time.perf_counter() - began)     # four frames a step
    envs.close()
    return total, speed


def main(game: str = "pong", frames: int = 1200, seed: int = 0, out: str = "rollout.png") -> None:
    reward, strip, speed = one(game, frames, seed)
    files.write_bytes(out, pictures.png(strip))
    print(f"one machine: reward {reward:g}, {speed:,.0f} frames/s; pictures: {out}")
    total, speed = many(game, frames // 32, seed)
    print(f"eight in a vector: rewards {total.astype(int).tolist()}, {speed:,.0f} frames/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="pong", help="name of a game (default pong)")
    parser.add_argument("--frames", type=int, default=1200, help="frames to play (default 1200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="rollout.png", help="strip of pictures to write")
    args = parser.parse_args()
    main(args.game, args.frames, args.seed, args.out)

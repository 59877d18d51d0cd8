"""stable-baselines3 trains on our vector environment (examples/train_sb3.py)."""
from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("gymnasium")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "examples"))
    return importlib.import_module("train_sb3")


def learn(example: Any, steps: int) -> None:
    import torch

    torch.set_num_threads(1)
    small = {"n_steps": 25, "batch_size": 50, "n_epochs": 1}
    model = example.train("pong", steps, num_envs=4, verbose=0, **small)
    assert model.num_timesteps >= steps
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.policy.parameters())


def test_ppo_500_steps(example: Any, rom: Any) -> None:
    rom("pong")
    learn(example, 500)


@pytest.mark.slow
def test_ppo_20000_steps(example: Any, rom: Any) -> None:
    rom("pong")
    learn(example, 20_000)


def test_episodes_reach_sb3(example: Any, rom: Any) -> None:
    """The end of an episode arrives as SB3 expects it: last observation, time limit, return and length."""
    rom("pong")
    env = example.SB3VecEnv("pong", 2, seed=1, max_num_frames_per_episode=12)
    env.reset()
    for k in range(3):
        obs, rewards, done, infos = env.step(np.zeros(2, int))
        assert rewards.dtype == np.float32 and done.all() == (k == 2)
    for i in range(2):
        assert infos[i]["terminal_observation"].shape == (4, 84, 84)
        assert not np.array_equal(infos[i]["terminal_observation"], obs[i])
        assert infos[i]["TimeLimit.truncated"] and infos[i]["episode"] == {"r": 0.0, "l": 3}
    assert env.env_method("peek", 0x80)[0] in range(256)
    env.close()

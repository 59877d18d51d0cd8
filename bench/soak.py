"""A soak of the vector engine: ``python -m bench.soak --frames 10000000``.

64 environments play different games at random, are reset (with and without new seeds), saved and restored at
random moments. Every environment keeps a rolling CRC-32 of all that came out of it; afterwards each one is
played again alone, on one thread, and must give the same CRC. The resident memory of the process is watched
meanwhile: it must not grow once the first tenth has run. Ends with exit code 1 if a stream differs or memory
grew.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from vcs.command import deaf, guarded
from vcs.data import load_csv
from vcs.env.vector import AtariVectorEnv, EnvSnapshot

# these two have fewer legal actions than the others, and one pool has one action space
OTHER_ACTIONS = ("skiing", "lost_luggage")
SETTINGS: dict[str, Any] = {
    "full_action_space": True, "episodic_life": True, "repeat_action_probability": 0.25,
    "max_num_frames_per_episode": 4000,
}  # fmt: skip
SKIP = 4
GROWTH = 64 << 20  # bytes; snapshots come and go


@dataclass(frozen=True)
class Event:
    """What happens to one environment at one step."""

    action: int
    reset: bool
    seed: int  # of the reset; -1: the streams go on
    save: bool
    restore: bool  # go back to what was saved last


def script(env: int, seed: int, steps: int) -> Iterator[Event]:
    """The life of one environment: the same whoever plays it."""
    rng = np.random.default_rng([seed, env])
    saved = False
    for _ in range(steps):
        action, dice, fresh = int(rng.integers(18)), rng.random(), int(rng.integers(1 << 32))
        save, restore = dice < 0.004, saved and 0.004 <= dice < 0.007
        reset = 0.007 <= dice < 0.009
        saved |= save
        yield Event(action, reset, fresh if dice < 0.008 else -1, save, restore)


class Life:
    """The rolling CRC of one environment, and its last snapshot."""

    def __init__(self) -> None:
        self.crc = 0
        self.saved: EnvSnapshot | None = None

    def see(self, *arrays: NDArray[Any]) -> None:
        for a in arrays:
            self.crc = zlib.crc32(a.tobytes(), self.crc)


def run(games: list[str], seed: int, steps: int, threads: int, first: int = 0) -> Iterator[list[int]]:
    """Play environments `first`.. of the games; after every step the CRC so far of each."""
    n = len(games)
    env = AtariVectorEnv(games, n, num_threads=threads, **SETTINGS)
    lives = [Life() for _ in range(n)]
    scripts = [script(first + i, seed, steps) for i in range(n)]
    env.reset(seed=[seed + first + i for i in range(n)])
    for events in zip(*scripts, strict=True):
        mask = np.array([e.reset for e in events])
        if mask.any():
            env.reset(seed=[e.seed for e in events], options={"reset_mask": mask})
        for i, event in enumerate(events):
            saved = lives[i].saved
            if event.restore and saved is not None:
                env.restore(saved, np.arange(n) == i)
            if event.save:
                lives[i].saved = env.snapshot(i)
        obs, reward, terminated, truncated, info = env.step(np.array([e.action for e in events]))
        for i, life in enumerate(lives):
            life.see(
                obs[i, -1],
                reward[i : i + 1],
                terminated[i : i + 1],
                truncated[i : i + 1],
                info["lives"][i : i + 1],
                info["episode_frame_number"][i : i + 1],
                env.machines[i].ram,
            )
        yield [life.crc for life in lives]
    env.close()


def alone(work: tuple[str, int, int, int]) -> int:
    """The final CRC of one environment, played on its own."""
    game, seed, steps, index = work
    last = [0]
    for crcs in run([game], seed, steps, 1, index):
        last = crcs
    return last[0]


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak the vector engine; see the head of bench/soak.py.")
    parser.add_argument("--frames", type=int, default=10_000_000, help="emulated frames (default 10000000)")
    parser.add_argument("--envs", type=int, default=64, help="environments (default 64)")
    parser.add_argument("--threads", type=int, default=0, help="threads (default: one per processor)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    console = Console()
    known = [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]
    names = [name for name in known if name not in OTHER_ACTIONS]
    rng = np.random.default_rng(args.seed)
    games = [str(g) for g in rng.choice(names, args.envs, replace=args.envs > len(names))]
    steps = max(10, args.frames // (args.envs * SKIP))
    crcs: list[int] = []
    memory: list[int] = []
    start = time.perf_counter()
    with Progress(console=console) as progress:
        bar = progress.add_task(f"{args.envs} environments", total=steps)
        for k, now in enumerate(run(games, args.seed, steps, args.threads)):
            crcs = now
            progress.advance(bar)
            if k % max(1, steps // 100) == 0:
                memory.append(resident())
    seconds = time.perf_counter() - start
    console.print(
        f"{steps * args.envs * SKIP:,} frames in {seconds:.0f} s, "
        f"{steps * args.envs * SKIP / seconds:,.0f} frames/s"
    )
    early, late = memory[len(memory) // 10], memory[-1]
    console.print(
        f"resident memory {early / 2**20:.0f} MB after a tenth, {late / 2**20:.0f} MB at the end, "
        f"{max(memory) / 2**20:.0f} MB at most"
    )
    wrong = []
    work = [(game, args.seed, steps, i) for i, game in enumerate(games)]
    with deaf():
        pool = multiprocessing.get_context("spawn").Pool(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        )
    with Progress(console=console) as progress, pool as workers:
        bar = progress.add_task("each alone", total=args.envs)
        for i, crc in enumerate(workers.imap(alone, work)):
            progress.advance(bar)
            if crc != crcs[i]:
                wrong.append(i)
                console.print(f"environment {i} ({games[i]}): {crcs[i]:08x} pooled, {crc:08x} alone")
    grew = late - early > GROWTH
    equal = f"{args.envs - len(wrong)} of {args.envs} streams equal"
    console.print(equal + ("; memory grew" if grew else ""))
    return 1 if wrong or grew else 0


if __name__ == "__main__":
    guarded(lambda: sys.exit(main()), "bench.soak")

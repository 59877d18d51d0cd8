"""A soak of the vector engine: ``python -m bench.soak --frames 10000000``.

64 environments play different games at random, are reset (with and without new seeds), saved and restored at
random moments. Every environment keeps a rolling CRC-32 of all that came out of it; afterwards each one is
played again alone, on one thread, and must give the same CRC. This goes on in parts of a million frames, each
with other games and seeds. The resident memory of the process is watched meanwhile: once a tenth of the first
part has run, it must not grow. Ends with exit code 1 if a stream differs or memory grew.

What is finished is kept in a journal, part by part and environment by environment: the same command goes on
there if it was interrupted.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time
import uuid
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from vcs.command import deaf, guarded
from vcs.data import load_csv
from vcs.env.vector import AtariVectorEnv, EnvSnapshot
from vcs.journal import pieces, stamp

# these two have fewer legal actions than the others, and one pool has one action space
OTHER_ACTIONS = ("skiing", "lost_luggage")
SETTINGS: dict[str, Any] = {
    "full_action_space": True, "episodic_life": True, "repeat_action_probability": 0.25,
    "max_num_frames_per_episode": 4000,
}  # fmt: skip
SKIP = 4
PART = 1_000_000  # frames
PROCESS = uuid.uuid4().hex
GROWTH = 64 << 20  # bytes; snapshots come and go


class Script:
    """What happens to one environment, step by step: the same whoever plays it.

    actions: int64[steps]. saves, restores (of what was saved last), resets: bool[steps], before the step.
    seeds: int64[steps], of the resets; -1: the streams go on."""

    def __init__(self, env: int, seed: int, steps: int) -> None:
        rng = np.random.default_rng([seed, env])
        self.actions = rng.integers(18, size=steps)
        dice = rng.random(steps)
        self.saves = dice < 0.004
        self.restores = (dice >= 0.004) & (dice < 0.007) & np.logical_or.accumulate(self.saves)
        self.resets = (dice >= 0.007) & (dice < 0.009)
        self.seeds = np.where(dice < 0.008, rng.integers(1 << 32, size=steps), -1)


# what one step shows of one environment
SEEN = np.dtype(
    [
        ("obs", np.uint8, (84, 84)),
        ("ram", np.uint8, 128),
        ("reward", np.int32),
        ("lives", np.int32),
        ("frame", np.int32),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
    ]
)
BLOCK = 32  # steps between two CRCs


def run(games: list[str], seed: int, steps: int, threads: int, first: int = 0) -> Iterator[list[int]]:
    """Play environments `first`.. of the games; after every BLOCK steps the CRC so far of each."""
    n = len(games)
    env = AtariVectorEnv(games, n, num_threads=threads, **SETTINGS)
    scripts = [Script(first + i, seed, steps) for i in range(n)]
    actions, saves, restores, resets, seeds = (
        np.stack([getattr(s, name) for s in scripts], 1)
        for name in ("actions", "saves", "restores", "resets", "seeds")
    )
    saved: dict[int, EnvSnapshot] = {}
    machines, which = env.machines, np.arange(n)
    seen = np.zeros((n, BLOCK), SEEN)
    crcs = [0] * n
    env.reset(seed=[seed + first + i for i in range(n)])
    for t in range(steps):
        if resets[t].any():
            env.reset(seed=seeds[t], options={"reset_mask": resets[t]})
        for i in np.flatnonzero(restores[t]).tolist():
            env.restore(saved[i], which == i)
        for i in np.flatnonzero(saves[t]).tolist():
            saved[i] = env.snapshot(i)
        obs, reward, terminated, truncated, info = env.step(actions[t])
        now = seen[:, t % BLOCK]
        now["obs"] = obs[:, -1]
        now["reward"], now["terminated"], now["truncated"] = reward, terminated, truncated
        now["lives"], now["frame"] = info["lives"], info["episode_frame_number"]
        ram = now["ram"]
        for i, machine in enumerate(machines):
            ram[i] = machine.ram
        if t % BLOCK == BLOCK - 1 or t == steps - 1:
            played = seen[:, : t % BLOCK + 1]
            crcs = [zlib.crc32(row.tobytes(), crc) for row, crc in zip(played, crcs, strict=True)]
            yield crcs
    env.close()


def alone(work: tuple[str, int, int, int]) -> tuple[int, int]:
    """An environment, and its final CRC, played on its own."""
    game, seed, steps, index = work
    last = [0]
    for crcs in run([game], seed, steps, 1, index):
        last = crcs
    return index, last[0]


def pooled(games: list[str], seed: int, steps: int, threads: int) -> dict[str, Any]:
    """Play all together: final CRCs, seconds, resident memory (bytes) after a tenth, at the end, at most."""
    last: list[int] = []
    memory: list[int] = []
    start = time.perf_counter()
    for last in run(games, seed, steps, threads):  # noqa: B007
        memory.append(resident())
    return {
        "crcs": last,
        "seconds": time.perf_counter() - start,
        "early": memory[len(memory) // 10],
        "late": memory[-1],
        "most": max(memory),
        "process": PROCESS,
    }


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def alike(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts that one process played, of the process that played most."""
    played = collections.Counter(part["process"] for part in parts)
    most = played.most_common(1)[0][0]
    return [part for part in parts if part["process"] == most]


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak the vector engine; see the head of bench/soak.py.")
    parser.add_argument("--frames", type=int, default=10_000_000, help="emulated frames (default 10000000)")
    parser.add_argument("--envs", type=int, default=64, help="environments (default 64)")
    parser.add_argument("--threads", type=int, default=0, help="threads (default: one per processor)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("out/soak.journal"), help="of what is finished")
    args = parser.parse_args()
    console = Console()
    known = [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]
    names = [name for name in known if name not in OTHER_ACTIONS]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = max(1, round(args.frames / PART))
    steps = max(10, args.frames // (count * args.envs * SKIP))
    parts: list[dict[str, Any]] = []
    wrong = 0
    with deaf():
        pool = multiprocessing.get_context("spawn").Pool(args.threads or cores)
    with pool as workers, pieces(args.journal, stamp("env/*.py")) as journal:
        for number in range(count):
            seed = args.seed + number
            name = f"{args.envs} environments, {steps} steps, seed {seed}"
            rng = np.random.default_rng(seed)
            games = [str(g) for g in rng.choice(names, args.envs, replace=args.envs > len(names))]
            parts.append(journal.keep(name, partial(pooled, games, seed, steps, args.threads)))
            crcs = parts[-1]["crcs"]
            lone = {i: journal.done.get(f"{name}: {i}") for i in range(args.envs)}
            for i, crc in workers.imap_unordered(
                alone, [(game, seed, steps, i) for i, game in enumerate(games) if lone[i] is None]
            ):
                lone[i] = crc
                journal.add(f"{name}: {i}", crc)
            for i, game in enumerate(games):
                if lone[i] != crcs[i]:
                    wrong += 1
                    console.print(f"{name}: {game}: {crcs[i]:08x} pooled, {lone[i]:08x} alone")
            console.print(f"part {number + 1} of {count} is done")
    frames, seconds = count * steps * args.envs * SKIP, sum(part["seconds"] for part in parts)
    console.print(f"{frames:,} frames in {seconds:.0f} s, {frames / seconds:,.0f} frames/s")
    watched = alike(parts)
    early, late, most = watched[0]["early"], watched[-1]["late"], max(part["most"] for part in watched)
    console.print(
        f"resident memory {early / 2**20:.0f} MB at first, {late / 2**20:.0f} MB after {len(watched)} of "
        f"{count} parts in one process, {most / 2**20:.0f} MB at most"
    )
    streams, grew = count * args.envs, late - early > GROWTH
    console.print(f"{streams - wrong} of {streams} streams equal" + ("; memory grew" if grew else ""))
    return 1 if wrong or grew else 0


if __name__ == "__main__":
    guarded(lambda: sys.exit(main()), "bench.soak")

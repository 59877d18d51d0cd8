"""Machines on many threads, after a fork and under spawn; copies of every public object; Ctrl-C."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vcs
from vcs import games, roms
from vcs.errors import VcsError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no game rules")
ROOT = Path(__file__).parent.parent


def actions(frames: int, seed: int = 0) -> list[int]:
    return [int(a) for a in np.random.default_rng(seed).integers(0, 18, frames)]


def after(machine: vcs.Machine, frames: int = 30, seed: int = 0) -> str:
    """What a machine is after some frames."""
    for action in actions(frames, seed):
        machine.step(action)
    return machine.snapshot().digest


def on_threads(work: Callable[[int], None], n: int) -> None:
    """Run work(0), work(1), ... each on its own thread; raise what any of them raised."""
    raised: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as why:
            raised.append(why)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


# ------------------------------------------------------------------------------------------------- threads


def test_each_thread_its_machine() -> None:
    start = vcs.Machine("glass")
    expected = [after(start.clone(), seed=k) for k in range(4)]
    found = [""] * 8

    def work(k: int) -> None:
        found[k] = after(start.clone(), seed=k % 4)

    on_threads(work, 8)
    assert found == expected * 2


def test_one_machine_on_several_threads_is_refused_not_torn() -> None:
    """While a thread runs a machine the others get one sentence, and the machine stays whole."""
    m = vcs.Machine("glass")
    start = m.snapshot()
    refused = [0] * 4
    calls: list[Callable[[], Any]] = [
        lambda: m.run(np.ones(20, np.int32)),
        lambda: m.step(3),
        lambda: m.screen_rgb,
        lambda: m.snapshot(),
        lambda: m.restore(start),
        lambda: m.trace([1]),
        lambda: m.step_instruction(),
        lambda: m.poke_rom(0, 1),
        lambda: m.reset(),
        lambda: m.screen,
        lambda: m.clone(),
        lambda: m.poke_tia(9, 3),
        lambda: m.run_frame(),
    ]

    def work(k: int) -> None:
        rng = np.random.default_rng(k)
        for number in rng.integers(0, len(calls), 400):
            try:
                calls[number]()
            except VcsError as why:
                assert "another thread" in str(why)
                refused[k] += 1

    on_threads(work, 4)
    assert sum(refused) > 0
    m.poke_rom(0, m.rom[0])
    twin = vcs.Machine("glass")
    for machine in (m, twin):
        machine.restore(start)
    for i, byte in enumerate(twin.rom):
        m.poke_rom(i, byte) if m.rom[i] != byte else None
    assert after(m) == after(twin)


def test_one_pool_on_several_threads() -> None:
    pytest.importorskip("gymnasium")
    from vcs.env.vector import AtariVectorEnv

    env = AtariVectorEnv("glass", 3, num_threads=2, img_height=42, img_width=40)
    env.reset(seed=1)

    def work(k: int) -> None:
        for _ in range(60):
            try:
                obs = env.step(np.full(3, k))[0]
                assert obs.shape == (3, 4, 42, 40)
            except VcsError:
                pass

    on_threads(work, 4)
    env.close()


def test_machines_of_a_pool_are_hidden_while_they_run() -> None:
    pytest.importorskip("gymnasium")
    from vcs.env.vector import AtariVectorEnv

    env = AtariVectorEnv("glass", 2, num_threads=1, img_height=42, img_width=40)
    env.reset(seed=1)
    assert len(env.machines) == 2
    env.send(np.array([1, 2]))
    with pytest.raises(VcsError, match="recv"):
        _ = env.machines
    env.recv()
    assert env.machines[1].frame > 0
    env.close()


# ------------------------------------------------------------------------------------------------- processes


def _in_child(machine: vcs.Machine) -> str:
    return after(machine)


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_machines_in_other_processes(way: str) -> None:
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {way}")
    m = vcs.Machine("glass")
    m.step(1)
    with multiprocessing.get_context(way).Pool(2) as workers:
        assert workers.map(_in_child, [m, m]) == [after(m.clone())] * 2


def test_a_machine_made_before_a_fork_runs_after_it() -> None:
    m = vcs.Machine("glass")
    expected = after(m.clone())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, after(m).encode())
        os._exit(0)
    os.close(write)
    assert os.read(read, 100).decode() == expected
    assert os.waitpid(child, 0)[1] == 0
    assert after(m) == expected


# ------------------------------------------------------------------------------------------------- copies


def _objects() -> dict[str, Any]:
    """One of every public class, in the middle of its life."""
    m = vcs.Machine("glass")
    m.step(1)
    trace = m.trace([0, 1])
    objects: dict[str, Any] = {
        "Machine": m,
        "Snapshot": m.snapshot(),
        "Trace": trace,
        "Pixel": vcs.Pixel(1, 2),
        "Ram": vcs.Ram(3),
        "Attribution": vcs.grad(trace, vcs.Pixel(100, 80)),
        "VcsError": VcsError("x"),
        "Rom": roms.find("glass"),
        "Registers": m.registers,
        "Rules": m.rules,
        "Game": games.get_game("pong"),
    }
    from vcs.xai.oracle import Oracle

    objects["Oracle"] = Oracle(vcs.Machine("glass", protocol="xitari"), [0, 1])
    return objects


def _environments() -> dict[str, Any]:
    from vcs.env import ALEInterface
    from vcs.env.gym import AtariEnv
    from vcs.env.vector import AtariVectorEnv

    ale = ALEInterface()
    ale.loadROM(roms.find("glass").path)  # type: ignore[arg-type]
    ale.act(3)
    vector = AtariVectorEnv("glass", 2, num_threads=1, img_height=42, img_width=40)
    vector.reset(seed=1)
    vector.step(np.array([1, 3]))
    found: dict[str, Any] = {"ALEInterface": ale, "ALEState": ale.cloneState()}
    found |= {"AtariVectorEnv": vector, "EnvSnapshot": vector.snapshot(0)}
    if "pong" in roms.available():
        found["AtariEnv"] = AtariEnv("pong")
    return found


def _facts(o: Any) -> Any:
    """What must be the same in a copy."""
    name = type(o).__name__
    if name == "Machine":
        return after(o.clone())
    if name == "Trace":
        return o.rom_sha256, o.instr.tobytes(), o.screens.tobytes()
    if name == "Attribution":
        return {k: v.tobytes() for k, v in o.parts.items()}, o.output, o.value
    if name == "AtariVectorEnv":
        return [a.tobytes() for a in o.step(np.array([2, 4]))[:4]], [m.snapshot().digest for m in o.machines]
    if name in ("ALE", "ALEInterface"):
        return o.getRAM().tobytes(), o.getScreen().tobytes(), o.getFrameNumber()
    if name == "EnvSnapshot":
        return o.machine.digest, o.wrapper, o.settings
    if name == "Oracle":
        return o.start.digest, o.actions
    if name == "AtariEnv":
        return o.reset(seed=3)[0].tobytes()
    return repr(o) if name in ("VcsError", "Rules", "Game") else o


@pytest.mark.parametrize("group", ["core", "environments"])
def test_every_public_object_pickles_and_copies(group: str) -> None:
    if group == "environments":
        pytest.importorskip("gymnasium")
    objects = _objects() if group == "core" else _environments()
    for name, o in objects.items():
        copies = [pickle.loads(pickle.dumps(o)), copy.deepcopy(o)]
        expected = _facts(o)
        for one in copies:
            assert type(one) is type(o), name
            assert _facts(one) == expected, name


def test_an_empty_snapshot_says_so() -> None:
    with pytest.raises(VcsError, match="empty"):
        pickle.dumps(vcs.Snapshot())


# ------------------------------------------------------------------------------------------------- signals

LONG = {
    "run": ["vcs", "run", "glass", "-n", "10000000"],
    "trace": ["vcs", "trace", "glass", "-n", "1", "--skip", "10000000", "-o", "t.npz"],
    "grad": ["vcs", "grad", "glass", "-f", "10000000"],
    "audit": ["vcs", "audit", "--games", "all", "--methods", "all", "--states", "9", "--out", "a"],
    "audit with jobs": ["vcs", "audit", "--games", "all", "--methods", "all", "-j", "2", "--out", "b"],
    "labels": ["vcs", "labels", "all", "--out", "l"],
    "relax": ["vcs", "relax", "boundary", "--n", "1000000", "--out", "r"],
    "relax corner": ["vcs", "relax", "corner", "--games", "all", "--frames", "1000000", "--out", "r"],
    "paper": ["vcs", "paper"],
    "conformance": ["conformance", "pxc2", "--games", "all", "--frames", "60", "--report", "c.json"],
    "bench": ["bench.soak", "--frames", "1000000000"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LONG))
def test_ctrl_c_ends_every_long_command(name: str, tmp_path: Path) -> None:
    """Exit code 130 (0 where what was reached is kept), no traceback, temporary file or child left."""
    for wait in (2.0, 6.0):
        process = subprocess.Popen(
            [sys.executable, "-m", *LONG[name]],
            cwd=tmp_path,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert "Traceback" not in err + out, f"{name} after {wait} s: {err[-1500:]}"
        # -SIGINT, which a shell shows as 130 too: how CPython ends if exec() of a text was interrupted
        codes = (0, 130, -signal.SIGINT)
        assert process.returncode in codes, f"{name} after {wait} s: {process.returncode} {err[-500:]}"
        assert not [p for p in tmp_path.rglob(".*") if p.is_file()], name
        with pytest.raises(ProcessLookupError):
            for _ in range(100):
                os.killpg(process.pid, 0)  # a worker that is still ending
                time.sleep(0.1)

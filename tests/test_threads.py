"""Machines on many threads, after a fork and under spawn; copies of every public object; Ctrl-C."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import multiprocessing
import os
import pickle
import pkgutil
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
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


# modules that belong to commands, and classes that are no data
COMMANDS = ("cli", "demo", "paper", "command", "journal", "explore", "relax", "figures", "report", "train")
NO_DATA = {
    "Info": "a type of dictionaries",
    "Readout": "only its kinds are made",
    "Output": "only its kinds are made",
}


def public() -> dict[str, type]:
    """Every public class of the package, by module and name: what `__all__` of a package names; the public
    classes of modules, but not of the soft machine's inside and of commands."""
    found = {}
    for info in pkgutil.walk_packages(vcs.__path__, "vcs."):
        parts = info.name.split(".")
        if any(p.startswith("_") for p in parts) or set(parts) & set(COMMANDS):
            continue
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", None) or [] if info.ispkg or parts[1] == "soft" else dir(module)
        for one in (getattr(module, name) for name in names if not name.startswith("_")):
            own = isinstance(one, type) and one.__module__.startswith("vcs.") and one.__name__ not in NO_DATA
            if own and (info.ispkg or one.__module__ == info.name):
                found[f"{one.__module__}.{one.__name__}"] = one
    return found | {
        f"{o.__module__}.{o.__name__}": o
        for o in map(vcs.__getattribute__, vcs.__all__)
        if isinstance(o, type)
    }


@cache
def _objects() -> dict[str, Any]:
    """One of every public class but those of environments, in the middle of its life."""
    from vcs import asm, gradient, join, soft
    from vcs.xai import audit, causes, labels, methods, metrics, outputs, records, scoring
    from vcs.xai.console import AuditMachine
    from vcs.xai.oracle import Oracle
    from vcs.xai.rng import Generator
    from vcs.xai.state import State

    m = vcs.Machine("glass")
    m.step(1)
    here = m.snapshot()
    trace = m.trace([0, 1])
    source = asm.assemble(" processor 6502\n org $f000\nhere: nop\n jmp here\n")
    oracle = Oracle(vcs.Machine("glass", protocol="xitari"), [0, 1])
    state = State("glass")
    score = scoring.score(state, "saliency", "content")
    table = labels.measure("glass", 1)
    loop = m.clone()
    loop.restore(here)
    rules = {"rules": "value", "pixels": [(0, 100, 80)]}
    task = audit.Task("glass", "glass", 0, (("saliency", "content"),))
    return {
        "vcs.machine.Machine": m,
        "vcs._hard.machine.Snapshot": here,
        "vcs.machine.Registers": m.registers,
        "vcs.trace.Trace": trace,
        "vcs.gradient.Attribution": vcs.grad(trace, vcs.Pixel(100, 80)),
        "vcs.gradient.Pixel": vcs.Pixel(1, 2),
        "vcs.gradient.Ram": vcs.Ram(3),
        "vcs.gradient.Weighting": gradient.weighting(vcs.Pixel(100, 80), trace),
        "vcs.gradient.Origin": gradient.origin(trace, vcs.Pixel(100, 80)),
        "vcs.join.Joins": join.find(loop, trace),
        "vcs.errors.VcsError": VcsError("x"),
        "vcs.roms.Rom": roms.find("glass"),
        "vcs.roms.Properties": roms.properties(roms.find("glass").md5),
        "vcs.games.Rules": m.rules,
        "vcs.games.Game": games.get_game("pong"),
        "vcs.games.Action": games.Action.FIRE,
        "vcs.games.Interpreter": games.Interpreter.of(m.rules),
        "vcs.asm.assembler.Program": source,
        "vcs.asm.assembler.ListingLine": source.listing[0],
        "vcs.asm.disassembler.Line": next(iter(asm.disassemble(bytes(16)))),
        "vcs.asm.opcodes.Opcode": asm.OPCODES[0xA9],
        "vcs.soft.replay.Replay": soft.replay(trace, **rules),
        "vcs.soft.replay.Outputs": soft.replay(trace, **rules)(),
        "vcs.soft.replay.Step": next(soft.replay(trace).steps()),
        "vcs.soft.primitive.Rollout": soft.rollout(trace, **rules),
        "vcs.xai.oracle.Oracle": oracle,
        "vcs.xai.oracle.EffectMap": oracle.map([3], [0]),
        "vcs.xai.state.State": state,
        "vcs.xai.scoring.Score": score,
        "vcs.xai.causes.Do": causes.Do(3, "set", 4),
        "vcs.xai.causes.Act": causes.Act(1, 2),
        "vcs.xai.causes.Cause": state.causes[0],
        "vcs.xai.console.AuditMachine": AuditMachine("glass"),
        "vcs.xai.outputs.Content": state.content,
        "vcs.xai.outputs.Position": state.position,
        "vcs.xai.outputs.Sampler": state.position.sampler,
        "vcs.xai.outputs.ContentRead": state.content.readout,
        "vcs.xai.outputs.Outcome": state.baseline,
        "vcs.xai.outputs.Pixel": outputs.Pixel.of(100, 80),
        "vcs.xai.outputs.Region": outputs.Region.of(1, 3, 2, 4),
        "vcs.xai.outputs.Reward": outputs.Reward.of(),
        "vcs.xai.methods.Attribution": methods.Attribution(np.zeros(3)),
        "vcs.xai.methods.Method": methods.get("saliency"),
        "vcs.xai.metrics.Minimality": metrics.minimality([1.0, 0.0], [1.0, 2.0]),
        "vcs.xai.rng.Generator": Generator(1),
        "vcs.xai.labels.LabelTable": table,
        "vcs.xai.labels.CellReport": table.cells[0],
        "vcs.xai.labels.Probe": labels.Probe.of(oracle),
        "vcs.xai.labels.Line": labels.fit_line([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]),
        "vcs.xai.audit.Task": task,
        "vcs.xai.audit.Done": audit.Done("glass", 0),
        "vcs.xai.audit.Summary": audit.Summary(1),
        "vcs.xai.audit.Row": audit.aggregate([records.build(state, score, "content")[0]])[0],
    }


@cache
def _environments() -> dict[str, Any]:
    from vcs.env import ALEInterface
    from vcs.env.ale import ALEError, LoggerMode
    from vcs.env.gym import ActionError, AtariEnv, EnvError
    from vcs.env.vector import AtariVectorEnv

    ale = ALEInterface()
    ale.loadROM(roms.find("glass").path)  # type: ignore[arg-type]
    ale.act(3)
    vector = AtariVectorEnv("glass", 2, num_threads=1, img_height=42, img_width=40)
    vector.reset(seed=1)
    vector.step(np.array([1, 3]))
    return {
        "vcs.env.ale.ALE": ale,
        "vcs.env.ale.ALEState": ale.cloneState(),
        "vcs.env.ale.ALEError": ALEError("x"),
        "vcs.env.ale.LoggerMode": LoggerMode.Error,
        "vcs.env.vector.AtariVectorEnv": vector,
        "vcs.env.vector.EnvSnapshot": vector.snapshot(0),
        "vcs.env.gym.EnvError": EnvError("x"),
        "vcs.env.gym.ActionError": ActionError("x"),
        "vcs.env.gym.AtariEnv": AtariEnv("pong") if "pong" in roms.available() else None,
    }


def _facts(o: Any) -> Any:
    """What must be the same in a copy."""
    name = type(o).__name__
    if isinstance(o, vcs.Machine):
        return after(o.clone())
    if name == "AtariVectorEnv":
        return [a.tobytes() for a in o.step(np.array([2, 4]))[:4]], [m.snapshot().digest for m in o.machines]
    if name in ("ALE", "ALEInterface"):
        return o.getRAM().tobytes(), o.getScreen().tobytes(), o.getFrameNumber()
    if name == "EnvSnapshot":
        return o.machine.digest, o.wrapper, o.settings
    if name == "Oracle":
        return o.start.digest, o.actions
    if name == "State":
        return o.game, o.ram.tobytes(), _facts(o.causes), _facts(o.oracle), _facts(o.baseline)
    if name == "AtariEnv":
        return o.reset(seed=3)[0].tobytes()
    if name == "Generator":
        return copy.deepcopy(o).outputs(3)
    if name in ("Replay", "Rollout"):
        out = o() if name == "Replay" else _facts(o())
        return _facts(out), _facts(o.start())
    if name == "Outputs":
        return {key: getattr(o, key).tobytes() for key in type(o).NAMES}
    if isinstance(o, np.ndarray):
        return str(o.dtype), o.shape, o.tobytes()
    if isinstance(o, dict):
        return {key: _facts(value) for key, value in o.items()}
    if isinstance(o, list | tuple):
        return [_facts(value) for value in o]
    if hasattr(o, "__dataclass_fields__"):
        return name, {key: _facts(getattr(o, key)) for key in o.__dataclass_fields__}
    if isinstance(o, BaseException):
        return repr(o)
    return _facts(vars(o)) if hasattr(o, "__dict__") and name in ("Trace", "Interpreter") else o


def copied(objects: dict[str, Any]) -> None:
    for name, o in objects.items():
        if o is None:  # what there is no cartridge for
            continue
        copies = [pickle.loads(pickle.dumps(o)), copy.deepcopy(o), copy.copy(o)]
        expected = _facts(o)
        for one in copies:
            assert type(one) is type(o), name
            if name != "vcs.env.vector.AtariVectorEnv" or one is not copies[2]:
                assert _facts(one) == expected, name


def test_every_public_object_pickles_and_copies() -> None:
    copied(_objects())


def test_every_environment_pickles_and_copies() -> None:
    pytest.importorskip("gymnasium")
    copied(_environments())


def test_no_public_class_is_forgotten() -> None:
    """A new class that people can get hold of needs a line above, or a reason in NO_DATA."""
    pytest.importorskip("gymnasium")
    assert sorted({**_objects(), **_environments()}) == sorted(public())


def test_outputs_that_autograd_follows_cannot_be_copied() -> None:
    import autograd

    from vcs import soft

    replay = soft.replay(vcs.Machine("glass").trace([0]), pixels=[(0, 100, 80)])

    def f(ram: Any) -> Any:
        out = replay({**replay.start(), "ram": ram})
        with pytest.raises(VcsError, match="outside"):
            copy.deepcopy(out)
        return out.ram[3]

    assert autograd.grad(f)(replay.start()["ram"]).shape == (128,)


def test_an_empty_snapshot_says_so() -> None:
    with pytest.raises(VcsError, match="empty"):
        pickle.dumps(vcs.Snapshot())


# ------------------------------------------------------------------------------------------------- signals

# what ends by itself after some seconds, so that Ctrl-C also comes while it writes, and what does not
LONG = {
    "run": ["vcs", "run", "glass", "-n", "3000"],
    "run without end": ["vcs", "run", "glass", "-n", "10000000"],
    "trace": ["vcs", "trace", "glass", "-n", "60", "-o", "t.npz"],
    "trace without end": ["vcs", "trace", "glass", "-n", "1", "--skip", "10000000", "-o", "t.npz"],
    "grad": ["vcs", "grad", "glass", "-f", "200", "--horizon", "60"],
    "grad by soft": ["vcs", "grad", "glass", "-f", "20", "--engine", "soft"],
    "demo": ["vcs", "demo", "glass", "--frames", "100"],
    "explore": ["vcs", "explore", "glass", "--port", "0", "--no-browser"],
    "audit": ["vcs", "audit", "--games", "glass", "--methods", "saliency,occlusion", "--out", "a"],
    "audit with jobs": ["vcs", "audit", "--games", "all", "--methods", "all", "-j", "2", "--out", "b"],
    "report": ["vcs", "report", "A", "--out", "site"],
    "report with jobs": ["vcs", "report", "A", "-j", "2", "--out", "site"],
    "labels": ["vcs", "labels", "all", "--out", "l"],
    "relax": ["vcs", "relax", "delayed", "--game", "glass", "--frames", "400", "--out", "r"],
    "relax corner": ["vcs", "relax", "corner", "--games", "all", "--frames", "1000000", "--out", "r"],
    "relax video": ["vcs", "relax", "video", "--game", "glass", "--frames", "200", "--out", "r"],
    "cannon": ["vcs", "cannon", "--out", "c"],
    "paper": ["vcs", "paper", "--out", "p"],
    "conformance ale": ["conformance", "ale", "--frames", "60", "--report", "c.json"],
    "conformance pxc2": ["conformance", "pxc2", "--games", "all", "--frames", "60", "--report", "c.json"],
    "conformance pxcs": ["conformance", "pxcs", "--jobs", "2", "--report", "c.json"],
    "bench rollout": ["bench", "rollout", "--json", "b.json", "--repeats", "1", "--seconds", "0.05"],
    "bench vector": ["bench", "vector", "--json", "b.json"],
    "bench gradient": ["bench", "gradient", "--json", "b.json"],
    "bench soft": ["bench", "soft", "--json", "b.json"],
    "bench snapshot": ["bench", "snapshot", "--json", "b.json"],
    "bench explore": ["bench", "explore", "--games", "pong"],
    "soak": ["bench.soak", "--frames", "1000000000"],
    "soak, each alone": ["bench.soak", "--frames", "1000", "--envs", "16"],
    "faithfulness": ["bench.faithfulness", "--json", "f.json"],
    "join study": ["bench.join_study", "--json", "j.json"],
    "fuzz": ["tests.fuzz", "run", "-n", "1000000", "--journal", "f.jsonl"],
    "fuzz twin": ["tests.fuzz.twin", "-n", "1000"],
}
NEEDS_GAMES = {"labels", "cannon", "paper", "soak", "soak, each alone", "faithfulness", "join study"}
STARTING = 0.1  # seconds in which Python itself starts


@cache
def audited() -> Path:
    """A folder of audit records, for those who read them."""
    folder = Path(tempfile.mkdtemp()) / "audit"
    words = ["audit", "--games", "glass", "--methods", "saliency,occlusion", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "vcs", *words], cwd=ROOT, check=True, capture_output=True)
    return folder


def unwhole(folder: Path) -> list[str]:
    """Files of a folder that are temporary, or of which there is less than a whole."""
    bad = []
    for path in (p for p in folder.rglob("*") if p.is_file() and ".hypothesis" not in p.parts):
        try:
            if path.name.startswith("."):
                raise ValueError("a temporary file")
            if path.suffix == ".json":
                json.loads(path.read_text())
            if path.suffix == ".npz":
                with np.load(path) as arrays:
                    [arrays[name] for name in arrays.files]
            if path.suffix == ".png" and not path.read_bytes().endswith(b"IEND\xaeB`\x82"):
                raise ValueError("half a picture")
        except Exception as why:
            bad.append(f"{path.name}: {why}")
    return bad


def interrupt(name: str, folder: Path, wait: float | None) -> tuple[bool, float, str]:
    """Ctrl-C to a command of LONG and all its processes after `wait` seconds (None: never, for a minute).

    Whether it met the command running, the seconds it lived, and what was wrong with its end: another exit
    code than 130 (or 0 from one that was done), a traceback, no sentence, half a file, a process that stayed.
    """
    words = [str(audited()) if w == "A" else w for w in LONG[name]]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # a test run in the background of a shell ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60 if wait is None else wait)
        met = process.poll() is None
        if met:
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    lived = time.monotonic() - began
    wrong = []
    text = out + err
    if "Traceback" in text and (str(ROOT) in text or "Exception ignored" in text or not met):
        wrong.append(f"a traceback: ...{text[text.index('Traceback') :][:3000]}")
    # -SIGINT, which a shell shows as 130 too: how CPython ends if nothing of ours was there to catch it
    if process.returncode not in (0, 130, -signal.SIGINT) or (not met and process.returncode):
        wrong.append(f"exit code {process.returncode}: {text[-1500:]}")
    if process.returncode == 130 and "interrupted" not in text:
        wrong.append(f"no word: {text[-500:]}")
    wrong += unwhole(folder)
    for _ in range(100):  # a worker may be still ending
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        wrong.append("a process stayed")
        os.killpg(process.pid, signal.SIGKILL)
    return met, lived, "; ".join(wrong)


def interrupts(name: str, times: int, folder: Path, seed: int = 0) -> tuple[int, list[str]]:
    """`interrupt` at random moments of a command's life, half of them while it starts or ends: how often it
    was met running, and what was wrong."""
    rng = random.Random(f"{name} {seed}")
    (folder / "whole").mkdir(parents=True)
    _, life, wrong = interrupt(name, folder / "whole", 10.0)
    found, hit = [wrong] if wrong else [], 0
    for k in range(times):
        place = folder / str(k)
        place.mkdir()
        wait = rng.choice(
            (rng.uniform(STARTING, 1.5), rng.uniform(STARTING, life), life * rng.uniform(0.85, 1))
        )
        met, _, wrong = interrupt(name, place, wait)
        hit += met
        if wrong:
            found.append(f"{name} after {wait:.2f} s: {wrong}")
    return hit, found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LONG))
def test_ctrl_c_ends_every_long_command(name: str, tmp_path: Path) -> None:
    """At three random moments; `python -m tests.reliability interrupts` does it any number of times."""
    if name in NEEDS_GAMES and "breakout" not in roms.available():
        pytest.skip("needs the images of ale-py")
    assert not interrupts(name, 3, tmp_path, seed=os.getpid())[1]


def test_ctrl_c_at_one_moment(tmp_path: Path) -> None:
    """One command of each kind, in the middle."""
    for name in ("trace without end", "explore"):
        (tmp_path / name).mkdir()
        met, _, wrong = interrupt(name, tmp_path / name, 3.0)
        assert met and not wrong, wrong

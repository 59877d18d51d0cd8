"""Crash safety: kill -9 at random moments, full disks, folders that cannot be written.

What is finished stays valid, no part of a file is taken for a whole one, and the same command, run again,
ends with what an undisturbed run gives. `python -m tests.reliability kills` runs it any number of times.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vcs.trace import Trace
from vcs.xai import records

ROOT = Path(__file__).parent.parent


def start(arguments: list[str], folder: Path, **how: Any) -> subprocess.Popen[str]:
    """`python -m ARGUMENTS` of this tree in `folder`, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=folder, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)}, **how,
    )  # fmt: skip


def complete(arguments: list[str], folder: Path, codes: tuple[int, ...] = (0,), **how: Any) -> str:
    """Run to the end; returns what it printed."""
    process = start(arguments, folder, **how)
    out, _ = process.communicate(timeout=600)
    assert process.returncode in codes, f"{arguments}: exit code {process.returncode}\n{out[-3000:]}"
    return out


# ----------------------------------------------------------------------------------- what is whole


def audit_results(folder: Path) -> dict[str, Any]:
    """The content of every record; fails if one is damaged. Hidden files are temporary ones, never read."""
    found = {}
    for path in sorted((folder / "a").glob("[!.]*_*_*.json")):
        record, arrays = records.load(path)
        record = {k: v for k, v in record.items() if k not in ("timestamp", "commit", "where")}
        found[path.name] = json.dumps(record, sort_keys=True), {k: a.tobytes() for k, a in arrays.items()}
    return found


def audit_tables(folder: Path) -> None:
    for path in (folder / "a").glob("*.json"):
        json.loads(path.read_text())


def relax_results(folder: Path) -> dict[str, Any]:
    """Tables as they are, and their rows, which are in the journal first; a picture is whole if its last
    chunk is there."""
    found: dict[str, Any] = {}
    rows: list[Any] = []
    for path in sorted((folder / "r").glob("[!.]*")):
        data = path.read_bytes()
        if path.suffix == ".journal":
            for line in data.splitlines():
                with contextlib.suppress(ValueError):  # the last one may be torn
                    rows.append(json.loads(line)["value"])
            continue
        assert data, path
        if path.suffix == ".json":
            rows += json.loads(data)
        if path.suffix == ".png":
            assert data.endswith(b"IEND\xaeB`\x82"), path
        found[path.name] = data
    return found | {json.dumps(row): True for row in rows}


def conformance_results(folder: Path) -> dict[str, Any]:
    path = folder / "c.json"
    if not path.exists():
        return {}
    outcomes = json.loads(path.read_text())["outcomes"]
    return {json.dumps([o["game"], o["params"]]): [o["status"], o["counts"]] for o in outcomes}


def trace_results(folder: Path) -> dict[str, Any]:
    path = folder / "t.npz"
    return (
        {"trace": Trace.load(path).start.tobytes() + Trace.load(path).instr.tobytes()}
        if path.exists()
        else {}
    )


@dataclass(frozen=True)
class Command:
    """What is killed. results: what it has finished, by name; raises if something is not whole."""

    arguments: list[str]
    again: list[str]
    results: Callable[[Path], dict[str, Any]]


AUDIT = ["vcs", "audit", "--games", "glass,pong,breakout", "--methods", "saliency,occlusion", "--out", "a"]
DELAYED = ["vcs", "relax", "delayed", "--game", "glass", "--frames", "400", "--out", "r"]
SCREENS = ["conformance", "pxcs", "--games", "pong,breakout,qbert", "--report", "c.json"]
COMMANDS = {
    "audit": Command(AUDIT, [], audit_results),
    "audit with jobs": Command([*AUDIT, "-j", "2"], [], audit_results),
    "relax": Command(DELAYED, [], relax_results),
    "conformance": Command(SCREENS, ["--resume"], conformance_results),
    "trace": Command(["vcs", "trace", "glass", "-n", "20", "-o", "t.npz"], [], trace_results),
}


@dataclass
class Outcome:
    """Of a command: kills, those that met the process running, finished results found whole, and lost."""

    kills: int = 0
    hit: int = 0
    finished: int = 0
    lost: int = 0


def torture(name: str, kills: int, folder: Path, seed: int = 0) -> Outcome:
    """Kill the command again and again, then let it end, and compare with an undisturbed run."""
    command, rng, outcome = COMMANDS[name], random.Random(f"{name} {seed}"), Outcome()
    calm, wild = folder / "calm", folder / "wild"
    calm.mkdir(parents=True)
    wild.mkdir()
    began = time.monotonic()
    complete(command.arguments, calm)
    duration = time.monotonic() - began
    expected = command.results(calm)
    assert expected
    before: dict[str, Any] = {}
    more: list[str] = []
    for k in range(kills):
        process = start([*command.arguments, *more], wild)
        # more often near the end, where files are written; a run that goes on has less to do
        time.sleep(duration * rng.random() ** 0.5 * (0.6 if before else 1.0))
        outcome.kills += 1
        outcome.hit += process.poll() is None
        # now and then only the process itself: its workers must not go on writing
        with contextlib.suppress(ProcessLookupError):  # it had ended
            (os.killpg if k % 2 else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        now = command.results(wild)
        outcome.finished += len(now)
        outcome.lost += len(set(before) - set(now))
        for key, value in now.items():
            assert value == expected[key], f"{name}: {key} is not what an undisturbed run gives"
        before, more = now, command.again
        if len(now) == len(expected):  # all done: begin afresh
            shutil.rmtree(wild)
            wild.mkdir()
            before, more = {}, []
    complete([*command.arguments, *more], wild)
    assert command.results(wild) == expected
    assert outcome.lost == 0
    return outcome


def need(name: str) -> None:
    from vcs import roms

    if name not in ("trace", "relax") and "breakout" not in roms.available():
        pytest.skip("needs the images of ale-py")
    if name.startswith("conformance"):
        from conformance import golden

        try:
            golden.root(None)
        except ValueError:
            pytest.skip("needs the golden records")


@pytest.mark.parametrize("name", ["audit", "relax", "conformance", "trace"])
def test_a_kill(name: str, tmp_path: Path) -> None:
    need(name)
    assert torture(name, 1, tmp_path, seed=os.getpid()).kills == 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_ten_kills(name: str, tmp_path: Path) -> None:
    """Fifty kills over all commands."""
    need(name)
    torture(name, 10, tmp_path)


# ----------------------------------------------------------------------------------- what a kill leaves

HALF = """
import sys, time
from vcs import files
def fill(file):
    file.write(b"half"); file.flush()
    print("writing", flush=True)
    time.sleep(600)
files.write(sys.argv[1], fill)
"""


def writing(target: Path) -> subprocess.Popen[str]:
    """A process in the middle of writing `target`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF, str(target)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="nothing says there whether a writer is alive")
def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """Only temporary files of the same target, old ones, and none whose writer is alive."""
    target = tmp_path / "t.npz"
    killed, alive, other = writing(target), writing(target), writing(tmp_path / "u.npz")
    for process in (killed, other):
        process.kill()
        process.communicate()
    try:
        mine = [".t.npz.original", ".t.npz.tmp", "t.npz.abcdefgh.part", ".t.npz.more.abcdefgh.part"]
        for name in mine:
            (tmp_path / name).write_text("not a temporary file of t.npz")
        for path in tmp_path.iterdir():
            os.utime(path, (time.time() - 3600,) * 2)
        young = tmp_path / ".t.npz.abcdefgh.part"
        young.write_text("its writer may not have locked it yet")
        before = set(tmp_path.iterdir())
        assert len(before) == 8
        again = [
            sys.executable,
            "-c",
            "import sys; from vcs import files; files.write_text(sys.argv[1], 'x')",
        ]
        subprocess.run([*again, str(target)], cwd=ROOT, check=True)
        gone = before - set(tmp_path.iterdir())
        assert len(gone) == 1 and not gone & {young, *(tmp_path / name for name in mine)}
        assert next(iter(gone)).name.startswith(".t.npz.")
        assert target.read_text() == "x"
    finally:
        alive.kill()
        alive.communicate()
    subprocess.run([*again, str(target)], cwd=ROOT, check=True)
    left = [p.name for p in tmp_path.glob(".t.npz.????????.part")]
    assert left == [young.name], "the file of a writer that has ended since"


# ------------------------------------------------------------------------------------- disks and folders

# every command that writes files, OUT being the place; those of CI's short run first
WRITERS = {
    "run": ["vcs", "run", "glass", "-n", "2", "--out", "OUT"],
    "trace": ["vcs", "trace", "glass", "-n", "2", "-o", "OUT/t.npz"],
    "grad": ["vcs", "grad", "glass", "-f", "3", "--out", "OUT"],
    "audit": ["vcs", "audit", "--games", "glass", "--methods", "saliency", "--out", "OUT"],
    "relax": ["vcs", "relax", "delayed", "--game", "glass", "--frames", "2", "--out", "OUT"],
    "conformance": ["conformance", "pxcs", "--games", "pong", "--report", "OUT/c.json"],
    "fuzz": ["tests.fuzz", "run", "-n", "2", "-t", "program", "--journal", "OUT/f.jsonl"],
}
SHORT = tuple(WRITERS)
WRITERS |= {
    "demo": ["vcs", "demo", "glass", "--frames", "3", "--out", "OUT/demo.png"],
    "audit with jobs": ["vcs", "audit", "--games", "glass,pong", "-j", "2", "--out", "OUT"],
    "labels": ["vcs", "labels", "glass", "--states", "1", "--out", "OUT"],
    "report": ["vcs", "report", "IN", "--out", "OUT"],
    "report with jobs": ["vcs", "report", "IN", "-j", "2", "--out", "OUT"],
    "relax boundary": ["vcs", "relax", "boundary", "--n", "20", "--game", "glass", "--out", "OUT"],
    "relax heatmap": ["vcs", "relax", "heatmap", "--n", "20", "--game", "glass", "--out", "OUT"],
    "relax corner": ["vcs", "relax", "corner", "--games", "pong", "--frames", "2", "--out", "OUT"],
    "relax shadow": ["vcs", "relax", "shadow", "--frames", "2", "--game", "glass", "--out", "OUT"],
    "relax video": ["vcs", "relax", "video", "--frames", "9", "--game", "glass", "--out", "OUT"],
    "relax gradient": ["vcs", "relax", "gradient", "--out", "OUT"],
    "relax margins": ["vcs", "relax", "margins", "glass", "--frames", "1", "--out", "OUT"],
    "relax all": ["vcs", "relax", "all", "--games", "pong", "--frames", "2", "--out", "OUT"],
    "cannon": ["vcs", "cannon", "--out", "OUT"],
    "paper": ["vcs", "paper", "--only", "relaxation", "--out", "OUT"],
    "asm": ["vcs.asm", "SOURCE", "-o", "OUT/x.bin", "-l", "OUT/x.lst"],
    "conformance with jobs": [
        "conformance",
        "reset",
        "--games",
        "pong",
        "--jobs",
        "2",
        "--report",
        "OUT/c.json",
    ],
    "bench": [
        "bench",
        "rollout",
        "--games",
        "pong",
        "--seconds",
        "0.01",
        "--repeats",
        "1",
        "--json",
        "OUT/b",
    ],
    "bench report": ["bench", "report", str(ROOT / "bench/results/rollout.json"), "--into", "OUT/r.md"],
    "faithfulness": [
        "bench.faithfulness",
        "--games",
        "pong",
        "--warmup",
        "1",
        "--pixels",
        "1",
        "--json",
        "OUT/f",
    ],
    "join study": ["bench.join_study", "--games", "pong", "--warmup", "1", "--bits", "1", "--json", "OUT/j"],
}
SOURCE = " processor 6502\n org $f000\nhere: nop\n jmp here\n"


def written(name: str, out: Path, folder: Path, **how: Any) -> None:
    """Run a command of WRITERS where it cannot write: one message, exit code 2, nothing half-written."""
    words = WRITERS[name]
    if "glass" not in words:
        need(name if name.startswith("conformance") else "audit")
    (folder / "x.asm").write_text(SOURCE)
    places = {"OUT": str(out), "IN": str(audited()), "SOURCE": str(folder / "x.asm")}
    given = [re.sub("^(OUT|IN|SOURCE)(?=/|$)", lambda m: places[m[0]], w) for w in words]
    text = complete(given, folder, (2,), **how)
    assert "Traceback" not in text, text[-3000:]
    said = re.findall(r"[^\n]*(?:cannot be (?:written|made)|No space|too large)[^\n]*", text)
    assert said, text[-3000:]


@cache
def audited() -> Path:
    """Records for `vcs report`."""
    folder = Path(tempfile.mkdtemp()) / "records"
    complete(["vcs", "audit", "--games", "glass", "--methods", "saliency", "--out", str(folder)], ROOT)
    return folder


def half(folder: Path, most: int) -> list[Path]:
    """Files that were cut off when they had `most` bytes; a journal may end in half a line, which its reader
    leaves out."""
    found = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".journal", ".jsonl", ".last")]
    return [p for p in found if p.stat().st_size >= most or p.name.startswith(".")]


def _small_files() -> None:
    """No file may grow past 100 bytes: writing fails as on a full disk, on any machine and without rights."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


each_writer = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SHORT else [pytest.mark.slow]) for n in WRITERS]
)


@each_writer
def test_a_file_that_cannot_grow(name: str, tmp_path: Path) -> None:
    written(name, tmp_path / "o", tmp_path, preexec_fn=_small_files)
    assert not half(tmp_path / "o", 100), "half a file was left"


@each_writer
def test_a_folder_that_is_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "o").write_text("in the way")
    written(name, tmp_path / "o", tmp_path)
    assert (tmp_path / "o").read_text() == "in the way"


def mounted(folder: Path, *options: str) -> bool:
    """Mount a tmpfs, where this process may."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, check=False
    )
    return done.returncode == 0


@each_writer
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_disk(kind: str, name: str, tmp_path: Path) -> None:
    """A real full or read-only disk, where tests may mount one."""
    disk = tmp_path / "o"
    if not mounted(disk, "-o", "size=64k" if kind == "full" else "ro"):
        pytest.skip("no right to mount a tmpfs here")
    try:
        if kind == "full":
            with contextlib.suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        written(name, disk, tmp_path)
        assert not [p for p in half(disk, 1) if p.name != "filling"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)

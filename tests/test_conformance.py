"""The conformance harness itself: it must find a difference, locate it, and survive its workers."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import vcs
from conformance import golden, records, report, workers
from conformance.cases import DIFFERENT, EQUAL, ERROR, Case, Outcome

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKED = str(golden.PACKED)


class Faulty(vcs.Machine):
    """A machine one of whose RAM cells goes wrong at frame 30."""

    def step(self, action: int, strength: float = 1.0) -> float:
        reward = super().step(action, strength)
        if self.frame == 30:
            self.poke_ram(5, int(self.ram[5]) ^ 1)
        return reward


def test_a_wrong_ram_cell_is_found_in_the_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(vcs, "Machine", Faulty)
    params = {"golden": PACKED, "stream": "noop", "fields": list(records.FRAME_FIELDS), "out": str(tmp_path)}
    outcome = records.run_frames(Case("golden", "pong", params))
    assert outcome.status == DIFFERENT
    assert outcome.difference is not None
    assert outcome.difference["frame"] == 30
    assert outcome.difference["fields"] == ["ram"]
    assert pathlib.Path(outcome.difference["our_picture"]).exists()


def test_a_wrong_instruction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = records._registers
    calls = [0]

    def lying(m: Any) -> tuple[int, ...]:
        calls[0] += 1
        pc, a, *rest = honest(m)
        return (pc, a ^ (calls[0] == 501), *rest)

    monkeypatch.setattr(records, "_registers", lying)
    outcome = records.run_instructions(Case("pxc1", "pong", {"golden": PACKED, "start": "f0"}))
    assert outcome.status == DIFFERENT
    assert outcome.difference is not None
    assert outcome.difference["instruction"] == 500
    assert outcome.difference["fields"] == ["a"]
    assert len(outcome.difference["before"]) == 8
    assert 0 <= outcome.difference["colour_clock"] < 228


def test_a_difference_to_ale_is_located(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("ale_py")
    from conformance import ale

    honest = vcs.Machine

    class Other(honest):  # type: ignore[misc, valid-type]
        def step(self, action: int, strength: float = 1.0) -> float:
            if self.frame == 40:
                self.poke_ram(0x50, int(self.ram[0x50]) ^ 0x7F)
            return float(super().step(action, strength))

    monkeypatch.setattr(vcs, "Machine", Other)
    outcome = ale.run(Case("ale", "breakout", {"frames": 60, "seed": 0, "sticky": 0.0, "out": str(tmp_path)}))
    assert outcome.status == DIFFERENT
    found = outcome.difference
    assert found is not None
    assert found["frame"] >= 41
    if "screen" in found["fields"]:
        assert pathlib.Path(found["panel"]).exists()
        assert found["screen"]["scanline"] >= 34
    json.dumps(found)


def test_video_of_a_run(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("imageio_ffmpeg")
    from conformance import ale

    params = {"frames": 8, "seed": 0, "sticky": 0.0, "out": str(tmp_path), "video": 5}
    assert ale.run(Case("ale", "pong", params)).status == EQUAL
    assert [p.name for p in tmp_path.iterdir()] == ["pong.mp4"]


LONG = 30 if "LD_PRELOAD" in os.environ else 5  # a worker starts slowly with a sanitizer


def die(case: Case) -> Outcome:
    """A runner for worker tests: dies, hangs or works, as the game's name says."""
    if case.game == "dies":
        os._exit(7)
    if case.game == "hangs":
        time.sleep(60)
    if case.game == "raises":
        raise ValueError("no good")
    return Outcome(case, EQUAL, {"frames": 1})


def test_workers_that_die_hang_or_raise_are_reported() -> None:
    cases = [Case("x", g) for g in ("fine", "dies", "raises", "hangs", "well")]
    outcomes, complete = workers.run(
        die, cases, jobs=2, timeout=LONG, journal=None, resume=False, stamp="", console=Console(quiet=True)
    )
    assert complete
    assert [o.case.game for o in outcomes] == [c.game for c in cases]
    assert [o.status for o in outcomes] == [EQUAL, ERROR, ERROR, ERROR, EQUAL]
    assert "exit code 7" in outcomes[1].message
    assert "no good" in outcomes[2].message
    assert "no answer" in outcomes[3].message
    assert not report.ok(outcomes)


def count_runs(case: Case) -> Outcome:
    path = pathlib.Path(case.params["log"])
    path.write_text(path.read_text() + case.game + "\n" if path.exists() else case.game + "\n")
    return Outcome(case, EQUAL)


def test_resume_takes_up_only_what_the_same_build_finished(tmp_path: pathlib.Path) -> None:
    log, journal = tmp_path / "log", tmp_path / "journal"
    cases = [Case("x", g, {"log": str(log)}) for g in "abc"]

    def go(some: list[Case], stamp: str, resume: bool = True) -> int:
        log.unlink(missing_ok=True)
        outcomes, _ = workers.run(
            count_runs,
            some,
            jobs=0,
            timeout=5,
            journal=journal,
            resume=resume,
            stamp=stamp,
            console=Console(quiet=True),
        )
        assert len(outcomes) == len(some)
        return len(log.read_text().split()) if log.exists() else 0

    assert go(cases[:2], "one") == 2
    journal.write_text(journal.read_text() + '{"torn')
    assert go(cases, "one") == 1
    assert go(cases, "one") == 0
    assert go(cases, "two") == 3
    assert go(cases, "two", resume=False) == 3


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conformance", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_command_writes_json_and_junit(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.json"
    done = command(
        "pxcs", "--games", "pong,qbert", "--streams", "noop", "--golden", PACKED, "--report", str(path)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(path.read_text())
    assert data["ok"] and data["complete"] and data["compared"] == {"frames": 1200}
    suite = ET.parse(path.with_suffix(".xml")).getroot()
    assert suite.get("tests") == "2" and suite.get("failures") == "0"
    assert not path.with_suffix(".journal").exists()
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table r -->\nstale\n<!-- end r -->\nafter\n")
    assert command("document", str(path), "--into", str(page)).returncode == 0
    text = page.read_text()
    assert "stale" not in text and "| pong | 1 | 600 | equal |" in text
    assert text.startswith("before\n") and text.endswith("after\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("pxcs", "--games", "pingpong"),
        ("pxcs", "--streams", "random7"),
        ("golden", "--golden", "/nowhere"),
        ("ale", "--sticky", "often"),
        ("ale", "--modes", "some"),
        ("ale", "--games", "pong", "--sticky", "3"),
        ("ale", "--games", "pong", "--sticky", "nan"),
        ("pxc2", "--games", "pong", "--alpha", "x"),
        ("pxc2", "--games", "pong", "--temperature", "0"),
        ("pxc2", "--games", "pong", "--rules", "word"),
        ("reset", "--games", "pong", "--resume"),
        ("document", "/nowhere.json"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_keeps_what_is_finished(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.json"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "conformance",
            "golden",
            "--streams",
            "noop",
            "--golden",
            PACKED,
            "--report",
            str(path),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # a test run in the background of a shell ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    journal = path.with_suffix(".journal")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text().count("\n") >= 2):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    data = json.loads(path.read_text())
    assert not data["complete"] and not data["ok"] and len(data["outcomes"]) >= 2
    assert b"Traceback" not in output
    assert journal.exists()


def test_panel_marks_the_difference() -> None:
    from conformance import panels
    from vcs.machine import palette

    ours = np.zeros((210, 160), np.uint8)
    theirs = ours.copy()
    theirs[100, 50] = 0x0E
    image = np.asarray(panels.panel(ours, theirs, palette(), ("a", "b")))
    third = image[panels.TITLE :, -160 * panels.SCALE_X :]
    red = (third == (255, 0, 0)).all(axis=-1)
    assert red.sum() == panels.SCALE_X * panels.SCALE_Y
    assert red[100 * panels.SCALE_Y, 50 * panels.SCALE_X]

"""Every program of examples/ does what its text says, on a small case."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples"
# program, arguments, ROM and packages it needs, and what it must print
CASES: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...], str], ...] = (
    ("rollout", ("--frames", "320"), "pong", ("gymnasium",), "eight in a vector: rewards ["),
    ("planning", ("--game", "glass", "--steps", "2", "--simulations", "4"), "", (), "search 0, random play"),
    ("pixel", (), "", (), "of the flips did exactly what the derivative says"),
    ("pixel", ("--game", "pong", "--frame", "70"), "pong", (), "drawn by"),
    ("cannon", (), "space_invaders", (), "join: (0, 0, -1, +1)"),
    ("my_method", (), "pong", (), "position: F 0."),
    ("grad_autograd", (), "", (), "  ram: RAM["),
    ("grad_pytorch", (), "", ("torch",), "it changes most with RAM["),
    ("grad_jax", (), "", ("jax",), "it changes most with RAM["),
    ("your_emulator", (), "", ("py65",), "equal: 5,801 instructions alike"),
    ("your_emulator", ("--fault",), "", ("py65",), "different: 255 instructions alike"),
)


# these have a test file of their own
ELSEWHERE = {"train_sb3": "test_sb3.py"}


def run(program: str, *arguments: str, cwd: Path) -> str:
    """Standard output of an example; its exit code must be 0."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / f"{program}.py"), *arguments], cwd=cwd, text=True,
        capture_output=True, timeout=500, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("program", "arguments", "game", "packages", "expected"), CASES)
def test_example(
    program: str, arguments: tuple[str, ...], game: str, packages: tuple[str, ...], expected: str,
    tmp_path: Path, rom: Callable[[str], Any],
) -> None:
    for package in packages:
        pytest.importorskip(package)
    if game:
        rom(game)
    assert expected in run(program, *arguments, cwd=tmp_path)


def test_none_is_forgotten() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {case[0] for case in CASES} | set(ELSEWHERE)
    assert all((ROOT / "tests" / test).exists() for test in ELSEWHERE.values())


def test_every_example_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    for path in FOLDER.glob("*.py"):
        assert f"examples/{path.name}" in page, path.name


def test_the_emulators_trace_is_compared_by_the_command(tmp_path: Path) -> None:
    pytest.importorskip("py65")
    run("your_emulator", "--fault", cwd=tmp_path)

    def compare(what: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "conformance", "trace", str(tmp_path / "yours.npz"), "--what", what],
            cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "COLUMNS": "300"},
        )
        return done.returncode, done.stdout + done.stderr

    code, text = compare("pc,p")
    assert code == 1 and "after F14D ADC #$FD: p 34 instead of 35" in text
    assert compare("pc,a,cycles")[0] == 0  # what is not asked for is not compared
    code, text = compare("speed")
    assert code == 2 and "has no column 'speed'" in text

"""The command line: what it writes, and how it refuses."""
from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

import vcs
from vcs import actions, cli, demo, gradient, layout
from vcs.__main__ import main
from vcs.command import guarded
from vcs.errors import VcsError


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command run in this process."""
    with pytest.raises(SystemExit) as ended:
        main(args)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_module_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "vcs", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == f"glassvcs {vcs.__version__}"


@pytest.mark.parametrize("command", ["demo", "info", "run", "trace", "grad"])
def test_every_command_helps_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, command, "--help")
    assert code == 0 and f"Example: vcs {command}" in out
    code, out, _ = call(capsys, "--help")
    assert code == 0 and f" {command} " in out


@pytest.mark.parametrize("command", sorted(cli.ELSEWHERE))
def test_commands_of_other_parts(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, listed, _ = call(capsys, "--help")
    if f" {command} " not in listed:
        pytest.skip(f"vcs {command} is not part of this tree")
    code, out, _ = call(capsys, command, "--help")
    assert code == 0 and "Stands in" not in out and f"vcs {command}" in out


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info", "glass")
    assert code == 0 and "4096 bytes" in out and "4K" in out
    code, out, _ = call(capsys, "info")
    assert code == 0 and "glass" in out


def test_run_writes_what_the_machine_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moves = tmp_path / "moves.txt"
    moves.write_text("RIGHT, 3 up # comment\n")
    out = ("--out", str(tmp_path), "--scale", "1")
    code, _, _ = call(capsys, "run", "glass", "-n", "5", "-a", str(moves), *out)
    assert code == 0
    machine = vcs.Machine("glass")
    for action in (3, 3, 2, 0, 0):
        machine.step(action)
    assert (tmp_path / "ram.bin").read_bytes() == machine.ram.tobytes()
    picture = np.asarray(Image.open(tmp_path / "screen.png"))
    assert np.array_equal(picture, np.repeat(machine.screen_rgb, 2, 1))
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["frames"] == 5 and bytes.fromhex(state["ram"]) == machine.ram.tobytes()
    assert state["registers"] == machine.registers._asdict()


@pytest.mark.parametrize("protocol", ["ale", "xitari"])
def test_random_play_repeats(protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = []
    for out in ("a", "b"):
        code, _, _ = call(capsys, "run", "glass", "-n", "40", "-a", "random", "--seed", "7", "--protocol",
                          protocol, "--out", str(tmp_path / out))
        assert code == 0
        states.append((tmp_path / out / "state.json").read_text())
    assert states[0] == states[1]


def test_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "glass.npz"
    code, text, _ = call(capsys, "trace", "glass", "-n", "2", "--skip", "3", "-o", str(out))
    assert code == 0 and "instructions" in text
    machine = vcs.Machine("glass")
    for _ in range(3):
        machine.step(0)
    assert np.array_equal(vcs.Trace.load(out).instr, machine.trace([0, 0]).instr)


def test_grad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The goblet's colour: the pixel names the byte of ROM that holds it."""
    machine = vcs.Machine("glass")
    for _ in range(9):
        machine.step(0)
    trace = machine.trace([0])
    goblet = trace.winner[-1] == 3
    inside = goblet & np.roll(goblet, 1, axis=1) & np.roll(goblet, -1, axis=1)  # where no edge moves
    row, column = (int(i) for i in np.argwhere(inside)[0])
    place = f"{row},{column}"
    code, text, _ = call(capsys, "grad", "glass", "-f", "10", "--pixel", place, "--out", str(tmp_path))
    assert code == 0 and "ROM[" in text
    record = json.loads((tmp_path / "gradient.json").read_text())
    assert record["object"] == "player 0" and record["value"] == machine.screen[row, column]
    colour = machine.rom.index(bytes((0x9A, 0x46, 0xC6)))
    bit = {"location": f"{layout.name(layout.ROM + colour)}:7", "derivative": 128.0}
    assert bit in record["top"]
    assert Image.open(tmp_path / "gradient.png").width > 800
    with np.load(tmp_path / "gradient.npz", allow_pickle=False) as stored:
        assert stored["rom"][colour].tolist() == [0, 2, 4, 8, 16, 32, 64, 128]


@pytest.mark.parametrize("game", ["glass", "space_invaders"])
def test_demo(game: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], rom: Any) -> None:
    rom(game)
    code, text, _ = call(capsys, "demo", game, "--out", str(tmp_path / "demo.png"), "--frames", "30")
    assert code == 0 and "soft machine = exact machine" in text and "exactly as predicted" in text
    assert Image.open(tmp_path / "demo.png").width > 800


def test_the_proof_of_the_demo_can_fail() -> None:
    machine = vcs.Machine("glass")
    start = machine.clone()
    trace = machine.trace([0])
    assert demo.prove(start.clone(), [0], trace) == len(trace)
    start.poke_ram(3, int(start.ram[3]) ^ 1)
    with pytest.raises(VcsError):
        demo.prove(start, [0], trace)


def test_flips_are_real_interventions() -> None:
    """Flipping the colour byte in ROM changes the pixel by the bit's value, and the original is untouched."""
    machine = vcs.Machine("glass")
    start = machine.clone()
    trace = machine.trace([0])
    row, column = (int(i) for i in np.argwhere(trace.winner[-1] == 3)[0])
    bits = gradient.grad(trace, gradient.Pixel(row, column), rules="bit", wrt=["ram", "rom"])
    before = start.snapshot()
    colour = layout.ROM + machine.rom.index(bytes((0x9A, 0x46, 0xC6)))
    tried = demo.flips(start, [0], (row, column), bits, 1000)
    found = {flip.bit: flip for flip in tried if flip.location == colour}
    assert sorted(found) == list(range(1, 8))
    for bit, flip in found.items():
        assert flip.held and flip.seen == (-1 if 0x9A >> bit & 1 else 1) << bit
    assert start.snapshot() == before


@pytest.mark.parametrize("args", [
    ("run", "missing.bin"), ("run", "no_such_game"), ("run", "three.bin"), ("run", "empty.bin"),
    ("run", "big.bin"), ("run", "odd.bin"), ("info", "odd.bin"),
    ("run", "glass", "-a", "nowhere.txt"), ("run", "glass", "-a", "bad.txt"),
    ("grad", "glass", "-f", "2", "-p", "999,0"), ("grad", "glass", "-f", "2", "-p", "1"),
    ("grad", "glass", "-f", "2", "-p", "0,160"), ("grad", "glass", "-f", "2", "-p", "-1,0"),
    ("grad", "glass", "-f", "2", "--horizon", "5"),
    ("grad", "glass", "-f", "2", "-p", "1,1", "--rules", "magic"),
    ("grad", "glass", "-f", "2", "-p", "1,1", "--engine", "steam"), ("demo", "odd.bin"),
    ("trace", "glass", "--skip", "0", "-o", "empty.bin/file.npz"),
], ids=lambda args: " ".join(args))
def test_bad_input(args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                   capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in {"three.bin": b"abc", "empty.bin": b"", "big.bin": bytes(2**21), "odd.bin": bytes(5120),
                       "bad.txt": b"UP SIDEWAYS"}.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    there = sorted(tmp_path.iterdir())
    code, _, err = call(capsys, *args)
    lines = [line for line in err.splitlines() if line and "note:" not in line]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("vcs: "), err
    assert sorted(tmp_path.iterdir()) == there, "something was written"


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "vcs.pictures", raising=False)
    monkeypatch.delattr(vcs, "pictures", raising=False)
    code, _, err = call(capsys, "run", "glass", "-n", "1")
    assert code == 2 and "pip install 'glassvcs[all]'" in err


def test_actions() -> None:
    assert actions.parse("noop 17\nUpFire", "here") == [0, 17, 10]
    for text in ("", "18", "-1", "x", "1.5", "\u0661"):
        with pytest.raises(VcsError):
            actions.parse(text, "here")
    assert actions.legal(None, "ale") == list(range(18))
    assert actions.legal("pong", "xitari") == [0, 3, 4] and actions.legal("frogger", "xitari")
    assert actions.choose("noop", 3, 0, None, "ale") == [0, 0, 0]


@pytest.mark.parametrize(
    "error, code, word",
    [
        (VcsError("no such thing"), 2, "x: no such thing"),
        (MemoryError(), 2, "memory"),
        (MemoryError("the trace does not fit in memory"), 2, "x: the trace does not fit"),
        (ModuleNotFoundError("No module", name="panda"), 2, "panda"),
        (KeyboardInterrupt(), 130, "x: interrupted"),
    ],
)
def test_how_a_command_line_ends(
    error: BaseException, code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        guarded(command, "x", last=False)
    said = capsys.readouterr().err
    assert ended.value.code == code and word in said and said.count("\n") == 1
    with pytest.raises(SystemExit) as ended:  # typer turns Ctrl-C into an exit code, without a word
        guarded(_typer(error), "x", last=False)
    assert ended.value.code == code and "x: " in capsys.readouterr().err


def _typer(error: BaseException) -> Callable[[], object]:
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def run() -> None:
        raise error

    return functools.partial(app, [])

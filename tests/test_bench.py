"""The benches run, write the rows they promise, and feed the report. Nothing here asserts a speed."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from rich.console import Console

from bench import harness
from bench.study import collect

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = {"case", "unit", "ours", "peer", "theirs", "ratio"}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", ["rollout", "vector", "gym", "snapshot", "gradient", "soft"])
def test_rows(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("ale_py")
    path = tmp_path / f"{name}.json"
    done = command(name, "--games", "pong", "--seconds", "0.001", "--repeats", "1", "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(path.read_text())
    assert data["rows"]
    for row in data["rows"]:
        assert set(row) >= FIELDS
        assert row["ours"] > 0
        assert (row["theirs"] is None) == (row["ratio"] is None)
    page = tmp_path / "RESULTS.md"
    done = command("report", str(path), "--into", str(page))
    if any(row["ratio"] is not None for row in data["rows"]):
        assert done.returncode == 0, done.stderr
        assert f"## {name}" in page.read_text()
        assert page.with_name("results.png").read_bytes()[:4] == b"\x89PNG"
    else:
        assert done.returncode == 2 and not page.exists()


def test_latencies_of_the_explorer() -> None:
    pytest.importorskip("ale_py")
    done = command("explore", "--games", "pong", "--clicks", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(what in done.stdout for what in ("gradient", "hover", "oracle", "< 1500"))


def test_ratio_is_the_median_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([10.0, 5.0, 30.0, 10.0, 8.0, 8.0])
    monkeypatch.setattr(harness, "rate", lambda work: next(rates))
    row = harness.interleave("case", "x/s", lambda: 1.0, "peer", lambda: 1.0, 3)
    assert (row.ours, row.theirs, row.ratio) == (10.0, 8.0, 2.0)
    assert row.samples == [[10.0, 5.0], [30.0, 10.0], [8.0, 8.0]]


@pytest.mark.parametrize(
    "arguments", [("rollout", "--games", "ping"), ("report", "/nowhere.json"), ("rollout", "--seconds", "0")]
)
def test_bad_input(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("study", ["faithfulness", "join_study"])
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--games", "ping"), "no game ping"),
        (("--games", "pong", "--json", "/proc/nowhere/a.json"), "cannot be written"),
        (("--games", "pong", "--json", "{folder}"), "no file of the"),
        (("--games", "pong", "--json", "{folder}/other.json"), "no file of the"),
        (("--games", "pong", "--warmup", "-1"), "warmup"),
    ],
)
def test_bad_input_of_a_study(
    study: str, arguments: tuple[str, ...], word: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "other.json").write_text('{"study": "another"}')
    given = [argument.format(folder=tmp_path) for argument in arguments]
    command = [sys.executable, "-m", f"bench.{study}", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stdout + done.stderr
    assert word in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["other.json"]


def test_a_study_goes_on_where_it_stopped(tmp_path: pathlib.Path) -> None:
    path, asked = tmp_path / "study.json", []

    def study(game: str) -> dict[str, int]:
        asked.append(game)
        if game == "qbert":
            raise KeyboardInterrupt
        return {"frames": len(game)}

    def collected(games: str) -> dict[str, int]:
        found, interrupted = collect("made up", games, {"warmup": 3}, path, study, str, Console(quiet=True))
        assert interrupted == ("qbert" in games)
        return found

    assert collected("pong,qbert,breakout") == {"pong": {"frames": 4}}
    asked.clear()
    assert collected("pong,breakout") == {"pong": {"frames": 4}, "breakout": {"frames": 8}}
    assert asked == ["breakout"] and json.loads(path.read_text())["study"] == "made up"

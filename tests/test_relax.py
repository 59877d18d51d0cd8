"""The relaxation study against relaxation.md and data/relaxation_expected.json."""

from __future__ import annotations

import hashlib
import itertools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import vcs
from vcs.data import load_json
from vcs.errors import VcsError
from vcs.journal import Journal
from vcs.relax import collapsed, model, study
from vcs.relax.cli import app
from vcs.soft import relax

EXPECTED = load_json("relaxation_expected.json")


@pytest.fixture(scope="module")
def invaders() -> bytes:
    try:
        return vcs.Machine("space_invaders", protocol="xitari").rom
    except VcsError as why:
        pytest.skip(str(why))


def test_collapsed_machine_reproduces_the_published_table(invaders: bytes) -> None:
    pcs = collapsed.run(invaders, 3000)
    digest = hashlib.sha256(np.array(pcs, "<u2").tobytes()).hexdigest()
    assert digest.startswith(EXPECTED["trace_hashes"]["collapsed_pc_before_u16le_sha256_prefix"])
    for row in EXPECTED["boundary_table"]["rows"]:
        if "collapsed_rerun" in row:
            assert (
                collapsed.n_div(invaders, row["alpha"], row["T"], 3000) == row["collapsed_rerun"]["n_div"]
            ), row


@pytest.mark.parametrize(("which", "pcs"), [("collapsed_rerun", "collapsed"), ("full_machine", "full")])
def test_cast_margin_model(invaders: bytes, which: str, pcs: str) -> None:
    trace = (
        collapsed.run(invaders, 3000) if pcs == "collapsed" else study.instructions("space_invaders", 3000)[0]
    )
    m = model.summary(trace, invaders)
    want = EXPECTED["cast_margin_model"][which]
    assert m.rho == pytest.approx(want["rho"], abs=5e-6)
    assert m.f_b == pytest.approx(want["f_b"], abs=5e-6)
    assert (m.branches, m.max_abs_offset, m.distinct_pcs) == (
        want["branches"],
        want["max_abs_offset"],
        want["distinct_pcs"],
    )
    for alpha, p in want["p_branch"].items():
        assert m.p_branch(float(alpha)) == pytest.approx(p, abs=5.1e-5)
    for temperature, p in want["p_read"].items():
        assert m.p_read(float(temperature)) == pytest.approx(p, abs=5.1e-4)


def test_full_machine_trace_hashes(invaders: bytes) -> None:
    pcs, rams = study.instructions("space_invaders", 3000)
    want = EXPECTED["trace_hashes"]
    assert (
        hashlib.sha256(np.array(pcs, "<u2").tobytes())
        .hexdigest()
        .startswith(want["full_pc_before_u16le_sha256_prefix"])
    )
    assert hashlib.sha256(b"".join(rams)).hexdigest().startswith(want["full_ram_after_sha256_prefix"])


def test_boundary_on_the_full_machine(invaders: bytes) -> None:
    for row in EXPECTED["boundary_table"]["rows"]:
        want = row["full_machine"]
        assert study.first_difference("space_invaders", row["alpha"], row["T"], 3000) == (
            want["n_div"],
            want["n_div_with_registers"],
        ), row


def test_delayed_divergence(invaders: bytes) -> None:
    want = {row["T"]: row["frame"] for row in EXPECTED["delayed_divergence"]["full_machine_exact_timing"]}
    temperatures = (0.14, 0.1446, 0.1448)
    for row in study.delayed(temperatures=temperatures, frames=250):
        assert row["frame"] == want[row["T"]]


@pytest.mark.slow
def test_delayed_divergence_whole(invaders: bytes) -> None:
    want = {row["T"]: row["frame"] for row in EXPECTED["delayed_divergence"]["full_machine_exact_timing"]}
    assert {row["T"]: row["frame"] for row in study.delayed()} == want
    second = EXPECTED["delayed_divergence"]["second_action_stream"]["results"]
    rows = study.delayed(
        temperatures=[r["T"] for r in second], frames=2000, actions=study.second_stream(2000)
    )
    assert [r["frame"] for r in rows] == [r["frame"] for r in second]
    dropped = {
        row["T"]: row["frame"]
        for row in EXPECTED["delayed_divergence"]["full_machine_page_cross_cycle_dropped"]
    }
    assert {r["T"]: r["frame"] for r in study.delayed(temperatures=list(dropped), drop_cycle=True)} == dropped


@pytest.mark.parametrize("game", sorted(vcs.roms.available()))
def test_5_2_every_game_is_exact_in_the_corner(game: str) -> None:
    """Thirty frames of every cartridge, at the point of the paper and at the edge of docs/gradients.md."""
    edge = (relax.CORNER_ALPHA + 1e-4, relax.CORNER_T - 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some images have no game rules
        for row in study.corner([game], 30, (study.CORNER, edge)):
            assert row["frame"] is None
            assert row["wrong_rom"] == row["wrong_ram"] == row["wrong_branch"] == 0


@pytest.mark.parametrize("game", ["breakout", "ms_pacman", "pong", "space_invaders"])
def test_theorem_2_the_deviation_on_an_executed_path_is_under_its_bound(game: str) -> None:
    """One step, not rounded, over a grid of alpha and T, on 3000 instructions of a game."""
    if game not in vcs.roms.available():
        pytest.skip(f"the image of {game} is not on this machine (it comes with ale-py)")
    rows = study.deviation(game)
    branches = {r["alpha"]: r for r in rows if r["kind"] == "branch"}
    reads = {r["T"]: r for r in rows if r["kind"] == "read"}
    assert len(branches) == 6 and len(reads) == 4
    for branch, read in itertools.product(branches.values(), reads.values()):
        found = max(branch["deviation"], read["deviation"])
        assert 0 < found <= branch["bound"] + read["bound"]
    for kind in (branches, reads):  # and each bracket bounds its own kind of cast
        assert all(0 < r["deviation"] <= r["bound"] for r in kind.values())
    errors = [branches[alpha]["deviation"] for alpha in sorted(branches)]
    assert errors == sorted(errors, reverse=True)
    pulls = [reads[temperature]["deviation"] for temperature in sorted(reads)]
    assert pulls == sorted(pulls)


def test_switching_off_leaves_no_trace() -> None:
    a, b = vcs.Machine("glass", protocol="xitari"), vcs.Machine("glass", protocol="xitari")
    a.relax(1.0, 5.0)
    a.relax()
    for _ in range(5):
        a.step(0)
        b.step(0)
    assert a.snapshot() == b.snapshot()


def test_thresholds() -> None:
    assert model.branch_threshold(-128) == pytest.approx(model.ALPHA_EXACT)
    lone = [0, 0, 0, 0, 255, 0, 0, 0, 0]
    assert model.read_threshold([lone])[0] == pytest.approx(EXPECTED["worst_case_bounds"]["T_lt"], abs=1e-6)
    assert np.isinf(model.read_threshold([[7] * 9])[0])
    assert float(np.abs(model.read_pull([lone], 0.14))[0]) == pytest.approx(
        EXPECTED["worst_case_bounds"]["pull_at_0.14"], abs=1e-6
    )


def test_gate_figures() -> None:
    for alpha, slope in EXPECTED["gate_figures"]["dg_dz"].items():
        assert float(model.gate_slope(0.25, float(alpha))) == pytest.approx(slope, abs=1e-9)


def test_command_writes_rows_and_a_figure(tmp_path) -> None:
    result = CliRunner().invoke(app, ["margins", "glass", "--frames", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "margins_glass.json").read_text())
    assert {row["kind"] for row in rows} >= {"branch", "fetch", "ram"}
    assert (tmp_path / "margins_glass.png").stat().st_size > 1000
    assert CliRunner().invoke(app, ["gradient", "--out", str(tmp_path)]).exit_code == 0


def test_a_killed_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a run had finished are taken up by the next one of the same settings, and by no other."""
    made: list[str] = []
    left = 7
    original = Journal.keep

    def keep(self: Journal, key: str, compute: Callable[[], Any]) -> Any:
        def counted() -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            made.append(key)
            return compute()

        return original(self, key, counted)

    monkeypatch.setattr(Journal, "keep", keep)

    def go(folder: str, rows: int, frames: int = 20) -> list[str]:
        nonlocal left
        left = rows
        made.clear()
        words = ["delayed", "--game", "glass", "--frames", str(frames), "--out", str(tmp_path / folder)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == (130 if left < 0 else 0), done.output
        return list(made)

    def tables(folder: str) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in sorted((tmp_path / folder).iterdir())}

    every = go("calm", 1000)
    assert len(every) == len(set(every)) > 30 and "delayed.journal" not in tables("calm")
    assert go("wild", 7) == every[:7]
    journal = tmp_path / "wild" / "delayed.journal"
    with journal.open("ab") as file:
        file.write(b'{"stamp": "torn')
    assert go("wild", 5) == every[7:12]
    kept = journal.read_bytes()
    assert len(go("wild", 1000, frames=21)) == len(every), "rows of other settings are no rows of this run"
    journal.write_bytes(kept)
    assert go("wild", 1000) == every[12:]
    assert tables("wild") == tables("calm")
    journal.write_bytes(kept.replace(b'"stamp": "', b'"stamp": "other'))
    assert go("wild", 1000) == every, "rows of other code are no rows of this run"
    refused = CliRunner().invoke(app, ["shadow", "--game", "nobody", "--out", str(tmp_path / "new")])
    assert isinstance(refused.exception, VcsError) and not (tmp_path / "new").exists()

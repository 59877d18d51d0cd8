"""Oracle, state, audit, labels and report on real cartridges (ours, and ale-py's where it is installed)."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import vcs
from vcs import layout
from vcs._hard.machine import replay_batch
from vcs.data import load_json
from vcs.errors import VcsError
from vcs.roms import Rom
from vcs.xai import audit, labels, methods, metrics, records, report, tables
from vcs.xai.causes import Act, Do
from vcs.xai.cli import app
from vcs.xai.oracle import Oracle, do
from vcs.xai.outputs import Content, Pixel, Region, Reward
from vcs.xai.scoring import score
from vcs.xai.state import State

FindRom = Callable[[str], Rom]
EXPECTED = load_json("audit_expected.json")["games"]
SOME = ("pong", "beam_rider", "ms_pacman", "qbert")  # own settings, generic, no comb, another first line


@pytest.fixture(scope="module")
def glass() -> State:
    return State("glass")


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    machine = vcs.Machine("glass", protocol="xitari")
    for action in (3, 3, 1, 0, 2, 4) * 5:
        machine.step(action)
    return Oracle(machine, [3, 0, 4, 1, 0, 5], threads=2)


# ------------------------------------------------------------------------------------------------- oracle


def test_do_equals_poking_and_stepping(oracle: Oracle) -> None:
    """An independent way through the public machine: restore, poke, step."""
    machine = vcs.Machine("glass", protocol="xitari")
    for cell in range(0, 128, 9):
        machine.restore(oracle.start)
        machine.poke_ram(cell, 77)
        for action in oracle.actions:
            machine.step(action)
        found = oracle.do(do(f"RAM[{cell}]", 77))
        assert np.array_equal(found.ram, machine.ram) and np.array_equal(found.picture(), machine.screen)
        assert found.changed == int((machine.screen != oracle.baseline.picture()).sum())
    machine.restore(oracle.start)
    machine.poke_tia(9, 14)
    for action in oracle.actions:
        machine.step(action)
    assert np.array_equal(oracle.do(do("COLUBK", 14)).picture(), machine.screen)


def test_do_inside_a_frame(oracle: Oracle) -> None:
    """After 400 instructions of the third frame, as a traced machine counts them."""
    machine = vcs.Machine("glass", protocol="xitari")
    machine.restore(oracle.start)
    trace = machine.trace(oracle.actions[:3])
    row = trace.instr[int(trace.frames["first_instr"][2]) + 400]
    a = int(row["a"])
    same = oracle.do(do("A", a, at=2, instruction=400))
    assert np.array_equal(same.ram, oracle.baseline.ram) and same.changed == 0
    assert np.array_equal(same.picture(), oracle.baseline.picture())
    pc = int(row["pc"])
    assert oracle.do(do("PC", pc, at=2, instruction=400)).changed == 0
    other = oracle.run(
        [(do("A", flip=b, at=5, instruction=k),) for b in (1, 4, 7) for k in range(0, 4000, 37)]
    )
    assert any(o.changed for o in other)


def test_every_kind_of_place_can_be_written(oracle: Oracle) -> None:
    for name in (
        "A",
        "X",
        "Y",
        "SP",
        "N",
        "V",
        "D",
        "I",
        "Z",
        "C",
        "PC",
        "COLUP0",
        "pos P0",
        "GRP0OLD",
        "SWACNT",
        "TIMER",
        "ROM[0x10]",
    ):
        oracle.do(do(name, flip=0))
    for name in ("SWCHA", "INTIM", "CXM0P"):
        with pytest.raises(VcsError, match="cannot be written by an intervention"):
            oracle.do(do(name, 1))
    rom = oracle.run([(Do(layout.ROM + i, "flip", 0),) for i in range(256)])
    assert any(o.changed for o in rom)
    assert oracle.do().changed == 0, "a patched ROM must not stay"


def test_input_lines_are_actions(oracle: Oracle) -> None:
    by_line, by_action = oracle.do(do("P0 right", 0)), oracle.do(Act(0))
    assert np.array_equal(by_line.picture(), by_action.picture())
    with pytest.raises(VcsError, match="opposite directions"):
        oracle.do(do("P0 left", 1))


def test_bad_interventions(oracle: Oracle) -> None:
    with pytest.raises(VcsError, match="exactly one"):
        do("A")
    with pytest.raises(VcsError, match="exactly one"):
        do("A", 1, flip=2)
    with pytest.raises(VcsError, match="after the tail"):
        oracle.do(do("A", 1, at=6))
    with pytest.raises(VcsError, match="names no location"):
        do("Q", 1)
    with pytest.raises(VcsError, match="at least one action"):
        Oracle(vcs.Machine("glass"), [])


def test_effects_on_outputs(oracle: Oracle) -> None:
    run = do("RAM[0]", flip=0)
    after = oracle.do(run)
    assert oracle.effect(Content.of(0), run) == abs(int(after.ram[0]) - int(oracle.baseline.ram[0]))
    assert oracle.effect(Reward.of(), run) == abs(after.reward - oracle.baseline.reward)
    for output in (Pixel.of(100, 80), Region.of(90, 110, 20, 60)):
        assert oracle.effect(output, run) == abs(output.read(after) - output.read(oracle.baseline))


def test_map_is_what_single_runs_say(oracle: Oracle) -> None:
    found = oracle.map(range(0, 128, 16))
    assert found.ram.shape == (8, 8, 6, 128) and found.effects.dtype == np.int16
    for i, cell in enumerate(found.locations):
        for bit in (0, 7):
            one = oracle.do(do(cell, flip=bit))
            assert np.array_equal(found.ram[i, bit, -1], one.ram) and found.changed[i, bit, -1] == one.changed
    assert np.array_equal(found.base[-1], oracle.baseline.ram)


def test_shared_frames_change_nothing(oracle: Oracle) -> None:
    """Runs that fall back onto the unedited run take its frames; the result must be the same to the bit."""
    rng = np.random.default_rng(0)
    places = [*range(128), *range(128, 132), 138, *range(192, 256), *range(259, 264), layout.TIMER]
    runs = [
        tuple(
            Do(int(rng.choice(places)), "flip", int(rng.integers(8)), int(rng.integers(4)))
            for _ in range(rng.integers(0, 3))
        )
        for _ in range(200)
    ]
    machine = vcs.Machine("glass", protocol="xitari")
    edits, first, actions = oracle._encode(runs, oracle.actions)
    whole = [
        replay_batch(machine, oracle.start, edits, first, actions, oracle._screens, True, True, reference)
        for reference in (None, np.asarray(oracle.actions, np.int32))
    ]
    for a, b in zip(*whole, strict=True):
        assert np.array_equal(a, b)


def test_batches_do_not_depend_on_threads(oracle: Oracle) -> None:
    single = Oracle(oracle._machines[0].clone(), oracle.actions, threads=1)
    single.start, single._machines = oracle.start, oracle._machines[:1]
    runs = [(Do(i, "flip", 1),) for i in range(64)]
    for a, b in zip(oracle.run(runs), single.run(runs), strict=True):
        assert np.array_equal(a.ram, b.ram) and a.changed == b.changed


# ---------------------------------------------------------------------------------------- the published study


@pytest.mark.parametrize("game", sorted(EXPECTED))
def test_state_and_saliency_are_the_published_ones(game: str, rom: FindRom) -> None:
    """Checkpoint, baseline and picture by hash, and all saliency scores of `audit_expected.json`."""
    image = rom(game)
    wanted = EXPECTED[game]
    if image.sha256 != wanted["rom_sha256_used"]:
        pytest.skip("another dump than the one measured")
    state = State(image)

    def sha(array: Any) -> str:
        return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()

    assert sha(state.ram) == wanted["state"]["ram_at_checkpoint_sha256"]
    assert sha(state.baseline.ram) == wanted["state"]["ram_after_horizon_sha256"]
    assert sha(state.baseline.picture()) == wanted["state"]["screen_after_horizon_sha256"]
    assert len(state.causes) == wanted["n_causes"]
    content, position = (score(state, "saliency", k, curves=False) for k in ("content", "position"))
    pair = (content, position)
    found = {
        "content_ram_index": state.content.cell,
        "F": np.mean([s.faithfulness for s in pair]),
        "F_content": content.faithfulness,
        "F_position": position.faithfulness,
        "S": metrics.mean_or_none([s.sufficiency for s in pair]),
        "M": metrics.mean_or_none([s.minimality.value for s in pair]),
    }
    for key, value in wanted["xitari"].items():
        assert found[key] == (value if value is None else pytest.approx(value, abs=5.1e-5)), key


def test_pong_in_full(rom: FindRom) -> None:
    """The worked numbers of sections 5.4 and 7."""
    state = State(rom("pong"))
    s = score(state, "saliency", "content")
    assert (state.content.cell, s.baseline) == (54, 175)
    assert s.pearson == pytest.approx(0.46421209661041496, abs=1e-14)
    assert s.spearman == pytest.approx(0.7342477813388187, abs=1e-14)
    assert (s.precision, s.deletion_auc, s.insertion_auc) == (
        pytest.approx(2 / 3),
        pytest.approx(0.07539682539682538),
        pytest.approx(0.3611111111111111),
    )
    assert (s.sufficiency, s.minimality) == (pytest.approx(7 / 9), metrics.Minimality(1.0, 3, 2))
    assert score(state, "saliency", "position").pearson == pytest.approx(0.277822254297243, abs=1e-14)
    sampler = state.position.sampler
    assert (sampler.cell, sampler.base, sampler.row + 1, sampler.col + 1) == (54, 160, 162, 17)
    assert (len(sampler.footprint), sampler.changed) == (40, 240)


@pytest.mark.parametrize(
    ("game", "vector"),
    [
        ("breakout", (72, 165, 190, 103, 64, 128)),
        ("space_invaders", (24, 82, 192, 35, 44, 88)),
        ("seaquest", (70, 76, 52, 77, 46, 92)),
        ("ms_pacman", (8, 88, 84, 77, 60, 120)),
        ("qbert", (67, 0, 19, 1, 37, 73)),
    ],
)
def test_sampler_vectors(game: str, vector: tuple[int, ...], rom: FindRom) -> None:
    s = State(rom(game)).position.sampler
    assert (s.cell, s.base, s.row + 1, s.col + 1, len(s.footprint), s.changed) == vector


def test_controls(rom: FindRom) -> None:
    values = []
    for game in SOME:
        state = State(rom(game))
        for kind in ("content", "position"):
            s = score(state, "oracle", kind, curves=False)
            assert s.pearson == pytest.approx(1.0) or np.ptp(s.oracle) == 0
            values.append(score(state, "random", kind, curves=False).pearson)
    assert abs(float(np.mean(values))) < 0.35


def test_lime_reports_no_noise(rom: FindRom) -> None:
    """Hero's content answers no mask: the published 0.049 is the correlation of rounding noise."""
    s = score(State(rom("hero")), "lime", "content", curves=False)
    assert not s.attribution.any() and s.pearson == 0


def test_guided_backprop_position_is_always_zero(rom: FindRom) -> None:
    s = score(State(rom("pong")), "guided_backprop", "position", curves=False)
    assert not s.attribution.any() and s.extra["negative_entries_cut"] == 1


# ---------------------------------------------------------------------------------------------------- audit


def test_every_method_runs_on_our_cartridge(glass: State) -> None:
    assert not glass.labelled and glass.cells
    for name in methods.names():
        if name == "kernel_shap_lib":
            pytest.importorskip("shap")
        for kind in ("content", "position"):
            s = score(glass, name, kind, curves=name == "saliency")
            assert s.attribution.shape == (len(glass.causes),) and -1 <= s.pearson <= 1


PLUGIN = """
from vcs import xai

@xai.register("raises")
def raises(state, output, causes):
    raise ZeroDivisionError("on purpose")

@xai.register("nan")
def nan(state, output, causes):
    return [float("nan")] * len(causes)

@xai.register("short")
def short(state, output, causes):
    return [1.0]

@xai.register("fine")
def fine(state, output, causes):
    return [float(c.cell) for c in causes]
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Any:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    yield str(path)
    for name in ("raises", "nan", "short", "fine"):
        methods._METHODS.pop(name, None)


def test_audit_survives_bad_methods_and_continues(
    tmp_path: Path, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    names = ["raises", "nan", "short", "fine", "saliency"]
    first = audit.run_audit(["glass"], names, out, plugins=[plugin])
    assert (first.written, first.there, len(first.failures)) == (4, 0, 6)
    reasons = " ".join(f[3] for f in first.failures)
    assert "on purpose" in reasons and "NaN" in reasons and "one number per cause" in reasons
    again = audit.run_audit(["glass"], ["fine", "saliency"], out, plugins=[plugin])
    assert (again.written, again.there) == (0, 4)
    # a damaged record is made again, the others stay
    (out / "fine_glass_content.npz").write_bytes(b"PK\3\4 half")
    assert audit.run_audit(["glass"], ["fine", "saliency"], out, plugins=[plugin]).written == 1
    # a full disk is a failure of that record only
    real = records.files.write

    def full(path: Any, fill: Any) -> Any:
        if "fine" in str(path):
            raise VcsError(f"{path} cannot be written (No space left on device): choose another path")
        return real(path, fill)

    monkeypatch.setattr(records.files, "write", full)
    short = audit.run_audit(["glass"], ["fine", "random"], tmp_path / "other", plugins=[plugin])
    assert short.written == 2 and {f[1] for f in short.failures} == {"fine"}


def test_interrupted_audit_keeps_what_is_written(tmp_path: Path) -> None:
    def stop(done: int, total: int, result: audit.Done) -> None:
        raise KeyboardInterrupt

    first = audit.run_audit(["glass"], ["saliency"], tmp_path, states=2, progress=stop)
    assert first.interrupted and first.written == 2
    second = audit.run_audit(["glass"], ["saliency"], tmp_path, states=2)
    assert (second.written, second.there) == (2, 2)
    assert len(audit.over_states(tmp_path)[0]["F_per_state"]) == 2


def test_record_schema(tmp_path: Path) -> None:
    audit.run_audit(["glass"], ["saliency"], tmp_path)
    for kind in ("content", "position"):
        record, arrays = records.load(tmp_path / f"saliency_glass_{kind}.json")
        assert record["method"] == "vanilla_saliency" and record["metric_name"] == "pearson_corr_with_oracle"
        extra = record["extra"]
        assert set(extra["oracle_abs_delta_per_cause"]) == set(extra["cause_names"])
        assert set(extra["saliency_attr_per_cause"]) == set(extra["cause_names"])
        assert {
            "F",
            "S",
            "M",
            "S_note",
            "M_note",
            "M_true_minimal_size",
            "M_named_size",
            "definition",
        } == set(extra["triad"])
        assert ("testbed" in extra and "sampler_on" in extra) == (kind == "position")
        assert arrays["scalars"].shape == (6,) and arrays["scalars"][0] == record["value"]
        assert len(arrays["deletion_curve"]) == record["n"] + 1
        assert (
            extra["provenance"]["stream_sha256"] == load_json("audit_actions.json")["sha256_of_comma_joined"]
        )
    for text in ("{", "[]", "{}"):
        (tmp_path / "bad_glass_content.json").write_text(text)
        with pytest.raises(VcsError, match="delete it and run the audit again"):
            records.load(tmp_path / "bad_glass_content.json")
    assert len(list(records.every(tmp_path))) == 2


def test_names_are_checked() -> None:
    assert len(audit.resolve_games("64")) == 64 and len(audit.resolve_games("42")) == 42
    assert len(audit.resolve_games("labelled")) == 54 and len(audit.resolve_games("all")) == 104
    with pytest.raises(VcsError, match="unknown game"):
        audit.resolve_games("pongg")
    with pytest.raises(VcsError, match="cannot be scored here"):
        audit.resolve_methods("grad_cam")
    with pytest.raises(VcsError, match="no game named"):
        audit.resolve_games(",")
    with pytest.raises(VcsError, match="unknown backend"):
        audit.run_audit([], [], "x", backend="smoke")
    with pytest.raises(VcsError, match="no Python file"):
        audit.load_plugin("/nowhere/mine.py")


def test_dask_cluster_gives_the_same_records(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    audit.run_audit(["glass"], ["saliency", "occlusion"], tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        done = audit.run_audit(
            ["glass"],
            ["saliency", "occlusion"],
            tmp_path / "there",
            backend="dask",
            scheduler=cluster.scheduler_address,
        )
    assert done.written == 4 and not done.failures
    for path, record in records.every(tmp_path / "here"):
        other = records.load(tmp_path / "there" / path.name)[0]
        for volatile in ("timestamp",):
            record.pop(volatile), other.pop(volatile)
        assert record == other


# --------------------------------------------------------------------------------------- labels, command line


def test_labels_of_our_cartridge() -> None:
    table = labels.measure("glass", states=1)
    assert not table.labelled and any(c.role == "moves" for c in table.cells)
    assert labels.LabelTable.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_labels_of_pong_follow_the_picture(rom: FindRom) -> None:
    """The measured line says where the thing is after another value is written."""
    table = labels.measure(rom("pong"), states=1)
    moving = [c for c in table.cells if c.role == "moves" and (c.row or c.column)]
    assert table.labelled and moving
    assert all(line.residual < 3 for c in moving for line in (c.row, c.column) if line)


def test_environment_with_measured_positions(rom: FindRom) -> None:
    """The wrapper's column of Pong's ball is where the ball is drawn."""
    gymnasium = pytest.importorskip("gymnasium")
    import vcs.env  # noqa: F401

    rom("pong")
    table = labels.measure("pong", states=1)
    env = labels.aligned(gymnasium.make("VCS/Pong-v5", frameskip=1, repeat_action_probability=0.0), table)
    _, info = env.reset(seed=0)
    assert set(info["objects"]) >= {"ball_x", "ball_y"}
    checked = 0
    for _ in range(200):
        observation, _, _, _, info = env.step(0)
        column, row = info["objects"]["ball_x"][0], info["objects"]["ball_y"][1]
        white = np.argwhere((observation[35:190] == 236).all(axis=-1))
        if len(white) == 8:
            # RAM is read at the end of the frame: it places the ball of this frame or of the next
            assert abs(white[:, 1].mean() - column) <= 3 and abs(white[:, 0].mean() + 35 - row) <= 5
            checked += 1
    assert checked > 20


def test_commands(tmp_path: Path) -> None:
    run = CliRunner().invoke
    result = run(
        app, ["audit", "--games", "glass", "--methods", "saliency,random", "--out", str(tmp_path / "a")]
    )
    assert result.exit_code == 0, result.output
    board = json.loads((tmp_path / "a" / "leaderboard.json").read_text())
    assert {r["method"] for r in board["rows"]} == {"saliency", "random"}
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["failures"] == []
    assert (tmp_path / "a" / "leaderboard.csv").is_file() and (
        tmp_path / "a" / "leaderboard.parquet"
    ).is_file()
    result = run(app, ["labels", "glass", "--states", "1", "--out", str(tmp_path / "l")])
    assert (
        result.exit_code == 0 and json.loads((tmp_path / "l" / "glass.json").read_text())["game"] == "glass"
    )
    assert "**discovered**" in (tmp_path / "l" / "labels.md").read_text()


def test_tables_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["saliency", "saliency_e2e_bit", "saliency_e2e_value", "oracle"]
    audit.run_audit(["glass"], names, tmp_path, states=2)
    tables.main(str(tmp_path))
    text = capsys.readouterr().out
    assert "| oracle | 1 | 1.000 |" in text
    assert "| oracle | 2 | 1.000 | 1.000 to 1.000 | 1.000, 1.000 |" in text
    assert "### Headline, all states" in text and text.count("| F | position | bit | 1 |") == 2
    with pytest.raises(VcsError, match="no audit records"):
        tables.main(str(tmp_path / "state_001" / "none"))


def test_a_game_in_several_states_counts_once_in_the_headline() -> None:
    def record(method: str, game: str, value: float) -> dict[str, Any]:
        extra = {"method_key": method, "output_kind": "content", "metrics": {"spearman_corr": value / 2}}
        return {"game": game, "value": value, "extra": extra}

    found = [record("saliency", "pong", value) for value in (0.2, 0.6)]
    found += [record("saliency", "qbert", -1.0)]
    found += [record("saliency_e2e_bit", game, 1.0) for game in ("pong", "pong", "qbert")]
    (entry,) = audit.headline(found)
    assert (entry["games"], entry["F_end_to_end"], entry["rank_end_to_end"]) == (2, 1.0, 0.5)
    assert entry["F_hand_made"] == pytest.approx(0.2) and entry["F_difference"] == pytest.approx(0.8)
    assert entry["rank_hand_made"] == pytest.approx(0.1) and entry["rank_difference"] == pytest.approx(0.4)


# ---------------------------------------------------------------------------------------------------- report


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.found.append(value)
            if name == "id" and value:
                self.ids.add(value)


def read(page: Path) -> Links:
    parser = Links()
    parser.feed(page.read_text())
    return parser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    audit.run_audit(["glass"], ["saliency", "saliency_e2e_bit", "occlusion", "oracle"], folder)
    report.build(folder, folder / "site")
    return folder / "site"


def test_every_link_of_the_site_resolves(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "saliency.html", "glass.html"} <= {p.name for p in pages}
    for page in pages:
        for link in read(page).found:
            assert not link.startswith("http"), link
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve()
            assert target.is_file(), f"{page}: {link}"
            assert not anchor or anchor in read(target).ids, f"{page}: {link}"


def test_the_index_compares_hand_made_and_end_to_end(site: Path) -> None:
    text = (site / "index.html").read_text()
    assert "own gradient</h2>" in text and "<td>position</td><td>bit</td><td>1</td>" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_site_in_a_browser(site: Path) -> None:
    """A headless Chromium asks for every picture and style of a page, and gets each."""
    asked: dict[str, int] = {}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def send_response(self, code: int, message: str | None = None) -> None:
            asked[self.path] = code
            super().send_response(code, message)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = "pages/saliency/glass.html"
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
                f"http://127.0.0.1:{server.server_port}/{page}",
            ],
            check=True,
            capture_output=True,
            timeout=120,
            env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},  # a sanitizer is not for it
        )
    finally:
        server.shutdown()
    others = ("occlusion", "oracle", "saliency_e2e")
    pictures = (p.name for p in (site / "img" / "glass").iterdir() if not p.name.startswith(others))
    wanted = {f"/img/glass/{name}" for name in pictures}
    assert wanted <= set(asked) and "/style.css" in asked
    assert all(code in (200, 304) for path, code in asked.items() if "favicon" not in path)


def test_report_without_records(tmp_path: Path) -> None:
    with pytest.raises(VcsError, match="holds no audit records"):
        report.build(tmp_path, tmp_path / "site")


def test_shared_names_of_the_package() -> None:
    from vcs import xai

    assert xai.State is State and xai.Oracle is Oracle and "register" in dir(xai)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = xai.nothing

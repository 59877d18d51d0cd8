"""The audit's parts that need no cartridge: generator, metrics, read-outs, causes, method registry."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vcs.data import load_json
from vcs.errors import VcsError
from vcs.xai import causes, figures, labels, methods, metrics, outputs, rng
from vcs.xai.methods import kernel_shap, rise

# ---------------------------------------------------------------------------------------------- generator


def test_key_of_seed_0() -> None:
    words = " ".join(f"{w:08x}" for w in rng.seed_key(0))
    assert words == "98613fdf db2fa904 2d195740 48d73dc4 dc8a77ea 8c49bc52 c02405e8 1911b814"


def test_first_outputs_and_words() -> None:
    assert [f"{x:016x}" for x in rng.Generator(0).outputs(3)] == [
        "3ff7198583b46b33",
        "3ff0328d3a035dda",
        "3ff14348c3ca941e",
    ]
    generator = rng.Generator(0)
    assert [f"{generator.word():016x}" for _ in range(4)] == [
        "1fb1b4b323a70320",
        "bed3df982b8143f2",
        "8511fd74be3c9d3e",
        "0490526a6b17cd92",
    ]
    assert rng.Generator(key=[0]).uniform() == 0.8236475079774124
    assert round(rng.Generator(key=[1234]).uniform(), 13) == round(0.5908446386657102, 13)


def test_action_stream_is_the_published_one() -> None:
    data = load_json("audit_actions.json")
    assert rng.action_stream(0, len(data["actions"])) == data["actions"]
    joined = ",".join(map(str, data["actions"]))
    assert hashlib.sha256(joined.encode()).hexdigest() == data["sha256_of_comma_joined"]


def test_normals() -> None:
    found = rng.Generator(0).normals(128)
    assert np.allclose(found[:4], [-0.7587307823, 0.0324971733, 0.0486897151, 0.4265536092], atol=5e-11)
    many = rng.Generator(3).normals(20000)
    assert stats.kstest(many, "norm").pvalue > 0.001


def test_seeded_draws_of_the_methods() -> None:
    generator = rng.Generator(1234567)
    drawn = [(1 + generator.below(90), round(generator.uniform32(), 8)) for _ in range(3)]
    assert drawn == [(11, 0.40365195), (18, 0.35902131), (35, 0.07540131)]
    mask = rise.random_masks(rng.Generator(7919), 1, 16)[0]
    assert "".join("01"[int(k)] for k in mask) == "0001100011110101"
    mask = rise.random_masks(rng.Generator(6271), 1, 16)[0]
    assert "".join("01"[int(k)] for k in mask) == "1101000000001001"
    assert rng.Generator(0).permutation(7) == [5, 2, 7, 4, 3, 6, 1]
    with pytest.raises(VcsError, match="negative"):
        rng.Generator(-1)


def test_coalitions_weigh_what_the_kernel_says() -> None:
    drawn = kernel_shap.coalitions(rng.Generator(6151), 7, 512)
    assert all(1 <= len(present) <= 6 for present in drawn)
    alone = kernel_shap.coalitions(rng.Generator(0), 2, 8)
    assert sum(alone.values()) == pytest.approx(8 * 0.5)


# ------------------------------------------------------------------------------------------------ metrics
A = [0, 0, 1, 1, 0, 0, 0, 0]
O = [0, 3, 17, 40, 5, 0, 0, 2]  # noqa: E741


def test_worked_example() -> None:
    assert metrics.pearson(A, O) == pytest.approx(0.8892313739811178, abs=1e-15)
    assert metrics.mean_ranks(A).tolist() == [3.5, 3.5, 7.5, 7.5, 3.5, 3.5, 3.5, 3.5]
    assert metrics.mean_ranks(O).tolist() == [2, 5, 7, 8, 6, 2, 2, 4]
    assert metrics.spearman(A, O) == pytest.approx(0.7745966692414834, abs=1e-15)
    assert metrics.descending(A) == [2, 3, 0, 1, 4, 5, 6, 7]
    assert metrics.descending(O) == [3, 2, 4, 1, 7, 0, 5, 6]
    assert metrics.precision_at_k(A, O) == pytest.approx(2 / 3)
    assert metrics.sufficiency(A, O) == 0.75
    assert metrics.minimality(A, O) == metrics.Minimality(1.0, 5, 2)


def test_degenerate_rules() -> None:
    assert metrics.pearson([1], [2]) == 0
    assert metrics.pearson([0.1] * 7, range(7)) == 0  # a mean of 0.1 has a rounding residue
    assert metrics.sufficiency([1, 2, 3], [1, 2, 3]) is None
    assert metrics.minimality([0, 0], [1, 2]).value is None
    assert metrics.minimality([1, 2], [0, 0]).value is None
    assert metrics.aucs([4, 4], [4, 4]) == (None, None)
    assert metrics.aucs([0, 1], [1, 0]) == (0.5, 0.5)
    assert metrics.clip01(-0.3) == 0 and metrics.clip01(1.0000001) == 1
    assert metrics.mean_or_none([None, None]) is None and metrics.half_width([1.0]) == 0
    with pytest.raises(ValueError, match="one length"):
        metrics.pearson([1, 2], [1, 2, 3])


numbers = st.lists(st.integers(-50, 50), min_size=4, max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 50)), min_size=4, max_size=30))
def test_against_scipy(pairs: list[tuple[int, int]]) -> None:
    a, o = [float(p[0]) for p in pairs], [float(p[1]) for p in pairs]
    if len(set(a)) > 1 and len(set(o)) > 1:
        assert metrics.pearson(a, o) == pytest.approx(stats.pearsonr(a, o).statistic, abs=1e-12)
        assert metrics.spearman(a, o) == pytest.approx(stats.spearmanr(a, o).statistic, abs=1e-12)
    assert metrics.mean_ranks(a).tolist() == stats.rankdata(a).tolist()
    s = metrics.sufficiency(a, o)
    assert s is not None and 0 <= s <= 1
    assert metrics.pearson(o, o) in (0.0, pytest.approx(1.0))


def test_bootstrap_contains_the_mean() -> None:
    low, high = metrics.bootstrap([0.1, 0.4, 0.2, 0.9])
    assert low <= 0.4 <= high
    assert np.isnan(metrics.bootstrap([])[0])


# ---------------------------------------------------------------------------------------------- read-outs


def sprite(*columns: int, row: int = 5) -> outputs.Sampler:
    footprint = np.array([(row, c) for c in columns], np.int32)
    return outputs.Sampler(54, row, min(columns), footprint, 160)


def test_sampler_gradient_at_the_kinks() -> None:
    ram = np.zeros(128, np.float32)
    ram[54] = 160
    assert sprite(17, 18, 19).gradient(ram)[54] == -1  # the pixel right of the cell is in the footprint
    assert sprite(17, 19, 33).gradient(ram)[54] == 0
    assert sprite(17, 18).value(ram) == 1.0
    ram[54] = 160.25  # both pixels' slopes, -1 and 1
    assert sprite(17, 18).gradient(ram)[54] == -1
    ram[54] = 170
    assert not sprite(17, 18).gradient(ram).any()
    assert not outputs.Sampler(-1, 0, 0, np.zeros((0, 2), np.int32), 0).gradient(ram).any()


@settings(max_examples=40, deadline=None)
@given(st.floats(-3, 3), st.sets(st.integers(10, 20), min_size=1, max_size=6))
def test_sampler_gradient_between_kinks(shift: float, columns: set[int]) -> None:
    """Away from integers and the clamp the stated derivative is the derivative."""
    s = sprite(*columns)
    ram = np.zeros(128, np.float32)
    ram[54] = 160 + shift
    fraction = shift - np.floor(shift)
    if not 0.05 < fraction < 0.95:
        return
    up, down = ram.copy(), ram.copy()
    up[54] += 0.01
    down[54] -= 0.01
    if 0.02 < s.value(ram) < 0.98:
        assert s.gradient(ram)[54] == pytest.approx((s.value(up) - s.value(down)) / 0.02, abs=0.01)


def test_column_major_first_and_choice_of_byte() -> None:
    mask = np.zeros((6, 8), bool)
    mask[4, 2] = mask[1, 3] = mask[5, 2] = True
    assert outputs.column_major_first(mask) == (4, 2)
    assert outputs.column_major_first(np.zeros((3, 3), bool)) is None
    base = np.zeros((210, 160), np.uint8)
    small, large = base.copy(), base.copy()
    small[10, 10:12] = 2
    large[50, 40:46] = 2
    ram = np.arange(128, dtype=np.uint8)
    probes = {3: small, 4: large, 49: base, 54: base}
    names = {3: "ball_x", 4: "enemy.x", 5: "lives"}
    chosen = outputs.choose_sampler([3, 4, 5], names, ram, base, probes)
    assert (chosen.cell, chosen.row, chosen.col, len(chosen.footprint)) == (4, 50, 40, 6)
    static = outputs.choose_sampler([5], names, ram, base, {49: base, 54: base})
    assert (static.cell, static.row, static.col) == (-1, 104, 79)
    assert outputs.Position.of(static).name == "screen_region(n_changed_px)@r105c80"
    fallback = outputs.choose_sampler([5], names, ram, base, {49: base, 54: small})
    assert fallback.cell == 54


def test_position_words() -> None:
    assert all(outputs.is_position_concept(c) for c in ("player_x", "b1.xy", "Ball Position", "direction "))
    assert not any(outputs.is_position_concept(c) for c in ("score", "lives", "next_level", "maxy"))


# ------------------------------------------------------------------------------------- causes and methods


def test_causes_of_two_cells() -> None:
    ram = [0] * 128
    ram[7] = 250
    found = causes.audit_causes([7, 3], ram, {7: "a_x"})
    assert [c.name for c in found] == [
        "ram[7]:set",
        "ram[7]:occlude",
        "ram[3]:set",
        "ram[3]:occlude",
        "tia[COLUBK]:set",
        "joystick:RIGHT",
    ]
    assert found[0].do == (causes.Do(7, "set", 11),) and found[1].do == (causes.Do(7, "set", 0),)
    assert found[-1].occlusion == () and found[-2].occlusion == (causes.Do(causes.COLUBK, "set", 0),)
    with pytest.raises(VcsError, match="unknown operation"):
        causes.Do(1, "explode")
    with pytest.raises(VcsError, match="a whole number from 0 to 17"):
        causes.Act(18)


def test_registry_refuses_what_it_should() -> None:
    with pytest.raises(VcsError, match="unknown method 'nope'"):
        methods.get("nope")
    with pytest.raises(VcsError, match="cannot name a method"):
        methods.register("a/b")
    with pytest.raises(VcsError, match="unknown tradition"):
        methods.register("fine", tradition="magic")
    methods.load()
    with pytest.raises(VcsError, match="already registered"):
        methods.register("saliency")(lambda s, o, c: [])
    with pytest.raises(VcsError, match=r"shape \(2,\), wanted \(3,\)"):
        methods.checked([1, 2], 3, "mine")
    with pytest.raises(VcsError, match="NaN"):
        methods.checked([1, float("nan")], 2, "mine")
    with pytest.raises(VcsError, match="no array of numbers"):
        methods.checked(["a", {}], 2, "mine")  # type: ignore[list-item]


def test_per_cause_ties_set_and_occlude() -> None:
    found = causes.audit_causes([7, 3], [0] * 128, {})
    assert methods.per_cause(found, {3: 2.0}).tolist() == [0, 0, 2, 2, 0, 0]


# -------------------------------------------------------------------------------------- labels and figures


def sweep_of(draw: object) -> tuple[np.ndarray, np.ndarray]:
    values = np.arange(90, 111)
    screens = np.zeros((len(values), 60, 160), np.uint8)
    for picture, value in zip(screens, values, strict=True):
        draw(picture, int(value))  # type: ignore[operator]
    return values, screens


def test_classify_moves_with_its_line() -> None:
    def draw(picture: np.ndarray, value: int) -> None:
        picture[20:24, value - 60 : value - 56] = 6

    values, screens = sweep_of(draw)
    found = labels.classify(values, screens, 10)
    line = labels.fit_line(found.byte.tolist(), found.column.tolist())
    assert found.role == "moves" and len(found.footprint) == 16
    assert line is not None and line.slope == pytest.approx(1) and line.residual < 1e-9
    assert line(100) == pytest.approx(41.5)


def test_classify_recolours_animates_disrupts_nothing() -> None:
    def recolour(picture: np.ndarray, value: int) -> None:
        picture[5:9, 5:9] = value & 0xFE

    def animate(picture: np.ndarray, value: int) -> None:
        for k in range(8):
            picture[30:34, 40 + k] = 8 if value >> k & 1 else 0

    def disrupt(picture: np.ndarray, value: int) -> None:
        picture[:] = np.roll(np.arange(160) % 7, value)

    for draw, role in ((recolour, "recolours"), (animate, "animates"), (disrupt, "disrupts")):
        assert labels.classify(*sweep_of(draw), 10).role == role
    assert labels.classify(*sweep_of(lambda p, v: None), 10).role == "nothing"


def test_label_table_round_trip_and_positions() -> None:
    line = labels.Line(1.0, -60.0, 0.1, 0.99, 20)
    cell = labels.CellReport(4, "ball_x", "moves", line, None, ((1, 2),), 1, 3)
    table = labels.LabelTable("pong", "00", True, 3, (cell,))
    assert labels.LabelTable.from_json(table.to_json()) == table
    ram = np.zeros(128, np.uint8)
    ram[4] = 100
    assert labels.positions(ram, table) == {"ball_x": (40.0, None)}
    with pytest.raises(VcsError, match="no label table"):
        labels.LabelTable.from_json({"game": "pong"})


def test_figures_are_text_that_escapes_names() -> None:
    svg = figures.bars_svg(["a<b", "c"], [1, 2], [0, 0])
    assert "a&lt;b" in svg and svg.count("<rect") == 4
    assert "no curves" in figures.curves_svg([], [])
    warm = figures.heat({1: 2.0, 2: 1.0}, {1: np.eye(4, dtype=bool)}, (4, 4))
    assert warm.max() == 1.0 and warm.sum() == 4.0

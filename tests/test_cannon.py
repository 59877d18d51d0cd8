"""The Space Invaders experiment (soft.md 8): published numbers, true ones, and the scene of section 10."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from vcs.soft import tia
from vcs.soft.cannon import Experiment, app, experiment


@cache
def result() -> Experiment:
    return experiment()


@pytest.fixture
def numbers(rom: Callable[[str], Any]) -> Experiment:
    rom("space_invaders")
    return result()


def test_8_2_the_published_numbers(numbers: Experiment) -> None:
    p = numbers.published
    assert (p.pixels, p.origin, p.background) == (48, (185, 33), 0)
    assert (p.largest, p.non_zero, p.l1) == (98.0, 46, 4508.0)
    assert p.inverse.published == pytest.approx((0, 0, -35.7292, 35.7292), abs=1e-4)
    assert p.inverse.symmetric[3] == pytest.approx(28.5833, abs=1e-4)


def test_8_3_mass_depends_on_the_mask(numbers: Experiment) -> None:
    p = numbers.published
    assert p.share_footprint == pytest.approx(0.478, abs=5e-4)
    assert p.share_dilated == 1.0
    assert p.share_moving == pytest.approx(0.826, abs=5e-4)


def test_8_4_the_naive_map_is_zero(numbers: Experiment) -> None:
    assert numbers.true.naive == numbers.published.naive == 0.0
    assert not numbers.rounded.any()


def test_8_6_and_8_7_the_map_equals_the_machine(numbers: Experiment) -> None:
    t = numbers.true
    assert (t.column_right, t.column, t.column_left) == (48, 47, 46)
    assert t.pixels == 44
    assert t.sampler_non_zero == t.machine_non_zero == 38
    assert t.sampler_l1 == t.machine_l1 == 3724.0
    assert t.differing_pixels == 0
    assert t.share == 1.0
    assert t.inverse.symmetric == pytest.approx((0, 0, -30.0, 30.0), abs=1e-3)
    assert t.inverse.published[3] == pytest.approx(36.818, abs=1e-3)
    assert np.abs(numbers.forward.sum(axis=1)).max() == 0.0  # each row sums to 0


def test_the_links_from_the_stick_to_the_screen(numbers: Experiment) -> None:
    """Each gradient beside the machine's: exact, cut at the branch unless paths join, 6/8 through the ORA."""
    t = numbers.true
    assert t.stick_slope == t.stick_effect == -128.0
    assert t.stick_to_column_pc == (0.0, 0.0, 0.0, 0.0)
    assert t.stick_to_column_join == t.stick_to_column_effect == (0.0, 0.0, -1.0, 1.0)
    assert (t.column_slope_value, t.column_effect) == (0.75, 1.0)


def test_the_command_writes_figure_and_numbers(rom: Callable[[str], Any], tmp_path: Path) -> None:
    rom("space_invaders")
    done = CliRunner().invoke(app, ["--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "cannon.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "cannon.json").read_text())["true"]["differing_pixels"] == 0


# ------------------------------------------------------------- section 10: the synthetic joystick scene

INVADER = (0x18, 0x3C, 0x7E, 0xDB, 0xFF, 0x5A, 0x81, 0x42)
COLOURS = {"COLUP0": 0x3C, "COLUP1": 0x86}


def scene(row: int) -> tuple[list[int], tia.Scene]:
    """One line: an invader on player 1 at 28, three copies 32 apart, a cannon on player 0 at 50."""
    values = [0] * len(tia.PARAMETERS)
    for name, value in {
        **COLOURS,
        "GRP0": INVADER[row],
        "GRP1": INVADER[row],
        "pos P0": 50,
        "pos P1": 28,
    }.items():
        values[tia.PARAMETERS.index(name)] = value
    x = np.arange(160)
    none = np.zeros(160, dtype=int)
    return values, tia.Scene(x, none, none + 6, none, none, none, none, none, none != 0, none)


def slope(row: int, name: str) -> Any:
    values, decisions = scene(row)
    wanted = tia.PARAMETERS.index(name)
    return sum(part.slope for part in tia.slopes(tuple(values), decisions) if part.parameter == wanted)


def test_10_1_colours_are_masks() -> None:
    for row in range(8):
        values, decisions = scene(row)
        picture = tia.draw(tuple(values), decisions)
        for name, colour in {**COLOURS, "COLUBK": 0}.items():
            assert np.array_equal(slope(row, name), picture == colour)


def test_10_2_a_sprite_bit_is_worth_its_colour_times_its_area() -> None:
    """On two lines each (the scene is doubled) a bit of player 0 has the area of one cell: 60 * 2 = 120."""
    for row in range(8):
        values, decisions = scene(row)
        total = np.zeros(8)
        for part in tia.slopes(tuple(values), decisions):
            if part.parameter == tia.PARAMETERS.index("GRP0"):
                total += np.bincount(np.asarray(part.bit), part.slope, 8)
        overlap = {7 - (c - 50) for c in range(50, 58) for o in (28, 60, 92) if o <= c < o + 8}
        assert not overlap
        assert np.array_equal(2 * total, np.full(8, 120.0))


def test_10_3_the_stick_points_at_the_third_invader() -> None:
    """STEP 26 columns per unit of right - left: the pull towards column 92 has signs (0, 0, -, +)."""
    columns = np.arange(160)
    mass = sum(float((slope(row, "COLUP0") * 1.0).sum()) for row in range(8))
    centre = sum(float((slope(row, "COLUP0") * columns).sum()) for row in range(8)) / mass
    moved = sum(float((slope(row, "pos P0") * columns).sum()) for row in range(8)) / (
        COLOURS["COLUP0"] * mass
    )
    assert moved == pytest.approx(1.0)
    pull = -2 * (centre - 92) * moved * 26
    assert pull > 0  # right, and left its opposite; up and down do not enter

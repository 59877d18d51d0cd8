"""Branches as a select over both outcomes (vcs/join.py): exact where a difference can be said in advance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vcs
from vcs import join, layout
from vcs.errors import VcsError


def machine(code: bytes) -> vcs.Machine:
    """A machine that runs `code` once a frame."""
    end = bytes(
        [0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xA9, 0x00, 0x85, 0x00]
    )
    body = code + end + bytes([0x4C, 0x00, 0xF0])
    image = body + bytes(4096 - 4 - len(body)) + bytes([0x00, 0xF0, 0x00, 0xF0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return vcs.Machine(image)


# RAM[1] := RAM[0] odd ? $40 : 0
SELECT = bytes([0xA2, 0x00, 0x86, 0x81, 0xA5, 0x80, 0x4A, 0x90, 0x04, 0xA2, 0x40, 0x86, 0x81, 0xA2, 0x00])


def slope(alpha: float) -> float:
    gate = 1 / (1 + math.exp(-alpha))
    return 2 * alpha * gate * (1 - gate)


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("rules", ["value", "bit"])
def test_a_select_has_the_difference_of_its_outcomes(value: int, rules: str) -> None:
    m = machine(SELECT)
    m.poke_ram(0, value)
    t = m.clone().trace([0])
    assert t.x1[1] == 0x40 * value
    joins = join.find(m, t)
    assert joins.met == 1.0 and len(joins) == joins.branches == 1
    # where they meet, the two sides differ in RAM[1], X and what LDX and LSR left in Z
    assert sorted(layout.name(int(place)) for place in joins.place) == ["RAM[0x01]", "X", "Z"]
    assert vcs.grad(t, ("ram", 1), rules=rules).ram[0].max() == 0
    g = join.grad_join(t, ("ram", 1), joins, rules=rules, alpha=2.0)
    byte = g.ram[0] if rules == "value" else g.ram[0][0]
    assert byte == pytest.approx(0x40 * slope(2.0), rel=1e-12)
    secant = join.grad_join(t, ("ram", 1), joins, rules=rules, slope=1.0).ram[0]
    assert np.max(secant) == 0x40
    assert g.control == "join" and g.value == 0x40 * value


def test_a_loop_that_would_end_a_round_earlier_or_later() -> None:
    """A division by repeated subtraction, the usual way to a sprite's column."""
    m = machine(bytes([0xA0, 0x00, 0xA5, 0x80, 0x38, 0xC8, 0xE9, 0x0F, 0xB0, 0xFB, 0x84, 0x81]))
    m.poke_ram(0, 40)
    t = m.clone().trace([0])
    joins = join.find(m, t)
    assert joins.met == 1.0
    assert join.grad_join(t, ("ram", 1), joins, rules="value").ram[0] != 0
    assert np.abs(join.grad_join(t, ("ram", 1), joins).ram[0]).sum() != 0


def test_paths_that_never_meet_are_left_out() -> None:
    # BEQ to a loop that never comes back
    m = machine(bytes([0xA9, 0x01, 0xF0, 0x03, 0x4C, 0x0A, 0xF0, 0x4C, 0x07, 0xF0]))
    joins = join.find(m, m.clone().trace([0]), limit=50)
    assert (joins.branches, len(joins), joins.met) == (1, 0, 0.0)


def test_the_machine_is_left_as_it_was_and_must_be_the_traces() -> None:
    m = machine(SELECT)
    t = m.clone().trace([0, 0])
    before = m.snapshot()
    join.find(m, t)
    assert m.snapshot() == before
    other = machine(SELECT[:-1] + b"\x01")
    with pytest.raises(VcsError, match="another ROM"):
        join.find(other, t)
    with pytest.raises(VcsError, match="limit"):
        join.find(m, t, limit=0)


def test_joins_of_another_trace_are_refused() -> None:
    m = machine(SELECT)
    joins = join.find(m, m.clone().trace([0]))
    far = join.Joins(
        joins.branch + 10**6,
        joins.meet + 10**6,
        joins.start,
        joins.place,
        joins.other,
        joins.here,
        joins.steps,
        joins.cycles,
        1,
    )
    with pytest.raises(ValueError, match="joins"):
        join.grad_join(m.clone().trace([0]), ("ram", 1), far)


@pytest.mark.slow
@pytest.mark.parametrize(("game", "line", "cell"), [("freeway", "P0 up", 14), ("seaquest", "P0 right", 70)])
def test_the_joystick_reaches_ram_through_branches(
    game: str, line: str, cell: int, rom: Callable[[str], Any]
) -> None:
    """A position that a joystick line moves: its exact effect, times the slope of the one branch between."""
    rom(game)
    m = vcs.Machine(game)
    m.run(np.zeros(200, np.int32))
    pressed = m.clone()
    pressed.run(np.full(2, 2 if line.endswith("up") else 3, np.int32))
    t = m.clone().trace([0, 0])
    effect = int(pressed.ram[cell]) - int(t.x1[cell])
    assert effect != 0
    g = join.grad_join(t, ("ram", cell), join.find(m, t), rules="bit")
    assert g.at(line).sum() == pytest.approx(effect * slope(2.0), rel=1e-9)
    assert not vcs.grad(t, ("ram", cell), rules="bit").at(line).any()

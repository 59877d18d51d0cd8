"""Each primitive of the soft machine and its derivative rule, under both rule sets.

`bit`: the exact difference of every output bit when one input bit flips, by brute force. `value`: the
slopes of docs/gradients.md, written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd.core import make_vjp

from vcs.errors import VcsError
from vcs.soft import ops
from vcs.soft.ops import BITS, WEIGHTS, Cell
from vcs.soft.rules import BIT, NAMES, VALUE, contraction, rule_set

RNG = np.random.default_rng(7)


def cotangent(op: Callable[..., Any], args: tuple[int, ...], n: int, g: Any) -> Any:
    """Cotangent of argument n of a primitive, given that of its answer."""

    def one(cell: Any) -> Any:
        return op(*args[:n], cell, *args[n + 1 :])

    vjp, _ = make_vjp(one, Cell(args[n]))
    return vjp(g)


# name -> kinds of its arguments (b byte, f flag, d decimal 0 or 1), whether it answers a byte
CASES: dict[str, tuple[str, bool]] = {
    "add": ("bbfd", True),
    "add_carry": ("bbfd", False),
    "add_overflow": ("bbfd", False),
    "sub": ("bbfd", True),
    "sub_carry": ("bbfd", False),
    "sub_overflow": ("bbfd", False),
    "difference": ("bb", True),
    "not_less": ("bb", False),
    "increment": ("b", True),
    "decrement": ("b", True),
    "and_": ("bb", True),
    "or_": ("bb", True),
    "xor": ("bb", True),
    "shift_left": ("bf", True),
    "shift_right": ("bf", True),
    "zero": ("b", False),
    "arr_a": ("bfd", True),
    "arr_n": ("bfd", False),
    "arr_v": ("bfd", False),
    "arr_z": ("bfd", False),
    "arr_c": ("bfd", False),
    "flags_byte": ("ffffff", True),
    "intim": ("bx", True),
    "port_a": ("ffffffff", True),
    "port_b": ("fffff", True),
    "fire_pin": ("fx", True),
}


def draw(kind: str) -> int:
    if kind == "b":
        return int(RNG.integers(256))
    return int(RNG.integers(64)) if kind == "x" else int(RNG.integers(2))


@pytest.mark.parametrize("name", CASES)
def test_bit_rule_is_the_boolean_difference(name: str) -> None:
    kinds, byte = CASES[name]
    raw, op = getattr(ops, name), getattr(rule_set("bit"), name)
    for _ in range(60):
        args = tuple(draw(kind) for kind in kinds)
        g: Any = RNG.normal(size=8) if byte else float(RNG.normal())
        for n, kind in enumerate(kinds):
            if kind not in "bf":
                continue

            def out(value: int, n: int = n, args: tuple[int, ...] = args) -> Any:
                answer = raw(*args[:n], value, *args[n + 1 :])
                return BITS[answer] if byte else int(answer)

            if kind == "f":
                expected: Any = np.sum(np.multiply(out(1) - out(0), g))
            else:
                expected = [
                    np.sum(np.multiply(out(args[n] | 1 << k) - out(args[n] & ~(1 << k)), g)) for k in range(8)
                ]
            assert np.allclose(cotangent(op, args, n, g), expected, rtol=0, atol=1e-12), (name, args, n)


@pytest.mark.parametrize("k", range(8))
@pytest.mark.parametrize("rules", NAMES)
def test_a_flag_that_copies_a_bit(k: int, rules: str) -> None:
    slope = cotangent(rule_set(rules).bit, (0x5A, k), 0, 1.0)
    expected = 2.0**-k if rules == "value" else [float(j == k) for j in range(8)]
    assert np.array_equal(slope, expected)


def pop(byte: int) -> int:
    return byte.bit_count()


def zero_slope(u: int) -> float:
    if u == 0:
        return -255 / 1024
    return -1 / (8 * u) if pop(u) == 1 else 0.0


# name -> slope in each byte or flag argument
SLOPES: dict[str, Callable[..., tuple[float, ...]]] = {
    "add": lambda a, m, c, d: (1, 1, 1),
    "add_carry": lambda a, m, c, d: (1 / 256, 1 / 256, 1 / 256),
    "sub": lambda a, m, c, d: (1, -1, 1),
    "sub_carry": lambda a, m, c, d: (1 / 256, -1 / 256, 1 / 256),
    "difference": lambda a, m: (1, -1),
    "not_less": lambda a, m: (1 / 256, -1 / 256),
    "increment": lambda u: (1,),
    "decrement": lambda u: (1,),
    "and_": lambda a, m: (pop(m) / 8, pop(a) / 8),
    "or_": lambda a, m: (1 - pop(m) / 8, 1 - pop(a) / 8),
    "xor": lambda a, m: (1 - pop(m) / 4, 1 - pop(a) / 4),
    "shift_left": lambda u, c: (2, 1),
    "shift_right": lambda u, c: (0.5, 128),
    "zero": lambda u: (zero_slope(u),),
    "arr_a": lambda t, c, d: (0.5, 128),
    "arr_n": lambda t, c, d: (0, 1),
    "flags_byte": lambda *flags: (128, 64, 8, 4, 2, 1),
    "intim": lambda n, e: (1,),
    "port_a": lambda *lines: (-1, -2, -4, -8, -16, -32, -64, -128),
    "port_b": lambda *lines: (-1, -2, 8, 64, 128),
    "fire_pin": lambda fire, noise: (-128,),
}


@pytest.mark.parametrize("name", SLOPES)
def test_value_rule_is_the_documented_slope(name: str) -> None:
    kinds, _ = CASES[name]
    op = getattr(rule_set("value"), name)
    for _ in range(60):
        args = tuple(draw(kind) for kind in kinds)
        for n, slope in enumerate(SLOPES[name](*args)):
            assert cotangent(op, args, n, 1.0) == pytest.approx(slope, abs=1e-15), (name, args, n)


@pytest.mark.parametrize(
    "name", ["add_overflow", "sub_overflow", "arr_v", "arr_z", "arr_c", "and_", "or_", "xor", "zero"]
)
def test_logic_under_value_is_the_contraction_of_bit(name: str) -> None:
    kinds, byte = CASES[name]
    raw = getattr(ops, name)
    for _ in range(60):
        args = tuple(draw(kind) for kind in kinds)
        for n, kind in enumerate(kinds):
            if kind != "b":
                continue
            expected = contraction(lambda u, n=n, args=args: raw(*args[:n], u, *args[n + 1 :]), args[n])
            assert cotangent(getattr(rule_set("value"), name), args, n, 1.0) == pytest.approx(expected)
            # and the contraction is the mean of the bit rule's derivatives, each per unit of its bit
            g = WEIGHTS if byte else 1.0
            bits = cotangent(getattr(rule_set("bit"), name), args, n, g)
            assert expected == pytest.approx(np.sum(bits / WEIGHTS) / 8)


@pytest.mark.parametrize("cycle", [0, 3, 4, 12, 20, 21, 54, 55, 64, 74, 75])
def test_hmove(cycle: int) -> None:
    for hm in range(0, 256, 16):
        motion, passes = ops.motion(hm >> 4, cycle)
        for position in (0, 1, 80, 159):
            args = (position, hm, cycle)
            assert rule_set("value").hmove(*args) == (position + motion) % 160
            for rules in NAMES:
                assert cotangent(rule_set(rules).hmove, args, 0, 1.0) == 1.0
            assert cotangent(rule_set("value").hmove, args, 1, 1.0) == (-1 / 16 if passes else 0.0)
            bits = [
                ops.motion((hm | 1 << k) >> 4, cycle)[0] - ops.motion((hm & ~(1 << k)) >> 4, cycle)[0]
                for k in range(8)
            ]
            assert np.array_equal(cotangent(rule_set("bit").hmove, args, 1, 1.0), bits)


def test_motions_are_the_measured_ones(vectors: Callable[[str], Any]) -> None:
    for cycle, row in enumerate(vectors("tia_hmove")["delta"]):
        assert [ops.motion(n, cycle)[0] for n in range(16)] == row


@pytest.mark.parametrize("rules", NAMES)
def test_words_and_branches(rules: str) -> None:
    op = rule_set(rules)
    low, high = cotangent(op.word, (0x34, 0x12, 1), 0, 1.0), cotangent(op.word, (0x34, 0x12, 1), 1, 1.0)
    assert op.word(0x34, 0x12, 1) == 0x1235
    unit: Any = 1.0 if rules == "value" else WEIGHTS
    assert np.array_equal(low, unit * 1.0) and np.array_equal(high, unit * 256.0)
    for flag, sense, displacement in ((1, 1, 100), (0, 1, 100), (0, -1, 0xF0), (1, -1, 0x80)):
        args = (0xF000, flag, displacement, sense, 10.0)
        g = ops.gate(sense * (2 * flag - 1), 10.0)
        delta = displacement - 256 * (displacement > 127)
        assert cotangent(op.branch, args, 0, 1.0) == 1.0
        assert cotangent(op.branch, args, 1, 1.0) == pytest.approx(
            2 * sense * 10 * g * (1 - g) * delta, rel=1e-9
        )
        signed: Any = 1.0 if rules == "value" else np.append(WEIGHTS[:7], -128.0)
        assert np.allclose(cotangent(op.branch, args, 2, 1.0), g * signed)


@pytest.mark.parametrize("rules", NAMES)
def test_increments_in_a_row_are_one_function(rules: str) -> None:
    op = rule_set(rules).stepped
    for n in (1, -1, 37, -190):
        for u in (0, 7, 192, 255):
            g: Any = 1.5 if rules == "value" else RNG.normal(size=8)
            expected: Any = g
            if rules == "bit":
                after = [(BITS[(u | 1 << k) + n & 255], BITS[(u & ~(1 << k)) + n & 255]) for k in range(8)]
                expected = [(high - low) @ g for high, low in after]
            assert np.allclose(cotangent(op, (u, n), 0, g), expected)


@pytest.mark.parametrize("rules", NAMES)
def test_a_look_up_has_the_differences_of_its_table(rules: str) -> None:
    op, table = rule_set(rules).look_up, [int(b) for b in RNG.integers(256, size=258)]

    def read(index: int) -> int:
        return table[index % 258]

    g: Any = 1.5 if rules == "value" else RNG.normal(size=8)
    for index in (0, 5, 200, 255):
        args = (read(index), index, read)
        assert np.array_equal(cotangent(op, args, 0, g), g)
        if rules == "value":
            expected: Any = g * (read(index + 1) - read(index - 1)) / 2
        else:
            expected = [(BITS[read(index | 1 << k)] - BITS[read(index & ~(1 << k))]) @ g for k in range(8)]
        assert np.allclose(cotangent(op, args, 1, g), expected)


@pytest.mark.parametrize("rules", NAMES)
def test_every_primitive_has_a_rule_in_both_sets(rules: str) -> None:
    assert VALUE.keys() == BIT.keys()
    assert set(CASES) <= set(VALUE)
    for name in VALUE:
        assert callable(getattr(rule_set(rules), name))


def test_an_unknown_rule_set_is_refused() -> None:
    with pytest.raises(VcsError, match="rule set"):
        rule_set("words")

"""The derivative rules of the primitives of `ops.py` and of `tia.pixels`, beside them by name.

Two rule sets (docs/gradients.md): `value` has one derivative per byte, `bit` eight. A rule is what
autograd's `defvjp` takes: (answer, *arguments) -> (cotangent of the answer -> cotangent of the argument).
A byte's cotangent is a float under `value` and a float64[8] under `bit`; a flag's, line's, counter's or
position's is a float under both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from autograd.extend import (
    Box,
    SparseObject,
    VSpace,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    vspace,
)

from vcs.errors import VcsError
from vcs.soft import ops, tia
from vcs.soft.ops import BITS, WEIGHTS, Cell

Array = npt.NDArray[np.float64]
Rule = Callable[..., Callable[[Any], Any]]


class CellBox(Box):  # type: ignore[misc]
    __slots__ = ()


class CellSpace(VSpace):  # type: ignore[misc]
    """What autograd needs to start or end a derivative at a single Cell."""

    def zeros(self) -> float:
        return 0.0

    def ones(self) -> float:
        return 1.0


CellBox.register(Cell)
CellSpace.register(Cell)


def _forward(g: Any) -> Any:
    return g


def _one_flip(k: int) -> Array:
    unit = np.zeros(8)
    unit[k] = 1.0
    return unit


_UNIT: Final = [_one_flip(k) for k in range(8)]
_POP: Final = [byte.bit_count() for byte in range(256)]


# --------------------------------------------------------------------- Boolean differences, contraction


def boolean_difference(f: Callable[[int], int], u: int, g: Array) -> Array:
    """Cotangent of the bits of u: the exact difference of every bit of the byte f(u) when one bit of u
    flips."""
    high = [f(u | 1 << k) for k in range(8)]
    low = [f(u & ~(1 << k)) for k in range(8)]
    out: Array = (BITS[high] - BITS[low]) @ g
    return out


def bit_difference(f: Callable[[int], int], u: int, g: float) -> Array:
    """The same for a single bit f(u)."""
    return np.array([g * (f(u | 1 << k) - f(u & ~(1 << k))) for k in range(8)])


def contraction(f: Callable[[int], int], u: int) -> float:
    """Mean over the eight one-bit flips of u of the secant slope of f."""
    return sum((f(u ^ 1 << k) - f(u)) / ((u ^ 1 << k) - u) for k in range(8)) / 8


# ---------------------------------------------------------------------------------------- shared rules


def _sparse(cells: Array, place: Any, g: Any) -> SparseObject:
    def add(total: Array) -> Array:
        total[place] += g
        return total

    return SparseObject(vspace(cells), add)


def _scatter(ans: int, cells: Array, *place: int) -> Callable[[Any], SparseObject]:
    where = place[0] if len(place) == 1 else place
    return lambda g: _sparse(cells, where, g)


def _numbers(argnum: int, ans: Array, args: Any, kwargs: Any) -> Callable[[Array], float]:
    return lambda g: float(g[argnum])


def _weighted(argnum: int, ans: Any, args: Any, kwargs: Any) -> Callable[[Any], Any]:
    w = kwargs["weights"][argnum]
    return lambda g: w * g


def _gate_slope(flag: int, displacement: int, sense: int, alpha: float) -> float:
    """d PC / d flag of a branch: 2 s alpha g (1 - g) delta."""
    z = sense * (2 * flag - 1)
    return 2 * sense * alpha * ops.gate(z, alpha) * ops.gate(-z, alpha) * ops.signed(displacement)


def _branch_flag(
    ans: int, pc: int, flag: int, displacement: int, sense: int, alpha: float
) -> Callable[[float], float]:
    slope = _gate_slope(flag, displacement, sense, alpha)
    return lambda g: slope * g


def _branch_displacement(
    ans: int, pc: int, flag: int, displacement: int, sense: int, alpha: float
) -> Callable[[float], float]:
    slope = ops.gate(sense * (2 * flag - 1), alpha)
    return lambda g: slope * g


def _scaled(slope: float) -> Rule:
    return lambda ans, *args: lambda g: slope * g


def _same(ans: Any, *args: Any) -> Callable[[Any], Any]:
    return _forward


def _select_logits(ans: Any, logits: Array, rows: Array, temperature: float) -> Callable[[Any], Array]:
    e = np.exp((logits - logits.max()) / temperature)
    w = e / e.sum()

    def back(g: Any) -> Array:
        along = rows @ np.asarray(g) if rows.ndim > 1 else rows * g
        result: Array = w * (along - w @ along) / temperature
        return result

    return back


def _select_rows(ans: Any, logits: Array, rows: Array, temperature: float) -> Callable[[Any], Array]:
    e = np.exp((logits - logits.max()) / temperature)
    return lambda g: np.multiply.outer(e / e.sum(), g)


def _pixels(join: Callable[[tia.Contribution, Array], Any], byte: int) -> Callable[..., Any]:
    """The rule of `tia.pixels` and `tia.collision`: all their slopes, put together as the rule set says; a
    byte has `byte` derivatives."""

    def rule(
        argnums: tuple[int, ...], ans: Array, args: tuple[int, ...], kwargs: Any
    ) -> Callable[[Array], Any]:
        def back(g: Array) -> tuple[Any, ...]:
            totals: dict[int, Any] = {
                a: np.zeros(byte) if byte > 1 and not tia.PARAMETERS[a].startswith("pos") else 0.0
                for a in argnums
            }
            for part in kwargs["parts"]:
                if part.parameter in totals:
                    totals[part.parameter] = totals[part.parameter] + join(part, np.atleast_1d(g))
            return tuple(totals.values())

        return back

    return rule


# ------------------------------------------------------------------------------------------ `value`


def _flag_slopes(f: Callable[..., int]) -> tuple[Rule, Rule, Rule]:
    """V: the contraction in both bytes, the plain difference in the carry."""

    def in_a(ans: int, a: int, m: int, c: int, d: int) -> Callable[[float], float]:
        slope = contraction(lambda u: f(u, m, c, d), a)
        return lambda g: slope * g

    def in_m(ans: int, a: int, m: int, c: int, d: int) -> Callable[[float], float]:
        slope = contraction(lambda u: f(a, u, c, d), m)
        return lambda g: slope * g

    def in_c(ans: int, a: int, m: int, c: int, d: int) -> Callable[[float], float]:
        slope = f(a, m, 1, d) - f(a, m, 0, d)
        return lambda g: slope * g

    return in_a, in_m, in_c


def _contracted(f: Callable[..., int]) -> Rule:
    def rule(ans: int, u: int, *rest: int) -> Callable[[float], float]:
        slope = contraction(lambda v: f(v, *rest), u)
        return lambda g: slope * g

    return rule


def _no_slope(ans: Any, *args: Any) -> Callable[[Any], float]:
    return lambda g: 0.0


def _passing(slope: Callable[[int], float]) -> tuple[Rule, Rule]:
    """AND, ORA, EOR: the contraction in one operand depends on the other only."""

    def first(ans: int, a: int, m: int) -> Callable[[float], float]:
        s = slope(m)
        return lambda g: s * g

    def second(ans: int, a: int, m: int) -> Callable[[float], float]:
        s = slope(a)
        return lambda g: s * g

    return first, second


def _value_join(part: tia.Contribution, g: Array) -> float:
    slope = part.slope
    if part.bit is not None and not isinstance(part.bit, int):
        slope = slope / 2.0**part.bit
    return float(g @ slope)


_C_SLOPE: Final = 1 / 256  # straight-through floor of sum / 256

VALUE: Final[dict[str, tuple[Rule, ...]]] = {
    "read": (_scatter,),
    "line": (_scatter,),
    "number": (_scatter,),
    "latch": (
        lambda ans, latches, register, *rest: lambda g: _sparse(latches, register, g),
        _no_slope,
        _no_slope,
        _scaled(128.0),
        _scaled(64.0),
    ),
    "look_up": (_same, lambda ans, entry, part, table: _scaled((table(part + 1) - table(part - 1)) / 2)(ans)),
    "add": (_same, _same, _same),
    "add_carry": (_scaled(_C_SLOPE),) * 3,
    "add_overflow": _flag_slopes(ops.add_overflow),
    "sub": (_same, _scaled(-1.0), _same),
    "sub_carry": (_scaled(_C_SLOPE), _scaled(-_C_SLOPE), _scaled(_C_SLOPE)),
    "sub_overflow": _flag_slopes(ops.sub_overflow),
    "difference": (_same, _scaled(-1.0)),
    "not_less": (_scaled(_C_SLOPE), _scaled(-_C_SLOPE)),
    "increment": (_same,),
    "decrement": (_same,),
    "stepped": (_same,),
    "and_": _passing(lambda m: _POP[m] / 8),
    "or_": _passing(lambda m: 1 - _POP[m] / 8),
    "xor": _passing(lambda m: 1 - _POP[m] / 4),
    "shift_left": (_scaled(2.0), _same),
    "shift_right": (_scaled(0.5), _scaled(128.0)),
    "bit": (lambda ans, u, k: lambda g: g / (1 << k),),
    "zero": (_contracted(ops.zero),),
    "flags_byte": tuple(_scaled(float(1 << k)) for k in (7, 6, 3, 2, 1, 0)),
    "arr_a": (_scaled(0.5), _scaled(128.0)),
    # N of the binary form is bit 7 of A and so bit 7 of ROR, that is the carry, as in the decimal form
    "arr_n": (_no_slope, _same),
    "arr_v": (_contracted(ops.arr_v), _no_slope),
    "arr_z": (_contracted(ops.arr_z), _no_slope),
    "arr_c": (_contracted(ops.arr_c), _no_slope),
    "word": (_same, _scaled(256.0)),
    "advance": (_same,),
    "branch": (_same, _branch_flag, _branch_displacement),
    "relaxed_branch": (_same, _branch_flag, _branch_displacement),
    "select": (_select_logits, _select_rows),
    "intim": (_same,),
    "port_a": tuple(_scaled(-float(1 << k)) for k in range(8)),
    "port_b": tuple(_scaled(s) for s in (-1.0, -2.0, 8.0, 64.0, 128.0)),
    "fire_pin": (_scaled(-128.0),),
    "hmove": (
        _same,
        lambda ans, position, hm, cycle: _scaled(-1 / 16 if ops.motion(hm >> 4, cycle)[1] else 0.0)(ans),
    ),
    "moved": (_same,),
}

# -------------------------------------------------------------------------------------------- `bit`


def _difference(f: Callable[..., int], n: int) -> Rule:
    """Boolean difference of the byte f in its n-th argument."""

    def rule(ans: int, *args: int) -> Callable[[Array], Array]:
        return lambda g: boolean_difference(lambda u: f(*args[:n], u, *args[n + 1 :]), args[n], g)

    return rule


def _flag_difference(f: Callable[..., int], n: int) -> Rule:
    """Boolean difference of the bit f in the byte that is its n-th argument."""

    def rule(ans: int, *args: int) -> Callable[[float], Array]:
        return lambda g: bit_difference(lambda u: f(*args[:n], u, *args[n + 1 :]), args[n], g)

    return rule


def _in_flag(f: Callable[..., int], n: int) -> Rule:
    """Boolean difference of the byte f in the flag that is its n-th argument."""

    def rule(ans: int, *args: int) -> Callable[[Array], float]:
        change = BITS[f(*args[:n], 1, *args[n + 1 :])] - BITS[f(*args[:n], 0, *args[n + 1 :])]
        return lambda g: float(change @ g)

    return rule


def _flag_in_flag(f: Callable[..., int], n: int) -> Rule:
    """Boolean difference of the flag f in the flag that is its n-th argument."""

    def rule(ans: int, *args: int) -> Callable[[float], float]:
        change = f(*args[:n], 1, *args[n + 1 :]) - f(*args[:n], 0, *args[n + 1 :])
        return lambda g: float(change * g)

    return rule


def _gate(slope: Callable[[Array], Array]) -> tuple[Rule, Rule]:
    def first(ans: int, a: int, m: int) -> Callable[[Array], Array]:
        s = slope(BITS[m])
        return lambda g: s * g

    def second(ans: int, a: int, m: int) -> Callable[[Array], Array]:
        s = slope(BITS[a])
        return lambda g: s * g

    return first, second


def _pick(k: int, sign: float = 1.0) -> Rule:
    """A flag or line that becomes bit k of a byte."""
    return lambda ans, *args: lambda g: sign * float(g[k])


def _bits_left(ans: int, u: int, c: int) -> Callable[[Array], Array]:
    return lambda g: np.append(g[1:], 0.0)


def _bits_right(ans: int, u: int, c: int) -> Callable[[Array], Array]:
    return lambda g: np.insert(g[:-1], 0, 0.0)


def _latched(ans: int, latches: Array, register: int, *rest: int) -> Callable[[Array], SparseObject]:
    return lambda g: _sparse(latches, register, g * (BITS[0xC0]))


def _entries(ans: int, entry: int, part: int, table: Callable[[int], int]) -> Callable[[Array], Array]:
    return lambda g: boolean_difference(table, part, g)


_SIGNED_WEIGHTS: Final = WEIGHTS * np.array([1, 1, 1, 1, 1, 1, 1, -1])


def _hmove_bits(ans: int, position: int, hm: int, cycle: int) -> Callable[[float], Array]:
    return lambda g: bit_difference(lambda u: ops.motion(u >> 4, cycle)[0], hm, g)


def _branch_bits(
    ans: int, pc: int, flag: int, displacement: int, sense: int, alpha: float
) -> Callable[[float], Array]:
    slope = ops.gate(sense * (2 * flag - 1), alpha) * _SIGNED_WEIGHTS
    return lambda g: slope * g


def _bit_join(part: tia.Contribution, g: Array) -> Any:
    weighted = g * part.slope
    if part.bit is None:
        return float(weighted.sum())
    if isinstance(part.bit, int):
        return float(weighted.sum()) * WEIGHTS * BITS[0xFE]  # bit 0 of a colour register is not wired
    return np.bincount(part.bit + np.zeros(len(weighted), dtype=int), weighted, 8)


BIT: Final[dict[str, tuple[Rule, ...]]] = {
    "read": (_scatter,),
    "line": (_scatter,),
    "number": (_scatter,),
    "latch": (_latched, _no_slope, _no_slope, _pick(7), _pick(6)),
    "look_up": (_same, _entries),
    "add": (_difference(ops.add, 0), _difference(ops.add, 1), _in_flag(ops.add, 2)),
    "add_carry": (
        _flag_difference(ops.add_carry, 0),
        _flag_difference(ops.add_carry, 1),
        _flag_in_flag(ops.add_carry, 2),
    ),
    "add_overflow": (
        _flag_difference(ops.add_overflow, 0),
        _flag_difference(ops.add_overflow, 1),
        _flag_in_flag(ops.add_overflow, 2),
    ),
    "sub": (_difference(ops.sub, 0), _difference(ops.sub, 1), _in_flag(ops.sub, 2)),
    "sub_carry": (
        _flag_difference(ops.sub_carry, 0),
        _flag_difference(ops.sub_carry, 1),
        _flag_in_flag(ops.sub_carry, 2),
    ),
    "sub_overflow": (
        _flag_difference(ops.sub_overflow, 0),
        _flag_difference(ops.sub_overflow, 1),
        _flag_in_flag(ops.sub_overflow, 2),
    ),
    "difference": (_difference(ops.difference, 0), _difference(ops.difference, 1)),
    "not_less": (_flag_difference(ops.not_less, 0), _flag_difference(ops.not_less, 1)),
    "increment": (_difference(ops.increment, 0),),
    "decrement": (_difference(ops.decrement, 0),),
    "stepped": (_difference(ops.stepped, 0),),
    "and_": _gate(lambda m: m),
    "or_": _gate(lambda m: 1 - m),
    "xor": _gate(lambda m: 1 - 2 * m),
    "shift_left": (_bits_left, _pick(0)),
    "shift_right": (_bits_right, _pick(7)),
    "bit": (lambda ans, u, k: lambda g: g * _UNIT[k],),
    "zero": (_flag_difference(ops.zero, 0),),
    "flags_byte": tuple(_pick(k) for k in (7, 6, 3, 2, 1, 0)),
    "arr_a": (_difference(ops.arr_a, 0), _in_flag(ops.arr_a, 1)),
    "arr_n": (_flag_difference(ops.arr_n, 0), _flag_in_flag(ops.arr_n, 1)),
    "arr_v": (_flag_difference(ops.arr_v, 0), _flag_in_flag(ops.arr_v, 1)),
    "arr_z": (_flag_difference(ops.arr_z, 0), _flag_in_flag(ops.arr_z, 1)),
    "arr_c": (_flag_difference(ops.arr_c, 0), _flag_in_flag(ops.arr_c, 1)),
    "word": (lambda ans, *args: lambda g: g * WEIGHTS, lambda ans, *args: lambda g: 256.0 * g * WEIGHTS),
    "advance": (_same,),
    "branch": (_same, _branch_flag, _branch_bits),
    "relaxed_branch": (_same, _branch_flag, _branch_bits),
    "select": (_select_logits, _select_rows),
    "intim": (_difference(ops.intim, 0),),
    "port_a": tuple(_pick(k, -1.0) for k in range(8)),
    "port_b": (_pick(0, -1.0), _pick(1, -1.0), _pick(3), _pick(6), _pick(7)),
    "fire_pin": (_pick(7, -1.0),),
    "hmove": (_same, _hmove_bits),
    "moved": (_same,),
}


def _bytes_out(argnum: int, ans: Array, args: Any, kwargs: Any) -> Callable[[Array], Array]:
    return lambda g: g[argnum] * WEIGHTS


# ------------------------------------------------------------------------------------ the two sets

NAMES: Final = ("value", "bit")


@cache
def rule_set(name: str) -> Any:
    """The primitives of `ops` and of `tia`, differentiated by the rule set `name` ("value" or "bit").

    Raises VcsError for another name.
    """
    if name not in NAMES:
        raise VcsError(f"there is no rule set {name!r}: use one of {', '.join(NAMES)}")
    table = VALUE if name == "value" else BIT
    made: dict[str, Any] = {op: primitive(getattr(ops, op)) for op in table}
    for op, rules in table.items():
        defvjp(made[op], *rules)
    made["pack"] = primitive(ops.pack)
    defvjp_argnum(made["pack"], _numbers if name == "value" else _bytes_out)
    made["pack_numbers"] = primitive(ops.pack_numbers)
    defvjp_argnum(made["pack_numbers"], _numbers)
    made["relaxed_read"] = primitive(ops.relaxed_read)
    defvjp_argnum(made["relaxed_read"], _weighted)
    made["pixels"] = primitive(tia.pixels)
    made["collision"] = primitive(tia.collision)
    for drawn in ("pixels", "collision"):
        defvjp_argnums(made[drawn], _pixels(_value_join, 1) if name == "value" else _pixels(_bit_join, 8))
    return SimpleNamespace(**made)

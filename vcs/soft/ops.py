"""The primitives of the soft machine: what each computes. `rules.py` holds their derivatives, by the same
names.

Everything is an exact integer function of the machine, so a forward value never depends on alpha or T
(soft.md 4) except in the relaxed ones. A number that carries a derivative is a `Cell`: an int that
autograd can box. Under the `value` rules its cotangent is a float, under `bit` a byte's is a float64[8].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

BITS = np.array([[byte >> k & 1 for k in range(8)] for byte in range(256)], dtype=np.float64)
WEIGHTS = 2.0 ** np.arange(8)


class Cell(int):
    """A byte, bit, counter or position of the machine."""

    __slots__ = ()


def plain(value: Any) -> int:
    """The int inside a Cell, boxed or not."""
    return int(getattr(value, "_value", value))


# ------------------------------------------------------------------------------------------ memory


def read(cells: npt.NDArray[np.float64], index: int) -> Cell:
    """The cell at `index` (soft.md 2.1): a gather, whose derivative is one-hot.

    `cells` is float64[n] under the value rules and float64[n, 8], bit 0 first, under the bit rules.
    """
    row = cells[index]
    return Cell(row if cells.ndim == 1 else row @ WEIGHTS)


def line(lines: npt.NDArray[np.float64], frame: int, index: int) -> Cell:
    """Input line `index` during `frame`; `lines` is float64[F, 32]."""
    return Cell(lines[frame, index])


def number(numbers: npt.NDArray[np.float64], index: int) -> Cell:
    """Element `index` of a float64[n] of flags, positions or counters: one derivative under both rule
    sets."""
    return Cell(numbers[index])


def latch(latches: npt.NDArray[np.float64], register: int, recorded: int, d7: int, d6: int) -> Cell:
    """A read of a collision register: the recorded byte; `latches` float64[16] or [16, 8] is what it is a
    leaf of, `d7` and `d6` the latches behind its upper bits."""
    return Cell(recorded)


def look_up(entry: int, part: int, table: Callable[[int], int]) -> Cell:
    """A byte read at an address of which `part`, an index or a byte of a pointer, is one summand: `entry`.

    `table` says what would have been read with another value in its place.
    """
    return Cell(entry)


def pack(*cells: int) -> npt.NDArray[np.float64]:
    """Bytes as one array, float64[n]: how the machine's state leaves it."""
    return np.array(cells, dtype=np.float64)


def pack_numbers(*cells: int) -> npt.NDArray[np.float64]:
    """Flags, counters and positions as one array, float64[n]."""
    return np.array(cells, dtype=np.float64)


def relaxed_read(centre: int, *neighbours: int, weights: npt.NDArray[np.float64]) -> Cell:
    """round(sum of weights[k] * cell k), the relaxed read of soft.md 2.5 over the centre and its
    neighbours."""
    return Cell(round(float(weights @ np.array((centre, *neighbours), dtype=np.float64))))


def read_weights(temperature: float, window: int) -> npt.NDArray[np.float64]:
    """Weights of a relaxed read: the centre, then -1, +1, -2, +2 and so on up to `window`."""
    distance = np.array([0] + [k for k in range(1, window + 1) for _ in (0, 1)], dtype=np.float64)
    w = np.exp(-distance / temperature)
    return np.asarray(w / w.sum())


# -------------------------------------------------------------------------------------- arithmetic

_DECODE = [10 * (b >> 4) + (b & 15) for b in range(256)]  # cpu.md 7.2
_ENCODE = [16 * (v % 100 // 10) + v % 10 for v in range(256)]


def add(a: int, m: int, c: int, decimal: int) -> Cell:
    """Sum of ADC (cpu.md 7.1, 7.3)."""
    if decimal:
        return Cell(_ENCODE[_DECODE[a] + _DECODE[m] + c & 255])
    return Cell(a + m + c & 255)


def add_carry(a: int, m: int, c: int, decimal: int) -> Cell:
    if decimal:
        return Cell(_DECODE[a] + _DECODE[m] + c > 99)
    return Cell(a + m + c > 255)


def add_overflow(a: int, m: int, c: int, decimal: int) -> Cell:
    r = add(a, m, c, decimal)
    if decimal:
        return Cell((a ^ r) & (r ^ m) & 0x80 > 0)
    return Cell((a ^ r) & (m ^ r) & 0x80 > 0)


def sub(a: int, m: int, c: int, decimal: int) -> Cell:
    """Difference of SBC (cpu.md 7.1, 7.4)."""
    if not decimal:
        return Cell(a - m - 1 + c & 255)
    t = _DECODE[a] - _DECODE[m] - 1 + c
    if t < 0:
        t += 100
    # still negative: only with digits above 9, where the table of 7.2 is entered from its other end
    return Cell(_ENCODE[t] if t >= 0 else _DECODE[256 + t])


def sub_carry(a: int, m: int, c: int, decimal: int) -> Cell:
    return Cell(a >= m + 1 - c)


def sub_overflow(a: int, m: int, c: int, decimal: int) -> Cell:
    r = sub(a, m, c, decimal)
    if decimal:
        return Cell((a ^ r) & (r ^ m) & 0x80 > 0)
    return Cell((a ^ m) & (a ^ r) & 0x80 > 0)


def difference(a: int, m: int) -> Cell:
    """The byte whose N and Z a compare sets."""
    return Cell(a - m & 255)


def not_less(a: int, m: int) -> Cell:
    """C of a compare."""
    return Cell(a >= m)


def increment(u: int) -> Cell:
    return Cell(u + 1 & 255)


def decrement(u: int) -> Cell:
    return Cell(u - 1 & 255)


def stepped(u: int, n: int) -> Cell:
    """A byte after n increments (negative: decrements) in a row, as one function of what it was before."""
    return Cell(u + n & 255)


# ------------------------------------------------------------------------------- logic and shifts


def and_(a: int, m: int) -> Cell:
    return Cell(int(a) & m)


def or_(a: int, m: int) -> Cell:
    return Cell(int(a) | m)


def xor(a: int, m: int) -> Cell:
    return Cell(int(a) ^ m)


def shift_left(u: int, c: int) -> Cell:
    """ASL (c = 0) and ROL."""
    return Cell((u << 1 | c) & 255)


def shift_right(u: int, c: int) -> Cell:
    """LSR (c = 0) and ROR."""
    return Cell(u >> 1 | c << 7)


def bit(u: int, k: int) -> Cell:
    """A flag that copies bit k of a byte."""
    return Cell(u >> k & 1)


def zero(u: int) -> Cell:
    """Z: the NOR of the eight bits."""
    return Cell(u == 0)


def flags_byte(n: int, v: int, d: int, i: int, z: int, c: int) -> Cell:
    """P as PHP and BRK push it (cpu.md 2.2)."""
    return Cell(n << 7 | v << 6 | 0x30 | d << 3 | i << 2 | z << 1 | c)


def arr(t: int, c: int, decimal: int) -> tuple[int, int, int, int, int]:
    """A, N, V, Z, C of ARR with t = A AND operand (cpu.md 9.1). Not a primitive: the five below are."""
    r = t >> 1 | c << 7
    if not decimal:
        return r, r >> 7, (r >> 6 ^ r >> 5) & 1, int(r == 0), r >> 6 & 1
    n, z, v, carry = c, int(r == 0), (t ^ r) >> 6 & 1, 0
    if (t & 15) + (t & 1) > 5:
        r = r & 0xF0 | r + 6 & 15
    if (t & 0xF0) + (t & 16) > 0x50:
        carry = 1
        r = r + 0x60 & 255
    return r, n, v, z, carry


def arr_a(t: int, c: int, decimal: int) -> Cell:
    return Cell(arr(t, c, decimal)[0])


def arr_n(t: int, c: int, decimal: int) -> Cell:
    return Cell(arr(t, c, decimal)[1])


def arr_v(t: int, c: int, decimal: int) -> Cell:
    return Cell(arr(t, c, decimal)[2])


def arr_z(t: int, c: int, decimal: int) -> Cell:
    return Cell(arr(t, c, decimal)[3])


def arr_c(t: int, c: int, decimal: int) -> Cell:
    return Cell(arr(t, c, decimal)[4])


# ------------------------------------------------------------------------------- program counter


def word(low: int, high: int, offset: int) -> Cell:
    """A program counter made of two bytes."""
    return Cell(low + 256 * high + offset & 0xFFFF)


def advance(pc: int, length: int) -> Cell:
    return Cell(pc + length & 0xFFFF)


def gate(z: float, alpha: float) -> float:
    """1 / (1 + exp(-alpha z)), without overflow, and exact in its small tail: 1 - g is gate(-z)."""
    u = alpha * z
    if u >= 0:
        return 1.0 / (1.0 + math.exp(-u))
    return math.exp(u) / (1.0 + math.exp(u))


def branch(pc: int, flag: int, displacement: int, sense: int, alpha: float) -> Cell:
    """PC after a branch (soft.md 2.3, straight-through): `pc` is its address, `sense` +1 for branch-if-set
    and
    -1 for branch-if-clear, `displacement` the operand byte."""
    taken = flag == (sense > 0)
    return Cell(pc + 2 + (signed(displacement) if taken else 0) & 0xFFFF)


def relaxed_branch(pc: int, flag: int, displacement: int, sense: int, alpha: float) -> Cell:
    """PC after a fully relaxed branch: the gate's blend, rounded."""
    blend = gate(sense * (2 * flag - 1), alpha) * signed(displacement)
    return Cell(round(pc + 2 + blend) & 0xFFFF)


def signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte + 0


def select(logits: npt.NDArray[np.float64], rows: npt.NDArray[np.float64], temperature: float) -> Any:
    """The soft select of soft.md 2.2: softmax(logits / T) applied to one row per candidate."""
    e = np.exp((logits - logits.max()) / temperature)
    return (e / e.sum()) @ rows


# ------------------------------------------------------------------------------------- RIOT, ports


def intim(n: int, elapsed: int) -> Cell:
    """INTIM of a running timer: `elapsed` whole intervals since `n` was written (riot.md 4)."""
    return Cell(n - 1 - elapsed & 255)


def port_a(*lines: int) -> Cell:
    """SWCHA from its eight input lines, D0 first; a line is 1 while its contact is closed."""
    return Cell(sum((1 - closed) << k for k, closed in enumerate(lines)))


def port_b(reset: int, select: int, colour: int, left: int, right: int) -> Cell:
    """SWCHB (riot.md 3)."""
    return Cell(right << 7 | left << 6 | 0x34 | colour << 3 | (1 - select) << 1 | (1 - reset))


def fire_pin(fire: int, noise: int) -> Cell:
    """INPT4, INPT5: D7 low while the button is pressed."""
    return Cell((1 - fire) << 7 | noise)


# --------------------------------------------------------------------------------------------- TIA

_LOW = (-6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6)
_UP = (6, 5, 4, 4, 3, 2, 1, 1, 0, -1, -2, -2, -3, -4, -5, -5, -6, -7, -8, -8)


def motion(nibble: int, cycle: int) -> tuple[int, bool]:
    """Pixels that HMOVE at line cycle `cycle` moves an object by, and whether the nibble decides them
    (tia.md 9.2)."""
    base = -nibble if nibble < 8 else 16 - nibble
    if cycle <= 3 or cycle == 75:
        return base, True
    if cycle <= 20:
        low = _LOW[cycle - 4]
        return max(base, low), base >= low
    if cycle <= 54:
        return 0, False
    up = _UP[cycle - 55]
    return min(0, base + up), base + up <= 0


def hmove(position: int, hm: int, cycle: int) -> Cell:
    """An object's column after HMOVE; `hm` its motion register's byte."""
    return Cell((position + motion(hm >> 4, cycle)[0]) % 160)


def moved(position: int, pixels: int) -> Cell:
    """A column moved by a constant: RESMP's release, a Cosmic Ark step."""
    return Cell((position + pixels) % 160)

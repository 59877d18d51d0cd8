"""The random generator of the published audit: dSFMT-19937 with the seeding and samplers of its study.

Models sections 1.3 (G1-G6) and 9.8-9.11 of the audit protocol: the seed goes through SHA-256, the key
fills the state, and every draw comes from one of two caches, floats and 64-bit integers, which refill
from one common output sequence. Needed to reproduce the seeded methods bit by bit and to extend the
action stream. Leaves out every sampler the audit does not use.
"""

from __future__ import annotations

import hashlib
import math
import struct
from functools import lru_cache

import numpy as np

from vcs.errors import VcsError

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
_M128 = (1 << 128) - 1
_M52 = (1 << 52) - 1
_PAIRS = 191
_FLOATS = 1002
_INTEGERS = 1254


def seed_key(seed: int) -> list[int]:
    """The eight 32-bit key words of an integer seed (G1)."""
    if seed < 0:
        raise VcsError(f"seed {seed} is negative; the audit's generator takes seeds from 0 upwards")
    words = [seed & _M32]
    while seed := seed >> 32:
        words.append(seed & _M32)
    digest = hashlib.sha256(struct.pack(f"<{len(words)}I", *words)).digest()
    return list(struct.unpack("<8I", digest))


def key_state(key: list[int]) -> list[int]:
    """The 384 words (382 of state, two of lung) that a key fills (G2)."""
    size, lag, mid = 768, 11, 378
    a = [0x8B8B8B8B] * size

    def step(i: int, mixed: int, add: int, last: bool) -> None:
        multiplier = 1566083941 if last else 1664525
        r = ((mixed ^ (mixed >> 27)) * multiplier) & _M32
        p, q = (i + mid) % size, (i + mid + lag) % size
        if last:
            a[p] ^= r
            r = (r - i) & _M32
            a[q] ^= r
        else:
            a[p] = (a[p] + r) & _M32
            r = (r + add) & _M32
            a[q] = (a[q] + r) & _M32
        a[i] = r

    step(0, a[0] ^ a[mid] ^ a[size - 1], len(key), False)
    i = 1
    for j in range(max(len(key) + 1, size) - 1):
        step(i, a[i] ^ a[(i + mid) % size] ^ a[i - 1], i + (key[j] if j < len(key) else 0), False)
        i = (i + 1) % size
    for _ in range(size):
        step(i, (a[i] + a[(i + mid) % size] + a[i - 1]) & _M32, 0, True)
        i = (i + 1) % size
    u = [a[2 * n] | a[2 * n + 1] << 32 for n in range(384)]
    for n in range(382):
        u[n] = (u[n] & _M52) | 0x3FF << 52
    t = ((u[382] ^ 0x90014964B32F4329) & 0x3D84E1AC0DC82880) ^ ((u[383] ^ 0x3B8D12AC548A7C7A) & 1)
    if t.bit_count() % 2 == 0:
        u[383] ^= 1
    return u


@lru_cache(maxsize=1)
def _ziggurat() -> tuple[list[int], list[float], list[float]]:
    """The layer tables k, w, f of the normal sampler (G6)."""
    r, area, m = 3.6541528853610088, 0.0049286732339746519, float(1 << 51)
    f, w, k = [0.0] * 256, [0.0] * 256, [0] * 256
    f[255], w[255] = math.exp(-0.5 * r * r), r / m
    k[0] = int(r * f[255] / area * m)
    w[0] = area / f[255] / m
    f[0] = 1.0
    big = r
    for i in range(254, 0, -1):
        x = math.sqrt(-2.0 * math.log(area / big + f[i + 1]))
        k[i + 1] = int(x / big * m)
        w[i], f[i] = x / m, math.exp(-0.5 * x * x)
        big = x
    return k, w, f


class Generator:
    """The audit's generator for one seed; draws as the protocol's seeded methods make them.

    ``Generator(seed)`` or ``Generator(key=[...])`` for a raw key of 32-bit words.
    """

    def __init__(self, seed: int = 0, *, key: list[int] | None = None) -> None:
        state = key_state(seed_key(seed) if key is None else key)
        self._u, self._lung = state[:382], (state[382], state[383])
        self._outputs: list[int] = []
        self._next = 0
        self._floats: list[int] = []
        self._integers: list[int] = []

    def _block(self) -> None:
        """One pass of the recurrence over all pairs (G3)."""
        u, (l0, l1) = self._u, self._lung
        for n in range(_PAIRS):
            m = 2 * ((n + 117) % _PAIRS)
            t0, t1 = u[2 * n], u[2 * n + 1]
            k0 = ((t0 << 19) & _M64) ^ (l1 >> 32) ^ ((l1 << 32) & _M64) ^ u[m]
            k1 = ((t1 << 19) & _M64) ^ (l0 >> 32) ^ ((l0 << 32) & _M64) ^ u[m + 1]
            l0, l1 = k0, k1
            u[2 * n] = (l0 >> 12) ^ (l0 & 0x000FFAFFFFFFFB3F) ^ t0
            u[2 * n + 1] = (l1 >> 12) ^ (l1 & 0x000FFDFFFC90FFFD) ^ t1
        self._lung = (l0, l1)

    def outputs(self, count: int) -> list[int]:
        """The next ``count`` 64-bit outputs, each the bits of a double in [1, 2)."""
        while len(self._outputs) - self._next < count:
            self._block()
            self._outputs = self._outputs[self._next :] + self._u
            self._next = 0
        first, self._next = self._next, self._next + count
        return self._outputs[first : self._next]

    def bits52(self) -> int:
        """A 52-bit draw from the float cache."""
        if not self._floats:
            self._floats = self.outputs(_FLOATS)[::-1]
        return self._floats.pop() & _M52

    def uniform(self) -> float:
        """A double in [0, 1), a multiple of 2**-52."""
        return self.bits52() / (1 << 52)

    def uniform32(self) -> float:
        """A single-precision uniform in [0, 1): the low 23 bits of a float-cache output (9.11)."""
        return (self.bits52() & 0x7FFFFF) / (1 << 23)

    def word(self) -> int:
        """A 64-bit draw from the integer cache (G4)."""
        if not self._integers:
            raw = self.outputs(_INTEGERS)
            words = [raw[2 * i] | raw[2 * i + 1] << 64 for i in range(627)]
            for m in range(125):
                for j, shift in enumerate((48, 36, 24, 12)):
                    words[4 * m + j] ^= (words[501 + m] << shift) & _M128
            words[500] ^= (words[626] << 48) & _M128
            self._integers = [half for w in words[:501] for half in (w & _M64, w >> 64)]
        return self._integers.pop()

    def below(self, n: int) -> int:
        """An integer in 0..n-1 by the nearly-division-less rule (G5)."""
        product = self.word() * n
        if product & _M64 < n:
            threshold = ((1 << 64) - n) % n
            while product & _M64 < threshold:
                product = self.word() * n
        return product >> 64

    def normals(self, count: int) -> np.ndarray:
        """``count`` (13 or more) standard normals, float64[count]: all first outputs drawn up front (G6)."""
        first = [self.bits52() for _ in range(count)]
        return np.array([self._normal(v) for v in first])

    def _normal(self, v: int) -> float:
        k, w, f = _ziggurat()
        r = 3.6541528853610088
        while True:
            m = v >> 1
            layer = m & 255
            x = (-m if v & 1 else m) * w[layer]
            if m < k[layer]:
                return x
            if layer == 0:
                while True:
                    xx = -math.log1p(-self.uniform()) / r
                    yy = -math.log1p(-self.uniform())
                    if yy + yy > xx * xx:
                        return -r - xx if (m >> 8) & 1 else r + xx
            if (f[layer - 1] - f[layer]) * self.uniform() + f[layer] < math.exp(-0.5 * x * x):
                return x
            v = self.bits52()

    def permutation(self, n: int) -> list[int]:
        """A random permutation of 1..n (9.9)."""
        out = [1] if n else []
        mask = 3
        for i in range(2, n + 1):
            while (j := 1 + (self.bits52() & mask)) > i:
                pass
            out.append(i)
            if j != i:
                out[i - 1] = out[j - 1]
                out[j - 1] = i
            if i == mask + 1:
                mask = 2 * mask + 1
        return out


def action_stream(seed: int, count: int) -> list[int]:
    """``count`` actions (0..17) of the audit's action stream for ``seed`` (section 1.3)."""
    generator = Generator(seed)
    return [generator.below(18) for _ in range(count)]

"""Closed forms of the relaxation and the cast-margin model (relaxation.md 2, soft.md 2, 5.2, 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs.trace import Trace

WINDOW: Final = 4
BRANCHES: Final = (0x10, 0x30, 0x50, 0x70, 0x90, 0xB0, 0xD0, 0xF0)
# soft.md 5.2: above the one and below the other every cast of every program is exact
ALPHA_EXACT: Final = math.log(255.0)
TEMPERATURE_EXACT: Final = 1.0 / math.log(1019.0)

Floats = npt.NDArray[np.float64]


def weights(temperature: float) -> Floats:
    """float64[5]: the weight of a byte 0 to 4 places away."""
    w = np.exp(-np.arange(WINDOW + 1) / temperature)
    out: Floats = w / (w[0] + 2 * w[1:].sum())
    return out


def read_pull(near: npt.ArrayLike, temperature: float) -> Floats:
    """How far a relaxed read at a temperature lands from the byte it reads, in units of a byte, float64[...];
    near: float[..., 9], the byte in the middle."""
    values = np.asarray(near, np.float64)
    w = weights(temperature)
    pull = np.zeros(values.shape[:-1])
    for k in range(1, WINDOW + 1):
        pull += w[k] * (values[..., 4 + k] + values[..., 4 - k] - 2 * values[..., 4])
    return pull


def neighbours(memory: npt.ArrayLike, size: int) -> npt.NDArray[np.int16]:
    """int16[N, 9]: every byte with its four neighbours on each side, wrapping in blocks of `size` bytes."""
    m = np.asarray(memory, np.int16)
    size = min(size, len(m))
    blocks = m[: len(m) // size * size].reshape(-1, size)
    near = np.stack([np.roll(blocks, -k, axis=1) for k in range(-WINDOW, WINDOW + 1)], axis=-1)
    return near.reshape(-1, 2 * WINDOW + 1)


def branch_threshold(displacement: npt.ArrayLike) -> Floats:
    """The alpha above which a branch of this displacement rounds right: |d|/(1+exp(alpha)) < 1/2."""
    d = np.abs(np.asarray(displacement, np.float64))
    with np.errstate(divide="ignore"):
        return np.where(d > 0.5, np.log(np.maximum(2 * d - 1, 1e-300)), -np.inf)


def read_threshold(near: npt.ArrayLike) -> Floats:
    """The T below which a read rounds right (its pull is 1/2 there), by bisection; inf if it always does."""
    values = np.atleast_2d(np.asarray(near, np.float64))
    low = np.full(len(values), 0.02)
    high = np.full(len(values), 5.0)
    always = np.abs(_pull_each(values, high)) < 0.5
    for _ in range(60):
        middle = (low + high) / 2
        wrong = np.abs(_pull_each(values, middle)) >= 0.5
        high = np.where(wrong, middle, high)
        low = np.where(wrong, low, middle)
    return np.where(always, np.inf, low)


def _pull_each(values: Floats, temperature: Floats) -> Floats:
    k = np.arange(WINDOW + 1)
    w = np.exp(-k[None, :] / temperature[:, None])
    w /= w[:, :1] + 2 * w[:, 1:].sum(axis=1, keepdims=True)
    near = values[:, 4:] + values[:, 4::-1] - 2 * values[:, 4:5]
    out: Floats = (w[:, 1:] * near[:, 1:]).sum(axis=1)
    return out


@dataclass(frozen=True)
class Margins:
    """What a trace of N instructions executed (relaxation.md 2)."""

    n: int
    branches: int
    rho: float
    f_b: float
    max_abs_offset: int
    distinct_pcs: int
    offsets: npt.NDArray[np.int16]
    fetched: npt.NDArray[np.int16]

    def p_branch(self, alpha: float) -> float:
        """Share of executed branches whose relaxed target rounds right."""
        if len(self.offsets) == 0:
            return 1.0
        return float(np.mean(np.abs(self.offsets) < (1 + math.exp(alpha)) / 2))

    def p_read(self, temperature: float) -> float:
        """Share of opcode fetches whose relaxed value rounds right."""
        return float(np.mean(np.abs(read_pull(self.fetched, temperature)) < 0.5))


def summary(pcs: Sequence[int] | npt.NDArray[Any], rom: bytes | npt.NDArray[np.uint8]) -> Margins:
    """The estimators of the model. pcs: int[N], the program counters before instructions 1..N; rom: the image
    (addresses modulo its size)."""
    pc = np.asarray(pcs, np.int64)
    image = np.frombuffer(bytes(rom), np.uint8)
    size = len(image)
    at = (pc & 0xFFF) % size
    opcode = image[at]
    is_branch = np.isin(opcode, BRANCHES)
    offsets = image[(at[is_branch] + 1) % size].astype(np.int16)
    offsets[offsets > 127] -= 256
    step = pc[1:] - pc[:-1]
    straight = ~is_branch[:-1] & (step >= 1) & (step <= 3)
    return Margins(
        len(pc),
        int(is_branch.sum()),
        float(step[straight].mean()),
        float(is_branch.mean()),
        int(np.abs(offsets).max(initial=0)),
        len(np.unique(pc)),
        offsets,
        neighbours(image, size)[at],
    )


def p_step(m: Margins, alpha: float, temperature: float) -> float:
    """The model's probability that one instruction is exact, p_read^rho p_branch^f_b.

    m: the estimators of a trace (`summary`). alpha, temperature: of the branch gate and the relaxed read.
    """
    return float(m.p_read(temperature) ** m.rho * m.p_branch(alpha) ** m.f_b)


def heatmap(m: Margins, n: int = 180) -> tuple[Floats, Floats, Floats]:
    """(alpha[n], T[n], P_step[n, n]) on log meshes 1..24 and 0.04..1.2; rows are T."""
    alphas = np.geomspace(1, 24, n)
    temperatures = np.geomspace(0.04, 1.2, n)
    branch = np.array([m.p_branch(a) for a in alphas]) ** m.f_b
    read = np.array([m.p_read(t) for t in temperatures]) ** m.rho
    return alphas, temperatures, read[:, None] * branch[None, :]


def margins(trace: Trace) -> list[dict[str, Any]]:
    """Every branch and every ROM or RAM read of a trace with the alpha or T at which it first rounds wrong.

    Rows `kind` ("branch", "fetch", "rom", "ram"), `pc`, `location`, `value`, `threshold`, `count`, sorted so
    that the
    weakest of each kind comes first; equal casts are counted, not repeated. RAM is followed through the
    trace's
    stores, so a cell appears with the neighbours it had.
    """
    from vcs import layout
    from vcs.trace import READ, WROTE

    rom_near = neighbours(trace.rom, 4096)
    ram = trace.ram0.astype(np.int16)
    seen: dict[tuple[Any, ...], int] = {}
    column = {
        name: trace.instr[name].tolist()
        for name in ("pc", "opcode", "b1", "loc0", "loc1", "loc2", "ea_loc", "flags", "wr")
    }
    for pc, op, b1, loc0, loc1, loc2, ea, flags, wr in zip(*column.values(), strict=True):
        for loc in (loc0, loc1, loc2):
            if loc >= layout.ROM:
                key = ("fetch", pc, loc, *rom_near[loc - layout.ROM].tolist())
                seen[key] = seen.get(key, 0) + 1
        if op in BRANCHES:
            key = ("branch", pc, loc0, b1 - 256 if b1 > 127 else b1)
            seen[key] = seen.get(key, 0) + 1
        if flags & READ and op not in (0x28, 0x40, 0x60, 0x68):  # pulls are not hooked
            if ea >= layout.ROM:
                key = ("rom", pc, ea, *rom_near[ea - layout.ROM].tolist())
                seen[key] = seen.get(key, 0) + 1
            elif 0 <= ea < layout.RAM_SIZE:
                key = ("ram", pc, ea, *ram[np.arange(ea - WINDOW, ea + WINDOW + 1) & 0x7F].tolist())
                seen[key] = seen.get(key, 0) + 1
        if flags & WROTE and 0 <= ea < layout.RAM_SIZE:
            ram[ea] = wr
    rows: list[dict[str, Any]] = []
    reads = [key for key in seen if key[0] != "branch"]
    limits = read_threshold([key[3:] for key in reads]) if reads else np.zeros(0)
    for key, limit in zip(reads, limits.tolist(), strict=True):
        rows.append(
            {
                "kind": key[0],
                "pc": key[1],
                "location": key[2],
                "value": int(key[7]),
                "threshold": limit,
                "count": seen[key],
            }
        )
    for key in seen:
        if key[0] == "branch":
            rows.append(
                {
                    "kind": "branch",
                    "pc": key[1],
                    "location": key[2],
                    "value": key[3],
                    "threshold": float(branch_threshold(key[3])),
                    "count": seen[key],
                }
            )
    rows.sort(
        key=lambda r: (r["kind"] != "branch", -r["threshold"] if r["kind"] == "branch" else r["threshold"])
    )
    return rows


def gate(z: npt.ArrayLike, alpha: float) -> Floats:
    """sigma(alpha z)."""
    out: Floats = 1 / (1 + np.exp(-alpha * np.asarray(z, np.float64)))
    return out


def gate_slope(z: npt.ArrayLike, alpha: float) -> Floats:
    """d gate / d z = alpha g (1 - g)."""
    g = gate(z, alpha)
    out: Floats = alpha * g * (1 - g)
    return out


def select_weights(temperature: float) -> Floats:
    """float64[81]: the soft select over candidate columns 30..110 of soft.md 9.3."""
    x = np.arange(30, 111)
    logits = -(((x - 70) / 6.0) ** 2) / temperature
    w = np.exp(logits - logits.max())
    out: Floats = w / w.sum()
    return out

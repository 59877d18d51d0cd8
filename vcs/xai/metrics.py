"""Scores of an attribution against the oracle, with the audit protocol's tie and degenerate rules.

Section 7 of the audit protocol: Pearson (zero variance scores 0), Spearman with mean ranks, stable
descending order, precision@k, deletion and insertion AUC on the true machine, sufficiency S and
minimality M. Section 8: clipping, means, normal half-widths; bootstrap intervals are ours.
All vectors are float64 of one length n, one entry per cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

K = 3  # k of precision@k (7.4)
NAME_FRACTION = 1e-6  # a cause is named when |A| exceeds this share of max|A| (7.9)


def _scaled(a: ArrayLike) -> Vector:
    """The values as float64; huge ones divided by a power of two: no score changes, nothing overflows."""
    x = np.asarray(a, dtype=np.float64)
    top = float(np.abs(x).max(initial=0.0))
    return np.ldexp(x, -int(np.frexp(top)[1])) if 1e100 < top < np.inf else x


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
    x, y = _scaled(a), _scaled(b)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"two vectors of one length wanted, got shapes {x.shape} and {y.shape}")
    return x, y


def pearson(a: ArrayLike, b: ArrayLike) -> float:
    """Correlation of ``a`` and ``b``, sign kept; 0 if n < 2 or either is constant (7.1)."""
    x, y = _pair(a, b)
    if x.size < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    sx, sy = float(np.sqrt(x @ x)), float(np.sqrt(y @ y))
    # Constant means constant: a rounding residue of the mean is not a deviation.
    if sx == 0.0 or sy == 0.0 or np.ptp(np.asarray(a)) == 0 or np.ptp(np.asarray(b)) == 0:
        return 0.0
    return float(np.clip((x / sx) @ (y / sy), -1.0, 1.0))


def mean_ranks(a: ArrayLike) -> Vector:
    """Ranks from 1, ties sharing the mean rank (7.2)."""
    x = np.asarray(a, dtype=np.float64)
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    return np.asarray((last - (counts - 1) / 2.0)[inverse])


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Pearson of the mean ranks (7.2)."""
    return pearson(mean_ranks(a), mean_ranks(b))


def descending(a: ArrayLike) -> list[int]:
    """Indices by value, largest first; equal values keep cause order (7.3)."""
    return [int(i) for i in np.argsort(-np.asarray(a, dtype=np.float64), kind="stable")]


def precision_at_k(a: ArrayLike, o: ArrayLike, k: int = K) -> float:
    """Share of the top ``min(k, n)`` causes that attribution and oracle have in common (7.4)."""
    x, y = _pair(a, o)
    k = min(k, x.size)
    return len(set(descending(x)[:k]) & set(descending(y)[:k])) / k if k else 0.0


def auc(curve: Sequence[float], low: float, high: float) -> float:
    """Area under one curve after mapping [low, high] to [0, 1], trapezoids of equal width (7.6)."""
    c = (np.asarray(curve, dtype=np.float64) - low) / (high - low)
    return float((c.sum() - (c[0] + c[-1]) / 2.0) / (c.size - 1))


def aucs(deletion: Sequence[float], insertion: Sequence[float]) -> tuple[float | None, float | None]:
    """AUCs of a deletion and an insertion curve, (None, None) when both are flat (7.6)."""
    low, high = min(*deletion, *insertion), max(*deletion, *insertion)
    if low == high:
        return None, None
    return auc(deletion, low, high), auc(insertion, low, high)


def sufficiency(a: ArrayLike, o: ArrayLike, seed: int = 0) -> float | None:
    """S: share of held-out causes whose effect the attribution predicts, None if n < 4 (7.8)."""
    x, y = _pair(a, o)
    n = x.size
    if n < 4:
        return None
    order = np.roll(np.arange(n), -(seed % n))
    fit, held = order[0::2], order[1::2]
    xc = x[fit] - x[fit].mean()
    slope = 0.0 if np.ptp(x[fit]) == 0 else float(xc @ (y[fit] - y[fit].mean()) / (xc @ xc))
    intercept = float(y[fit].mean() - slope * x[fit].mean())
    epsilon = max(0.5, 0.1 * (max(0.0, float(y[held].max())) - min(0.0, float(y[held].min()))))
    return float(np.mean(np.abs(slope * x[held] + intercept - y[held]) <= epsilon))


@dataclass(frozen=True)
class Minimality:
    """M with the two counts behind it (7.9); ``value`` is None when either count is 0."""

    value: float | None
    movers: int
    named: int


def minimality(a: ArrayLike, o: ArrayLike) -> Minimality:
    """M: oracle movers over named causes, at most 1 (7.9)."""
    x, y = _pair(a, o)
    movers = int(np.count_nonzero(y > 0))
    largest = float(np.abs(x).max()) if x.size else 0.0
    named = int(np.count_nonzero(np.abs(x) > NAME_FRACTION * largest))
    return Minimality(min(1.0, movers / named) if movers and named else None, movers, named)


def clip01(value: float) -> float:
    """faith of a record: F clipped to [0, 1], so a negative correlation counts as 0 (8.1)."""
    return float(min(1.0, max(0.0, value)))


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """Mean of the values that exist, None when none does."""
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def half_width(values: Sequence[float]) -> float:
    """95 % half-width of a mean, 1.96 sqrt(sample variance / n); 0 for fewer than two values (8.3)."""
    if len(values) < 2:
        return 0.0
    return float(1.96 * np.sqrt(np.var(values, ddof=1) / len(values)))


def bootstrap(
    values: Sequence[float], level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of ``values`` (games or states), seeded."""
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return float("nan"), float("nan")
    rng = np.random.default_rng(seed)
    means = x[rng.integers(0, x.size, (draws, x.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

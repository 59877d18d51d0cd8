"""Checks of what callers pass: each gives the value as it is used, or raises VcsError, one sentence."""

from __future__ import annotations

import math
import operator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vcs.errors import VcsError

T = TypeVar("T")
INT32 = 2**31 - 1


def whole(name: str, value: Any, low: int, high: int = INT32) -> int:
    """A whole number from low to high."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        raise VcsError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return number


def seed(name: str, value: Any) -> int:
    """A seed: any whole number that 64 bits hold, with a sign or without."""
    return whole(name, value, -(2**63), 2**64)


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number from low to high."""
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        limits = f" from {low:g} to {high:g}" if math.isfinite(high) else ""
        raise VcsError(f"{name} is {value!r}; it must be a finite number{limits}")
    return number


def flag(name: str, value: Any) -> int:
    """True or False, as 1 or 0."""
    if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
        raise VcsError(f"{name} is {value!r}; it must be True or False")
    return int(value)


def positive(name: str, value: Any) -> float:
    """A positive, finite number."""
    try:
        number = real(name, value)
    except VcsError:
        number = 0.0
    if number <= 0:
        raise VcsError(f"{name} is {value!r}: give a positive, finite number")
    return number


def instance(name: str, value: Any, kind: type[T] | tuple[type[T], ...], source: str) -> T:
    """An instance of a class, or of one of several. source: where one comes from, for the message."""
    if not isinstance(value, kind):
        raise VcsError(f"{name} cannot be of type {type(value).__name__}: pass {source}")
    return value


def actions(values: Any) -> NDArray[np.int32]:
    """A list of action numbers 0..17 as a new array, int32[n], empty if the list is."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        array = np.zeros((0, 0))
    fits = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
    if not fits or (array.size and not 0 <= int(array.min()) <= int(array.max()) <= 17):
        raise VcsError("the actions must be a list of whole numbers from 0 (NOOP) to 17 (DOWNLEFTFIRE)")
    return array.astype(np.int32)

"""Explanation methods, one file each, one call shape: ``attribute(state, output, causes) -> array``.

A method returns one number per cause (float64[n], larger = more important), or an `Attribution` when it
has more to say. It is registered under a name with `register`; importing this package registers ours.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vcs.errors import VcsError
from vcs.xai.causes import Cause
from vcs.xai.outputs import Output
from vcs.xai.state import State

TRADITIONS = (
    "gradient",
    "probing",
    "correlational",
    "dimension reduction",
    "intervention",
    "causal",
    "descriptive",
    "control",
)


@dataclass(frozen=True)
class Attribution:
    """What a method returns when an array is not enough.

    values: per cause, scored by F and drawn as curves. averaged: per cause, scored by S and M instead of
    ``values`` (9.11). extra: JSON-able facts kept in the record. arrays: kept in its NPZ.
    """

    values: ArrayLike
    averaged: ArrayLike | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


Attribute = Callable[[State, Output, Sequence[Cause]], "ArrayLike | Attribution"]


@dataclass(frozen=True)
class Method:
    """A registered method.

    name: key in file names and on the command line. attribute: the method. title, tradition, summary,
    reference: for people. record_name: the ``method`` field of records. rules: rule set of its gradient
    ("hand-made", "value", "bit" or "" without gradient). choose: replaces the audited output (9.1).
    published: its F, content F and position F in the published study, None without a row there.
    not_applicable: why it has no meaning on this machine; such a method is listed, never scored.
    """

    name: str
    attribute: Attribute
    title: str = ""
    tradition: str = "intervention"
    summary: str = ""
    reference: str = ""
    record_name: str = ""
    rules: str = ""
    choose: Callable[[State, Output], Output] | None = None
    published: tuple[float, float, float] | None = None
    not_applicable: str = ""


_METHODS: dict[str, Method] = {}
_loaded: list[str] = []


def register(name: str, **facts: Any) -> Callable[[Attribute], Attribute]:
    """Decorator that registers a method; ``facts`` are the fields of `Method`.

    >>> @register("mine", title="My method", tradition="intervention")
    ... def mine(state, output, causes):
    ...     return [1.0 if c.cell == 54 else 0.0 for c in causes]

    Raises VcsError for a name that is taken or cannot be a file name.
    """
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise VcsError(f"{name!r} cannot name a method: use letters, digits, _ and -")
    if facts.get("tradition", "intervention") not in TRADITIONS:
        raise VcsError(f"unknown tradition {facts['tradition']!r}; choose one of {', '.join(TRADITIONS)}")

    def add(attribute: Attribute) -> Attribute:
        known = _METHODS.get(name)
        if known is not None and known.attribute.__module__ != attribute.__module__:
            raise VcsError(f"a method called {name!r} is already registered; choose another name")
        text = (attribute.__doc__ or "").strip()
        _METHODS[name] = Method(
            name, attribute, **{"title": name, "summary": text, "record_name": name} | facts
        )
        return attribute

    return add


def get(name: str) -> Method:
    """The method of a name; VcsError naming the known ones if there is none."""
    load()
    if name not in _METHODS:
        raise VcsError(f"unknown method {name!r}; known: {', '.join(sorted(_METHODS))}")
    return _METHODS[name]


def names() -> list[str]:
    """All registered methods that can be scored, in order of registration."""
    load()
    return [m.name for m in _METHODS.values() if not m.not_applicable]


def not_applicable() -> list[Method]:
    """Methods that have no meaning on this machine, with the reason."""
    load()
    return [m for m in _METHODS.values() if m.not_applicable]


def load() -> None:
    """Import every module of this package once, which registers our methods."""
    if not _loaded:
        _loaded.extend(sorted(m.name for m in pkgutil.iter_modules(__path__)))
        for module in _loaded:
            importlib.import_module(f"{__name__}.{module}")


def per_cause(causes: Sequence[Cause], cells: Mapping[int, float] | NDArray[Any]) -> NDArray[np.float64]:
    """Give every RAM cause its cell's value, others 0; ``set`` and ``occlude`` of a cell tie (section 6).

    cells: a mapping from cell to value, or an array over the 128 cells.
    """
    known = {int(i): float(v) for i, v in (cells.items() if isinstance(cells, Mapping) else enumerate(cells))}
    return np.array([known.get(c.cell, 0.0) if c.cell >= 0 else 0.0 for c in causes])


def checked(values: ArrayLike, n: int, name: str) -> NDArray[np.float64]:
    """The attribution as float64[n]; VcsError if it has another shape or is not finite."""
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise VcsError(
            f"method {name} returned something that is no array of numbers; return one number per cause"
        ) from None
    if out.shape != (n,):
        raise VcsError(f"method {name} returned shape {out.shape}, wanted ({n},): one number per cause")
    if not np.isfinite(out).all():
        raise VcsError(f"method {name} returned NaN or infinity; attributions must be finite")
    return out

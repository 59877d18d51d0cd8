"""Timing two things in turn, and the rows that come out."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

Work = Callable[[], float]
"""Does some work and returns how much it was, in the row's unit (frames, instructions, ...)."""


@dataclasses.dataclass
class Row:
    """One measurement. ``ours`` and ``theirs`` are rates (more is better); ``ratio`` is ours / theirs."""

    case: str
    unit: str
    ours: float
    peer: str
    theirs: float | None
    ratio: float | None
    samples: list[list[float]] = dataclasses.field(default_factory=list)


def rate(work: Work) -> float:
    start = time.perf_counter()
    amount = work()
    return amount / (time.perf_counter() - start)


def interleave(case: str, unit: str, ours: Work, peer: str, theirs: Work | None, repeats: int) -> Row:
    """Time A B A B ... after one untimed round of each; without a peer, A alone."""
    ours()
    if theirs is None:
        rates = [rate(ours) for _ in range(repeats)]
        return Row(case, unit, statistics.median(rates), peer, None, None, [[r] for r in rates])
    theirs()
    pairs = [[rate(ours), rate(theirs)] for _ in range(repeats)]
    a, b = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    return Row(case, unit, a, peer, b, statistics.median(x / y for x, y in pairs), pairs)


def summaries(kinds: dict[str, list[Row]]) -> Iterator[Row]:
    """One row of medians over games for each kind of row that has a peer and more than one game."""
    for kind, rows in kinds.items():
        pairs = [(r.ours, r.theirs, r.ratio) for r in rows if r.theirs is not None and r.ratio is not None]
        if len(pairs) > 1:
            ours, theirs, ratio = (statistics.median(column) for column in zip(*pairs, strict=True))
            yield Row(f"median of {len(pairs)}: {kind}", rows[0].unit, ours, rows[0].peer, theirs, ratio)


def figure(value: float | None) -> str:
    """Three significant digits, with thousands separated."""
    if value is None:
        return "-"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if value >= 1 else 4
    return f"{value:,.{digits}f}"


def show(title: str, rows: list[Row], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for name in ("case", "unit"):
        table.add_column(name)
    for name in ("ours", "peer", "theirs", "ratio"):
        table.add_column(name, justify="left" if name == "peer" else "right")
    for r in rows:
        table.add_row(r.case, r.unit, figure(r.ours), r.peer, figure(r.theirs), figure(r.ratio))
    console.print(table)


def processor() -> str:
    """The processor's name, where the system tells."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def to_json(name: str, rows: list[Row], settings: dict[str, Any]) -> str:
    versions = {"python": platform.python_version()}
    for package in ("glassvcs", "ale-py", "gymnasium", "numpy", "autograd"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "-"
    return (
        json.dumps(
            {
                "format": "glassvcs-bench",
                "version": 1,
                "bench": name,
                "settings": settings,
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                "processor": processor(),
                "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
                "load": list(os.getloadavg()),
                "versions": versions,
                "rows": [dataclasses.asdict(r) for r in rows],
            },
            indent=1,
        )
        + "\n"
    )

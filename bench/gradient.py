"""Gradients of one traced frame by the adjoint engine, beside the soft engine (autograd).

The unit is traced instructions swept per second; the output is one drawn pixel, its gradient is taken with
respect to everything the machine held. ``8 outputs`` sweeps eight pixels at once, counted as eight sweeps.
``vcs.grad of a frame`` includes recording it as a `Trace`, checked, with pictures and snapshot: what a user
pays who starts from a machine. ``trace`` records the rows of 16 frames and nothing else; ``trace and sweep``
carries the adjoint of a pixel back over them as well, which is the rate of a long horizon (`vcs.horizon`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vcs
from bench.harness import Row, interleave, summaries
from vcs._adjoint import Backward
from vcs._hard.machine import record_rows
from vcs.gradient import grads
from vcs.trace import start_values

WARMUP = 60  # frames of random play before the traced one
BLOCK = 16  # frames traced at once by ``trace`` and ``trace and sweep``
PEER = "soft engine"


def traced_frame(game: str) -> tuple[Any, Any, list[tuple[str, int, int]]]:
    """A machine, the trace of its next frame, and eight of the pixels that frame drew."""
    m = vcs.Machine(game)
    for action in np.random.RandomState(0).randint(18, size=WARMUP).tolist():
        m.step(action)
    trace = m.trace([0])
    drawn = np.argwhere(trace.winner[0] != 255)
    chosen = drawn[np.random.RandomState(1).permutation(len(drawn))[:8]]
    return m, trace, [("pixel", int(r), int(c)) for r, c in chosen]


def repeated(work: Callable[[], Any], amount: int, times: int) -> Callable[[], float]:
    """A timed stretch that does ``work`` several times, each worth ``amount`` units."""

    def stretch() -> float:
        for _ in range(times):
            work()
        return float(amount * times)

    return stretch


def rows_of(m: Any, swept: bool) -> int:
    """Trace 16 frames from where the machine is, and sweep them; returns the number of instructions."""
    start = m.snapshot()
    x0 = start_values(m)
    rows = record_rows(m, np.zeros(BLOCK, np.int32))
    if swept:
        back = Backward(m.rom, len(m.cart_ram), 1)
        pixel = ((BLOCK - 1) * m.rows + m.rows // 2) * 160 + 80
        back.sweep_rows({**rows, "x0": x0}, m.rows, np.array([pixel]), np.ones((1, 1)))
    m.restore(start)
    return len(rows["instr"])


def counted(work: Callable[[], int], times: int) -> Callable[[], float]:
    """A timed stretch of several rounds of ``work``, which says how many units it did."""
    return lambda: float(sum(work() for _ in range(times)))


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Rows of every game, then medians. ``seconds`` scales how often the fast side repeats."""
    rows: dict[str, list[Row]] = {}
    often = max(1, int(50 * seconds))
    for game in games:
        m, trace, pixels = traced_frame(game)
        n = len(trace.instr)

        def sweep(engine: str, outputs: list[Any], trace: Any = trace) -> None:
            grads(trace, outputs, engine=engine)

        def record(m: Any = m, pixels: list[Any] = pixels) -> None:
            start = m.snapshot()
            grads(m.trace([0]), pixels[:1], engine="adjoint")
            m.restore(start)

        kinds: tuple[tuple[str, Any, Any, int | None], ...] = (
            ("1 output", lambda p=pixels: sweep("adjoint", p[:1]), lambda p=pixels: sweep("soft", p[:1]), n),
            ("8 outputs", lambda p=pixels: sweep("adjoint", p), lambda p=pixels: sweep("soft", p), 8 * n),
            ("vcs.grad of a frame", record, lambda p=pixels: sweep("soft", p[:1]), n),
            ("trace", lambda m=m: rows_of(m, False), lambda p=pixels: sweep("soft", p[:1]), None),
            ("trace and sweep", lambda m=m: rows_of(m, True), lambda p=pixels: sweep("soft", p[:1]), None),
        )
        for kind, ours, theirs, amount in kinds:
            row = interleave(
                f"{game} {kind}",
                "instructions/s",
                counted(ours, often) if amount is None else repeated(ours, amount, often),
                PEER,
                repeated(theirs, amount or n, 1),
                repeats,
            )
            rows.setdefault(kind, []).append(row)
            yield row
    yield from summaries(rows)

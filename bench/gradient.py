"""Gradients of one traced frame by the adjoint engine, beside the soft engine (autograd).

The unit is traced instructions swept per second; the output is one drawn pixel, its gradient is taken with
respect to everything the machine held. ``8 outputs`` sweeps eight pixels at once, counted as eight sweeps.
``trace and sweep`` includes recording the frame, which is what a user pays who starts from a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vcs
from bench.harness import Row, interleave, summaries
from vcs.gradient import grads

WARMUP = 60  # frames of random play before the traced one
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

        for kind, ours, theirs, amount in (
            ("1 output", lambda p=pixels: sweep("adjoint", p[:1]), lambda p=pixels: sweep("soft", p[:1]), n),
            ("8 outputs", lambda p=pixels: sweep("adjoint", p), lambda p=pixels: sweep("soft", p), 8 * n),
            ("trace and sweep", record, lambda p=pixels: sweep("soft", p[:1]), n),
        ):
            row = interleave(
                f"{game} {kind}",
                "instructions/s",
                repeated(ours, amount, often),
                PEER,
                repeated(theirs, amount, 1),
                repeats,
            )
            rows.setdefault(kind, []).append(row)
            yield row
    yield from summaries(rows)

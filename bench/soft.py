"""Instructions per second of the differentiable engines over one traced frame.

``forward`` computes every value (soft: in Python, checked against the trace; adjoint: the hard machine's own
traced run); ``forward + backward`` adds the gradient of one pixel. There is no peer: no other differentiable
machine of this kind runs these programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.gradient import repeated, traced_frame
from bench.harness import Row, interleave
from vcs.gradient import grads
from vcs.soft import replay


def run(games: list[str], seconds: float, repeats: int) -> Iterator[Row]:
    """Four rows a game. ``seconds`` scales how often the compiled engine repeats."""
    often = max(1, int(50 * seconds))
    for game in games:
        m, trace, pixels = traced_frame(game)
        start = m.snapshot()
        n = len(trace.instr)

        def record(m: Any = m, start: Any = start) -> Any:
            m.restore(start)
            return m.trace([0])

        for kind, work, times in (
            ("soft forward", lambda t=trace: replay(t)(), 1),
            ("soft forward + backward", lambda t=trace, p=pixels: grads(t, p[:1], engine="soft"), 1),
            ("adjoint forward (trace)", record, often),
            (
                "adjoint forward + backward",
                lambda r=record, p=pixels: grads(r(), p[:1], engine="adjoint"),
                often,
            ),
        ):
            yield interleave(f"{game} {kind}", "instructions/s", repeated(work, n, times), "-", None, repeats)

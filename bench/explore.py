"""How long the explorer takes to answer: what its page asks, through the session that answers it.

Each click is at another frame, so nothing of it was computed before. ``gradient`` is the derivative alone;
``click`` is the whole answer to a click (trace, gradient, predictions of every flip); ``hover`` the chain
of a pixel; ``oracle`` the 1,024 flips of RAM over 15 frames, with a report of progress every 64; ``oracle
again`` another pixel of the same moment, whose flips were played before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from vcs import roms
from vcs.explore.protocol import Session


class Latency(NamedTuple):
    """Milliseconds of one kind of answer: the median and the worst of some clicks, the processor time of
    all threads (median; what a busy machine does not change), and what is aimed at."""

    game: str
    what: str
    median: float
    worst: float
    cpu: float
    target: float | None


def timed(session: Session, message: dict[str, Any]) -> tuple[tuple[float, float], dict[str, Any]]:
    """Milliseconds by the clock and of the processor, and the answer."""
    began, busy = time.perf_counter(), time.process_time()
    if message["op"] == "oracle":
        answer, _ = session.prepare(message, lambda part: None)()
    else:
        answer, _ = session.answer(message, lambda part: None)
    return (1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)), answer


def run(games: list[str], clicks: int = 12) -> Iterator[Latency]:
    """The latencies of each game: of `clicks` clicks, and of a quarter as many oracle maps."""
    for game in games:
        session = Session(roms.find(game), game, protocol="ale", seed=0, frames=300)
        session.answer({"op": "hello"}, lambda part: None)
        rng = np.random.RandomState(0)
        found: dict[str, list[tuple[float, float]]] = {}
        for k in range(clicks + 1):
            session.answer({"op": "step", "action": int(rng.randint(18))}, lambda part: None)
            drawn = np.argwhere(session.tape.trace(1).winner[-1] != 255)
            places = [{"row": int(r), "column": int(c)} for r, c in drawn[rng.permutation(len(drawn))[:2]]]
            first, second = ({"kind": "pixel", **p} for p in places)
            session.answer({"op": "step"}, lambda part: None)
            measured: dict[str, tuple[float, float]] = {}
            measured["click"], answer = timed(session, {"op": "explain", "target": first, "horizon": 1})
            measured["gradient"] = answer["ms"], answer["ms"]
            measured["hover"], _ = timed(session, {"op": "hover", "horizon": 2, **places[0]})
            if not k or k % 4 == 1:
                oracle = {"op": "oracle", "target": first, "horizon": 15}
                measured["oracle"], _ = timed(session, oracle)
                measured["oracle again"], _ = timed(session, {**oracle, "target": second})
            if k:  # the first round loads what the others use
                for what, ms in measured.items():
                    found.setdefault(what, []).append(ms)
        for what, target in (
            ("gradient", 50), ("click", None), ("hover", None), ("oracle", 1500), ("oracle again", None)
        ):  # fmt: skip
            clock, cpu = np.array(found[what]).T
            yield Latency(game, what, float(np.median(clock)), clock.max(), float(np.median(cpu)), target)

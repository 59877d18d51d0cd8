"""Runs cases in worker processes, with progress, a journal to resume from, and no trust in the workers.

A worker may die (ale-py ends its process on some images) or hang: its case then becomes an ``error``
outcome and a fresh worker takes over. The journal is a JSON-lines file beside the report; each finished
case is appended at once, so that Ctrl-C or a power cut loses only the cases in flight.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import pathlib
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from conformance.cases import DIFFERENT, EQUAL, ERROR, SKIPPED, Case, Outcome
from vcs.command import deaf
from vcs.journal import Journal

Runner = Callable[[Case], Outcome]


def _serve(conn: Connection, runner: Runner) -> None:
    """A worker's life: take a case, run it, send the outcome back."""
    while True:
        try:
            case = conn.recv()
        except EOFError:
            return
        if case is None:
            return
        start = time.monotonic()
        try:
            outcome = runner(case)
        except Exception as e:  # whatever it is, it belongs in the report, with its traceback
            outcome = Outcome(
                case,
                ERROR,
                message=f"{type(e).__name__}: {e}",
                difference={"traceback": traceback.format_exc()},
            )
        outcome.seconds = time.monotonic() - start
        conn.send(outcome)


class _Worker:
    def __init__(self, runner: Runner) -> None:
        context = multiprocessing.get_context("spawn")
        self.conn, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, runner), daemon=True)
        with deaf():
            self.process.start()
        theirs.close()
        self.case: Case | None = None
        self.deadline = 0.0

    def give(self, case: Case, timeout: float) -> None:
        self.case = case
        self.deadline = time.monotonic() + timeout
        self.conn.send(case)

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.conn.close()


def _pooled(runner: Runner, cases: list[Case], jobs: int, timeout: float) -> Iterator[Outcome]:
    queue = collections.deque(cases)
    workers: list[_Worker] = []
    try:
        while queue or any(w.case for w in workers):
            workers = [w for w in workers if w.process.is_alive() or w.case]
            while queue and len(workers) < jobs:
                workers.append(_Worker(runner))
            for w in workers:
                if w.case is None and queue:
                    w.give(queue.popleft(), timeout)
            ready = wait([w.conn for w in workers if w.case], timeout=1.0)
            for w in list(workers):
                if w.case is None:
                    continue
                case = w.case
                if w.conn in ready:
                    try:
                        outcome = w.conn.recv()
                        w.case = None
                    except EOFError:
                        w.process.join()
                        code = w.process.exitcode
                        outcome = Outcome(
                            case, ERROR, message=f"the worker process ended with exit code {code}"
                        )
                        workers.remove(w)
                    yield outcome
                elif time.monotonic() > w.deadline:
                    w.stop()
                    workers.remove(w)
                    yield Outcome(case, ERROR, seconds=timeout, message=f"no answer within {timeout:.0f} s")
    finally:
        for w in workers:
            w.stop()


def _serial(runner: Runner, cases: list[Case]) -> Iterator[Outcome]:
    for case in cases:
        start = time.monotonic()
        outcome = runner(case)
        outcome.seconds = time.monotonic() - start
        yield outcome


def run(
    runner: Runner,
    cases: list[Case],
    *,
    jobs: int,
    timeout: float,
    journal: pathlib.Path | None,
    resume: bool,
    stamp: str,
    console: Console,
) -> tuple[list[Outcome], bool]:
    """Run all cases; returns the outcomes in the order of ``cases`` and whether the run was complete.

    ``jobs=0`` runs in this process (for debugging). Ctrl-C ends the run early; what is finished is returned.
    Raises VcsError if the journal cannot be written.
    """
    kept = None if journal is None else Journal(journal, stamp, resume=resume)
    before = {} if kept is None else {k: Outcome.from_json(row) for k, row in kept.done.items()}
    wanted = {c.key for c in cases}
    done = {k: o for k, o in before.items() if k in wanted and o.status in (EQUAL, DIFFERENT, SKIPPED)}
    todo = [c for c in cases if c.key not in done]
    if done:
        console.print(f"resumed: {len(done)} of {len(cases)} cases were finished before")
    complete = True
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bad]}"),
    )
    with kept or nullcontext(), Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases), completed=len(done), bad="")
        bad = sum(o.status in (DIFFERENT, ERROR) for o in done.values())
        outcomes = _pooled(runner, todo, jobs, timeout) if jobs else _serial(runner, todo)
        try:
            for outcome in outcomes:
                done[outcome.case.key] = outcome
                if kept is not None:
                    kept.add(outcome.case.key, outcome.to_json())
                if outcome.status in (DIFFERENT, ERROR):
                    bad += 1
                    progress.console.print(
                        f"[red]{outcome.status}[/] {outcome.case.key}: {outcome.message}", highlight=False
                    )
                progress.update(
                    task,
                    advance=1,
                    description=outcome.case.game,
                    bad=f"[red]{bad} not equal[/]" if bad else "",
                )
        except KeyboardInterrupt:
            complete = False
        finally:
            outcomes.close()  # type: ignore[attr-defined]  # both are generators
    return [done[c.key] for c in cases if c.key in done], complete


def default_jobs() -> int:
    """As many workers as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)

"""The fuzzers as a command.

    python -m tests.fuzz list                              the targets
    python -m tests.fuzz run -n 10000                      10000 more inputs for every target
    python -m tests.fuzz run -t snapshot -t rom --minutes 30
    python -m tests.fuzz atheris snapshot --seconds 600    inputs chosen by coverage (libFuzzer)
    python -m tests.fuzz coverage -n 400                   the engines' lines that the inputs reach

Every target runs in a process of its own, so that a crash or a hang of the engine is a finding and not the
end. Finished chunks are journalled; the same command goes on with new seeds where the last one stopped. A
finding is shrunk by hypothesis and written beside the journal. Exit code 1 if anything was found.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import importlib.util
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from hypothesis import given, seed, settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.fuzz import searching
from tests.fuzz.targets import TARGETS
from vcs import files
from vcs.command import INTERRUPTED, deaf
from vcs.journal import append

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()
CHUNK = 200
JOURNAL = Path("out/fuzz/journal.jsonl")
TWINS = "twins"  # the random programs of engines.py, traced and untraced
COVERED = Path("out/fuzz/coverage.jsonl")


def chunk(name: str, number: int, examples: int, last: Path | None = None) -> tuple[int, str | None]:
    """Run `examples` inputs of a target drawn from seed `number`: executions, and the shrunk finding if any.

    last: file that always holds the input being run, to be read after a crash."""
    target = TARGETS[name]
    done = 0
    found: list[str] = []

    @seed(number)
    @searching(examples)
    @given(target.draw())
    def run(drawn: Any) -> None:
        nonlocal done
        done += 1
        if last is not None:
            with contextlib.suppress(OSError):  # a full disk: the seed is known all the same
                last.write_bytes(pickle.dumps(drawn))
        try:
            target.check(drawn)
        except Exception:
            found[:] = [f"{name} seed {number}: {drawn!r}\n{traceback.format_exc()}"]
            raise

    try:
        run()
    except Exception:
        return done, found[0] if found else traceback.format_exc()
    return done, None


def _worker(conn: Connection) -> None:
    """A worker's life: take (target, seed, examples, file), send what `chunk` gives."""
    faulthandler.enable()
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    while True:
        try:
            name, number, examples, last = conn.recv()
        except EOFError:
            return
        answer = chunk(name, number, examples, last)
        with contextlib.suppress(BrokenPipeError):  # the driver was interrupted meanwhile
            conn.send(answer)


class Worker:
    """A process that runs chunks; it is started again after a crash or a hang."""

    def __init__(self) -> None:
        self._process: Any = None
        self._conn: Connection | None = None

    def run(
        self, name: str, number: int, examples: int, last: Path, timeout: float
    ) -> tuple[int, str | None]:
        """`chunk` in the process; a crash or no answer within `timeout` seconds is a finding."""
        if self._conn is None:
            context = multiprocessing.get_context("spawn")
            self._conn, theirs = context.Pipe()
            self._process = context.Process(target=_worker, args=(theirs,), daemon=True)
            with deaf():
                self._process.start()
            theirs.close()
        why = f"no answer within {timeout:.0f} s"
        try:
            self._conn.send((name, number, examples, last))
            if self._conn.poll(timeout):
                answer: tuple[int, str | None] = self._conn.recv()
                return answer
        except (EOFError, OSError):
            self._process.join(10)
            why = f"the process ended with exit code {self._process.exitcode}"
        self.close()
        drawn = repr(pickle.loads(last.read_bytes())) if last.exists() and last.stat().st_size else "?"
        return examples, f"{name} seed {number}: {why}\nlast input: {drawn}"

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._process.join(10)  # it ends by itself unless it hangs; line counters are written then
            self._process.kill()
            self._process.join()
            self._conn = None


def rows(journal: Path) -> Iterator[dict[str, Any]]:
    """The finished chunks of a journal; a torn last line is left out."""
    if journal.exists():
        for line in journal.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def build() -> str:
    """Which build of the engines runs: plain, or with a sanitizer loaded."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    return "ASan + UBSan" if "libasan" in text else "TSan" if "libtsan" in text else "plain"


@app.command("list")
def list_() -> None:
    """The targets and what they are fed."""
    table = Table("target", "input")
    for one in TARGETS.values():
        table.add_row(one.name, one.what)
    console.print(table)


def chosen(names: list[str] | None, *more: str) -> list[str]:
    known = [*TARGETS, *more]
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        console.print(f"there is no target {', '.join(unknown)}; known are {', '.join(known)}")
        raise typer.Exit(2)
    return names or known


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Option("-t", "--target", help="A target; repeat for more.")
    ] = None,
    examples: Annotated[int, typer.Option("-n", "--examples", min=1, help="Inputs per target.")] = 2000,
    minutes: Annotated[float, typer.Option(help="Stop after this time; 0: when all inputs have run.")] = 0.0,
    journal: Annotated[Path, typer.Option(help="Finished chunks, one JSON line each.")] = JOURNAL,
    timeout: Annotated[float, typer.Option(help="Seconds after which a chunk counts as hung.")] = 900.0,
) -> None:
    """Run inputs of the targets; the seeds go on where the journal ends."""
    wanted = chosen(names)
    nexts = {
        name: 1 + max([r["seed"] for r in rows(journal) if r["target"] == name], default=0) for name in wanted
    }
    worker, began, found = Worker(), time.monotonic(), 0
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            tasks = {name: progress.add_task(name, total=examples) for name in wanted}
            left = dict.fromkeys(wanted, examples)
            while any(left.values()):
                for name in wanted:
                    if not left[name] or (minutes and time.monotonic() - began > 60 * minutes):
                        left[name] = 0
                        continue
                    size, number, start = min(CHUNK, left[name]), nexts[name], time.monotonic()
                    nexts[name] += 1
                    done, finding = worker.run(name, number, size, journal.parent / f"{name}.last", timeout)
                    left[name] -= size
                    progress.advance(tasks[name], size)
                    row = {
                        "target": name,
                        "seed": number,
                        "executions": done,
                        "found": finding is not None,
                        "seconds": round(time.monotonic() - start, 2),
                        "build": build(),
                        "date": datetime.date.today().isoformat(),
                    }
                    append(journal, row)
                    if finding is not None:
                        found += 1
                        path = journal.parent / f"{name}-{number}.txt"
                        files.write_text(path, finding)
                        last = finding.strip().splitlines()[-1]
                        progress.console.print(f"[red]{name}[/] {path}: {last}", highlight=False, markup=True)
                        if found > 200:
                            raise typer.Exit(1)
    except KeyboardInterrupt:
        console.print("interrupted: the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        worker.close()
    summary(journal)
    raise typer.Exit(1 if found else 0)


@app.command()
def summary(journal: Annotated[Path, typer.Option(help="The journal.")] = JOURNAL) -> None:
    """Executions and findings of a journal by target and build."""
    table = Table("target", "build", "executions", "chunks with a finding", "seconds")
    totals: dict[tuple[str, str], list[float]] = {}
    for row in rows(journal):
        total = totals.setdefault((row["target"], row["build"]), [0, 0, 0])
        total[0] += row["executions"]
        total[1] += row["found"]
        total[2] += row["seconds"]
    for (name, built), (n, bad, seconds) in sorted(totals.items()):
        table.add_row(name, built, f"{n:,.0f}", f"{bad:.0f}", f"{seconds:.0f}")
    console.print(table)


SOURCES = (".pyx", ".pxi", ".cpp", ".hpp", ".h")
GENERATED = "cpu.pxi"  # five variants of the CPU, each with every instruction


def reached() -> tuple[set[str], set[str]]:
    """(lines of the engines that ran, all their lines), each as file:line, from gcov's counters in build/."""
    ran: set[str] = set()
    known: set[str] = set()
    for notes in Path("build").rglob("*.gcno"):
        done = subprocess.run(
            ["gcov", "--json-format", "--stdout", str(notes)], capture_output=True, text=True, check=True
        )
        for file in json.loads(done.stdout)["files"]:
            name = Path(file["file"])
            if name.suffix in SOURCES and not name.is_absolute():  # the absolute ones are the system's
                lines = [(f"{name.name}:{line['line_number']}", line["count"]) for line in file["lines"]]
                known.update(key for key, _ in lines)
                ran.update(key for key, count in lines if count)
    return ran, known


@app.command()
def coverage(
    names: Annotated[
        list[str] | None, typer.Option("-t", "--target", help="A target; repeat for more.")
    ] = None,
    examples: Annotated[int, typer.Option("-n", "--examples", min=1, help="Inputs per target.")] = 400,
    journal: Annotated[Path, typer.Option(help="Where the figures go, one JSON line per target.")] = COVERED,
) -> None:
    """Count the lines of the engines that the inputs of each target, or the twins, reach, and all together.

    In a tree whose engines were built by `VCS_COVERAGE=1 python setup.py build_ext --inplace`. The journal
    keeps which lines, so that the union is of all targets that ran so far.
    """
    wanted = chosen(names, TWINS)
    if not list(Path("build").rglob("*.gcno")):
        console.print("the engines here count no lines: VCS_COVERAGE=1 python setup.py build_ext --inplace")
        raise typer.Exit(2)
    for name in wanted:
        for old in Path("build").rglob("*.gcda"):
            old.unlink()
        words = ["-m", "tests.fuzz", "run", "-t", name, "-n", str(examples)]
        if name == TWINS:
            words = ["-m", "tests.fuzz.engines", "hard", "-n", str(examples)]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, *words, "--journal", f"{folder}/journal.jsonl"], check=False)
        ran, known = reached()
        row = {"target": name, "executions": examples, "ran": sorted(ran), "lines": sorted(known)}
        append(journal, {**row, "date": datetime.date.today().isoformat()})
    table = Table("target", "inputs", "lines reached", "of the generated CPU's")
    for name, inputs, written, generated in covered(journal):
        table.add_row(name, f"{inputs:,}", written, generated)
    console.print(table)


def covered(journal: Path = COVERED) -> list[tuple[str, int, str, str]]:
    """Of each target's last run, and of all together: name, inputs, share of the engines' lines reached, and
    share of those of the generated CPU."""

    def share(ran: set[str], known: set[str], generated: bool) -> str:
        some, every = (
            sum(key.startswith(f"{GENERATED}:") == generated for key in keys) for keys in (ran, known)
        )
        return f"{some:,} of {every:,} ({100 * some / every:.0f} %)"

    latest = {row["target"]: row for row in rows(journal)}
    ran: set[str] = set()
    known: set[str] = set()
    found = []
    for name, row in sorted(latest.items()):
        its, every = set(row["ran"]), set(row["lines"])
        ran |= its
        known |= every
        found.append((name, row["executions"], share(its, every, False), share(its, every, True)))
    if found:
        found.append(("all", sum(f[1] for f in found), share(ran, known, False), share(ran, known, True)))
    return found


def python_functions() -> Iterator[types.FunctionType]:
    """The package's functions and methods written in Python: those of the engines cannot be instrumented."""
    modules = [m for key, m in sorted(sys.modules.items()) if key.split(".")[0] == "vcs"]
    for module in modules:
        own = [v for v in vars(module).values() if getattr(v, "__module__", None) == module.__name__]
        classes = [v for v in own if isinstance(v, type)]
        for value in own + [member for one in classes for member in vars(one).values()]:
            if isinstance(value, types.FunctionType):
                yield value


@app.command()
def atheris(
    name: Annotated[str, typer.Argument(help="A target.")],
    seconds: Annotated[int, typer.Option(min=1, help="How long.")] = 600,
    journal: Annotated[Path, typer.Option(help="Finished runs, one JSON line each.")] = JOURNAL,
) -> None:
    """Let libFuzzer choose the inputs by the Python lines that they reach (needs `pip install atheris`).

    The inputs that reached something new are kept beside the journal, for the next run to begin with."""
    chosen([name])
    if importlib.util.find_spec("atheris") is None:
        console.print("this needs atheris: pip install atheris")
        raise typer.Exit(2)
    folder = journal.parent / f"corpus-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.fuzz", "libfuzzer", name, str(seconds), str(folder)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stderr is not None
        text = ""
        for line in process.stderr:
            text += line
            console.print(line, end="", markup=False, highlight=False)
    done = re.search(r"Done (\d+) runs in (\d+) second", text)
    row = {
        "target": name,
        "seed": 0,
        "executions": int(done[1]) if done else 0,
        "found": process.returncode != 0,
        "seconds": int(done[2]) if done else 0,
        "build": "atheris",
        "date": datetime.date.today().isoformat(),
    }
    append(journal, row)
    raise typer.Exit(1 if process.returncode else 0)


@app.command(hidden=True)
def libfuzzer(name: str, seconds: int, folder: Path) -> None:
    """What `atheris` runs in a process of its own, since libFuzzer ends it."""
    import atheris as engine

    target = TARGETS[name]
    fuzz_one = settings(database=None, deadline=None)(
        given(target.draw())(target.check)
    ).hypothesis.fuzz_one_input
    for function in python_functions():
        engine.instrument_func(function)

    def one(data: bytes) -> None:
        fuzz_one(data)

    engine.Setup([name, str(folder), f"-max_total_time={seconds}", f"-artifact_prefix={folder}/"], one)
    engine.Fuzz()

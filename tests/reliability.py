"""The reliability tests as commands, and docs/reliability.md from what they measured.

    python -m tests.reliability collect                 the journals of the fuzzers into the figures
    python -m tests.reliability kills -n 50             kill -9 in the middle of commands, figures likewise
    python -m tests.reliability interrupts -n 4         Ctrl-C at random moments of all long commands
    python -m tests.reliability dask --kills 3          workers of a local cluster killed during an audit
    python -m tests.reliability long snapshots          also: gradients, frames, explorer
    python -m tests.reliability sanitize address        the tests under a sanitizer; also: leaks, thread
    python -m tests.reliability report                  docs/reliability.md

Only these commands write figures; the remarks and the list of faults in the JSON are written by hand, and
`report` refuses a fault whose guarding test is not there.
"""

from __future__ import annotations

import collections
import datetime
import functools
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from vcs import files
from vcs.command import guarded
from vcs.journal import append

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
SANITIZED = Path("out/sanitizers.jsonl")
app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()


def read() -> dict[str, Any]:
    """The figures so far."""
    whole: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {"rows": [], "faults": []}
    return whole


def note(area: str, test: str, **figures: Any) -> None:
    """Put a row into the JSON, in the place of the one of the same area and test."""
    whole = read()
    row = {"area": area, "test": test, "date": datetime.date.today().isoformat(), **figures}
    whole["rows"] = [r for r in whole["rows"] if (r["area"], r["test"]) != (area, test)] + [row]
    whole["rows"].sort(key=lambda r: (r["area"], r["test"]))
    files.write_text(DATA, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    console.print(row)


def command() -> str:
    """How this process was called."""
    return "python -m tests.reliability " + " ".join(sys.argv[1:])


# ------------------------------------------------------------------------------------------ fuzzers


@app.command()
def collect(
    fuzz: Annotated[list[Path] | None, typer.Option(help="Journals of tests.fuzz run.")] = None,
    engines: Annotated[Path, typer.Option(help="Journal of tests.fuzz.engines.")] = Path(
        "out/fuzz/engines.jsonl"
    ),
) -> None:
    """Add up the journals of the fuzzers."""
    from tests.fuzz import engines as twins
    from tests.fuzz import runner

    totals: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    dates: dict[tuple[str, str], str] = {}
    for journal in fuzz or [runner.JOURNAL]:
        for row in runner.rows(journal):
            key = (row["target"], row["build"])
            totals[key].update(executions=row["executions"], found=row["found"], seconds=row["seconds"])
            dates[key] = max(dates.get(key, ""), row["date"])
    for target, inputs, written, generated in runner.covered():
        note(
            "coverage",
            target,
            executions=inputs,
            survived=written,
            lost=generated,
            command=f"python -m tests.fuzz coverage -t {target} -n {inputs}"
            if target != "all"
            else "python -m tests.fuzz coverage",
        )
    for (target, build), total in totals.items():
        how = f"atheris {target}" if build == "atheris" else f"run -t {target}"
        note(
            "fuzzing",
            f"{target} ({build})",
            executions=total["executions"],
            faults=int(total["found"]),
            seconds=round(total["seconds"]),
            command=f"python -m tests.fuzz {how}",
            date=dates[target, build],
        )
    latest = {(r["kind"], r["commit"], r["file"]): r for r in runner.rows(SANITIZED)}
    for kind, commit in sorted({key[:2] for key in latest}):
        ran = [r for key, r in latest.items() if key[:2] == (kind, commit)]
        passed, failed = sum(r["passed"] for r in ran), sum(r["failed"] for r in ran)
        note(
            "sanitizers",
            f"{SUITES[kind]}, engines of {commit}",
            files=len(ran),
            executions=passed + failed,
            survived=passed,
            lost=failed,
            faults=sum(r["reports"] for r in ran),
            seconds=sum(r["seconds"] for r in ran),
            command=f"python -m tests.reliability sanitize {kind}",
            date=max(r["date"] for r in ran),
        )
    for mode in twins.MODES:
        rows = [r for r in runner.rows(engines) if r["mode"] == mode]
        if rows:
            note(
                "twin",
                f"{mode} ({twins.WHAT[mode]})",
                executions=sum(r["programs"] for r in rows),
                faults=sum(r["found"] for r in rows),
                undecided=sum(r.get("undecided", 0) for r in rows),
                builds=len({r.get("build") for r in rows}),
                seconds=round(sum(r["seconds"] for r in rows)),
                command=f"python -m tests.fuzz.engines {mode}",
                date=max(r["date"] for r in rows),
            )


# ------------------------------------------------------------------------------------------ kills


@app.command()
def kills(
    n: Annotated[int, typer.Option("-n", min=1, help="Kills, over all commands.")] = 50,
    seed: Annotated[int, typer.Option(help="Other moments.")] = 0,
    only: Annotated[str, typer.Option(help="One of the commands; all of them without.")] = "",
) -> None:
    """kill -9 at random moments of audit, relax, conformance and trace."""
    from tests import test_crash

    if only and only not in test_crash.COMMANDS:
        console.print(f"there is no command {only!r}; known are {', '.join(test_crash.COMMANDS)}")
        raise typer.Exit(2)
    names = [only] if only else sorted(test_crash.COMMANDS)
    share = -(-n // len(names))
    for name in track(names, "commands", console=console):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            outcome = test_crash.torture(name, share, Path(folder), seed)
        note(
            "crash safety",
            f"kill -9 during {name}",
            executions=outcome.kills,
            faults=outcome.hit,
            survived=outcome.finished,
            lost=outcome.lost,
            seconds=round(time.monotonic() - began),
            command=command(),
        )


@app.command()
def interrupts(
    n: Annotated[int, typer.Option("-n", min=1, help="Interruptions of each command.")] = 4,
    seed: Annotated[int, typer.Option(help="Other moments.")] = 0,
) -> None:
    """Ctrl-C at random moments of every long command, half of them while it starts or ends."""
    from tests import test_threads

    totals: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    began, wrong = time.monotonic(), []
    for name, words in track(sorted(test_threads.LONG.items()), "commands", console=console):
        with tempfile.TemporaryDirectory() as folder:
            met, found = test_threads.interrupts(name, n, Path(folder), seed)
        wrong += found
        totals[words[0].split(".")[0]].update(commands=1, met=met, wrong=len(found))
    for package, total in totals.items():
        note(
            "interruptions",
            f"Ctrl-C in {total['commands']} commands of {package}",
            executions=n * total["commands"],
            faults=total["met"],
            lost=total["wrong"],
            command=command(),
        )
    console.print(f"{time.monotonic() - began:.0f} s", *wrong, sep="\n", markup=False)
    raise typer.Exit(1 if wrong else 0)


# ------------------------------------------------------------------------------------------ dask


@app.command()
def dask(
    kills: Annotated[int, typer.Option(min=1, help="Workers to kill.")] = 3,
    games: Annotated[
        str, typer.Option(help="Games, separated by commas.")
    ] = "glass,pong,breakout,seaquest,qbert",
) -> None:
    """An audit on a local dask cluster whose workers are killed meanwhile, against an undisturbed one."""
    from tests import test_dask

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = test_dask.torture(games.split(","), kills, Path(folder))
    note(
        "distributed",
        "dask workers killed during an audit",
        executions=outcome["records"],
        faults=outcome["kills"],
        survived=outcome["equal"],
        lost=outcome["records"] - outcome["equal"],
        seconds=round(time.monotonic() - began),
        command=command(),
    )


# ------------------------------------------------------------------------------------------ long runs


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


class Watch:
    """Memory and descriptors over a run: after a tenth of it they must not grow any more."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.memory: list[int] = []
        self.files: list[int] = []
        self.began = time.monotonic()

    def __iter__(self) -> Iterator[int]:
        step = max(1, self.total // 100)
        for k in track(range(self.total), "running", console=console):
            if k % step == 0:
                gc.collect()
                self.memory.append(resident())
                self.files.append(descriptors())
            yield k
        self.memory.append(resident())
        self.files.append(descriptors())

    def end(self, test: str, wrong: int, **more: Any) -> None:
        """Write the row; ends the process with 1 if something grew or was wrong."""
        early, late = self.memory[len(self.memory) // 10], self.memory[-1]
        grown, files = late - early, self.files[-1] - self.files[len(self.files) // 10]
        remark = (
            f"resident {early / 2**20:.1f} MB after a tenth, {late / 2**20:.1f} MB at the end; "
            f"descriptors {'unchanged' if files == 0 else f'{files:+d}'}"
        )
        seconds = time.monotonic() - self.began
        note(
            "long runs",
            test,
            executions=self.total,
            lost=wrong,
            seconds=round(seconds),
            note=remark,
            command=command(),
            **more,
        )
        if wrong or grown > 16 << 20 or files > 0:
            raise typer.Exit(1)


@app.command()
def long(
    what: Annotated[str, typer.Argument(help="snapshots, gradients, frames or explorer.")],
    n: Annotated[int, typer.Option("-n", min=0, help="How many; 0: as many as the issue asks for.")] = 0,
) -> None:
    """A long run: memory and descriptors must stay flat and results unchanged."""
    warnings.simplefilter("ignore")
    runs = {"snapshots": snapshots, "gradients": gradients, "frames": frames, "explorer": explorer}
    if what not in runs:
        console.print(f"there is no long run {what!r}; known are {', '.join(runs)}")
        raise typer.Exit(2)
    runs[what](n)


def snapshots(n: int) -> None:
    """Snapshot, one frame, restore; the state must be the one before, every time."""
    import vcs

    m = vcs.Machine("pong")
    for action in (1, 3, 4) * 20:
        m.step(action)
    first = m.snapshot()
    expected, wrong = (m.ram.tobytes(), m.screen.tobytes(), m.cpu()), 0
    watch = Watch(n or 1_000_000)
    for k in watch:
        saved = m.snapshot()
        m.step(k % 18)
        if k % 1000 == 0:
            saved = vcs.Snapshot.from_bytes(saved.to_bytes())
        m.restore(saved)
        wrong += (m.ram.tobytes(), m.screen.tobytes(), m.cpu()) != expected
    wrong += m.snapshot() != first
    watch.end("snapshot and restore", wrong)


def gradients(n: int) -> None:
    """The gradient of a pixel of fresh traces; those of equal traces must be equal to the bit."""
    import vcs

    m = vcs.Machine("pong")
    start, wrong, first = m.snapshot(), 0, {}
    watch = Watch(n or 10_000)
    for k in watch:
        m.restore(start)
        row, rules = 40 + k % 100, ("value", "bit")[k % 2]
        g = vcs.grad(m.trace([k % 3]), vcs.Pixel(row, 80), rules=rules)
        found = (g.ram.tobytes(), g.rom.tobytes())
        key = (row, rules, k % 3)
        wrong += first.setdefault(key, hash(found)) != hash(found)
    watch.end("trace and gradient", wrong)


def frames(n: int) -> None:
    """The soak of the thread pool: every stream must be equal to the same one played alone."""
    began, count = time.monotonic(), n or 10_000_000
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak", "--frames", str(count)], cwd=ROOT, capture_output=True, text=True
    )
    text = " ".join(done.stdout.split())
    equal = re.search(r"(\d+) of (\d+) streams equal", text)
    memory = re.search(r"resident memory .*? at most", text)
    if not equal or not memory:
        console.print(done.stdout, done.stderr)
        raise typer.Exit(1)
    note(
        "long runs",
        "frames in the thread pool",
        executions=count,
        survived=int(equal[1]),
        lost=int(equal[2]) - int(equal[1]),
        seconds=round(time.monotonic() - began),
        note=memory[0] + f"; {equal[0]}",
        command=command(),
    )
    raise typer.Exit(done.returncode)


def explorer(n: int) -> None:
    """Requests to the explorer's server for a minute."""
    from tests import test_explore_load

    outcome = test_explore_load.minute(n or 60)
    grown, left = outcome.pop("grown"), outcome.pop("left")
    note("long runs", "explorer requests", command=command(), **outcome)
    if outcome["lost"] or grown > 16 << 20 or left > 2:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------ sanitizers

SUITES = {"address": "ASan + UBSan", "leaks": "LeakSanitizer", "thread": "TSan"}
# of leaks.py the number that it counted
REPORT = r"ERROR: AddressSanitizer|runtime error:|WARNING: ThreadSanitizer|(\d+) of them through the engines"
# first what runs most of the engines; the rest follows by name
FIRST = (
    "cpu_vectors",
    "tia_vectors",
    "riot_vectors",
    "cart",
    "golden",
    "snapshot",
    "trace",
    "vector",
    "shortcuts",
    "games",
    "threads",
    "engines",
    "adjoint",
    "env",
)
LEFT_OUT = {
    "test_docs.py": "builds the documentation and runs its examples, which the other tests do as well",
    "test_bench.py": "measures time",
}
ENGINES = ("vcs/_*/*.pyx", "vcs/_*/*.px?", "vcs/_*/*.?pp", "vcs/_hard/gen_cpu.py")
POOL = ["tests/test_vector.py"]  # one Python thread, which drives the pool's
INPUTS = "inputs of the fuzz targets"
# what makes and drops machines, pools, snapshots, traces and sweeps
LEAKS = [INPUTS, *(f"tests/test_{name}.py" for name in ("snapshot", "trace", "vector", "env", "adjoint"))]


def parts(kind: str) -> list[str]:
    """The test files of a sanitizer run, in order: all but those left out, those of the pool, or LEAKS."""
    if kind in ("thread", "leaks"):
        return POOL if kind == "thread" else LEAKS
    files = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if p.name not in LEFT_OUT]
    order = {f"test_{name}.py": k for k, name in enumerate(FIRST)}
    return [str(p.relative_to(ROOT)) for p in sorted(files, key=lambda p: order.get(p.name, len(order)))]


def engines() -> str:
    """The last commit that changed the compiled engines; with "-dirty" if the tree changed them since."""
    git = functools.partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    commit: str = git(["git", "log", "-1", "--format=%h", "--", *ENGINES]).stdout.strip()
    return commit + "-dirty" * bool(git(["git", "status", "--porcelain", "--", *ENGINES]).stdout)


@app.command()
def sanitize(
    kind: Annotated[str, typer.Argument(help="address, leaks or thread.")],
    files: Annotated[list[str] | None, typer.Argument(help="Test files; all without.")] = None,
    journal: Annotated[Path, typer.Option(help="Finished files, one JSON line each.")] = SANITIZED,
) -> None:
    """Run the tests under a sanitizer, one file after the other; the same command goes on where it stopped.

    Exit code 1 if a test failed or a sanitizer had something to say; the whole output is beside the journal.
    """
    from tests.fuzz.runner import rows

    if kind not in SUITES:
        console.print(f"there is no sanitizer {kind!r}; known are {', '.join(SUITES)}")
        raise typer.Exit(2)
    commit = engines()
    done = {r["file"] for r in rows(journal) if (r["kind"], r["commit"]) == (kind, commit)}
    journal.parent.mkdir(parents=True, exist_ok=True)
    bad = 0
    for file in files or parts(kind):
        if file in done:
            continue
        began = time.monotonic()
        options = ["-m", "not slow", "-p", "no:cacheprovider", "-rs", "--durations=8"]
        words = [sys.executable, "-m", "pytest", *options, file]
        if kind == "leaks":
            words = [] if file == INPUTS else [file]
        log = journal.parent / f"{kind}-{Path(file).stem}.log"
        with log.open("w") as out:
            code = subprocess.run(
                [str(ROOT / "tests/sanitizers/run.sh"), kind, *words], stdout=out, stderr=out
            ).returncode
        text = log.read_text(errors="replace")
        counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", text)}
        row = {
            "kind": kind,
            "file": file,
            "commit": commit,
            "passed": counts.get("passed", 0),
            "failed": counts.get("failed", 0) + counts.get("error", 0),
            "skipped": counts.get("skipped", 0),
            "reports": sum(int(n or 1) for n in re.findall(REPORT, text)),
            "code": code,
            "seconds": round(time.monotonic() - began),
            "date": datetime.date.today().isoformat(),
        }
        console.print(row)
        bad += code not in (0, 5)  # 5: every test of the file is a slow one
        append(journal, row)
    raise typer.Exit(1 if bad else 0)


# ------------------------------------------------------------------------------------------ the page

AREAS = {
    "sanitizers": "Sanitizers",
    "fuzzing": "Fuzzing",
    "coverage": "Lines of the engines that the fuzzers reach",
    "twin": "Twin fuzzing",
    "crash safety": "Crash safety",
    "interruptions": "Ctrl-C",
    "distributed": "Distributed runs",
    "long runs": "Long runs",
    "pythons": "Other Pythons",
}
COLUMNS = {
    "sanitizers": {
        "files": "test files",
        "executions": "tests",
        "survived": "passed",
        "lost": "failed",
        "faults": "sanitizer reports",
    },
    "fuzzing": {"executions": "inputs", "faults": "chunks with a finding"},
    "coverage": {
        "executions": "inputs",
        "survived": "lines of the engines",
        "lost": "lines of the generated CPU, five variants",
    },
    "twin": {
        "executions": "programs",
        "faults": "differences",
        "undecided": "ale-py died",
        "builds": "builds",
    },
    "crash safety": {
        "executions": "kills",
        "faults": "met it running",
        "survived": "results found whole",
        "lost": "lost",
    },
    "interruptions": {"executions": "interruptions", "faults": "met it running", "lost": "wrong ends"},
    "distributed": {"executions": "records", "faults": "workers killed", "survived": "equal", "lost": "lost"},
    "long runs": {"executions": "times", "lost": "wrong", "note": "memory"},
    "pythons": {"executions": "tests", "survived": "passed", "lost": "failed", "note": "remark"},
}


def is_test(test: str) -> bool:
    """Whether `file::function` is a test of this tree."""
    file, _, function = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not function or f"def {function.split('[')[0]}(" in path.read_text())


@app.command()
def report(
    check: Annotated[bool, typer.Option(help="Only say whether the page is up to date.")] = False,
) -> None:
    """Write docs/reliability.md."""
    whole = read()
    missing = [f["guard"] for f in whole["faults"] if not is_test(f["guard"])]
    if missing:
        console.print(f"these tests guard a fault but do not exist: {', '.join(missing)}")
        raise typer.Exit(2)
    text = page(whole)
    if check:
        raise typer.Exit(0 if PAGE.exists() and PAGE.read_text() == text else 1)
    files.write_text(PAGE, text)


def page(whole: dict[str, Any]) -> str:
    """The page as Markdown."""
    lines = [
        "# Reliability",
        "",
        "Generated by `python -m tests.reliability report`; every figure was written by the "
        "command beside it.",
        "",
    ]
    lines += [whole["text"], ""] if whole.get("text") else []
    for area, title in AREAS.items():
        rows = [r for r in whole["rows"] if r["area"] == area]
        if not rows:
            continue
        columns = COLUMNS[area]
        heads = ["test", *columns.values(), "seconds", "date", "command"]
        lines += [f"## {title}", ""]
        if area in whole.get("notes", {}):
            lines += [whole["notes"][area], ""]
        lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in rows:
            cells = [
                row["test"],
                *(shown(row.get(key)) for key in columns),
                shown(row.get("seconds")),
                row["date"],
            ]
            lines.append(f"| {' | '.join(cells)} | `{row['command']}` |")
        lines.append("")
    lines += [
        "## Faults found on the way",
        "",
        "Each is mended, and the test beside it fails if it comes back.",
        "",
        "| fault | found by | guarded by |",
        "|---|---|---|",
    ]
    lines += [f"| {f['what']} | {f['by']} | `{f['guard']}` |" for f in whole["faults"]]
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A cell."""
    return "" if value is None else f"{value:,}" if isinstance(value, int | np.integer) else str(value)


if __name__ == "__main__":
    guarded(app, "tests.reliability")

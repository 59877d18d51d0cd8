"""The command line of ``python -m conformance``."""

from __future__ import annotations

import difflib
import json
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from conformance import golden, report, workers
from conformance.cases import Case, Outcome
from vcs import files, journal
from vcs.command import INTERRUPTED
from vcs.errors import VcsError

CORE_GAMES = ["breakout", "ms_pacman", "pong", "qbert", "seaquest", "space_invaders"]

OUT = pathlib.Path("out/conformance")

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()

Games = Annotated[str, typer.Option(help="'all', 'core' (the six core games) or names joined by commas")]
Report = Annotated[
    pathlib.Path | None, typer.Option(help="JSON report; a JUnit XML of the same name is written beside it")
]
Jobs = Annotated[int, typer.Option(min=0, help="worker processes; 0 runs in this process")]
Resume = Annotated[bool, typer.Option("--resume", help="take up an interrupted run of the same build")]
Golden = Annotated[str | None, typer.Option("--golden", help="directory of the golden records")]
Timeout = Annotated[float, typer.Option(min=1, help="seconds before a case counts as hung")]
Out = Annotated[pathlib.Path, typer.Option(help="directory for the pictures of differences")]


def _choose(text: str, available: list[str]) -> list[str]:
    """The games that ``--games`` names, checked against those that exist."""
    if text == "all":
        return available
    names = CORE_GAMES if text == "core" else [n.strip() for n in text.split(",") if n.strip()]
    unknown = [n for n in names if n not in available]
    if unknown or not names:
        close = [c for n in unknown or [text] for c in difflib.get_close_matches(n, available, 3, 0.5)]
        raise VcsError(
            f"no game {', '.join(unknown) or repr(text)} here: --games takes 'all', 'core' or names out "
            f"of the {len(available)} known" + (f", for example {', '.join(close)}" if close else "")
        )
    return names


def _numbers(option: str, text: str, example: str, above: float, most: float) -> list[float]:
    """The numbers of an option, each larger than one limit, finite and at most the other."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(above < number <= most and math.isfinite(number) for number in numbers):
        limits = f"from {max(0, above):g} to {most:g}" if math.isfinite(most) else "above 0"
        raise VcsError(f"{option} {text} is not a list of numbers {limits}: give for example {example}")
    return numbers


def _run(
    command: str,
    runner: Callable[[Case], Outcome],
    cases: list[Case],
    jobs: int,
    timeout: float,
    path: pathlib.Path | None,
    resume: bool,
) -> None:
    """Run, print, write, and end the process: 0 all equal, 1 a difference or error, 130 interrupted."""
    stamp = journal.stamp("soft/*.py")
    if resume and path is None:
        raise VcsError("--resume needs --report FILE: the journal to take up lies beside the report")
    kept = path.with_suffix(".journal") if path is not None else None
    outcomes, complete = workers.run(
        runner,
        cases,
        jobs=jobs,
        timeout=timeout,
        journal=kept,
        resume=resume,
        stamp=stamp,
        console=console,
    )
    report.show(command, outcomes, console)
    if path is not None:
        text = json.dumps(report.to_json(command, outcomes, complete=complete, stamp=stamp), indent=1)
        files.write_text(path, text + "\n")
        files.write_text(path.with_suffix(".xml"), report.to_junit(command, outcomes))
        if complete and kept is not None:
            kept.unlink(missing_ok=True)
    if not complete:
        console.print(
            f"interrupted after {len(outcomes)} of {len(cases)} cases"
            + ("; repeat the command with --resume to go on" if path is not None else "")
        )
        sys.exit(INTERRUPTED)
    if not outcomes:
        raise VcsError("there was nothing to compare: no record matches --games")
    sys.exit(0 if report.ok(outcomes) else 1)


def _frames(
    command: str,
    games: str,
    streams: str,
    fields: tuple[str, ...],
    directory: str | None,
    jobs: int,
    timeout: float,
    path: pathlib.Path | None,
    resume: bool,
    out: pathlib.Path,
) -> None:
    from conformance import records

    root = golden.root(directory)
    present = golden.frame_records(root)
    known = sorted({s for _, s in present})
    wanted = known if streams == "all" else streams.split(",")
    if not set(wanted) <= set(known):
        raise VcsError(f"unknown stream in --streams {streams}: accepted are 'all' or {', '.join(known)}")
    cases = [
        Case(command, g, {"golden": str(root), "stream": s, "fields": list(fields), "out": str(out)})
        for g in _choose(games, sorted({g for g, _ in present}))
        for s in wanted
    ]
    _run(command, records.run_frames, cases, jobs, timeout, path, resume)


@app.command("golden")
def golden_(
    games: Games = "all",
    streams: Annotated[str, typer.Option(help="'all', 'noop' or 'random0'")] = "all",
    golden: Golden = None,
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 600.0,
    resume: Resume = False,
    out: Out = OUT,
) -> None:
    """Frames of xitari: RAM, screen, reward, lives and game over after every step.

    Example: python -m conformance golden --games pong,qbert --report out/golden.json
    """
    from conformance.records import FRAME_FIELDS

    _frames("golden", games, streams, FRAME_FIELDS, golden, jobs, timeout, report, resume, out)


@app.command()
def pxcs(
    games: Games = "all",
    streams: Annotated[str, typer.Option(help="'all', 'noop' or 'random0'")] = "all",
    golden: Golden = None,
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 600.0,
    resume: Resume = False,
    out: Out = OUT,
) -> None:
    """Screens of xitari: every picture of the frame records.

    Example: python -m conformance pxcs --games all --jobs 2
    """
    _frames("pxcs", games, streams, ("screen",), golden, jobs, timeout, report, resume, out)


@app.command()
def pxc1(
    games: Games = "all",
    golden: Golden = None,
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 600.0,
    resume: Resume = False,
) -> None:
    """Instructions of xitari: PC, registers, cycle counter and RAM before every instruction.

    Example: python -m conformance pxc1 --games pong --report out/pxc1.json
    """
    from conformance import golden as g
    from conformance import records

    root = g.root(golden)
    present = g.instruction_records(root)
    names = _choose(
        games, sorted({game for game, _ in g.frame_records(root)} | {game for game, _ in present})
    )
    starts = sorted({s for _, s in present}, key=lambda s: int(s[1:]))
    # 'all' means all the records there are; a game asked for by name without a record is shown as skipped
    cases = [
        Case("pxc1", game, {"golden": str(root), "start": s})
        for game in names
        for s in starts
        if games != "all" or (game, s) in present
    ]
    _run("pxc1", records.run_instructions, cases, jobs, timeout, report, resume)


@app.command()
def pxc2(
    games: Games = "core",
    frames: Annotated[int, typer.Option(min=1, help="frames traced")] = 3,
    warmup: Annotated[int, typer.Option(min=0, help="frames played before tracing")] = 60,
    rules: Annotated[str, typer.Option(help="rule sets, joined by commas")] = "value",
    alpha: Annotated[str, typer.Option(help="branch sharpness values, joined by commas")] = "2,6,20",
    temperature: Annotated[str, typer.Option(help="temperatures, joined by commas")] = "0.05,0.14,1.0",
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 1800.0,
    resume: Resume = False,
) -> None:
    """Hard against soft after every instruction and for every pixel; adjoint against soft to 1e-9.

    Example: python -m conformance pxc2 --games pong --frames 1
    """
    from conformance import engines
    from conformance.ale import supported_games
    from vcs.soft.rules import NAMES

    wanted = rules.split(",")
    if not set(wanted) <= set(NAMES):
        raise VcsError(f"--rules {rules} is not known: accepted are {' and '.join(NAMES)}, joined by commas")
    settings = [
        (a, t)
        for a in _numbers("--alpha", alpha, "2,6,20", 0, math.inf)
        for t in _numbers("--temperature", temperature, "0.05,0.14", 0, math.inf)
    ]
    cases = [
        Case("pxc2", g, {"frames": frames, "warmup": warmup, "settings": settings, "rules": wanted})
        for g in _choose(games, supported_games())
    ]
    _run("pxc2", engines.run, cases, jobs, timeout, report, resume)


@app.command()
def reset(
    games: Games = "all",
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 600.0,
    resume: Resume = False,
) -> None:
    """Boot states of both protocols: construction and two resets.

    Example: python -m conformance reset --games tetris,klax
    """
    from conformance import reset as r

    cases = [Case("reset", g, {"protocol": p}) for g in _choose(games, r.games()) for p in ("xitari", "ale")]
    _run("reset", r.run, cases, jobs, timeout, report, resume)


@app.command()
def ale(
    games: Games = "all",
    frames: Annotated[int, typer.Option(min=1, help="steps per case")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds: 0, 1, ...")] = 1,
    sticky: Annotated[str, typer.Option(help="repeat_action_probability values, joined by commas")] = "0.0",
    frame_skip: Annotated[int, typer.Option(min=1, help="frames of one step")] = 1,
    modes: Annotated[str, typer.Option(help="'default', or 'all': each mode and difficulty")] = "default",
    mode_frames: Annotated[int, typer.Option(min=1, help="steps per mode and difficulty")] = 300,
    report: Report = None,
    jobs: Jobs = 1,
    timeout: Timeout = 1800.0,
    resume: Resume = False,
    out: Out = OUT,
    video: Annotated[int, typer.Option(min=0, help="write this many steps as a three-panel MP4")] = 0,
) -> None:
    """Live against the installed ale-py: RAM, screen, reward, lives, game over and counters after every step.

    Example: python -m conformance ale --games pong --frames 10000 --seeds 3 --sticky 0,0.25 --modes all
    """
    from conformance import ale as live

    if modes not in ("default", "all"):
        raise VcsError(f"--modes {modes} is not known: accepted are 'default' and 'all'")
    probabilities = _numbers("--sticky", sticky, "0,0.25", -1e-9, 1)
    cases = []
    for game in _choose(games, live.supported_games()):
        common = {"frame_skip": frame_skip, "out": str(out)}
        for seed in range(seeds):
            for p in probabilities:
                extra = {"video": video} if video and seed == 0 and p == probabilities[0] else {}
                cases.append(
                    Case("ale", game, {"frames": frames, "seed": seed, "sticky": p, **common, **extra})
                )
        if modes == "all":
            cases += [
                Case(
                    "ale",
                    game,
                    {
                        "frames": mode_frames,
                        "seed": 0,
                        "sticky": probabilities[0],
                        "mode": m,
                        "difficulty": d,
                        **common,
                    },
                )
                for m, d in live.modes_of(game)
            ]
    _run("ale", live.run, cases, jobs, timeout, report, resume)


@app.command()
def trace(
    file: Annotated[pathlib.Path, typer.Argument(help="trace that your emulator wrote (.npz)")],
    what: Annotated[
        str, typer.Option(help="columns of the instructions, and screens or winner, joined by commas")
    ] = "pc,opcode,a,x,y,sp,p",
) -> None:
    """A trace of another emulator against our machine's run from the same start (examples/your_emulator.py).

    Example: python -m conformance trace yours.npz --what pc,a,x,y,sp,p,cycles
    """
    from conformance import traces
    from vcs.trace import Trace

    outcome = traces.compare(Trace.load(file), tuple(name.strip() for name in what.split(",")))
    report.show("trace", [outcome], console)
    sys.exit(0 if report.ok([outcome]) else 1)


@app.command()
def document(
    reports: Annotated[list[pathlib.Path], typer.Argument(help="JSON reports of the other commands")],
    into: Annotated[pathlib.Path, typer.Option(help="the page to update")] = (
        golden.REPOSITORY / "docs" / "conformance.md"
    ),
) -> None:
    """Write the tables of docs/conformance.md from JSON reports.

    Each table stands between <!-- table NAME --> and <!-- end NAME -->, NAME being the report's file name
    without its extension. Example: python -m conformance document conformance/reports/*.json
    """
    try:
        text = into.read_text()
        for path in reports:
            start, end = f"<!-- table {path.stem} -->\n", f"<!-- end {path.stem} -->"
            if start not in text or end not in text:
                raise VcsError(
                    f"{into} has no place for {path.stem}: add the lines {start.strip()} and {end}"
                )
            head, _, rest = text.partition(start)
            text = head + start + report.markdown(json.loads(path.read_text())) + end + rest.partition(end)[2]
    except VcsError:
        raise
    except OSError as e:
        raise VcsError(f"cannot read a report ({e}): give JSON files written with --report") from None
    except (ValueError, LookupError, TypeError, AttributeError) as e:
        raise VcsError(
            f"{into} or a report is not what it should be ({type(e).__name__}): give JSON files written with "
            "--report, and a page of text"
        ) from None
    files.write_text(into, text)
    console.print(f"{into}: {len(reports)} tables")

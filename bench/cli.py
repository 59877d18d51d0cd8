"""The command line of ``python -m bench``."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Annotated

import typer
from rich.console import Console

from bench import harness
from vcs import files
from vcs.command import INTERRUPTED
from vcs.data import load_csv
from vcs.errors import VcsError

RESULTS = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
CORE_GAMES = ["breakout", "ms_pacman", "pong", "qbert", "seaquest", "space_invaders"]

app = typer.Typer(
    help="Speed beside the peers, in one run. Example: python -m bench rollout --json rollout.json",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()

Games = Annotated[str, typer.Option(help="'core' (six games), 'all', or names joined by commas")]
Json = Annotated[pathlib.Path | None, typer.Option(help="write the rows to this file")]
Seconds = Annotated[float, typer.Option(min=0.001, help="rough length of one timed stretch, in seconds")]
Repeats = Annotated[int, typer.Option(min=1, help="timed stretches of each side")]
Note = Annotated[str, typer.Option(help="what the results should say of this run: how the engine was built")]


def chosen_games(text: str) -> list[str]:
    """The games behind `--games`: "core", "all" or names joined by commas; VcsError for an unknown one."""
    known = [r["name"] for r in load_csv("roms.csv") if r["ale_py_supported"] == "1"]
    if text in ("all", "core"):
        return known if text == "all" else CORE_GAMES
    names = [n.strip() for n in text.split(",")]
    unknown = [n for n in names if n not in known]
    if unknown:
        raise VcsError(
            f"no game {', '.join(unknown)}: --games takes 'core', 'all' or names as `vcs info` knows them"
        )
    return names


def _run(
    name: str, games: str, path: pathlib.Path | None, seconds: float, repeats: int, note: str = ""
) -> None:
    """Run one bench, show rows as they come; Ctrl-C keeps what there is."""
    module = importlib.import_module(f"bench.{name}")
    rows: list[harness.Row] = []
    interrupted = False
    try:
        with console.status(f"{name} ..."):
            for row in module.run(chosen_games(games), seconds, repeats):
                rows.append(row)
                console.print(
                    f"{row.case}: {harness.figure(row.ours)} {row.unit}"
                    + (f", {harness.figure(row.ratio)} x {row.peer}" if row.ratio else "")
                )
    except KeyboardInterrupt:
        interrupted = True
    harness.show(name, rows, console)
    if path is not None and rows:
        settings: dict[str, object] = {"games": games, "seconds": seconds, "repeats": repeats}
        if note:
            settings["note"] = note
        files.write_text(path, harness.to_json(name, rows, settings))
    if interrupted:
        console.print(f"interrupted after {len(rows)} rows")
        sys.exit(INTERRUPTED)


@app.command(epilog="Example: python -m bench rollout --games pong")
def rollout(
    games: Games = "core",
    json: Json = None,
    seconds: Seconds = 0.5,
    repeats: Repeats = 7,
    note: Note = "",
) -> None:
    """Frames per second of one machine on one core, beside ale-py."""
    _run("rollout", games, json, seconds, repeats, note)


@app.command(epilog="Example: python -m bench vector --games pong")
def vector(
    games: Games = "core",
    json: Json = None,
    seconds: Seconds = 2.0,
    repeats: Repeats = 5,
    note: Note = "",
) -> None:
    """Frames per second of 64 preprocessed environments, beside ale-py's AtariVectorEnv."""
    _run("vector", games, json, seconds, repeats, note)


@app.command(epilog="Example: python -m bench gym --games pong")
def gym(
    games: Games = "core",
    json: Json = None,
    seconds: Seconds = 0.1,
    repeats: Repeats = 7,
    note: Note = "",
) -> None:
    """Steps per second of a Gymnasium environment, beside our core alone and beside ALE's."""
    _run("gym", games, json, seconds, repeats, note)


@app.command(epilog="Example: python -m bench snapshot --games pong")
def snapshot(games: Games = "core", json: Json = None, seconds: Seconds = 0.5, repeats: Repeats = 7) -> None:
    """Saving and restoring a machine, beside ale-py's cloneState and restoreState."""
    _run("snapshot", games, json, seconds, repeats)


@app.command(epilog="Example: python -m bench gradient --games pong")
def gradient(games: Games = "core", json: Json = None, seconds: Seconds = 1.0, repeats: Repeats = 3) -> None:
    """Instructions per second of a gradient by the adjoint sweep, beside the soft engine."""
    _run("gradient", games, json, seconds, repeats)


@app.command(epilog="Example: python -m bench soft --games pong")
def soft(games: Games = "core", json: Json = None, seconds: Seconds = 1.0, repeats: Repeats = 3) -> None:
    """Instructions per second of the soft engine, forward alone and forward with backward."""
    _run("soft", games, json, seconds, repeats)


@app.command(epilog="Example: python -m bench explore --games pong")
def explore(
    games: Games = "core",
    clicks: Annotated[int, typer.Option(min=1, max=10_000, help="clicks a game")] = 12,
) -> None:
    """Milliseconds that the explorer takes to answer what its page asks."""
    from rich.table import Table

    from bench import explore as e

    table = Table("game", "what", "median, ms", "worst, ms", "processor, ms", "aimed at, ms")
    with console.status("explore ..."):
        for row in e.run(chosen_games(games), clicks):
            aim = f"< {row.target:g}" if row.target else ""
            table.add_row(row.game, row.what, f"{row.median:.1f}", f"{row.worst:.1f}", f"{row.cpu:.1f}", aim)
    console.print(table)


@app.command()
def report(
    results: Annotated[list[pathlib.Path], typer.Argument(help="JSON files of the other commands")],
    into: Annotated[pathlib.Path, typer.Option(help="the page to write; results.png goes beside it")] = (
        RESULTS
    ),
) -> None:
    """Write RESULTS.md and its bar chart. Example: python -m bench report bench/results/*.json"""
    from bench import report as r

    r.write(results, into)
    console.print(f"{into}: {len(results)} benches")

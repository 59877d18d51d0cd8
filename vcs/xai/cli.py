"""`vcs audit`, `vcs labels`, `vcs report`: the study of explanations from the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from vcs import files
from vcs.command import INTERRUPTED
from vcs.errors import VcsError
from vcs.xai.labels import LABEL_HEADS, LabelTable

if TYPE_CHECKING:
    from vcs.xai.audit import Row

app = typer.Typer(help="Score explanation methods against the machine's true causes.", no_args_is_help=True)
console = Console()


def bar() -> Progress:
    """The progress display of long work, on standard error so that output can be piped."""
    return Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def number(value: float | None, digits: int = 3) -> str:
    """A score for a table; a dash where it is undefined."""
    return "-" if value is None else f"{value:.{digits}f}"


@app.command(epilog="Example: vcs audit --games pong,breakout --methods saliency,occlusion --out audit")
def audit(
    games: Annotated[
        str,
        typer.Option(
            help="Names separated by commas, or 42 (the published study), labelled (54), 64 (the study's "
            "roster) or all (104)."
        ),
    ] = "42",
    method_names: Annotated[
        str, typer.Option("--methods", help="Names separated by commas, or all.")
    ] = "saliency",
    out: Annotated[Path, typer.Option(help="Folder for the records.")] = Path("audit"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=1024, help="Processes.")] = 1,
    states: Annotated[
        int, typer.Option(min=1, max=999, help="Action streams; more than 1 gives intervals over states.")
    ] = 1,
    backend: Annotated[str, typer.Option(help="loky (this machine) or dask (a cluster).")] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Address of a dask scheduler, such as tcp://host:8786.", show_default=False
        ),
    ] = None,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            help="Python file that registers a method of yours (vcs.xai.register); repeatable.",
            show_default=False,
        ),
    ] = None,
    curves: Annotated[bool, typer.Option(help="Also deletion and insertion curves.")] = True,
) -> None:
    """Score explanation methods against exact interventions.

    One record per (method, game, output) goes to OUT, then a leaderboard. A rerun continues where the
    last one stopped. Exit code 1 if anything failed, 130 after Ctrl-C.
    """
    from vcs.xai import audit as run

    plugins = [str(p) for p in plugin or ()]
    for path in plugins:
        run.load_plugin(path)
    chosen, wanted = run.resolve_games(games), run.resolve_methods(method_names)
    with bar() as progress:
        task = progress.add_task("audit", total=None)

        def show(done: int, total: int, result: run.Done) -> None:
            progress.update(task, completed=done, total=total, description=f"audit {result.game}")

        summary = run.run_audit(
            chosen,
            wanted,
            out,
            jobs=jobs,
            states=states,
            backend=backend,
            scheduler=scheduler,
            plugins=plugins,
            curves=curves,
            progress=show,
        )
    for game, name, kind, why in summary.failures[:20]:
        console.print(f"[red]failed[/red] {name} {game} {kind}: {why}", highlight=False, markup=True)
    if len(summary.failures) > 20:
        console.print(f"... and {len(summary.failures) - 20} more, see summary.json")
    console.print(
        f"{summary.written} records written, {summary.there} were there, {len(summary.failures)} failed, "
        f"{summary.seconds:.1f} s"
    )
    if summary.interrupted:
        console.print("[yellow]interrupted: run the same command again to continue[/yellow]")
    show_leaderboard(run.finish(out, summary))
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary.failures:
        raise typer.Exit(1)


def show_leaderboard(rows: Sequence[Row]) -> None:
    """Print a leaderboard."""
    table = Table(title="F with 95 % half-width; content, position; S, M", box=SIMPLE, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for head in ("method", "games", "F", "+-", "cont.", "pos.", "S", "M", "publ."):
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True, min_width=5)
    for r in rows:
        table.add_row(
            r.method,
            str(r.n_games),
            number(r.F),
            number(r.F_half_width),
            number(r.F_content),
            number(r.F_position),
            number(r.S),
            number(r.M),
            number(r.F_published),
        )
    console.print(table)


@app.command(epilog="Example: vcs labels pong --out labels")
def labels(
    games: Annotated[
        str,
        typer.Argument(
            metavar="GAME",
            help="A game name, or several with commas, or labelled (54), 64, all (104).",
            show_default=False,
        ),
    ],
    states: Annotated[int, typer.Option(min=1, max=20, help="Gameplay states to measure in.")] = 3,
    every: Annotated[bool, typer.Option("--all", help="Also measure cells without a label.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for GAME.json and labels.md, the tables.", show_default=False),
    ] = None,
) -> None:
    """Measure what labelled RAM cells do to the picture: move, recolour or animate something, and where.

    For each cell that moves something: the affine map from byte to column or row with its residual. A game
    without published labels gets a discovered table, marked as such.
    """
    from vcs.xai.audit import resolve_games
    from vcs.xai.labels import measure

    chosen = resolve_games(games)
    tables: list[LabelTable] = []
    with bar() as progress:
        task = progress.add_task("labels", total=None)
        for game in chosen:
            progress.update(task, description=f"labels {game}")
            tables.append(
                measure(
                    game,
                    states,
                    every_cell=every,
                    progress=lambda done, total: progress.update(task, completed=done, total=total),
                )
            )
            if out is not None:
                files.write_text(out / f"{tables[-1].game}.json", json.dumps(tables[-1].to_json()) + "\n")
    for table in tables if len(tables) == 1 else ():
        console.print(labels_table(table))
    if out is not None:
        text = "\n".join(table.markdown() for table in tables)
        files.write_text(out / "labels.md", text)
        console.print(f"wrote {len(tables)} tables to {out}")


def labels_table(result: LabelTable) -> Table:
    """The table of one game for the terminal."""
    kind = "published labels" if result.labelled else "discovered cells"
    table = Table(title=f"{result.game}: {kind}, {result.states} states")
    for head in LABEL_HEADS:
        table.add_column(head)
    for cell in result.cells:
        table.add_row(*cell.columns(result.states))
    return table


@app.command(epilog="Example: vcs report audit --out audit/site")
def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with the records of `vcs audit`.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pages; default: DIR/site.", show_default=False)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=1024, help="Processes.")] = 1,
    source: Annotated[
        str,
        typer.Option(
            help="Address that links to source files start with; by default copied beside the pages.",
        ),
    ] = "",
) -> None:
    """Build a static site from records: leaderboard, a page per method, a page per (method, game)."""
    if not folder.is_dir():
        raise VcsError(f"{folder} is no folder; give the folder that `vcs audit --out` wrote")
    from vcs.xai.report import build

    with bar() as progress:
        task = progress.add_task("report", total=None)
        index = build(
            folder,
            out or folder / "site",
            jobs=jobs,
            source=source,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    console.print(f"open {index}")

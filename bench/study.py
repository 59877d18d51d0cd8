"""What the studies have in common: one game at a time, into a file that an interrupted run goes on with."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from bench.cli import chosen_games
from vcs import files
from vcs.command import guarded
from vcs.errors import VcsError


def collect(
    name: str,
    games: str,
    settings: dict[str, Any],
    path: pathlib.Path | None,
    study: Callable[[str], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    console: Console,
) -> tuple[dict[str, Any], bool]:
    """The results of a study by game, those that ``path`` holds already first, and whether Ctrl-C came.

    games: as in `chosen_games`. settings: what a file must have been made with to be continued. study: of
    one game. line: what to say of a result. Ctrl-C ends it with what there is. Raises VcsError for an unknown
    game, and for a file that cannot be written, is not one of this study or was made with other settings.
    """
    warnings.simplefilter("ignore")
    wanted = chosen_games(games)
    data: dict[str, Any] = {"study": name, "settings": settings, "games": {}}
    if path is not None:
        if path.exists():
            data = _known(path, name)
            if data["settings"] != settings:
                raise VcsError(f"{path} was made with {data['settings']}: use those settings or another file")
        _save(path, data)  # so that a place that cannot be written is refused before the work, not after
    results: dict[str, Any] = data["games"]
    interrupted = False
    try:
        for game in wanted:
            if game in results:
                continue
            results[game] = study(game)
            console.print(f"{game}: {line(results[game])}")
            if path is not None:
                _save(path, data)
    except KeyboardInterrupt:
        interrupted = True
        console.print("interrupted; what there is:")
    return results, interrupted


def _save(path: pathlib.Path, data: dict[str, Any]) -> None:
    files.write_text(path, json.dumps(data, separators=(",", ":")) + "\n")


def _known(path: pathlib.Path, name: str) -> dict[str, Any]:
    """What a study's file holds."""
    try:
        data = json.loads(path.read_text("utf-8"))
        fits = data["study"] == name and isinstance(data["games"], dict) and "settings" in data
    except (OSError, ValueError, LookupError, TypeError):
        fits = False
    if not fits:
        raise VcsError(f"{path} is no file of the {name} study: give the name of one, or of a new file")
    return dict(data)


def run(main: Callable[..., None]) -> None:
    """Run a study's ``main`` as the command line of its module."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    guarded(app, "bench")

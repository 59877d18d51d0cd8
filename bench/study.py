"""What the studies have in common: one game at a time, into a file that an interrupted run goes on with."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

from rich.console import Console

from bench.cli import chosen_games
from vcs import files
from vcs.errors import VcsError


def collect(
    name: str,
    games: str,
    settings: dict[str, Any],
    path: pathlib.Path | None,
    study: Callable[[str], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    console: Console,
) -> dict[str, Any]:
    """The results of a study by game, those that ``path`` holds already first.

    games: as in `chosen_games`. settings: what a file must have been made with to be continued. study: of
    one game. line: what to say of a result. Ctrl-C ends it with what there is. Raises VcsError for a file
    of other settings.
    """
    warnings.simplefilter("ignore")
    data: dict[str, Any] = {"study": name, "settings": settings, "games": {}}
    if path is not None and path.exists():
        data = json.loads(path.read_text())
        if data["settings"] != settings:
            raise VcsError(f"{path} was made with {data['settings']}: use those settings or another file")
    results: dict[str, Any] = data["games"]
    try:
        for game in chosen_games(games):
            if game in results:
                continue
            results[game] = study(game)
            console.print(f"{game}: {line(results[game])}")
            if path is not None:
                files.write_text(path, json.dumps(data, separators=(",", ":")) + "\n")
    except KeyboardInterrupt:
        console.print("stopped; what there is:")
    return results

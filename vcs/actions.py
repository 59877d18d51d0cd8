"""What to press: names, numbers, files and random play, for the commands that run a machine."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from vcs import roms
from vcs.data import load_json
from vcs.errors import VcsError

# player A's 18 actions (environment.md 5.1), name -> number
NAMES: dict[str, int] = {
    name: code for name, code in load_json("games.json")["action_codes"].items() if code < 18}


def legal(game: str | None, protocol: str, kind: str = "minimal") -> list[int]:
    """Action numbers that `game` uses (`kind="minimal"`) or accepts (`kind="legal"`); all 18 if unknown."""
    record = roms.record(game) if game else None
    sets: dict[str, list[int]] = record[f"{kind}_actions"] if record else {}
    return sets.get(protocol) or sets.get("ale") or list(range(18))


def parse(text: str, where: str) -> list[int]:
    """Actions written as names or numbers, separated by blanks, commas or line ends; `#` starts a comment."""
    words = re.sub(r"#[^\n]*", "", text).replace(",", " ").split()
    codes = []
    for word in words:
        code = NAMES.get(word.upper(), int(word) if word.isascii() and word.isdigit() else -1)
        if code not in range(18):
            raise VcsError(f"{where} holds {word!r:.40}, which is no action: use numbers 0 to 17 or names "
                           "such as NOOP, FIRE, UP, LEFTFIRE")
        codes.append(code)
    if not codes:
        raise VcsError(f"{where} holds no action: write numbers 0 to 17 or names such as NOOP, FIRE, UP, "
                       "LEFTFIRE")
    return codes


def choose(what: str, frames: int, seed: int, game: str | None, protocol: str) -> list[int]:
    """`frames` actions.

    what: `noop`, `random` (uniform over the game's minimal actions, the same for the same `seed`), or the
    path of
        a file (`parse`); a file with fewer actions than frames is followed by NOOP.
    """
    if what == "noop":
        return [0] * frames
    if what == "random":
        choices = np.array(legal(game, protocol))
        return [int(a) for a in np.random.default_rng(seed).choice(choices, frames)]
    try:
        text = Path(what).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise VcsError(f"{what!r} names no actions: use noop, random, or a readable text file of "
                       "actions") from None
    return (parse(text, what) + [0] * frames)[:frames]

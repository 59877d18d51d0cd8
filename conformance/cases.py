"""What is checked (a Case) and what came out (an Outcome): plain data that survives JSON and processes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

EQUAL, DIFFERENT, ERROR, SKIPPED = "equal", "different", "error", "skipped"


@dataclasses.dataclass(frozen=True)
class Case:
    """One unit of work: a command, a game and JSON-able parameters."""

    command: str
    game: str
    params: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        """A stable text that identifies the case: the journal's key and the JUnit test name."""
        parts = [
            f"{k}={json.dumps(v, separators=(',', ':'))}"
            for k, v in sorted(self.params.items())
            if k not in ("out",)
        ]
        return " ".join([self.game, *parts])


@dataclasses.dataclass
class Outcome:
    """What running a Case gave.

    ``counts`` holds how much was compared (frames, instructions, pixels ...); ``difference`` describes the
    first difference (see ``locate``), ``message`` is one sentence for people.
    """

    case: Case
    status: str
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    message: str = ""
    difference: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "command": self.case.command,
            "game": self.case.game,
            "params": self.case.params,
            "status": self.status,
            "counts": self.counts,
            "seconds": round(self.seconds, 3),
            "message": self.message,
            "difference": self.difference,
        }

    @staticmethod
    def from_json(row: dict[str, Any]) -> Outcome:
        return Outcome(
            Case(row["command"], row["game"], row["params"]),
            row["status"],
            row["counts"],
            row["seconds"],
            row["message"],
            row["difference"],
        )

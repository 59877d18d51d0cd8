"""The result tables of docs/audit.md, made from records: ``python -m vcs.xai.tables DIR``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vcs.command import guarded
from vcs.data import load_json
from vcs.errors import VcsError
from vcs.xai import audit, methods, records
from vcs.xai.state import scored_games


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers with three decimals, None as a dash."""

    def cell(value: object) -> str:
        return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cell(v) for v in row) + " |" for row in rows]) + "\n"


def leaderboard(rows: Sequence[audit.Row]) -> str:
    """Rows with their published counterparts."""
    heads = (
        "method",
        "games",
        "F",
        "+-",
        "content",
        "position",
        "S",
        "M",
        "published F",
        "content",
        "position",
    )
    return table(
        heads,
        [
            (
                r.method,
                r.n_games,
                r.F,
                r.F_half_width,
                r.F_content,
                r.F_position,
                r.S,
                r.M,
                r.F_published,
                r.F_content_published,
                r.F_position_published,
            )
            for r in rows
        ],
    )


def saliency_games(found: Sequence[dict[str, Any]]) -> str:
    """Saliency per game: published, ours; a star where they differ in the third decimal."""
    expected = load_json("audit_expected.json")["games"]
    rows = []
    for entry in audit.per_game([r for r in found if r["extra"]["method_key"] == "saliency"]):
        if entry["game"] in expected:
            published = expected[entry["game"]]["published"]
            same = all(
                abs(entry[k] - published[k]) < 6e-4 for k in ("F", "F_content", "F_position", "S", "M")
            )
            rows.append(
                (
                    entry["game"] + ("" if same else " *"),
                    *(float(published[k]) for k in ("F", "F_content", "F_position", "S", "M")),
                    *(float(entry[k]) for k in ("F", "F_content", "F_position", "S", "M")),
                )
            )
    heads = ("game", "F", "content", "position", "S", "M", "ours: F", "content", "position", "S", "M")
    return table(heads, rows)


def headline(entries: Sequence[dict[str, Any]]) -> str:
    """Hand-made against end-to-end saliency, by F and by rank correlation."""
    heads = ("score", "output", "rules", "games", "hand-made", "end-to-end", "difference", "95 % interval")
    return table(
        heads,
        [
            (
                title,
                e["output"],
                e["rules"],
                e["games"],
                *(e[f"{name}_{what}"] for what in ("hand_made", "end_to_end", "difference")),
                f"{e[f'{name}_low']:.3f} to {e[f'{name}_high']:.3f}",
            )
            for name, title in (("F", "F"), ("rank", "Spearman"))
            for e in entries
        ],
    )


def states(out: Path) -> str:
    """F over action streams: mean, its interval over states, and each state's."""
    rows = audit.over_states(out)
    heads = ("method", "states", "mean F", "95 % interval", "per state")
    return table(
        heads,
        [
            (
                r["method"],
                r["states"],
                r["F_mean"],
                f"{r['F_low']:.3f} to {r['F_high']:.3f}",
                ", ".join(f"{v:.3f}" for v in r["F_per_state"]),
            )
            for r in sorted(rows, key=lambda r: -r["F_mean"])
        ],
    )


def main(folder: str) -> None:
    """Print all tables of a record folder; VcsError for one without records."""
    out = Path(folder)
    found = [r for _, r in records.every(out)]
    if not found:
        raise VcsError(f"{folder} holds no audit records; make some with `vcs audit --out {folder}`")
    methods.load()
    scored = [r for r in found if r["game"] in scored_games()]
    labelled = [r for r in found if r["extra"]["labelled"]]
    for title, text in (
        ("The 42 games", leaderboard(audit.aggregate(scored))),
        ("Contrast, 42 games", json.dumps(audit.contrast(audit.aggregate(scored)))),
        ("Headline, 42 games", headline(audit.headline(scored))),
        (
            f"All {len({r['game'] for r in found})} games, {len({r['game'] for r in labelled})} with labels",
            leaderboard(audit.aggregate(found)),
        ),
        ("Headline, all games", headline(audit.headline(found))),
        ("Saliency per game", saliency_games(found)),
    ):
        print(f"### {title}\n\n{text}")
    folders = sorted(out.glob("state_[0-9][0-9][0-9]"))
    if folders:
        print(f"### Over states\n\n{states(out)}")
        found += [r for state in folders for _, r in records.every(state)]
        print(f"### Headline, all states\n\n{headline(audit.headline(found))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="DIR", help="folder that `vcs audit` wrote")
    guarded(lambda: main(parser.parse_args().folder), "vcs.xai.tables")

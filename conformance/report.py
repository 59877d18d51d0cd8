"""Reports: a rich table, JSON, JUnit XML and the Markdown tables of docs/conformance.md."""

from __future__ import annotations

import collections
import datetime
import importlib.metadata
import json
import platform
import sys
import xml.etree.ElementTree as ET
from typing import Any

from rich.console import Console
from rich.table import Table

from conformance.cases import DIFFERENT, EQUAL, ERROR, SKIPPED, Outcome


def versions() -> dict[str, str]:
    """Versions of everything the comparison depends on ("-" when not installed)."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("glassvcs", "ale-py", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "-"
    return found


def tally(outcomes: list[Outcome]) -> dict[str, int]:
    return dict(collections.Counter(o.status for o in outcomes))


def totals(outcomes: list[Outcome]) -> dict[str, int]:
    """How much was compared, summed over outcomes."""
    total: collections.Counter[str] = collections.Counter()
    for o in outcomes:
        total.update(o.counts)
    return dict(total)


def ok(outcomes: list[Outcome]) -> bool:
    return not any(o.status in (DIFFERENT, ERROR) for o in outcomes)


def by_game(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    games: dict[str, list[Outcome]] = {}
    for o in outcomes:
        games.setdefault(o.case.game, []).append(o)
    return games


def verdict(outcomes: list[Outcome]) -> str:
    for status in (ERROR, DIFFERENT):
        if any(o.status == status for o in outcomes):
            return status
    return EQUAL if any(o.status == EQUAL for o in outcomes) else SKIPPED


def show(command: str, outcomes: list[Outcome], console: Console) -> None:
    """Print the table: one row per game, then the first differences in full."""
    names = list(totals(outcomes))
    table = Table(title=f"conformance {command}", title_justify="left")
    table.add_column("game")
    table.add_column("cases", justify="right")
    for n in names:
        table.add_column(n, justify="right")
    table.add_column("s", justify="right")
    table.add_column("result")
    colour = {EQUAL: "green", DIFFERENT: "red", ERROR: "red", SKIPPED: "yellow"}
    for game, rows in by_game(outcomes).items():
        total, v = totals(rows), verdict(rows)
        first = next((o.message for o in rows if o.status == v and o.message), "")
        table.add_row(
            game,
            str(len(rows)),
            *(f"{total.get(n, 0):,}" for n in names),
            f"{sum(o.seconds for o in rows):.1f}",
            f"[{colour[v]}]{v}[/] {first}"[:300],
        )
    console.print(table)
    for o in outcomes:
        if o.status in (DIFFERENT, ERROR) and o.difference:
            console.rule(f"{o.case.key}: {o.message}", align="left")
            for k, value in o.difference.items():
                text = value if isinstance(value, str) else json.dumps(value)
                console.print(f"  {k}: {text}", highlight=False, markup=False)
    summary = ", ".join(f"{n} {s}" for s, n in sorted(tally(outcomes).items()))
    compared = ", ".join(f"{v:,} {k}" for k, v in totals(outcomes).items())
    console.print(
        f"{len(by_game(outcomes))} games, {len(outcomes)} cases: {summary or 'nothing to do'}"
        + (f"; compared {compared}" if compared else "")
    )


def to_json(command: str, outcomes: list[Outcome], *, complete: bool, stamp: str) -> dict[str, Any]:
    return {
        "format": "glassvcs-conformance",
        "version": 1,
        "command": command,
        "arguments": sys.argv[1:],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        "versions": versions(),
        "build": stamp,
        "complete": complete,
        "ok": complete and ok(outcomes),
        "games": len(by_game(outcomes)),
        "tally": tally(outcomes),
        "compared": totals(outcomes),
        "outcomes": [o.to_json() for o in outcomes],
    }


def to_junit(command: str, outcomes: list[Outcome]) -> str:
    suite = ET.Element(
        "testsuite",
        name=f"conformance.{command}",
        tests=str(len(outcomes)),
        failures=str(sum(o.status == DIFFERENT for o in outcomes)),
        errors=str(sum(o.status == ERROR for o in outcomes)),
        skipped=str(sum(o.status == SKIPPED for o in outcomes)),
        time=f"{sum(o.seconds for o in outcomes):.3f}",
    )
    for o in outcomes:
        test = ET.SubElement(
            suite,
            "testcase",
            classname=f"conformance.{command}.{o.case.game}",
            name=o.case.key,
            time=f"{o.seconds:.3f}",
        )
        kind = {DIFFERENT: "failure", ERROR: "error", SKIPPED: "skipped"}.get(o.status)
        if kind:
            child = ET.SubElement(test, kind, message=o.message)
            if o.difference:
                child.text = json.dumps(o.difference, indent=1)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(report: dict[str, Any]) -> str:
    """The table of one JSON report, as it stands in docs/conformance.md."""
    outcomes = [Outcome.from_json(r) for r in report["outcomes"]]
    names = list(totals(outcomes))
    v = ", ".join(f"{k} {x}" for k, x in report["versions"].items())
    lines = [
        f"`python -m conformance {' '.join(report['arguments'])}`",
        "",
        f"{report['date']}; {v}; build `{report['build']}`; "
        + ", ".join(f"{n} {s}" for s, n in sorted(report["tally"].items()))
        + ("" if report["complete"] else "; NOT COMPLETE (interrupted)"),
        "",
        "| game | cases | " + " | ".join(names) + " | result |",
        "|---|--:|" + "--:|" * len(names) + "---|",
    ]
    for game, rows in by_game(outcomes).items():
        total, result = totals(rows), verdict(rows)
        first = next((o.message for o in rows if o.status == result and o.message), "")
        lines.append(
            f"| {game} | {len(rows)} | "
            + " | ".join(f"{total.get(n, 0):,}" for n in names)
            + f" | {result} {first} |".replace("  ", " ")
        )
    return "\n".join(lines) + "\n"

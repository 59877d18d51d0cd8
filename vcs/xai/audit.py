"""The audit: every method on every game, resumable, on one machine or a cluster; and its leaderboard.

A task is one game in one state: it boots the machine once, and all methods share its exact re-runs. Workers
compute, the driver alone writes, so an interrupted run leaves only whole records and a rerun goes on where
it stopped. Sections 8 and 12 of the audit protocol.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcs import files, roms
from vcs.command import deaf
from vcs.data import load_csv, load_json
from vcs.errors import VcsError
from vcs.xai import methods, metrics, records
from vcs.xai.scoring import score
from vcs.xai.state import State, actions_of, labelled_games, scored_games

KINDS = ("content", "position")
# Plausibility is a fixed number per tradition in the study, not a measurement (8.4).
PLAUSIBILITY = {
    "gradient": 0.90,
    "probing": 0.85,
    "correlational": 0.80,
    "dimension reduction": 0.75,
    "intervention": 0.55,
    "causal": 0.50,
    "descriptive": 0.30,
}


# how often worker processes may die before their tasks are given up
DEATHS = 4
# seconds after which a cluster without a worker is given up
LONELY = 600.0


@dataclass(frozen=True)
class Task:
    """One game in one state: ``todo`` lists the (method, output kind) pairs to compute."""

    game: str
    rom: str
    seed: int
    todo: tuple[tuple[str, str], ...]
    plugins: tuple[str, ...] = ()
    curves: bool = True


@dataclass
class Done:
    """What a task gives back. failures: (method, kind, reason)."""

    game: str
    seed: int
    records: list[tuple[dict[str, Any], dict[str, NDArray[Any]]]] = field(default_factory=list)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    seconds: float = 0.0


def load_plugin(path: str) -> None:
    """Import a Python file that registers methods. Raises VcsError if it cannot be imported."""
    file = Path(path).resolve()
    spec = importlib.util.spec_from_file_location(f"vcs_plugin_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise VcsError(f"there is no Python file {path}; give the path of a file that registers a method")
    try:
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as why:
        raise VcsError(f"{path} could not be imported ({type(why).__name__}: {why}); fix the file") from None


def resolve_games(text: str) -> list[str]:
    """Game names of a list: ``42`` (scored), ``labelled`` (54), ``64`` (the study's), ``all`` (104) or names.

    Raises VcsError for a name nobody knows.
    """
    known = {row["name"]: row for row in load_csv("roms.csv")}
    lists = {
        "42": scored_games(),
        "labelled": labelled_games(),
        "64": sorted(n for n, r in load_json("properties.json")["roms"].items() if r["xitari_settings"]),
        "all": sorted(n for n, r in known.items() if r["ale_py_supported"] == "1"),
    }
    if text in lists:
        return lists[text]
    wanted = [t.strip() for t in text.split(",") if t.strip()]
    if not wanted:
        raise VcsError("no game named; give names separated by commas, or 42, labelled, 64 or all")
    return [roms.find(name).name for name in wanted]


def resolve_methods(text: str) -> list[str]:
    """Method names of a comma-separated list or ``all``; VcsError for an unknown one."""
    if text == "all":
        return methods.names()
    wanted = [t.strip() for t in text.split(",") if t.strip()]
    if not wanted:
        raise VcsError("no method named; give names separated by commas, or all")
    chosen = [methods.get(name) for name in wanted]
    for m in chosen:
        if m.not_applicable:
            raise VcsError(f"{m.name} cannot be scored here: {m.not_applicable}; choose another method")
    return [m.name for m in chosen]


def run_task(task: Task) -> Done:
    """Score the task's methods; whatever one of them does, the others go on."""
    start = time.monotonic()
    done = Done(task.game, task.seed)
    for plugin in task.plugins:
        load_plugin(plugin)
    try:
        state = State(task.rom, task.seed)
    except VcsError as why:
        return _failed(task, str(why))
    except Exception as why:
        return _failed(task, f"{type(why).__name__}: {why}")
    for name, kind in task.todo:
        try:
            done.records.append(records.build(state, score(state, name, kind, curves=task.curves), kind))
        except VcsError as why:
            done.failures.append((name, kind, str(why)))
        except Exception as why:
            place = traceback.extract_tb(why.__traceback__)[-1]
            done.failures.append(
                (name, kind, f"{type(why).__name__}: {why} ({Path(place.filename).name}:{place.lineno})")
            )
    done.seconds = time.monotonic() - start
    return done


def _folder(out: Path, seed: int) -> Path:
    """Where the records of a state go: the published state in the folder itself, others below."""
    return out if seed == 0 else out / f"state_{seed:03d}"


def plan(
    games: Sequence[str],
    names: Sequence[str],
    out: Path,
    states: int = 1,
    plugins: Sequence[str] = (),
    curves: bool = True,
) -> tuple[list[Task], int]:
    """The tasks whose records are not there yet, and the number of records that are."""
    tasks, there = [], 0
    for seed in range(states):
        stream, _ = actions_of(seed)
        for game in games:
            image = roms.find(game)
            todo = []
            for name in names:
                method = methods.get(name)
                facts = records.provenance(method, image.sha256, stream, seed)
                for kind in KINDS:
                    if records.current(_folder(out, seed), method, image.name, kind, facts):
                        there += 1
                    else:
                        todo.append((name, kind))
            if todo:
                rom = str(image.path) if image.path else game
                tasks.append(Task(image.name, rom, seed, tuple(todo), tuple(plugins), curves))
    return tasks, there


@contextmanager
def _dask(scheduler: str | None) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise VcsError(
            "the dask backend needs the distributed package: pip install 'glassvcs[dist]'"
        ) from None
    connect: Any = distributed.Client
    try:
        client = connect(scheduler) if scheduler else connect(processes=True)
    except (OSError, ValueError) as why:
        raise VcsError(
            f"no dask scheduler answers at {scheduler} ({why}); start one with `dask scheduler`"
        ) from None
    try:
        yield client, distributed
    finally:
        client.close()


def _failed(task: Task, why: str) -> Done:
    """What stands for a task that gave nothing back."""
    return Done(task.game, task.seed, failures=[(method, kind, why) for method, kind in task.todo])


@cache
def _follow(driver: int) -> None:
    """Let this worker end soon after its driver, however that ended; by itself it would wait for minutes."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == driver:
        threading.Thread(target=watch, daemon=True).start()


def _numbered(number: int, task: Task, driver: int) -> tuple[int, Done]:
    _follow(driver)
    return number, run_task(task)


def _results(tasks: list[Task], jobs: int, backend: str, scheduler: str | None) -> Iterator[Done]:
    """Results in the order in which they finish, one for each task whatever happens to the workers."""
    if backend == "dask":
        yield from _cluster(tasks, scheduler)
    elif jobs == 1 or len(tasks) == 1:
        yield from map(run_task, tasks)
    else:
        yield from _processes(tasks, jobs)


def _cluster(tasks: list[Task], scheduler: str | None) -> Iterator[Done]:
    """`_results` on a dask cluster. The scheduler gives a task to other workers when one dies, and gives up
    after a few; a cluster without any worker would let us wait for ever."""
    with _dask(scheduler) as (client, distributed):
        left = {f.key: (f, t) for f, t in zip(client.map(run_task, tasks, pure=False), tasks)}
        met = time.monotonic()  # when there was a worker
        while left:
            finished: set[Any] = set()
            with suppress(distributed.TimeoutError):
                waiting = [future for future, _ in left.values()]
                finished = distributed.wait(waiting, timeout=5, return_when="FIRST_COMPLETED").done
            for future in finished:
                _, task = left.pop(future.key)
                why = future.exception()
                yield future.result() if why is None else _failed(task, f"{type(why).__name__}: {why}")
                future.release()
            if finished or client.nthreads():
                met = time.monotonic()
            elif time.monotonic() - met > LONELY:
                for _, task in left.values():
                    yield _failed(task, f"the dask cluster had no worker for {LONELY:.0f} s: start some")
                return


def _processes(tasks: list[Task], jobs: int) -> Iterator[Done]:
    """`_results` on worker processes of this machine.

    joblib ends everything when one worker dies (killed for its memory, say); what is left then starts again
    with new workers, until they have died DEATHS times.
    """
    try:
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import BrokenProcessPool
    except ImportError:
        raise VcsError("several jobs need joblib: pip install 'glassvcs[xai]', or use --jobs 1") from None
    left = dict(enumerate(tasks))
    for _ in range(DEATHS):
        parallel = Parallel(
            n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1
        )
        try:
            with deaf():  # the workers start here
                results = parallel(delayed(_numbered)(k, t, os.getpid()) for k, t in list(left.items()))
            for number, done in results:
                del left[number]
                yield done
            return
        except BrokenProcessPool:
            continue
    for task in left.values():
        yield _failed(task, f"worker processes died {DEATHS} times; is there memory enough for {jobs} jobs?")


@dataclass
class Summary:
    """What a run did: records made now and found before; failures as (game, method, output, reason)."""

    written: int = 0
    there: int = 0
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0


def run_audit(
    games: Sequence[str],
    names: Sequence[str],
    out: Path | str,
    *,
    jobs: int = 1,
    states: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    plugins: Sequence[str] = (),
    curves: bool = True,
    progress: Callable[[int, int, Done], None] | None = None,
) -> Summary:
    """Score ``names`` on ``games`` and write one record per (method, game, output) into ``out``.

    states: action streams 0..states-1; the records of stream s > 0 go to ``out/state_00s``. jobs: processes
    (joblib's loky). backend: ``loky`` or ``dask`` with a ``scheduler`` address. plugins: Python files that
    register more methods. curves: also deletion and insertion curves. progress: called after each task with
    (tasks done, tasks, result).
    A method that fails, a game that is missing, or a disk that is full is a failure in the summary; the rest
    goes on. Ctrl-C ends the run with ``interrupted``; what is written stays valid and a rerun continues.
    Raises VcsError for an unknown backend or method, or ``jobs`` or ``states`` below 1.
    """
    if backend not in ("loky", "dask"):
        raise VcsError(f"unknown backend {backend!r}; use loky or dask")
    if jobs < 1 or states < 1:
        raise VcsError("jobs and states must be 1 or more")
    out = Path(out)
    began = time.monotonic()
    for plugin in plugins:
        load_plugin(plugin)
    tasks, there = plan(games, names, out, states, plugins, curves)
    summary = Summary(there=there)
    try:
        for i, done in enumerate(_results(tasks, jobs, backend, scheduler)):
            summary.failures += [(done.game, m, k, why) for m, k, why in done.failures]
            for record, arrays in done.records:
                try:
                    records.save(_folder(out, done.seed), record, arrays)
                    summary.written += 1
                except (VcsError, ValueError, TypeError) as why:  # a plugin may put anything into ``extra``
                    kind = record["extra"]["output_kind"]
                    summary.failures.append((done.game, record["extra"]["method_key"], kind, str(why)))
            if progress:
                progress(i + 1, len(tasks), done)
    except KeyboardInterrupt:
        summary.interrupted = True
    summary.seconds = time.monotonic() - began
    return summary


# ---------------------------------------------------------------------------------------- leaderboard


@dataclass(frozen=True)
class Row:
    """A leaderboard row: means over records (8.3), None where nothing is defined."""

    method: str
    title: str
    tradition: str
    rules: str
    n_games: int
    n_records: int
    F: float
    F_half_width: float
    F_low: float
    F_high: float
    F_content: float | None
    F_position: float | None
    F_raw: float
    S: float | None
    n_S: int
    M: float | None
    n_M: int
    spearman: float
    precision_at_k: float
    deletion_auc: float | None
    insertion_auc: float | None
    composite: float
    plausibility: float | None
    F_published: float | None
    F_content_published: float | None
    F_position_published: float | None


def aggregate(found: Sequence[dict[str, Any]]) -> list[Row]:
    """Leaderboard rows of records, best F first; records of one method over games and outputs."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        groups.setdefault(record["extra"]["method_key"], []).append(record)
    methods.load()
    rows = []
    for name, group in groups.items():
        try:
            method = methods.get(name)
        except VcsError:  # a plugin's method, in a folder read without the plugin
            method = methods.Method(name, lambda s, o, c: [], title=name)
        faith = [metrics.clip01(r["value"]) for r in group]
        regime = {
            k: [metrics.clip01(r["value"]) for r in group if r["extra"]["output_kind"] == k] for k in KINDS
        }
        triads = [r["extra"]["triad"] for r in group]
        s_values = [metrics.clip01(t["S"]) for t in triads if t["S"] is not None]
        m_values = [metrics.clip01(t["M"]) for t in triads if t["M"] is not None]
        scores = [r["extra"]["metrics"] for r in group]
        by_game: dict[str, list[float]] = {}
        for r, f in zip(group, faith, strict=True):
            by_game.setdefault(r["game"], []).append(f)
        low, high = metrics.bootstrap([float(np.mean(v)) for v in by_game.values()])
        means = [float(np.mean(v)) for v in (faith, s_values, m_values) if v]
        published = method.published or (None, None, None)
        rows.append(
            Row(
                name,
                method.title,
                method.tradition,
                method.rules,
                len(by_game),
                len(group),
                float(np.mean(faith)),
                metrics.half_width(faith),
                low,
                high,
                metrics.mean_or_none(regime["content"]),
                metrics.mean_or_none(regime["position"]),
                float(np.mean([r["value"] for r in group])),
                metrics.mean_or_none(s_values),
                len(s_values),
                metrics.mean_or_none(m_values),
                len(m_values),
                float(np.mean([s["spearman_corr"] for s in scores])),
                float(np.mean([s["precision_at_k"] for s in scores])),
                metrics.mean_or_none([s["deletion_auc"] for s in scores]),
                metrics.mean_or_none([s["insertion_auc"] for s in scores]),
                float(np.prod(means) ** (1 / len(means))),
                PLAUSIBILITY.get(method.tradition),
                *published,
            )
        )
    return sorted(rows, key=lambda r: (-r.F, r.method))


def per_game(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per (method, game): F, F_content, F_position, S, M by 8.2."""
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for r in found:
        groups.setdefault((r["extra"]["method_key"], r["game"]), {})[r["extra"]["output_kind"]] = r
    table = []
    for (name, game), kinds in sorted(groups.items()):
        triads = [r["extra"]["triad"] for r in kinds.values()]
        faith = {k: metrics.clip01(r["value"]) for k, r in kinds.items()}
        table.append(
            {
                "method": name,
                "game": game,
                "F": float(np.mean(list(faith.values()))),
                "F_content": faith.get("content"),
                "F_position": faith.get("position"),
                "S": metrics.mean_or_none([t["S"] for t in triads]),
                "M": metrics.mean_or_none([t["M"] for t in triads]),
                "content_ram_index": kinds["content"]["extra"]["content_ram_index"]
                if "content" in kinds
                else None,
            }
        )
    return table


def expected_differences(found: Sequence[dict[str, Any]], tolerance: float = 5e-5) -> list[str]:
    """Saliency records that differ from the xitari values of ``audit_expected.json``; empty = all reproduced.

    The file holds four decimals, so half of the fourth is the tolerance (plus rounding of the file itself).
    """
    expected = load_json("audit_expected.json")["games"]
    lines = []
    for entry in per_game(
        [r for r in found if r["extra"]["method_key"] == "saliency" and r["game"] in expected]
    ):
        wanted = expected[entry["game"]]["xitari"]
        for key, value in wanted.items():
            have = entry[key]
            if (have is None) != (value is None) or (
                value is not None and abs(have - value) > tolerance + 1e-9
            ):
                lines.append(f"{entry['game']} {key}: {have} instead of {value}")
    return lines


def published_aggregate() -> dict[str, float]:
    """The saliency row recomputed from the study's per-game table (8.2), to set beside the records' one."""
    table = load_json("audit_expected.json")["games"].values()
    return {k: float(np.mean([g["published"][k] for g in table])) for k in ("F", "F_content", "F_position")}


def headline(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Saliency on hand-made handles against the end-to-end gradient, paired over games, with intervals.

    One entry per rule set and output kind: means of F (Pearson) and of the rank correlation (Spearman), both
    cut off at 0, and the bootstrap intervals of the differences. A game that was scored in several states
    counts with its mean.
    """
    measures: tuple[tuple[str, Callable[[dict[str, Any]], float]], ...] = (
        ("F", lambda r: r["value"]),
        ("rank", lambda r: r["extra"]["metrics"]["spearman_corr"]),
    )
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for r in found:
        key = (r["extra"]["method_key"], r["extra"]["output_kind"])
        groups.setdefault(key, {}).setdefault(r["game"], []).append(r)
    result = []
    for rules in ("value", "bit"):
        for kind in KINDS:
            ours, theirs = groups.get((f"saliency_e2e_{rules}", kind), {}), groups.get(("saliency", kind), {})
            games = sorted(set(ours) & set(theirs))
            if not games:
                continue
            entry: dict[str, Any] = {"rules": rules, "output": kind, "games": len(games)}
            for name, read in measures:
                hand, end = (
                    [float(np.mean([metrics.clip01(read(r)) for r in side[g]])) for g in games]
                    for side in (theirs, ours)
                )
                difference = np.subtract(end, hand).tolist()
                low, high = metrics.bootstrap(difference)
                entry |= {
                    f"{name}_hand_made": float(np.mean(hand)),
                    f"{name}_end_to_end": float(np.mean(end)),
                    f"{name}_difference": float(np.mean(difference)),
                    f"{name}_low": low,
                    f"{name}_high": high,
                }
            result.append(entry)
    return result


def contrast(rows: Sequence[Row]) -> dict[str, float | None]:
    """Mean of the {causal, intervention} rows minus that of the {gradient, correlational} rows (8.5)."""
    result: dict[str, float | None] = {}
    for column in ("F", "F_position"):
        sides = [
            metrics.mean_or_none([getattr(r, column) for r in rows if r.tradition in traditions])
            for traditions in (("causal", "intervention"), ("gradient", "correlational"))
        ]
        result[column] = None if None in sides else float(np.subtract(*sides))  # type: ignore[arg-type]
    return result


def over_states(out: Path) -> list[dict[str, Any]]:
    """Per method, F of every state and the interval of its mean over states (needs ``--states`` above 1)."""
    folders = sorted(out.glob("state_[0-9][0-9][0-9]"))
    if not folders:
        return []
    per_state: dict[str, list[float]] = {}
    for folder in (out, *folders):
        for row in aggregate([r for _, r in records.every(folder)]):
            per_state.setdefault(row.method, []).append(row.F)
    result = []
    for name, values in sorted(per_state.items()):
        low, high = metrics.bootstrap(values)
        result.append(
            {
                "method": name,
                "states": len(values),
                "F_mean": float(np.mean(values)),
                "F_low": low,
                "F_high": high,
                "F_per_state": values,
            }
        )
    return result


def finish(out: Path, summary: Summary) -> list[Row]:
    """Write summary (.json), leaderboard (.json, .csv, .parquet) and per_game (.csv, .parquet) of a folder.

    Returns the leaderboard rows. Raises VcsError if a file cannot be written or pandas is missing.
    """
    found = [r for _, r in records.every(out)]
    constant = sorted(
        {r["game"] for r in found if r["extra"]["output_kind"] == "content" and r["extra"]["oracle_constant"]}
    )
    report = {
        "records": len(found),
        "written_now": summary.written,
        "seconds": round(summary.seconds, 3),
        "interrupted": summary.interrupted,
        "failures": [
            dict(zip(("game", "method", "output", "reason"), f, strict=True)) for f in summary.failures
        ],
        "not_scored": [
            {"game": g, "reason": "content oracle is constant: no cause moves any candidate cell"}
            for g in constant
        ],
        "not_applicable": {m.name: m.not_applicable for m in methods.not_applicable()},
        "saliency_differences_from_xitari": expected_differences(found),
    }
    files.write_text(out / "summary.json", json.dumps(report, indent=1) + "\n")
    rows, table = aggregate(found), per_game(found)
    scored = [r for r in found if r["game"] in scored_games()]
    scored_rows = aggregate(scored)
    data = {
        "rows": [asdict(r) for r in rows],
        "scored_42": [asdict(r) for r in scored_rows],
        "headline": headline(found),
        "headline_42": headline(scored),
        "contrast_42": contrast(scored_rows),
        "published_saliency_from_games": published_aggregate(),
        "published_saliency": load_json("audit_expected.json")["leaderboard"]["published"],
        "states": over_states(out),
        "per_game": table,
    }
    files.write_text(out / "leaderboard.json", json.dumps(data, indent=1) + "\n")
    try:
        import pandas as pd
    except ImportError:
        raise VcsError(
            "the leaderboard tables need pandas and pyarrow: pip install 'glassvcs[xai]'"
        ) from None
    for stem, content in (("leaderboard", data["rows"]), ("per_game", table)):
        frame: Any = pd.DataFrame(content)
        files.write_text(out / f"{stem}.csv", frame.to_csv(index=False))
        files.write(out / f"{stem}.parquet", frame.to_parquet)
    return rows

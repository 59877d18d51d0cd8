"""Workers that die during an audit: the records are those of an undisturbed run, each there, none mixed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vcs import roms
from vcs.xai import audit, records

METHODS = ["saliency", "occlusion"]
pytestmark = pytest.mark.filterwarnings("ignore")


def content(folder: Path) -> dict[str, Any]:
    """Every record and its arrays, without what differs from run to run."""
    found = {}
    for path, record in records.every(folder):
        arrays = records.load(path)[1]
        record.pop("timestamp")
        found[path.name] = (json.dumps(record), {k: v.tobytes() for k, v in arrays.items()})
    return found


def assassin(victims: Callable[[], list[int]], kills: int, done: threading.Event) -> threading.Thread:
    """A thread that kills `kills` of the processes named by `victims`, each time when there are some."""
    rng = random.Random(kills)

    def work() -> None:
        left = kills
        while left and not done.is_set():
            time.sleep(0.3 + rng.random())
            pids = victims()
            if pids:
                try:
                    os.kill(rng.choice(pids), signal.SIGKILL)
                    left -= 1
                except ProcessLookupError:
                    pass
        killed.append(kills - left)

    killed: list[int] = []
    thread = threading.Thread(target=work)
    thread.killed = killed  # type: ignore[attr-defined]
    thread.start()
    return thread


def torture(games: list[str], kills: int, folder: Path, jobs: int = 0) -> dict[str, int]:
    """An audit whose workers are killed (of a dask cluster, or with `jobs` of joblib) against a calm one."""
    audit.run_audit(games, METHODS, folder / "calm", curves=False)
    expected = content(folder / "calm")
    assert len(expected) == 2 * len(METHODS) * len(games)
    seen: list[str] = []

    def note(_: int, __: int, done: audit.Done) -> None:
        seen.append(done.game)

    over = threading.Event()
    if jobs:
        thread = assassin(children, kills, over)
        summary = audit.run_audit(games, METHODS, folder / "wild", jobs=jobs, curves=False, progress=note)
    else:
        import distributed

        with distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster:
            # dask starts another in its place, unless it dies while it starts
            thread = assassin(
                lambda: [w.pid for w in cluster.workers.values() if w.pid and w.status.name == "running"],
                kills,
                over,
            )
            summary = audit.run_audit(
                games,
                METHODS,
                folder / "wild",
                backend="dask",
                scheduler=cluster.scheduler_address,
                curves=False,
                progress=note,
            )
            over.set()
            thread.join()
    over.set()
    thread.join()
    killed = thread.killed[0]  # type: ignore[attr-defined]
    found = content(folder / "wild")
    assert not summary.failures, summary.failures
    assert sorted(seen) == sorted(games), "a task gave several results, or none"
    assert found == expected
    return {
        "records": len(expected),
        "equal": sum(found[k] == expected[k] for k in expected),
        "kills": killed,
    }


def children() -> list[int]:
    """Worker processes of joblib below this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
            line = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and b"popen_loky" in line:
            found.append(int(stat.parent.name))
    return found


def several(n: int) -> list[str]:
    known = [
        g for g in ("pong", "breakout", "seaquest", "qbert", "freeway", "boxing") if g in roms.available()
    ]
    if len(known) < n:
        pytest.skip("needs the images of ale-py")
    return ["glass", *known[: n - 1]]


@pytest.mark.slow
def test_dask_workers_killed(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    assert torture(several(5), 3, tmp_path)["kills"] > 0


@pytest.mark.slow
def test_joblib_workers_killed(tmp_path: Path) -> None:
    assert torture(several(5), 2, tmp_path, jobs=2)["kills"] > 0


def test_a_cluster_without_workers_is_a_failure_not_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(audit, "LONELY", 1.0)
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        summary = audit.run_audit(
            ["glass"], METHODS, tmp_path, backend="dask", scheduler=cluster.scheduler_address
        )
    assert len(summary.failures) == 4 and "no worker" in summary.failures[0][3]


def test_workers_that_always_die_are_a_failure_not_the_end(tmp_path: Path) -> None:
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        "import os\nfrom vcs.xai import methods\n\n\n"
        "@methods.register('deadly', title='Deadly')\n"
        "def deadly(state, output, causes):\n    os._exit(9)\n"
    )
    audit.load_plugin(str(plugin))
    try:
        summary = audit.run_audit(
            several(2), ["deadly"], tmp_path / "out", jobs=2, plugins=[str(plugin)], curves=False
        )
    finally:
        audit.methods._METHODS.pop("deadly")
    assert len(summary.failures) == 4 and "died" in summary.failures[0][3]


def test_workers_end_with_their_driver(tmp_path: Path) -> None:
    """kill -9 of an audit leaves no worker behind, which would keep its memory and the output open."""
    command = [sys.executable, "-m", "vcs", "audit", "--games", "all", "--methods", "saliency", "-j", "2"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=Path(__file__).parent.parent,
    )
    several(2)
    try:
        waited = time.monotonic()
        while len(list(tmp_path.glob("*.json"))) < 2:  # the workers run now
            assert time.monotonic() - waited < 120 and process.poll() is None
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for _ in range(300):
            time.sleep(0.1)
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
        raise AssertionError("workers were left behind")
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

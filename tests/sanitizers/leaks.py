"""Memory that the engines lose: LeakSanitizer on tests, or on a few inputs of every fuzz target.

    python -m tests.sanitizers.leaks                          the fuzz targets
    python -m tests.sanitizers.leaks tests/test_snapshot.py   a test file

LeakSanitizer only follows allocations, so the engines are those of the tree, built as ever. CPython and NumPy
keep memory until the process ends, which its report lists too; only what was allocated on the way through one
of our engines counts. Exit code 1 if there is any, or if what ran failed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OURS = ("vcs/_hard/", "vcs/_adjoint/")
INPUTS = 30  # of each target
# Exact stacks, since CPython keeps no frame pointers; deep enough to reach from its allocators back to the
# engine that called them, and no deeper, since each of Python's allocations pays for it. No names, which take
# time: the path of its library shows whose a frame is.
OPTIONS = "exitcode=0:symbolize=0:fast_unwind_on_malloc=0:malloc_context_size=12:log_path="
LIBRARIES = {"gcc": "liblsan.so", "g++": "libstdc++.so"}


def lost(words: Sequence[str]) -> tuple[int, list[str], list[str]]:
    """Run a command: its exit code, the stacks of all lost memory, and those through our engines."""
    preload = [
        subprocess.run([by, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
        for by, name in LIBRARIES.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(path.strip() for path in preload),
            "LSAN_OPTIONS": f"{OPTIONS}{folder}/leaks",
            "PYTHONMALLOC": "malloc",  # LeakSanitizer does not look into Python's arenas
        }
        code = subprocess.run(words, env=environment).returncode
        reports = [path.read_text(errors="replace") for path in Path(folder).glob("leaks*")]
    stacks = [stack for report in reports for stack in report.split("\n\n") if " leak of " in stack]
    return code, stacks, [stack for stack in stacks if any(part in stack for part in OURS)]


def drawn(inputs: int) -> list[tuple[str, Any]]:
    """(target, input) of every target."""
    from hypothesis import given
    from hypothesis import strategies as st

    from tests.fuzz import searching
    from tests.fuzz.targets import TARGETS

    found: list[tuple[str, Any]] = []

    @searching(inputs * len(TARGETS))
    @given(st.one_of([st.tuples(st.just(name), target.draw()) for name, target in TARGETS.items()]))
    def take(value: tuple[str, Any]) -> None:
        found.append(value)

    take()
    return found


def work(path: Path) -> None:
    """Run the inputs of a file in this process."""
    from tests.fuzz.targets import TARGETS

    inputs = pickle.loads(path.read_bytes())
    for name, value in inputs:
        TARGETS[name].check(value)
    print(f"{len(inputs)} passed")


def main(files: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        words = ["pytest", "-m", "not slow", "-p", "no:cacheprovider", *files]
        if not files:
            path = Path(folder) / "inputs"  # drawn here: hypothesis is slow where every allocation is noted
            path.write_bytes(pickle.dumps(drawn(INPUTS)))
            words = ["tests.sanitizers.leaks", "work", str(path)]
        code, stacks, ours = lost([sys.executable, "-m", *words])
    print(f"{len(stacks)} stacks of lost memory, {len(ours)} of them through the engines")
    print("\n\n".join(ours))
    return 1 if code or ours or not stacks else 0  # no stack at all: LeakSanitizer did not run


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))

"""Memory that the engines lose: LeakSanitizer on a few inputs of every fuzz target, refusals included.

    tests/sanitizers/run.sh leaks [INPUTS]

CPython and NumPy keep memory until the process ends, which the report lists too; only what was allocated on
the way through one of our engines counts. Exit code 1 if there is any.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

OURS = ("vcs/_hard/", "vcs/_adjoint/")
# exact stacks, deep enough to reach from CPython's allocators back to the engine that called them
OPTIONS = "detect_leaks=1:exitcode=0:fast_unwind_on_malloc=0:malloc_context_size=25:log_path="


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

    for name, value in pickle.loads(path.read_bytes()):
        TARGETS[name].check(value)


def main(inputs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ASAN_OPTIONS": f"{OPTIONS}{folder}/leaks"}
        path = Path(folder) / "inputs"  # drawn here: hypothesis is slow where every allocation is noted
        path.write_bytes(pickle.dumps(drawn(inputs)))
        words = [sys.executable, "-m", "tests.sanitizers.leaks", "work", str(path)]
        subprocess.run(words, env=environment, check=True)
        reports = [path.read_text(errors="replace") for path in Path(folder).glob("leaks*")]
    stacks = [stack for report in reports for stack in report.split("\n\n") if " leak of " in stack]
    ours = [stack for stack in stacks if any(part in stack for part in OURS)]
    print(f"{len(stacks)} stacks of lost memory, {len(ours)} of them through the engines")
    print("\n\n".join(ours))
    return 1 if ours or not stacks else 0  # no stack at all: LeakSanitizer did not run


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))

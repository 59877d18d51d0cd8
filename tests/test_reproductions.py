"""The programs of docs/conformance.md that show a reference's faults print what the page says they print."""

from __future__ import annotations

import itertools
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("ale_py")

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "conformance.md"
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
PRELUDE = BLOCKS[0][1]
PROGRAMS = [
    (code, output)
    for (kind, code), (after, output) in itertools.pairwise(BLOCKS[1:])
    if (kind, after) == ("python", "text")
]


def test_every_program_states_its_output() -> None:
    assert BLOCKS[0][0] == "python"
    assert len(BLOCKS) == 1 + 2 * len(PROGRAMS)


@pytest.mark.parametrize("n", range(len(PROGRAMS)))
def test_program(n: int) -> None:
    code, output = PROGRAMS[n]
    assert len(code.splitlines()) <= 12
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output

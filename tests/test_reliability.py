"""The page of figures is what its data says, and every fault it lists has its test."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests import reliability
from tests.sanitizers import leaks


def test_the_page_is_up_to_date() -> None:
    assert reliability.PAGE.read_text() == reliability.page(reliability.read()), (
        "run python -m tests.reliability report"
    )


def test_every_fault_is_guarded() -> None:
    missing = [f["guard"] for f in reliability.read()["faults"] if not reliability.is_test(f["guard"])]
    assert not missing


@pytest.mark.skipif(
    shutil.which("gcc") is None or "LD_PRELOAD" in os.environ, reason="needs gcc and no other sanitizer"
)
@pytest.mark.parametrize("kept", ["", "ctypes.pythonapi.Py_IncRef(ctypes.py_object(saved))"])
def test_a_lost_snapshot_is_seen(kept: str) -> None:
    """LeakSanitizer counts what an engine lost, and nothing where it lost nothing."""
    program = f"import ctypes, vcs\nsaved = vcs.Machine('glass').snapshot()\n{kept}\ndel saved"
    code, stacks, ours = leaks.lost([sys.executable, "-c", program])
    if not stacks:
        pytest.skip("LeakSanitizer may not look into its process here")
    assert code == 0 and bool(ours) == bool(kept), ours

"""What every test may use."""
from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vcs import roms

DATA = Path(__file__).parent / "data"


@cache
def _load(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], Any]:
    """`vectors("cpu_vectors")`: the content of tests/data/cpu_vectors.json.gz, shared; do not change it."""
    return _load


@pytest.fixture(scope="session")
def rom() -> Callable[[str], roms.Rom]:
    """`rom("pong")`: a cartridge by name; the test is skipped where it is not installed."""

    def get(name: str) -> roms.Rom:
        if name not in roms.available():
            pytest.skip(f"the image of {name} is not on this machine (it comes with ale-py)")
        return roms.find(name)

    return get


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser does not start with a sanitizer's library loaded into it."""
    if "libasan" in os.environ.get("LD_PRELOAD", "") or "libtsan" in os.environ.get("LD_PRELOAD", ""):
        for item in items:
            if "chromium" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="starts a browser: not under a sanitizer"))

"""The measured vectors that travel with the repository (``tests/data/NAME.json.gz``)."""

from __future__ import annotations

import functools
import gzip
import json
import pathlib
from typing import Any

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"


@functools.cache
def load(name: str) -> Any:
    """The parsed file; shared between callers, who must not change it."""
    with gzip.open(DIRECTORY / f"{name}.json.gz", "rt", encoding="utf-8") as f:
        return json.load(f)

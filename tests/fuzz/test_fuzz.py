"""A short run of every fuzzer, and every input that once found a fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.runner import chunk
from tests.fuzz.targets import TARGETS

# so that all targets together stay below twenty seconds
FEW = {"rom": 12, "record": 15, "rules": 40, "vector": 20, "cli": 15, "poke": 40, "trace": 40}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_short(name: str) -> None:
    _, found = chunk(name, 1, FEW.get(name, 60))
    assert found is None, found


# (target, input): what went wrong is said by `faults` of tests/reliability.json
FOUND: dict[str, tuple[str, Any]] = {
    "an edit inside a frame counted no instruction of code in RAM": ("moment", ("2K", 2, 0, 0, True)),
    "a damaged npz of an audit record gave a traceback": ("record", ("npz", [("byte", 106, 0)])),
    "the client of the target, not the server, refused a path that begins with //": (
        "server",
        ("GET", ["", "", "", ""], []),
    ),
    "a damaged zip file gave a traceback": (
        "archive",
        ("zip", 1, [("insert", 35, bytes(8)), ("drop", 4, 8)]),
    ),
}


@pytest.mark.parametrize("what", sorted(FOUND))
def test_found(what: str) -> None:
    name, drawn = FOUND[what]
    TARGETS[name].check(drawn)

"""The processor against its measured vectors: registers, memory, cycles and every bus access in order."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.vectors import load
from vcs._hard.machine import run_vector

VECTORS = load("cpu_vectors")["vectors"]


def by_opcode() -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for v in VECTORS:
        groups.setdefault(v["o"], []).append(v)
    return groups


GROUPS = by_opcode()


def run(v: dict[str, Any]) -> dict[str, Any]:
    """Run one vector; the result in the vector's own terms."""
    memory = bytearray(65536)
    for address, value in v["m"]:
        memory[address] = value
    a, x, y, sp, p, pc = v["i"]
    (a, x, y, sp, p, pc), cycles, accesses, halted = run_vector(pc, (a, x, y, sp, p), memory)
    return {
        "f": [a, x, y, sp, p, pc],
        "c": cycles,
        "w": [[address, memory[address]] for address, _ in v["w"]],
        "b": [list(access) for access in accesses],
        "h": int(halted),
    }


def test_every_opcode_is_covered() -> None:
    assert len(GROUPS) == 256


@pytest.mark.parametrize("opcode", sorted(GROUPS))
def test_vectors(opcode: str) -> None:
    for v in GROUPS[opcode]:
        assert run(v) == {**{k: v[k] for k in ("f", "c", "w", "b")}, "h": v.get("h", 0)}, v.get("t", "")

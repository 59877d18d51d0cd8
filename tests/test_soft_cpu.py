"""The soft CPU, one instruction at a time, against the measured vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from soft_flat import execute


def test_every_vector(vectors: Callable[[str], Any]) -> None:
    for vector in vectors("cpu_vectors")["vectors"]:
        mem = bytearray(65536)
        for address, value in vector["m"]:
            mem[address] = value
        if vector.get("h"):
            continue  # a halted processor has no next instruction
        after, written = execute(mem, tuple(vector["i"]))
        assert list(after) == vector["f"], vector
        assert dict(written) == dict(vector["w"]), vector

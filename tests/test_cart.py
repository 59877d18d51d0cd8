"""Mappers and their detection, against the measured vectors and, live, ale-py."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vcs import Machine, cart, roms
from vcs._hard.machine import Core, bus_access
from vcs.data import load_csv
from vcs.errors import VcsError

Vectors = Callable[[str], Any]


def image(entry: dict[str, Any]) -> bytes:
    """The image of an entry of cart_vectors, rebuilt by its fill rule and patches."""
    size, fill = entry["size"], entry.get("fill")
    if fill is None:
        i = np.arange(size)
        data = bytearray(
            ((167 * i + 59 * (i // 256) + 101 * (i // 4096) + entry.get("seed", 13)) % 256)
            .astype(np.uint8)
            .tobytes()
        )
    else:
        data = bytearray([fill]) * size
    for offset, patch in entry["patches"]:
        data[offset : offset + len(patch) // 2] = bytes.fromhex(patch)
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    return bytes(data)


def tokens(ops: str) -> Iterator[tuple[str, int, int | None]]:
    for token in ops.split():
        if token[0] == "+":
            yield "+", int(token[1:]), None
        else:
            address, _, value = token[1:].partition("=")
            yield token[0], int(address, 16), int(value, 16) if value else None


def test_mapper_numbers_match_the_machine() -> None:
    source = (Path(__file__).parents[1] / "vcs" / "_hard" / "cart.pxi").read_text()
    for name, number in cart.MAPPERS.items():
        assert f"    M_{name.upper()} = {number}\n" in source
    assert f"    M_COUNT = {len(cart.MAPPERS)}\n" in source


def test_bus_sequences(vectors: Vectors) -> None:
    """Random accesses, each read compared; 19 mappers, about 700 accesses each (3000 with timing for DPC)."""
    for entry in vectors("cart_vectors")["bus_sequences"]:
        core = Core(image(entry), cart.MAPPERS[entry["mapper"]], ale=False, format=1)
        if entry["mapper"] == "DPC":
            bus_access(core, 0xF000)
        cycle = 0
        for number, (kind, address, value) in enumerate(tokens(entry["ops"])):
            if kind == "+":
                cycle += address
            elif kind == "w":
                bus_access(core, address, value, cycle)
            else:
                got = bus_access(core, address, -1, cycle)
                assert value is None or got == value, (entry["mapper"], number, hex(address))


@pytest.mark.parametrize("protocol", ["xitari", "ale"])
def test_programs(vectors: Vectors, tmp_path: Path, protocol: str) -> None:
    """The RAM that a program per mapper leaves, after load and after one further reset."""
    key = {"xitari": "xitari", "ale": "ale_py"}[protocol]
    ran = 0
    for entry in vectors("cart_vectors")["roms"]:
        if entry[f"{key}_ram"] is None:
            continue
        path = tmp_path / "boxing.bin"
        path.write_bytes(image(entry))
        machine = Machine(path, protocol=protocol)
        assert machine.mapper == entry["mapper"]
        assert machine.ram.tobytes().hex() == entry[f"{key}_ram"], entry["name"]
        machine.reset()
        assert machine.ram.tobytes().hex() == entry[f"{key}_ram_after_reset"], entry["name"]
        ran += 1
    assert ran >= 23


def test_power_on_ram(vectors: Vectors) -> None:
    data = vectors("cart_vectors")
    xitari = Core(bytes(32768), cart.MAPPERS["3E"], ale=False, format=1)
    assert xitari.cart_ram[:64].tobytes().hex() == data["lcg_seed0_first64"]
    for mapper, size, count in (
        ("F8SC", 8192, 128),
        ("FASC", 12288, 256),
        ("CV", 2048, 1024),
        ("E7", 16384, 2048),
        ("AR", 8448, 6144),
        ("3E", 8192, 32768),
        ("MC", 131072, 32768),
    ):
        core = Core(bytes(size), cart.MAPPERS[mapper])
        core.boot()
        assert len(core.cart_ram) == count


def test_detection(vectors: Vectors) -> None:
    for entry in vectors("cart_vectors")["detection"]:
        data = image(entry)
        md5 = hashlib.md5(data).hexdigest()
        assert cart.classify(data, md5, "xitari") == entry["xitari"], entry["name"]
        if entry["ale_py"].startswith("ERROR"):
            with pytest.raises(VcsError, match="no cartridge type is known"):
                cart.detect(data, md5, None, "ale")
        elif not entry["ale_py"].startswith("CRASH"):
            assert cart.detect(data, md5, None, "ale") == entry["ale_py"], entry["name"]


def test_detection_of_the_known_roms() -> None:
    checked = 0
    for row in load_csv("roms.csv"):
        if row["name"] in roms.available():
            found = roms.find(row["name"])
            assert found.sha256 == row["sha256"]
            for protocol in ("ale", "xitari"):
                assert cart.detect(found.data, found.md5, None, protocol) == row[f"mapper_{protocol}"]
            checked += 1
    if not checked:
        pytest.skip("none of the known images is on this machine (they come with ale-py)")


def test_swapped_dumps_by_hash() -> None:
    data = bytes(range(256)) * 32
    assert cart.detect(data, "75ee371ccfc4f43e7d9b8f24e1266b55") == "F8swap"
    assert cart.detect(data, "75ee371ccfc4f43e7d9b8f24e1266b55", "F8") == "F8"


@pytest.mark.parametrize(
    ("size", "forced", "protocol", "message"),
    [
        (4096, "F9", "ale", "no cartridge type 'F9'"),
        (4096, "F8", "ale", "F8 cartridge needs an image of exactly 8192 bytes, and this one has 4096"),
        (6000, "3F", "ale", "multiple of 2048"),
        (8448, None, "xitari", "xitari cannot run"),
        (20480, None, "ale", "no cartridge type is known for an image of 20480 bytes"),
    ],
)
def test_refusals(size: int, forced: str | None, protocol: str, message: str) -> None:
    with pytest.raises(VcsError, match=message):
        cart.detect(bytes(range(250)) * 200 and bytes(i % 251 for i in range(size)), "", forced, protocol)


def test_stub_mappers_read_zero() -> None:
    for name in ("0840", "4A50"):
        core = Core(bytes([0xEA]) * 8192, cart.MAPPERS[name])
        assert [bus_access(core, a) for a in (0x1000, 0xF123, 0xFFFC)] == [0, 0, 0]


def test_e0_restore_shows_the_saved_segments() -> None:
    """The references keep the old mapping after a restore (E0 rule 4); ours is right at once."""
    core = Core(bytes(i // 1024 for i in range(8192)), cart.MAPPERS["E0"])
    core.boot()
    bus_access(core, 0x1FE1)
    saved = core.snapshot()
    bus_access(core, 0x1FE2)
    assert bus_access(core, 0x1000) == 2
    core.restore(saved)
    assert bus_access(core, 0x1000) == 1

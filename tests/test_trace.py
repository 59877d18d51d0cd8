"""Traces: what they hold, and that a file comes back whole or is refused in one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vcs
from vcs import layout, trace
from vcs._hard.machine import record_rows
from vcs.errors import VcsError
from vcs.trace import Trace

FIELDS = (
    "instr", "tia", "segments", "frames", "screens", "winner", "x0", "cart0", "x1", "cart1", "rom", "start",
)


@cache
def sample() -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # our cartridge has no game rules
        m = vcs.Machine("glass")
    m.reset()
    for _ in range(5):
        m.step(0)
    return m.trace([3, 1])


def altered(**changes: Any) -> Trace:
    return Trace(**{**{name: getattr(sample(), name) for name in FIELDS}, **changes})


def test_rows_that_are_not_copied() -> None:
    """`record_rows` gives what `record` gives, also while arrays of earlier recordings are still held, and
    after their machine is gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine("glass")
    start = m.snapshot()
    held = []
    for actions in ([0, 3], [1], [0] * 12, [4, 2], [0, 3]):
        m.restore(start)
        copied = m.record(np.array(actions, np.int32), pictures=False)
        m.restore(start)
        held.append((record_rows(m, actions), copied))
        if len(held) == 3:
            held.pop(1)  # its buffers serve the next
    del m
    for rows, copied in held:
        assert sorted(rows) == ["frames", "instr", "segments", "tia"]
        for name, array in rows.items():
            assert array.dtype == copied[name].dtype and np.array_equal(array, copied[name])


def test_columns_are_attributes() -> None:
    t = sample()
    assert len(t) == len(t.instr) == len(t.pc) == len(t.opcode)
    assert t.pc.dtype == np.uint16 and np.array_equal(t.cycles, t.instr["cycles"])
    assert t.frames["action"].tolist() == [3, 1]
    assert "2 frames" in repr(t)
    with pytest.raises(AttributeError):
        _ = t.colour


def test_rows_hang_together() -> None:
    t = sample()
    stores = t.instr[t.tia["instr"]]
    assert (stores["flags"] & trace.WROTE).all()
    single = stores["opcode"] != 0x20
    assert np.array_equal(stores["wr"][single], t.tia["value"][single])
    own = (t.segments["x1"].astype(int) - t.segments["x0"]).sum()
    assert own == t.screens.size  # every pixel of both frames is drawn once
    assert np.array_equal(t.ram0, t.x0[:128])


def test_a_traced_machine_does_what_an_untraced_one_does(rom: Callable[[str], Any]) -> None:
    rom("pong")
    m = vcs.Machine("pong")
    m.reset()
    twin = m.clone()
    t = m.trace([0, 3, 4])
    for i, action in enumerate((0, 3, 4)):
        twin.step(action)
        assert np.array_equal(twin.screen, t.screens[i])
    assert np.array_equal(m.ram, twin.ram) and m.cycles == twin.cycles
    assert np.array_equal(t.x1[:128], m.ram)


def test_save_and_load(tmp_path: Path) -> None:
    t = sample()
    again = Trace.load(t.save(tmp_path / "deep" / "t.npz"))
    for name in FIELDS:
        assert np.array_equal(getattr(again, name), getattr(t, name))
    assert again.rom_sha256 == t.rom_sha256 and again.version == t.version
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["t.npz"]


@pytest.mark.parametrize("cut", [0, 3, 100, 0.5, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, cut: float) -> None:
    path = sample().save(tmp_path / "t.npz")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut) if isinstance(cut, float) else cut])
    with pytest.raises(VcsError, match="trace"):
        Trace.load(path)


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    path = sample().save(tmp_path / "t.npz")
    with np.load(path, allow_pickle=False) as npz:
        arrays = dict(npz)
    arrays["rom"] = arrays["rom"].copy()
    arrays["rom"][5] ^= 1
    np.savez(path, **arrays)
    with pytest.raises(VcsError, match="changed after it was saved"):
        Trace.load(path)


def test_flipped_bytes_never_pass(tmp_path: Path) -> None:
    path = sample().save(tmp_path / "t.npz")
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.integers(len(data), size=60):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = Trace.load(path)
        except VcsError as why:
            assert "\n" not in str(why)
        else:
            # a bit of the zip's own bookkeeping that changes nothing
            assert all(np.array_equal(getattr(again, n), getattr(sample(), n)) for n in FIELDS)


def test_other_versions_and_files_are_refused(tmp_path: Path) -> None:
    path = sample().save(tmp_path / "t.npz")
    with np.load(path, allow_pickle=False) as npz:
        arrays = dict(npz)
    np.savez(path, **{**arrays, "version": np.array(99)})
    with pytest.raises(VcsError, match="version 99"):
        Trace.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(VcsError, match="not a whole trace"):
        Trace.load(path)
    np.savez(path, allow_pickle=True, **{**arrays, "rom": np.array([{}], dtype=object)})
    with pytest.raises(VcsError, match="not a whole trace"):
        Trace.load(path)
    with pytest.raises(VcsError, match="cannot be read"):
        Trace.load(tmp_path / "missing.npz")
    with pytest.raises(VcsError, match="cannot be read"):
        Trace.load(tmp_path)


@pytest.mark.parametrize(
    ("array", "column", "value"),
    [
        ("instr", "loc0", layout.ROM + 4096), ("instr", "ea_loc", -2), ("instr", "ptr0", layout.CART),
        ("instr", "frame", 2), ("tia", "instr", 10**6), ("tia", "reg", 64), ("segments", "tia", -1),
        ("segments", "instr", -1), ("segments", "frame", 5), ("segments", "x1", 161), ("segments", "row", -1),
        ("segments", "pos", 160), ("frames", "end_instr", 10**6), ("frames", "first_instr", 7),
    ],
)  # fmt: skip
def test_indices_out_of_range_are_refused(array: str, column: str, value: int) -> None:
    rows = getattr(sample(), array).copy()
    rows[column][0] = value
    with pytest.raises(VcsError, match="contradicts itself"):
        altered(**{array: rows})


def test_wrong_types_are_refused() -> None:
    with pytest.raises(VcsError, match="'screens'"):
        altered(screens=sample().screens.astype(float))
    with pytest.raises(VcsError, match="'rom'"):
        altered(rom=sample().rom[None])
    with pytest.raises(VcsError, match="contradicts"):
        altered(x0=sample().x0[:100])

"""A trace: everything that happened during some frames, as NumPy arrays.

`Machine.trace(actions)` makes one; gradients, figures and the soft machine read it. `docs/design.md`
describes every column. A trace file is a versioned npz without pickles; it carries a hash over all its
arrays, so a truncated or edited file is refused.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs import files, layout
from vcs.errors import VcsError

VERSION: Final = 1

# Columns of the row arrays: the packed structs of vcs/_hard/state.pxd, little endian (docs/design.md, "The
# trace"). The order is the C structs': the machine's buffers are taken as they are.
INSTR: Final = np.dtype(
    [
        ("cycles", "<i4"),
        ("frame", "<i4"),
        ("loc0", "<i4"),
        ("loc1", "<i4"),
        ("loc2", "<i4"),
        ("ea_loc", "<i4"),
        ("ptr0", "<i4"),
        ("ptr1", "<i4"),
        ("pc", "<u2"),
        ("ea", "<u2"),
        ("opcode", "u1"),
        ("b1", "u1"),
        ("b2", "u1"),
        ("a", "u1"),
        ("x", "u1"),
        ("y", "u1"),
        ("sp", "u1"),
        ("p", "u1"),
        ("rd", "u1"),
        ("wr", "u1"),
        ("flags", "u1"),
        ("bank", "u1"),
    ]
)
TIA: Final = np.dtype(
    [
        ("instr", "<i4"),
        ("clock", "<i4"),
        ("reg", "u1"),
        ("value", "u1"),
        ("delta0", "i1"),
        ("delta1", "i1"),
        ("delta2", "i1"),
        ("delta3", "i1"),
        ("delta4", "i1"),
        ("pad", "u1"),
    ]
)
SEGMENTS: Final = np.dtype(
    [
        ("instr", "<i4"),
        ("tia", "<i4"),
        ("frame", "<i4"),
        ("row", "<i2"),
        ("x0", "u1"),
        ("x1", "u1"),
        ("pf", "<u4"),
        ("colu", "u1", 4),
        ("pos", "u1", 5),
        ("grp", "u1", 2),
        ("nusiz", "u1", 2),
        ("ctrlpf", "u1"),
        ("refp", "u1", 2),
        ("en", "u1", 3),
        ("vdel", "u1", 3),
        ("vblank", "u1"),
        ("reflect", "u1"),
        ("skip", "u1", 2),
        ("m0mode", "u1"),
        ("comb", "u1"),
    ]
)
FRAMES: Final = np.dtype(
    [
        ("first_instr", "<i4"),
        ("end_instr", "<i4"),
        ("first_tia", "<i4"),
        ("first_segment", "<i4"),
        ("action", "<i4"),
        ("cycles", "<i4"),
        ("start_clock", "<i4"),
        ("paddle", "<i4", 4),
        ("swcha", "u1"),
        ("swchb", "u1"),
        ("inpt", "u1", 2),
    ]
)
DTYPES: Final = {"instr": INSTR, "tia": TIA, "segments": SEGMENTS, "frames": FRAMES}

# bits of INSTR.flags
TAKEN: Final = 1
CROSSED: Final = 2
READ: Final = 4
WROTE: Final = 8

# name -> dtype and number of dimensions of every array of a trace
_ARRAYS: Final[dict[str, tuple[np.dtype[Any], int]]] = {
    "instr": (INSTR, 1),
    "tia": (TIA, 1),
    "segments": (SEGMENTS, 1),
    "frames": (FRAMES, 1),
    "screens": (np.dtype("u1"), 3),
    "winner": (np.dtype("u1"), 3),
    "x0": (np.dtype("<i4"), 1),
    "cart0": (np.dtype("u1"), 1),
    "x1": (np.dtype("<i4"), 1),
    "cart1": (np.dtype("u1"), 1),
    "rom": (np.dtype("u1"), 1),
    "start": (np.dtype("u1"), 1),
}
_X0_SIZE: Final = layout.CART
NOBODY: Final = 255  # value of `winner` where no object won

# Places of x0 that are no locations: cycle of the last timer write, of the first read after expiry, whether
# there was one, clock of the last HMOVE, the cycle counter, all before the first frame restarts the counter,
# whether the Cosmic Ark effect is on (tia.md 10), and what a read below $40 reaches: 0 the TIA, 1 the
# cartridge (3F, 3E), 2 neither (MC).
TIMER_SET: Final = 344
TIMER_READ_AT: Final = 345
TIMER_READ: Final = 346
HMOVE_CLOCK: Final = 347
CYCLES: Final = 348
ARK: Final = 349
LOW_PAGE: Final = 350


class Trace:
    """What a machine did during `frames` frames.

    Attributes (shapes in brackets; row arrays are NumPy structured arrays):
        instr [n]: one row per instruction, the CPU as it was before it. Its columns are attributes too:
            `trace.pc`, `trace.a`, `trace.cycles`, `trace.opcode` and so on.
        tia [k]: one row per write to a TIA register.
        segments [s]: one row per drawn run of pixels.
        frames [F]: one row per frame: its instructions, action and inputs.
        screens uint8[F, H, 160]: the pictures, palette indices. winner uint8[F, H, 160]: which object each
            pixel shows.
        x0 int32[1024]: the value of every location below 1024 (`vcs.layout`) when the trace began, and some
            facts in unused places (TIMER_SET and so on).
        cart0 uint8[c]: cartridge RAM when the trace began. x1, cart1: the same when it ended. rom
        uint8[N]: the cartridge image.
        start uint8[b]: the machine's snapshot at the start. rom_sha256: str. version: int.

    Every array is checked on construction; VcsError names the first thing that does not fit.
    """

    def __init__(
        self,
        *,
        instr: npt.ArrayLike,
        tia: npt.ArrayLike,
        segments: npt.ArrayLike,
        frames: npt.ArrayLike,
        screens: npt.ArrayLike,
        winner: npt.ArrayLike,
        x0: npt.ArrayLike,
        cart0: npt.ArrayLike,
        x1: npt.ArrayLike,
        cart1: npt.ArrayLike,
        rom: npt.ArrayLike,
        start: npt.ArrayLike,
    ) -> None:
        given = {
            "instr": instr,
            "tia": tia,
            "segments": segments,
            "frames": frames,
            "screens": screens,
            "winner": winner,
            "x0": x0,
            "cart0": cart0,
            "x1": x1,
            "cart1": cart1,
            "rom": rom,
            "start": start,
        }
        arrays = {}
        for name, (dtype, ndim) in _ARRAYS.items():
            array = np.ascontiguousarray(given[name])
            if array.dtype != dtype or array.ndim != ndim:
                raise VcsError(
                    f"the trace's array {name!r} has type {array.dtype} and {array.ndim} dimensions where "
                    f"{dtype} and {ndim} are expected: make the trace again with Machine.trace"
                )
            array.flags.writeable = False
            arrays[name] = array
        self.instr = arrays["instr"]
        self.tia = arrays["tia"]
        self.segments = arrays["segments"]
        self.frames = arrays["frames"]
        self.screens = arrays["screens"]
        self.winner = arrays["winner"]
        self.x0 = arrays["x0"]
        self.cart0 = arrays["cart0"]
        self.x1 = arrays["x1"]
        self.cart1 = arrays["cart1"]
        self.rom = arrays["rom"]
        self.start = arrays["start"]
        self.version = VERSION
        self.rom_sha256 = hashlib.sha256(self.rom.tobytes()).hexdigest()
        _check(self)

    @property
    def ram0(self) -> npt.NDArray[np.uint8]:
        """RIOT RAM when the trace began, uint8[128]."""
        return self.x0[: layout.RAM_SIZE].astype(np.uint8)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name in INSTR.fields:  # type: ignore[operator]
            column: npt.NDArray[Any] = self.instr[name]
            return column
        raise AttributeError(f"a Trace has no attribute {name!r}")

    def __len__(self) -> int:
        """The number of instructions."""
        return len(self.instr)

    def __repr__(self) -> str:
        return (
            f"Trace({len(self.frames)} frames, {len(self.instr)} instructions, {len(self.tia)} TIA writes, "
            f"{len(self.segments)} segments, rom {self.rom_sha256[:12]})"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace to `path` (npz) in one step. Raises VcsError if that place cannot be written."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        head = {"version": np.array(VERSION), "sha256": np.array(_digest(arrays))}
        return files.write(path, lambda file: np.savez_compressed(file, allow_pickle=False, **head, **arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that `save` wrote to `path`.

        Raises VcsError for a file that is missing, no trace, truncated, edited or of another version.
        """
        again = "make it again with Machine.trace(...).save"
        try:
            data = Path(path).read_bytes()
        except OSError as why:
            raise VcsError(
                f"the trace {path} cannot be read ({why.strerror}): give the path of a file that "
                "Trace.save wrote"
            ) from None
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as npz:
                version = int(npz["version"])
                if version != VERSION:
                    raise VcsError(
                        f"the trace {path} has version {version} where {VERSION} is expected: {again}"
                    )
                digest = str(npz["sha256"])
                arrays = {name: npz[name] for name in _ARRAYS}
        except VcsError:
            raise
        except Exception:  # a damaged npz makes zipfile, zlib, numpy and even tokenize raise their own kinds
            raise VcsError(
                f"{path} is not a whole trace file (truncated, damaged or something else): {again}"
            ) from None
        if digest != _digest(arrays):
            raise VcsError(
                f"the trace {path} was changed after it was saved (its hash does not match): {again}"
            )
        return cls(**arrays)


def start_values(core: Any) -> npt.NDArray[np.int32]:
    """x0 of a trace that starts now, x1 of one that ends now: the values of a `vcs._hard.machine.Core`."""
    x0 = np.zeros(_X0_SIZE, np.int32)
    tia, riot = core.tia(), core.riot()
    a, x, y, sp, p, pc = core.cpu()
    x0[: layout.RAM_SIZE] = core.ram
    x0[layout.CPU : layout.CPU + 4] = a, x, y, sp
    x0[layout.CPU + 4 : layout.CPU + 10] = [p >> k & 1 for k in (7, 6, 3, 2, 1, 0)]
    x0[layout.parse("PC")] = pc
    x0[layout.TIA_W : layout.TIA_W + layout.TIA_W_SIZE] = tia["regs"]
    # HMCLR clears the motions without being a write to their registers
    x0[layout.TIA_W + 0x20 : layout.TIA_W + 0x25] = [nibble << 4 for nibble in tia["hm"]]
    x0[layout.TIA_X : layout.TIA_X + 3] = *tia["grp_old"], tia["enabl_old"] << 1
    x0[layout.POSITION : layout.POSITION + 5] = tia["pos"]
    latched = tia["collisions"]  # tia.md 11: two latches a register, but CXBLPF has one
    d7, d6 = (0, 2, 4, 6, 8, 10, 12, 13), (1, 3, 5, 7, 9, 11, None, 14)
    for k, (upper, lower) in enumerate(zip(d7, d6)):
        x0[layout.TIA_R + k] = (latched >> upper & 1) << 7
        if lower is not None:
            x0[layout.TIA_R + k] |= (latched >> lower & 1) << 6
    x0[layout.RIOT + 1] = riot["swacnt"]
    x0[layout.TIMER] = riot["n"]
    x0[layout.TIMER + 1] = riot["shift"]
    x0[TIMER_SET], x0[TIMER_READ_AT], x0[TIMER_READ] = riot["set"], riot["at"], riot["read"]
    x0[HMOVE_CLOCK] = tia["hk"]
    x0[CYCLES] = core.cycles
    x0[ARK] = tia["ark"]
    low = core.loc(0)
    x0[LOW_PAGE] = 0 if low == layout.TIA_R else 1 if low >= 0 else 2
    return x0


def record(core: Any, actions: Sequence[int] | npt.NDArray[np.int32], **options: Any) -> Trace:
    """Run `actions` on a `vcs._hard.machine.Core` and return the trace. `options` go to `Core.record`."""
    x0 = start_values(core)
    cart0 = core.cart_ram
    start = np.frombuffer(core.snapshot().to_bytes(), np.uint8)
    rows = core.record(actions, **options)
    return Trace(
        **{name: rows[name] for name in ("instr", "tia", "segments", "frames", "screens", "winner")},
        x0=x0,
        cart0=cart0,
        x1=start_values(core),
        cart1=core.cart_ram,
        rom=np.frombuffer(core.rom, np.uint8),
        start=start,
    )


def _digest(arrays: dict[str, npt.NDArray[Any]]) -> str:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.descr} {array.shape};".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def _check(t: Trace) -> None:
    """Everything an engine indexes with, so that it may trust a trace that came from outside."""
    n, k, count = len(t.instr), len(t.tia), len(t.frames)
    height = t.screens.shape[1]
    end = layout.ROM + len(t.rom)
    cart_end = layout.CART + len(t.cart0)

    def need(fits: Any, what: str) -> None:
        if not np.all(fits):
            raise VcsError(f"the trace contradicts itself ({what}): make it again with Machine.trace")

    need(t.screens.shape == (count, height, 160) and t.winner.shape == t.screens.shape, "pictures and frames")
    need(t.x0.shape == t.x1.shape == (_X0_SIZE,), "the values at its start and end")
    need(t.cart0.shape == t.cart1.shape, "cartridge RAM")
    for column in ("loc0", "loc1", "loc2", "ea_loc", "ptr0", "ptr1"):
        loc = t.instr[column]
        need((loc >= -1) & (loc < end) & ((loc < cart_end) | (loc >= layout.ROM)), f"column {column}")
    need((t.instr["frame"] >= 0) & (t.instr["frame"] < max(count, 1)), "frames of instructions")
    first, last = t.frames["first_instr"], t.frames["end_instr"]
    need((first >= 0) & (first <= last) & (last <= n), "instructions of frames")
    need(np.append(first, n) == np.insert(last, 0, 0), "the order of frames")
    need((t.tia["instr"] >= 0) & (t.tia["instr"] < n), "instructions of TIA writes")
    need(t.tia["reg"] < layout.TIA_W_SIZE, "TIA registers")
    need(np.diff(t.tia["instr"]) >= 0, "the order of TIA writes")
    need((t.segments["instr"] >= 0) & (t.segments["instr"] < n), "instructions of segments")
    need((t.segments["tia"] >= 0) & (t.segments["tia"] <= k), "TIA writes of segments")
    need(np.diff(t.segments["tia"]) >= 0, "the order of segments")
    need((t.segments["frame"] >= 0) & (t.segments["frame"] < max(count, 1)), "frames of segments")
    need((t.segments["row"] >= 0), "rows of segments")
    need((t.segments["x0"] < t.segments["x1"]) & (t.segments["x1"] <= 160), "columns of segments")
    need(t.segments["pos"] < 160, "positions of segments")

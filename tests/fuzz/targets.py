"""What is fuzzed. A target draws hostile input and says what may come of it: an answer, or one VcsError.

Anything else that escapes (another exception, a crash, a hang, a different future) is a fault. The driver is
`tests/fuzz/runner.py`; `tests/fuzz/test_fuzz.py` is the short run of CI.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import vcs
from tests.carts import LAYOUTS
from tests.fuzz import engines, twin
from vcs import cart, games, layout, roms, trace
from vcs._hard.machine import Core, Snapshot, bus_access, replay_batch
from vcs.asm import OPCODES
from vcs.errors import VcsError
from vcs.gradient import Weighting, grads, weighting
from vcs.join import Joins, grad_join
from vcs.xai import audit, records

FRAMES = 60
Strategy = st.SearchStrategy[Any]


@dataclass(frozen=True)
class Target:
    """name: on the command line. what: one line for people. draw: the inputs. check: raises on a fault."""

    name: str
    what: str
    draw: Callable[[], Strategy]
    check: Callable[[Any], None]


TARGETS: dict[str, Target] = {}


def target(
    what: str, draw: Callable[[], Strategy]
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Registers `check` under its name without `check_`."""

    def add(check: Callable[[Any], None]) -> Callable[[Any], None]:
        name = check.__name__.removeprefix("check_")
        TARGETS[name] = Target(name, what, draw, check)
        return check

    return add


class Fault(AssertionError):
    """Something came out that must not."""


def need(fits: Any, what: str) -> None:
    if not fits:
        raise Fault(what)


@contextlib.contextmanager
def refusal() -> Iterator[None]:
    """One sentence is a right answer to bad input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except VcsError as why:
            text = str(why)
            need(text and len(text) < 2000, f"a message of {len(text)} characters")


INT32 = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 127, 128, 255, 256, 65535]),
)
BYTE = st.integers(0, 255)
WORDS = st.tuples(st.integers(0, 2**32 - 1))


def pressed(seed: int, frames: int) -> list[int]:
    """Random actions."""
    return [int(a) for a in np.random.default_rng(seed).integers(0, 18, frames)]


def look(m: vcs.Machine) -> tuple[Any, ...]:
    """Everything that a user can see of a machine."""
    return (
        m.screen.tobytes(),
        m.ram.tobytes(),
        m.cpu(),
        m.cycles,
        m.lives,
        m.game_over,
        m.cart_ram.tobytes(),
    )


# ------------------------------------------------------------------------------------------ cartridges

SIZES = (
    2048,
    4096,
    8192,
    10240,
    10495,
    10496,
    12288,
    16384,
    32768,
    65536,
    131072,
    262144,
    524288,
    6144,
    8448,
    16896,
    25344,
    14336,
)
ODD_SIZES = (0, 1, 63, 64, 65, 1000, 2047, 2049, 4095, 10241, 524289)


@cache
def pool() -> list[bytes]:
    """Whole images to mutate: our own of every mapper, and a few games where ale-py ships them."""
    images = [twin.build(name, [("lines", 20), ("tia", 9, 7)], 1) for name in (*LAYOUTS, "AR")]
    known = roms.available()
    names = (
        "pong",
        "pitfall2",
        "breakout",
        "asteroids",
        "robot_tank",
        "crystal_castles",
        "burgertime",
        "glass",
    )
    return images + [roms.find(name).data for name in names if name in known]


def images() -> Strategy:
    size = st.one_of(st.sampled_from(SIZES), st.sampled_from(SIZES), st.sampled_from(ODD_SIZES))
    edits = st.lists(st.tuples(st.integers(0, 2**19), BYTE), max_size=30)
    return st.one_of(
        st.tuples(st.just("noise"), size, WORDS),
        st.tuples(st.just("legal"), size, WORDS),
        st.tuples(st.just("mutant"), st.integers(0, 100), edits),
        st.tuples(st.just("fill"), size, BYTE),
        st.tuples(st.just("mapper"), st.sampled_from(sorted(LAYOUTS)), WORDS),
    )


def make_image(spec: tuple[Any, ...]) -> bytes:
    """The bytes of an image drawn by `images`."""
    kind = spec[0]
    if kind == "mapper":
        return twin.chaos(spec[1], spec[2])
    if kind == "fill":
        return bytes([spec[2]]) * spec[1]
    if kind == "mutant":
        whole = pool()
        data = bytearray(whole[spec[1] % len(whole)])
        for at, value in spec[2]:
            data[at % len(data)] = value
        return bytes(data)
    rng = np.random.default_rng(list(spec[2]))
    if kind == "legal":
        return bytes(rng.choice(np.array(twin._LEGAL, np.uint8), spec[1]).tobytes())
    return rng.bytes(spec[1])


def consoles() -> Strategy:
    return st.fixed_dictionaries(
        {"protocol": st.sampled_from(["ale", "xitari"])},
        optional={
            "mapper": st.one_of(st.sampled_from(sorted(cart.MAPPERS)), st.text(max_size=4)),
            "frame_skip": st.sampled_from([1, 2, 4, 5, 0, -1]),
            "repeat_action_probability": st.sampled_from([0.0, 0.25, 1.0, -1.0, 2.0, float("nan")]),
            "display_format": st.sampled_from(["NTSC", "PAL", "SECAM", "AUTO-DETECT", "pal", ""]),
            "height": st.sampled_from([0, 1, 210, 250, 256, 257, -5]),
            "ystart": st.sampled_from([0, 34, 100, 101, -1]),
            "paddle_min": INT32,
            "paddle_max": INT32,
            "max_num_frames_per_episode": st.sampled_from([0, 1, 30, -1]),
            "hmove_blanks": st.booleans(),
        },
    )


@target(
    "images of every size and mapper, 60 frames of random actions",
    lambda: st.tuples(images(), consoles(), st.integers(0, 999)),
)
def check_rom(drawn: Any) -> None:
    spec, settings, seed = drawn
    with refusal():
        m = vcs.Machine(make_image(spec), **settings)
        saved = None
        for k, action in enumerate(pressed(seed, FRAMES)):
            if m.game_over:
                m.reset()
            m.step(action, 0.5 + seed)
            if k == FRAMES - 5:
                saved = m.snapshot()
        need(
            m.screen.shape == (m.rows, 160) and m.screen_rgb.shape == (m.rows, 160, 3), "the picture's shape"
        )
        end = look(m)
        assert saved is not None
        m.restore(Snapshot.from_bytes(saved.to_bytes()))
        for action in pressed(seed, FRAMES)[-4:]:
            if m.game_over:
                m.reset()
            m.step(action, 0.5 + seed)
        need(look(m) == end, "another future after a restore")


def files_with_mutations() -> Strategy:
    return st.tuples(st.sampled_from(["zip", "gz", "raw"]), st.integers(0, 100), mutations())


@target("damaged files: zip, gzip and plain images", files_with_mutations)
def check_archive(drawn: Any) -> None:
    import gzip

    kind, number, changes = drawn
    whole = pool()
    data = whole[number % len(whole)]
    if kind == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("game.bin", data)
        data = out.getvalue()
    elif kind == "gz":
        data = gzip.compress(data, 1, mtime=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"game.{'bin' if kind == 'raw' else kind}"
        path.write_bytes(mutate(data, changes))
        with refusal():
            roms.find(path)


# ------------------------------------------------------------------------------------------ mutations


def mutations() -> Strategy:
    """Changes of a byte string: flipped bits, other bytes, other numbers, cuts, insertions, swaps."""
    at = st.one_of(st.integers(0, 2**20), st.integers(0, 200), st.integers(0, 12000))
    one = st.one_of(
        st.tuples(st.just("flip"), at, st.integers(0, 7)),
        st.tuples(st.just("byte"), at, BYTE),
        st.tuples(st.just("int"), at, INT32),
        st.tuples(st.just("cut"), at),
        st.tuples(st.just("insert"), at, st.binary(max_size=8)),
        st.tuples(st.just("drop"), at, st.integers(1, 64)),
    )
    return st.lists(one, min_size=1, max_size=8)


def mutate(data: bytes, changes: list[tuple[Any, ...]]) -> bytes:
    """The bytes after `changes`."""
    out = bytearray(data)
    for change in changes:
        at = change[1] % max(1, len(out))
        match change[0]:
            case "flip":
                if out:
                    out[at] ^= 1 << change[2]
            case "byte":
                if out:
                    out[at] = change[2]
            case "int":
                out[at : at + 4] = change[2].to_bytes(4, "little", signed=True)
            case "cut":
                del out[at:]
            case "insert":
                out[at:at] = change[2]
            case "drop":
                del out[at : at + change[2]]
    return bytes(out)


# ------------------------------------------------------------------------------------------ snapshots

SNAPSHOT_HEAD = 40  # magic, version, hash


@cache
def saved(mapper: str) -> tuple[vcs.Machine, bytes]:
    """A machine of the mapper and a snapshot of it in the middle of things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if mapper == "game" and "pong" in roms.available():
            m = vcs.Machine("pong", repeat_action_probability=0.25)
        else:
            ops = [("lines", 30), ("tia", 0x1B, 0x55), ("timer", 2, 9), ("wait", 11)]
            m = vcs.Machine(twin.build("4K" if mapper == "game" else mapper, ops, 3), frame_skip=4)
    for action in pressed(1, 7):
        m.step(action)
    return m, m.snapshot().to_bytes()


def seal(raw: bytes) -> bytes:
    """A snapshot whose hash is right again: what an attacker, not an accident, would hand over."""
    return raw[:8] + hashlib.sha256(raw[SNAPSHOT_HEAD:]).digest() + raw[SNAPSHOT_HEAD:]


@target(
    "changed snapshots, with the old hash and with a right one",
    lambda: st.tuples(st.sampled_from([*sorted(LAYOUTS), "AR", "game"]), mutations(), st.booleans()),
)
def check_snapshot(drawn: Any) -> None:
    mapper, changes, sealed = drawn
    m, raw = saved(mapper)
    changed = mutate(raw, changes)
    if sealed and len(changed) > SNAPSHOT_HEAD:
        changed = seal(changed)
    with refusal():
        snapshot = Snapshot.from_bytes(changed)
        need(sealed or changed == raw, "a damaged snapshot was accepted")
        m.restore(snapshot)
        for action in (1, 3, 11):
            m.step(action)
        m.run_frame()
        m.step_instruction()
        m.record([2, 5])
        m.trace([1])
        look(m)
        need(Snapshot.from_bytes(m.snapshot().to_bytes()) == m.snapshot(), "not the same after a round trip")


# ------------------------------------------------------------------------------------------ traces


@cache
def recorded() -> tuple[dict[str, Any], bytes]:
    """A trace of two frames: its arrays, and its file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine("glass")
    for _ in range(5):
        m.step(0)
    t = m.trace([3, 1])
    with tempfile.TemporaryDirectory() as folder:
        data = t.save(Path(folder) / "t.npz").read_bytes()
    return {name: getattr(t, name) for name in trace._ARRAYS}, data


@target("changed trace files", mutations)
def check_trace_file(drawn: Any) -> None:
    arrays, data = recorded()
    changed = mutate(data, drawn)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.npz"
        path.write_bytes(changed)
        with refusal():
            t = trace.Trace.load(path)
            for name, array in arrays.items():
                need(np.array_equal(getattr(t, name), array), f"a changed file was accepted: {name}")


Edit = tuple[str, str, int, int, int]


def row_edits() -> Strategy:
    """A change of a trace's arrays: another number, fewer or more rows, another type."""
    return st.tuples(
        st.sampled_from(sorted(trace._ARRAYS)),
        st.sampled_from(["value", "value", "value", "cut", "type", "grow"]),
        st.integers(0, 2**20),
        st.integers(0, 30),
        st.one_of(INT32, st.integers(-2, 70000)),
    )


def edited(arrays: dict[str, Any], edits: list[Edit]) -> dict[str, Any]:
    """Copies of a trace's arrays after `edits`."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    for name, kind, at, part, value in edits:
        array = arrays[name]
        if kind == "cut":
            arrays[name] = array[: at % (len(array) + 1)]
        elif kind == "grow":
            arrays[name] = np.concatenate([array, array[: at % (len(array) + 1)]])
        elif kind == "type":
            arrays[name] = array.view("u1").astype("<i8") if at % 2 else array[..., None]
        elif array.size:
            flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
            spot = at % flat.size
            if array.dtype.names:
                field = array.dtype.names[part % len(array.dtype.names)]
                column_ = flat[field].reshape(flat.size, -1)
                column_[spot, part % column_.shape[1]] = np.array(value).astype(column_.dtype)
            else:
                flat[spot] = np.array(value).astype(flat.dtype)
            arrays[name] = flat.reshape(array.shape)
    return arrays


def trace_edits() -> Strategy:
    return st.tuples(
        st.lists(row_edits(), min_size=1, max_size=4),
        st.sampled_from(["value", "bit"]),
        st.tuples(st.integers(-1, 260), st.integers(-1, 161)),
    )


@target("traces whose rows lie, through the compiled reverse sweep", trace_edits)
def check_trace(drawn: Any) -> None:
    edits, rules, (row, column) = drawn
    arrays = edited(recorded()[0], edits)
    with refusal():
        t = trace.Trace(**arrays)
        g = vcs.grad(t, vcs.Pixel(row, column), rules=rules)
        need(g.ram.shape[0] == 128, "the gradient's shape")
        repr(t)


# ------------------------------------------------------------------------------------------ the reverse sweep

SWEPT = 300  # instructions of a window
# all objects at one place, and what they have hit stored where it can be asked for
STRUCK = (
    ("burst", bytes([0x0E, 255, 0x10, 0, 0x11, 0, 0x12, 0, 0x13, 0, 0x14, 0, 0x1B, 255, 0x1C, 255])),
    ("burst", bytes([0x1D, 2, 0x1E, 2, 0x1F, 2])),
    ("wait", 40),
)


def programs() -> Strategy:
    """Number of a random program, its window, the window's instructions, and what is put in front: any legal
    instructions, and reads of collision latches."""
    raw = st.tuples(st.sampled_from(twin._LEGAL), BYTE, BYTE)
    return st.tuples(
        st.integers(0, 10**7),
        st.integers(0, 1),
        st.one_of(st.just(SWEPT), st.integers(1, SWEPT)),
        st.lists(raw, max_size=12),
        st.lists(st.integers(0, 7), max_size=4),
    )


def window_of(drawn: tuple[int, int, int, list[tuple[int, int, int]], list[int]]) -> trace.Trace:
    """The trace of a program drawn by `programs`."""
    number, which, size, raws, latches = drawn
    program = engines.draw(number)
    ops = tuple(("raw", bytes(raw)[: OPCODES[raw[0]].length]) for raw in raws)
    if latches:
        ops += STRUCK
        for k, latch in enumerate(latches):  # LDA latch; STA $80+k
            ops += (("raw", bytes([0xA5, latch])), ("raw", bytes([0x85, 0x80 + k])))
    if ops:
        program = replace(program, ops=ops + program.ops[:4], words=0)
    windows = list(engines.windows(program, size))
    return windows[which % len(windows)]


def outputs_of_traces() -> Strategy:
    """What is differentiated: right for most traces, or out of range, or nothing of the kind."""
    place = st.integers(-2, layout.CART + 200)
    pixel = st.tuples(st.integers(-3, 3), st.integers(-1, 60), st.integers(-1, 161))
    good = st.one_of(
        pixel.map(lambda p: ("pixel", *p)),
        st.tuples(st.integers(0, 19), st.integers(0, 159)).map(lambda p: vcs.Pixel(*p)),
        st.integers(-1, 129).map(vcs.Ram),
        st.integers(0, 127).map(vcs.Ram),
        place,
        st.integers(layout.TIA_W, layout.TIA_W + 0x2C),
        st.integers(layout.POSITION, layout.POSITION + 4),
        st.sampled_from(
            ["A", "X", "SP", "PC", "N", "C", "COLUBK", "GRP0", "POSP0", "HMM1", "RAM[3]", "VDEL", ""]
        ),
        st.tuples(st.sampled_from(["picture", "frames", "ram"]), st.integers(0, 2**31), st.floats(-3, 3)),
        st.dictionaries(st.integers(0, 127).map(vcs.Ram), st.floats(-9, 9), max_size=4),
    )
    odd = st.one_of(
        st.none(),
        st.text(max_size=4),
        st.floats(),
        st.tuples(st.sampled_from(["picture", "shape", "nan"]), st.integers(0, 2**31), st.floats()),
        st.dictionaries(place, st.floats(), max_size=2),
        st.tuples(
            st.just("weighting"), st.lists(pixel, max_size=2), st.lists(place, max_size=2), st.integers(0, 2)
        ),
    )
    return st.one_of(good, good, good, odd)


def output_of(drawn: Any, t: trace.Trace) -> Any:
    """An output as drawn, with arrays of the trace's shapes."""
    if not isinstance(drawn, tuple) or isinstance(drawn, vcs.Pixel | vcs.Ram):
        return drawn
    shapes = {"picture": t.screens.shape[1:], "frames": t.screens.shape, "ram": (128,), "nan": (128,)}
    if drawn[0] in shapes or drawn[0] == "shape":
        rng = np.random.default_rng(drawn[1])
        weights = rng.random(shapes.get(drawn[0], (2, 3)))
        weights[weights < rng.random()] = 0
        return np.full_like(weights, drawn[2]) if drawn[0] == "nan" else weights
    if drawn[0] == "weighting":
        _, pixels, cells, more = drawn
        return Weighting(
            np.array(pixels, np.int64).reshape(-1, 3),
            np.ones(len(pixels) + (more == 1)),
            np.array(cells, np.int64),
            np.ones(len(cells) + (more == 2)),
            "made by hand",
        )
    return drawn


def joins_of(drawn: dict[str, Any], instructions: int) -> Joins:
    """Other outcomes of branches as drawn, or moved so that they fit a trace."""
    rows = {
        k: np.array(v, "<i8" if k in ("branch", "meet", "start") else "<i4")
        for k, v in drawn.items()
        if k != "fit"
    }
    if drawn["fit"]:
        rows["branch"] = np.unique(rows["branch"] % max(1, instructions))
        n, places = len(rows["branch"]), len(rows["place"])
        rows["meet"] = np.minimum(rows["branch"] + 1 + np.resize(rows["meet"], n) % 40, instructions)
        rows["start"] = np.sort(np.append(np.resize(rows["start"], n) % (places + 1), places))
        rows["start"][0] = 0
        if not n:
            rows["place"] = rows["place"][:0]
        rows |= {name: np.resize(rows[name], len(rows["place"])) for name in ("other", "here")}
    spare = np.zeros(len(rows["branch"]), np.int32)
    return Joins(**rows, steps=spare, cycles=spare, branches=5)


def sweeps() -> Strategy:
    good = st.sampled_from([10.0, 2.0, 0.1, 30.0])
    number = st.one_of(
        good, good, good, st.sampled_from([1e-300, 1e300, 0.0, -1.0, float("nan"), float("inf")])
    )
    where = st.one_of(st.integers(-2, SWEPT), st.integers(-(2**40), 2**40))
    joins = st.fixed_dictionaries(
        {
            "fit": st.sampled_from([True, True, False]),
            "branch": st.lists(where, max_size=4),
            "meet": st.lists(where, max_size=4),
            "start": st.lists(st.integers(-2, 9), max_size=5),
            "place": st.lists(st.integers(-2, layout.CART + 300), max_size=5),
            "other": st.lists(st.integers(-2, 300), max_size=5),
            "here": st.lists(st.integers(-2, 300), max_size=5),
        }
    )
    return st.tuples(
        programs(),
        st.one_of(st.just([]), st.just([]), st.lists(row_edits(), max_size=3)),
        st.lists(outputs_of_traces(), min_size=1, max_size=9),
        st.fixed_dictionaries(
            {"rules": st.sampled_from(["value", "bit"])},
            optional={
                "alpha": number,
                "T": number,
                "mode": st.sampled_from(["ste", "ste", "ste", "full", "full", "x"]),
                "wrt": st.sampled_from([None, None, "ram", ["rom", "inputs"], "x", []]),
            },
        ),
        st.one_of(st.none(), st.none(), joins),
    )


@target(
    "random programs traced and swept: rule sets, outputs, parameters, rows that lie, joins that lie", sweeps
)
def check_sweep(drawn: Any) -> None:
    program, edits, wanted, settings, joins = drawn
    whole = window_of(program)
    with refusal():
        t = trace.Trace(**edited({name: getattr(whole, name) for name in trace._ARRAYS}, edits))
        outputs = []
        for one in wanted:
            with refusal():
                outputs.append(weighting(output_of(one, t), t))
        if joins is not None:
            given = {k: v for k, v in settings.items() if k != "wrt"}
            for output in outputs[:1]:
                g = grad_join(t, output, joins_of(joins, len(t)), **given)
                need(g.ram.shape[0] == 128, "the gradient's shape")
            return
        together = grads(t, outputs, **settings)
        need(len(together) == len(outputs), "as many answers as outputs")
        for one, g in zip(outputs, together):
            alone = grads(t, [one], **settings)[0]
            for name, part in g.parts.items():
                need(np.array_equal(part, alone.parts[name], equal_nan=True), f"{name} alone is another one")
                if not edits and settings.get("mode") != "full" and settings.get("alpha", 10.0) < 100:
                    need(np.isfinite(part).all() or not np.isfinite(g.value), f"{name} is not finite")


# ------------------------------------------------------------------------------------------ pokes


def pokes() -> Strategy:
    address, number = st.integers(-1, 70000), st.integers(-1, 256)
    op = st.one_of(
        st.tuples(st.just("step"), st.integers(1, 400)),
        st.tuples(st.just("frame")),
        st.tuples(st.just("act"), st.integers(-1, 18)),
        st.tuples(st.just("poke"), address, number),
        st.tuples(st.just("poke"), st.integers(0, 0x2C), BYTE),
        st.tuples(st.just("tia"), st.integers(-1, 64), number),
        st.tuples(st.just("ram"), st.integers(-1, 128), number),
        st.tuples(st.just("rom"), address, number),
        st.tuples(st.just("cart"), st.integers(-1, 40000), number),
        st.tuples(st.just("cpu"), st.sampled_from(["a", "x", "y", "sp", "p", "pc"]), address),
        st.tuples(st.just("bus"), st.integers(0, 65535), st.integers(-1, 255)),
        st.tuples(st.just("peek"), INT32),
        st.tuples(st.just("inputs"), INT32, INT32, INT32),
        st.tuples(st.just("reset")),
        st.tuples(st.just("restore")),
        st.tuples(st.just("trace"), st.integers(0, 2)),
        st.tuples(st.just("colour"), st.booleans()),
        st.tuples(st.just("shortcuts"), st.integers(0, 15)),
        st.tuples(st.just("relax"), st.sampled_from([0.0, 2.0, 6.0]), st.sampled_from([0.0, 0.1, 1.0, 50.0])),
    )
    return st.tuples(st.sampled_from([*sorted(LAYOUTS), "AR", "game"]), st.lists(op, min_size=1, max_size=25))


@target("registers and bus poked in the middle of frames", pokes)
def check_poke(drawn: Any) -> None:
    mapper, ops = drawn
    first, raw = saved(mapper)
    start = Snapshot.from_bytes(raw)
    m = first.clone()
    m.restore(start)
    for op in ops:
        with refusal():
            match op[0]:
                case "step":
                    for _ in range(op[1]):
                        m.step_instruction()
                case "frame":
                    m.run_frame()
                case "act":
                    m.step(op[1])
                case "poke":
                    m.poke(op[1], op[2])
                case "tia":
                    m.poke_tia(op[1], op[2])
                case "ram":
                    m.poke_ram(op[1], op[2])
                case "rom":
                    m.poke_rom(op[1], op[2])
                case "cart":
                    m.poke_cart_ram(op[1], op[2])
                case "cpu":
                    m.set_cpu(**{op[1]: op[2]})
                case "bus":
                    bus_access(m, op[1], op[2])
                case "peek":
                    need(0 <= m.peek(op[1]) <= 255, "a byte out of range")
                    m.loc(op[1])
                case "inputs":
                    m.set_inputs(op[1], op[2], float(op[3]), op[3] & 255)
                case "reset":
                    m.reset()
                case "restore":
                    m.restore(start)
                case "trace":
                    m.trace([1] * op[1])
                case "colour":
                    m.colour = op[1]
                case "shortcuts":
                    m.shortcuts = op[1]
                case "relax":
                    m.relax(op[1], op[2])
    twin_ = m.clone()
    with refusal():
        m.step(3)
        twin_.step(3)
        need(look(m) == look(twin_), "a clone has another future")


def interventions() -> Strategy:
    location = st.one_of(
        st.integers(0, 127),
        st.integers(128, 138),
        st.integers(192, 266),
        st.sampled_from([337, 342, 1024, 65536]),
        st.integers(-5, 70000),
        INT32,
    )
    edit = st.tuples(
        st.integers(-1, 4), st.one_of(st.integers(-1, 300), INT32), location, st.integers(-1, 3), INT32
    )
    return st.tuples(
        st.sampled_from([*sorted(LAYOUTS), "AR", "game"]),
        st.lists(edit, max_size=6),
        st.integers(0, 99),
        st.booleans(),
    )


@target("edits of the state inside frames (the oracle's re-runs)", interventions)
def check_edit(drawn: Any) -> None:
    mapper, edits, seed, every = drawn
    first, raw = saved(mapper)
    m = first.clone()
    start = Snapshot.from_bytes(raw)
    rows = np.array([[*e[:3], e[3], e[4]] for e in edits], np.int64).reshape(-1, 5).astype(np.int32)
    stream = np.array(pressed(seed, 3), np.int32)
    split = np.array([0, len(rows) // 2, len(rows)], np.int32)
    baseline = np.zeros((3 if every else 1, m.rows, 160), np.uint8)
    with refusal():
        ram, changed, _, screens, _ = replay_batch(
            m, start, rows, split, np.stack([stream, stream]), baseline, every, True, stream
        )
        need(screens is not None and ram.shape[0] == 2 and changed.shape[0] == 2, "shapes of a re-run")
        again = replay_batch(m, start, rows, split, np.stack([stream, stream]), baseline, every, True)
        need(np.array_equal(ram, again[0]) and np.array_equal(changed, again[1]), "the reference run matters")


@target(
    "one edit inside a frame against the same poke by hand",
    lambda: st.tuples(
        st.sampled_from([*sorted(LAYOUTS), "AR", "game"]),
        st.integers(0, 250),
        st.integers(0, 127),
        BYTE,
        st.booleans(),
    ),
)
def check_moment(drawn: Any) -> None:
    """An edit before instruction k does what k single steps, a poke and the rest of the agent step do."""
    mapper, instruction, cell, value, from_ram = drawn
    first, raw = saved(mapper)
    m, by_hand = first.clone(), first.clone()
    m.restore(Snapshot.from_bytes(raw))
    if from_ram:  # INC $80, X twice, then JMP $0090: code outside every window of the cartridge
        for i, byte in enumerate((0xE8, 0xF6, 0x80, 0xC8, 0x85, 0x09, 0x4C, 0x90, 0x00)):
            m.poke_ram(0x10 + i, byte)
        m.set_cpu(pc=0x90)
    start = m.snapshot()
    one = np.array([[0, instruction, cell, 0, value]], np.int32)
    ram = replay_batch(m, start, one, np.array([0, 1], np.int32), np.zeros((1, 1), np.int32))[0]
    by_hand.restore(start)
    by_hand.set_inputs(0)
    for _ in range(instruction):
        if by_hand.step_instruction():
            return  # the frame ended before
    by_hand.poke_ram(cell, value)
    by_hand.run_frame()
    if by_hand.tia()["inprogress"]:
        return  # the limit of instructions ended the frame, and single steps do not count towards it
    for _ in range(0 if mapper == "game" else 3):  # the rest of the agent step
        by_hand.set_inputs(0)
        by_hand.run_frame()
    need(by_hand.ram.tobytes() == ram[0, 0].tobytes(), f"RAM after an edit at instruction {instruction}")


# ------------------------------------------------------------------------------------------ game rules


def trees() -> Strategy:
    names = st.sampled_from(["reward", "score", "x", "nobody", "mode", ""])
    leaf = st.one_of(
        st.integers(-300, 300), INT32, st.just(2**40), names, st.none(), st.booleans(), st.just([])
    )
    word = st.sampled_from(
        [*games._BINARY, "R", "bus", "bcd", "and", "or", "s8", "not", "if", "sum", "rand", "?"]
    )
    return st.recursive(
        leaf,
        lambda e: st.one_of(
            st.builds(lambda w, a: [w, *a], word, st.lists(e, max_size=4)),
            st.builds(lambda w, a, b: [w, a, b], st.sampled_from(sorted(games._BINARY)), e, e),
            st.builds(
                lambda lo, hi, b: ["sum", "i", lo, hi, b], st.integers(-2, 9), st.integers(-3, 2**31), e
            ),
        ),
        max_leaves=25,
    )


def rule_sets() -> Strategy:
    op = st.one_of(
        st.builds(lambda e: ["select", e], trees()),
        st.builds(lambda a, e: ["act", a, e], st.integers(-1, 50), trees()),
        st.just(["reset"]),
        st.builds(lambda e: ["set", "x", e], trees()),
        st.builds(lambda e, n: ["until", e, [["act", 0, 1]], n], trees(), st.integers(-1, 5)),
        st.builds(lambda e: ["if", e, [["reset"]], []], trees()),
        st.just(["?", 1]),
    )
    return st.fixed_dictionaries(
        {
            "state": st.sampled_from([{"reward": 0}, {"reward": 1, "score": -5, "x": 2**31 - 1}, {}]),
            "step": st.lists(st.tuples(st.sampled_from(["reward", "score", "x"]), trees()), max_size=5),
            "game_over": trees(),
            "lives": trees(),
            "mode_rule": st.lists(op, max_size=3),
        }
    )


@target("games.json-like rules with hostile expressions", rule_sets)
def check_rules(drawn: Any) -> None:
    with refusal():
        program = games.compile_rules("fuzz", persistent_state={}, **drawn)
        run_program(program, 3)


@target(
    "programs of random numbers behind a valid header",
    lambda: st.tuples(
        st.lists(st.one_of(st.integers(0, 43), INT32, st.integers(16, 80)), min_size=4, max_size=64),
        st.lists(st.integers(-1, 90), min_size=5, max_size=5),
    ),
)
def check_program(drawn: Any) -> None:
    code, entries = drawn
    head = [games.MAGIC, games.HEADER + len(code), *entries, 0x3FFFF, 0, 3, 0, 0, 0, 0, 0, 0][: games.HEADER]
    with refusal():
        run_program(np.array(head + code, np.int64).astype(np.int32), 3)


def run_program(program: Any, frames: int) -> None:
    image = pool()[1]
    m = Core(image, cart.MAPPERS["4K"], program=program, format=1)
    try:
        m.boot()
    finally:
        for action in range(frames):
            m.act(action)
            need(isinstance(m.lives, int) and m.over in (True, False), "the outputs' types")


# ------------------------------------------------------------------------------------------ records


@cache
def audited() -> tuple[bytes, bytes, str]:
    """The JSON and NPZ of one audit record, and their name."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit.run_audit(["glass"], ["saliency"], folder, curves=False)
        path = sorted(Path(folder).glob("*.json"))[0]
        return path.read_bytes(), path.with_suffix(".npz").read_bytes(), path.stem


def record_changes() -> Strategy:
    hostile = st.one_of(
        st.none(),
        st.booleans(),
        INT32,
        st.floats(),
        st.text(max_size=5),
        st.just([]),
        st.just({}),
        st.just([[1]]),
        st.just("../../x.npz"),
        st.just(10**400),
        st.just({"a": {"b": None}}),
    )
    tree = st.lists(st.tuples(st.integers(0, 500), st.sampled_from(["set", "del"]), hostile), max_size=3)
    return st.one_of(
        st.tuples(st.just("tree"), tree),
        st.tuples(st.just("json"), mutations()),
        st.tuples(st.just("npz"), mutations()),
        st.tuples(st.just("arrays"), st.integers(0, 30), st.integers(0, 6)),
    )


def places(tree: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a JSON tree."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*here, key)
        yield from places(value, (*here, key))


@target("changed audit records, through leaderboard and report", record_changes)
def check_record(drawn: Any) -> None:
    text, arrays, stem = audited()
    if drawn[0] == "tree":
        tree = json.loads(text)
        for number, kind, value in drawn[1]:
            paths = list(places(tree))
            if not paths:
                break
            path = paths[number % len(paths)]
            parent = tree
            for key in path[:-1]:
                parent = parent[key]
            if kind == "del":
                del parent[path[-1]]
            else:
                parent[path[-1]] = copy.deepcopy(value)
        text = json.dumps(tree).encode()
    elif drawn[0] == "json":
        text = mutate(text, drawn[1])
    elif drawn[0] == "npz":
        arrays = mutate(arrays, drawn[1])
    else:
        with np.load(io.BytesIO(arrays)) as npz:
            held = {k: npz[k] for k in npz.files}
        name = sorted(held)[drawn[1] % len(held)]
        others = (
            held[name][:-1],
            held[name].astype(np.complex128),
            held[name].astype("U9"),
            held[name][None],
            np.array(None),
            np.full_like(held[name], np.nan),
            held[name].astype(np.float32),
        )
        held[name] = others[drawn[2] % len(others)]
        out = io.BytesIO()
        np.savez_compressed(out, **held)
        arrays = out.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{stem}.json"
        path.write_bytes(text)
        path.with_suffix(".npz").write_bytes(arrays)
        with refusal():
            records.load(path)
        found = [r for _, r in records.every(Path(folder))]
        with refusal():
            audit.finish(Path(folder), audit.Summary())
        need(len(found) <= 1, "one file gave several records")


# ------------------------------------------------------------------------------------------ commands

COMMANDS = (
    "info",
    "run",
    "trace",
    "grad",
    "demo",
    "audit",
    "labels",
    "report",
    "relax",
    "cannon",
    "paper",
    "explore",
)
HOSTILE = (
    "",
    " ",
    "-",
    "--",
    "pong",
    "glass",
    "nobody",
    "/",
    ".",
    "/dev/null",
    "/dev/full",
    "0",
    "1",
    "-1",
    "3",
    "1e9",
    "nan",
    "99999999999999999999",
    "\u20ac",
    "a\nb",
    "../x",
    "noop",
    "random",
    "1,2",
    "100,80",
    ",",
    "ale",
    "xitari",
    "value",
    "bit",
    "soft",
    "adjoint",
    "x.npz",
    "boundary",
    "heatmap",
    "margins",
    "\x1b[31m",
    "[red]",
    "%s",
    "{0}",
)
# what runs long, opens a server or asks for many processes is named, but never with a value that starts it
OPTIONS = (
    "--frames",
    "-n",
    "--actions",
    "-a",
    "--protocol",
    "--seed",
    "--out",
    "-o",
    "--scale",
    "--skip",
    "--frame",
    "--pixel",
    "--horizon",
    "--rules",
    "--engine",
    "--games",
    "--methods",
    "--jobs",
    "--states",
    "--backend",
    "--plugin",
    "--curves",
    "--game",
    "--help",
    "--version",
    "--nope",
)
LONG = {"audit", "labels", "relax", "cannon", "paper", "explore", "demo"}


def command_lines() -> Strategy:
    word = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(HOSTILE), st.text(max_size=6))
    return st.builds(
        lambda command, words: [command, *words],
        st.one_of(st.sampled_from(COMMANDS), st.sampled_from(("run", "trace", "grad", "info")), word),
        st.lists(st.one_of(word, st.sampled_from(OPTIONS)), max_size=7),
    )


@target("command lines", command_lines)
def check_cli(drawn: Any) -> None:
    from vcs.__main__ import main

    words = list(drawn)
    if words[0] in LONG:
        words.append("--nope")  # typer refuses it before the command starts
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(words)
            raise Fault("the command did not end the process")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        finally:
            os.chdir(before)
    text = err.getvalue()
    need(code in (0, 1, 2), f"exit code {code}")
    need("Traceback" not in text, "a traceback")
    need(code == 0 or text.strip() or out.getvalue().strip(), "refused without a word")


# ------------------------------------------------------------------------------------------ vector


def vector_calls() -> Strategy:
    array = st.one_of(
        st.lists(st.integers(-2, 20), min_size=0, max_size=4).map(lambda v: np.array(v, np.int64)),
        st.lists(st.floats(), max_size=4).map(lambda v: np.array(v, np.float64)),
        st.lists(st.booleans(), max_size=4).map(lambda v: np.array(v, bool)),
        st.sampled_from(
            [
                np.zeros(3, np.int32),
                np.zeros((3, 3), np.float32),
                np.array(["a", "b", "c"]),
                np.array([None] * 3),
                np.zeros(3, np.uint64),
                np.full(3, 2**40),
            ]
        ),
    )
    call = st.one_of(
        st.tuples(st.just("step"), array),
        st.tuples(st.just("mask"), array),
        st.tuples(st.just("send"), array),
        st.tuples(st.just("some"), array),
        st.tuples(st.just("recv"), st.none()),
        st.tuples(st.just("reset"), st.one_of(st.none(), INT32, st.lists(INT32, max_size=4))),
        st.tuples(st.just("some_reset"), array),
        st.tuples(st.just("snapshot"), INT32),
        st.tuples(st.just("restore"), array),
        st.tuples(st.just("wrapper"), mutations()),
        st.tuples(st.just("good"), st.none()),
    )
    return st.lists(call, min_size=1, max_size=12)


@cache
def vector() -> Any:
    from vcs.env.vector import AtariVectorEnv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AtariVectorEnv("glass", 3, num_threads=2, img_height=42, img_width=40, frameskip=2)


@target("calls of the thread pool's environment", vector_calls)
def check_vector(drawn: Any) -> None:
    from vcs.env.vector import EnvSnapshot

    env = vector()
    if env._pool.in_flight():  # fewer than a recv() waits for
        env.close()
        vector.cache_clear()
        env = vector()
    env.reset(seed=1)
    kept = env.snapshot(0)
    for name, value in drawn:
        with refusal():
            match name:
                case "step":
                    env.step(value)
                case "mask":
                    env.step(np.zeros(3, np.int32), mask=value)
                case "send":
                    env.send(value)
                case "some":
                    env.send(np.zeros(len(value), np.int32), value)
                case "recv":
                    env.recv()
                case "reset":
                    env.reset(seed=value)
                case "some_reset":
                    env.reset(options={"reset_mask": value})
                case "snapshot":
                    env.snapshot(value)
                case "restore":
                    env.restore(kept, value)
                case "wrapper":
                    env.restore(EnvSnapshot(kept.machine, mutate(kept.wrapper, value), kept.settings))
                case "good":
                    obs = env.step(np.array([0, 1, 2]))[0]
                    need(obs.shape == (3, 4, 42, 40), "the shape of observations")


# ------------------------------------------------------------------------------------------ the explorer


def messages() -> Strategy:
    any_value = st.one_of(
        st.none(),
        st.booleans(),
        INT32,
        st.floats(),
        st.text(max_size=6),
        st.lists(INT32, max_size=3),
        st.just({}),
        st.just(10**30),
    )
    small = st.integers(-3, 12)
    places = st.sampled_from(
        ["RAM[0x1C]", "COLUP0", "A", "PC", "ROM[0x123]", "ROM[99999]", "RAM[-1]", "CART[0]", ""]
    )
    aim = st.fixed_dictionaries(
        {"kind": st.sampled_from(["pixel", "region", "ram", "x"])},
        optional={
            key: st.one_of(st.integers(-2, 215), any_value)
            for key in ("row", "column", "bottom", "right", "cell")
        },
    )
    tape = st.fixed_dictionaries(
        {
            "rom": st.sampled_from([roms.find("glass").sha256, "other"]),
            "actions": st.text("0123456789abcdefghz", max_size=9),
        },
        optional={"pokes": st.lists(st.lists(small, max_size=4), max_size=2), "at": small},
    )
    fields = {
        "unit": st.sampled_from(["frame", "line", "instruction", "hour"]),
        "count": small,
        "action": st.integers(-1, 18),
        "frame": small,
        "location": places,
        "value": st.integers(-1, 256),
        "index": small,
        "horizon": st.integers(0, 4),
        "row": st.integers(-1, 215),
        "column": st.integers(-1, 161),
        "cell": st.integers(-1, 128),
        "target": aim,
        "rules": st.sampled_from(["value", "bit", "x"]),
        "method": st.sampled_from(["gradient", "saliency", "x"]),
        "scope": st.sampled_from(["ram", "others", "rom", "used", "x"]),
        "part": small,
        "tape": tape,
        "kind": st.sampled_from(["npz", "csv", "python", "x"]),
        "id": small,
    }
    optional = {name: st.one_of(value, value, value, any_value) for name, value in fields.items()}
    ops = (
        "hello",
        "step",
        "seek",
        "reset",
        "poke",
        "unpoke",
        "thumbs",
        "hover",
        "byte",
        "listing",
        "explain",
        "oracle",
        "export",
        "cancel",
    )
    message = st.builds(
        lambda op, rest: {"op": op, **rest},
        st.sampled_from(ops),
        st.fixed_dictionaries({}, optional=optional),
    )
    return st.lists(
        st.one_of(message, message, message, st.text(max_size=40), any_value), min_size=1, max_size=8
    )


@cache
def session() -> Any:
    from vcs.explore.protocol import Session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Session(roms.find("glass"), "glass", protocol="ale", seed=0, frames=2)


@target("messages of the explorer's page", messages)
def check_explore(drawn: Any) -> None:
    from vcs.explore.explain import Stopped
    from vcs.explore.protocol import LONG, binary, parse

    tab = session()
    tab.answer({"op": "reset"}, lambda part: None)
    for given in drawn:
        text = given if isinstance(given, str) else json.dumps(given)
        with refusal():
            message = parse(text)
            if message["op"] in LONG:
                job = tab.prepare(message, lambda part: None)
                tab.stop()  # the work itself is the oracle's, which has a target of its own
                with contextlib.suppress(Stopped):
                    job()
                continue
            head, body = tab.answer(message, lambda part: None)
            json.dumps(head)
            need(body is None or binary(head, body)[4:5] == b"{", "an answer that cannot be sent")


def requests() -> Strategy:
    word = st.one_of(
        st.text(max_size=8), st.sampled_from(["TOKEN", "index.html", "..", "app.js", "%2e%2e", "%00", "ws"])
    )
    header = st.tuples(
        st.sampled_from(["host", "origin", "sec-fetch-site", "cookie", "upgrade", "content-length", "x"]),
        st.one_of(
            st.sampled_from(
                [
                    "127.0.0.1:80",
                    "localhost:80",
                    "evil.example",
                    "null",
                    "http://127.0.0.1:80",
                    "same-origin",
                    "cross-site",
                    "",
                ]
            ),
            st.text("abc:/[]@. %", max_size=9),
        ),
    )
    return st.tuples(
        st.sampled_from(["GET", "GET", "POST", "HEAD", "OPTIONS", "DELETE"]),
        st.lists(word, max_size=4),
        st.lists(header, max_size=4),
    )


@cache
def served() -> Any:
    from starlette.testclient import TestClient

    from vcs.explore.server import application

    app = application(roms.find("glass"), "glass", "TOKEN", protocol="ale", seed=0, frames=2)
    return TestClient(app, base_url="http://127.0.0.1:80", raise_server_exceptions=True)


@target("requests to the explorer's server", requests)
def check_server(drawn: Any) -> None:
    from urllib.parse import quote

    method, words, headers = drawn
    path = "/" + "/".join(quote(w, safe="%") if "%" in w else quote(w, safe="") for w in words)
    given = {name: value for name, value in headers if name != "content-length" or value.isdigit()}
    url = f"http://127.0.0.1:80{path}"  # whole: httpx takes no relative one that begins with //
    answer = served().request(method, url, headers=given)
    need(answer.status_code in (200, 403, 404, 405), f"status {answer.status_code}")
    if answer.status_code == 200:
        need(words[:1] == ["TOKEN"], "a file without the token")
        need(
            given.get("host", "127.0.0.1:80").rsplit(":", 1)[0] in ("127.0.0.1", "localhost"),
            "a foreign host",
        )
        need(given.get("origin") in (None, f"http://{given.get('host', '127.0.0.1:80')}"), "a foreign origin")
    need("default-src 'none'" in answer.headers["content-security-policy"], "no policy")

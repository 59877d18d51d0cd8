"""Random programs on our own engines, compared with each other after every frame.

    python -m tests.fuzz.engines hard -n 1000000 -j 2     untraced, traced, without shortcuts
    python -m tests.fuzz.engines soft -n 2000             the hard trace replayed by the soft machine
    python -m tests.fuzz.engines grad -n 500              adjoint against soft, both rule sets
    python -m tests.fuzz.engines ale -n 4000              live ale-py, images of up to sixteen programs

Program number i is always the same: some stores that show the objects, and up to 16 operations of `twin.py`
(accesses of every addressing mode at addresses that matter to the mapper, single stores and bursts of
stores to the TIA, waits, any legal opcode, code that runs in registers), done 1 to 32 times a frame and
followed by 1 to 255 lines, on any mapper, with a picture of 20 to 50 lines (one in ten of 210), with or
without paddles, HMOVE blanks and a PAL picture, from power-on by either protocol (no boot); one in ten is
an image of random bytes. It runs for two frames, one in four for four. Half of the frames are drawn to
their last line; of the rest some are shorter (the quick way runs them twice) and some never end.

Finished blocks are journalled, with the build that ran them, and the same command goes on after them. A
program on which engines differ is shrunk to the shortest one that still shows it and written to
tests/fuzz/found/, whose files test_engines.py runs from then on.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.carts import LAYOUTS
from tests.fuzz import twin
from vcs import layout
from vcs._hard import machine
from vcs._hard.machine import Core, play, record_rows
from vcs.asm import OPCODES
from vcs.cart import MAPPERS
from vcs.command import INTERRUPTED, deaf, guarded
from vcs.gradient import grads
from vcs.journal import append
from vcs.soft import replay
from vcs.soft.replay import owners
from vcs.trace import NOBODY, Trace, start_values

FRAMES = 2
LONG = 4  # frames of every fourth program, enough for a step whose first pictures nobody sees
FOUND = Path(__file__).parent / "found"
JOURNAL = Path("out/fuzz/engines.jsonl")
SOFT_WINDOW = 300  # instructions
GRAD_WINDOW = 120
ENDS = ("ram", "registers", "flags", "pc", "positions")  # what is compared at the end of a window, besides
TIA_WRITES = 0x2D
LARGE = ("MB", "MC")
OBJECTS = (*range(0x04, 0x10), *range(0x1B, 0x20))  # registers of sizes, colours, graphics and enables
KINDS = (
    "read",
    "write",
    "rmw",
    "index",
    "indirect",
    "tia",
    "tia",
    "burst",
    "burst",
    "timer",
    "exec",
    "wait",
    "wait",
    "lines",
    "raw",
    "raw",
)


@dataclass(frozen=True)
class Program:
    """mapper: a layout of tests/carts. ops: as in twin.py. fill: of the rest. words: the seed of an image of
    random bytes (then ops is empty) or 0. actions: one a frame. ale: the protocol. repeat, tail: as in
    `twin.assemble`. paddles, y0, height: of Core. pal: PAL frames. blanks: HMOVE blanks. more: the programs
    that further resets start, each with the same actions."""

    mapper: str
    ops: tuple[twin.Op, ...]
    fill: int
    words: int
    actions: tuple[int, ...]
    ale: bool
    repeat: int = 1
    tail: int = 192
    paddles: int = 0
    pal: bool = False
    blanks: bool = True
    y0: int = 34
    height: int = 210
    more: tuple[tuple[twin.Op, ...], ...] = ()


def draw(number: int) -> Program:
    """Program `number`."""
    rng = random.Random(number)
    mapper = rng.choice((*LAYOUTS, "AR"))
    if mapper in LARGE and rng.random() < 0.7:
        mapper = rng.choice((*LAYOUTS, "AR"))  # half of a program's time would go into the image
    words, ops = 0, ()
    if mapper != "AR" and rng.random() < 0.1:
        words = rng.getrandbits(32) or 1
    else:
        ops = drawn(rng, mapper)
    y0, height = (34, 210) if rng.random() < 0.1 else (rng.randrange(12), rng.randint(20, 50))
    whole = min(255, y0 + height + 10)
    return Program(
        mapper,
        ops,
        rng.randrange(4),
        words,
        tuple(rng.randrange(18) for _ in range(LONG if rng.random() < 0.25 else FRAMES)),
        rng.random() < 0.5 or mapper == "AR",
        rng.choice((1, 1, 2, 4, 8, 32)),
        whole if rng.random() < 0.6 else rng.randint(1, whole),
        rng.choice((0, 0, 1, 3)),
        rng.random() < 0.1,
        rng.random() < 0.9,
        y0,
        height,
    )


def draw_image(number: int) -> Program:
    """Up to sixteen programs of a mapper in one image: ale-py takes a tenth of a second to load one."""
    rng = random.Random(number)
    mapper = [*LAYOUTS][number % len(LAYOUTS)]
    layout = LAYOUTS[mapper]
    actions = tuple(rng.randrange(18) for _ in range(LONG))
    if rng.random() < 0.1:
        return Program(mapper, (), 0, rng.getrandbits(32) or 1, actions, True)
    lists = [drawn(rng, mapper, 8) for _ in range(16)]
    repeat, tail = rng.choice((1, 1, 2, 4, 8)), 250 if rng.random() < 0.6 else rng.randint(1, 255)
    room = layout.room - len(layout.start) - 64
    while sum(len(twin.assemble(ops, layout, repeat, tail)) for ops in lists) > room:
        lists = lists[: len(lists) // 2]
    return Program(mapper, lists[0], rng.randrange(4), 0, actions, True, repeat, tail, more=tuple(lists[1:]))


def drawn(rng: random.Random, mapper: str, most: int = 16) -> tuple[twin.Op, ...]:
    """The operations of a program: in most, stores that show the objects come first."""
    ops = tuple(operation(rng, mapper) for _ in range(rng.randint(1, most)))
    if rng.random() < 0.6:
        shown = bytes(part for r in rng.sample(OBJECTS, 12) for part in (r, rng.randrange(256)))
        ops = (("burst", shown), *ops)
    return ops


def operation(rng: random.Random, mapper: str) -> twin.Op:
    """One operation with the weights of `twin.operations`, without hypothesis' cost."""
    layout = LAYOUTS.get(mapper, twin.AR)
    spans = [*layout.spans, (0, 0x7F), (0x80, 0xFF), (0x280, 0x29F), (0, 0x1FFF)]
    at = rng.choice(layout.hot) if layout.hot and rng.random() < 0.4 else rng.randint(*rng.choice(spans))
    at |= rng.randrange(8) << 13
    byte = rng.randrange
    match rng.choice(KINDS):
        case "read":
            return ("read", at)
        case "write":
            return ("write", at, byte(256))
        case "rmw":
            return ("rmw", at, rng.choice(twin._RMW))
        case "index":
            return ("index", at, byte(256), rng.choice(twin._INDEXED))
        case "indirect":
            return ("indirect", at, byte(256), rng.choice(twin._INDIRECT))
        case "timer":
            return ("timer", byte(4), byte(256))
        case "burst":
            pairs = ((byte(TIA_WRITES), byte(256)) for _ in range(rng.randint(2, 8)))
            return ("burst", bytes(part for pair in pairs for part in pair))
        case "exec":
            word = byte(65536)
            enter = word & 0xED7F | 0x40 if byte(2) else word & 0xEFFF | 0x280
            return ("exec", enter, byte(256), byte(256), byte(256))
        case "wait":
            return ("wait", rng.randint(1, 40))
        case "lines":
            return ("lines", rng.randint(1, 40))
        case "raw":
            opcode = rng.choice(twin._LEGAL)
            return ("raw", bytes((opcode, at & 0xFF, at >> 8))[: OPCODES[opcode].length])
    return ("tia", byte(TIA_WRITES), byte(256))


def _lists(program: Program) -> tuple[tuple[twin.Op, ...], ...]:
    return (program.ops, *program.more)


@cache
def _filled(mapper: str, fill: int) -> bytes:
    return LAYOUTS[mapper].image(b"", fill)


def image(program: Program) -> bytes:
    """The cartridge of a program."""
    if program.words:
        return twin.chaos(program.mapper, [program.words])
    if program.mapper == "AR":
        return twin.build("AR", program.ops, program.fill, program.repeat, program.tail)
    layout = LAYOUTS[program.mapper]
    if program.more:
        body = layout.start + twin.assemble_all(_lists(program), layout, program.repeat, program.tail)
    else:
        body = layout.start + twin.assemble(program.ops, layout, program.repeat, program.tail)
    data = bytearray(_filled(program.mapper, program.fill))
    for at in layout.copies:
        data[at : at + len(body)] = body
    return bytes(data)


# ------------------------------------------------------------------------------------------ comparisons


def state(m: Core, last: bool) -> dict[str, Any]:
    """What engines must agree on after a frame: everything; the picture before it only after the last."""
    seen = {
        "cpu": m.cpu(),
        "cycles": m.cycles,
        "total": m.total_cycles,
        "jam": m.jammed,
        "ram": m.ram.tobytes(),
        "cart_ram": m.cart_ram.tobytes(),
        "cart": m.cart(),
        "riot": m.riot(),
        "tia": m.tia(),
        "screen": m.screen,
    }
    if last:
        seen["previous"] = m.previous_screen
    return seen


def unequal(what: str, frame: int, ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first difference in words."""
    for key, a in ours.items():
        b = theirs[key]
        if isinstance(a, np.ndarray):
            if (a == b).all():
                continue
            at = tuple(np.argwhere(a != b)[0].tolist())
            return f"{what}, frame {frame}: {key}{list(at)} {a[at]:02X} instead of {b[at]:02X}"
        if a == b:
            continue
        if isinstance(a, bytes):
            i = next(i for i in range(len(a)) if a[i] != b[i])
            return f"{what}, frame {frame}: {key}[{i}] {a[i]:02X} instead of {b[i]:02X}"
        if isinstance(a, dict):
            name = next(k for k in a if a[k] != b[k])
            return f"{what}, frame {frame}: {key}.{name} {a[name]} instead of {b[name]}"
        return f"{what}, frame {frame}: {key} {a} instead of {b}"
    return None


def core(program: Program) -> Core:
    """A machine after power-on with a program."""
    return Core(
        image(program),
        MAPPERS[program.mapper],
        ale=program.ale,
        format=2 if program.pal else 1,
        paddles=program.paddles,
        hmove_blanks=program.blanks,
        y0=program.y0,
        height=program.height,
    )


_SPARE: list[Core] = []


def hard(program: Program) -> str | None:
    """All ways to run a program on the hard machine; the first difference from the plainest one, or None.

    The plainest is untraced and without shortcuts. The others: with all shortcuts, traced (with pictures in
    the second frame), and for programs of four frames with one shortcut only and, from the start again, as
    one step of four frames, whose first pictures are not drawn."""
    plain = core(program)
    while len(_SPARE) < 4:
        _SPARE.append(Core(plain.rom, MAPPERS[program.mapper], format=1))
    fast, traced, single, skipping = _SPARE
    long = len(program.actions) >= LONG
    for m in _SPARE if long else (fast, traced):
        m.copy_from(plain)
        m.shortcuts = 15
    plain.shortcuts, single.shortcuts = 0, 1 + program.fill % 2
    start = plain.snapshot()
    for k, action in enumerate(program.actions):
        plain.act(action)
        last = k == len(program.actions) - 1
        expected = state(plain, last)
        for name, m in (("shortcuts", fast), ("one shortcut", single))[: 1 + long]:
            m.act(action)
            found = unequal(name, k, state(m, last), expected)
            if found:
                return found
        if k == 1:
            traced.record([action])
        else:
            record_rows(traced, [action])
        found = unequal("traced", k, state(traced, last), expected)
        if found:
            return found
    if not long:
        return None
    plain.restore(start)
    for _ in program.actions:
        plain.act(program.actions[0])
    play(skipping, program.actions[0], len(program.actions))
    return unequal("skipped pictures", LONG, state(skipping, True), state(plain, True))


def windows(program: Program, size: int) -> Iterator[Trace]:
    """Traces of up to `size` instructions: the first of a program, and some from its second frame."""
    m = core(program)
    for frame, action in enumerate(program.actions[:2]):
        m.set_inputs(action)
        start = m.snapshot()
        length = len(m.record([action], raw_frames=True)["instr"])
        after = m.snapshot()
        m.restore(start)
        if frame:
            for _ in range(random.Random(repr(program)).randrange(max(1, length - size))):
                m.step_instruction()
        yield window(m, size)
        m.restore(after)


def window(m: Core, size: int) -> Trace:
    """What happens in the next `size` instructions, or fewer if the frame ends before."""
    x0, cart0, start = start_values(m), m.cart_ram, m.snapshot()
    rows = m.record([0], raw_frames=True)
    size = min(size, len(rows["instr"]))
    m.restore(start)
    for _ in range(size):
        m.step_instruction()
    frames = rows["frames"]
    frames["end_instr"], frames["cycles"] = size, m.cycles
    rows["instr"] = rows["instr"][:size]
    for name in ("tia", "segments"):
        rows[name] = rows[name][rows[name]["instr"] < size]
    del rows["rewards"]
    facts = {
        "x0": x0,
        "cart0": cart0,
        "x1": start_values(m),
        "cart1": m.cart_ram,
        "rom": np.frombuffer(m.rom, np.uint8),
        "start": np.frombuffer(start.to_bytes(), np.uint8),
    }
    # pixels of the frame outside the window are nobody's
    rows["winner"] = np.where(owners(Trace(**rows, **facts)) < 0, NOBODY, rows["winner"]).astype(np.uint8)
    return Trace(**rows, **facts)


def finding(check: Callable[[Program], str | None]) -> Callable[[Program], str | None]:
    """A comparison for which whatever an engine raises is a finding too."""

    @wraps(check)
    def reported(program: Program) -> str | None:
        try:
            return check(program)
        except Exception as why:
            return f"{check.__name__}: {type(why).__name__}: {why}"

    return reported


@finding
def soft(program: Program) -> str | None:
    """Windows of a program on the soft machine, which checks every register, store, load and pixel against
    the trace; then all it ends with against the hard machine."""
    for number, trace in enumerate(windows(program, SOFT_WINDOW)):
        out = replay(trace, rules=("value", "bit")[number], alpha=2.0, T=1.0)()
        motions = slice(0x20, 0x25)  # the soft machine keeps the whole byte, of which the upper nibble counts
        tia = out.tia.astype(int)
        tia[motions] &= 0xF0
        for name, ours in {"tia": tia, "cart": out.cart, **{n: getattr(out, n) for n in ENDS}}.items():
            first, count, _ = layout.PARTS.get(name, (0, 0, False))
            theirs = trace.cart1 if name == "cart" else trace.x1[first : first + count]
            if (ours != theirs).any():
                at = int(np.argmax(ours != theirs))
                return f"soft, window {number}: {name}[{at}] {ours[at]} instead of {theirs[at]} at its end"
    return None


@finding
def grad(program: Program) -> str | None:
    """Gradients of some pixels and RAM bytes, adjoint against soft: one window by each rule set."""
    from conformance.engines import TOLERANCE, _outputs, error

    for number, trace in enumerate(windows(program, GRAD_WINDOW)):
        outputs = _outputs(trace)
        rules = ("value", "bit")[(number + program.fill) % 2]
        pair = [grads(trace, outputs, rules=rules, engine=engine) for engine in ("adjoint", "soft")]
        for ours, theirs in zip(*pair, strict=True):
            size, part = error(ours, theirs)
            if size > TOLERANCE:
                return f"gradient ({rules}), window {number}: {ours.output} by {part}: {size:.2g}"
    return None


_ALE: list[twin.Twin] = []


def ale(program: Program) -> str | None:
    """An image on our machine and on live ale-py, compared after every reset and frame."""
    if not _ALE:
        _ALE.append(twin.Twin())
    actions = [*program.actions]
    for _ in program.more:
        actions += [twin.RESET, *program.actions]
    try:
        _ALE[0].check(image(program), actions)
    except twin.Found as why:
        return f"ale-py: {why}"
    return None


MODES: dict[str, Callable[[Program], str | None]] = {"hard": hard, "soft": soft, "grad": grad, "ale": ale}
BLOCK = {"hard": 500, "soft": 10, "grad": 5, "ale": 4}
WHAT = {
    "hard": "traced, untraced, with and without shortcuts",
    "soft": "the soft machine's replay against the hard trace",
    "grad": "gradients, adjoint against soft",
    "ale": "live ale-py",
}


# ------------------------------------------------------------------------------------------ the search


def shrink(program: Program, check: Callable[[Program], str | None]) -> Program:
    """The shortest list of operations, and then the fewest actions pressed, on which engines still differ."""
    for ops in _lists(program):
        alone = replace(program, ops=ops, more=())
        if program.more and check(alone):
            program = alone
    size = max(1, len(program.ops) // 2)
    while size:
        at = 0
        while at < len(program.ops):
            less = replace(program, ops=program.ops[:at] + program.ops[at + size :])
            if less.ops and check(less):
                program = less
            else:
                at += size
        size //= 2
    still = replace(program, actions=(0,) * len(program.actions))
    return still if check(still) else program


def save(mode: str, program: Program, folder: Path = FOUND) -> Path:
    """Write a program as a test."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = asdict(program)
    plain = [[[list(p) if isinstance(p, bytes) else p for p in op] for op in ops] for ops in _lists(program)]
    facts["ops"], facts["more"] = plain[0], plain[1:]
    digest = hashlib.sha256(repr(program).encode()).hexdigest()[:6]
    name = f"{mode}-{program.mapper}-{len(program.ops)}-{digest}.json"
    path = folder / name
    path.write_text(json.dumps({"mode": mode, **facts}) + "\n")
    return path


def load(path: Path) -> tuple[str, Program]:
    """What `save` wrote: the mode and the program."""
    facts = json.loads(path.read_text())
    ops, *more = (
        tuple(tuple(bytes(p) if isinstance(p, list) else p for p in op) for op in ops)
        for ops in (facts.pop("ops"), *facts.pop("more", ()))
    )
    mode = facts.pop("mode")
    return mode, Program(ops=ops, more=tuple(more), **{**facts, "actions": tuple(facts["actions"])})


def block(work: tuple[str, int]) -> tuple[int, int, int, list[tuple[str, Program]], float]:
    """Run one block of programs: its number, the programs compared, those that ale-py did not survive, what
    was found, seconds."""
    mode, number = work
    check, size, began = MODES[mode], BLOCK[mode], time.monotonic()
    found: list[tuple[str, Program]] = []
    ran = undecided = 0
    for k in range(number * size, (number + 1) * size):
        program = draw_image(k) if mode == "ale" else draw(k)
        lost = sum(t.undecided for t in _ALE)
        differs = check(program)
        if sum(t.undecided for t in _ALE) == lost:
            ran += len(_lists(program))
        else:
            undecided += len(_lists(program))
        if differs:
            program = shrink(program, check)
            found.append((check(program) or differs, program))
            if len(found) >= 3:
                break
    return number, ran, undecided, found, time.monotonic() - began


def run(
    mode: Annotated[str, typer.Argument(help="hard, soft, grad or ale.")],
    count: Annotated[int, typer.Option("-n", min=1, help="Programs (ale: images) from number 0.")] = 10_000,
    jobs: Annotated[int, typer.Option("-j", min=1, help="Processes.")] = 1,
    minutes: Annotated[float, typer.Option(help="Stop after this time; 0: when all have run.")] = 0.0,
    journal: Annotated[Path, typer.Option(help="Finished blocks, one JSON line each.")] = JOURNAL,
) -> None:
    """Compare engines on random programs; exit code 1 if they ever differ."""
    console = Console()
    if mode not in MODES:
        console.print(f"there is no comparison {mode!r}; known are {', '.join(MODES)}")
        raise typer.Exit(2)
    from tests.fuzz.runner import rows

    done = {r["block"] for r in rows(journal) if r["mode"] == mode}
    blocks = -(-count // BLOCK[mode])
    todo = [(mode, k) for k in range(blocks) if k not in done]
    failures, began = 0, time.monotonic()
    engine = hashlib.sha256(Path(machine.__file__).read_bytes()).hexdigest()[:12]
    columns = (
        TextColumn(mode),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    if mode == "ale":
        jobs = 1  # ale-py has a process of its own already
    with deaf():
        pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None
    results = pool.imap_unordered(block, todo) if pool else map(block, todo)
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(mode, total=blocks, completed=blocks - len(todo))
            for number, size, undecided, found, seconds in results:
                for problem, program in found:
                    failures += 1
                    path = save(mode, program)
                    progress.console.print(f"[red]{program.mapper}[/]: {problem}\n{text(program)}\n-> {path}")
                row = {
                    "mode": mode,
                    "block": number,
                    "programs": size,
                    "undecided": undecided,
                    "found": len(found),
                    "seconds": round(seconds, 2),
                    "build": engine,
                    "date": datetime.date.today().isoformat(),
                }
                append(journal, row)
                progress.advance(task)
                if minutes and time.monotonic() - began > 60 * minutes:
                    break
    except KeyboardInterrupt:
        console.print("interrupted: the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if pool:
            pool.terminate()
        for one in _ALE:
            one.reference.close()
    total = sum(r["programs"] for r in rows(journal) if r["mode"] == mode)
    console.print(f"{mode}: {total:,} programs compared, {failures} differ in this run")
    raise typer.Exit(1 if failures else 0)


def text(program: Program) -> str:
    """A program for people."""
    if program.words:
        return f"random bytes {program.words}"
    return "\n---\n".join(twin.listing(ops, program.mapper) for ops in _lists(program))


if __name__ == "__main__":
    guarded(lambda: typer.run(run), "tests.fuzz.engines")

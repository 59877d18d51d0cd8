"""Random programs on our own engines, compared with each other after every frame.

    python -m tests.fuzz.engines hard -n 1000000 -j 2     untraced, traced, without shortcuts
    python -m tests.fuzz.engines soft -n 2000             the hard trace replayed by the soft machine
    python -m tests.fuzz.engines grad -n 500              adjoint against soft, both rule sets

Program number i is always the same: a list of operations of `twin.py` in a loop that makes a picture, of any
mapper; one in ten is an image of random bytes. Finished blocks are journalled and the same command goes on
after them. A program on which engines differ is shrunk to the shortest one that still shows it and written to
tests/fuzz/found/, whose files test_engines.py runs from then on.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import random
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

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

import vcs
from tests.carts import LAYOUTS
from tests.fuzz import twin
from vcs._hard.machine import Core
from vcs.asm import OPCODES
from vcs.cart import MAPPERS

FRAMES = 4
FOUND = Path(__file__).parent / "found"
JOURNAL = Path("out/fuzz/engines.jsonl")
TIA_WRITES = 0x2D
KINDS = (
    "read",
    "write",
    "rmw",
    "index",
    "indirect",
    "tia",
    "tia",
    "tia",
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
    random bytes (then ops is empty) or 0. actions: one a frame. ale: the protocol."""

    mapper: str
    ops: tuple[twin.Op, ...]
    fill: int
    words: int
    actions: tuple[int, ...]
    ale: bool


def draw(number: int) -> Program:
    """Program `number`."""
    rng = random.Random(number)
    mapper = rng.choice((*LAYOUTS, "AR"))
    actions = tuple(rng.randrange(18) for _ in range(FRAMES))
    ale = rng.random() < 0.5 or mapper == "AR"
    if mapper != "AR" and rng.random() < 0.1:
        return Program(mapper, (), 0, rng.getrandbits(32) or 1, actions, ale)
    ops = tuple(operation(rng, mapper) for _ in range(rng.randint(1, 16)))
    return Program(mapper, ops, rng.randrange(4), 0, actions, ale)


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


@cache
def _filled(mapper: str, fill: int) -> bytes:
    return LAYOUTS[mapper].image(b"", fill)


def image(program: Program) -> bytes:
    """The cartridge of a program."""
    if program.words:
        return twin.chaos(program.mapper, [program.words])
    if program.mapper == "AR":
        return twin.build("AR", program.ops, program.fill)
    layout = LAYOUTS[program.mapper]
    body = layout.start + twin.assemble(program.ops, layout)
    data = bytearray(_filled(program.mapper, program.fill))
    for at in layout.copies:
        data[at : at + len(body)] = body
    return bytes(data)


# ------------------------------------------------------------------------------------------ comparisons


def state(m: Core, last: bool) -> dict[str, Any]:
    """What engines must agree on after a frame; after the last one, everything there is."""
    seen = {"cpu": m.cpu(), "cycles": m.cycles, "ram": m.ram.tobytes(), "screen": m.screen.tobytes()}
    if last:
        seen |= {
            "total": m.total_cycles,
            "cart_ram": m.cart_ram.tobytes(),
            "cart": m.cart(),
            "riot": m.riot(),
            "jam": m.jammed,
            "tia": m.tia(),
            "previous": m.previous_screen.tobytes(),
        }
    return seen


def unequal(what: str, frame: int, ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first difference in words."""
    for key, a in ours.items():
        b = theirs[key]
        if a == b:
            continue
        if isinstance(a, bytes):
            at = next(i for i in range(len(a)) if a[i] != b[i])
            return f"{what}, frame {frame}: {key}[{at}] {a[at]:02X} instead of {b[at]:02X}"
        if isinstance(a, dict):
            at = next(k for k in a if a[k] != b[k])
            return f"{what}, frame {frame}: {key}.{at} {a[at]} instead of {b[at]}"
        return f"{what}, frame {frame}: {key} {a} instead of {b}"
    return None


_OTHERS: list[Core] = []


def hard(program: Program) -> str | None:
    """All ways to run a program on the hard machine; the first difference from the plainest one, or None."""
    rom = image(program)
    plain = Core(rom, MAPPERS[program.mapper], ale=program.ale, format=1)
    while len(_OTHERS) < 4:
        _OTHERS.append(Core(rom, MAPPERS[program.mapper], format=1))
    fast, merged, traced, skipping = _OTHERS
    for m in _OTHERS:
        m.copy_from(plain)
    plain.shortcuts, fast.shortcuts, merged.shortcuts, traced.shortcuts, skipping.shortcuts = 0, 7, 1, 7, 7
    start = plain.snapshot()
    for k, action in enumerate(program.actions):
        plain.act(action)
        last = k == FRAMES - 1
        expected = state(plain, last)
        for name, m in (("shortcuts", fast), ("merged stores", merged)):
            m.act(action)
            found = unequal(name, k, state(m, last), expected)
            if found:
                return found
        traced.record([action], pictures=bool(k % 2))
        found = unequal("traced", k, state(traced, last), expected)
        if found:
            return found
    # the same frames as one step of one action: whose first pictures nobody sees
    plain.restore(start)
    for _ in range(FRAMES):
        plain.act(program.actions[0])
    play(skipping, program.actions[0])
    return unequal("skipped pictures", FRAMES, state(skipping, True), state(plain, True))


def play(m: Core, action: int) -> None:
    """FRAMES frames as one step."""
    from vcs._hard.machine import play as run

    run(m, action, FRAMES)


def _traced(program: Program, frames: int) -> vcs.Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = vcs.Machine(image(program), mapper=program.mapper, protocol="ale" if program.ale else "xitari")
    return m.trace(list(program.actions[:frames]))


def soft(program: Program) -> str | None:
    """The soft machine's replay of a frame checks every value and pixel against the trace."""
    from vcs.soft import replay

    trace = _traced(program, 1)
    try:
        replay(trace, alpha=2.0, T=1.0)()
    except Exception as why:
        return f"soft: {type(why).__name__}: {why}"
    return None


def grad(program: Program) -> str | None:
    """Gradients of some pixels and RAM bytes over a frame, adjoint against soft, relative to 1e-9."""
    from conformance.engines import TOLERANCE, _outputs, error
    from vcs.gradient import grads

    trace = _traced(program, 1)
    outputs = _outputs(trace)
    rules = ("value", "bit")[program.fill % 2]
    try:
        pair = [grads(trace, outputs, rules=rules, engine=engine) for engine in ("adjoint", "soft")]
    except Exception as why:
        return f"gradient: {type(why).__name__}: {why}"
    for ours, theirs in zip(*pair, strict=True):
        size, part = error(ours, theirs)
        if size > TOLERANCE:
            return f"gradient ({rules}) of {ours.output} by {part}: {size:.2g} relative"
    return None


MODES: dict[str, Callable[[Program], str | None]] = {"hard": hard, "soft": soft, "grad": grad}
BLOCK = {"hard": 500, "soft": 10, "grad": 5}
WHAT = {
    "hard": "traced, untraced, with and without shortcuts",
    "soft": "the soft machine's replay against the hard trace",
    "grad": "gradients, adjoint against soft",
}


# ------------------------------------------------------------------------------------------ the search


def shrink(program: Program, check: Callable[[Program], str | None]) -> Program:
    """The shortest list of operations, and then the fewest actions pressed, on which engines still differ."""
    size = max(1, len(program.ops) // 2)
    while size:
        at = 0
        while at < len(program.ops):
            less = Program(**{**vars(program), "ops": program.ops[:at] + program.ops[at + size :]})
            if less.ops and check(less):
                program = less
            else:
                at += size
        size //= 2
    still = Program(**{**vars(program), "actions": (0,) * FRAMES})
    return still if check(still) else program


def save(mode: str, program: Program, folder: Path = FOUND) -> Path:
    """Write a program as a test."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = asdict(program)
    facts["ops"] = [[list(p) if isinstance(p, bytes) else p for p in op] for op in program.ops]
    name = f"{mode}-{program.mapper}-{len(program.ops)}-{abs(hash(program)) % 100000}.json"
    path = folder / name
    path.write_text(json.dumps({"mode": mode, **facts}) + "\n")
    return path


def load(path: Path) -> tuple[str, Program]:
    """What `save` wrote: the mode and the program."""
    facts = json.loads(path.read_text())
    ops = tuple(tuple(bytes(p) if isinstance(p, list) else p for p in op) for op in facts.pop("ops"))
    mode = facts.pop("mode")
    return mode, Program(ops=ops, **{**facts, "actions": tuple(facts["actions"])})


def block(work: tuple[str, int]) -> tuple[int, int, list[tuple[str, Program]], float]:
    """Run one block of programs: its number, the programs run, what was found, seconds."""
    mode, number = work
    check, size, began = MODES[mode], BLOCK[mode], time.monotonic()
    found = []
    for k in range(number * size, (number + 1) * size):
        program = draw(k)
        if check(program):
            program = shrink(program, check)
            found.append((check(program) or "?", program))
            if len(found) >= 3:
                break
    return number, size, found, time.monotonic() - began


def run(
    mode: Annotated[str, typer.Argument(help="hard, soft or grad.")],
    count: Annotated[int, typer.Option("-n", min=1, help="Programs, counted from number 0.")] = 10_000,
    jobs: Annotated[int, typer.Option("-j", min=1, help="Processes.")] = 1,
    minutes: Annotated[float, typer.Option(help="Stop after this time; 0: when all have run.")] = 0.0,
    journal: Annotated[Path, typer.Option(help="Finished blocks, one JSON line each.")] = JOURNAL,
) -> None:
    """Compare engines on random programs; exit code 1 if they ever differ."""
    console = Console()
    if mode not in MODES:
        console.print(f"there is no comparison {mode!r}; known are {', '.join(MODES)}")
        raise typer.Exit(2)
    journal.parent.mkdir(parents=True, exist_ok=True)
    from tests.fuzz.runner import rows

    done = {r["block"] for r in rows(journal) if r["mode"] == mode}
    blocks = -(-count // BLOCK[mode])
    todo = [(mode, k) for k in range(blocks) if k not in done]
    failures, began = 0, time.monotonic()
    columns = (
        TextColumn(mode),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None
    results = pool.imap_unordered(block, todo) if pool else map(block, todo)
    try:
        with Progress(*columns, console=console) as progress, journal.open("a") as out:
            task = progress.add_task(mode, total=blocks, completed=blocks - len(todo))
            for number, size, found, seconds in results:
                for problem, program in found:
                    failures += 1
                    path = save(mode, program)
                    progress.console.print(f"[red]{program.mapper}[/]: {problem}\n{text(program)}\n-> {path}")
                row = {
                    "mode": mode,
                    "block": number,
                    "programs": size,
                    "found": len(found),
                    "seconds": round(seconds, 2),
                    "date": datetime.date.today().isoformat(),
                }
                out.write(json.dumps(row) + "\n")
                out.flush()
                progress.advance(task)
                if minutes and time.monotonic() - began > 60 * minutes:
                    break
    except KeyboardInterrupt:
        console.print("interrupted: the same command goes on")
        raise typer.Exit(130) from None
    finally:
        if pool:
            pool.terminate()
    total = sum(r["programs"] for r in rows(journal) if r["mode"] == mode)
    console.print(f"{mode}: {total:,} programs compared, {failures} differ in this run")
    raise typer.Exit(1 if failures else 0)


def text(program: Program) -> str:
    """A program for people."""
    return twin.listing(program.ops, program.mapper) if program.ops else f"random bytes {program.words}"


if __name__ == "__main__":
    typer.run(run)

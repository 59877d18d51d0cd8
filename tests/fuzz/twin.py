"""Random programs for every mapper, run on our machine and on the installed ale-py, compared frame by frame.

    python -m tests.fuzz.twin                          every mapper, 50 programs each
    python -m tests.fuzz.twin -m DPC -m E7 -n 500      some mappers, more programs
    python -m tests.fuzz.twin --chaos -n 200           images of random bytes instead of programs
    python -m tests.fuzz.twin --seed 7 -o /tmp/found   other programs; where a failing image is written

A program is a list of operations (bus accesses of every addressing mode at addresses that matter to the
mapper, TIA and timer writes, waits) in a loop that makes a picture. hypothesis draws them and, on a
difference, shrinks them to the shortest list that still shows it; the image and a listing are then written.
ale-py runs in a process of its own, because some images end it: such a program counts as undecided.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from hypothesis import given, seed
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import vcs
from tests.carts import LAYOUTS, Layout, ar_image
from tests.fuzz import searching
from vcs.asm import OPCODES, format_instruction
from vcs.command import deaf, guarded

FRAMES = 30
# The name of the file picks score and lives rules. They read RAM over the bus, and code that a frame begins
# in TIA space sees the cell read last. In this game's rules that is always the same one (test_twin.py);
# boxing's, for example, look at the clock only while nobody is knocked out.
GAME = "koolaid"
LAST_READ = 81
RESET = -1  # among the actions: start the game again
TURN = 0xF2  # the cell that counts the resets of an image of several programs


# ------------------------------------------------------------------------------------------ the two machines


@dataclasses.dataclass
class Frame:
    """What is compared after a step."""

    ram: bytes
    screen: bytes
    reward: int
    lives: int
    over: bool


def _reference(conn: Connection) -> None:
    """A life as the reference: receive (path, actions), send the frames or the exception's text."""
    import ale_py

    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    while True:
        try:
            path, actions = conn.recv()
        except EOFError:
            return
        ale = ale_py.ALEInterface()
        ale.setInt("random_seed", 0)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(path)
        frames = [Frame(ale.getRAM().tobytes(), ale.getScreen().tobytes(), 0, ale.lives(), ale.game_over())]
        for action in actions:
            if ale.game_over() or action == RESET:
                ale.reset_game()
            reward = int(ale.act(action)) if action != RESET else 0
            frames.append(
                Frame(ale.getRAM().tobytes(), ale.getScreen().tobytes(), reward, ale.lives(), ale.game_over())
            )
        conn.send(frames)


class Reference:
    """ale-py in a process that is started again when an image has ended it."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._conn: Connection | None = None

    def run(self, path: Path, actions: Sequence[int], timeout: float = 60.0) -> list[Frame] | None:
        """The frames (the first before any action), or None if the process died or hung."""
        if self._conn is None:
            self._conn, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_reference, args=(theirs,), daemon=True)
            with deaf():
                self._process.start()
            theirs.close()
        try:
            self._conn.send((str(path), list(actions)))
            if self._conn.poll(timeout):
                frames: list[Frame] = self._conn.recv()
                return frames
        except (EOFError, OSError):
            pass
        self.close()
        return None

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._process.terminate()
            self._process.join()
            self._conn = None


def ours(path: Path, actions: Sequence[int]) -> list[Frame]:
    """The same run on our machine."""
    machine = vcs.Machine(path)

    def frame(reward: int) -> Frame:
        return Frame(
            machine.ram.tobytes(), machine.screen.tobytes(), reward, machine.lives, machine.game_over
        )

    frames = [frame(0)]
    for action in actions:
        if machine.game_over or action == RESET:
            machine.reset()
        frames.append(frame(int(machine.step(action)) if action != RESET else 0))
    return frames


def difference(mine: Sequence[Frame], theirs: Sequence[Frame]) -> str | None:
    """The first difference, in words."""
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a == b:
            continue
        parts = []
        cells = [i for i in range(128) if a.ram[i] != b.ram[i]]
        if cells:
            parts.append(
                "RAM " + " ".join(f"{0x80 + i:02X}:{a.ram[i]:02X}/{b.ram[i]:02X}" for i in cells[:12])
            )
        if a.screen != b.screen:
            if len(a.screen) == len(b.screen):
                x = np.frombuffer(a.screen, np.uint8).reshape(-1, 160)
                y = np.frombuffer(b.screen, np.uint8).reshape(-1, 160)
                at = np.argwhere(x != y)
                row, column = at[0]
                parts.append(
                    f"{len(at)} pixels, first row {row} column {column}: {x[row, column]:02X}/"
                    f"{y[row, column]:02X}"
                )
            else:
                parts.append(f"picture of {len(a.screen) // 160}/{len(b.screen) // 160} lines")
        parts += [
            f"{name} {getattr(a, name)}/{getattr(b, name)}"
            for name in ("reward", "lives", "over")
            if getattr(a, name) != getattr(b, name)
        ]
        return f"frame {number} (ours/ale-py): " + "; ".join(parts)
    return None


# --------------------------------------------------------------------------------------------- the programs

Op = tuple[Any, ...]


def encode(op: Op, slot: int, layout: Layout, here: int) -> bytes:
    """Machine code of an operation that stands at `here`; its result goes to RAM cell `slot`."""
    kind = op[0]
    keep = bytes((0x85, 0x88 + slot % 104, 0x85, layout.tia + 0x09))  # also visible: background colour
    if kind == "read":
        return bytes((0xAD, op[1] & 0xFF, op[1] >> 8)) + keep
    if kind == "write":
        return bytes((0xA9, op[2], 0x8D, op[1] & 0xFF, op[1] >> 8))
    if kind == "rmw":
        return bytes((op[2], op[1] & 0xFF, op[1] >> 8)) + bytes((0xAD, op[1] & 0xFF, op[1] >> 8)) + keep
    if kind == "index":  # op[3] reaches op[1] from op[1] - x, across a page or not
        base = (op[1] - op[2]) & 0xFFFF
        return bytes((0xA2, op[2], op[3], base & 0xFF, base >> 8)) + keep
    if kind == "indirect":  # (zp),Y through $F8, or (zp,X)
        base = (op[1] - op[2]) & 0xFFFF
        return (
            bytes(
                (
                    0xA9,
                    base & 0xFF,
                    0x85,
                    0xF8,
                    0xA9,
                    base >> 8,
                    0x85,
                    0xF9,
                    0xA0,
                    op[2],
                    0xA2,
                    0x00,
                    op[3],
                    0xF8,
                )
            )
            + keep
        )
    if kind == "tia":
        return bytes((0xA9, op[2], 0x85, layout.tia + op[1]))
    if kind == "burst":  # stores to TIA registers five cycles apart
        pairs = zip(op[1][::2], op[1][1::2], strict=True)
        return b"".join(bytes((0xA9, value, 0x85, layout.tia + register)) for register, value in pairs)
    if kind == "timer":
        return bytes((0xA9, op[2], 0x8D, 0x94 + op[1], 0x02))
    if kind == "wait":
        return bytes((0xEA,)) * op[1]
    if kind == "lines":
        return bytes((0xA2, op[1], 0x85, layout.tia + 0x02, 0xCA, 0xD0, 0xFB))
    if kind == "exec":  # run TIA or RIOT registers as code; the RAM behind and BRK come back
        enter, back = op[1], here + 33
        return (
            bytes(
                (
                    0xA9,
                    0x4C,
                    0x85,
                    0x80,
                    0xA9,
                    back & 0xFF,
                    0x85,
                    0x81,
                    0x85,
                    0xFC,
                    0xA9,
                    back >> 8,
                    0x85,
                    0x82,
                    0x85,
                    0xFD,
                    0xA2,
                    0xF7,
                    0x9A,
                    0xA2,
                    op[2],
                    0xA0,
                    op[3],
                    0x18,
                    0xD8,
                    0xA9,
                    op[4],
                    0x4C,
                    enter & 0xFF,
                    enter >> 8,
                    0xEA,
                    0xEA,
                    0xEA,
                )
            )
            + keep
        )
    assert kind == "raw"
    return bytes(op[1])


def assemble(
    ops: Sequence[Op], layout: Layout, repeat: int = 1, tail: int = 192, at: int | None = None
) -> bytes:
    """A program that does the operations `repeat` times a frame (1 to 255) and then waits for `tail` lines
    (1 to 255). It begins at the operations, so that the first frame has a picture. at: where it stands."""
    tia = layout.tia
    origin = layout.code + len(layout.start) if at is None else at
    # start; BRK's handler, JMP ($00FC); there is the loop's address until an operation puts its own
    loop = origin + 19
    first = loop + 21  # behind the vertical sync
    head = bytes(
        (
            0x4C,
            (origin + 6) & 0xFF,
            (origin + 6) >> 8,
            0x6C,
            0xFC,
            0x00,
            0x78,
            0xD8,
            0xA9,
            loop & 0xFF,
            0x85,
            0xFC,
            0xA9,
            loop >> 8,
            0x85,
            0xFD,
            0x4C,
            first & 0xFF,
            first >> 8,
        )
    )
    vsync = bytes(
        (
            0xA2,
            0xFF,
            0x9A,
            0xA9,
            0x02,
            0x85,
            tia,
            0x85,
            tia + 2,
            0x85,
            tia + 2,
            0x85,
            tia + 2,
            0xA9,
            0x00,
            0x85,
            tia,
            0x85,
            tia + 1,
            0xE6,
            0xF0,
        )
    )
    body = b"" if repeat == 1 else bytes((0xA9, repeat, 0x85, 0xF1))
    again = first + len(body)
    for slot, op in enumerate(ops):
        body += encode(op, slot, layout, first + len(body))
    if repeat > 1:
        body += bytes((0xC6, 0xF1, 0xF0, 0x03, 0x4C, again & 0xFF, again >> 8))
    rest = bytes((0xA2, tail, 0x85, tia + 2, 0xCA, 0xD0, 0xFB, 0x4C, loop & 0xFF, loop >> 8))
    return head + vsync + body + rest


def assemble_all(lists: Sequence[Sequence[Op]], layout: Layout, repeat: int, tail: int) -> bytes:
    """Programs of `assemble`, 2, 4, 8 ... of them, of which each reset of the console starts another one."""
    count, origin = len(lists), layout.code + len(layout.start)
    low = origin + 26
    high = low + count
    head = bytes((0x4C, (origin + 6) & 0xFF, (origin + 6) >> 8, 0x6C, 0xFC, 0x00))  # as in `assemble`
    head += bytes((0xE6, TURN, 0xA5, TURN, 0x29, count - 1, 0xAA, 0xBD, low & 0xFF, low >> 8, 0x85, 0xFC))
    head += bytes((0xBD, high & 0xFF, high >> 8, 0x85, 0xFD, 0x6C, 0xFC, 0x00))
    starts, bodies = [], b""
    for ops in lists:
        starts.append(high + count + len(bodies))
        bodies += assemble(ops, layout, repeat, tail, starts[-1])
    return head + bytes(s & 0xFF for s in starts) + bytes(s >> 8 for s in starts) + bodies


_LEGAL = [o for o in range(256) if OPCODES[o].mnemonic not in ("JAM", "KIL")]
_RMW = (0xEE, 0xCE, 0x0E, 0x4E, 0x2E, 0x6E, 0xEF, 0x0F)
_INDEXED = (0xBD, 0x9D, 0xFE, 0x1D, 0xDD, 0x7D, 0x3C)
_INDIRECT = (0xB1, 0x91, 0xA1, 0x81, 0xD1, 0xB3)


def addresses(layout: Layout) -> st.SearchStrategy[int]:
    """16-bit addresses with a weight on what the mapper cares about."""
    masked = [st.integers(low, high) for low, high in layout.spans]
    masked += [
        st.integers(0x00, 0x7F),
        st.integers(0x80, 0xFF),
        st.integers(0x280, 0x29F),
        st.integers(0, 0x1FFF),
    ]
    if layout.hot:
        masked = [st.sampled_from(layout.hot)] * 3 + masked
    return st.builds(lambda a, high: a | high << 13, st.one_of(masked), st.integers(0, 7))


def operations(layout: Layout) -> st.SearchStrategy[Op]:
    """One operation of a program."""
    at, byte = addresses(layout), st.integers(0, 255)
    return st.one_of(
        st.tuples(st.just("read"), at),
        st.tuples(st.just("write"), at, byte),
        st.tuples(st.just("read"), at),
        st.tuples(st.just("rmw"), at, st.sampled_from(_RMW)),
        st.tuples(st.just("index"), at, byte, st.sampled_from(_INDEXED)),
        st.tuples(st.just("indirect"), at, byte, st.sampled_from(_INDIRECT)),
        st.tuples(st.just("tia"), st.integers(0, 0x2C), byte),
        st.tuples(st.just("timer"), st.integers(0, 3), byte),
        st.tuples(st.just("exec"), st.integers(0, 0xFFFF).map(lambda a: a & 0xED7F | 0x40), byte, byte, byte),
        st.tuples(
            st.just("exec"), st.integers(0, 0xFFFF).map(lambda a: a & 0xEFFF | 0x280), byte, byte, byte
        ),
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("lines"), st.integers(1, 60)),
        st.builds(
            lambda o, a: ("raw", bytes((o, a & 0xFF, a >> 8))[: OPCODES[o].length]),
            st.sampled_from(_LEGAL),
            at,
        ),
    )


def programs(mapper: str) -> st.SearchStrategy[tuple[list[Op], int]]:
    """Operations and a seed for the filling."""
    layout = LAYOUTS.get(mapper, AR)
    return st.tuples(st.lists(operations(layout), min_size=1, max_size=40), st.integers(0, 255))


AR = Layout(6144, 0xF200, 0x500, (0x200,), ())


def build(mapper: str, ops: Sequence[Op], fill: int, repeat: int = 1, tail: int = 192) -> bytes:
    """The image of a program; the rest as in `assemble`."""
    if mapper == "AR":
        # frames of full length: lines that nobody draws would go on showing the two different BIOS pictures
        return ar_image(assemble([("lines", 70), *ops], AR, repeat, tail))
    return LAYOUTS[mapper].image(assemble(ops, LAYOUTS[mapper], repeat, tail), fill)


@functools.cache
def _frame_of(mapper: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """An image without a program, and which of its bytes an image of random bytes keeps."""
    layout = LAYOUTS[mapper]
    data = np.frombuffer(dataclasses.replace(layout, copies=(), start=b"").image(b""), np.uint8).copy()
    keep = np.zeros(layout.size, np.bool_)
    for at, count in (
        *((at, len(mark)) for at, mark in layout.marks),
        *((at, count) for at, count, _ in layout.blank),
        *((at, 4) for at in layout.vectors),
    ):
        keep[at : at + count] = True
    for at in layout.copies:
        data[at : at + len(layout.start)] = np.frombuffer(layout.start, np.uint8)
        keep[at : at + len(layout.start)] = True
    return data, keep


def chaos(mapper: str, words: Sequence[int]) -> bytes:
    """An image of random bytes (a generator seeded by `words`) that is recognised as the mapper."""
    data, keep = _frame_of(mapper)
    noise = np.random.default_rng(list(words)).choice(np.array(_LEGAL, np.uint8), len(data))
    return np.where(keep, data, noise).tobytes()


def listing(ops: Sequence[Op], mapper: str) -> str:
    """The operations as assembly text."""
    layout = LAYOUTS.get(mapper, AR)
    lines = []
    for slot, op in enumerate(ops):
        code, text, at = encode(op, slot, layout, layout.code), [], 0
        while at < len(code):
            length = OPCODES[code[at]].length
            operands = [*code[at + 1 : at + length], 0, 0][:2]
            text.append(format_instruction(code[at], operands[0], operands[1], layout.code))
            at += length
        shown = "; ".join(text) if op[0] != "wait" else f"NOP x {op[1]}"
        lines.append(f"{op[0]:9}{shown}")
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------------- search


class Found(AssertionError):
    """The two machines differ on an image."""


@dataclasses.dataclass
class Twin:
    """Compares images; counts those that ale-py did not survive."""

    reference: Reference = dataclasses.field(default_factory=Reference)
    folder: Path = dataclasses.field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="twin-")))
    undecided: int = 0
    compared: int = 0

    def check(self, image: bytes, actions: Sequence[int]) -> None:
        """Raises Found if the two machines differ."""
        path = self.folder / f"{GAME}.bin"
        path.write_bytes(image)
        theirs = self.reference.run(path, actions)
        if theirs is None:
            self.undecided += 1
            return
        self.compared += 1
        problem = difference(ours(path, actions), theirs)
        if problem is not None:
            raise Found(problem)


def actions_of(fill: int) -> list[int]:
    return [int(a) for a in np.random.default_rng(fill).integers(0, 18, FRAMES)]


def search(
    twin: Twin,
    mapper: str,
    examples: int,
    start: int,
    wild: bool = False,
    each: Callable[[], None] = lambda: None,
) -> tuple[str, bytes, str] | None:
    """Look for a program on which the machines differ: (difference, image, listing) of the shortest found."""
    last: dict[str, Any] = {}
    strategy: st.SearchStrategy[Any] = st.tuples(st.integers(0, 2**32 - 1)) if wild else programs(mapper)

    @seed(start)
    @searching(examples)
    @given(strategy)
    def compare(drawn: Any) -> None:
        each()
        image = chaos(mapper, drawn) if wild else build(mapper, drawn[0], drawn[1])
        text = "random bytes" if wild else listing(drawn[0], mapper)
        try:
            twin.check(image, actions_of(0 if wild else drawn[1]))
        except Found as problem:
            last.update(problem=str(problem), image=image, text=text)
            raise

    with contextlib.redirect_stdout(None):
        try:
            compare()
        except Found:
            return last["problem"], last["image"], last["text"]
    return None


def main(
    mapper: Annotated[
        list[str] | None, typer.Option("-m", "--mapper", help="A mapper; repeat for more.")
    ] = None,
    examples: Annotated[int, typer.Option("-n", "--examples", min=1, help="Programs per mapper.")] = 50,
    start: Annotated[int, typer.Option("--seed", help="Other programs for another number.")] = 0,
    wild: Annotated[bool, typer.Option("--chaos", help="Images of random bytes.")] = False,
    out: Annotated[Path, typer.Option("-o", "--out", help="Where failing images go.")] = Path("twin-found"),
) -> None:
    """Random programs on our machine and on ale-py; exit code 1 if they ever differ."""
    console = Console()
    names = mapper or [*LAYOUTS]
    for name in names:
        if name not in LAYOUTS and name != "AR":
            console.print(f"there is no mapper {name!r} to test; known are {', '.join(LAYOUTS)} and AR")
            raise typer.Exit(2)
    twin = Twin()
    failures = 0
    columns = (TextColumn("{task.description:5}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            for name in names:
                task = progress.add_task(name, total=examples)
                found = search(twin, name, examples, start, wild, lambda t=task: progress.advance(t))
                if found is None:
                    continue
                failures += 1
                problem, image, text = found
                out.mkdir(parents=True, exist_ok=True)
                stem = out / f"{name}-{hashlib.sha256(image).hexdigest()[:8]}"
                stem.with_suffix(".bin").write_bytes(image)
                progress.console.print(f"[red]{name}[/]: {problem}\n{text}\n-> {stem}.bin")
    finally:
        twin.reference.close()
    console.print(
        f"{twin.compared} images compared, {twin.undecided} undecided (ale-py died), "
        f"{failures} of {len(names)} mappers differ"
    )
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    guarded(lambda: typer.run(main), "tests.fuzz.twin")

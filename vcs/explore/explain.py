"""What a pixel, a region or a RAM byte depends on: the gradient, the oracle's exact effects, and how they
agree.

Both start from the same machine, some frames back, and look at the same output at the end of the true
trajectory. The unit of comparison is a *flip*: one bit of one place inverted at the start. The oracle plays
each flip on the exact machine; a gradient predicts it to first order, derivative times the step the flip
makes; a registered method of `vcs.xai.methods` scores it as a cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs import gradient, layout, roms
from vcs.data import load_json
from vcs.demo import content
from vcs.errors import VcsError
from vcs.gradient import Attribution
from vcs.machine import Machine
from vcs.trace import Trace
from vcs.xai import metrics
from vcs.xai.causes import RAM, Cause, Do
from vcs.xai.methods import Attribution as MethodAttribution
from vcs.xai.methods import checked, get, names
from vcs.xai.oracle import Oracle, action_lines
from vcs.xai.outputs import Bytes, Content, Outcome, Output, Pixel, Region
from vcs.xai.state import Run, State, _key

Array = npt.NDArray[np.float64]

POOL: Final = 91  # frames of RAM that methods may draw from, as in the audit
BLOCK: Final = 64  # flips between two reports of progress
ROM_TOP: Final = 48  # ROM bytes tried besides those of the chain, unless all are asked for
MOST_CART: Final = 256  # bytes of cartridge RAM that are tried
WIDTH: Final = 160
# TIA registers that hold a value; a write to one of the others is an event
HOLDING: Final = (1, *range(0x04, 0x10), *range(0x1B, 0x2A))
OWN: Final = "gradient"  # the explorer's own method: first order of each flip
# methods that ask for too many re-runs when every bit of RAM is a cause
_TOO_MANY: Final = ("extremal_perturbation", "counterfactual", "kernel_shap_lib")


@dataclass(frozen=True)
class Target:
    """What is explained, at the end of the trajectory.

    kind: "pixel" (row, column: its colour number), "region" (rows row to bottom - 1 and columns column to
    right - 1: its mean colour number) or "ram" (cell 0 to 127).
    """

    kind: str
    row: int = 0
    column: int = 0
    bottom: int = 0
    right: int = 0
    cell: int = 0

    @classmethod
    def parse(cls, data: Any, rows: int) -> Target:
        """The target of a message. Raises VcsError for anything that names none."""
        known = {"pixel": ("row", "column"), "region": ("row", "column", "bottom", "right"), "ram": ("cell",)}
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or kind not in known:
            raise VcsError(
                "no target: give a pixel (row, column), a region (row, column, bottom, right) or a ram cell"
            )
        numbers = {}
        for name in known[kind]:
            value = data.get(name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise VcsError(f"the target's {name} must be a whole number")
            numbers[name] = value
        target = cls(kind, **numbers)
        if kind == "ram":
            fits = 0 <= target.cell < layout.RAM_SIZE
        else:
            bottom, right = (
                (target.bottom, target.right) if kind == "region" else (target.row + 1, target.column + 1)
            )
            fits = 0 <= target.row < bottom <= rows and 0 <= target.column < right <= WIDTH
        if not fits:
            raise VcsError(
                f"that {kind} is outside: rows 0 to {rows - 1}, columns 0 to {WIDTH - 1}, RAM cells 0 to 127"
            )
        return target

    @property
    def text(self) -> str:
        """The target in words."""
        if self.kind == "ram":
            return layout.name(self.cell)
        if self.kind == "pixel":
            return f"pixel at row {self.row}, column {self.column}"
        return f"mean of rows {self.row}-{self.bottom - 1}, columns {self.column}-{self.right - 1}"

    def graded(self, trace: Trace) -> Any:
        """The output for `vcs.grad`."""
        if self.kind == "ram":
            return gradient.Ram(self.cell)
        if self.kind == "pixel":
            return gradient.Pixel(self.row, self.column)
        weights = np.zeros(trace.screens.shape[1:])
        weights[self.row : self.bottom, self.column : self.right] = 1 / (
            (self.bottom - self.row) * (self.right - self.column)
        )
        return weights

    @property
    def output(self) -> Output:
        """The output for the oracle and the methods."""
        if self.kind == "ram":
            return Content.of(self.cell)
        if self.kind == "pixel":
            return Pixel.of(self.row, self.column)
        return Region.of(self.row, self.bottom, self.column, self.right)


@dataclass(frozen=True)
class Flip:
    """One bit of one place, inverted at the start: the intervention, and the step the place's value makes.

    part, index: where the gradient by it stands in `vcs.Attribution.parts`; for inputs, index is the frame.
    """

    part: str
    index: int
    bit: int
    do: Do
    step: int


def _byte_flips(part: str, location: int, index: int, value: int) -> list[Flip]:
    return [Flip(part, index, b, Do(location, "flip", b), 1 - 2 * (value >> b & 1)) for b in range(8)]


def ram_flips(trace: Trace) -> list[Flip]:
    """The 1,024 bits of RAM, cell by cell, bit 0 first."""
    return [
        f for i in range(layout.RAM_SIZE) for f in _byte_flips("ram", RAM + i, i, content(trace, RAM + i))
    ]


def rom_flips(trace: Trace, offsets: Sequence[int]) -> list[Flip]:
    """The eight bits of each ROM byte."""
    return [f for i in offsets for f in _byte_flips("rom", layout.ROM + i, i, content(trace, layout.ROM + i))]


def other_flips(trace: Trace, actions: Sequence[int]) -> list[Flip]:
    """CPU registers and flags, TIA registers that hold a value, positions (one pixel right or left: bits 0
    and 1), cartridge RAM of up to 256 bytes, and the joystick lines of each frame (those whose flip is an
    action)."""
    flips = [
        f
        for i in range(4)
        for f in _byte_flips("registers", layout.CPU + i, i, content(trace, layout.CPU + i))
    ]
    for i in range(6):
        where = layout.CPU + 4 + i
        flips.append(Flip("flags", i, 0, Do(where, "flip", 0), 1 - 2 * content(trace, where)))
    for i in HOLDING:
        flips += _byte_flips("tia", layout.TIA_W + i, i, content(trace, layout.TIA_W + i))
    for i in range(5):
        flips += [
            Flip("positions", i, b, Do(layout.POSITION + i, "delta", d), d) for b, d in ((0, 1), (1, -1))
        ]
    if len(trace.cart0) <= MOST_CART:
        for i in range(len(trace.cart0)):
            flips += _byte_flips("cart", layout.CART + i, i, content(trace, layout.CART + i))
    legal = {action_lines(a) for a in range(18)}
    for frame, action in enumerate(actions):
        lines = action_lines(action)
        for k in range(5):
            if tuple(v ^ (i == k) for i, v in enumerate(lines)) in legal:
                flips.append(
                    Flip("inputs", frame, k, Do(layout.INPUT + k, "flip", 0, frame), 1 - 2 * lines[k])
                )
    return flips


def predicted(attribution: Attribution, flips: Sequence[Flip]) -> Array:
    """float64[n]: the first-order effect of each flip, derivative times step."""
    out = np.zeros(len(flips))
    for i, f in enumerate(flips):
        part = attribution.parts[f.part]
        if f.part == "inputs" or part.ndim == 2:
            out[i] = part[f.index, f.bit] * f.step
        elif f.part in ("flags", "positions"):
            out[i] = part[f.index] * f.step
        else:
            out[i] = part[f.index] * f.step * (1 << f.bit)
    return out


def agreement(method: npt.ArrayLike, effects: npt.ArrayLike) -> float | None:
    """Pearson correlation of |method| and |effect| over flips; None (n/a) if either is constant."""
    a, b = np.abs(np.asarray(method, float)), np.abs(np.asarray(effects, float))
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return metrics.pearson(a, b)


class Memory:
    """The outcomes of flips that were played, kept small: a screen is stored as what differs from the
    baseline."""

    def __init__(self, baseline: Outcome) -> None:
        self.baseline = baseline
        self._base = baseline.picture().ravel()
        self._ram: dict[Do, Bytes] = {}
        self._differ: dict[Do, tuple[npt.NDArray[np.intp], Bytes]] = {}

    def add(self, do: Do, outcome: Outcome) -> None:
        """Remember the outcome of a flip."""
        screen = outcome.picture().ravel()
        where = np.flatnonzero(screen != self._base)
        self._ram[do], self._differ[do] = outcome.ram, (where.astype(np.uint16), screen[where])

    def __contains__(self, do: Do) -> bool:
        return do in self._ram

    def read(self, do: Do, output: Output) -> float:
        """The output under a flip, minus its value without."""
        where, values = self._differ[do]
        screen = self._base.copy()
        screen[where] = values
        picture = screen.reshape(self.baseline.picture().shape)
        return output.read(Outcome(self._ram[do], len(where), 0.0, picture)) - output.read(self.baseline)


class Stopped(Exception):
    """The page asked for something else meanwhile."""


class Moment:
    """One start of an explanation: a machine, the actions that follow it, their trace, and what was
    computed.

    machine: at the start (it is not moved). actions: of the frames from there to the end. pool: RAM of the
    frames before, asked for only by methods that draw their baselines from it; default: the start's RAM.
    """

    def __init__(
        self, machine: Machine, actions: Sequence[int], trace: Trace, pool: Callable[[], Bytes] | None = None
    ) -> None:
        self.machine = machine
        self.actions = list(actions)
        self.trace = trace
        self._pool = pool
        self._turn = threading.Lock()  # an oracle's machines serve one thread at a time

    @cached_property
    def pool(self) -> Bytes:
        """uint8[91, 128]: RAM of the frames played before the start, the last one the start's."""
        return self._pool() if self._pool else np.tile(self.machine.ram, (POOL, 1))

    @cached_property
    def oracle(self) -> Oracle:
        """The oracle of this moment."""
        return Oracle(self.machine, self.actions)

    @cached_property
    def memory(self) -> Memory:
        """What its flips did."""
        return Memory(self.oracle.baseline)

    @cached_property
    def ram_flips(self) -> list[Flip]:
        """The 1,024 bits of RAM."""
        return ram_flips(self.trace)

    @cached_property
    def other_flips(self) -> list[Flip]:
        """Registers, TIA, positions and inputs."""
        return other_flips(self.trace, self.actions)

    def gradient(self, target: Target, rules: str) -> Attribution:
        """The derivative of the target by everything at the start."""
        return gradient.grad(self.trace, target.graded(self.trace), rules=rules)

    def effects(
        self, target: Target, flips: Sequence[Flip], progress: Callable[[int, Array], None] | None = None
    ) -> Array:
        """float64[n]: the exact signed effect of each flip on the target; flips played before are not
        played again.

        progress: called with the number done so far and the effects since the last call; it may raise
        `Stopped`.
        """
        output = target.output
        done = np.zeros(len(flips))
        for at in range(0, len(flips), BLOCK):
            part = flips[at : at + BLOCK]
            with self._turn:
                new = [f.do for f in part if f.do not in self.memory]
                outcomes = self.oracle.run([(do,) for do in new], screens=True) if new else []
                for do, outcome in zip(new, outcomes):
                    self.memory.add(do, outcome)
            done[at : at + len(part)] = [self.memory.read(f.do, output) for f in part]
            if progress:
                progress(at + len(part), done[at : at + len(part)])
        return done

    @cached_property
    def used(self) -> list[int]:
        """ROM offsets that the trace read: instructions, operands, tables."""
        rows = self.trace.instr
        read = rows["ea_loc"][rows["flags"] & 4 > 0]
        found = np.unique(
            np.concatenate([rows["loc0"], rows["loc1"], rows["loc2"], rows["ptr0"], rows["ptr1"], read])
        )
        return [int(i) - layout.ROM for i in found if i >= layout.ROM]

    def hot(self, attribution: Attribution, also: Sequence[int] = ()) -> list[int]:
        """ROM offsets worth trying: those with the largest derivatives, and `also`, by offset."""
        size = np.abs(attribution.rom).reshape(len(attribution.rom), -1).sum(axis=1)
        best = [int(i) for i in np.argsort(-size, kind="stable")[:ROM_TOP] if size[i] > 0]
        return sorted({*best, *also})

    def scored(self, target: Target, rules: str, method: str) -> Array:
        """float64[1024]: what a method says of the flips of RAM: `predicted`, or a registered one's
        `scores`."""
        if method == OWN:
            return predicted(self.gradient(target, rules), self.ram_flips)
        return self.scores(target, method)

    def scores(self, target: Target, method: str) -> Array:
        """float64[1024]: a registered method's attribution of the target to the flips of RAM."""
        found = get(method)
        why = unfit(method, target)
        if why:
            raise VcsError(why)
        with self._turn:
            state = ExplorerState(self)
            result = found.attribute(state, target.output, state.causes)
        values = result.values if isinstance(result, MethodAttribution) else result
        return checked(values, len(state.causes), method)


class ExplorerState(State):
    """A moment of the explorer as the `State` that methods ask: all 128 cells are candidates, and the
    causes are the 1,024 flips of RAM bits. Outputs that read the picture are re-run with it."""

    def __init__(self, moment: Moment) -> None:
        self.game, self.rom_sha256, self.seed = moment.machine.name, moment.trace.rom_sha256, 0
        self.stream, self.prefix, self.tail = moment.actions, 0, moment.actions
        self.machine = moment.machine  # type: ignore[assignment]
        self.ram = moment.machine.ram
        self.pool = moment.pool
        self.oracle = moment.oracle
        self.baseline = moment.oracle.baseline
        self.gradients = {}
        self.labelled = False
        self.cells = list(range(layout.RAM_SIZE))
        self.concepts = dict.fromkeys(self.cells, "")
        self._cache = {_key(()): self.baseline}
        self._read: dict[tuple[str, Any], float] = {}
        self.causes = [
            Cause(
                f"ram[{f.index}]:bit {f.bit}",
                (Do(RAM + f.index, "set", int(self.ram[f.index]) ^ 1 << f.bit),),
                (Do(RAM + f.index, "set", 0),),
                f.index,
            )
            for f in moment.ram_flips
        ]

    def values(self, output: Output, runs: Sequence[Run]) -> Array:
        """float64[len(runs)]: the output under each run; what was read before is not run again."""
        keys = [(output.name, _key(run)) for run in runs]
        new = {k: run for k, run in zip(keys, runs, strict=True) if k not in self._read}
        todo = list(new.items())
        for at in range(0, len(todo), BLOCK * 4):
            part = todo[at : at + BLOCK * 4]
            for (k, _), outcome in zip(part, self.oracle.run([run for _, run in part], screens=True)):
                self._read[k] = output.read(outcome)
        return np.array([self._read[k] for k in keys])


def unfit(method: str, target: Target) -> str:
    """Why a method has no answer for a target, "" if it has one."""
    if method in _TOO_MANY:
        return (
            f"{get(method).title} asks for too many re-runs when every bit of RAM is a cause: use vcs audit"
        )
    if get(method).rules == "hand-made" and target.kind != "ram":
        return f"{get(method).title} needs the study's hand-made read-out, which only RAM bytes have"
    return ""


def method_list() -> list[dict[str, Any]]:
    """The methods the page offers, its own first: name, title, and the kinds of target they fit."""
    kinds = ("pixel", "region", "ram")
    offered = [{"name": OWN, "title": "Gradient (first order)", "kinds": list(kinds)}]
    for name in names():
        fits = [kind for kind in kinds if not unfit(name, Target(kind))]
        if fits:
            offered.append({"name": name, "title": get(name).title, "kinds": fits})
    return offered


def labels(image: roms.Rom) -> dict[int, str]:
    """RAM cell -> published label of a game, from the data of the audit; empty for a game that has none."""
    entries = load_json("audit_candidates.json").get(image.name, [])
    return {int(e["ram_index"]): e["concept"] or f"used ({e['source']})" for e in entries}

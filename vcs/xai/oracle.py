"""The intervention oracle: the exact effect of do(u := v) on anything, by re-running the machine.

Section 2 and 4.3 of the audit protocol. An `Oracle` holds one moment of a machine (its snapshot) and the
actions that follow. It first proves that a re-run without intervention is bit-identical; then it re-runs
with interventions, in batches, on as many threads as asked for, without the GIL (`vcs/_hard/oracle.pxi`).

Models edits of RIOT RAM, CPU registers and flags, TIA registers and positions, SWACNT and the timer,
cartridge RAM, ROM bytes, and the input lines of player 0. An edit takes no cycle and moves no beam.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcs import checks, layout
from vcs._hard.machine import replay_batch
from vcs.errors import VcsError
from vcs.machine import Machine
from vcs.xai.causes import Act, Do, Intervention
from vcs.xai.outputs import Bytes, Outcome, Output

# up down left right fire of each action 0..17 (environment.md 5.1), bits 0..4
_LINES = (0, 16, 1, 8, 4, 2, 9, 5, 10, 6, 17, 24, 20, 18, 25, 21, 26, 22)
_OPS = {"set": 0, "flip": 1, "delta": 2, "occlude": 0}


def action_lines(action: int) -> tuple[int, ...]:
    """1 for each pressed line of an action 0..17: up, down, left, right, fire."""
    return tuple(_LINES[action] >> k & 1 for k in range(5))


def do(
    location: int | str,
    value: int | None = None,
    *,
    flip: int | None = None,
    delta: int | None = None,
    occlude: bool = False,
    at: int = 0,
    instruction: int | None = None,
) -> Do:
    """An intervention, exactly one of: store ``value``, ``flip`` a bit, add ``delta``, ``occlude`` (store 0).

    location: a location id or ``vcs.layout`` name: ``"RAM[54]"``, ``"COLUBK"``, ``"A"``, ``"ROM[0x123]"``.
    at: frames after the oracle's moment. instruction: instructions of that frame to run first; None = at the
    frame boundary. Raises VcsError for an unknown name or more than one kind of change.
    """
    chosen = [
        (op, v)
        for op, v in (("set", value), ("flip", flip), ("delta", delta), ("occlude", 0 if occlude else None))
        if v is not None
    ]
    if len(chosen) != 1:
        raise VcsError("do() wants exactly one of a value, flip=BIT, delta=N or occlude=True")
    where = layout.parse(location) if isinstance(location, str) else location
    return Do(where, chosen[0][0], chosen[0][1], at, instruction)


@dataclass(frozen=True)
class EffectMap:
    """Exact effects of every flip, see `Oracle.map`.

    locations: the ids. ram: uint8[L, B, F, 128] RAM after each frame. changed: int32[L, B, F] pixels that
    differ from the baseline's frame. base: uint8[F, 128] the baseline's RAM.
    """

    locations: tuple[int, ...]
    bits: tuple[int, ...]
    ram: Bytes
    changed: NDArray[np.int32]
    base: Bytes

    @property
    def effects(self) -> NDArray[np.int16]:
        """int16[L, B, F, 128]: RAM byte minus its baseline value."""
        return np.asarray(self.ram, np.int16) - np.asarray(self.base, np.int16)

    @property
    def reaches(self) -> NDArray[np.bool_]:
        """bool[L, 128]: whether any flip of a location changes a RAM byte in any frame."""
        return np.asarray((self.ram != self.base).any(axis=(1, 2)))


class Oracle:
    """Exact effects from one moment of a machine.

    machine: a `vcs.Machine` at that moment (it is cloned, not moved). actions: the int actions of the frames
    that follow, the tail. threads: for batches; default: the processors this process may use.
    Attributes: ``start``, the snapshot of that moment; ``ram`` uint8[128] there; ``baseline``, the `Outcome`
    without intervention.
    Raises VcsError for an empty tail or an action outside 0..17, RuntimeError if a plain re-run is not
    bit-identical to stepping a clone (it never should be).
    """

    def __init__(self, machine: Machine, actions: Sequence[int], *, threads: int | None = None) -> None:
        checks.instance("the machine", machine, Machine, "a vcs.Machine")
        self.actions = checks.actions(actions).tolist()
        if not self.actions:
            raise VcsError("the oracle needs at least one action: effects are read after the tail")
        self.threads = checks.whole("threads", threads or len(os.sched_getaffinity(0)), 1, 1024)
        self._machines = [machine.clone() for _ in range(self.threads)]
        self.start = self._machines[0].snapshot()
        self.ram = np.asarray(self.start.ram)
        self._screens: Bytes = np.zeros((0, 0, 0), np.uint8)
        self.baseline = self._check()

    @property
    def horizon(self) -> int:
        """Frames of the tail."""
        return len(self.actions)

    @property
    def rom_size(self) -> int:
        """Bytes of the cartridge image."""
        return len(self._machines[0].rom)

    def machine(self) -> Machine:
        """A machine of your own at the oracle's moment."""
        twin = self._machines[0].clone()
        twin.restore(self.start)
        return twin

    def _check(self) -> Outcome:
        """Step a clone through the tail, re-run twice in the batch loop, and compare bit by bit."""
        stepped = self._machines[0]
        frames, reward = [], 0.0
        for action in self.actions:
            reward += stepped.step(action)
            frames.append(stepped.screen)
        self._screens = np.stack(frames)
        ram, screen = stepped.ram, stepped.screen
        for again in self.run([(), ()], screens=True):
            if not (np.array_equal(again.ram, ram) and np.array_equal(again.picture(), screen)):
                raise RuntimeError(
                    "a re-run without intervention differs: the machine is not deterministic here"
                )
        return Outcome(ram, 0, reward, screen)

    def _encode(self, runs: Sequence[Sequence[Intervention]], tail: list[int]) -> tuple[Any, Any, Any]:
        """Edits int32[k, 5], first int32[n + 1], actions int32[n, H] of a batch."""
        edits: list[tuple[int, int, int, int, int]] = []
        first = [0]
        actions = np.tile(np.asarray(tail, np.int32), (len(runs), 1))
        for i, run in enumerate(runs):
            for u in run:
                if not isinstance(u, Intervention):
                    raise VcsError(f"{u!r:.60} is no intervention: pass what xai.do, xai.Do or xai.Act make")
                if u.frame >= len(tail):
                    raise VcsError(f"{u.name} acts after the tail of {len(tail)} frames; use a smaller frame")
                if isinstance(u, Act):
                    actions[i, u.frame] = u.action
                elif layout.INPUT <= u.location < layout.INPUT + 5:
                    actions[i, u.frame] = _with_line(int(actions[i, u.frame]), u)
                else:
                    at = -1 if u.instruction is None else u.instruction
                    value = 0 if u.op == "occlude" else u.value
                    edits.append((u.frame, at, u.location, _OPS[u.op], value))
            first.append(len(edits))
        table = np.asarray(edits, np.int32).reshape(-1, 5)
        return table, np.asarray(first, np.int32), actions

    def _batch(
        self,
        runs: Sequence[Sequence[Intervention]],
        tail: list[int],
        baseline: Bytes | None,
        every_frame: bool,
        screens: bool,
    ) -> tuple[Any, ...]:
        """`replay_batch` split over the threads; the arrays of all runs in order."""
        if not isinstance(runs, Sequence) or not all(isinstance(run, Sequence) for run in runs):
            raise VcsError("the oracle runs a list of lists of interventions: [[xai.do(...)], [...]]")
        parts = min(self.threads, max(1, len(runs) // 8)) or 1
        cuts = np.linspace(0, len(runs), parts + 1).astype(int)

        def part(k: int) -> tuple[Any, ...]:
            edits, first, actions = self._encode(runs[cuts[k] : cuts[k + 1]], tail)
            # a reference costs one run: worth it where several runs can end in it
            reference = np.asarray(tail, np.int32) if cuts[k + 1] - cuts[k] > 4 else None
            result: tuple[Any, ...] = replay_batch(
                self._machines[k],
                self.start,
                edits,
                first,
                actions,
                baseline,
                every_frame,
                screens,
                reference,
            )
            return result

        if parts == 1:
            return part(0)
        with ThreadPoolExecutor(parts) as pool:
            done = list(pool.map(part, range(parts)))
        return tuple(None if done[0][i] is None else np.concatenate([d[i] for d in done]) for i in range(5))

    def run(
        self,
        runs: Sequence[Sequence[Intervention]],
        *,
        actions: Sequence[int] | None = None,
        screens: bool = False,
    ) -> list[Outcome]:
        """One outcome for each of ``runs``; a run is a sequence of interventions.

        actions: another tail than the oracle's. screens: keep the last screen of each run (33 KB each).
        `changed` always compares with the baseline's last screen. Raises VcsError for an intervention after
        the tail's end.
        """
        tail = self.actions if actions is None else [int(a) for a in actions]
        ram, changed, reward, pictures, _ = self._batch(runs, tail, self._screens[-1:], False, screens)
        return [
            Outcome(ram[i, 0], int(changed[i, 0]), float(reward[i]), pictures[i] if screens else None)
            for i in range(len(runs))
        ]

    def do(self, *interventions: Intervention) -> Outcome:
        """The outcome, screen included, of one re-run with all these interventions. Errors as `run`."""
        return self.run([interventions], screens=True)[0]

    def effect(self, output: Output, *interventions: Intervention) -> float:
        """|y(do) - y(baseline)| of an output under all these interventions, in the output's unit (4.3)."""
        return abs(output.read(self.do(*interventions)) - output.read(self.baseline))

    def map(self, locations: Iterable[int] = range(128), bits: Iterable[int] = range(8)) -> EffectMap:
        """The whole effect matrix: flip each of ``bits`` (0..7) of each of ``locations`` (ids of
        `vcs.layout`), and keep RAM and the number of changed pixels after each frame, uint8[L, B, F, 128] and
        int32[L, B, F].
        """
        for what in (locations, bits):
            checks.instance("what is mapped", what, Iterable, "lists of location ids and of bits 0..7")
        places, which = tuple(locations), tuple(bits)
        runs = [(Do(u, "flip", b),) for u in places for b in which]
        ram, changed, *_ = self._batch(runs, self.actions, self._screens, True, False)
        base, *_ = self._batch([()], self.actions, None, True, False)
        shape = (len(places), len(which), self.horizon)
        return EffectMap(places, which, ram.reshape(*shape, 128), changed.reshape(shape), base[0])


def _with_line(action: int, u: Do) -> int:
    """The action whose joystick lines are ``action``'s with one line changed."""
    bit = 1 << (u.location - layout.INPUT)
    lines = _LINES[action]
    pressed = not lines & bit if u.op in ("flip", "delta") else u.op == "set" and u.value != 0
    lines = lines | bit if pressed else lines & ~bit
    if lines not in _LINES:
        raise VcsError(f"{u.name} would press opposite directions at once, which no action 0..17 does")
    return _LINES.index(lines)

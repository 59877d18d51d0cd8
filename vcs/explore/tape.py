"""A game that can be rewound: actions and pokes since the console was switched on, with snapshots.

Everything a `Tape` shows follows from the cartridge, the actions and the pokes, so a page that remembers
these can have its tape built again by another server. Positions are (frames played, instructions into the
next one).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import vcs
from vcs import layout, roms
from vcs.errors import VcsError
from vcs.machine import Machine, Snapshot
from vcs.trace import Trace

LONGEST: Final = 108_000  # frames, half an hour
RECENT: Final = 64  # frames back for which every snapshot is kept
SNAPSHOTS: Final = 512  # some 35 KB each
MOST_POKES: Final = 1000
REGISTERS: Final = ("a", "x", "y", "sp")
LINE: Final = 228  # colour clocks of a scanline


class Poke(NamedTuple):
    """A value stored at a frame boundary: before frame `frame` (0 is the first) is played."""

    frame: int
    location: int
    value: int


def pokable(location: int, machine: Machine) -> bool:
    """Whether `Tape.poke` can store there: RAM, A X Y SP, TIA write registers, cartridge RAM and ROM."""
    return (
        layout.RAM <= location < layout.RAM + layout.RAM_SIZE
        or layout.CPU <= location < layout.CPU + 4
        or layout.TIA_W <= location < layout.TIA_W + layout.TIA_W_SIZE
        or layout.CART <= location < layout.CART + len(machine.cart_ram)
        or layout.ROM <= location < layout.ROM + len(machine.rom)
    )


def store(machine: Machine, location: int, value: int) -> None:
    """Store a byte in a location that `pokable` accepts."""
    if location >= layout.ROM:
        machine.poke_rom(location - layout.ROM, value)
    elif location >= layout.CART:
        machine.poke_cart_ram(location - layout.CART, value)
    elif location >= layout.TIA_W:
        machine.poke_tia(location - layout.TIA_W, value)
    elif location >= layout.CPU:
        machine.set_cpu(**{REGISTERS[location - layout.CPU]: value})
    else:
        machine.poke_ram(location, value)


class Tape:
    """One tab's game.

    image: the cartridge. protocol, seed: as for `vcs.Machine`. Attributes: `machine` at frame `frame`;
    `actions`, one a frame; `pokes`, sorted by frame; `instruction`, how many instructions of the next frame
    have run on a copy of the machine (0: none). Methods raise VcsError, one sentence, for what cannot be
    done.
    """

    def __init__(self, image: roms.Rom, protocol: str = "ale", seed: int = 0) -> None:
        self.machine = vcs.Machine(image, protocol=protocol, seed=seed)
        self.image = image
        self.rom = self.machine.rom
        self.actions: list[int] = []
        self.pokes: list[Poke] = []
        self.frame = 0
        self.instruction = 0
        self.version = 0  # changes when the past does
        self.told = 0  # actions of the tape that the page knows of
        self._scratch = self.machine.clone()
        self._inside = self.machine.clone()
        self._stride = 16
        self._snapshots: dict[int, Snapshot] = {0: self.machine.snapshot()}
        self._order: list[int] = [0]
        self._traces: dict[tuple[int, int, int], Trace] = {}

    def __len__(self) -> int:
        """Frames on the tape, before and after the present one."""
        return len(self.actions)

    # ------------------------------------------------------------------ moving
    def _keep(self, machine: Machine, frame: int) -> None:
        if frame in self._snapshots:
            return
        self._snapshots[frame] = machine.snapshot()
        bisect.insort(self._order, frame)
        old = frame - RECENT
        if old % self._stride and old in self._snapshots:
            self._drop([old])
        while len(self._order) > SNAPSHOTS:
            loose = [f for f in self._order if f % self._stride and not frame - RECENT < f <= frame]
            self._drop(loose)
            if not loose:
                self._stride *= 2

    def _drop(self, frames: Sequence[int]) -> None:
        for f in frames:
            del self._snapshots[f]
        self._order = sorted(self._snapshots)

    def _base(self, frame: int) -> int:
        return self._order[bisect.bisect_right(self._order, frame) - 1]

    def _poke(self, machine: Machine, frame: int) -> None:
        for poke in self.pokes:
            if poke.frame == frame:
                store(machine, poke.location, poke.value)

    def _restore(self, machine: Machine, frame: int) -> None:
        """Put `machine` at a frame that has a snapshot; a snapshot does not hold the ROM, so that is put
        right."""
        machine.restore(self._snapshots[frame])
        image = bytearray(self.rom)
        for poke in self.pokes:
            if poke.location >= layout.ROM and poke.frame <= frame:
                image[poke.location - layout.ROM] = poke.value
        now = machine.rom
        if bytes(image) != now:
            for i in np.flatnonzero(np.frombuffer(now, np.uint8) != np.frombuffer(image, np.uint8)).tolist():
                machine.poke_rom(i, image[i])
        self._poke(machine, frame)

    def _advance(self, machine: Machine, frame: int) -> None:
        """Play frame `frame` on a machine that stands before it, and apply the pokes after it."""
        machine.step(self.actions[frame])
        self._keep(machine, frame + 1)
        self._poke(machine, frame + 1)

    def _put(self, machine: Machine, frame: int) -> int:
        """Bring a machine to a frame; returns where it is, which is earlier if the game ends before."""
        base = self._base(frame)
        self._restore(machine, base)
        return self._play(machine, base, frame)

    def _play(self, machine: Machine, start: int, end: int) -> int:
        for f in range(start, end):
            if machine.game_over:  # after a poke the old actions may end the game earlier
                self._cut(f)
                return f
            self._advance(machine, f)
        return end

    def at(self, frame: int) -> Machine:
        """A machine of your own at a frame of the tape, pokes of that frame included."""
        self._put(self._scratch, frame)
        return self._scratch.clone()

    def seek(self, frame: int) -> None:
        """Go to a frame of the tape, 0 to len(tape); the rest of the tape stays."""
        if not 0 <= frame <= len(self.actions):
            raise VcsError(f"there is no frame {frame} on this tape: it has frames 0 to {len(self.actions)}")
        self.instruction = 0
        if self.frame <= frame < self.frame + 32:
            self.frame = self._play(self.machine, self.frame, frame)
        else:
            self.frame = self._put(self.machine, frame)

    def _hold(self, action: int | None) -> None:
        """Make sure that the tape has an action for the next frame; a given one replaces its future."""
        if action is not None and not 0 <= action < 18:
            raise VcsError(f"action {action} does not exist; actions are 0 (NOOP) to 17 (DOWNLEFTFIRE)")
        if self.machine.game_over:
            raise VcsError("the game is over: rewind it, or start again with Reset")
        at_end = self.frame == len(self.actions)
        if at_end and len(self.actions) >= LONGEST:
            raise VcsError(f"the tape is full ({LONGEST} frames): start again with Reset")
        if at_end or (action is not None and self.actions[self.frame] != action):
            if not at_end:
                self._cut(self.frame)
            self.actions.append(action or 0)

    def _cut(self, frame: int) -> None:
        """Forget the tape after a frame."""
        del self.actions[frame:]
        self.told = min(self.told, frame)
        self.pokes = [p for p in self.pokes if p.frame <= frame]
        self._changed(frame)

    def _changed(self, frame: int) -> None:
        """What happens after a frame is no longer what it was."""
        self._drop([f for f in self._order if f > frame])
        self._traces.clear()
        self.version += 1

    def step(self, action: int | None = None) -> None:
        """Play one frame: with the tape's action, or, at its end or if given, with `action` (None: NOOP)."""
        if self.instruction:
            self.seek(self.frame + 1)  # the frame under way has its action
            return
        self._hold(action)
        self.seek(self.frame + 1)

    def enter(self, instruction: int, action: int | None = None) -> None:
        """Stand after some instructions of the next frame (0: before it; all of them: after it)."""
        self._hold(action if not self.instruction else None)
        count = self.instructions
        if not 0 <= instruction <= count:
            raise VcsError(f"frame {self.frame} has {count} instructions: choose one of 0 to {count}")
        if instruction == count:
            self.seek(self.frame + 1)
            return
        if not 0 < self.instruction <= instruction:
            self._inside.copy_from(self.machine)
            self._inside.set_inputs(self.actions[self.frame])
            self.instruction = 0
        for _ in range(instruction - self.instruction):
            self._inside.step_instruction()
        self.instruction = instruction

    @property
    def shown(self) -> Machine:
        """The machine as it stands now, inside a frame or between two."""
        return self._inside if self.instruction else self.machine

    @property
    def instructions(self) -> int:
        """Instructions of the frame under way (the next one)."""
        return len(self._trace(self.frame, self.frame + 1))

    def clock(self) -> tuple[int, int]:
        """Scanline and colour clock of the beam inside the frame under way; (0, 0) at a boundary."""
        if not self.instruction:
            return 0, 0
        trace = self._trace(self.frame, self.frame + 1)
        return position(trace, self.instruction)

    def enter_line(self, lines: int, action: int | None = None) -> None:
        """Move the beam by whole scanlines inside the frame, at most to the frame's ends."""
        self._hold(action if not self.instruction else None)
        trace = self._trace(self.frame, self.frame + 1)
        starts = (trace.instr["cycles"] * 3 - trace.frames["start_clock"][0]) // LINE
        here = int(starts[min(self.instruction, len(starts) - 1)]) if self.instruction else int(starts[0])
        there = int(np.searchsorted(starts, here + lines))
        if lines < 0 and there >= self.instruction:
            there = 0
        self.enter(there)

    # ------------------------------------------------------------------ changing
    def poke(self, location: int, value: int) -> None:
        """Store a byte now, at a frame boundary; the actions that follow on the tape stay."""
        if self.instruction:
            raise VcsError("a poke acts between two frames: step to the end of this frame first")
        if not pokable(location, self.machine):
            raise VcsError(
                f"{layout.name(location)} cannot be poked: choose RAM, A, X, Y, SP, a TIA register, "
                "cartridge RAM or ROM"
            )
        if not 0 <= value < 256:
            raise VcsError(f"{value} is no byte: poke a value from 0 to 255")
        if len(self.pokes) >= MOST_POKES:
            raise VcsError(f"a tape holds at most {MOST_POKES} pokes: remove some")
        self.pokes = sorted([*self.pokes, Poke(self.frame, location, value)], key=lambda p: p.frame)
        self._changed(self.frame)
        store(self.machine, location, value)

    def unpoke(self, index: int) -> None:
        """Take a poke back; the tape is played again from there when it is next needed."""
        if not 0 <= index < len(self.pokes):
            raise VcsError(f"there is no poke {index}: this tape has {len(self.pokes)}")
        gone = self.pokes.pop(index)
        self._changed(gone.frame)
        self.instruction = 0
        self.frame = self._put(self.machine, self.frame)

    def reset(self) -> None:
        """Start the tape anew."""
        self.actions, self.pokes, self.told = [], [], 0
        self._changed(0)
        self._put(self.machine, 0)
        self.frame = self.instruction = 0

    def load(
        self,
        actions: Sequence[int],
        pokes: Sequence[Poke],
        at: int,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Become the tape that a page remembers. Nothing changes if VcsError is raised."""
        if len(actions) > LONGEST or len(pokes) > MOST_POKES:
            raise VcsError(f"a tape holds at most {LONGEST} frames and {MOST_POKES} pokes")
        if any(not 0 <= a < 18 for a in actions):
            raise VcsError("the tape holds an action that does not exist; actions are 0 to 17")
        for p in pokes:
            if not (
                0 <= p.frame <= len(actions) and 0 <= p.value < 256 and pokable(p.location, self.machine)
            ):
                raise VcsError(f"the tape holds a poke that cannot be: {tuple(p)}")
        if not 0 <= at <= len(actions):
            raise VcsError(f"the tape has no frame {at}")
        self.reset()
        self.actions, self.pokes = list(actions), sorted(pokes, key=lambda p: p.frame)
        self._put(self.machine, 0)  # pokes before the first frame
        while self.frame < at and not self.machine.game_over:
            self.seek(min(at, self.frame + 31))
            if progress:
                progress(self.frame / at)

    # ------------------------------------------------------------------ looking
    @property
    def end(self) -> int:
        """The frame count that explanations look back from: a frame under way counts."""
        return self.frame + (self.instruction > 0)

    def start(self, horizon: int) -> int:
        """Where an explanation over `horizon` frames starts: later than asked if a poke or the boot is
        between."""
        if self.end == 0:
            raise VcsError("nothing has been drawn yet: step one frame first")
        pokes = [p.frame for p in self.pokes if p.frame < self.end]
        return max([0, self.end - horizon, *pokes])

    def trace(self, horizon: int) -> Trace:
        """The trace of the frames up to `end`, at most `horizon` of them."""
        return self._trace(self.start(horizon), self.end)

    def _trace(self, start: int, end: int) -> Trace:
        key = (start, end, self.version)
        if key not in self._traces:
            machine = self.at(start)
            if len(self._traces) > 6:
                self._traces.pop(next(iter(self._traces)))
            self._traces[key] = machine.trace(self.actions[start:end])
        return self._traces[key]

    def pictures(self, count: int) -> list[tuple[int, npt.NDArray[np.uint8]]]:
        """About `count` frames evenly over the tape with their screens, from the snapshots."""
        wanted = np.linspace(0, len(self.actions), max(count, 2)).astype(int).tolist()
        found = []
        for f in sorted({self._base(w) for w in wanted}):
            self._scratch.restore(self._snapshots[f])
            found.append((f, self._scratch.screen))
        return found

    def recent_ram(self, frame: int, count: int) -> npt.NDArray[np.uint8]:
        """uint8[count, 128]: RAM after the frames up to `frame`, the first one repeated where the tape is
        shorter."""
        first = max(0, frame - count + 1)
        machine = self.at(first)
        rams = [machine.ram]
        for f in range(first, frame):
            self._advance(machine, f)
            rams.append(machine.ram)
        return np.stack([rams[0]] * (count - len(rams)) + rams)

    def news(self) -> dict[str, Any]:
        """What a page that remembers the tape has not been told: the actions from some frame on, and the
        pokes."""
        known, self.told = self.told, len(self.actions)
        return {"from": known, "actions": self.actions[known:], "pokes": [list(p) for p in self.pokes]}


def position(trace: Trace, k: int) -> tuple[int, int]:
    """Scanline and colour clock at which instruction `k` of a trace starts."""
    row = trace.instr[k]
    clock = 3 * int(row["cycles"]) - int(trace.frames["start_clock"][int(row["frame"])])
    return divmod(clock, LINE)

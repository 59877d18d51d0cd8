"""What is explained: outputs of a re-run, and the differentiable read-outs the study attaches to them.

Sections 4 and 5 of the audit protocol. An `Output` reads one number from the `Outcome` of a re-run; its
name travels into records. The two audited outputs (a content byte, the number of changed pixels) also
carry a hand-made differentiable handle: a one-hot read, and a triangular sampler whose column follows
one RAM byte. The handle's rules at the kinks are those of 5.4, which decide the published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vcs import checks
from vcs.errors import VcsError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

POSITION_WORDS = ("_x", "_y", ".xy", "._xy", ".x", ".y", "position", "column", "direction")


@dataclass(frozen=True)
class Outcome:
    """The snapshot of a re-run: what an output can be read from.

    ram: uint8[128] after the last frame. changed: pixels that differ from the baseline's screen.
    reward: sum of the rewards of the re-run. screen: uint8[H, 160] palette indices, or None if the run
    was asked not to keep it.
    """

    ram: Bytes
    changed: int
    reward: float = 0.0
    screen: Bytes | None = None

    def picture(self) -> Bytes:
        """The screen; VcsError when the run did not keep it."""
        if self.screen is None:
            raise VcsError("this outcome was run without keeping its screen; run it with screens=True")
        return self.screen


class Readout:
    """A differentiable handle: a float32 function of the 128 RAM bytes with its stated derivative."""

    cell: int

    def value(self, ram: Floats) -> float:
        """The read-out at ``ram`` (float32[128])."""
        raise NotImplementedError

    def gradient(self, ram: Floats) -> Floats:
        """Its derivative by the 128 bytes, float32[128]."""
        raise NotImplementedError


@dataclass(frozen=True)
class ContentRead(Readout):
    """One-hot read of one RAM cell: value ram[cell], gradient 1 there and 0 elsewhere (section 6)."""

    cell: int

    def value(self, ram: Floats) -> float:
        return float(ram[self.cell])

    def gradient(self, ram: Floats) -> Floats:
        out = np.zeros(128, np.float32)
        out[self.cell] = 1.0
        return out


@dataclass(frozen=True)
class Sampler(Readout):
    """The position read-out of 5.3: occupancy of one screen cell by a sprite that follows RAM[cell].

    cell: the byte, or -1 (static: everything 0). row, col: the screen cell. footprint: the sprite's
    pixels as int32[m, 2] of (row, column). base: the byte's value at the checkpoint. All 0-based.
    """

    cell: int
    row: int
    col: int
    footprint: NDArray[np.int32]
    base: int
    changed: int = 0

    @property
    def left(self) -> int:
        """Smallest column of the footprint."""
        return int(self.footprint[:, 1].min()) if len(self.footprint) else 0

    def _terms(self, ram: Floats) -> tuple[Floats, Floats]:
        """t of every footprint pixel of the cell's row, and the unclamped sum as a one-element array."""
        # Pixels of other rows have a row kernel of exactly 0 (integer rows), so they never count.
        columns = self.footprint[self.footprint[:, 0] == self.row, 1].astype(np.float32)
        px = np.float32(self.left) + (np.float32(ram[self.cell]) - np.float32(self.base))
        t = np.float32(self.col) - (px + (columns - np.float32(self.left)))
        kernels = np.maximum(np.float32(0), np.float32(1) - np.abs(t))
        return t, kernels.sum(dtype=np.float32)

    def value(self, ram: Floats) -> float:
        if self.cell < 0:
            return 0.0
        return float(np.clip(self._terms(ram)[1], 0.0, 1.0))

    def gradient(self, ram: Floats) -> Floats:
        """Derivative by 5.4: sign(t) for 0 < abs(t) <= 1, 0 at t = 0; the clamp passes at both ends."""
        out = np.zeros(128, np.float32)
        if self.cell >= 0:
            t, total = self._terms(ram)
            if 0.0 <= float(total) <= 1.0:
                out[self.cell] = np.sign(t[np.abs(t) <= 1.0]).sum(dtype=np.float32)
        return out


@dataclass(frozen=True)
class Output:
    """A number read from an `Outcome`. name: its text in records. kind: ``content`` or ``position`` for the
    audited ones. Make one with `of`."""

    name: str
    kind: str

    def read(self, outcome: Outcome) -> float:
        """The output's value in an outcome, a float in the output's own unit."""
        raise NotImplementedError

    @property
    def readout(self) -> Readout:
        """The study's hand-made differentiable handle; VcsError if this output has none."""
        raise VcsError(
            f"the output {self.name} has no hand-made differentiable read-out: score a method that needs one "
            "on content or position"
        )


@dataclass(frozen=True)
class Content(Output):
    """The value 0..255 of one RAM cell, 0..127, after the horizon (4.1)."""

    cell: int = 0

    @classmethod
    def of(cls, cell: int) -> Content:
        """The content output of ``cell`` under its protocol name."""
        checks.whole("the cell", cell, 0, 127)
        return cls(f"content(ram_self@{cell})", "content", cell)

    def read(self, outcome: Outcome) -> float:
        return float(outcome.ram[self.cell])

    @property
    def readout(self) -> Readout:
        return ContentRead(self.cell)


@dataclass(frozen=True)
class Position(Output):
    """Number of pixels that differ from the baseline's screen (4.2), with its sampler (5)."""

    sampler: Sampler = field(default=Sampler(-1, 0, 0, np.zeros((0, 2), np.int32), 0), compare=False)

    @classmethod
    def of(cls, sampler: Sampler) -> Position:
        """The position output of a sampler under its protocol name, which counts rows and columns from 1."""
        name = f"screen_region(n_changed_px)@r{sampler.row + 1}c{sampler.col + 1}"
        return cls(name, "position", sampler)

    def read(self, outcome: Outcome) -> float:
        return float(outcome.changed)

    @property
    def readout(self) -> Readout:
        return self.sampler


@dataclass(frozen=True)
class Pixel(Output):
    """The palette index 0..255 of one pixel of the last screen: row and col, both from 0."""

    row: int = 0
    col: int = 0

    @classmethod
    def of(cls, row: int, col: int) -> Pixel:
        """The output for the pixel at a row and col."""
        return cls(f"pixel(r{row},c{col})", "pixel", row, col)

    def read(self, outcome: Outcome) -> float:
        return float(outcome.picture()[self.row, self.col])


@dataclass(frozen=True)
class Region(Output):
    """The mean palette index over rows [top, bottom) and columns [left, right) of the last screen."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    @classmethod
    def of(cls, top: int, bottom: int, left: int, right: int) -> Region:
        """The output for the rectangle from top to bottom and left to right, from 0, ends excluded."""
        return cls(f"region(r{top}:{bottom},c{left}:{right})", "region", top, bottom, left, right)

    def read(self, outcome: Outcome) -> float:
        return float(outcome.picture()[self.top : self.bottom, self.left : self.right].mean())


@dataclass(frozen=True)
class Reward(Output):
    """The sum of the rewards over the horizon."""

    @classmethod
    def of(cls) -> Reward:
        """The reward output."""
        return cls("reward", "reward")

    def read(self, outcome: Outcome) -> float:
        return outcome.reward


def column_major_first(mask: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Row and column of the first set pixel in column-major order, None if none is set (5.2)."""
    hits = np.flatnonzero(mask.T.ravel())
    if not len(hits):
        return None
    col, row = divmod(int(hits[0]), mask.shape[0])
    return row, col


def is_position_concept(concept: str) -> bool:
    """Whether a label speaks of a position (5.2, step 1)."""
    text = concept.strip().lower()
    return any(word in text for word in POSITION_WORDS)


def _window(mask: NDArray[np.bool_], cell: tuple[int, int]) -> NDArray[np.int32]:
    """The set pixels inside rows +-8, columns +-16 of ``cell``, int32[m, 2]."""
    row, col = cell
    top, left = max(0, row - 8), max(0, col - 16)
    found = np.argwhere(mask[top : row + 9, left : col + 17])
    return np.asarray(found + (top, left), np.int32)


def choose_sampler(
    cells: list[int], concepts: dict[int, str], ram: Bytes, baseline: Bytes, probes: dict[int, Bytes]
) -> Sampler:
    """Byte, cell and footprint of the position read-out (5.2, 5.3).

    baseline: screen after the tail. probes: screen of the probe P(i) for every candidate cell and for
    the fallback cells 49 and 54.
    """
    best: Sampler | None = None
    for i in cells:
        if not is_position_concept(concepts.get(i, "")):
            continue
        changed = probes[i] != baseline
        cell = column_major_first(changed)
        if cell is None:
            continue
        local, full = _window(changed, cell), int(changed.sum())
        if full > 8 * len(local):
            continue
        if best is None or len(local) > len(best.footprint):
            best = Sampler(i, *cell, local, int(ram[i]), full)
    if best is not None:
        return best
    own = {i: probes[i] != baseline for i in (49, 54)}
    cell = column_major_first(own[49] | own[54]) or (104, 79)
    byte = 54 if own[54].sum() > own[49].sum() else 49
    footprint = _window(own[byte], cell)
    if not len(footprint):
        return Sampler(-1, *cell, footprint, 0)
    return Sampler(byte, *cell, footprint, int(ram[byte]), int(own[byte].sum()))

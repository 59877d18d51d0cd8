"""Gradients over long horizons: per-block snapshots of the hard machine, traced again backwards.

    m = vcs.Machine("breakout")
    g = vcs.horizon.grad_long(m, actions, ("pixel", 180, 80))     # 3,600 actions: one minute
    g.inputs                                                      # d pixel / d joystick, float64[3600, 32]

A trace holds some 300 KB a frame, so a long one does not fit in memory. Here the machine plays the actions
once, untraced, and leaves a snapshot every so often; then block after block is traced from its snapshot, the
last one first, the adjoint is carried over it and the trace is dropped. Memory grows with the square root of
the horizon (two levels of snapshots), and the result is `vcs.grad`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from vcs import checks, layout
from vcs._adjoint import LANES, Backward, seeds
from vcs._hard.machine import record_rows
from vcs.errors import VcsError
from vcs.gradient import RULES, Attribution, Weighting, weighting
from vcs.machine import Machine, Snapshot
from vcs.trace import Trace, start_values

Array = npt.NDArray[np.float64]

BLOCK: Final = 8  # agent steps traced at once: some 2 MB of rows, which stay in the cache
_SNAPSHOTS: Final = 64  # snapshots of the first level


class _Blocks:
    """Blocks of a run, from the last to the first, each with the snapshot it starts from."""

    def __init__(self, machine: Machine, actions: npt.NDArray[np.int32], block: int) -> None:
        self.actions = actions
        self.block = block
        blocks = -(-len(actions) // block)
        self.stride = block * max(1, -(-blocks // _SNAPSHOTS))
        self.starts: list[Snapshot] = []
        for at in range(0, len(actions), self.stride):
            self.starts.append(machine.snapshot())
            machine.run(actions[at : at + self.stride])

    def backwards(self, scratch: Machine) -> Iterator[npt.NDArray[np.int32]]:
        """Yields the actions of each block, last first, with `scratch` at the block's start."""
        for k in range(len(self.starts) - 1, -1, -1):
            part = self.actions[k * self.stride : (k + 1) * self.stride]
            inner = [self.starts.pop()]
            scratch.restore(inner[0])
            for at in range(self.block, len(part), self.block):
                scratch.run(part[at - self.block : at])
                inner.append(scratch.snapshot())
            for j in range(len(inner) - 1, -1, -1):
                scratch.restore(inner.pop())
                yield part[j * self.block : (j + 1) * self.block]


class _Group:
    """Up to eight outputs swept together."""

    def __init__(
        self, targets: Sequence[Weighting], shape: tuple[int, int, int], machine: Machine, **settings: Any
    ) -> None:
        self.targets = targets
        self.height = shape[1]
        self.frame_size = shape[1] * shape[2]
        self.pixels, self.weights = seeds(targets, shape)
        cart = machine.cart_ram
        self.back = Backward(machine.rom, len(cart), len(targets), **settings)
        self.lines = np.zeros((shape[0], layout.INPUT_SIZE, len(targets)))
        ends = start_values(machine)
        self.values = np.zeros(len(targets))
        for k, target in enumerate(targets):
            for location, weight in zip(target.cells.tolist(), target.cell_weights.tolist()):
                self.back.seed(k, location, weight)
                value = cart[location - layout.CART] if location >= layout.CART else ends[location]
                self.values[k] += weight * float(value)

    def _between(self, start: int, end: int) -> slice:
        low, high = np.searchsorted(self.pixels, [start * self.frame_size, end * self.frame_size])
        return slice(int(low), int(high))

    def shows(self, start: int, end: int) -> bool:
        """Whether an output has pixels in frames start to end - 1."""
        between = self._between(max(start, 0), end)
        return bool(between.start < between.stop)

    def sweep(self, rows: dict[str, Any], start: int, end: int) -> None:
        """Carry the adjoint over the rows of frames start to end - 1."""
        between = self._between(start, end)
        pixels = self.pixels[between] - start * self.frame_size
        weights = self.weights[between]
        if len(pixels):
            self.values += rows["screens"].reshape(-1)[pixels] @ weights
        self.lines[start:end] = self.back.sweep_rows(rows, self.height, pixels, weights)

    def results(self) -> Iterator[tuple[dict[str, Array], float]]:
        for k, value in enumerate(self.values.tolist()):
            yield {**self.back.parts(k), "inputs": self.lines[:, :, k].copy()}, value


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar over `total` steps, or nothing."""
    if not wanted:
        yield lambda steps: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("backwards", total=total)
        yield lambda steps: bar.advance(task, steps)


def grads_long(
    machine: Machine,
    actions: Sequence[int] | npt.NDArray[np.integer[Any]],
    outputs: Sequence[Any],
    *,
    wrt: str | Sequence[str] | None = None,
    rules: str = RULES,
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
    block: int = BLOCK,
    progress: bool = False,
) -> list[Attribution]:
    """`vcs.gradient.grads` over a run of any length, without its trace.

    Args:
        machine: where the run starts; it plays the actions and is left at their end, as after `trace`.
        actions: one of 0..17 per agent step.
        outputs: as for `vcs.grad`; frames count from the start of the run, negative ones from its end.
        wrt, rules, alpha, T, mode: as for `vcs.grad`.
        block: agent steps traced at once. progress: show a bar on the terminal.

    Returns one `Attribution` per output: derivatives by the state at the start of the run, and `inputs`
    [F, 32] by every frame's input lines. Raises VcsError for an output, action or name that does not exist.
    """
    from vcs.gradient import _wanted
    from vcs.soft.rules import NAMES

    checks.instance("the machine", machine, Machine, "a vcs.Machine")
    chosen = checks.actions(actions)
    if not len(chosen):
        raise VcsError("the actions must be a list of numbers from 0 to 17, at least one")
    for what, given, known in (("rule set", rules, NAMES), ("mode", mode, ("ste", "full"))):
        if given not in known:
            raise VcsError(f"there is no {what} {given!r}: use one of {', '.join(known)}")
    if block < 1:
        raise VcsError(f"block is {block}: trace at least one step at a time")
    parts = _wanted(wrt)
    first_frame, height = machine.frame, machine.rows
    skip: int = machine._settings["frame_skip"]
    scratch = machine.clone()
    blocks = _Blocks(machine, chosen, block)
    frames = machine.frame - first_frame
    shape = (frames, height, 160)
    # what `weighting` asks of a trace: how much there is to see
    extent = cast(Trace, SimpleNamespace(screens=SimpleNamespace(shape=shape), cart0=machine.cart_ram))
    targets = [weighting(output, extent) for output in outputs]
    groups = [
        _Group(targets[at : at + LANES[-1]], shape, machine, rules=rules, alpha=alpha, T=T, mode=mode)
        for at in range(0, len(targets), LANES[-1])
    ]
    end = frames
    with _bar(len(chosen), progress) as step:
        for part in blocks.backwards(scratch):
            x0 = start_values(scratch)
            # a step has at most frame_skip frames
            pictures = any(group.shows(end - len(part) * skip, end) for group in groups)
            rows = scratch.record(part) if pictures else record_rows(scratch, part)
            start = end - len(rows["frames"])
            for group in groups:
                group.sweep({**rows, "x0": x0}, start, end)
            end = start
            del rows  # their buffers serve the next block
            step(len(part))
    if end:
        raise AssertionError(f"{end} frames were not traced again")
    return [
        Attribution(
            {name: arrays[name] for name in parts},
            target.text,
            value,
            rules,
            float(alpha),
            float(T),
            mode,
            "pc",
            "adjoint",
            frames,
        )
        for group in groups
        for target, (arrays, value) in zip(group.targets, group.results())
    ]


def grad_long(
    machine: Machine,
    actions: Sequence[int] | npt.NDArray[np.integer[Any]],
    output: Any,
    **settings: Any,
) -> Attribution:
    """`grads_long` of one output."""
    return grads_long(machine, actions, [output], **settings)[0]

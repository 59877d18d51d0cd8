"""The compiled adjoint: the gradient of a trace by one reverse sweep, many outputs at once.

`Backward` carries the adjoint of a whole machine backwards over traces, from the last to the first;
`sweep` is what `vcs.grad` calls. The rules are those of docs/gradients.md, the numbers `vcs.soft`'s to 1e-9.
The sweep itself (C++, `adjoint.hpp`) releases the GIL; objects are independent of each other, so any
number of threads may sweep, each its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from vcs import checks, layout
from vcs._adjoint._adjoint import LOCATIONS, ROWS, Adjoint, Opcodes
from vcs.data import load_csv
from vcs.errors import VcsError
from vcs.gradient import RULES
from vcs.soft import ops, relax
from vcs.soft.rules import NAMES

if TYPE_CHECKING:
    from vcs.gradient import Weighting
    from vcs.join import Joins
    from vcs.trace import Trace

__all__ = ["LOCATIONS", "ROWS", "Adjoint", "Backward", "Opcodes", "sweep"]

Array = npt.NDArray[np.float64]

LANES: Final = (1, 4, 8)
_JOINS: Final = ("branch", "meet", "start", "place", "other", "here")
_NO_JOINS: Final = [
    np.zeros(int(name == "start"), np.int64 if k < 3 else np.int32) for k, name in enumerate(_JOINS)
]


def opcodes() -> list[tuple[str, str, int]]:
    """Mnemonic, mode and cycles of the 256 opcodes (`vcs/data/opcodes.csv`)."""
    rows = sorted(load_csv("opcodes.csv"), key=lambda row: int(row["opcode"], 16))
    return [(row["mnemonic"], row["mode"], int(row["cycles"])) for row in rows]


@cache
def decoded() -> Opcodes:
    """The opcodes as the compiled side keeps them."""
    return Opcodes(opcodes())


class Backward:
    """The adjoint of a machine's state for up to eight outputs, carried backwards over traces.

    rom: uint8[N] or bytes, the cartridge's image. cart_size: bytes of its RAM. outputs: how many, 1 to 8.
    rules: "bit" or "value". alpha: sharpness of the branch gate. T: temperature of the relaxed read in mode
    "full". slope: of a branch's select with joins (None: the gate's).

    Seed it with `seed`, then `sweep` traces from the last to the first; read it with `parts`.
    """

    def __init__(
        self,
        rom: npt.NDArray[np.uint8] | bytes,
        cart_size: int,
        outputs: int,
        *,
        rules: str = RULES,
        alpha: float = 10.0,
        T: float = 0.1,
        mode: str = "ste",
        slope: float | None = None,
    ) -> None:
        if rules not in NAMES:
            raise VcsError(f"there is no rule set {rules!r}: use {' or '.join(NAMES)}")
        if not 1 <= outputs <= LANES[-1]:
            raise VcsError(f"a sweep takes 1 to {LANES[-1]} outputs at once, not {outputs}: make several")
        self.outputs = outputs
        self.bits = rules == "bit"
        self.lanes = next(n for n in LANES if n >= outputs)
        self.alpha = checks.positive("alpha", alpha)
        self.T = checks.positive("T", T)
        self.image = np.frombuffer(rom, np.uint8)
        gate = 1.0 / (1.0 + math.exp(-self.alpha))
        self.join_slope = 2.0 * self.alpha * gate * (1.0 - gate) if slope is None else float(slope)
        self.read_weights: list[float] = []
        if mode == "full":
            self.read_weights = ops.read_weights(T, relax.WINDOW)[::2].tolist()
        self.engine = Adjoint(decoded(), self.image, cart_size, self.lanes, self.bits)

    def seed(self, output: int, location: int, weight: float) -> None:
        """Add `weight` times the number at `location` (a state or cartridge RAM cell) to an output."""
        wide = self.bits and _is_byte(location)
        if location >= layout.CART:
            cell = self.engine.cart[location - layout.CART, :, output]
        else:
            cell = self.engine.state[location, :, output]
        if wide:
            cell += weight * ops.WEIGHTS
        else:
            cell[0] += weight

    def sweep(
        self, trace: Trace, pixels: npt.NDArray[np.int64], weights: Array, joins: Joins | None = None
    ) -> Array:
        """Carry the adjoint from the end of a trace to its start.

        pixels: int64[P], flat indices into `trace.screens`, ascending and distinct. weights: float64[P,
        outputs], their cotangents. joins: other outcomes of its branches (`vcs.join`).
        Returns float64[F, 32, outputs], the adjoint of the input lines.
        """
        return self.sweep_rows(
            {name: getattr(trace, name) for name in ("instr", "tia", "segments", "frames", "x0")},
            trace.screens.shape[1],
            pixels,
            weights,
            joins,
        )

    def sweep_rows(
        self,
        rows: dict[str, Any],
        height: int,
        pixels: npt.NDArray[np.int64],
        weights: Array,
        joins: Joins | None = None,
    ) -> Array:
        """`sweep` over the rows of a trace without pictures: instr, tia, segments, frames and x0.

        Raises VcsError if in mode "full" a relaxed read or branch would leave their path.
        """
        if self.read_weights:
            relax.refuse_outside(rows["instr"], rows["x0"], self.image, self.alpha, self.T)
        given = np.zeros((len(pixels), self.lanes))
        given[:, : self.outputs] = weights
        slope = self.join_slope if joins is not None else 0.0
        paths: list[Any] = _NO_JOINS if joins is None else [getattr(joins, name) for name in _JOINS]
        paths = [*paths, slope]
        try:
            lines: Array = self.engine.sweep(
                rows["instr"],
                rows["tia"],
                rows["segments"],
                rows["frames"],
                rows["x0"],
                height,
                pixels,
                given,
                self.alpha,
                self.read_weights,
                *paths,
            )
        except (ValueError, RuntimeError) as why:  # the engine's own sentences
            raise VcsError(str(why)) from None
        except TypeError:  # pybind11's list of signatures
            raise VcsError(
                "an array given to the reverse sweep has the wrong type: pass a vcs.Trace's, and the joins "
                "that vcs.join made from it"
            ) from None
        return lines[:, :, : self.outputs]

    def parts(self, output: int) -> dict[str, Array]:
        """Copies of an output's derivatives by everything but the input lines, named and shaped as
        `vcs.gradient.Attribution` says."""
        state = self.engine.state[:, :, output]
        arrays = {
            name: state[first : first + n] if wide and self.bits else state[first : first + n, 0]
            for name, (first, n, wide) in layout.PARTS.items()
        }
        for name in ("cart", "rom"):
            whole = getattr(self.engine, name)[:, :, output]
            arrays[name] = whole if self.bits else whole[:, 0]
        return {name: array.copy() for name, array in arrays.items()}


def _is_byte(location: int) -> bool:
    if location >= layout.CART:
        return True
    return any(wide and first <= location < first + n for first, n, wide in layout.PARTS.values())


def seeds(targets: Sequence[Weighting], shape: tuple[int, int, int]) -> tuple[npt.NDArray[np.int64], Array]:
    """Pixels of several outputs as a sweep takes them: int64[P] flat indices, float64[P, outputs]."""
    flat = [np.ravel_multi_index(tuple(t.pixels.T), shape).astype(np.int64) for t in targets]
    pixels = np.unique(np.concatenate(flat)) if flat else np.zeros(0, np.int64)
    weights = np.zeros((len(pixels), len(targets)))
    for k, target in enumerate(targets):
        np.add.at(weights[:, k], np.searchsorted(pixels, flat[k]), target.pixel_weights)
    return pixels, weights


def sweep(
    trace: Trace,
    targets: Sequence[Weighting],
    *,
    rules: str = RULES,
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
    control: str = "pc",
    joins: Joins | None = None,
    slope: float | None = None,
) -> list[tuple[dict[str, Array], float]]:
    """The derivatives of several outputs of a trace and their values, eight outputs a sweep.

    See `vcs.gradient.grads` for the arguments and `Attribution` for the arrays. Raises VcsError.
    """
    if control != ("pc" if joins is None else "join"):
        raise VcsError(f"vcs.grad has no control rule {control!r}: use pc, or vcs.join.grad_join for join")
    results: list[tuple[dict[str, Array], float]] = []
    for at in range(0, len(targets), LANES[-1]):
        group = targets[at : at + LANES[-1]]
        back = Backward(
            trace.rom,
            len(trace.cart0),
            len(group),
            rules=rules,
            alpha=alpha,
            T=T,
            mode=mode,
            slope=slope,
        )
        for k, target in enumerate(group):
            for location, weight in zip(target.cells.tolist(), target.cell_weights.tolist()):
                back.seed(k, location, weight)
        lines = back.sweep(trace, *seeds(group, trace.screens.shape), joins)
        for k, target in enumerate(group):
            arrays = back.parts(k)
            arrays["inputs"] = lines[:, :, k].copy()
            results.append((arrays, _value(trace, target)))
    return results


def _value(trace: Trace, target: Weighting) -> float:
    """What an output was."""
    shown = trace.screens[tuple(target.pixels.T)] @ target.pixel_weights
    cart = target.cells >= layout.CART
    cells = np.empty(len(target.cells))
    cells[~cart] = trace.x1[target.cells[~cart]]
    cells[cart] = trace.cart1[target.cells[cart] - layout.CART]
    return float(shown + cells @ target.cell_weights)

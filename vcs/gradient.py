"""`vcs.grad`: the derivative of what a trace showed or left behind, with respect to everything it depended
on.

    t = machine.trace([0] * 3)
    g = vcs.grad(t, ("pixel", 100, 80))      # a pixel of the last frame
    g.ram                                    # d pixel / d RAM when the trace began, float64[128, 8]
    g.top(5)                                 # [("ROM[0x1F3]:3", 8.0), ...]

The two engines give the same numbers to 1e-9: "adjoint" is compiled, "soft" readable. The rules are those of
docs/gradients.md. An attribution carries the settings it was made with.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vcs import files, layout
from vcs.errors import VcsError
from vcs.trace import NOBODY, Trace

Array = npt.NDArray[np.float64]

ENGINES: Final = ("adjoint", "soft")
RULES: Final = "bit"  # the default rule set, by measurement (docs/gradients.md, "Faithfulness")
# part -> the location of its first element, for parts whose elements are locations
_FIRST: Final = {
    "ram": layout.RAM,
    "registers": layout.CPU,
    "flags": layout.CPU + 4,
    "pc": layout.CPU + 10,
    "tia": layout.TIA_W,
    "delayed": layout.TIA_X,
    "positions": layout.POSITION,
    "latches": layout.TIA_R,
    "swacnt": layout.RIOT + 1,
    "timer": layout.TIMER,
    "cart": layout.CART,
    "rom": layout.ROM,
}
PARTS: Final = (*_FIRST, "inputs")
# `Trace.winner` -> the colour register that shows (docs/design.md)
_COLOUR_OF: Final = (
    "COLUBK", "COLUPF", "COLUPF", "COLUP0", "COLUP0", "COLUP1", "COLUP1", "COLUP0", "COLUP1",
)
# where an output may be read at the end of a trace
_READABLE: Final = ("ram", "registers", "flags", "pc", "tia", "positions", "cart")


class Pixel(NamedTuple):
    """The colour number of the pixel at row 0..H-1 (from the top) and column 0..159 of a frame of the trace;
    `frame` counts from the end if negative. A place outside the picture is refused by `grad` (VcsError)."""

    row: int
    column: int
    frame: int = -1


class Ram(NamedTuple):
    """The value of RAM byte 0..127 after the last instruction; `grad` refuses another number (VcsError)."""

    byte: int


class Weighting(NamedTuple):
    """A weighted sum of pixels and of final values: what is differentiated.

    pixels int64[P, 3] (frame, row, column), pixel_weights float64[P], cells int64[C] (location ids),
    cell_weights float64[C].
    """

    pixels: npt.NDArray[np.int64]
    pixel_weights: Array
    cells: npt.NDArray[np.int64]
    cell_weights: Array
    text: str


@dataclass(frozen=True)
class Attribution:
    """A derivative, with what it is a derivative of and how it was made.

    parts: arrays named as in `PARTS`: ram [128], registers [4] (A X Y SP), flags [6] (N V D I Z C), pc [1],
    tia [64], delayed [3] (GRP0OLD GRP1OLD ENABLOLD), positions [5] (P0 P1 M0 M1 BL), latches [16], swacnt
    [1], timer [1], cart [c], rom [N], all at the start of the trace (latches: summed over its reads), and
    inputs [F, 32] per frame (`vcs.layout.INPUTS`). Under the `bit` rules a part that holds bytes has a
    second axis of 8, bit 0 first. Units: output per unit of the byte (or bit, line, pixel).
    output: what was differentiated, in words. value: what it was. horizon: frames of the trace. rules, alpha,
    T, mode, control, engine: as they were given to `grad`.
    """

    parts: Mapping[str, Array]
    output: str
    value: float
    rules: str
    alpha: float
    T: float
    mode: str
    control: str
    engine: str
    horizon: int

    def _part(self, name: str) -> Array:
        if name not in self.parts:
            raise VcsError(f"this attribution does not hold {name}: leave wrt out, or name {name} in it")
        return self.parts[name]

    @property
    def ram(self) -> Array:
        """RIOT RAM, [128] or [128, 8]."""
        return self._part("ram")

    @property
    def regs(self) -> Array:
        """A X Y SP, [4] or [4, 8]."""
        return self._part("registers")

    @property
    def tia(self) -> Array:
        """TIA write registers, [64] or [64, 8]."""
        return self._part("tia")

    @property
    def positions(self) -> Array:
        """Columns of P0 P1 M0 M1 BL, [5]."""
        return self._part("positions")

    @property
    def rom(self) -> Array:
        """The cartridge image, [N] or [N, 8]."""
        return self._part("rom")

    @property
    def cart(self) -> Array:
        """Cartridge RAM, [c] or [c, 8]."""
        return self._part("cart")

    @property
    def inputs(self) -> Array:
        """Input lines per frame, [F, 32]."""
        return self._part("inputs")

    def at(self, location: int | str) -> Any:
        """The derivative in one location (id or name): a float, or float64[8] of a byte under `bit`.

        For an input line: float64[F]. Raises VcsError for a location this attribution does not hold.
        """
        where = layout.parse(location) if isinstance(location, str) else location
        if layout.INPUT <= where < layout.INPUT + layout.INPUT_SIZE:
            return self.inputs[:, where - layout.INPUT]
        for name, first in _FIRST.items():
            part = self.parts.get(name)
            if part is not None and first <= where < first + len(part):
                value = part[where - first]
                return value if part.ndim == 2 else float(value)
        raise VcsError(f"this attribution holds no derivative for {location}: it has {', '.join(self.parts)}")

    def top(self, n: int = 10, parts: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The n largest derivatives by magnitude, as (name, derivative); zeros are left out.

        A bit is named "RAM[0x1C]:7", an input line "P0 right@2" (frame 2). `parts` limits where to look.
        """
        found: list[tuple[float, str, int, int]] = []
        for name in self.parts if parts is None else parts:
            part = self._part(name)
            flat = np.flatnonzero(part)
            best = flat[np.argsort(-np.abs(part.reshape(-1)[flat]), kind="stable")[:n]]
            width = part.shape[1] if part.ndim == 2 else 1
            found += [(float(part.reshape(-1)[i]), name, int(i) // width, int(i) % width) for i in best]
        found.sort(key=lambda item: -abs(item[0]))
        return [(_label(name, i, k, self.parts[name].ndim == 2), value) for value, name, i, k in found[:n]]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write arrays and settings to `path` (npz without pickles) in one step."""
        head = {
            name: np.array(getattr(self, name))
            for name in ("output", "value", "rules", "alpha", "T", "mode", "control", "engine", "horizon")
        }
        return files.write(
            path, lambda file: np.savez_compressed(file, allow_pickle=False, **head, **self.parts)
        )


def _label(part: str, index: int, k: int, two_axes: bool) -> str:
    if part == "inputs":
        return f"{layout.name(layout.INPUT + k)}@{index}"
    return layout.name(_FIRST[part] + index) + (f":{k}" if two_axes else "")


def weighting(output: Any, trace: Trace) -> Weighting:
    """What `output` means for `trace`. Accepted:

    * `Pixel(row, column, frame)`, ("pixel", row, column) of the last frame, or ("pixel", frame, row, column);
    * `Ram(byte)`, ("ram", index), or a location (name or id) of RAM, CPU, TIA registers, positions or
    cartridge RAM,
      read after the last instruction;
    * a dict from any of these to its weight;
    * an array: float[F, H, 160] weights of all pixels, float[H, 160] of the last frame's, float[128] of RAM;
    * a `Weighting`.

    Raises VcsError for anything else or out of range.
    """
    if isinstance(output, Weighting):
        return _fitting(output, trace)
    if isinstance(output, Mapping):
        terms = [(weighting(term, trace), _number(weight)) for term, weight in output.items()]
        if not terms:
            raise VcsError("an empty weighting has no derivative: give at least one output")
        return Weighting(
            np.concatenate([t.pixels for t, _ in terms]),
            np.concatenate([t.pixel_weights * w for t, w in terms]),
            np.concatenate([t.cells for t, _ in terms]),
            np.concatenate([t.cell_weights * w for t, w in terms]),
            " + ".join(f"{w:g} {t.text}" for t, w in terms[:4]) + (" + ..." if len(terms) > 4 else ""),
        )
    if isinstance(output, np.ndarray):
        return _array_weighting(output, trace)
    if isinstance(output, Pixel):
        return _pixel(output.frame, output.row, output.column, trace)
    if isinstance(output, Ram):
        return _cell(layout.RAM, output.byte, layout.RAM_SIZE, trace)
    if isinstance(output, str) or (isinstance(output, (int, np.integer)) and not isinstance(output, bool)):
        where = layout.parse(output) if isinstance(output, str) else int(output)
        return _cell(0, where, layout.ROM, trace)
    if isinstance(output, tuple) and output:
        if output[0] == "pixel" and len(output) == 3:
            return _pixel(-1, output[1], output[2], trace)
        if output[0] == "pixel" and len(output) == 4:
            return _pixel(output[1], output[2], output[3], trace)
        if output[0] == "ram" and len(output) == 2:
            return _cell(layout.RAM, output[1], layout.RAM_SIZE, trace)
    raise VcsError(
        f'{output!r} is no output: give ("pixel", row, column), ("pixel", frame, row, column), ("ram", '
        "index), a location name, a dict from these to weights, or an array of weights"
    )


def _number(weight: Any) -> float:
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise VcsError(f"{weight!r} is no weight: give a finite number")
    return number


def _fitting(given: Weighting, trace: Trace) -> Weighting:
    """A weighting that somebody put together, if it is one of this trace."""
    pixels, cells = np.asarray(given.pixels), np.asarray(given.cells)
    weights = [np.asarray(w) for w in (given.pixel_weights, given.cell_weights)]
    fits = pixels.ndim == 2 and pixels.shape[1] == 3 and cells.ndim == 1
    fits = fits and all(a.dtype.kind in "iu" for a in (pixels, cells))
    fits = fits and [w.shape for w in weights] == [(len(pixels),), (len(cells),)]
    fits = fits and all(w.dtype.kind in "iuf" and np.isfinite(w).all() for w in weights)
    if not fits:
        raise VcsError(
            "that Weighting does not fit together: give int64[P, 3] pixels with float64[P] weights, and "
            "int64[C] cells with float64[C] weights, all finite"
        )
    shape = np.array(trace.screens.shape)
    outside = ((pixels < -shape * [1, 0, 0]) | (pixels >= shape)).any(axis=1)
    if outside.any():
        frame, row, column = pixels[np.argmax(outside)].tolist()
        _pixel(frame, row, column, trace)
    for cell in cells.tolist():
        _cell(0, cell, layout.ROM, trace)
    pixels = pixels.astype(np.int64)
    pixels[:, 0] %= max(1, len(trace.screens))
    return Weighting(
        pixels,
        weights[0].astype(np.float64),
        cells.astype(np.int64),
        weights[1].astype(np.float64),
        str(given.text),
    )


def _none() -> tuple[npt.NDArray[np.int64], Array]:
    return np.zeros(0, np.int64), np.zeros(0)


def _pixel(frame: Any, row: Any, column: Any, trace: Trace) -> Weighting:
    frames, height, width = trace.screens.shape
    if not all(isinstance(i, (int, np.integer)) for i in (frame, row, column)):
        raise VcsError(f"a pixel is named by whole numbers, not ({frame!r}, {row!r}, {column!r})")
    if not (-frames <= frame < frames and 0 <= row < height and 0 <= column < width):
        raise VcsError(
            f"there is no pixel (frame {frame}, row {row}, column {column}): this trace has frames 0 to "
            f"{frames - 1}, rows 0 to {height - 1} and columns 0 to {width - 1}"
        )
    place = np.array([[int(frame) % frames, row, column]], np.int64)
    return Weighting(place, np.ones(1), *_none(), f"pixel({int(frame) % frames}, {row}, {column})")


def _cell(first: int, index: Any, size: int, trace: Trace) -> Weighting:
    if not isinstance(index, (int, np.integer)):
        raise VcsError(f"a location is named by a whole number, not {index!r}")
    location = first + int(index)
    good = 0 <= index < size and (
        location < layout.CPU + 11
        or layout.TIA_W <= location < layout.TIA_W + layout.TIA_W_SIZE
        or layout.POSITION <= location < layout.POSITION + 5
        or layout.CART <= location < layout.CART + len(trace.cart0)
    )
    if not good:
        raise VcsError(
            f"location {index} cannot be an output of this trace: use RAM 0 to 127, a CPU or TIA register, a "
            "position or a cell of its cartridge RAM"
        )
    return Weighting(
        np.zeros((0, 3), np.int64),
        np.zeros(0),
        np.array([location], np.int64),
        np.ones(1),
        layout.name(location),
    )


def _array_weighting(array: npt.NDArray[Any], trace: Trace) -> Weighting:
    if array.dtype.kind not in "biuf":
        raise VcsError(f"weights of type {array.dtype} are no numbers: give an array of them")
    weights = np.asarray(array, np.float64)
    if not np.isfinite(weights).all():
        raise VcsError("the weights are not all finite: replace NaN and infinities")
    if weights.shape == (layout.RAM_SIZE,):
        cells = np.flatnonzero(weights)
        return Weighting(np.zeros((0, 3), np.int64), np.zeros(0), cells, weights[cells], "weighted RAM")
    frames = trace.screens.shape[0]
    if weights.shape == trace.screens.shape[1:]:
        drawn = np.argwhere(weights)
        last = np.column_stack([np.full(len(drawn), frames - 1), drawn]).astype(np.int64)
        return Weighting(last, weights[tuple(drawn.T)], *_none(), f"{len(last)} weighted pixels")
    if weights.shape != trace.screens.shape:
        raise VcsError(
            f"weights of shape {array.shape} fit nothing: give {trace.screens.shape} for all pixels, "
            f"{trace.screens.shape[1:]} for the last frame or (128,) for RAM"
        )
    places = np.argwhere(weights).astype(np.int64)
    return Weighting(places, weights[tuple(places.T)], *_none(), f"{len(places)} weighted pixels")


def _wanted(wrt: str | Sequence[str] | None) -> tuple[str, ...]:
    if wrt is None:
        return PARTS
    if not isinstance(wrt, (str, Sequence)):
        raise VcsError(f"wrt is {wrt!r}: give the name of a part or location, or a list of them")
    names = []
    for item in [wrt] if isinstance(wrt, str) else wrt:
        if item in PARTS:
            names.append(item)
            continue
        try:
            where = layout.parse(item)
        except VcsError:
            raise VcsError(
                f"wrt names {item!r}: use {', '.join(PARTS)}, or a location such as RAM[0x1C]"
            ) from None
        names.append(_part_of(where))
    return tuple(dict.fromkeys(names))


def _part_of(location: int) -> str:
    if layout.INPUT <= location < layout.INPUT + layout.INPUT_SIZE:
        return "inputs"
    if layout.RIOT <= location < layout.INPUT and location not in (layout.RIOT + 1, layout.TIMER):
        raise VcsError(
            f"{layout.name(location)} is read afresh each time: ask for the inputs, TIMER or SWACNT instead"
        )
    return max((first, name) for name, first in _FIRST.items() if first <= location)[1]


class Origin(NamedTuple):
    """Where the colour of a pixel came from.

    register: the colour register that won it. write: the row of `Trace.tia` that had set it, -1 if that was
    before the trace. instruction: the row of `Trace.instr` of that store, -1 likewise. segment: the row of
    `Trace.segments` that drew the pixel.
    """

    register: str
    write: int
    instruction: int
    segment: int


def origin(trace: Trace, pixel: Pixel | tuple[Any, ...]) -> Origin:
    """The colour register, the store and the segment behind a pixel of a trace.

    Raises VcsError for a pixel out of range, or one that nothing drew (blanked, under the comb, left over).
    """
    place = weighting(pixel, trace).pixels
    if len(place) != 1:
        raise VcsError(f'{pixel!r} is no pixel: give Pixel(row, column) or ("pixel", row, column)')
    frame, row, column = (int(i) for i in place[0])
    winner = int(trace.winner[frame, row, column])
    if winner == NOBODY:
        raise VcsError(f"nothing drew pixel (frame {frame}, row {row}, column {column}): pick a visible one")
    s = trace.segments
    over = (s["frame"] == frame) & (s["row"] == row) & (s["x0"] <= column) & (column < s["x1"])
    segment = int(np.flatnonzero(over)[-1])
    register = _COLOUR_OF[winner]
    stores = np.flatnonzero(trace.tia["reg"][: s["tia"][segment]] == layout.parse(register) - layout.TIA_W)
    write = int(stores[-1]) if len(stores) else -1
    return Origin(register, write, int(trace.tia["instr"][write]) if write >= 0 else -1, segment)


def grads(
    trace: Trace,
    outputs: Sequence[Any],
    *,
    wrt: str | Sequence[str] | None = None,
    rules: str = RULES,
    engine: str = "adjoint",
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
    control: str = "pc",
) -> list[Attribution]:
    """`grad` of several outputs of one trace at once: one sweep of the adjoint engine, one run of the soft
    one."""
    from vcs.soft.rules import NAMES

    for what, given, known in (
        ("engine", engine, ENGINES),
        ("rule set", rules, NAMES),
        ("mode", mode, ("ste", "full")),
    ):
        if given not in known:
            raise VcsError(f"there is no {what} {given!r}: use one of {', '.join(known)}")
    if not isinstance(trace, Trace):
        raise VcsError(
            f"grad needs a Trace, not {type(trace).__name__}: use Machine.trace(actions) or Trace.load(path)"
        )
    parts = _wanted(wrt)
    targets = [weighting(output, trace) for output in outputs]
    run = _soft if engine == "soft" else _adjoint
    results = run(trace, targets, rules=rules, alpha=alpha, T=T, mode=mode, control=control)
    return [
        Attribution(
            {name: arrays[name] for name in parts},
            target.text,
            value,
            rules,
            float(alpha),
            float(T),
            mode,
            control,
            engine,
            len(trace.frames),
        )
        for target, (arrays, value) in zip(targets, results)
    ]


def grad(
    trace: Trace,
    output: Any,
    *,
    wrt: str | Sequence[str] | None = None,
    rules: str = RULES,
    engine: str = "adjoint",
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
    control: str = "pc",
) -> Attribution:
    """The derivative of `output` with respect to everything the machine held when the trace began, and its
    inputs.

    Args:
        trace: what `Machine.trace` or `Trace.load` returned.
        output: a pixel, a RAM byte or register at the end, or a weighting of them; see `weighting`.
        wrt: parts ("ram", "rom", "inputs", ...; see `PARTS`) or locations whose parts to keep; None keeps
        all. rules: "bit", eight derivatives a byte, or "value", one (docs/gradients.md).
        engine: "adjoint", compiled, or "soft", readable; they agree to 1e-9.
        alpha, T: sharpness of the branch gate, temperature of the relaxed read in "full" mode.
        mode: "ste", values exact, or "full", reads and branches relaxed (refused where that leaves the
        trace). control: "pc", a branch moves the program counter only.

    Raises VcsError, one sentence, for an output out of range or an unknown name.
    """
    return grads(
        trace, [output], wrt=wrt, rules=rules, engine=engine, alpha=alpha, T=T, mode=mode, control=control
    )[0]


def _adjoint(
    trace: Trace, targets: Sequence[Weighting], **settings: Any
) -> list[tuple[dict[str, Array], float]]:
    try:
        from vcs._adjoint import sweep
    except ImportError:
        raise VcsError(
            'the compiled adjoint engine is not built: run "pip install -e ." again, or use engine="soft"'
        ) from None
    results: list[tuple[dict[str, Array], float]] = sweep(trace, targets, **settings)
    return results


def _soft(
    trace: Trace, targets: Sequence[Weighting], **settings: Any
) -> list[tuple[dict[str, Array], float]]:
    import warnings

    import autograd.numpy as anp
    from autograd.core import make_vjp

    from vcs.soft import replay

    pixels = np.concatenate([target.pixels for target in targets])
    bounds = np.cumsum([0] + [len(target.pixels) for target in targets])
    machine = replay(trace, pixels=pixels, **settings)
    start: dict[str, Array] = machine.start()

    def run(state: Any) -> Any:
        out = machine(state)
        needed = {name for target in targets for name in map(_part_of, target.cells.tolist())}
        finals: dict[str, Any] = {part: getattr(out, part) for part in _READABLE if part in needed}
        shown = out.pixels
        totals = []
        for i, target in enumerate(targets):
            total = anp.sum(shown[bounds[i] : bounds[i + 1]] * target.pixel_weights)
            for location, weight in zip(target.cells.tolist(), target.cell_weights):
                name = _part_of(location)
                total = total + weight * finals[name][location - _FIRST[name]]
            totals.append(total)
        # one array of all outputs: one run, one backward pass each
        return anp.array(totals)

    with warnings.catch_warnings():
        # an output that depends on nothing has derivative 0, which is an answer
        warnings.filterwarnings("ignore", message="Output seems independent of input")
        vjp, values = make_vjp(run, start)
    results = []
    for i in range(len(targets)):
        unit = np.zeros(len(targets))
        unit[i] = 1.0
        results.append(({name: np.asarray(array) for name, array in vjp(unit).items()}, float(values[i])))
    return results

"""What a RAM cell does to the picture, measured: published labels checked, missing ones discovered.

For a cell in a gameplay state, its byte is swept around its value, a few NOOP frames are run for each value,
and the pictures are compared: does the cell move something, recolour it, animate it, or nothing? The pixels
that follow the byte are its footprint; a straight line from byte to column or row is fitted to the centre of
the footprint, with its residual. Several states are pooled. A cell whose effect is not a line (position codes
that mix a coarse and a fine part) is reported as moving without a map, never forced onto one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vcs import roms
from vcs.data import load_json
from vcs.errors import VcsError
from vcs.xai.causes import RAM, Do
from vcs.xai.console import AuditMachine
from vcs.xai.outputs import Bytes

if TYPE_CHECKING:
    from vcs.xai.oracle import Oracle

# Offsets of the byte that are tried: fine ones near it, coarse ones so far away that most pictures show
# what is behind the moving thing. The effect itself is read from the fine ones: far away things wrap around.
FINE = (-16, -14, -12, -10, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16)
COARSE = tuple(d for d in range(-96, 97, 8) if d)
HORIZONS = (1, 2, 3, 4)  # NOOP frames; the first at which the picture answers is used
WHOLE_SCREEN = 0.25  # share of pixels above which a cell disrupts the picture
STRAIGHT = 0.9  # R squared from which a map is believed
LABEL_HEADS = ("cell", "label", "does", "pixels", "column =", "row =", "residual", "states")
DISCOVERED = 16  # causes of a game without labels


@dataclass(frozen=True)
class Line:
    """position = slope * byte + intercept, in pixels; ``residual`` is the root mean square error."""

    slope: float
    intercept: float
    residual: float
    r2: float
    points: int

    @property
    def text(self) -> str:
        """The formula for a table."""
        return f"{self.slope:+.3f} b {self.intercept:+.1f}"

    def __call__(self, byte: float) -> float:
        return self.slope * byte + self.intercept


@dataclass(frozen=True)
class CellReport:
    """What one cell does. role: moves, recolours, animates, disrupts or nothing; column, row: lines or None.

    footprint: (row, column) pixels that follow the byte in the first state where it acts. delay: frames until
    the picture answers. states_seen: states in which the cell does anything.
    """

    cell: int
    concept: str
    role: str
    column: Line | None
    row: Line | None
    footprint: tuple[tuple[int, int], ...]
    delay: int
    states_seen: int

    @property
    def footprint_pixels(self) -> int:
        """Size of the footprint."""
        return len(self.footprint)

    def columns(self, states: int) -> tuple[str, ...]:
        """The report as texts under `LABEL_HEADS`."""
        return (
            f"RAM[{self.cell}]",
            self.concept or "-",
            self.role,
            str(self.footprint_pixels or "-"),
            self.column.text if self.column else "-",
            self.row.text if self.row else "-",
            self.residual_text,
            f"{self.states_seen}/{states}",
        )

    @property
    def residual_text(self) -> str:
        """Residuals of the maps, in pixels."""
        return ", ".join(f"{line.residual:.2f}" for line in (self.column, self.row) if line) or "-"


@dataclass(frozen=True)
class LabelTable:
    """The measured table of a game. labelled: whether the cells come from the published labels."""

    game: str
    rom_sha256: str
    labelled: bool
    states: int
    cells: tuple[CellReport, ...] = field(default=())

    def markdown(self) -> str:
        """The table as Markdown."""
        kind = "published labels, checked" if self.labelled else "**discovered** cells (no published labels)"
        lines = [f"## {self.game}", "", f"{kind}; {self.states} states; ROM {self.rom_sha256[:12]}", ""]
        lines += ["| " + " | ".join(LABEL_HEADS) + " |", "|---" * len(LABEL_HEADS) + "|"]
        lines += ["| " + " | ".join(cell.columns(self.states)) + " |" for cell in self.cells]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LabelTable:
        """Read `to_json` back. Raises VcsError for anything else."""
        try:

            def line(d: Any) -> Line | None:
                return (
                    None
                    if d is None
                    else Line(
                        float(d["slope"]),
                        float(d["intercept"]),
                        float(d["residual"]),
                        float(d["r2"]),
                        int(d["points"]),
                    )
                )

            cells = tuple(
                CellReport(
                    int(c["cell"]),
                    str(c["concept"]),
                    str(c["role"]),
                    line(c["column"]),
                    line(c["row"]),
                    tuple((int(r), int(k)) for r, k in c["footprint"]),
                    int(c["delay"]),
                    int(c["states_seen"]),
                )
                for c in data["cells"]
            )
            return cls(
                str(data["game"]), str(data["rom_sha256"]), bool(data["labelled"]), int(data["states"]), cells
            )
        except (KeyError, TypeError, ValueError) as why:
            raise VcsError(
                f"this is no label table ({why}); make one with `vcs labels GAME --json FILE`"
            ) from None


def fit_line(byte: Sequence[float], position: Sequence[float]) -> Line | None:
    """Least squares line, None with fewer than 4 points or a byte that does not vary."""
    x, y = np.asarray(byte, float), np.asarray(position, float)
    if x.size < 4 or np.ptp(x) == 0:
        return None
    slope, intercept = np.polyfit(x, y, 1)
    error = y - (slope * x + intercept)
    spread = float(((y - y.mean()) ** 2).sum())
    return Line(
        float(slope),
        float(intercept),
        float(np.sqrt(np.mean(error**2))),
        1.0 - float(error @ error) / spread if spread else 0.0,
        int(x.size),
    )


@dataclass(frozen=True)
class _Sweep:
    """One cell in one state: role, bytes tried, centre of the moving thing per byte, footprint."""

    role: str
    delay: int
    byte: NDArray[np.float64]
    column: NDArray[np.float64]
    row: NDArray[np.float64]
    footprint: NDArray[np.int64]


def _nothing() -> _Sweep:
    none = np.zeros(0)
    return _Sweep("nothing", 0, none, none, none, np.zeros((0, 2), np.int64))


def classify(values: NDArray[np.int64], screens: Bytes, at: int) -> _Sweep:
    """What a byte does, from the pictures of a sweep.

    values: int[V] bytes, ascending. screens: uint8[V, H, 160] one picture a byte. at: index of the byte's own
    value.
    """
    here = screens[at]
    # what most far values show is background; what differs from it follows the byte
    far = np.isin(values - values[at], COARSE)
    many = screens[far] if far.sum() > 4 else screens
    background = np.partition(many, len(many) // 2, axis=0)[len(many) // 2]
    near = np.isin(values - values[at], FINE)
    values, screens = values[near], screens[near]
    at = int(near[:at].sum())
    differ = screens != here
    counts = differ.sum(axis=(1, 2))
    if not counts.any():
        return _nothing()
    thing = screens != background
    size = thing.sum(axis=(1, 2))
    usual = float(np.median(size[size > 0])) if size.any() else 0.0
    fair = (size > 0) & (np.abs(size - usual) <= 0.5 * usual)
    rows, cols = np.indices(here.shape)
    column = np.array([cols[t].mean() if f else np.nan for t, f in zip(thing, fair, strict=True)])
    row = np.array([rows[t].mean() if f else np.nan for t, f in zip(thing, fair, strict=True)])
    footprint = np.argwhere(thing[at])
    if np.median(counts[counts > 0]) > WHOLE_SCREEN * here.size:
        role = "disrupts"
    elif _recolours(here, screens[counts > 0], differ[counts > 0]):
        role, footprint = "recolours", np.argwhere(differ.any(axis=0))
    elif fair.sum() >= 4 and _moves(thing[fair], column[fair], row[fair]):
        role = "moves"
    elif (part := _moving_part(values, thing, at)) is not None:
        return part
    else:
        role, footprint = "animates", np.argwhere(differ.any(axis=0))
    return _Sweep(role, 0, values[fair].astype(float), column[fair], row[fair], footprint)


def _moving_part(values: NDArray[np.int64], things: NDArray[np.bool_], at: int) -> _Sweep | None:
    """Where a byte moves one thing and something else changes with it: the part that travels on a line.

    Parts are told apart by size; a size that most values show once is a candidate. None if none is on a line.
    """
    try:
        from scipy import ndimage
    except ImportError:
        raise VcsError("labels need scipy: pip install 'glassvcs[xai]'") from None
    by_size: dict[int, list[tuple[int, float, float, NDArray[np.int64]]]] = {}
    for k, thing in enumerate(things):
        marks, count = ndimage.label(thing, np.ones((3, 3)))
        parts = [np.argwhere(marks == i + 1) for i in range(count)] if count <= 32 else []
        sizes = [len(p) for p in parts]
        for p in parts:
            if sizes.count(len(p)) == 1:
                row_mean, column_mean = p.mean(axis=0)
                by_size.setdefault(len(p), []).append((k, float(row_mean), float(column_mean), p))
    best: tuple[float, _Sweep] | None = None
    for found in by_size.values():
        if len(found) < 0.6 * len(things):
            continue
        index, row, column = (np.array([f[i] for f in found]) for i in range(3))
        byte = values[index].astype(float)
        lines = [fit_line(byte.tolist(), x.tolist()) for x in (row, column) if np.ptp(x) >= 1]
        r2 = max((line.r2 for line in lines if line), default=0.0)
        if r2 >= STRAIGHT and (best is None or r2 > best[0]):
            pixels = next((f[3] for f in found if f[0] == at), np.zeros((0, 2), np.int64))
            best = r2, _Sweep("moves", 0, byte, column, row, pixels)
    return best[1] if best else None


def _recolours(here: Bytes, screens: Bytes, differ: NDArray[np.bool_]) -> bool:
    """The same pixels change for most values, and each old colour becomes one new colour."""
    usual = differ.mean(axis=0) > 0.5
    same = [d for d in differ if (d & usual).sum() > 0.8 * (d | usual).sum()]
    if not usual.any() or len(same) < 0.7 * len(differ):
        return False
    for screen, d in zip(screens, differ, strict=True):
        pairs = {(int(a), int(b)) for a, b in zip(here[d], screen[d], strict=True)}
        if len(pairs) != len({a for a, _ in pairs}):
            return False
    return True


def _moves(things: NDArray[np.bool_], column: NDArray[np.float64], row: NDArray[np.float64]) -> bool:
    """The centre travels, and the thing keeps its shape when moved back."""
    if max(np.ptp(column), np.ptp(row)) < 0.5:
        return False
    first = things[0]
    kept = []
    for k in range(1, len(things)):
        shift = (round(float(row[0] - row[k])), round(float(column[0] - column[k])))
        back = np.roll(things[k], shift, (0, 1))
        kept.append((back & first).sum() / (back | first).sum())
    return float(np.median(kept)) >= 0.4


@dataclass(frozen=True)
class Probe:
    """A gameplay state in which cells are swept: its oracle, and where a NOOP frame last writes each cell.

    written: cell -> (instructions of the frame up to and including its last write, value written).
    """

    oracle: Oracle
    written: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, oracle: Oracle) -> Probe:
        """The probe of an oracle's moment."""
        trace = oracle.machine().trace([0])
        rows = np.flatnonzero(trace.instr["flags"] & 8)
        cells = trace.instr["ea_loc"][rows]
        return cls(
            oracle,
            {
                int(c): (int(r) + 1, int(trace.instr["wr"][r]))
                for r, c in zip(rows, cells, strict=True)
                if 0 <= c < 128
            },
        )

    def sweep(self, cell: int) -> _Sweep:
        """Sweep a cell at the frame boundary or, where the program overwrites it, after its last write."""
        found = self._sweep(cell, int(self.oracle.ram[cell]), None)
        if found.role == "nothing" and cell in self.written:
            after, value = self.written[cell]
            found = self._sweep(cell, value, after)
        return found

    def _sweep(self, cell: int, b: int, instruction: int | None) -> _Sweep:
        values = np.array(sorted(b + d for d in {*FINE, *COARSE} if 0 <= b + d <= 255))
        at = int(np.flatnonzero(values == b)[0])
        runs = [(Do(RAM + cell, "set", int(v), 0, instruction),) for v in values]
        for frames in HORIZONS:
            outcomes = self.oracle.run(runs, actions=[0] * frames, screens=True)
            screens = np.stack([o.picture() for o in outcomes])
            found = classify(values, screens, at)
            if found.role != "nothing":
                return replace(found, delay=frames)
        return _nothing()


def _probe(game: Any, seed: int) -> Probe:
    """The audit's gameplay state of a stream."""
    from vcs.xai.oracle import Oracle
    from vcs.xai.state import actions_of

    stream, prefix = actions_of(seed)
    machine = AuditMachine(game)
    machine.run(np.asarray(stream[:prefix], np.int32))
    return Probe.of(Oracle(machine, stream[prefix:], threads=1))


def discover(oracle: Oracle, limit: int = DISCOVERED) -> dict[int, str]:
    """Candidate cells of a game without labels: those that change most pixels, with what they do as concept.

    Returns cell -> ``discovered.position`` (it moves something) or ``discovered``, in index order.
    """
    ram = oracle.ram
    runs = [(Do(RAM + i, "set", (int(ram[i]) + 17) % 256),) for i in range(128)]
    changed = np.array([o.changed for o in oracle.run(runs)])
    best = [int(i) for i in np.argsort(-changed, kind="stable")[:limit] if changed[i] > 0] or [0]
    probe = Probe.of(oracle)
    return {
        i: "discovered.position" if probe.sweep(i).role == "moves" else "discovered" for i in sorted(best)
    }


def measure(
    game: Any,
    states: int = 3,
    *,
    every_cell: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LabelTable:
    """The label table of a game, measured over ``states`` gameplay states.

    every_cell: measure all 128 cells, labelled or not. A game without published labels is measured on all
    cells and its table keeps those that do something, with ``labelled`` False.
    """
    image = roms.find(game)
    entries = load_json("audit_candidates.json").get(image.name)
    concepts: dict[int, str] = {e["ram_index"]: e["concept"] for e in entries or ()}
    labelled = bool(concepts)
    cells = list(concepts) if labelled and not every_cell else list(range(128))
    total = states * len(cells)
    found: dict[int, list[_Sweep]] = {c: [] for c in cells}
    for seed in range(states):
        probe = _probe(image, seed)
        for k, cell in enumerate(cells):
            found[cell].append(probe.sweep(cell))
            if progress:
                progress(seed * len(cells) + k + 1, total)
    reports = [_pool(cell, concepts.get(cell, ""), found[cell]) for cell in cells]
    if not labelled or every_cell:
        reports = [r for r in reports if r.role != "nothing" or r.concept]
    return LabelTable(image.name, image.sha256, labelled, states, tuple(reports))


def _pool(cell: int, concept: str, sweeps: Sequence[_Sweep]) -> CellReport:
    """One report from the sweeps of a cell in several states."""
    acting = [s for s in sweeps if s.role != "nothing"]
    if not acting:
        return CellReport(cell, concept, "nothing", None, None, (), 0, 0)
    roles = [s.role for s in acting]
    role = max(dict.fromkeys(roles), key=roles.count)
    same = [s for s in acting if s.role == role]
    column = row = None
    if role == "moves":
        byte = np.concatenate([s.byte for s in same])
        column = _believed(byte, np.concatenate([s.column for s in same]))
        row = _believed(byte, np.concatenate([s.row for s in same]))
    first = same[0]
    return CellReport(
        cell,
        concept,
        role,
        column,
        row,
        tuple((int(r), int(c)) for r, c in first.footprint),
        first.delay,
        len(acting),
    )


def _believed(byte: NDArray[np.float64], position: NDArray[np.float64]) -> Line | None:
    """The line if it explains the travel and there is any."""
    line = fit_line(byte.tolist(), position.tolist())
    return line if line and np.ptp(position) >= 1.0 and line.r2 >= STRAIGHT else None


def positions(ram: Bytes | Sequence[int], table: LabelTable) -> dict[str, tuple[float | None, float | None]]:
    """Object positions in screen pixels from RAM: label -> (column, row), None where no line was measured.

    ram: the 128 bytes. Cells with one label are merged; unlabelled cells are named ``ram[i]``.
    """
    out: dict[str, tuple[float | None, float | None]] = {}
    for cell in table.cells:
        if cell.role != "moves" or (cell.column is None and cell.row is None):
            continue
        name = cell.concept or f"ram[{cell.cell}]"
        column, row = out.get(name, (None, None))
        byte = float(ram[cell.cell])
        out[name] = (cell.column(byte) if cell.column else column, cell.row(byte) if cell.row else row)
    return out


def aligned(env: Any, table: LabelTable) -> Any:
    """Wrap a gymnasium environment: every info gets ``objects``, the positions of `positions`.

    env: a VCS or ALE environment (its ``unwrapped.ale.getRAM()`` is read). Needs gymnasium.
    """
    try:
        import gymnasium
    except ImportError:
        raise VcsError("aligned() needs gymnasium: pip install 'glassvcs[env]'") from None

    class AlignedObjects(gymnasium.Wrapper):  # type: ignore[misc,type-arg,unused-ignore]
        """Adds measured object positions to info."""

        def _add(self, info: dict[str, Any]) -> dict[str, Any]:
            return info | {"objects": positions(env.unwrapped.ale.getRAM(), table)}

        def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
            observation, info = self.env.reset(**kwargs)
            return observation, self._add(info)

        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            observation, reward, terminated, truncated, info = self.env.step(action)
            return observation, reward, terminated, truncated, self._add(info)

    return AlignedObjects(env)

"""`vcs cannon`: from the joystick to Space Invaders' cannon (soft.md 8), with two sets of numbers.

The published set follows the paper's protocol: a 48-pixel footprint cut out of the screen, a joystick wired
to its column, a triangular sampler with its implementation's kink conventions. The true set needs no wiring:
the cannon is what player 0 draws where the stick moves it, the derivative of every pixel comes from the
machine's own registers, and each link from the stick to the screen stands beside its counterfactual on the
machine.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vcs import files
from vcs.errors import VcsError
from vcs.gradient import Ram, grad
from vcs.join import find, grad_join
from vcs.machine import Machine
from vcs.soft import tia
from vcs.soft.replay import replay
from vcs.trace import Trace

Array = npt.NDArray[np.float64]

app = typer.Typer(help="The experiment from joystick to cannon in Space Invaders.")
console = Console()

ROM_SHA256: Final = "7224b17462b9"  # first digits; the protocol's rows and colours are this image's
BOOT_FRAMES: Final = 1050  # soft.md 8.1.1
CANNON: Final = 196  # its colour (8.1.3)
ROWS: Final = slice(177, 198)
COLUMNS: Final = slice(23, 62)
TARGET: Final = 18  # columns to the right of the footprint's origin (8.1.9)
EPSILON: Final = 1e-6
X: Final = 0x1C  # RAM: the cannon's column
STICK: Final = 0x6E  # RAM: the game's copy of SWCHA
NOOP, UP, RIGHT, LEFT, DOWN = 0, 2, 3, 4, 5


@dataclass(frozen=True)
class Inverse:
    """d objective / d (up, down, left, right) at rest; the objective is minus the squared distance of the
    centre from a target."""

    symmetric: tuple[float, float, float, float]
    published: tuple[float, float, float, float]


@dataclass(frozen=True)
class Published:
    """The paper's experiment at its state: 1050 frames of no action after the start."""

    pixels: int
    origin: tuple[int, int]
    background: int
    largest: float
    non_zero: int
    l1: float
    share_footprint: float
    share_dilated: float
    share_moving: float
    inverse: Inverse
    naive: float


@dataclass(frozen=True)
class Measured:
    """The experiment at a state where both directions move (8.7)."""

    column: int
    column_right: int
    column_left: int
    pixels: int
    sampler_non_zero: int
    sampler_l1: float
    machine_non_zero: int
    machine_l1: float
    differing_pixels: int
    share: float
    inverse: Inverse
    naive: float
    stick_slope: float
    stick_effect: float
    stick_to_column_pc: tuple[float, ...]
    stick_to_column_join: tuple[float, ...]
    stick_to_column_effect: tuple[float, ...]
    column_slope_value: float
    column_effect: float


def spread(occupied: npt.NDArray[np.bool_]) -> Array:
    """d occupancy / d column by the symmetric derivative of the triangular sampler (soft.md 2.8)."""
    left = np.pad(occupied, ((0, 0), (1, 0)))[:, :-1].astype(float)
    right = np.pad(occupied, ((0, 0), (0, 1)))[:, 1:].astype(float)
    slope: Array = (left - right) / 2
    return slope


def published_spread(occupied: npt.NDArray[np.bool_]) -> Array:
    """The same by the published conventions (8.5): the triangle's slope is its sign up to distance 1, and the
    clamp passes at 0 and blocks at 1."""
    slope: Array = np.where(occupied, 0.0, 2 * spread(occupied))
    return slope


def inverse_map(occupied: npt.NDArray[np.bool_], origin: float) -> Inverse:
    """Gradient of -(centre - (origin + 18))^2 by the stick, one column per unit of right - left (8.1.9)."""
    columns = np.arange(occupied.shape[1])
    mass = occupied.sum() + EPSILON
    centre = (occupied * columns).sum() / mass

    def by_stick(slope: Array) -> tuple[float, float, float, float]:
        moved = ((slope * columns).sum() - centre * slope.sum()) / mass
        pull = -2 * (centre - (origin + TARGET)) * moved
        return 0.0, 0.0, -float(pull), float(pull)

    return Inverse(by_stick(spread(occupied)), by_stick(published_spread(occupied)))


def naive(occupied: npt.NDArray[np.bool_], column: int) -> Array:
    """The forward map through a column rounded to whole pixels, by central differences (8.4)."""

    def placed(at: float) -> npt.NDArray[np.bool_]:
        return np.roll(occupied, round(at) - column, axis=1)

    step = 0.3
    slope: Array = (placed(column + step).astype(float) - placed(column - step)) / (2 * step)
    return slope


def dilated(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask and its neighbours left and right: the edges that move."""
    wide: npt.NDArray[np.bool_] = mask | (spread(mask) != 0)
    return wide


def share(saliency: Array, mask: npt.NDArray[np.bool_]) -> float:
    """Part of a map's absolute mass that lies on a mask (8.3)."""
    total = float(np.abs(saliency).sum())
    return float(np.abs(saliency[mask]).sum()) / total if total else 0.0


def played(machine: Machine, actions: list[int]) -> Machine:
    """A copy of the machine after some actions."""
    copy = machine.clone()
    for action in actions:
        copy.step(action)
    return copy


def positions(t: Trace, frame: int, o: int) -> npt.NDArray[np.int64]:
    """The column of object o (P0 P1 M0 M1 BL) while each pixel was drawn, int64[H, 160], -1 if none."""
    owner = replay(t, check=False).owner[frame]
    return np.where(owner >= 0, t.segments["pos"][:, o].astype(np.int64)[np.maximum(owner, 0)], -1)


def position_slopes(t: Trace, frame: int, o: int) -> Array:
    """d pixel / d column of object o for every pixel of a frame, float64[H, 160], by the soft machine."""
    soft = replay(t)
    parameters, owner = soft.drawn_with(), soft.owner[frame]
    drawn = owner >= 0
    segment = owner[drawn]
    scene = tia.Scene.of(t.segments[segment], np.nonzero(drawn)[1])
    wanted = tia.PARAMETERS.index("pos P0") + o
    total = np.zeros(t.screens.shape[1:])
    for part in tia.slopes(tuple(parameters[segment].T), scene):
        if part.parameter == wanted:
            total[drawn] += part.slope
    return total


def boot() -> Machine:
    """Space Invaders after 1050 idle frames (8.1.1). Raises VcsError if another image answers to the name."""
    machine = Machine("space_invaders", protocol="xitari")
    machine.reset()
    found = hashlib.sha256(bytes(machine.rom)).hexdigest()
    if not found.startswith(ROM_SHA256):
        raise VcsError(
            f"this experiment needs the image of Space Invaders whose SHA-256 begins {ROM_SHA256}, not "
            f"{found[:12]}: install ale-py, which brings it"
        )
    for _ in track(range(BOOT_FRAMES), "Idle frames", console=Console(stderr=True), transient=True):
        machine.step(NOOP)
    return machine


def published_set(machine: Machine, moving: npt.NDArray[np.bool_], column: int) -> tuple[Published, Array]:
    """The paper's numbers at `machine`, and its forward map; `moving` is the true cannon at `column`."""
    screen = machine.screen
    occupied = np.zeros(screen.shape, dtype=bool)
    occupied[ROWS, COLUMNS] = screen[ROWS, COLUMNS] == CANNON
    row, left = int(np.nonzero(occupied.any(axis=1))[0][0]), int(np.nonzero(occupied.any(axis=0))[0][0])
    background = int(screen[row - 2, left])
    forward = spread(occupied) * (CANNON - background)
    here = np.roll(moving, int(machine.ram[X]) - column, axis=1)
    numbers = Published(
        int(occupied.sum()),
        (row, left),
        background,
        float(np.abs(forward).max()),
        int(np.count_nonzero(forward)),
        float(np.abs(forward).sum()),
        share(forward, occupied),
        share(forward, dilated(occupied)),
        share(forward, dilated(here)),
        inverse_map(occupied, left),
        float(np.abs(naive(occupied, left)).max()),
    )
    return numbers, forward


def true_set(machine: Machine) -> tuple[Measured, Array, npt.NDArray[np.bool_]]:
    """The true numbers at `machine`, the forward map and the cannon's pixels."""
    still = machine.clone()
    t = still.trace([NOOP] * 4)
    sides = {action: machine.clone() for action in (RIGHT, LEFT)}
    traces = {action: side.trace([action, action, NOOP, NOOP]) for action, side in sides.items()}
    pictures = {action: traces[action].screens[-1].astype(float) for action in traces}
    central = (pictures[RIGHT] - pictures[LEFT]) / 2
    # where the stick moves player 0, found by what it does and not by where the cannon is known to be
    moved = positions(traces[RIGHT], 3, tia.P0) - positions(traces[LEFT], 3, tia.P0) == 2
    forward = np.where(moved, position_slopes(t, 3, tia.P0), 0.0)
    cannon = moved & (t.winner[-1] == 3)
    mass = float(t.screens[-1][cannon].sum())
    columns = np.where(cannon.any(axis=1)[:, None], np.arange(160.0), 0.0)

    recent = machine.clone()
    recent.step(NOOP)
    window = recent.clone().trace([NOOP, NOOP])
    poked = recent.clone()
    poked.poke_ram(X, int(recent.ram[X]) + 1)
    weights = np.zeros_like(window.screens[-1], dtype=float) + columns

    def moment(m: Machine) -> float:
        return float((played(m, [NOOP, NOOP]).screen * weights).sum())

    stick = grad(machine.clone().trace([NOOP]), Ram(STICK)).at("P0 right")[0]
    pressed, idle = played(machine, [RIGHT]), played(machine, [NOOP])
    paths = find(machine, t)
    by_pc = grad(t, Ram(X), rules="bit", wrt="inputs").inputs[0]
    by_join = grad_join(t, Ram(X), paths, rules="bit", slope=1.0).inputs[0]
    held = [int(played(machine, [action, action, NOOP, NOOP]).ram[X]) for action in (UP, DOWN, LEFT, RIGHT)]
    numbers = Measured(
        int(still.ram[X]),
        int(sides[RIGHT].ram[X]),
        int(sides[LEFT].ram[X]),
        int(cannon.sum()),
        int(np.count_nonzero(forward)),
        float(np.abs(forward).sum()),
        int(np.count_nonzero(central)),
        float(np.abs(central).sum()),
        int(np.count_nonzero(forward != central)),
        share(forward, dilated(cannon)),
        inverse_map(cannon, float(np.nonzero(cannon.any(axis=0))[0][0])),
        float(np.abs(naive(cannon, int(still.ram[X]))).max()),
        float(stick),
        float(int(pressed.ram[STICK]) - int(idle.ram[STICK])),
        tuple(by_pc[:4].tolist()),
        tuple(by_join[:4].tolist()),
        tuple(float(x - int(still.ram[X])) for x in held),
        float(grad(window, weights, rules="value").ram[X]) / mass,
        (moment(poked) - moment(recent)) / mass,
    )
    return numbers, forward, cannon


def figure(rgb: npt.NDArray[np.uint8], forward: Array, rounded: Array, result: Measured) -> bytes:
    """The four panels as a PNG: scene, d screen / d right, the same through rounding, the inverse.

    rgb: uint8[H, 160, 3], the scene. forward, rounded: float64[H, 160], the two maps.
    """
    import io

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plate, panels = plt.subplots(2, 2, figsize=(11, 6.4), layout="constrained")
    first, last = max(0, result.column - 20), min(160, result.column + 28)
    window = (slice(170, 205), slice(first, last))
    extent = (first - 0.5, last - 0.5, 204.5, 169.5)
    scene, ahead, naively, back = panels.flat
    scene.imshow(rgb[window], extent=extent, aspect=0.5, interpolation="nearest")
    scene.set_title(f"(a) the cannon, column {result.column}", fontsize=10)
    top = float(np.abs(forward).max()) or 1.0
    maps = (
        (ahead, forward, f"(b) d screen / d right: {np.count_nonzero(forward)} pixels"),
        (naively, rounded, f"(c) through rounding: {np.count_nonzero(rounded)} pixels"),
    )
    for axes, values, title in maps:
        image = axes.imshow(
            values[window], extent=extent, aspect=0.5, cmap="RdBu_r", vmin=-top, vmax=top,
            interpolation="nearest",
        )  # fmt: skip
        axes.set_title(title, fontsize=10)
        plate.colorbar(image, ax=axes, fraction=0.018, pad=0.02).ax.tick_params(labelsize=7)
    for axes in (scene, ahead, naively):
        axes.set_xlabel("column", fontsize=8)
        axes.set_ylabel("row", fontsize=8)
        axes.tick_params(labelsize=7)
    slopes = result.inverse.symmetric
    back.bar(
        ("up", "down", "left", "right"), slopes, color=["#b2182b" if v > 0 else "#2166ac" for v in slopes]
    )
    back.axhline(0, color="black", lw=0.8)
    back.margins(y=0.18)
    back.set_title("(d) d objective / d stick (squared pixels per unit)", fontsize=10)
    back.tick_params(labelsize=8)
    for i, v in enumerate(slopes):
        back.annotate(
            f"{v:+.2f}" if v else "0", (i, v), xytext=(0, 4 if v >= 0 else -4), textcoords="offset points",
            ha="center", va="bottom" if v >= 0 else "top", fontsize=9,
        )  # fmt: skip
    buffer = io.BytesIO()
    plate.savefig(buffer, format="png", dpi=130)
    plt.close(plate)
    return buffer.getvalue()


@dataclass(frozen=True)
class Experiment:
    """Both sets of numbers, the true forward map and its rounded twin, and the scene they belong to."""

    published: Published
    true: Measured
    forward: Array
    rounded: Array
    rgb: npt.NDArray[np.uint8]


def experiment() -> Experiment:
    """Run both. Raises VcsError if Space Invaders is missing or another image."""
    start = boot()
    later = played(start, [RIGHT] * 24 + [NOOP] * 8)
    true, forward, shape = true_set(later)
    published, _ = published_set(start, shape, true.column)
    scene = played(later, [NOOP] * 4)
    return Experiment(published, true, forward, naive(shape, true.column) * CANNON, scene.screen_rgb)


def arrow(slopes: tuple[float, ...]) -> str:
    """Four numbers, as the table shows them."""
    return "(" + ", ".join(f"{v:+g}" if v else "0" for v in slopes) + ")"


@app.command(epilog="Example: vcs cannon --out out")
def cannon(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for cannon.png and cannon.json.")] = Path(
        "out"
    ),
) -> None:
    """Joystick to cannon in Space Invaders: the paper's numbers, and the true ones beside the machine's."""
    result = experiment()
    published, true = result.published, result.true
    files.write_bytes(out / "cannon.png", figure(result.rgb, result.forward, result.rounded, true))
    numbers: dict[str, Any] = {"published": asdict(published), "true": asdict(true)}
    files.write_text(out / "cannon.json", json.dumps(numbers, indent=1) + "\n")
    table = Table("quantity", "published protocol", "true", title="joystick to cannon")
    rows = [
        ("pixels of the cannon", published.pixels, true.pixels),
        ("map: non-zero pixels", published.non_zero, true.sampler_non_zero),
        ("map: sum of magnitudes", f"{published.l1:.0f}", f"{true.sampler_l1:.0f}"),
        (
            "machine: central difference",
            "LEFT does not move",
            f"{true.machine_non_zero} pixels, {true.machine_l1:.0f}",
        ),
        ("pixels where map and machine differ", "-", true.differing_pixels),
        ("mass on the cannon, edges included", f"{published.share_dilated:.1%}", f"{true.share:.1%}"),
        ("mass on what the stick moves", f"{published.share_moving:.1%}", f"{true.share:.1%}"),
        (
            "inverse, right (its kink convention)",
            f"{published.inverse.published[3]:.4f}",
            f"{true.inverse.published[3]:.4f}",
        ),
        (
            "inverse, right (symmetric)",
            f"{published.inverse.symmetric[3]:.4f}",
            f"{true.inverse.symmetric[3]:.4f}",
        ),
        ("naive map, largest", f"{published.naive:g}", f"{true.naive:g}"),
        ("d RAM[0x6E] / d right: gradient, machine", "-", f"{true.stick_slope:g}, {true.stick_effect:g}"),
        ("d column / d (up, down, left, right), pc", "-", arrow(true.stick_to_column_pc)),
        ("the same, join", "-", arrow(true.stick_to_column_join)),
        ("the machine, held two frames", "-", arrow(true.stick_to_column_effect)),
        (
            "d shown column / d RAM[0x1C]: gradient, machine",
            "-",
            f"{true.column_slope_value:.3f}, {true.column_effect:.3f}",
        ),
    ]
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
    console.print(f"written: {out / 'cannon.png'}, {out / 'cannon.json'}", highlight=False)

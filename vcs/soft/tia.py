"""TIA: registers, latches, positions and pixels of the soft machine (tia.md; `vcs/_hard/tia.pxi` is its
twin).

Models the content of every register, the delayed copies, motion, and each pixel as the colour of the
object that wins it, with the derivative of docs/gradients.md section 3. The beam's timing, strobed
columns, sizes and priorities are decisions: they come from the trace. A latched collision is the AND of its
two objects at the first pixel that both lit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vcs import layout, trace
from vcs.soft.ops import Cell, plain

if TYPE_CHECKING:
    from vcs.soft.replay import Run

Array = npt.NDArray[Any]

# What a pixel is a function of, in the order of the arguments of `pixels`.
COLOURS: Final = ("COLUP0", "COLUP1", "COLUPF", "COLUBK")
PARAMETERS: Final = (
    *COLOURS,
    "GRP0",
    "GRP1",
    "GRP0OLD",
    "GRP1OLD",
    "PF0",
    "PF1",
    "PF2",
    "pos P0",
    "pos P1",
    "pos M0",
    "pos M1",
    "pos BL",
    "ENAM0",
    "ENAM1",
    "ENABL",
    "ENABLOLD",
    "REFP0",
    "REFP1",
    "VDELP0",
    "VDELP1",
    "VDELBL",
    "RESMP0",
    "RESMP1",
)
LOCATIONS: Final = tuple(layout.parse(name) for name in PARAMETERS)

P0, P1, M0, M1, BL, PF = range(6)
# the objects whose collisions D7 and D6 of each read register latch (tia.md 11)
READS: Final = (
    ((M0, P1), (M0, P0)),
    ((M1, P0), (M1, P1)),
    ((P0, PF), (P0, BL)),
    ((P1, PF), (P1, BL)),
    ((M0, PF), (M0, BL)),
    ((M1, PF), (M1, BL)),
    ((BL, PF), None),
    ((P0, P1), (M0, M1)),
)
_ARK_STEPS: Final = (0, 160 - 17, 160 - 18, 160 - 33)
_FAR: Final = 1000  # offset of a copy that does not exist
_COPIES: Final = np.array(
    [
        [0, _FAR, _FAR],
        [0, 16, _FAR],
        [0, 32, _FAR],
        [0, 16, 32],
        [0, 64, _FAR],
        [0, _FAR, _FAR],
        [0, 32, 64],
        [0, _FAR, _FAR],
    ]
)
_STRETCH: Final = np.array([0, 0, 0, 0, 0, 1, 0, 2])  # log2 of the pixels of a player's bit
# register and bit shown by each of the 20 groups of the left half (tia.md 7.2)
_PF_REGISTER: Final = np.array([0] * 4 + [1] * 8 + [2] * 8)
_PF_BIT: Final = np.array([4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7])


class Scene(NamedTuple):
    """The decisions in force at some pixels: int arrays that broadcast with `x` (names as in the trace)."""

    x: Array
    nusiz0: Array
    nusiz1: Array
    ctrlpf: Array
    reflect: Array
    skip0: Array
    skip1: Array
    m0mode: Array
    dark: Array  # blanked, or under the comb
    loss: Array  # bit 0 of the colours (PAL colour loss)

    @classmethod
    def of(cls, segments: Array, x: Array) -> Scene:
        """From rows of `Trace.segments`, one (or one each) for the columns `x`."""
        s = segments
        return cls(
            x,
            s["nusiz"][..., 0].astype(int),
            s["nusiz"][..., 1].astype(int),
            s["ctrlpf"].astype(int),
            s["reflect"].astype(int),
            s["skip"][..., 0].astype(int),
            s["skip"][..., 1].astype(int),
            s["m0mode"].astype(int),
            (s["vblank"] & 2 != 0) | (s["comb"] != 0) & (x < 8),
            s["colu"][..., 0].astype(int) & 1,
        )


class Contribution(NamedTuple):
    """Part of a pixel's derivative: `slope` float[X] per unit of bit `bit` of a parameter.

    `bit` is int[X], or None for a number (a position), or -1 for a whole byte (a colour).
    """

    parameter: int
    bit: Array | int | None
    slope: Array


def _player_bit(x: Array, position: Any, nusiz: Array, skip: Array) -> Array:
    """Which graphics bit (7 = leftmost, before reflection) a player shows at x; -1 where no copy's cell
    is."""
    mode = nusiz & 7
    delta = (x - position) % 160
    stretch = _STRETCH[mode]
    at = delta[..., None] - _COPIES[mode] - (stretch > 0)[..., None]
    cell = at >> stretch[..., None]
    shown = (at >= 0) & (cell < 8)
    shown[..., 0] &= skip == 0
    bit: Array = np.where(shown, 7 - cell, -1).max(axis=-1)
    return bit


def _footprint(x: Array, position: Any, nusiz: Array, width: Array) -> Array:
    at = ((x - position) % 160)[..., None] - _COPIES[nusiz & 7]
    inside: Array = ((at >= 0) & (at < width[..., None])).any(axis=-1)
    return inside


class _Objects:
    """Which objects are lit at the pixels of a scene, given the values of the registers."""

    def __init__(self, values: tuple[Any, ...], scene: Scene) -> None:
        v = dict(zip(PARAMETERS, (np.asarray(value, dtype=int) for value in values)))
        x = scene.x
        self.v, self.scene = v, scene
        self.positions = [v["pos P0"], v["pos P1"], v["pos M0"], v["pos M1"], v["pos BL"]]
        self.reflected = [v["REFP0"] >> 3 & 1, v["REFP1"] >> 3 & 1]
        self.old = [v["VDELP0"] & 1, v["VDELP1"] & 1]
        self.graphics = [np.where(self.old[n], v[f"GRP{n}OLD"], v[f"GRP{n}"]) for n in (0, 1)]
        self.nusiz = [scene.nusiz0 + 0 * x, scene.nusiz1 + 0 * x]
        self.skip = [scene.skip0, scene.skip1]
        size0 = self.nusiz[0] >> 4 & 3
        # M0 stretched or hidden: Cosmic Ark (tia.md 10)
        self.width = [
            np.where(scene.m0mode == 2, 0, 1 << np.where(scene.m0mode == 1, size0 | 1, size0)),
            1 << (self.nusiz[1] >> 4 & 3),
            1 << ((scene.ctrlpf + 0 * x) >> 4 & 3),
        ]
        self.free = [(v[f"RESMP{n}"] >> 1 & 1) ^ 1 for n in (0, 1)]
        self.enabled = [
            v["ENAM0"] >> 1 & 1,
            v["ENAM1"] >> 1 & 1,
            np.where(v["VDELBL"] & 1, v["ENABLOLD"], v["ENABL"]) >> 1 & 1,
        ]
        group = x // 4
        mirrored = (group >= 20) & (scene.reflect == 1)
        group = np.where(mirrored, 39 - group, group % 20)
        self.pf_register, self.pf_bit = _PF_REGISTER[group], _PF_BIT[group]
        self.pf_byte = np.choose(self.pf_register, [v["PF0"], v["PF1"], v["PF2"]])
        anything = (
            (self.graphics[0] != 0)
            | (self.graphics[1] != 0)
            | (self.enabled[0] & self.free[0] != 0)
            | (self.enabled[1] & self.free[1] != 0)
            | (self.enabled[2] != 0)
        )
        # priority with score colours shows the latter while the playfield is the only enabled object (tia.md
        # 7.4)
        self.score = (scene.ctrlpf & 2 != 0) & ((scene.ctrlpf & 4 == 0) | ~anything)
        self.front = (scene.ctrlpf & 4 != 0) & ~self.score
        self.slots = [self.v[name] & 0xFE | scene.loss for name in COLOURS]

    def player_bit(self, n: int, x: Array) -> Array:
        return _player_bit(x, self.positions[n], self.nusiz[n], self.skip[n])

    def shown_bit(self, n: int, bit: Array, reflected: Any) -> Array:
        """The bit of the graphics byte behind a cell, after REFP; -1 stays -1."""
        return np.where((bit >= 0) & (reflected != 0), 7 - bit, bit)

    def player(self, n: int, x: Array, graphics: Any, reflected: Any) -> Array:
        bit = self.shown_bit(n, self.player_bit(n, x), reflected)
        lit: Array = (bit >= 0) & (graphics >> np.maximum(bit, 0) & 1 != 0)
        return lit

    def inside(self, o: int, x: Array) -> Array:
        """Footprint of a missile or the ball."""
        nusiz = self.nusiz[o - M0] if o != BL else np.zeros_like(self.nusiz[0])
        return _footprint(x, self.positions[o], nusiz, self.width[o - M0])

    def lit(self, o: int, x: Array) -> Array:
        if o <= P1:
            return self.player(o, x, self.graphics[o], self.reflected[o])
        if o == PF:
            field: Array = self.pf_byte >> self.pf_bit & 1 != 0
            return field
        shown = self.enabled[o - M0] & (self.free[o - M0] if o != BL else 1)
        lit: Array = self.inside(o, x) & (shown != 0)
        return lit

    def slot(self, lit: list[Array]) -> Array:
        """Which colour register shows: 0 COLUP0, 1 COLUP1, 2 COLUPF, 3 COLUBK (tia.md 7.4)."""
        a, b = lit[P0] | lit[M0], lit[P1] | lit[M1]
        ball, field = lit[BL], lit[PF]
        x = self.scene.x
        plain = np.where(a, 0, np.where(b, 1, np.where(ball | field, 2, 3)))
        front = np.where(ball | field, 2, np.where(a, 0, np.where(b, 1, 3)))
        score = np.where(a | field & (x < 80), 0, np.where(field | b, 1, np.where(ball, 2, 3)))
        return np.where(self.score, score, np.where(self.front, front, plain))

    def colour(self, lit: list[Array]) -> Array:
        colour: Array = np.choose(self.slot(lit), self.slots)
        return colour


def draw(values: tuple[Any, ...], scene: Scene) -> Array:
    """The pixels of a scene: int[X]. `values` are ints, or int arrays that broadcast with `scene.x`."""
    objects = _Objects(values, scene)
    lit = [objects.lit(o, scene.x) for o in range(6)]
    return np.where(scene.dark, 0, objects.colour(lit))


def pixels(*values: Any, scene: Scene, parts: Sequence[Contribution]) -> npt.NDArray[np.float64]:
    """The primitive behind `draw`: float64[X] from the 27 registers and positions of `PARAMETERS`.

    `parts` are its `slopes`, which its derivative rule uses.
    """
    return draw(values, scene).astype(np.float64)


def slopes(values: tuple[Any, ...], scene: Scene) -> Iterator[Contribution]:
    """The derivative of `pixels` (docs/gradients.md 3.3), before the rule set puts bits and bytes
    together."""
    on = _Objects(values, scene)
    x = scene.x
    bright = ~scene.dark + 0 * x
    lit = [on.lit(o, x) for o in range(6)]
    slot = on.slot(lit)
    for k in range(4):
        yield Contribution(k, -1, bright * (slot == k))
    for o in range(6):
        yes, no = list(lit), list(lit)
        yes[o], no[o] = np.ones_like(lit[o]), np.zeros_like(lit[o])
        gain = bright * (on.colour(yes) - on.colour(no))
        if not gain.any():
            continue
        yield from _object_slopes(on, o, gain)


def _object_slopes(on: _Objects, o: int, gain: Array) -> Iterator[Contribution]:
    """The derivative of `gain` times "object o is lit" (docs/gradients.md 3.3)."""

    def where(name: str) -> int:
        return PARAMETERS.index(name)

    x = on.scene.x
    if o == PF:
        for r in range(3):
            yield Contribution(where(f"PF{r}"), on.pf_bit, gain * (on.pf_register == r))
        return
    # the symmetric derivative of the triangular sampler (soft.md 2.8)
    left, right = on.lit(o, (x - 1) % 160), on.lit(o, (x + 1) % 160)
    yield Contribution(where("pos P0") + o, None, gain * (left.astype(int) - right) / 2)
    if o <= P1:
        cell = on.player_bit(o, x)
        bit = on.shown_bit(o, cell, on.reflected[o])
        there = gain * (bit >= 0)
        bit = np.maximum(bit, 0)
        yield Contribution(where(f"GRP{o}"), bit, there * (on.old[o] == 0))
        yield Contribution(where(f"GRP{o}OLD"), bit, there * (on.old[o] != 0))
        flipped = on.player(o, x, on.graphics[o], 1).astype(int) - on.player(o, x, on.graphics[o], 0)
        yield Contribution(where(f"REFP{o}"), 3 + 0 * x, gain * flipped)
        delayed = on.player(o, x, on.v[f"GRP{o}OLD"], on.reflected[o]).astype(int) - on.player(
            o, x, on.v[f"GRP{o}"], on.reflected[o]
        )
        yield Contribution(where(f"VDELP{o}"), 0 * x, gain * delayed)
    elif o == BL:
        there = gain * on.inside(BL, x)
        old = on.v["VDELBL"] & 1
        yield Contribution(where("ENABL"), 1 + 0 * x, there * (old == 0))
        yield Contribution(where("ENABLOLD"), 1 + 0 * x, there * (old != 0))
        yield Contribution(
            where("VDELBL"), 0 * x, there * ((on.v["ENABLOLD"] >> 1 & 1) - (on.v["ENABL"] >> 1 & 1))
        )
    else:
        n = o - M0
        there = gain * on.inside(o, x)
        yield Contribution(where(f"ENAM{n}"), 1 + 0 * x, there * on.free[n])
        yield Contribution(where(f"RESMP{n}"), 1 + 0 * x, -there * on.enabled[n])


def collision(*values: Any, scene: Scene, parts: Sequence[Contribution]) -> Cell:
    """A collision latch that was set at the one pixel of `scene`, from the values of `PARAMETERS` there.

    `parts` are its `collision_slopes`, which its derivative rule uses.
    """
    return Cell(1)


def collision_slopes(values: tuple[Any, ...], scene: Scene, pair: tuple[int, int]) -> Iterator[Contribution]:
    """The derivative of `collision`: an AND of the pair's two gates, both open."""
    on = _Objects(values, scene)
    for o in pair:
        yield from _object_slopes(on, o, np.ones(1))


def first_hits(
    values: npt.NDArray[np.int64], segments: Array, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int] | None]:
    """For each pair of objects the first pixel of some segments that both light: (segment, column) or None.

    values: int[S, 27], what each segment was drawn with. Blanked pixels collide with nothing; those under the
    comb do (tia.md 7.1, 7.3).
    """
    x0 = segments["x0"].astype(int)
    lengths = np.where(segments["vblank"] & 2 != 0, 0, segments["x1"].astype(int) - x0)
    which = np.repeat(np.arange(len(segments)), lengths)
    if not len(which):
        return [None] * len(pairs)
    x = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + x0[which]
    on = _Objects(tuple(values[which].T), Scene.of(segments[which], x))
    lit = [on.lit(o, x) for o in range(6)]
    found: list[tuple[int, int] | None] = []
    for one, two in pairs:
        both = np.flatnonzero(lit[one] & lit[two])
        found.append((int(which[both[0]]), int(x[both[0]])) if len(both) else None)
    return found


class Tia:
    """The registers while a trace is followed: every value a Cell, boxed or not."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.op = run.op
        self.cells: dict[int, Any] = {}
        self.ark = bool(run.x0[trace.ARK])
        self.adrift = False  # an Ark step may have come just before the HMOVE that ended the effect

    def cell(self, location: int) -> Any:
        """The value of a register (192..255), delayed copy (256..258) or position (259..263)."""
        if location not in self.cells:
            self.cells[location] = self.run.start_value(location)
        return self.cells[location]

    def follow_ark(self, column: int) -> None:
        """While the Cosmic Ark effect is on, each line end moves missile 0 (tia.md 10.2); which lines end
        is the
        beam's decision, so its column is the drawn one."""
        where = layout.POSITION + M0
        step = (column - plain(self.cell(where))) % 160
        if step not in _ARK_STEPS:
            self.run.differs("the column of missile 0", plain(self.cell(where)), column)
        if step:
            self.cells[where] = self.op.moved(self.cell(where), step)
        self.adrift = False

    def parameters(self) -> tuple[Any, ...]:
        """What the next segment is drawn with."""
        return tuple([self.cell(location) for location in LOCATIONS])

    def write(self, reg: int, value: Any, h: int, delta: Sequence[int]) -> None:
        """A store of `value` to register `reg` at horizontal clock `h` (tia.md 6.2); `delta`: the trace's
        motions."""
        put = self.cells
        here = layout.TIA_W + reg
        if reg == 0x1B:
            put[layout.TIA_X + 1] = self.cell(layout.TIA_W + 0x1C)
        elif reg == 0x1C:
            put[layout.TIA_X] = self.cell(layout.TIA_W + 0x1B)
            put[layout.TIA_X + 2] = self.cell(layout.TIA_W + 0x1F)
        elif 0x10 <= reg <= 0x14:
            put[layout.POSITION + reg - 0x10] = self._strobed(reg, h)
            self.adrift = self.adrift and reg != 0x12
        elif reg == 0x22:
            # 21 cycles after an HMOVE, from $7x to $6x: the Cosmic Ark effect (tia.md 10)
            old = plain(self.cell(here)) >> 4
            if self.run.clock == self.run.hmove_clock + 63 and (old, plain(value) >> 4) == (7, 6):
                self.ark = True
        elif reg in (0x28, 0x29):
            self._release(reg - 0x28, value)
        elif reg == 0x2A:
            self._hmove(h // 3, delta)
        elif reg == 0x2B:
            for k in range(5):
                put[layout.TIA_W + 0x20 + k] = Cell(0)
        put[here] = value

    def _strobed(self, reg: int, h: int) -> Any:
        """RESPx, RESMx, RESBL: the beam's column, a decision (tia.md 8.1, 8.6)."""
        if reg <= 0x11:
            return Cell(3 if h < 68 else (h - 63) % 160)
        since = self.run.clock - self.run.hmove_clock
        special = {
            (0x12, 60, 69): 8,
            (0x13, 9, 18): 3,
            (0x14, 54, 60): 10,
            (0x14, 54, 69): 10,
            (0x14, 9, 18): 3,
            (0x14, 21, 30): 6,
            (0x14, 18, 27): 5,
        }
        return Cell(special.get((reg, since, h), 2 if h < 68 else (h - 64) % 160))

    def _release(self, n: int, value: Any) -> None:
        if plain(self.cell(layout.TIA_W + 0x28 + n)) & 2 and not plain(value) & 2:
            mode = plain(self.cell(layout.TIA_W + 4 + n)) & 7
            pixels = 8 if mode == 5 else 16 if mode == 7 else 4
            self.cells[layout.POSITION + M0 + n] = self.op.moved(self.cell(layout.POSITION + n), pixels)
            self.adrift = self.adrift and n != 0

    def _hmove(self, cycle: int, delta: Sequence[int]) -> None:
        for k in range(5):
            before = self.cell(layout.POSITION + k)
            after = self.op.hmove(before, self.cell(layout.TIA_W + 0x20 + k), cycle)
            moved = (plain(after) - plain(before) + 80) % 160 - 80
            if moved != delta[k]:
                self.run.differs(f"HMOVE's motion of {['P0', 'P1', 'M0', 'M1', 'BL'][k]}", moved, delta[k])
            self.cells[layout.POSITION + k] = after
        self.run.hmove_clock = self.run.clock
        self.adrift = self.adrift or self.ark
        self.ark = False

    def read(self, register: int, recorded: int, noise: int) -> Any:
        """A read at the trace's current instruction (tia.md 12): `recorded` holds the latched bits."""
        run = self.run
        if register < 8:
            latches = [run.latch(pair) for pair in READS[register]]
            return self.op.latch(run.latches, register, recorded & 0xC0 | noise, *latches)
        if register in (0x0C, 0x0D):
            fire = 4 if register == 0x0C else 9
            return self.op.fire_pin(run.line(fire), noise)
        return Cell(recorded & 0x80 | noise)

"""The experiments of relaxation.md on the full machine: every function returns plain rows."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs import roms
from vcs.journal import Keep, forget
from vcs.machine import Machine
from vcs.relax import collapsed, model

Progress = Callable[[str, int, int], None]
Row = dict[str, Any]

BOUNDARY: Final = (
    (2, 0.14),
    (3, 0.14),
    (4, 0.14),
    (5, 0.14),
    (5.5, 0.14),
    (6, 0.14),
    (6, 0.08),
    (6, 0.10),
    (6, 0.12),
    (6, 0.145),
    (6, 0.15),
    (6, 0.18),
    (6, 0.20),
)
CROSS: Final = ((6, 0.14), (8, 0.05), (5, 0.14), (6, 0.15))
DELAYED: Final = (
    0.13,
    0.138,
    0.14,
    0.142,
    0.143,
    0.1435,
    0.144,
    0.1442,
    0.14437,
    0.14439,
    0.1444,
    0.14442,
    0.14445,
    0.1445,
    0.14455,
    0.1446,
    0.14465,
    0.1447,
    0.1448,
)
CORNER: Final = (6.0, 0.14)
KEY_RESET: Final = 1


def _quiet(_: str, __: int, ___: int) -> None:
    pass


def _key(what: str, game: str, **settings: Any) -> str:
    """What a row depends on, as the key of its piece in a journal (`Keep`)."""
    return json.dumps([what, game, roms.find(game).sha256, settings])


def fresh(game: str) -> Machine:
    """A machine just reset, RAM cleared (relaxation.md 3): A=X=Y=0, SP=$FF, P=$30, PC from the vector.

    The console's RESET key is still down, as the boot left it: the published PC hash has it so (Space
    Invaders reads
    it as its 1162nd instruction and goes the other way)."""
    m = Machine(game, protocol="xitari")
    for i in range(128):
        m.poke_ram(i, 0)
    m.system_reset()
    m.set_inputs(keys=KEY_RESET)
    return m


def instructions(game: str, n: int) -> tuple[list[int], list[bytes]]:
    """PCs before and RAM after each of the first n instructions from reset, exact."""
    m = fresh(game)
    pcs, rams = [], []
    for _ in range(n):
        pcs.append(m.registers.PC)
        m.step_instruction()
        rams.append(m.ram.tobytes())
    return pcs, rams


def first_difference(
    game: str, alpha: float, temperature: float, n: int, **hook: bool
) -> tuple[int | None, int | None]:
    """N_div in (PC, RAM) and in (PC, RAM, registers), each None within n instructions (relaxation.md 1.2).

    game: a name. alpha, temperature: sharpness of the branch gate, temperature of the relaxed read. hook:
    switches of `Machine.relax`.
    """
    exact, relaxed = fresh(game), fresh(game)
    relaxed.relax(alpha, temperature, **hook)
    with_registers = None
    for i in range(1, n + 1):
        exact.step_instruction()
        relaxed.step_instruction()
        a, b = exact.registers, relaxed.registers
        if with_registers is None and a != b:
            with_registers = i
        if a.PC != b.PC or (exact.ram != relaxed.ram).any():
            return i, with_registers if with_registers is not None else i
    return None, with_registers


def boundary(
    game: str = "space_invaders",
    n: int = 3000,
    settings: Sequence[tuple[float, float]] = BOUNDARY,
    progress: Progress = _quiet,
    keep: Keep = forget,
) -> list[Row]:
    """Table 3.1 and 3.2: N_div on the full and on the collapsed machine, with the cast-margin model of both
    traces. One row a setting.

    game: a name. n: instructions at most. settings: (alpha, T) pairs. progress: called with (what, done,
    all). keep: a journal's, for a run that goes on where it was killed.
    """
    rom = Machine(game, protocol="xitari").rom

    @cache
    def models() -> tuple[model.Margins, model.Margins | None]:
        small = model.summary(collapsed.run(rom, n), rom) if len(rom) <= 4096 else None
        return model.summary(instructions(game, n)[0], rom), small

    def row_of(alpha: float, temperature: float) -> Row:
        full, small = models()
        n_div, registers = first_difference(game, alpha, temperature, n)
        row: Row = {
            "game": game,
            "alpha": alpha,
            "T": temperature,
            "n": n,
            "n_div": n_div,
            "n_div_registers": registers,
            "p_branch": full.p_branch(alpha),
            "p_read": full.p_read(temperature),
            "rho": full.rho,
            "f_b": full.f_b,
            "p_step": model.p_step(full, alpha, temperature),
        }
        if small is not None:
            row |= {
                "collapsed_n_div": collapsed.n_div(rom, alpha, temperature, n),
                "collapsed_p_branch": small.p_branch(alpha),
                "collapsed_p_read": small.p_read(temperature),
                "collapsed_rho": small.rho,
                "collapsed_f_b": small.f_b,
                "collapsed_p_step": model.p_step(small, alpha, temperature),
            }
        return row

    rows = []
    for k, (alpha, temperature) in enumerate(settings):
        progress("boundary", k, len(settings))
        key = _key("boundary", game, n=n, alpha=alpha, T=temperature)
        rows.append(keep(key, partial(row_of, alpha, temperature)))
    return rows


def cross_game(
    games: Sequence[str] = ("pong", "breakout", "space_invaders"),
    n: int = 6000,
    progress: Progress = _quiet,
    keep: Keep = forget,
) -> list[Row]:
    """Table 3.4: N_div of several games from reset at four settings; a row each.

    games: names. n: instructions at most. progress: called with (what, done, all). keep: as in `boundary`.
    """

    def row_of(game: str, alpha: float, temperature: float) -> Row:
        rom = Machine(game, protocol="xitari").rom
        return {
            "game": game,
            "alpha": alpha,
            "T": temperature,
            "n": n,
            "n_div": first_difference(game, alpha, temperature, n)[0],
            "collapsed_n_div": collapsed.n_div(rom, alpha, temperature, n) if len(rom) <= 4096 else None,
        }

    rows = []
    for k, (alpha, temperature) in enumerate(CROSS):
        progress("cross", k, len(CROSS))
        for game in games:
            key = _key("cross_game", game, n=n, alpha=alpha, T=temperature)
            rows.append(keep(key, partial(row_of, game, alpha, temperature)))
    return rows


def second_stream(n: int) -> list[int]:
    """The second action stream of relaxation.md 4.2."""
    s = 1
    out: list[int] = []
    while len(out) < n:
        s = (1664525 * s + 1013904223) % 2**32
        out += [(0, 1, 3, 4, 11, 12)[(s >> 16) % 6]] * 4
    return out[:n]


def _frames(m: Machine, actions: Iterable[int]) -> Iterable[tuple[int, int]]:
    """CRC-32 of screen and RAM after each frame, without a game-over test (relaxation.md 4.2)."""
    for action in actions:
        m.set_inputs(action)
        m.run_frame()
        yield zlib.crc32(m.screen.tobytes()), zlib.crc32(m.ram.tobytes())


def _booted(game: str) -> Machine:
    m = Machine(game, protocol="xitari")
    m.reset()
    return m


def delayed(
    game: str = "space_invaders",
    temperatures: Sequence[float] = DELAYED,
    alpha: float = 20.0,
    frames: int = 3000,
    actions: Sequence[int] | None = None,
    progress: Progress = _quiet,
    keep: Keep = forget,
    **hook: bool,
) -> list[Row]:
    """Table 4.4: the first frame whose screen (and whose RAM) differs from the exact run, exact boot, for
    each T.

    game: a name. temperatures: a row each. alpha: of the branch gate. frames: to play. actions: of the
    frames, default NOOP. progress: called with (what, done, all). keep: as in `boundary`. hook: switches of
    `Machine.relax`.
    """
    stream = [0] * frames if actions is None else list(actions)[:frames]

    @cache
    def exact() -> list[tuple[int, int]]:
        return list(_frames(_booted(game), stream))

    def row_of(temperature: float) -> Row:
        m = _booted(game)
        m.relax(alpha, temperature, **hook)
        screen = ram = wrong = None
        for i, (got, want) in enumerate(zip(_frames(m, stream), exact(), strict=True), 1):
            if wrong is None and m.relax_events:
                wrong = i
            if ram is None and got[1] != want[1]:
                ram = i
            if got[0] != want[0]:
                screen = i
                break
        return {
            "game": game,
            "alpha": alpha,
            "T": temperature,
            "frames": frames,
            "frame": screen,
            "ram_frame": ram,
            "wrong_cast_frame": wrong,
            "first_wrong": m.relaxation["first"],
        }

    rows = []
    played = zlib.crc32(bytes(stream))
    for k, temperature in enumerate(temperatures):
        progress("delayed", k, len(temperatures))
        key = _key("delayed", game, T=temperature, alpha=alpha, frames=frames, actions=played, **hook)
        rows.append(keep(key, partial(row_of, temperature)))
    return rows


def shadow(
    game: str = "space_invaders",
    temperatures: Sequence[float] = (0.14, 0.144, 0.1444, 0.145, 0.15),
    frames: int = 1800,
    progress: Progress = _quiet,
    keep: Keep = forget,
) -> list[Row]:
    """Casts computed but not applied: how many of each kind would round wrong (relaxation.md 3.3).

    game: a name. temperatures: a row each. frames: to play. progress: called with (what, done, all). keep:
    as in `boundary`.
    """

    def row_of(temperature: float) -> Row:
        m = _booted(game)
        m.relax(6.0, temperature, shadow=True)
        for _ in range(frames):
            m.set_inputs()
            m.run_frame()
        counts = m.relaxation
        return {
            "game": game,
            "T": temperature,
            "frames": frames,
            "rom_reads": counts["rom"],
            "ram_reads": counts["ram"],
            "other_reads": counts["other"],
            "branches": counts["branches"],
            **{f"wrong_{kind}": n for kind, n in counts["wrong"].items()},
        }

    rows = []
    for k, temperature in enumerate(temperatures):
        progress("shadow", k, len(temperatures))
        rows.append(keep(_key("shadow", game, T=temperature, frames=frames), partial(row_of, temperature)))
    return rows


def corner(
    games: Sequence[str],
    frames: int = 3600,
    settings: Sequence[tuple[float, float]] = (CORNER, (5.0, 0.14), (6.0, 0.15)),
    progress: Progress = _quiet,
    keep: Keep = forget,
) -> list[Row]:
    """For each game and setting: wrong casts and the first frame that differs from the exact run (None:
    exact).

    games: names. frames: to play. settings: (alpha, T) pairs. progress: called with (what, done, all). keep:
    as in `boundary`.
    """

    @lru_cache(maxsize=1)
    def exact(game: str) -> list[tuple[int, int]]:
        return list(_frames(_booted(game), [0] * frames))

    def row_of(game: str, alpha: float, temperature: float) -> Row:
        m = _booted(game)
        m.relax(alpha, temperature)
        frame = None
        for i, (got, want) in enumerate(zip(_frames(m, [0] * frames), exact(game), strict=True), 1):
            if got != want:
                frame = i
                break
        counts = m.relaxation
        return {
            "game": game,
            "mapper": m.mapper,
            "alpha": alpha,
            "T": temperature,
            "frames": frames,
            "frame": frame,
            "wrong_rom": counts["wrong"]["rom"],
            "wrong_ram": counts["wrong"]["ram"],
            "wrong_branch": counts["wrong"]["branch"],
        }

    rows = []
    for k, game in enumerate(games):
        progress("corner", k, len(games))
        for alpha, temperature in settings:
            key = _key("corner", game, frames=frames, alpha=alpha, T=temperature)
            rows.append(keep(key, partial(row_of, game, alpha, temperature)))
    return rows


def video_frames(
    game: str, frames: int, settings: Sequence[tuple[float, float]], progress: Progress = _quiet
) -> Iterable[list[npt.NDArray[np.uint8]]]:
    """Screens of the exact machine and of each relaxed one, frame by frame, exact boot, NOOP."""
    machines = [_booted(game)]
    for alpha, temperature in settings:
        m = _booted(game)
        m.relax(alpha, temperature)
        machines.append(m)
    for i in range(frames):
        progress("video", i, frames)
        for m in machines:
            m.set_inputs()
            m.run_frame()
        yield [m.screen for m in machines]


def video_rows(
    game: str = "space_invaders",
    frames: int = 1800,
    settings: Sequence[tuple[float, float]] = ((6.0, 0.14), (5.5, 0.14), (5.5, 0.145), (6.0, 0.145)),
    progress: Progress = _quiet,
) -> list[Row]:
    """Table 4.3: how often and how much each setting's picture differs from the exact one.

    game: a name. frames: to compare. settings: (alpha, T) pairs, a row each. progress: called with (what,
    done, all).
    """
    counts: list[list[int]] = [[] for _ in settings]
    for screens in video_frames(game, frames, settings, progress):
        for k, screen in enumerate(screens[1:]):
            counts[k].append(int((screen != screens[0]).sum()))
    rows = []
    for (alpha, temperature), pixels in zip(settings, counts, strict=True):
        differs = [i + 1 for i, n in enumerate(pixels) if n]
        early = pixels[:1000]
        rows.append(
            {
                "game": game,
                "alpha": alpha,
                "T": temperature,
                "frames": frames,
                "first_frame": differs[0] if differs else None,
                "frames_differing": len(differs),
                "pixels_min": min(early),
                "pixels_median": int(np.median(early)),
                "pixels_max": max(early),
            }
        )
    return rows


def deviation(
    game: str = "space_invaders",
    n: int = 3000,
    alphas: Sequence[float] = (2, 4, 6, 8, 12, 16),
    temperatures: Sequence[float] = (0.05, 0.08, 0.11, 0.14),
) -> list[Row]:
    """Theorem 2 in numbers: the largest unrounded one-step deviation of branches and opcode reads on an
    executed trace beside its bound, 127 exp(-alpha) and 510 exp(-1/T), and the derivatives of both."""
    pcs, _ = instructions(game, n)
    rom = Machine(game, protocol="xitari").rom
    m = model.summary(pcs, rom)
    largest = int(np.abs(m.offsets).max(initial=0))
    rows: list[Row] = []
    for alpha in alphas:
        error = largest / (1 + math.exp(alpha))
        rows.append(
            {
                "kind": "branch",
                "alpha": alpha,
                "T": None,
                "deviation": error,
                "bound": 127 * math.exp(-alpha),
                "derivative": alpha * math.exp(-alpha) / (1 + math.exp(-alpha)) ** 2,
            }
        )
    for temperature in temperatures:
        pull = float(np.abs(model.read_pull(m.fetched, temperature)).max())
        rows.append(
            {
                "kind": "read",
                "alpha": None,
                "T": temperature,
                "deviation": pull,
                "bound": 510 * math.exp(-1 / temperature),
                "derivative": float(model.weights(temperature)[1]),
            }
        )
    return rows

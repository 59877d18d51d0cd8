"""The Atari 2600 as a Python object: `Machine`.

It puts a cartridge (`vcs.roms`), its mapper (`vcs.cart`), its game's rules (`vcs.games`) and the console
properties together and runs them on the compiled hard engine (`vcs._hard.machine.Core`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vcs import cart, checks, games, roms
from vcs import trace as _trace
from vcs._hard.machine import Core, Snapshot, picture_rgb
from vcs.data import load_json
from vcs.errors import VcsError

__all__ = ["Machine", "Registers", "Snapshot"]

_FORMATS = {"AUTO-DETECT": 0, "NTSC": 1, "PAL": 2, "SECAM": 3}
PADDLE_MIN, PADDLE_MAX = 27450, 790196  # environment.md 5.4
INT_MIN, INT_MAX = -2147483648, 2147483647


class Registers(NamedTuple):
    """CPU registers: bytes, and the 16-bit program counter. P is packed (cpu.md 2.2)."""

    A: int
    X: int
    Y: int
    SP: int
    P: int
    PC: int


@cache
def palette(pal: bool = False, protocol: str = "ale") -> NDArray[np.uint8]:
    """uint8[256, 3]: RGB of each palette index (environment.md 7.2, 7.3)."""
    table = load_json("palettes.json")["PAL" if pal and protocol == "ale" else "NTSC"]
    rgb = np.array([[int(c[i : i + 2], 16) for i in (0, 2, 4)] for c in table], np.uint8)
    if protocol == "xitari":
        rgb[1::2] = 0
    rgb.setflags(write=False)
    return rgb


@cache
def colour_words(pal: bool = False, protocol: str = "ale") -> NDArray[np.uint32]:
    """uint32[256]: bytes R G B 0 of each entry of `palette`, for `vcs._hard.machine.picture_rgb`."""
    quads = np.zeros((256, 4), np.uint8)
    quads[:, :3] = palette(pal, protocol)
    words: NDArray[np.uint32] = quads.view(np.uint32)[:, 0].copy()
    words.setflags(write=False)
    return words


@cache
def _warn_unknown(name: str) -> None:
    warnings.warn(f"{name} has no game rules: rewards and lives are 0 and it never ends", stacklevel=4)


class Machine(Core):
    """An Atari 2600 with a cartridge, ready to play.

    rom: path, bytes, `vcs.roms.Rom`, or a game name (ale-py's wheel, `$VCS_ROM_PATH`, our own cartridges).
    protocol: "ale" (ale-py 0.12.1) or "xitari": how the console is powered on, booted and stepped
        (environment.md 0).
    seed: seeds sticky actions (ale's `random_seed`); with `repeat_action_probability` 0 it changes nothing.
    mapper: force a bank-switching scheme by name (`vcs.cart.MAPPERS`); None detects it.
    mode, difficulty: numbers the game offers; None is its default. frame_skip: frames of one step.
    options: `system_random_seed` (4753849), `max_num_frames_per_episode` (0 = no limit), `reward_min`,
        `reward_max`, `truncate_on_loss_of_life` (False), `paddle_min`, `paddle_max`, `ystart`, `height`,
        `display_format` ("NTSC", "PAL", "SECAM", "AUTO-DETECT"), `hmove_blanks`.

    The constructor boots once, as `loadROM` (ale) or construction (xitari) does; `reset()` boots again.

    Attributes: `ram` uint8[128]; `screen` uint8[rows, 160], palette indices; `rom` bytes and `rom_sha256`,
    its hash as hexadecimal text; `frame`, `episode_frame`: frames since construction and since the reset;
    `lives`; `truncated`: a limit of the options was reached; `mode`, `difficulty`; `paddle`: the resistances
    of the two paddles; `cycles`: CPU cycles of this frame. Arrays are copies; `poke_ram` and its kin write.

    Raises VcsError for a bad ROM, an unknown game, or an option out of range.
    """

    def __init__(
        self,
        rom: str | os.PathLike[str] | bytes | roms.Rom,
        *,
        protocol: str = "ale",
        seed: int = 0,
        mapper: str | None = None,
        mode: int | None = None,
        difficulty: int | None = None,
        frame_skip: int = 1,
        repeat_action_probability: float = 0.0,
        **options: Any,
    ) -> None:
        image = roms.find(rom)
        props = roms.properties(image.md5, protocol)
        forced = mapper or (None if props.cartridge_type == "AUTO-DETECT" else props.cartridge_type)
        self.mapper: str = cart.detect(image.data, image.md5, forced, protocol)
        found = games.get_game(image.game) if image.game else games.find_game(image.md5, None)
        self.game: str | None = found.name if found else None
        self.name: str = image.name
        self.md5: str = image.md5
        self.protocol: str = protocol
        self.seed: int = seed
        self.rules: games.Rules = (
            found.rules(protocol) if found else games.neutral_rules(protocol, image.name)
        )
        if found is None:
            _warn_unknown(image.name)
        self._start_mode = self.rules.default_mode if mode is None else mode
        self._start_difficulty = 0 if difficulty is None else difficulty
        if self._start_mode not in self.rules.modes:
            raise VcsError(
                f"{self.name} has no mode {mode}; it offers {', '.join(map(str, self.rules.modes))}"
            )
        if difficulty is not None and difficulty not in self.rules.difficulties:
            raise VcsError(
                f"{self.name} has no difficulty {difficulty}; it offers "
                f"{', '.join(map(str, self.rules.difficulties))}"
            )
        checks.whole("frame_skip", frame_skip, 1)
        checks.real("repeat_action_probability", repeat_action_probability, 0, 1)
        ale = protocol == "ale"

        def option(key: str, default: Any) -> Any:
            return options.pop(key, default)

        def number(key: str, default: int, low: int = INT_MIN, high: int = INT_MAX) -> int:
            return checks.whole(key, option(key, default), low, high)

        fmt = str(option("display_format", props.display_format)).upper()
        if fmt not in _FORMATS:
            raise VcsError(f"display_format is {fmt!r}; use one of {', '.join(_FORMATS)}")
        paddle_max = option("paddle_max", self.rules.settings.get("paddle_max", PADDLE_MAX))
        settings: dict[str, Any] = {
            "ale": ale,
            "y0": number("ystart", props.ystart),
            "height": number("height", props.height),
            "format": _FORMATS[fmt],
            "hmove_blanks": bool(option("hmove_blanks", props.hmove_blanks)),
            "paddles": (props.left_controller == "PADDLES") | (props.right_controller == "PADDLES") << 1,
            "swap_ports": props.swap_ports,
            "swap_paddles": props.swap_paddles,
            "swchb": 0x37
            | (props.television_type == "COLOR") << 3
            | (props.left_difficulty != "B") << 6
            | (props.right_difficulty != "B") << 7,
            "paddle_min": number("paddle_min", PADDLE_MIN),
            "paddle_max": checks.whole("paddle_max", paddle_max, INT_MIN, INT_MAX),
            "program": self.rules.program,
            "system_seed": 0xFFFFFFFF
            & checks.seed("system_random_seed", option("system_random_seed", 4753849)),
            "sticky_seed": checks.seed("seed", seed) & 0xFFFFFFFF,
            # the option passes through six significant digits and a float32 (environment.md 6.3)
            "sticky_p": float(np.float32(f"{repeat_action_probability:g}")) if ale else 0.0,
            "frame_skip": frame_skip,
            "max_frames": number("max_num_frames_per_episode", 0),
            "reward_min": number("reward_min", INT_MIN),
            "reward_max": number("reward_max", INT_MAX),
            "trunc_on_life": bool(option("truncate_on_loss_of_life", False)) and ale,
        }
        if options:
            raise VcsError(f"unknown option {sorted(options)[0]!r}; see the documentation of vcs.Machine")
        self._settings = settings
        super().__init__(image.data, cart.MAPPERS[self.mapper], **settings)
        self.boot()
        self.difficulty = self._start_difficulty
        if self._start_mode != self.rules.default_mode:
            self.mode = self._start_mode

    def reset(self) -> None:
        """Start an episode: the protocol's boot sequence (environment.md 3.2, 4.1)."""
        self.boot()

    def step(self, action: int, strength: float = 1.0) -> float:
        """Play `frame_skip` frames with an action 0..17 and return the reward (environment.md 6).

        strength: of paddle movements. Raises VcsError for an action out of range."""
        try:
            fits = 0 <= action < 18
        except (TypeError, ValueError):  # nothing to compare with a number, or an array
            fits = False
        if not fits:
            raise VcsError(f"action {action} does not exist; actions are 0 (NOOP) to 17 (DOWNLEFTFIRE)")
        return float(self.act(action, strength))

    @property
    def registers(self) -> Registers:
        """A, X, Y, SP, P, PC."""
        return Registers(*self.cpu())

    @property
    def screen_rgb(self) -> NDArray[np.uint8]:
        """uint8[rows, 160, 3]: the picture in colour."""
        rgb: NDArray[np.uint8] = picture_rgb(self, colour_words(self.pal, self.protocol))
        return rgb

    @property
    def game_over(self) -> bool:
        """True once the game has ended (truncation apart, see `truncated`)."""
        return bool(self.over)

    @property
    def actions(self) -> tuple[int, ...]:
        """The game's minimal action set."""
        return self.rules.minimal_actions

    def clone(self) -> Machine:
        """An independent machine in the same state."""
        twin: Machine = Machine.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.copy_from(self)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.rom, dict(self.__dict__), self.snapshot())

    def __deepcopy__(self, memo: dict[int, Any]) -> Machine:
        return self.clone()

    def trace(self, actions: Sequence[int] | NDArray[np.integer[Any]]) -> _trace.Trace:
        """Play the actions and record everything that happened (docs/design.md, "The trace")."""
        return _trace.record(self, checks.actions(actions))

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, protocol={self.protocol!r}, mapper {self.mapper}, frame {self.frame})"


def _revive(kind: type[Machine], rom: bytes, attributes: dict[str, Any], snapshot: Snapshot) -> Machine:
    """Rebuild a pickled machine: the constructor's work without its boot, then the state."""
    machine = kind.__new__(kind)
    machine.__dict__.update(attributes)
    Core.__init__(machine, rom, cart.MAPPERS[machine.mapper], **attributes["_settings"])
    machine.restore(snapshot)
    return machine

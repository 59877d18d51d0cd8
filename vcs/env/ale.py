"""`ALE`: Glass VCS with the names of `ale_py.ALEInterface`, so that a program runs by changing its import.

    from vcs.env import ALEInterface, Action, LoggerMode      # was: from ale_py import ...

It follows ale-py 0.12.1 in everything that an agent sees: RAM, pictures, rewards, lives, endings, counters,
random streams, options and their defaults (specification `spec/environment.md`). It departs where ale-py
loses information or ends the process:

* A restored state is complete: RAM *and* screen read right at once, and the held sticky action comes back, so
  the future is that of the saved machine. (ale-py's screen is stale until the next act.)
* What ale-py answers with the end of the process (an unsupported image, an action number that does not exist,
  a picture asked for before a ROM is loaded) is an exception here. Images without game rules play with
  reward 0.
* There is no sound and no window of its own: asking for either is refused with a sentence.
"""

from __future__ import annotations

import hashlib
import operator
import os
import secrets
import struct
import sys
from enum import Enum
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vcs import games, roms
from vcs._hard.machine import picture_gray, picture_rgb
from vcs.errors import VcsError
from vcs.games import Action
from vcs.machine import Machine, Snapshot, colour_words, palette

__all__ = ["ALE", "ALEError", "ALEInterface", "ALEState", "Action", "LoggerMode"]

Bytes = NDArray[np.uint8]


class LoggerMode(Enum):
    """What is written to standard error; `ALE.setLoggerMode` chooses."""

    Info = 0
    Warning = 1
    Error = 2


class ALEError(VcsError, RuntimeError):
    """What ale-py reports as RuntimeError; also a VcsError."""


# Options with their defaults (environment.md 6.6). Those after the line change nothing; ale-py has them too.
_INTS: Final = {
    "random_seed": -1, "system_random_seed": 4753849, "frame_skip": 1, "max_num_frames_per_episode": 0,
    "reward_min": -(2**31), "reward_max": 2**31 - 1, "paddle_min": -1, "paddle_max": -1,
    # ---
    "max_num_frames": 0, "fragsize": 64,
}  # fmt: skip
_FLOATS: Final = {"repeat_action_probability": 0.25}
_BOOLS: Final = {
    "color_averaging": False, "truncate_on_loss_of_life": False, "sound_obs": False, "display_screen": False,
    "sound": False,
    # ---
    "restricted_action_set": False, "send_rgb": False, "run_length_encoding": True,
}  # fmt: skip
_STRINGS: Final = {"rom_file": "", "record_screen_dir": "", "record_sound_filename": "", "cpu": "low"}

_NO_ROM = "ROM not set: call loadROM first"
NO_SOUND = "Glass VCS has no sound: leave sound_obs and sound off (pictures and RAM do not depend on them)"


class ALEState:
    """A saved state: everything the future depends on, pictures included.

    `ALEState(data)` reads what `serialize` gave; `ALEState()` is empty and cannot be restored. Pickles.
    States are equal if their bytes are. Raises ALEError for damaged or foreign bytes.
    """

    _MAGIC = b"VCSA\x01"
    _HEAD = struct.Struct("<?iiii")

    def __init__(self, data: bytes | None = None) -> None:
        self._snapshot: Snapshot | None = None
        self._rng = False
        self._frame = self._episode_frame = self._difficulty = self._mode = 0
        if data is not None:
            self.__setstate__(data)

    @classmethod
    def _of(cls, machine: Machine, rng: bool) -> ALEState:
        state = cls()
        state._snapshot = machine.snapshot()
        state._rng = rng
        state._frame, state._episode_frame = machine.frame, machine.episode_frame
        state._difficulty, state._mode = machine.difficulty, machine.mode
        return state

    def getFrameNumber(self) -> int:
        """Frames since the ROM was loaded."""
        return self._frame

    def getEpisodeFrameNumber(self) -> int:
        """Frames of the episode."""
        return self._episode_frame

    def getDifficulty(self) -> int:
        """The difficulty in force."""
        return self._difficulty

    def getCurrentMode(self) -> int:
        """The mode in force."""
        return self._mode

    def equals(self, other: ALEState) -> bool:
        """True if this state and the other are the same to the byte."""
        return self == other

    def serialize(self) -> bytes:
        """The state as bytes (about 100 KB), with a version and checksums."""
        body = self._HEAD.pack(self._rng, self._frame, self._episode_frame, self._difficulty, self._mode)
        body += self._snapshot.to_bytes() if self._snapshot is not None else b""
        return self._MAGIC + hashlib.sha256(body).digest() + body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ALEState) and self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash(self.serialize())

    def __getstate__(self) -> bytes:
        return self.serialize()

    def __setstate__(self, data: bytes) -> None:
        start = len(self._MAGIC)
        body = data[start + 32 :]
        if (
            data[:start] != self._MAGIC
            or len(body) < self._HEAD.size
            or hashlib.sha256(body).digest() != data[start : start + 32]
        ):
            raise ALEError("these bytes are no state, or a damaged one: pass what ALEState.serialize gave")
        fields = self._HEAD.unpack_from(body)
        self._rng, self._frame, self._episode_frame, self._difficulty, self._mode = fields
        rest = body[self._HEAD.size :]
        self._snapshot = Snapshot.from_bytes(rest) if rest else None


@cache
def gray_levels(pal: bool) -> Bytes:
    """uint8[256]: gray of each palette index, the blue byte of the next entry (environment.md 7.2)."""
    levels = np.zeros(256, np.uint8)
    levels[:255] = palette(pal)[1:, 2]
    levels.setflags(write=False)
    return levels


@cache
def blend(pal: bool) -> Bytes:
    """uint8[256, 256]: palette index for (index now, index one frame before) under colour averaging.

    Odd indices (PAL colour loss) have no defined result in the reference; here they count as their colours.
    """
    rgb = palette(pal).astype(np.int32)
    even = rgb[::2]
    table = np.empty((256, 256), np.uint8)
    for now in range(256):
        high, low = np.maximum(rgb[now], rgb), np.minimum(rgb[now], rgb)
        mixed = (low + 77 * (high - low) // 100) & ~3
        distance = np.abs(mixed[:, None, :] - even[None, :, :]).sum(2)
        table[now] = 2 * distance.argmin(1)
    table.setflags(write=False)
    return table


class ALE:
    """The Arcade Learning Environment's interface on our machine. See the module's text for what differs.

    Set options first, then `loadROM`, then `act` and `reset_game`. Errors are ALEError (a RuntimeError), and
    TypeError for arguments of a wrong type, as in ale-py. log: False keeps this object from writing to
    standard error.
    """

    _mode: LoggerMode = LoggerMode.Info

    def __init__(self, *, log: bool = True) -> None:
        self._talks = log
        self._options: dict[str, Any] = {**_INTS, **_FLOATS, **_BOOLS, **_STRINGS}
        self._m: Machine | None = None

    # ------------------------------------------------------------------ options
    def _set(self, key: str, value: Any, known: dict[str, Any]) -> None:
        if key not in known:
            raise ALEError(
                f"The key {key} you are trying to set does not exist or has incorrect value type: "
                f"with this setter, set one of {', '.join(known)}"
            )
        self._options[key] = value

    def setInt(self, key: str, value: int) -> None:
        """Set the integer option `key` to `value`, from the next loadROM on. VcsError: outside int32."""
        number = operator.index(value)
        if not -(2**31) <= number < 2**31:
            raise TypeError(f"setInt(): {number} does not fit into 32 bits")
        known: dict[str, Any] = {**_INTS, **dict.fromkeys(("sound",))} if key == "sound" else dict(_INTS)
        self._set(key, bool(number) if key == "sound" else number, known)

    def setFloat(self, key: str, value: float) -> None:
        """Set the float option `key` to `value`; six significant digits are kept, as in ale-py
        (environment.md 6.3)."""
        self._set(key, float(np.float32(f"{float(np.float32(value)):g}")), dict(_FLOATS))

    def setBool(self, key: str, value: bool) -> None:
        """Set the Boolean option `key` to `value`. Raises VcsError for one that takes no Boolean."""
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"setBool(): {value!r} is not a bool")
        self._set(key, bool(value), dict(_BOOLS))

    def setString(self, key: str, value: str) -> None:
        """Set the text option `key` to `value`. Raises VcsError for a text it does not take."""
        if not isinstance(value, str):
            raise TypeError(f"setString(): {value!r} is not a str")
        self._set(key, value, dict(_STRINGS))

    def getInt(self, key: str) -> int:
        """The option `key` as an integer; -1 for a name that does not exist."""
        value = self._options.get(key, -1)
        return 0 if isinstance(value, str) else int(value)

    def getFloat(self, key: str) -> float:
        """The option `key` as a float; -1.0 for a name that does not exist."""
        value = self._options.get(key, -1.0)
        return 0.0 if isinstance(value, str) else float(np.float32(value))

    def getBool(self, key: str) -> bool:
        """The option `key` as a Boolean: True for True and the number 1, False for a name that does not
        exist."""
        value = self._options.get(key, False)
        return not isinstance(value, str) and value == 1

    def getString(self, key: str) -> str:
        """The option `key` as text; "" for a name that does not exist."""
        value = self._options.get(key, "")
        if isinstance(value, bool):
            return str(int(value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    # ------------------------------------------------------------------ loading and playing
    @staticmethod
    def setLoggerMode(mode: LoggerMode) -> None:
        """Choose what is written to standard error. mode: Info (all), Warning (and errors) or Error."""
        ALE._mode = LoggerMode(mode)

    @staticmethod
    def isSupportedROM(path: str | os.PathLike[str]) -> str | None:
        """Name of the game whose image the file `path` is (by MD5), or None. ALEError: there is no file."""
        game = games.find_game(roms.find(_path(path)).md5)
        return game.name if game else None

    def loadROM(self, path: str | os.PathLike[str]) -> None:
        """Load an image and boot it once, with the options set so far (environment.md 4.1).

        path: of the image. Raises ALEError if it cannot be read or an option cannot be honoured.
        """
        rom = roms.find(_path(path))
        o = self._options
        if o["sound_obs"] or o["sound"]:
            raise ALEError(NO_SOUND)
        if o["display_screen"]:
            raise ALEError("ALE opens no window: leave display_screen off, and use gymnasium.make(..., "
                           'render_mode="human") or getScreenRGB')  # fmt: skip
        if rom.game is None:
            self._log(LoggerMode.Warning, f"{rom.name} has no game rules: reward and lives stay 0")
        else:
            game = games.get_game(rom.game)
            if game.md5 != rom.md5:
                self._log(LoggerMode.Warning, f"not the known image of {game.name}: MD5 {rom.md5}")
            # the overrides of two paddle games stay set for later ROMs, as in ale-py (environment.md 5.4)
            o.update(game.rules("ale").settings)
        limits = {key: o[key] for key in ("paddle_min", "paddle_max") if o[key] != -1}
        seed = o["random_seed"]
        self._m = Machine(
            rom,
            seed=secrets.randbits(32) if seed == -1 else seed,
            frame_skip=max(o["frame_skip"], 1),
            repeat_action_probability=o["repeat_action_probability"],
            system_random_seed=o["system_random_seed"],
            max_num_frames_per_episode=o["max_num_frames_per_episode"],
            reward_min=o["reward_min"],
            reward_max=o["reward_max"],
            truncate_on_loss_of_life=o["truncate_on_loss_of_life"],
            **limits,
        )
        o["rom_file"] = os.fspath(path)
        self._averaging = bool(o["color_averaging"])
        self._log(LoggerMode.Info, f"{rom.name}: {self._m.mapper}, random seed {self._m.seed}")

    def _log(self, mode: LoggerMode, text: str) -> None:
        if self._talks and mode.value >= self._mode.value:
            print(text, file=sys.stderr)

    @property
    def machine(self) -> Machine:
        """The machine that plays, for everything ale-py has no name for. Raises ALEError before loadROM."""
        if self._m is None:
            raise ALEError(_NO_ROM)
        return self._m

    def act(self, action: int, paddle_strength: float = 1.0) -> int:
        """Play one step (frame_skip frames) and return its reward.

        action: 0..17 or an `Action`. paddle_strength: factor of a paddle's movement.
        """
        number = operator.index(action)
        if not 0 <= number < 18:
            raise ALEError(f"action {number} does not exist: use 0 (NOOP) to 17 (DOWNLEFTFIRE)")
        return int(self.machine.act(number, paddle_strength))

    def reset_game(self) -> None:
        """Start a new episode in the current mode. Raises VcsError if the mode cannot be reached."""
        self.machine.reset()

    def game_over(self, with_truncation: bool = True) -> bool:
        """True if the game has ended or, with_truncation, a limit of the options has been reached."""
        m = self.machine
        return bool(m.over or (with_truncation and m.truncated))

    def game_truncated(self) -> bool:
        """True if a limit of the options (frames, loss of life) has been reached."""
        return bool(self.machine.truncated)

    def lives(self) -> int:
        """Lives left, as the game's rules report them; 0 for games without lives."""
        return int(self.machine.lives)

    def getFrameNumber(self) -> int:
        """Frames played since loadROM."""
        return int(self.machine.frame)

    def getEpisodeFrameNumber(self) -> int:
        """Frames played in this episode."""
        return int(self.machine.episode_frame)

    def getLegalActionSet(self) -> list[Action]:
        """All actions that the game accepts, ascending."""
        return [Action(a) for a in self.machine.rules.legal_actions]

    def getMinimalActionSet(self) -> list[Action]:
        """The actions that make a difference in the game, ascending."""
        return [Action(a) for a in self.machine.rules.minimal_actions]

    def getAvailableModes(self) -> list[int]:
        """Modes that setMode accepts; the first is the default."""
        return list(self.machine.rules.modes)

    def getAvailableDifficulties(self) -> list[int]:
        """Difficulties that setDifficulty accepts."""
        return list(self.machine.rules.difficulties)

    def setMode(self, mode: int) -> None:
        """Choose a mode for the next reset_game."""
        number = operator.index(mode)
        if number not in self.machine.rules.modes:
            raise ALEError(f"Invalid game mode requested: {number}; the game has {self.getAvailableModes()}")
        self.machine.mode = number

    def setDifficulty(self, difficulty: int) -> None:
        """Set the difficulty switches, from the next frame on."""
        number = operator.index(difficulty)
        if number not in self.machine.rules.difficulties:
            raise ALEError(
                f"Invalid difficulty requested: {number}; the game has {self.getAvailableDifficulties()}")
        self.machine.difficulty = number

    # ------------------------------------------------------------------ RAM and pictures
    def getRAMSize(self) -> int:
        """128."""
        return 128

    def getRAM(self, buffer: Bytes | None = None) -> Bytes | None:
        """uint8[128]: RAM, or None if it was written into `buffer` (uint8[128])."""
        return _fill(self.machine.ram, buffer)

    def setRAM(self, index: int, value: int) -> None:
        """Write a byte of RAM. index: 0..127, value: 0..255."""
        i, v = operator.index(index), operator.index(value)
        if i < 0 or not 0 <= v < 256:
            raise TypeError(f"setRAM(): index {i} must be 0 to 127 and value {v} 0 to 255")
        if i > 127:
            raise ALEError("setRAM index out of bounds: use 0 to 127")
        self.machine.poke_ram(i, v)

    def getScreenDims(self) -> tuple[int, int]:
        """(rows, 160)."""
        return self.machine.rows, 160

    def _indices(self) -> Bytes:
        m = self.machine
        now: Bytes = m.screen
        return blend(m.pal)[now, m.previous_screen] if self._averaging else now

    def getScreen(self, buffer: Bytes | None = None) -> Bytes | None:
        """uint8[rows, 160]: palette indices, or None if they were written into `buffer`."""
        return _fill(self._indices(), buffer)

    def getScreenRGB(self, buffer: Bytes | None = None) -> Bytes | None:
        """uint8[rows, 160, 3]: the picture in colour, or None if it was written into `buffer`."""
        m = self.machine
        if self._averaging:
            return _fill(palette(m.pal)[self._indices()], buffer)
        return _fill(picture_rgb(m, colour_words(m.pal)), buffer)

    def getScreenGrayscale(self, buffer: Bytes | None = None) -> Bytes | None:
        """uint8[rows, 160]: the picture in gray (environment.md 7.2), or None if written into `buffer`."""
        m = self.machine
        if self._averaging:
            return _fill(gray_levels(m.pal)[self._indices()], buffer)
        return _fill(picture_gray(m, gray_levels(m.pal)), buffer)

    def saveScreenPNG(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to `path` as PNG, 320 pixels wide. Needs Pillow (extra `fig` of glassvcs)."""
        from vcs.files import write_bytes
        from vcs.pictures import png

        write_bytes(path, png(palette(self.machine.pal)[self._indices()]))

    def getAudioSize(self) -> int:
        """Bytes of sound of one frame in ale-py; there is none here."""
        return 512

    def getAudio(self, buffer: Bytes | None = None) -> Bytes | None:
        """Always raises ALEError, whatever the buffer: the machine has no sound."""
        raise ALEError(NO_SOUND)

    # ------------------------------------------------------------------ states
    def cloneState(self, include_rng: bool = False) -> ALEState:
        """The state now. With include_rng, restoring it also restores the stream of sticky actions."""
        return ALEState._of(self.machine, bool(include_rng))

    def restoreState(self, state: ALEState) -> None:
        """Put a state back. Raises VcsError if it is another ROM's or was taken with other settings."""
        if not isinstance(state, ALEState):
            raise TypeError(f"restoreState(): {state!r:.60} is not an ALEState")
        if state._snapshot is None:
            raise ALEError("the state is empty: take one with cloneState()")
        self.machine.restore(state._snapshot, sticky=state._rng)

    def cloneSystemState(self) -> ALEState:
        """cloneState(include_rng=True)."""
        return self.cloneState(True)

    def restoreSystemState(self, state: ALEState) -> None:
        """Put a `state` back; the same as `restoreState`, with its errors."""
        self.restoreState(state)


ALEInterface = ALE


def _path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """ale-py loads files only: a text is never a game's name here."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{path!r:.60} is not a path: pass str or os.PathLike")
    if not os.path.isfile(path):
        raise ALEError(f"ROM file doesn't exist: {os.fspath(path)}; pass the path of an image")
    return path


def _fill(picture: Bytes, buffer: Bytes | None) -> Bytes | None:
    """`picture`, or, if the caller brought a buffer, None after a copy into it."""
    if buffer is None:
        return picture
    if not isinstance(buffer, np.ndarray) or buffer.dtype != np.uint8 or not buffer.flags.c_contiguous:
        raise TypeError("the buffer must be a C-contiguous NumPy array of dtype uint8")
    if buffer.shape != picture.shape:
        raise ALEError(f"Invalid shape, {buffer.shape}, expecting shape {picture.shape}")
    buffer[...] = picture
    return None

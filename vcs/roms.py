"""Finding, checking and describing cartridge images.

A cartridge is named by a path, by its bytes, or by a game name such as `"space_invaders"`. Names are looked
up among our own cartridges (`vcs/carts/`), in the folders of `$VCS_ROM_PATH`, and in the wheel of ale-py,
which ships the images of its games. ale-py is only located on disk, never imported: its compiled module would
cost a second.
"""
from __future__ import annotations

import difflib
import gzip
import hashlib
import importlib.util
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from vcs.data import load_csv, load_json
from vcs.errors import VcsError

SMALLEST = 64
LARGEST = 512 * 1024
SUFFIXES = (".bin", ".a26", ".rom", ".gz", ".zip")
# Lengths that some mapper accepts (cartridges.md 2 and 6); besides, 3F and 3E take any multiple of 2 KiB and
# a Supercharger image is a multiple of 8448 bytes.
_DPC_SIZES = (10240, 10495, 10496)
_SIZES = ("2, 4, 8, 16, 32 or 64 KiB (or another multiple of 2 KiB, a DPC's 10240, 10495 or 10496, "
          "or n x 8448 bytes)")


@dataclass(frozen=True)
class Rom:
    """A cartridge image.

    name: the game's name if the image or its file name is a known one, else the stem of the file name, else
        `"cartridge"` for bytes nobody knows.
    data: the image, uncompressed; 64 to 524288 bytes.
    md5, sha256: of `data`, lower-case hexadecimal.
    path: the file it came from, or None for bytes.
    game: name of the game whose score and lives are known, or None (environment.md 1.1: the image decides,
    then
        the file name).
    """

    name: str
    data: bytes
    md5: str
    sha256: str
    path: Path | None
    game: str | None

    def __repr__(self) -> str:
        return f"Rom({self.name!r}, {len(self.data)} bytes, md5 {self.md5}, game {self.game!r})"


@dataclass(frozen=True)
class Properties:
    """What the console knows about a cartridge before it runs (environment.md 2.1)."""

    cartridge_type: str
    left_difficulty: str
    right_difficulty: str
    television_type: str
    swap_ports: bool
    left_controller: str
    right_controller: str
    swap_paddles: bool
    display_format: str
    ystart: int
    height: int
    hmove_blanks: bool

    @property
    def paddles(self) -> bool:
        """True if either port holds a pair of paddles."""
        return "PADDLES" in (self.left_controller, self.right_controller)


def _key(name: str) -> str:
    """Names are compared without case and separators: SpaceInvaders, space-invaders and space_invaders
    agree."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _known() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Rows of `roms.csv` by MD5 and by compared name."""
    rows = load_csv("roms.csv")
    return {row["md5"]: row for row in rows}, {_key(row["name"]): row for row in rows}


def _places() -> Iterator[Path]:
    """Folders that are searched for a name, in order."""
    yield Path(str(files("vcs"))) / "carts"
    for part in os.environ.get("VCS_ROM_PATH", "").split(os.pathsep):
        if part:
            yield Path(part).expanduser()
    spec = importlib.util.find_spec("ale_py")
    for place in (spec.submodule_search_locations if spec else None) or []:
        yield Path(place) / "roms"


def available() -> dict[str, Path]:
    """Names that `find` accepts now, sorted, each with the file it stands for."""
    found: dict[str, Path] = {}
    seen: set[str] = set()
    for place in _places():
        for file in sorted(place.glob("*")) if place.is_dir() else ():
            stem = file.name.split(".")[0].lower()
            if file.suffix.lower() in SUFFIXES and stem and _key(stem) not in seen:
                seen.add(_key(stem))
                found[stem] = file
    return dict(sorted(found.items()))


def _by_name(name: str) -> Path:
    names = available()
    wanted = _key(name)
    for candidate, file in names.items():
        if _key(candidate) == wanted:
            return file
    if wanted in _known()[1]:
        raise VcsError(
            f"the image of {name!r} is not on this machine: install ale-py, whose wheel ships it "
            "(pip install 'glassvcs[env]'), or put the file in a folder of $VCS_ROM_PATH")
    every = sorted({*names, *(row["name"] for row in _known()[1].values())})
    close = [n for n in every if wanted and _key(n).startswith(wanted)]
    close = [*close, *difflib.get_close_matches(name.lower(), every, 4, 0.5)][:4]
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "`vcs info` lists the names."
    raise VcsError(f"unknown game {name!r}: give a known name, or the path of an image file; {hint}")


def _bounded(stream: IO[bytes] | gzip.GzipFile) -> bytes:
    """At most one byte more than the largest image: enough to refuse it, and no bomb."""
    return stream.read(LARGEST + 1)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(0)
            if head[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=file) as packed:
                    return _bounded(packed)
            if head == b"PK\x03\x04":
                with zipfile.ZipFile(file) as archive:
                    members = [m for m in archive.namelist() if Path(m).suffix.lower() in SUFFIXES[:3]]
                    if len(members) != 1:
                        raise VcsError(f"{path} holds {len(members)} cartridge images: a zip file must hold "
                                       "exactly one .bin, .a26 or .rom file")
                    with archive.open(members[0]) as member:
                        return _bounded(member)
            return _bounded(file)
    except FileNotFoundError:
        raise VcsError(f"there is no file {path}: give the path of a cartridge image, or a game "
                       "name") from None
    except IsADirectoryError:
        raise VcsError(f"{path} is a folder: give the path of one cartridge image in it") from None
    except VcsError:
        raise
    except OSError as why:
        reason = why.strerror or str(why)
        raise VcsError(f"{path} cannot be read ({reason}): give a readable cartridge image") from None
    except Exception as why:  # a damaged archive makes zipfile, gzip and zlib raise many kinds
        raise VcsError(f"{path} is a damaged or unreadable archive ({why}): unpack it, or fetch it "
                       "again") from None


def _check(data: bytes, what: str) -> None:
    size = len(data)
    if size == 0:
        raise VcsError(f"{what} is empty: a cartridge image holds {_SIZES}")
    if size < SMALLEST:
        raise VcsError(f"{what} holds only {size} bytes, too few for a cartridge: an image holds {_SIZES}")
    if size > LARGEST:
        raise VcsError(f"{what} is larger than 512 KiB, the most a cartridge can hold: an image holds "
                       f"{_SIZES}")
    if size % 2048 and size % 8448 and size not in _DPC_SIZES:
        raise VcsError(f"{what} holds {size} bytes, a length that no cartridge type has: an image holds "
                       f"{_SIZES}")


def find(rom: str | os.PathLike[str] | bytes | bytearray | memoryview | Rom) -> Rom:
    """The cartridge that `rom` names.

    rom: a path to an image (plain, gzip, or a zip holding one image), the image's bytes, or a game name. A
    text is
        taken as a path if it holds a path separator, ends in .bin, .a26, .rom, .gz or .zip, or if such a file
        exists.

    Raises VcsError if there is no such file or name, or if the content cannot be a cartridge.
    """
    if isinstance(rom, Rom):
        return rom
    path: Path | None = None
    stem = "cartridge"
    if isinstance(rom, (bytes, bytearray, memoryview)):
        data = bytes(rom)
        _check(data, "the image")
    elif isinstance(rom, (str, os.PathLike)):
        text = os.fspath(rom)
        if not isinstance(text, str) or not text or "\0" in text:
            raise VcsError(f"{rom!r} is not a cartridge: give a path, a game name or the bytes of an image")
        is_path = (isinstance(rom, os.PathLike) or os.sep in text or text.lower().endswith(SUFFIXES)
                   or Path(text).is_file())
        path = Path(text).expanduser() if is_path else _by_name(text)
        data = _read(path)
        _check(data, str(path))
        stem = path.name.split(".")[0].lower() or stem
    else:
        raise VcsError(f"{rom!r:.80} is not a cartridge: give a path, a game name or the bytes of an image")
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    by_md5, by_name = _known()
    row = by_md5.get(md5) or (by_name.get(_key(stem)) if path else None)
    name = row["name"] if row else stem
    game = row["name"] if row and row["ale_py_supported"] == "1" else None
    return Rom(name, data, md5, hashlib.sha256(data).hexdigest(), path, game)


def record(game: str) -> dict[str, Any] | None:
    """The entry of `properties.json` for a game name (action sets, modes, measured facts), or None."""
    roms: dict[str, dict[str, Any]] = load_json("properties.json")["roms"]
    return roms.get(game)


@cache
def _table() -> dict[str, dict[str, Any]]:
    return {entry["md5"]: entry for entry in load_json("properties.json")["roms"].values()}


def properties(md5: str, protocol: str = "ale") -> Properties:
    """The console properties of the image with this MD5; unknown images get the defaults.

    protocol: `"ale"` or `"xitari"`; the two built-in tables differ in one value (environment.md 0, D6).
    """
    if protocol not in ("ale", "xitari"):
        raise VcsError(f"unknown protocol {protocol!r}: use 'ale' or 'xitari'")
    values: dict[str, str] = dict(load_json("properties.json")["defaults"])
    entry = _table().get(md5)
    if entry is not None:
        values |= entry["properties"]
        if protocol == "xitari":
            values |= entry["xitari_overrides"]
    values = {key: value.upper() for key, value in values.items()}
    return Properties(
        cartridge_type=values["Cartridge.Type"],
        left_difficulty=values["Console.LeftDifficulty"],
        right_difficulty=values["Console.RightDifficulty"],
        television_type=values["Console.TelevisionType"],
        swap_ports=values["Console.SwapPorts"] != "NO",
        left_controller=values["Controller.Left"],
        right_controller=values["Controller.Right"],
        swap_paddles=values["Controller.SwapPaddles"] == "YES",
        display_format=values["Display.Format"],
        ystart=int(values["Display.YStart"]),
        height=int(values["Display.Height"]),
        hmove_blanks=values["Emulation.HmoveBlanks"] != "NO",
    )

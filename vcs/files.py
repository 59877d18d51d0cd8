"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO

from vcs.errors import VcsError

if sys.platform != "win32":
    import fcntl

END = ".part"
TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}" + re.escape(END))
YOUNG = 10.0  # seconds: a file that is so new may be one whose writer has not locked it yet


def write(path: str | os.PathLike[str], fill: Callable[[IO[bytes]], object]) -> Path:
    """Let `fill` write to a temporary file beside `path`, then rename it to `path`.

    `fill` gets the file, open for writing; its attribute `name` is the path for a program that wants one.
    Missing folders are made; temporary files of the same name that a killed process left are removed.
    Raises VcsError if the place cannot be written; `path` is then as it was before.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=END)
    except OSError as why:
        raise VcsError(f"{target} cannot be written ({why.strerror}): choose a folder you may write "
                       "to") from None  # fmt: skip
    try:
        _hold(handle)
        with open(temporary, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name with nothing in it
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes files that only the owner can read
        os.replace(temporary, target)
    except OSError as why:
        raise VcsError(f"{target} cannot be written ({why.strerror}): choose another path") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
        if sys.platform != "win32":
            os.close(handle)
    return target


def _hold(handle: int) -> None:
    """Lock a temporary file while its descriptor is open: the system lets go of it when the process ends."""
    if sys.platform == "win32":
        os.close(handle)  # an open file cannot be renamed there
    else:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@cache
def _left(folder: Path) -> tuple[tuple[str, Path], ...]:
    """The temporary files in a folder when this process first wrote there, each with its target's name."""
    if sys.platform == "win32":
        return ()  # nothing there says whether their writer is alive
    matches = ((TEMPORARY.fullmatch(entry.name), entry.path) for entry in os.scandir(folder))
    return tuple((match[1], Path(path)) for match, path in matches if match)


def _clear(target: Path) -> None:
    """Remove temporary files of `target` that no living process holds."""
    for name, path in _left(target.parent.resolve()):
        if name == target.name and sys.platform != "win32":
            with contextlib.suppress(OSError), path.open("rb") as file:  # gone, or held by its writer
                if time.time() - os.fstat(file.fileno()).st_mtime > YOUNG:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` in one step."""
    return write(path, lambda file: file.write(data))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to `path` as UTF-8 in one step."""
    return write_bytes(path, text.encode("utf-8"))

"""Writing files so that nobody ever sees half of one."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from vcs.errors import VcsError


def write(path: str | os.PathLike[str], fill: Callable[[IO[bytes]], object]) -> Path:
    """Let `fill` write to a temporary file beside `path`, then rename it to `path`.

    Missing folders are made. Raises VcsError if the place cannot be written; `path` is then as it was before.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as why:
        raise VcsError(f"{target} cannot be written ({why.strerror}): choose a folder you may write "
                       "to") from None
    try:
        with os.fdopen(handle, "wb") as file:
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
    return target


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` in one step."""
    return write(path, lambda file: file.write(data))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to `path` as UTF-8 in one step."""
    return write_bytes(path, text.encode("utf-8"))

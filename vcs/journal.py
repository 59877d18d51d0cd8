"""Journals: the finished pieces of long work on disk, so that a run that was killed goes on after them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import vcs
from vcs import files
from vcs.errors import VcsError

Keep = Callable[[str, Callable[[], Any]], Any]


def stamp(*globs: str) -> str:
    """A hash of the compiled engines, of the package's top level and data, and of the files that more globs
    below the package name: pieces that other code made are not taken up."""
    package = Path(vcs.__file__).parent
    digest = hashlib.sha256()
    for glob in ("_hard/*.so", "_adjoint/*.so", "*.py", "data/*.json", *globs):
        for path in sorted(package.glob(glob)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Journal:
    """The pieces of one piece of work, each with a key: JSON lines, appended as they are finished.

    done: what the file holds, value by key, of those made by the same code (`stamp`). A line that a kill or
    a full disk has torn is left out, and the file is written anew without it. Use it as a context.
    """

    def __init__(self, path: Path, made_by: str, *, resume: bool = True) -> None:
        """Raises VcsError if the file cannot be written."""
        self.path = path
        self.made_by = made_by
        self.done: dict[str, Any] = dict(self._read()) if resume else {}
        files.write_text(path, "".join(self._line(k, v) for k, v in self.done.items()))
        # unbuffered: what could not be written must not be tried again by close()
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    def _read(self) -> Iterator[tuple[str, Any]]:
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                row = json.loads(line)
                if row["stamp"] == self.made_by:
                    yield str(row["key"]), row["value"]

    def _line(self, key: str, value: Any) -> str:
        return json.dumps({"stamp": self.made_by, "key": key, "value": value}) + "\n"

    def add(self, key: str, value: Any) -> None:
        """Append a finished piece; value: what JSON can hold. Raises VcsError if it cannot be written."""
        with _unwritable(self.path):
            _write(self._file, self._line(key, value).encode())
        self.done[key] = value

    def keep(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of a piece: the journal's, or else what `compute` gives, as JSON gives it back."""
        if key not in self.done:
            self.add(key, json.loads(json.dumps(compute())))
        return self.done[key]

    def remove(self) -> None:
        """Delete the file: the work is done and its results are written."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def append(path: Path, row: Any) -> None:
    """Append a row to a file of JSON lines, below a line that a kill has torn; a missing file and its folder
    are made. Raises VcsError if it cannot be written."""
    with _unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b", buffering=0) as file:
            torn = file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
            _write(file, b"\n" * bool(torn) + json.dumps(row).encode() + b"\n")


def _write(file: IO[bytes], data: bytes) -> None:
    """Write to an unbuffered file: all of it, or OSError."""
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        raise VcsError(
            f"the journal {path} cannot be written ({why.strerror}): make room or choose another place; the "
            "same command goes on"
        ) from None


@contextmanager
def pieces(path: Path, made_by: str) -> Iterator[Journal]:
    """A journal that goes when the block ends well, and stays with what it holds otherwise."""
    with Journal(path, made_by) as journal:
        try:
            yield journal
        except BaseException:
            if not journal.done:
                journal.remove()
            raise
        journal.remove()


def forget(_: str, compute: Callable[[], Any]) -> Any:
    """A `Keep` without a journal."""
    return compute()

"""Readers of the golden records (``golden/README.md`` of the specification defines the format).

The records are looked for in ``--golden DIR``, then in ``$VCS_GOLDEN``, then beside a checkout
(``../shared/golden``), then in ``tests/data/golden`` (the no-op records only, packed: the copy that
travels with the repository).
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import zipfile

import numpy as np
import numpy.typing as npt

from vcs.errors import VcsError

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PACKED = REPOSITORY / "tests" / "data" / "golden"


def root(explicit: str | None = None) -> pathlib.Path:
    """Directory that holds ``xitari/frames`` and ``xitari/instructions``."""
    candidates = [pathlib.Path(p) for p in (explicit, os.environ.get("VCS_GOLDEN")) if p]
    if not candidates:
        candidates = [REPOSITORY.parent / "shared" / "golden", PACKED]
    for path in candidates:
        if (path / "xitari" / "frames").is_dir():
            return path
    raise VcsError(
        f"no golden records in {', '.join(map(str, candidates))}: give the directory that holds "
        "xitari/frames with --golden DIR or in $VCS_GOLDEN"
    )


@dataclasses.dataclass(frozen=True)
class Frames:
    """A frame record: N steps, N+1 states (index 0 is the state after the reset)."""

    actions: npt.NDArray[np.uint8]
    ram_crc32: npt.NDArray[np.uint32]
    screen_crc32: npt.NDArray[np.uint32]
    screen_shape: tuple[int, int]
    reward: npt.NDArray[np.int32]
    lives: npt.NDArray[np.int16]
    game_over: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Instructions:
    """An instruction record: the CPU before each of M instructions, from step ``start_frame`` on."""

    actions: npt.NDArray[np.uint8]
    start_frame: int
    pc: npt.NDArray[np.uint16]
    regs: npt.NDArray[np.uint8]
    cycles: npt.NDArray[np.int32]
    ram_crc32: npt.NDArray[np.uint32]


def _load(path: pathlib.Path, names: list[str]) -> dict[str, npt.NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as z:
            return {n: z[n] for n in names}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as e:
        raise VcsError(
            f"{path} is not a golden record ({e}); expected an npz with {', '.join(names)}"
        ) from None


def frame_records(directory: pathlib.Path) -> dict[tuple[str, str], pathlib.Path]:
    """(game, stream) -> file, for every frame record present."""
    files = {}
    for path in sorted((directory / "xitari" / "frames").glob("*.npz")):
        game, _, stream = path.stem.rpartition("_")
        files[game, stream] = path
    return files


def instruction_records(directory: pathlib.Path) -> dict[tuple[str, str], pathlib.Path]:
    """(game, "f0" or "f120") -> file, for every instruction record present."""
    files = {}
    for path in sorted((directory / "xitari" / "instructions").glob("*.npz")):
        game, _, start = path.stem.rpartition("_")
        files[game, start] = path
    return files


def read_frames(path: pathlib.Path) -> Frames:
    z = _load(path, [f.name for f in dataclasses.fields(Frames)])
    rows, columns = (int(v) for v in np.asarray(z.pop("screen_shape")))
    return Frames(screen_shape=(rows, columns), **z)  # type: ignore[arg-type]


def read_instructions(path: pathlib.Path) -> Instructions:
    z = _load(path, [f.name for f in dataclasses.fields(Instructions)])
    return Instructions(start_frame=int(z.pop("start_frame")), **z)  # type: ignore[arg-type, call-overload]

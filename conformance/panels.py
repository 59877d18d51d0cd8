"""Pictures of a difference: ours, theirs and where they differ, side by side; as PNG, or MP4 over time."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Generator

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from vcs import files
from vcs.pictures import check_film

Indices = npt.NDArray[np.uint8]

# A pixel of the 2600 is about twice as wide as high.
SCALE_X, SCALE_Y, GAP, TITLE = 4, 2, 8, 16


def _grow(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return rgb.repeat(SCALE_Y, axis=0).repeat(SCALE_X, axis=1)


def picture(indices: Indices, colours: npt.NDArray[np.uint8]) -> Image.Image:
    """One screen, enlarged as in a panel."""
    return Image.fromarray(_grow(colours[indices]))


def panel(
    ours: Indices, theirs: Indices, colours: npt.NDArray[np.uint8], names: tuple[str, str]
) -> Image.Image:
    """Three pictures: ours, theirs, and theirs in grey with the differing pixels in red."""
    grey = (colours.astype(np.uint16).mean(axis=1) / 2).astype(np.uint8)
    difference = np.stack([grey[theirs]] * 3, axis=-1)
    differs = ours != theirs
    difference[differs] = (255, 0, 0)
    parts = [_grow(p) for p in (colours[ours], colours[theirs], difference)]
    h, w = parts[0].shape[:2]
    image = Image.new("RGB", (3 * w + 2 * GAP, h + TITLE + (h + TITLE) % 2), (32, 32, 32))
    draw = ImageDraw.Draw(image)
    titles = (*names, f"difference: {int(differs.sum())} pixels")
    for i, (part, title) in enumerate(zip(parts, titles, strict=True)):
        image.paste(Image.fromarray(part), (i * (w + GAP), TITLE))
        draw.text((i * (w + GAP) + 2, 2), title, fill=(255, 255, 255))
    return image


def save_png(image: Image.Image, path: pathlib.Path) -> None:
    files.write(path, lambda f: image.save(f, format="PNG"))


class Video:
    """Writes panels as an MP4 (needs imageio-ffmpeg, in the extra ``fig``); it has its name once closed."""

    def __init__(self, path: pathlib.Path, fps: int = 60) -> None:
        self.path, self.fps = path, fps
        self.temporary = path.with_name(f".{os.getpid()}.{path.name}")
        self.writer: Generator[None, bytes, None] | None = None

    def add(self, image: Image.Image) -> None:
        import imageio_ffmpeg

        if self.writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.writer = imageio_ffmpeg.write_frames(
                str(self.temporary), image.size, fps=self.fps, macro_block_size=2
            )
            next(self.writer)
        self.writer.send(np.asarray(image).tobytes())

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            try:
                check_film(self.temporary)
                os.replace(self.temporary, self.path)
            finally:
                self.temporary.unlink(missing_ok=True)

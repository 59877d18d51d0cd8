"""Pictures that the commands write: a screen, and the explanation of one of its pixels."""
from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vcs.errors import VcsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 2  # a pixel of the machine is about twice as wide as high on a television


def png(rgb: NDArray[np.uint8], scale: int = 1) -> bytes:
    """PNG file of a picture uint8[H, W, 3]; every pixel becomes `2 * scale` by `scale` pixels."""
    image = Image.fromarray(np.repeat(np.repeat(rgb, scale, 0), WIDE * scale, 1))
    buffer = io.BytesIO()
    image.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def show_screen(axes: Axes, rgb: NDArray[np.uint8], pixel: tuple[int, int] | None, title: str) -> None:
    """Draw a screen uint8[H, 160, 3] with an optional marked pixel (row, column)."""
    axes.imshow(rgb, aspect=1 / WIDE, interpolation="nearest")
    if pixel is not None:
        row, column = pixel
        axes.plot(column, row, "o", ms=16, mfc="none", mec="white", mew=3)
        axes.plot(column, row, "o", ms=16, mfc="none", mec="crimson", mew=1.5)
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=7)


def show_ram(axes: Axes, saliency: NDArray[np.float64], values: NDArray[np.uint8], title: str) -> None:
    """Draw a derivative float64[128] over RAM as a grid of 8 rows of 16 cells; each shows its content."""
    grid = saliency.reshape(8, 16)
    top = float(np.abs(grid).max()) or 1.0
    # the square root keeps small derivatives visible beside a large one
    shade = np.sign(grid) * np.sqrt(np.abs(grid) / top)
    image = axes.imshow(shade, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    for i, value in enumerate(values):
        strong = abs(grid[i // 16, i % 16]) > top / 4
        axes.text(i % 16, i // 16, f"{value:02X}", ha="center", va="center", fontsize=7, family="monospace",
                  color="white" if strong else "black")
    axes.set_xticks(range(16), [f"{i:X}" for i in range(16)], fontsize=7)
    axes.set_yticks(range(8), [f"${0x80 + 16 * i:02X}" for i in range(8)], fontsize=7)
    axes.set_title(title, fontsize=10)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_ticks([-1, 0, 1], labels=[f"{-top:.3g}", "0", f"{top:.3g}"])
    bar.ax.tick_params(labelsize=7)


def explanation(rgb: NDArray[np.uint8], pixel: tuple[int, int], ram: NDArray[np.float64],
                values: NDArray[np.uint8], left: Sequence[str], right: Sequence[str], title: str) -> bytes:
    """PNG file: the frame with the pixel, the derivative over RAM, and lines of text below each.

    rgb: uint8[H, 160, 3]. pixel: row and column. ram: float64[128], the derivative. values: uint8[128], RAM's
    content. left, right: what to print, in a fixed-width face.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    figure.suptitle(title, fontsize=12)
    panels: Any = figure.subplot_mosaic([["screen", "ram"], ["left", "right"]], height_ratios=[1.4, 1])
    show_screen(panels["screen"], rgb, pixel, f"the frame; pixel at row {pixel[0]}, column {pixel[1]}")
    show_ram(panels["ram"], ram, values, "derivative of the pixel by each RAM byte (cells show the content)")
    for name, lines in (("left", left), ("right", right)):
        panels[name].axis("off")
        panels[name].text(0, 1, "\n".join(lines), va="top", ha="left", family="monospace", fontsize=8,
                          transform=panels[name].transAxes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def check_film(path: Path) -> None:
    """Raise VcsError if an MP4 file is not whole: ffmpeg tells nobody when the disk is full.

    The boxes of such a file (4 bytes of length, 4 of name) fill it exactly, and one is the table of contents.
    """
    names, at = set(), 0
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while at < end:
            file.seek(at)
            head = file.read(16)
            names.add(head[4:8])
            short = int.from_bytes(head[:4], "big")
            length = short if short != 1 else int.from_bytes(head[8:], "big")
            if length < 8:
                break
            at += length
    if at != end or b"moov" not in names:
        raise VcsError("the film cannot be written whole: make room on the disk, or choose another place")

"""Pictures of explanations: regions painted onto the frame, bars per cause, deletion and insertion curves.

Regions come from measured footprints: the pixels that change, on the shared gameplay state itself, when a
RAM cell is intervened upon. Bars and curves are small SVG texts, so that a page needs no script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vcs.machine import palette
from vcs.xai.causes import Cause
from vcs.xai.outputs import Bytes
from vcs.xai.state import State

ORACLE, METHOD = (40, 200, 90), (70, 140, 255)  # oracle green, method blue, as in the study's pages


def footprints(state: State) -> dict[int, NDArray[np.bool_]]:
    """Per candidate cell, the pixels any of its causes changes after the horizon, bool[H, 160]."""
    base = state.baseline.picture()
    causes = [c for c in state.causes if c.cell >= 0]
    out: dict[int, NDArray[np.bool_]] = {}
    for cause, outcome in zip(causes, state.oracle.run([c.do for c in causes], screens=True), strict=True):
        changed = outcome.picture() != base
        out[cause.cell] = out[cause.cell] | changed if cause.cell in out else changed
    return out


def per_cell(causes: Sequence[Cause], values: ArrayLike) -> dict[int, float]:
    """Largest |value| over the causes of each cell."""
    out: dict[int, float] = {}
    for cause, value in zip(causes, np.abs(np.asarray(values, float)), strict=True):
        if cause.cell >= 0:
            out[cause.cell] = max(out.get(cause.cell, 0.0), float(value))
    return out


def heat(
    importance: Mapping[int, float], prints: Mapping[int, NDArray[np.bool_]], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """float64[H, 160] in 0..1: per pixel the largest importance of the cells whose footprint covers it."""
    out = np.zeros(shape)
    top = max(importance.values(), default=0.0)
    if top > 0:
        for cell, value in importance.items():
            if cell in prints:
                out = np.maximum(out, np.where(prints[cell], value / top, 0.0))
    return out


def rgb(screen: Bytes) -> NDArray[np.uint8]:
    """uint8[H, 160, 3] of palette indices."""
    return np.asarray(palette(False, "xitari")[screen], np.uint8)


def overlay(screen: Bytes, warmth: NDArray[np.float64], colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The frame, dimmed, with ``warmth`` (0..1) painted over it in a colour, uint8[H, 160, 3]."""
    dim = rgb(screen) * 0.35
    # the square root keeps small importances visible beside a large one
    weight = np.where(warmth > 0, 0.25 + 0.75 * np.sqrt(warmth), 0.0)[..., None]
    return np.asarray(dim * (1 - weight) + np.array(colour) * weight, np.uint8)


def bars_svg(names: Sequence[str], oracle: ArrayLike, method: ArrayLike) -> str:
    """Bars per cause, each side scaled by its own largest value."""
    o, a = np.abs(np.asarray(oracle, float)), np.abs(np.asarray(method, float))
    o_top, a_top = float(o.max(initial=0)) or 1.0, float(a.max(initial=0)) or 1.0
    height, label, width = 16, 150, 300
    rows = []
    for i, name in enumerate(names):
        y = 18 + i * height
        rows.append(
            f'<text x="{label - 6}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{label}" y="{y + 1}" width="{o[i] / o_top * width:.1f}" height="6" class="o">'
            f"<title>{escape(name)}: oracle {o[i]:g}</title></rect>"
            f'<rect x="{label}" y="{y + 8}" width="{a[i] / a_top * width:.1f}" height="6" class="m">'
            f"<title>{escape(name)}: method {a[i]:g}</title></rect>"
        )
    total = 24 + len(names) * height
    return (
        f'<svg viewBox="0 0 {label + width + 10} {total}" class="bars" role="img">'
        f'<text x="{label}" y="12" class="ot">oracle (max {o_top:g})</text>'
        f'<text x="{label + 160}" y="12" class="mt">method (max {a_top:.4g})</text>{"".join(rows)}</svg>'
    )


def curves_svg(deletion: ArrayLike, insertion: ArrayLike) -> str:
    """Deletion and insertion curve over the number of causes removed or kept."""
    d, i = np.asarray(deletion, float), np.asarray(insertion, float)
    if not d.size:
        return "<p>no curves in this record</p>"
    low, high = float(min(d.min(), i.min())), float(max(d.max(), i.max()))
    span = (high - low) or 1.0
    width, height, left = 300, 160, 46

    def path(curve: NDArray[np.float64]) -> str:
        return " ".join(
            f"{left + k / max(1, curve.size - 1) * width:.1f},{10 + (high - v) / span * height:.1f}"
            for k, v in enumerate(curve)
        )

    return (
        f'<svg viewBox="0 0 {left + width + 10} {height + 44}" class="curves" role="img">'
        f'<rect x="{left}" y="10" width="{width}" height="{height}" class="frame"/>'
        f'<text x="{left - 4}" y="18" text-anchor="end">{high:g}</text>'
        f'<text x="{left - 4}" y="{height + 10}" text-anchor="end">{low:g}</text>'
        f'<polyline points="{path(d)}" class="del"/><polyline points="{path(i)}" class="ins"/>'
        f'<text x="{left}" y="{height + 26}">causes, most important first</text>'
        f'<text x="{left}" y="{height + 40}" class="delt">deletion</text>'
        f'<text x="{left + 80}" y="{height + 40}" class="inst">insertion</text></svg>'
    )

"""Figures of the study: legible at a column's width, labelled, in colours that the colour-blind tell
apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vcs import files
from vcs.relax import model

# Okabe and Ito's palette
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"


def _plt() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150}
    )
    return plt


def _save(figure: Any, path: Path) -> Path:
    out = files.write(path, lambda file: figure.savefig(file, format="png", bbox_inches="tight"))
    _plt().close(figure)
    return out


def boundary(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """N_div against alpha and against T, full and collapsed machine; exact runs at the top."""
    plt = _plt()
    figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.8), sharey=True)
    for axis, key, fixed, value in ((axes[0], "alpha", "T", 0.14), (axes[1], "T", "alpha", 6)):
        chosen = sorted((r for r in rows if r[fixed] == value), key=lambda r: r[key])
        for name, colour, mark, label in (
            ("n_div", BLUE, "o", "full machine"),
            ("collapsed_n_div", ORANGE, "s", "collapsed"),
        ):
            x = [r[key] for r in chosen if name in r]
            y = [r[name] or r["n"] for r in chosen if name in r]
            axis.plot(x, y, mark + "-", color=colour, label=label, ms=4, lw=1)
        axis.set_yscale("log")
        axis.set_xlabel(
            "gate sharpness alpha (T = 0.14)" if key == "alpha" else "read temperature T (alpha = 6)"
        )
    axes[0].set_ylabel("first differing instruction")
    axes[0].legend(frameon=False)
    return _save(figure, path)


def heatmap(m: model.Margins, path: Path, title: str) -> Path:
    """P_step over (alpha, T) with the exact corner and the point (6, 0.14)."""
    plt = _plt()
    alphas, temperatures, p = model.heatmap(m)
    figure, axis = plt.subplots(figsize=(4.2, 3.2))
    mesh = axis.pcolormesh(alphas, temperatures, p, cmap="cividis", vmin=0, vmax=1, shading="nearest")
    axis.contour(
        alphas,
        temperatures,
        p,
        levels=[0.5, 0.999],
        colors=["white", "white"],
        linestyles=["--", "-"],
        linewidths=1,
    )
    axis.plot([6], [0.14], "*", color=RED, ms=10, label="(6, 0.14)")
    axis.axvline(model.ALPHA_EXACT, color=ORANGE, lw=0.8, ls=":")
    axis.axhline(model.TEMPERATURE_EXACT, color=ORANGE, lw=0.8, ls=":", label="exact for every program")
    axis.set(
        xscale="log", yscale="log", xlabel="gate sharpness alpha", ylabel="read temperature T", title=title
    )
    axis.legend(loc="upper left", fontsize=7, framealpha=0.8)
    figure.colorbar(mesh, label="P(one instruction is exact)")
    return _save(figure, path)


def delayed(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """First differing frame against T."""
    plt = _plt()
    figure, axis = plt.subplots(figsize=(4.2, 2.8))
    t = [r["T"] for r in rows]
    axis.plot(t, [r["frame"] or r["frames"] for r in rows], "o-", color=BLUE, ms=4, lw=1)
    for r in rows:
        if r["frame"] is None:
            axis.annotate(
                "exact",
                (r["T"], r["frames"]),
                textcoords="offset points",
                xytext=(0, 4),
                ha="center",
                fontsize=6,
            )
    axis.axvline(model.TEMPERATURE_EXACT, color=ORANGE, lw=0.8, ls=":", label="1/ln 1019")
    axis.set(yscale="log", xlabel="read temperature T", ylabel="first differing frame")
    axis.legend(frameon=False)
    return _save(figure, path)


def gradient(path: Path) -> Path:
    """The gate and its slope for alpha 2, 6, 20; the select's weights for three temperatures (soft.md 9)."""
    plt = _plt()
    figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.6))
    z = np.linspace(-1, 1, 401)
    for alpha, colour in ((2, BLUE), (6, GREEN), (20, RED)):
        axes[0].plot(z, model.gate(z, alpha), color=colour, label=f"alpha = {alpha}")
        axes[1].plot(z, model.gate_slope(z, alpha), color=colour)
        axes[1].plot([0.25], [model.gate_slope(0.25, alpha)], "o", color=colour, ms=4)
    axes[0].set(xlabel="branch condition z", ylabel="gate g")
    axes[0].legend(frameon=False, fontsize=7)
    axes[1].set(xlabel="branch condition z", ylabel="dg/dz")
    x = np.arange(30, 111)
    for temperature, colour in ((2.0, BLUE), (0.5, GREEN), (0.1, RED)):
        axes[2].plot(x, model.select_weights(temperature), color=colour, label=f"T = {temperature}")
    axes[2].set(xlabel="candidate column (pixels)", ylabel="weight")
    axes[2].legend(frameon=False, fontsize=7)
    figure.tight_layout()
    return _save(figure, path)


def margins(rows: Sequence[dict[str, Any]], path: Path, title: str) -> Path:
    """The spectrum of thresholds: share of casts that are exact as alpha or T moves."""
    plt = _plt()
    figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.8))
    branch = sorted(
        (r["threshold"], r["count"]) for r in rows if r["kind"] == "branch" and np.isfinite(r["threshold"])
    )
    if branch:
        total = sum(n for _, n in branch)
        axes[0].step(
            [t for t, _ in branch], np.cumsum([n for _, n in branch]) / total, color=BLUE, where="post"
        )
    axes[0].axvline(6, color=RED, lw=0.8, ls=":")
    axes[0].set(xlabel="gate sharpness alpha", ylabel="share of branches exact")
    for kind, colour in (("fetch", BLUE), ("rom", GREEN), ("ram", ORANGE)):
        reads = sorted(
            (r["threshold"], r["count"]) for r in rows if r["kind"] == kind and np.isfinite(r["threshold"])
        )
        if reads:
            total = sum(n for _, n in reads)
            axes[1].step(
                [t for t, _ in reads],
                1 - np.cumsum([n for _, n in reads]) / total,
                color=colour,
                where="post",
                label=kind,
            )
    axes[1].axvline(0.14, color=RED, lw=0.8, ls=":")
    axes[1].set(xlabel="read temperature T", ylabel="share of reads exact", xlim=(0.13, 0.4))
    axes[1].legend(frameon=False)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    return _save(figure, path)

"""`vcs relax`: the relaxation study from the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from vcs import files, journal, pictures, roms
from vcs.errors import VcsError
from vcs.relax import figures, model, study

app = typer.Typer(help="Measure how far a relaxed machine departs from the exact one.", no_args_is_help=True)
console = Console()

Rows = list[dict[str, Any]]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the CSV, JSON and PNG files.")]
Game = Annotated[str, typer.Option("--game", "-g", help="A game name or the path of a cartridge image.")]


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda _, done, total: bar.update(task, completed=done, total=total)


_whole: list[journal.Keep] = []  # of `vcs relax all` while it runs


@contextmanager
def _pieces(out: Path, name: str, *games: str) -> Iterator[journal.Keep]:
    """Where a command keeps finished rows until its files are written: NAME.journal, which goes then.

    A row's key says all that it depends on, so a run with other settings begins anew. Within `vcs relax all`
    the journal is that of the whole, so that its parts are not computed twice.
    """
    for game in games:
        roms.find(game)  # one that is not there is refused before anything is written
    if _whole:
        yield _whole[0]
        return
    with journal.pieces(out / f"{name}.journal", journal.stamp("relax/*.py")) as found:
        if found.done:
            console.print(f"an earlier run left {len(found.done)} finished rows: going on", highlight=False)
        yield found.keep


def save(rows: Rows, out: Path, name: str) -> None:
    """Write rows as NAME.csv and NAME.json; nested values are JSON text in the CSV."""
    if not rows:
        raise VcsError(f"{name} gave no rows; ask for at least one setting")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in row.items()})
    files.write_text(out / f"{name}.csv", text.getvalue())
    files.write_text(out / f"{name}.json", json.dumps(rows, indent=1))


def show(rows: Rows, columns: Sequence[str], title: str) -> None:
    """Print some columns; a dash is "none within the run", that is exact."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        values = [row.get(column) for column in columns]
        cells = ["-" if v is None else f"{v:.5g}" if isinstance(v, float) else str(v) for v in values]
        table.add_row(*cells)
    console.print(table)


@app.command(epilog="Example: vcs relax boundary --out relax")
def boundary(
    out: Out = Path("relax"),
    game: Game = "space_invaders",
    n: Annotated[int, typer.Option(min=2, max=1_000_000, help="Instructions from reset.")] = 3000,
) -> None:
    """The first differing instruction over alpha and T, full and collapsed machine, with the cast-margin
    model."""
    with _pieces(out, "boundary", game) as keep:
        with _progress("boundary") as tick:
            rows = study.boundary(game, n, progress=tick, keep=keep)
        save(rows, out, "boundary")
        figures.boundary(rows, out / "boundary.png")
        show(
            rows,
            [
                "alpha",
                "T",
                "n_div",
                "n_div_registers",
                "p_branch",
                "p_read",
                "p_step",
                "collapsed_n_div",
                "collapsed_p_step",
            ],
            f"{game}: first differing instruction of {n} (- = exact)",
        )
        with _progress("cross-game") as tick:
            cross = study.cross_game(progress=tick, keep=keep)
        save(cross, out, "cross_game")
        show(cross, ["game", "alpha", "T", "n_div", "collapsed_n_div"], "6000 instructions from reset")


@app.command(epilog="Example: vcs relax heatmap --game pong --out relax")
def heatmap(
    out: Out = Path("relax"),
    game: Game = "space_invaders",
    n: Annotated[int, typer.Option(min=2, max=1_000_000, help="Instructions from reset.")] = 3000,
) -> None:
    """The model's P_step over the plane of alpha and T, with the exact corner."""
    pcs, _ = study.instructions(game, n)
    m = model.summary(pcs, study.fresh(game).rom)
    alphas, temperatures, p = model.heatmap(m, 60)
    save(
        [
            {"alpha": a, "T": t, "p_step": p[j, i]}
            for i, a in enumerate(alphas.tolist())
            for j, t in enumerate(temperatures.tolist())
        ],
        out,
        "heatmap",
    )
    figures.heatmap(m, out / "heatmap.png", game)
    console.print(
        f"rho {m.rho:.4f}, f_b {m.f_b:.4f}, largest displacement {m.max_abs_offset}: {out / 'heatmap.png'}"
    )


@app.command(epilog="Example: vcs relax delayed --frames 3000 --out relax")
def delayed(
    out: Out = Path("relax"),
    game: Game = "space_invaders",
    frames: Annotated[int, typer.Option(min=1, max=1_000_000, help="Frames after the boot.")] = 3000,
) -> None:
    """The first differing frame as T falls, with exact timing and with the ports' dropped cycle."""
    with _pieces(out, "delayed", game) as keep:
        with _progress("delayed") as tick:
            rows = study.delayed(game, frames=frames, progress=tick, keep=keep)
            control = study.delayed(
                game, (0.14, 0.1444, 0.1446, 0.1448), frames=frames, progress=tick, keep=keep, drop_cycle=True
            )
            second = study.delayed(
                game,
                (0.14, 0.1442, 0.14437, 0.14439, 0.1444, 0.1445, 0.14455, 0.1446, 0.1447, 0.1448),
                frames=min(frames, 2000),
                actions=study.second_stream(min(frames, 2000)),
                progress=tick,
                keep=keep,
            )
        save(rows, out, "delayed")
        save(control, out, "delayed_cycle_dropped")
        save(second, out, "delayed_second_stream")
        figures.delayed(rows, out / "delayed.png")
        columns = ["T", "frame", "ram_frame", "wrong_cast_frame"]
        show(rows, columns, f"{game}: first differing frame of {frames} (- = exact)")
        show(control, columns, "with the page-cross cycle of branches dropped, as the ports' hook does")
        show(second, columns, "second action stream")


@app.command(epilog="Example: vcs relax corner --games all --frames 3600 --out relax")
def corner(
    games: Annotated[
        str, typer.Option(help="Names separated by commas, or all (104).")
    ] = "pong,breakout,space_invaders",
    frames: Annotated[int, typer.Option(min=1, max=1_000_000, help="Frames after the boot.")] = 3600,
    out: Out = Path("relax"),
) -> None:
    """Whether games stay exact at (6, 0.14), and what fails just outside, at alpha = 5 and at T = 0.15."""
    chosen = _games(games)
    with _pieces(out, "corner", *chosen) as keep:
        with _progress("corner") as tick:
            rows = study.corner(chosen, frames, progress=tick, keep=keep)
        save(rows, out, "corner")
        show(
            rows,
            ["game", "mapper", "alpha", "T", "frame", "wrong_rom", "wrong_ram", "wrong_branch"],
            f"first differing frame of {frames} (- = exact)",
        )
    bad = [r for r in rows if (r["alpha"], r["T"]) == study.CORNER and r["frame"] is not None]
    if bad:
        raise VcsError(
            f"{len(bad)} games differ inside the exact corner, which soft.md 5.2 proves impossible: "
            f"{', '.join(r['game'] for r in bad)}"
        )


def _games(text: str) -> list[str]:
    from vcs.games import game_names, get_game

    if text == "all":
        return list(game_names())
    names = [get_game(name.strip()).name for name in text.split(",") if name.strip()]
    if not names:
        raise VcsError("no game named: give names separated by commas, or all")
    return names


@app.command(epilog="Example: vcs relax shadow --out relax")
def shadow(
    out: Out = Path("relax"),
    game: Game = "space_invaders",
    frames: Annotated[int, typer.Option(min=1, max=1_000_000, help="Frames to play.")] = 1800,
) -> None:
    """Wrong casts by kind, computed beside the exact run without touching it."""
    with _pieces(out, "shadow", game) as keep:
        with _progress("shadow") as tick:
            rows = study.shadow(game, frames=frames, progress=tick, keep=keep)
        save(rows, out, "shadow")
        show(
            rows,
            [
                "T",
                "rom_reads",
                "ram_reads",
                "other_reads",
                "branches",
                "wrong_rom",
                "wrong_ram",
                "wrong_branch",
            ],
            game,
        )


@app.command(epilog="Example: vcs relax video --frames 3600 --out relax")
def video(
    out: Out = Path("relax"),
    game: Game = "space_invaders",
    frames: Annotated[int, typer.Option(min=1, max=100_000, help="Frames; 3600 are 60 seconds.")] = 3600,
) -> None:
    """HARD, SOFT-STE, FULL (6, 0.14), FULL (5.5, 0.145) and the last one's difference side by side, as
    MP4."""
    try:
        import imageio_ffmpeg
    except ImportError:
        raise VcsError("the video needs imageio-ffmpeg: pip install glassvcs[fig]") from None
    from vcs.machine import palette

    settings = ((6.0, 0.14), (5.5, 0.145))
    rgb = palette(False, "xitari")
    height = study.fresh(game).rows
    width = 5 * 320
    counts: list[list[int]] = [[], []]

    def film(file: IO[bytes]) -> None:
        size = (width, height * 2)
        writer = imageio_ffmpeg.write_frames(
            file.name, size, fps=60, macro_block_size=2, output_params=["-f", "mp4"]
        )
        writer.send(None)
        with _progress("video") as tick:
            for hard, inside, outside in study.video_frames(game, frames, settings, tick):
                counts[0].append(int((inside != hard).sum()))
                counts[1].append(int((outside != hard).sum()))
                difference = np.where((outside != hard)[..., None], np.uint8(255), rgb[hard] // 4).astype(
                    np.uint8
                )
                # SOFT-STE is the exact machine in value (theorem 1), so its panel is the hard one
                panels = [rgb[hard], rgb[hard], rgb[inside], rgb[outside], difference]
                wide = np.concatenate([np.repeat(np.repeat(p, 2, axis=0), 2, axis=1) for p in panels], axis=1)
                writer.send(np.ascontiguousarray(wide))
        writer.close()
        pictures.check_film(Path(file.name))

    files.write(out / "video.mp4", film)
    rows: Rows = [
        {
            "game": game,
            "alpha": a,
            "T": t,
            "frames": frames,
            "first_frame": next((i + 1 for i, n in enumerate(c) if n), None),
            "frames_differing": sum(n > 0 for n in c),
            "pixels_median_first_1000": float(np.median(c[:1000])),
        }
        for (a, t), c in zip(settings, counts, strict=True)
    ]
    save(rows, out, "video")
    show(
        rows,
        ["alpha", "T", "first_frame", "frames_differing", "pixels_median_first_1000"],
        str(out / "video.mp4"),
    )


@app.command(epilog="Example: vcs relax gradient --out relax")
def gradient(out: Out = Path("relax")) -> None:
    """The gate and its slope against alpha, the select against T, and theorem 2's deviations beside their
    bounds."""
    rows: Rows = [
        {
            "alpha": a,
            "z": 0.25,
            "g": float(model.gate(0.25, a)),
            "dg_dz": float(model.gate_slope(0.25, a)),
            "relative": float(model.gate_slope(0.25, a) / model.gate_slope(0.25, 6.0)),
        }
        for a in (2.0, 6.0, 20.0)
    ]
    rows += [
        {"T": t, "sigma_px": 6 * (t / 2) ** 0.5, "largest_weight": float(model.select_weights(t).max())}
        for t in (2.0, 0.5, 0.1)
    ]
    save(rows, out, "gradient")
    figures.gradient(out / "gradient.png")
    show(
        rows,
        ["alpha", "T", "g", "dg_dz", "relative", "sigma_px", "largest_weight"],
        "gate at z = 0.25, select",
    )
    theorem = study.deviation()
    save(theorem, out, "deviation")
    show(
        theorem,
        ["kind", "alpha", "T", "deviation", "bound", "derivative"],
        "one-step deviation and bound (theorem 2)",
    )


@app.command(epilog="Example: vcs relax margins pong --out relax")
def margins(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="A game name or the path of a cartridge image.")
    ],
    frames: Annotated[int, typer.Option(min=1, max=600, help="Frames to trace after the boot.")] = 2,
    out: Out = Path("relax"),
) -> None:
    """For each branch and read of a trace, the alpha or T at which it first rounds wrong, with its
    instruction."""
    from vcs import layout
    from vcs.asm import format_instruction
    from vcs.machine import Machine

    m = Machine(game, protocol="xitari")
    m.reset()
    trace = m.trace([0] * frames)
    rows = model.margins(trace)
    first = {
        int(pc): (int(o), int(a), int(b))
        for pc, o, a, b in zip(
            trace.pc[::-1], trace.opcode[::-1], trace.b1[::-1], trace.b2[::-1], strict=True
        )
    }
    for row in rows:
        row["location"] = layout.name(row["location"])
        row["instruction"] = format_instruction(*first[row["pc"]], row["pc"])
        row["pc"] = f"${row['pc']:04X}"
        row["threshold"] = row["threshold"] if np.isfinite(row["threshold"]) else None
    name = f"margins_{m.name}"
    save(rows, out, name)
    figures.margins(
        [r | {"threshold": r["threshold"] if r["threshold"] is not None else np.inf} for r in rows],
        out / f"{name}.png",
        f"{m.name}, {frames} frames",
    )
    for kind in ("branch", "fetch", "rom", "ram"):
        show(
            [r for r in rows if r["kind"] == kind][:6],
            ["pc", "instruction", "location", "value", "threshold", "count"],
            f"weakest: {kind} ({'exact above this alpha' if kind == 'branch' else 'exact below this T'})",
        )


@app.command("all", epilog="Example: vcs relax all --games pong,breakout --out relax")
def everything(
    games: Annotated[
        str, typer.Option(help="Games of the corner table: names, or all.")
    ] = "pong,breakout,space_invaders",
    frames: Annotated[int, typer.Option(min=1, max=1_000_000, help="Frames of each run.")] = 3000,
    out: Out = Path("relax"),
) -> None:
    """Every table and figure but the video."""
    chosen = _games(games)
    with _pieces(out, "all", *chosen) as keep:
        _whole.append(keep)
        try:
            boundary(out)
            heatmap(out)
            delayed(out, frames=frames)
            shadow(out)
            gradient(out)
            corner(games, frames, out)
            for game in chosen[:6]:
                margins(game, out=out)
        finally:
            _whole.clear()

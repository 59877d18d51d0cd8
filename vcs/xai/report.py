"""A static site from the records of an audit: leaderboard, one page per method, one per (method, game).

Pages are plain HTML with inline SVG, no scripts, and link to the records they show and to the lines of source
that computed them. Regions are painted through footprints measured on the shared gameplay state itself, so
building the site runs the machine again for every game.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import vcs
from vcs import files, pictures, roms
from vcs.command import deaf
from vcs.errors import VcsError
from vcs.xai import audit, figures, methods, metrics, records
from vcs.xai.state import State

ROOT = Path(vcs.__file__).parent.parent
# The way from the runner to the machine: file, text at the start of the line linked to, what it does.
STACK = (
    ("vcs/xai/audit.py", "def run_task", "one game: boot, play 90 actions, score every method"),
    ("vcs/xai/state.py", "class State", "the shared gameplay state, its causes and outputs"),
    ("vcs/xai/scoring.py", "def score(", "one method on one output, with all scores"),
    (None, None, "the method itself"),
    ("vcs/xai/state.py", "    def effects", "the oracle: true effect of every cause"),
    ("vcs/xai/state.py", "    def curves", "deletion and insertion on the true machine"),
    ("vcs/xai/metrics.py", "def pearson", "F"),
    ("vcs/xai/metrics.py", "def sufficiency", "S"),
    ("vcs/xai/metrics.py", "def minimality", "M"),
    ("vcs/xai/oracle.py", "    def run(", "batched re-runs from the checkpoint"),
    ("vcs/_hard/oracle.pxi", "def replay_batch", "the loop over re-runs, without the GIL"),
    ("vcs/_hard/machine.pyx", "cdef void run_frame", "one frame of the machine"),
)


@dataclass(frozen=True)
class Step:
    """One line of the call stack."""

    where: str
    href: str
    what: str
    absolute: bool


def _line(path: Path, text: str) -> int:
    """Line number at which ``text`` starts a line, 1 if it does not."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(text):
            return number
    return 1


def _stack(method: methods.Method, source: str) -> tuple[list[Step], set[str]]:
    """The call stack of a method, and the files it links to."""
    steps, used = [], set()
    for file, text, what in STACK:
        if file is None or text is None:
            place = records.where(method)
            file, _, number = place.rpartition(":")
            if not (ROOT / file).is_file():
                steps.append(Step(place, "index.html", f"{what} (in a file of yours)", False))
                continue
            line = int(number)
        elif (ROOT / file).is_file():
            line = _line(ROOT / file, text)
        else:  # an installation without the sources of the compiled engine
            continue
        used.add(file)
        steps.append(
            Step(
                f"{file}:{line}",
                f"{source.rstrip('/')}/{file}#L{line}" if source else f"source/{file}.html#L{line}",
                what,
                bool(source),
            )
        )
    return steps, used


def _environment() -> Any:
    try:
        import jinja2
    except ImportError:
        raise VcsError("the report needs jinja2: pip install 'glassvcs[xai]'") from None
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["num"] = lambda v, digits=3: "n/a" if v is None else f"{v:.{digits}f}"
    env.globals |= {"version": vcs.__version__, "commit": records.commit()}
    return env


def _images(task: tuple[str, list[tuple[str, str]], str]) -> str:
    """Draw the pictures of one game; a task of its own so that games can run in parallel."""
    game, shown, out = task
    folder = Path(out)
    image = roms.find(game)
    state = State(image)
    screen = state.baseline.picture()
    prints = figures.footprints(state)
    place = folder / "img" / game
    files.write_bytes(place / "frame.png", pictures.png(figures.rgb(screen), 1))
    drawn: set[str] = set()
    for name, record_path in shown:
        record, arrays = records.load(Path(record_path))
        kind = record["extra"]["output_kind"]
        target = record["extra"].get("content_ram_index", -1)
        for file, values, colour in (
            (_true_image(kind, target), arrays["oracle_abs_delta"], figures.ORACLE),
            (_named_image(name, kind), arrays["saliency_attr_per_cause"], figures.METHOD),
        ):
            if file in drawn:
                continue
            drawn.add(file)
            warmth = figures.heat(figures.per_cell(state.causes, values), prints, screen.shape)
            files.write_bytes(place / file, pictures.png(figures.overlay(screen, warmth, colour), 1))
    return game


def _true_image(kind: str, target: int) -> str:
    """File of the picture of the true causes; methods that choose another content cell have their own."""
    return f"true_{kind}_{target}.png"


def _named_image(method: str, kind: str) -> str:
    """File of the picture of the causes that a method named."""
    return f"{method}_{kind}.png"


def build(
    folder: Path | str,
    out: Path | str,
    *,
    jobs: int = 1,
    source: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Build the site of a record folder into ``out`` and return the path of its index.

    jobs: processes for the pictures. source: base address for source links; by default the sources are
    rendered beside the pages. progress: called with (steps done, steps).
    Raises VcsError if the folder holds no records.
    """
    folder, out = Path(folder), Path(out)
    found = list(records.every(folder))
    if not found:
        raise VcsError(f"{folder} holds no audit records; make some with `vcs audit --out {folder}`")
    env = _environment()
    rows = audit.aggregate([r for _, r in found])
    table = audit.per_game([r for _, r in found])
    by_page: dict[tuple[str, str], list[tuple[Path, dict[str, Any]]]] = {}
    by_game: dict[str, list[tuple[str, str]]] = {}
    for path, record in found:
        key = record["extra"]["method_key"]
        by_page.setdefault((key, record["game"]), []).append((path, record))
        by_game.setdefault(record["game"], []).append((key, str(path)))
    steps = len(by_game) + len(by_page)
    count = 0

    def advance() -> None:
        nonlocal count
        count += 1
        if progress:
            progress(count, steps)

    def page(place: str, template: str, **facts: Any) -> None:
        root = "../" * place.count("/")
        files.write_text(out / place, env.get_template(template).render(root=root, **facts))

    for _ in _parallel([(g, shown, str(out)) for g, shown in by_game.items()], jobs):
        advance()
    files.write_bytes(out / "style.css", (Path(__file__).parent / "templates" / "style.css").read_bytes())
    page(
        "index.html",
        "index.html",
        title="Which explanations are true?",
        rows=[asdict(r) for r in rows],
        headline=audit.headline([r for _, r in found]),
        absent=methods.not_applicable(),
    )
    used: set[str] = set()
    for row in rows:
        method = _method(row)
        stack, linked = _stack(method, source)
        used |= linked
        page(
            f"methods/{method.name}.html",
            "method.html",
            title=method.title,
            method=method,
            row=asdict(row),
            games=[t for t in table if t["method"] == method.name],
            stack=stack,
        )
        for (name, game), entries in by_page.items():
            if name != method.name:
                continue
            outputs = [_output(path, record, out) for path, record in entries]
            page(
                f"pages/{name}/{game}.html",
                "game.html",
                title=f"{method.title}: {game}",
                method=method,
                game=game,
                outputs=outputs,
                stack=stack,
                height=outputs[0]["rows"],
                labelled=entries[0][1]["extra"]["labelled"],
            )
            advance()
    if not source:
        for file in sorted(used):
            lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
            page(f"source/{file}.html", "source.html", title=file, lines=lines)
    return out / "index.html"


def _parallel(tasks: Sequence[tuple[str, list[tuple[str, str]], str]], jobs: int) -> Any:
    if jobs == 1 or len(tasks) == 1:
        return map(_images, tasks)
    try:
        from joblib import Parallel, delayed
    except ImportError:
        raise VcsError("several jobs need joblib: pip install 'glassvcs[xai]', or use --jobs 1") from None
    with deaf():  # the workers start here
        return Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_images)(t) for t in tasks)


def _method(row: audit.Row) -> methods.Method:
    """The method of a row; a stand-in for one whose plugin is not loaded."""
    try:
        method = methods.get(row.method)
    except VcsError:
        return methods.Method(row.method, lambda s, o, c: [], title=row.title, tradition=row.tradition)
    if not method.summary:
        return methods.Method(**{**method.__dict__, "summary": inspect.getdoc(method.attribute) or ""})
    return method


def _output(path: Path, record: dict[str, Any], out: Path) -> dict[str, Any]:
    """What a page says about one record; copies the record beside the pages."""
    _, arrays = records.load(path)
    extra, kind = record["extra"], record["extra"]["output_kind"]
    for file in (path, path.with_suffix(".npz")):
        files.write_bytes(out / "records" / file.name, file.read_bytes())
    scores, triad = extra["metrics"], extra["triad"]
    image = out / "img" / record["game"] / "frame.png"
    return {
        "kind": kind,
        "target": record["target_output"],
        "F": metrics.clip01(record["value"]),
        "raw": record["value"],
        "spearman": scores["spearman_corr"],
        "precision": scores["precision_at_k"],
        "deletion_auc": scores["deletion_auc"],
        "insertion_auc": scores["insertion_auc"],
        "S": triad["S"],
        "M": triad["M"],
        "movers": triad["M_true_minimal_size"],
        "named": triad["M_named_size"],
        "constant": extra["oracle_constant"],
        "oracle_image": _true_image(kind, extra["content_ram_index"]),
        "method_image": _named_image(extra["method_key"], kind),
        "rows": _rows(image),
        "bars": figures.bars_svg(
            extra["cause_names"], arrays["oracle_abs_delta"], arrays["saliency_attr_per_cause"]
        ),
        "curves": figures.curves_svg(arrays["deletion_curve"], arrays["insertion_curve"]),
        "json": path.name,
        "npz": path.with_suffix(".npz").name,
        "state": record["state"],
        "rom": extra["provenance"]["rom_sha256"],
        "stream": extra["provenance"]["stream_sha256"],
        "version": extra["provenance"]["glassvcs"],
    }


def _rows(image: Path) -> int:
    """Height of a PNG, from its header."""
    head = image.read_bytes()[:24]
    return int(np.frombuffer(head[20:24], ">u4")[0]) if re.match(rb"\x89PNG", head) else 210

"""Audit records on disk: one JSON and one NPZ per (method, game, output), written so that none is ever half.

The fields are those of section 12 of the audit protocol, with the same names for every method (its schema
calls a method's attribution ``saliency_attr_per_cause`` whatever the method). Provenance travels in
``extra.provenance``: ROM hash, versions, commit, seed, action stream hash, rule set, method source hash.
The NPZ is written before the JSON, so a JSON that is there has its arrays.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import vcs
from vcs import files
from vcs.errors import VcsError
from vcs.xai.methods import Method
from vcs.xai.outputs import Position
from vcs.xai.scoring import Score
from vcs.xai.state import DENSITY_FLOOR, DENSITY_GATE, State, stream_hash

FIELDS = (
    "paper",
    "phase",
    "method",
    "game",
    "state",
    "target_output",
    "metric_name",
    "value",
    "n",
    "seed",
    "stderr",
    "ci",
    "where",
    "commit",
    "timestamp",
    "oracle_ref",
    "arrays",
    "extra",
)
ARRAYS = (
    "saliency_attr_per_cause",
    "oracle_abs_delta",
    "saliency_over_ram",
    "deletion_curve",
    "insertion_curve",
    "scalars",
)
DEFINITION = {
    "F": "Pearson of attribution and |Delta y| per cause (audit protocol 7.1), raw",
    "S": "share of held-out causes predicted within eps by a line fitted on the other half (7.8)",
    "M": "oracle movers / named causes, at most 1 (7.9)",
}


@cache
def commit() -> str | None:
    """The commit of the source tree this package runs from, None outside one."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(vcs.__file__).parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def source_hash(method: Method) -> str:
    """SHA-256 of the module that defines a method: a record made by other code is made again."""
    try:
        text = inspect.getsource(inspect.getmodule(method.attribute) or method.attribute)
    except (OSError, TypeError):
        text = method.name
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def gradient_hash() -> str:
    """SHA-256 of what computes end-to-end gradients: the front end and the compiled reverse sweep."""
    folder = Path(vcs.__file__).parent
    digest = hashlib.sha256()
    for path in (folder / "gradient.py", *sorted((folder / "_adjoint").glob("*.py"))):
        digest.update(path.read_bytes())
    for path in sorted((folder / "_adjoint").glob("_adjoint*.so")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def where(method: Method) -> str:
    """File and line of a method, relative to the repository where possible."""
    try:
        file = Path(inspect.getsourcefile(method.attribute) or "?")
        line = inspect.getsourcelines(method.attribute)[1]
    except (OSError, TypeError):
        return "?"
    root = Path(vcs.__file__).parent.parent
    return f"{file.relative_to(root) if file.is_relative_to(root) else file.name}:{line}"


def stem(method: str, game: str, kind: str) -> str:
    """File name of a record without suffix: METHOD_GAME_OUTPUT."""
    return f"{method}_{game}_{kind}"


def provenance(method: Method, rom_sha256: str, stream: list[int], seed: int) -> dict[str, Any]:
    """What a record depends on, apart from the machine it ran on."""
    facts = {"gradient_sha256": gradient_hash()} if method.rules in ("value", "bit") else {}
    return facts | {
        "rom_sha256": rom_sha256,
        "stream_sha256": stream_hash(stream),
        "seed": seed,
        "rules": method.rules,
        "method_sha256": source_hash(method),
        "glassvcs": vcs.__version__,
    }


def finite(value: float) -> float | None:
    """The value, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None


def build(state: State, score: Score, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The record of a score and its arrays, by section 12."""
    method, names = score.method, [c.name for c in score.causes]
    over_ram = np.asarray(score.arrays.get("saliency_over_ram", np.zeros(128)), np.float64)
    over = dict(zip(names, score.attribution.tolist(), strict=True))
    horizon = len(state.tail)
    spelled = (
        f"f{state.prefix}+{horizon}"
        if kind == "content" and state.seed == 0
        else f"gameplay(seed={state.seed},prefix={state.prefix})+{horizon}"
    )
    extra: dict[str, Any] = {
        "output_kind": kind,
        "method_key": method.name,
        "content_ram_index": getattr(score.output, "cell", -1) if kind == "content" else -1,
        "cause_names": names,
        "cause_concepts": [c.concept for c in score.causes],
        "oracle_abs_delta_per_cause": dict(zip(names, score.oracle.tolist(), strict=True)),
        "saliency_attr_per_cause": over,
        "metrics": {
            "pearson_corr": score.pearson,
            "spearman_corr": score.spearman,
            "precision_at_k": score.precision,
            "topk": min(3, len(names)),
            "deletion_auc": score.deletion_auc,
            "insertion_auc": score.insertion_auc,
        },
        "triad": {
            "F": score.pearson,
            "S": score.sufficiency,
            "M": score.minimality.value,
            "S_note": None if score.sufficiency is not None else "undefined: fewer than 4 causes",
            "M_note": None if score.minimality.value is not None else "undefined: no mover or nothing named",
            "M_true_minimal_size": score.minimality.movers,
            "M_named_size": score.minimality.named,
            "definition": DEFINITION,
        },
        "harness_positive_control": score.control,
        "grad_l1": finite(float(np.abs(over_ram).sum())),
        "sal_max_abs": float(np.abs(score.attribution).max(initial=0.0)),
        "y_full": score.baseline,
        "oracle_constant": bool(np.ptp(score.oracle) == 0),
        "labelled": state.labelled,
        "method_extra": score.extra,
        "provenance": provenance(method, state.rom_sha256, state.stream, state.seed)
        | {"numpy": np.__version__, "python": platform.python_version()},
    }
    if kind == "position":
        sampler = score.output.sampler if isinstance(score.output, Position) else state.position.sampler
        largest = float(np.abs(sampler.gradient(state.ram.astype(np.float32))).max())
        extra["testbed"] = {
            "prefix": state.prefix,
            "horizon": horizon,
            "seed": state.seed,
            "cause_density_above_floor": state.density,
            "cause_density_floor": DENSITY_FLOOR,
            "cause_density_gate_k": DENSITY_GATE,
            "cause_density_accepted": state.density >= DENSITY_GATE,
            "n_causes": len(names),
            "position_byte_ram_index": sampler.cell,
            "shared_output": score.output.name,
        }
        extra["sampler_on"] = {
            "naive_position_grad_max": 0,
            "sampler_position_grad_max": largest,
            "position_byte_in_cause_set": sampler.cell in state.cells,
            "per_cause_faithfulness_null": bool(np.all(np.abs(score.attribution) < 1e-9)),
        }

    def undefined(v: float | None) -> float:
        return float("nan") if v is None else v

    arrays: dict[str, NDArray[Any]] = dict(score.arrays) | {
        "saliency_attr_per_cause": score.attribution,
        "oracle_abs_delta": score.oracle,
        "saliency_over_ram": over_ram,
        "deletion_curve": score.deletion,
        "insertion_curve": score.insertion,
        "scalars": np.array(
            [
                score.pearson,
                score.spearman,
                score.precision,
                undefined(score.deletion_auc),
                undefined(score.insertion_auc),
                float(np.abs(over_ram).sum()),
            ]
        ),
    }
    record = {
        "paper": "P2",
        "phase": "phaseB_attribution",
        "method": method.record_name,
        "game": state.game,
        "state": spelled,
        "target_output": score.output.name,
        "metric_name": "pearson_corr_with_oracle",
        "value": score.pearson,
        "n": len(names),
        "seed": state.seed,
        "stderr": None,
        "ci": None,
        "where": where(method),
        "commit": commit(),
        "timestamp": f"{time.time():.0f}",
        "oracle_ref": "vcs/xai/oracle.py",
        "arrays": stem(method.name, state.game, kind) + ".npz",
        "extra": extra,
    }
    return record, arrays


def save(folder: Path, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write the NPZ, then the JSON; both in one step each. Raises VcsError if the place cannot be written."""
    npz = folder / str(record["arrays"])
    files.write(npz, lambda file: np.savez_compressed(file, allow_pickle=False, **dict(arrays)))
    return files.write_text(npz.with_suffix(".json"), json.dumps(record, indent=1, allow_nan=False) + "\n")


def _number(v: Any) -> bool:
    return isinstance(v, (int, float)) and not isinstance(v, bool) and -1e300 < v < 1e300


def _maybe(v: Any) -> bool:
    return v is None or _number(v)


def _text(v: Any) -> bool:
    return isinstance(v, str)


def _name(v: Any) -> bool:
    """What may become part of a file name."""
    return isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", v) is not None


def _count(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 31


def _texts(v: Any) -> bool:
    return isinstance(v, list) and all(isinstance(e, str) for e in v)


# What leaderboard, report and figures take from a record, so that a stranger's cannot mislead or end them.
_TYPES: dict[tuple[str, ...], Callable[[Any], bool]] = {
    ("game",): _name,
    ("state",): _text,
    ("target_output",): _text,
    ("value",): _number,
    ("n",): _count,
    ("arrays",): _name,
    ("extra", "output_kind"): lambda v: v in ("content", "position"),
    ("extra", "method_key"): _name,
    ("extra", "content_ram_index"): lambda v: v == -1 or _count(v),
    ("extra", "cause_names"): _texts,
    ("extra", "oracle_constant"): lambda v: isinstance(v, bool),
    ("extra", "labelled"): lambda v: isinstance(v, bool),
    ("extra", "metrics", "spearman_corr"): _number,
    ("extra", "metrics", "precision_at_k"): _number,
    ("extra", "metrics", "deletion_auc"): _maybe,
    ("extra", "metrics", "insertion_auc"): _maybe,
    ("extra", "triad", "S"): _maybe,
    ("extra", "triad", "M"): _maybe,
    ("extra", "triad", "M_true_minimal_size"): _count,
    ("extra", "triad", "M_named_size"): _count,
    ("extra", "provenance", "rom_sha256"): _text,
    ("extra", "provenance", "stream_sha256"): _text,
    ("extra", "provenance", "glassvcs"): _text,
}


def _wrong(record: Any) -> str | None:
    """The first field of a record that is missing or not what it should be."""
    if not isinstance(record, dict):
        return "it is no object"
    for name in FIELDS:
        if name not in record:
            return f"the field {name} is missing"
    for place, fits in _TYPES.items():
        value: Any = record
        for key in place:
            value = value.get(key, ...) if isinstance(value, dict) else ...
        if value is ... or not fits(value):
            return f"the field {'.'.join(place)} is missing or wrong"
    return None


def load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A record and its arrays, checked. Raises VcsError for anything missing, damaged or not a record."""
    again = "delete it and run the audit again"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        wrong = _wrong(record)
        if wrong:
            raise VcsError(f"{path} is not an audit record ({wrong}); {again}")
        with np.load(path.with_name(record["arrays"]), allow_pickle=False) as stored:
            arrays = {k: stored[k] for k in stored.files}
    except VcsError:
        raise
    except Exception as why:  # zipfile, zlib, numpy and even tokenize raise their own kinds
        raise VcsError(
            f"{path} cannot be read as an audit record ({type(why).__name__}: {why}); {again}"
        ) from None
    n = record["n"]
    lengths = {"saliency_attr_per_cause": n, "oracle_abs_delta": n, "saliency_over_ram": 128, "scalars": 6}
    for name in ARRAYS:
        array = arrays.get(name)
        if (
            array is None
            or array.dtype.kind != "f"
            or array.ndim != 1
            or len(array) != lengths.get(name, len(array))
        ):
            raise VcsError(f"{path} is damaged (its array {name} is missing or has another shape); {again}")
    if len(record["extra"]["cause_names"]) != n:
        raise VcsError(f"{path} is damaged (it does not name its {n} causes); {again}")
    return record, arrays


def current(folder: Path, method: Method, game: str, kind: str, facts: Mapping[str, Any]) -> bool:
    """Whether a valid record made from the same facts is already there."""
    path = folder / (stem(method.name, game, kind) + ".json")
    if not path.is_file():
        return False
    try:
        known = load(path)[0]["extra"]["provenance"]
    except VcsError:
        return False
    return all(known.get(k) == v for k, v in facts.items())


def every(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All readable records of a folder, in name order; files that are no records are skipped."""
    for path in sorted(folder.glob("*_*_*.json")):
        try:
            yield path, load(path)[0]
        except VcsError:
            continue

"""One method on one state and output, scored: the numbers of section 7 in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcs import checks
from vcs.xai import metrics
from vcs.xai.causes import Cause
from vcs.xai.methods import Attribution, Method, checked, get
from vcs.xai.outputs import Output
from vcs.xai.state import State

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A method's attribution of one output in one state, and every score of it.

    causes: the n candidates. attribution, oracle: float64[n], the method's numbers and the true effects.
    averaged: float64[n], the attribution that S and M are made from. baseline: the output without
    intervention. pearson is F as recorded (sign kept), spearman the rank correlation, precision that of the
    three largest. deletion, insertion: float64[n + 1], deletion_auc and insertion_auc the areas under them.
    sufficiency, minimality: None where the protocol leaves them undefined. control: the oracle's own scores.
    extra, arrays: what the method reported beside its numbers.
    """

    method: Method
    output: Output
    causes: tuple[Cause, ...]
    attribution: Vector
    averaged: Vector
    oracle: Vector
    baseline: float
    pearson: float
    spearman: float
    precision: float
    deletion: Vector
    insertion: Vector
    deletion_auc: float | None
    insertion_auc: float | None
    sufficiency: float | None
    minimality: metrics.Minimality
    control: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def faithfulness(self) -> float:
        """F clipped to [0, 1] (8.1)."""
        return metrics.clip01(self.pearson)


def _curves(state: State, output: Output, a: Vector) -> tuple[Vector, Vector, float | None, float | None]:
    deletion, insertion = state.curves(output, a)
    return deletion, insertion, *metrics.aucs(deletion.tolist(), insertion.tolist())


def score(state: State, method: str | Method, output: str | Output, *, curves: bool = True) -> Score:
    """Run a method on a state and score it against the oracle.

    method: a registered name or a `Method`. output: ``content``, ``position`` or an `Output`. curves: also
    deletion and insertion curves (n + 1 re-runs each), else they are empty.
    Raises VcsError for an unknown name or an attribution of the wrong shape or with NaN.
    """
    checks.instance("the state", state, State, "an xai.State")
    chosen = get(method) if isinstance(method, str) else method
    checks.instance("the method", chosen, Method, "a registered name, or an xai.Method")
    target = state.output(output) if isinstance(output, str) else output
    checks.instance("the output", target, Output, "content, position, or an output of vcs.xai")
    if chosen.choose is not None:
        target = chosen.choose(state, target)
    causes = state.causes
    result = chosen.attribute(state, target, causes)
    if not isinstance(result, Attribution):
        result = Attribution(result)
    a = checked(result.values, len(causes), chosen.name)
    averaged = a if result.averaged is None else checked(result.averaged, len(causes), chosen.name)
    o = state.effects(target)
    empty = np.zeros(0)
    deletion, insertion, del_auc, ins_auc = (
        _curves(state, target, a) if curves else (empty, empty, None, None)
    )
    _, _, best_del, best_ins = _curves(state, target, o) if curves else (empty, empty, None, None)
    return Score(
        method=chosen,
        output=target,
        causes=tuple(causes),
        attribution=a,
        averaged=averaged,
        oracle=o,
        baseline=state.value(target),
        pearson=metrics.pearson(a, o),
        spearman=metrics.spearman(a, o),
        precision=metrics.precision_at_k(a, o),
        deletion=deletion,
        insertion=insertion,
        deletion_auc=del_auc,
        insertion_auc=ins_auc,
        sufficiency=metrics.sufficiency(averaged, o),
        minimality=metrics.minimality(averaged, o),
        control={
            "pearson_corr": metrics.pearson(o, o),
            "precision_at_k": metrics.precision_at_k(o, o),
            "deletion_auc": best_del,
            "insertion_auc": best_ins,
        },
        extra=dict(result.extra),
        arrays=dict(result.arrays),
    )

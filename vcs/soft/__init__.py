"""The soft machine: the chips again, as differentiable primitives on HIPS autograd.

`ops` holds the primitives, `rules` their derivatives by the same names, `cpu`, `tia`, `riot` and `cart` the
chips, `relax` the fully relaxed reads, `replay` the run along a trace, `primitive` the compiled adjoint of a
whole trace as one primitive (`rollout`). docs/gradients.md is the algebra.
"""

from __future__ import annotations

from typing import Any

from vcs.soft.replay import Outputs, Replay, Step, replay
from vcs.soft.rules import rule_set

__all__ = ["Outputs", "Replay", "Rollout", "Step", "replay", "rollout", "rule_set"]


def __getattr__(name: str) -> Any:
    """`rollout` and `Rollout` on first use: the compiled engine imports this package."""
    if name in ("rollout", "Rollout"):
        from vcs.soft import primitive

        return getattr(primitive, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

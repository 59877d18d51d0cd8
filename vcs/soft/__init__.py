"""The soft machine: the chips again, as differentiable primitives on HIPS autograd.

`ops` holds the primitives, `rules` their derivatives by the same names, `cpu`, `tia`, `riot` and `cart` the
chips, `relax` the fully relaxed reads, `replay` the run along a trace. docs/gradients.md is the algebra.
"""

from __future__ import annotations

from vcs.soft.replay import Outputs, Replay, Step, replay
from vcs.soft.rules import rule_set

__all__ = ["Outputs", "Replay", "Step", "replay", "rule_set"]

"""Explanations scored against the machine's true causes: oracle, methods, metrics, audit, labels, report.

Models the attribution audit (spec/audit.md): outputs and causes as small objects, exact interventions, one
call shape for methods, protocol-exact scores. Leaves out anything learned: methods see the machine only.

    from vcs import xai
    state = xai.State("pong")
    xai.score(state, "saliency", "content").faithfulness

Names are imported on first use, so that ``import vcs.xai`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Act": "causes",
    "Cause": "causes",
    "Do": "causes",
    "Content": "outputs",
    "Outcome": "outputs",
    "Output": "outputs",
    "Pixel": "outputs",
    "Position": "outputs",
    "Region": "outputs",
    "Reward": "outputs",
    "Oracle": "oracle",
    "do": "oracle",
    "State": "state",
    "Attribution": "methods",
    "Method": "methods",
    "register": "methods",
    "Score": "scoring",
    "score": "scoring",
    "run_audit": "audit",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'vcs.xai' has no attribute {name!r}")
    return getattr(importlib.import_module(f"vcs.xai.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

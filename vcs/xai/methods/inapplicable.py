"""Methods of the study that have no meaning on this machine (9.12): listed with the reason, never scored."""

from __future__ import annotations

from collections.abc import Sequence

from vcs.errors import VcsError
from vcs.xai.causes import Cause
from vcs.xai.methods import register
from vcs.xai.outputs import Output
from vcs.xai.state import State


def _refuse(state: State, output: Output, causes: Sequence[Cause]) -> list[float]:
    raise VcsError("this method has no meaning on this machine and cannot be scored; choose another")


for _name, _title, _why in (
    ("grad_cam", "Grad-CAM", "it needs convolutional feature maps; the machine has none"),
    ("attention", "Attention", "it needs attention weights; the machine has none"),
    (
        "policy_distillation",
        "Policy distillation",
        "it explains an agent's policy; no agent is part of the machine",
    ),
):
    register(_name, title=_title, tradition="descriptive", not_applicable=_why)(_refuse)

"""Where a fully relaxed machine stays exact (spec relaxation.md, soft.md 5).

The machine of this study is the whole one: CPU, TIA, RIOT and cartridge run as they are, only branches and
reads of
ROM and RAM are relaxed and rounded (`Core.relax`). `collapsed` restates the smaller machine of the published
ports,
so that their numbers come out of the same command. Modules: `model` (closed forms and the cast-margin model),
`study` (the experiments), `collapsed`, `figures`, `cli` (`vcs relax`).
"""

from __future__ import annotations

from vcs.relax.model import ALPHA_EXACT, TEMPERATURE_EXACT, margins, p_step, read_pull, summary
from vcs.relax.study import boundary, corner, cross_game, delayed, first_difference, shadow, video_rows

__all__ = [
    "ALPHA_EXACT",
    "TEMPERATURE_EXACT",
    "boundary",
    "corner",
    "cross_game",
    "delayed",
    "first_difference",
    "margins",
    "p_step",
    "read_pull",
    "shadow",
    "summary",
    "video_rows",
]

"""The boot states of both protocols (``reset_vectors.json``, environment.md section 11)."""

from __future__ import annotations

import hashlib
from typing import Any

import vcs
from conformance.cases import DIFFERENT, EQUAL, Case, Outcome
from conformance.vectors import load

STAGES = {
    "xitari": ("after_construct", "after_resetGame_1", "after_resetGame_2"),
    "ale": ("after_loadROM", "after_reset_game_1", "after_reset_game_2"),
}


def games() -> list[str]:
    return sorted(load("reset_vectors")["roms"])


def _state(m: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Our state under the vector's names, for the names that the vector has."""
    r = m.registers
    timer = m.riot()
    everything = {
        "ram": m.ram.tobytes().hex(),
        "ram_sha256": hashlib.sha256(m.ram.tobytes()).hexdigest(),
        "screen_sha256": hashlib.sha256(m.screen.tobytes()).hexdigest(),
        "cpu_A_X_Y_SP_P_PC": [r.A, r.X, r.Y, r.SP, r.P, r.PC],
        "cycles_in_frame": m.cycles,
        "timer": {"value": timer["n"], "shift": timer["shift"], "set_cycle": timer["set"]},
        "lives": m.lives,
    }
    unknown = set(wanted) - set(everything)
    assert not unknown, f"fields of the vector that this check does not know: {unknown}"
    return {k: everything[k] for k in wanted}


def run(case: Case) -> Outcome:
    """All three stages of one game and protocol. Parameter: protocol."""
    protocol = case.params["protocol"]
    vector = load("reset_vectors")["roms"][case.game][protocol]
    counts = {"stages": 0}
    m = vcs.Machine(case.game, protocol=protocol)
    for i, stage in enumerate(STAGES[protocol]):
        if i:
            m.reset()
        theirs = vector[stage]
        ours = _state(m, theirs)
        if ours != theirs:
            wrong = [k for k in theirs if ours[k] != theirs[k]]
            return Outcome(
                case,
                DIFFERENT,
                counts,
                message=f"{', '.join(wrong)} {stage}",
                difference={"stage": stage, "ours": ours, "theirs": theirs},
            )
        counts["stages"] += 1
    return Outcome(case, EQUAL, counts)

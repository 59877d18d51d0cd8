"""The TIA (with the CPU that drives it) against 164 measured kernels, in every way the machine can run.

Each kernel is a cartridge run from a system reset with forced properties; after every frame call the whole
picture, the line count and the cycle counter are compared, at the end positions, collisions, clocks and RAM.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np
import pytest

from conformance.vectors import load
from vcs._hard.machine import Core
from vcs.cart import MAPPERS

VECTORS = {v["name"]: v for v in load("tia_vectors")["vectors"]}
FORMATS = {"NTSC": 1, "PAL": 2, "SECAM": 3}
EVENTS = {("left_joystick_fire", 1): {"action_a": 1}}


def power_on(v: dict[str, Any]) -> Core:
    core = Core(
        base64.b64decode(v["rom_b64"]),
        MAPPERS["4K"],
        ale=False,
        y0=v["ystart"],
        height=v["height"],
        format=FORMATS[v["format"]],
        hmove_blanks=v["hmove_blanks"],
    )
    if v["partial_flag_at_reset"]:
        core.run_frame()  # these kernels never end a frame, so the flag is set when the reset comes
        assert core.tia()["inprogress"]
        core.system_reset()
    return core


def rows(text: dict[str, str]) -> dict[int, np.ndarray]:
    """The vector's run-length coded rows, by row number."""
    out = {}
    for key, runs in text.items():
        row = np.concatenate(
            [
                np.full(int(n), int(value, 16), np.uint8)
                for n, value in (run.split("*") for run in runs.split())
            ]
        )
        first, _, last = key.partition("-")
        for r in range(int(first), int(last or first) + 1):
            out[r] = row
    return out


@pytest.mark.parametrize("how", ["shortcuts", "plain", "traced"])
@pytest.mark.parametrize("name", sorted(VECTORS))
def test_kernel(name: str, how: str) -> None:
    v = VECTORS[name]
    core = power_on(v)
    if how == "plain":
        core.shortcuts = 0
    height = v["height"]
    for call, info in enumerate(v["frame_info"]):
        for event in v.get("events", {}).get(str(call), []):
            core.set_inputs(**EVENTS[tuple(event)])
        if how == "traced":
            record = core.record([0], raw_frames=True)
            assert np.array_equal(record["screens"][-1], core.screen)
        else:
            core.run_frame()
        picture = hashlib.sha256(core.screen[:height].tobytes()).hexdigest()
        found = {"sha256": picture, "scanlines": core.tia()["lines"], "cycles_at_end": core.cycles}
        if call == len(v["frame_info"]) - 1:
            for r, row in rows(v["rows"]).items():
                assert core.screen[r].tolist() == row.tolist(), f"row {r}"
        assert found == info, f"frame call {call}"
    tia = core.tia()
    assert {
        "pos": dict(zip(("P0", "P1", "M0", "M1", "BL"), tia["pos"], strict=True)),
        "collision": f"{tia['collisions']:04X}",
        "frame_start_clock": tia["F"],
        "partial": tia["inprogress"],
    } == {**v["end_state"], "collision": v["end_state"]["collision"].upper()}
    for address, value in v.get("ram", {}).items():
        assert core.ram[int(address, 16) - 0x80] == (value if isinstance(value, int) else int(value, 16)), (
            address
        )

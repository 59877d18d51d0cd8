"""All 104 games beside the installed ale-py: what of ``python -m conformance ale`` CI can afford."""

from __future__ import annotations

import pytest

pytest.importorskip("ale_py")

from conformance import ale
from conformance import reset as boots
from conformance.cases import EQUAL, Case

FRAMES = 150


@pytest.mark.parametrize("game", ale.supported_games())
def test_random_play(game: str) -> None:
    outcome = ale.run(Case("ale", game, {"frames": FRAMES, "seed": 1, "sticky": 0.25}))
    assert outcome.status == EQUAL, (outcome.message, outcome.difference)
    assert outcome.counts["frames"] == FRAMES


@pytest.mark.parametrize("game", ["breakout", "pong", "seaquest"])
def test_frame_skip(game: str) -> None:
    outcome = ale.run(Case("ale", game, {"frames": FRAMES, "seed": 2, "sticky": 0.25, "frame_skip": 4}))
    assert outcome.status == EQUAL, (outcome.message, outcome.difference)


@pytest.mark.parametrize("protocol", ["xitari", "ale"])
@pytest.mark.parametrize("game", boots.games())
def test_boot(game: str, protocol: str) -> None:
    outcome = boots.run(Case("reset", game, {"protocol": protocol}))
    assert outcome.status == EQUAL, (outcome.message, outcome.difference)

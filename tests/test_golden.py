"""xitari's golden records: the no-op frame records of all games, instruction records of the core games.

The complete set (random play, all instruction records) runs with ``python -m conformance golden`` and pxc1.
"""

from __future__ import annotations

import pathlib

import pytest

from conformance import golden, records
from conformance.cases import EQUAL, Case

ROOT = golden.PACKED


def test_all_paper_games_have_a_record() -> None:
    assert len(golden.frame_records(ROOT)) == 64


@pytest.mark.parametrize(("game", "stream"), sorted(golden.frame_records(ROOT)))
def test_frames(game: str, stream: str, tmp_path: pathlib.Path) -> None:
    params = {
        "golden": str(ROOT),
        "stream": stream,
        "fields": list(records.FRAME_FIELDS),
        "out": str(tmp_path),
    }
    outcome = records.run_frames(Case("golden", game, params))
    assert outcome.status == EQUAL, (outcome.message, outcome.difference)
    assert outcome.counts["frames"] == 600


@pytest.mark.parametrize(("game", "start"), sorted(golden.instruction_records(ROOT)))
def test_instructions(game: str, start: str) -> None:
    outcome = records.run_instructions(Case("pxc1", game, {"golden": str(ROOT), "start": start}))
    assert outcome.status == EQUAL, (outcome.message, outcome.difference)
    assert outcome.counts["instructions"] == outcome.counts["traced"] >= 8000

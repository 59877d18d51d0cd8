"""A few random programs on all our engines, and every program that once showed a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import engines
from vcs.soft import replay
from vcs.trace import NOBODY, record


def test_short() -> None:
    for number in range(60):
        found = engines.hard(engines.draw(number))
        assert found is None, f"program {number}: {found}"


@pytest.mark.parametrize("mode", ["soft", "grad"])
def test_short_soft(mode: str) -> None:
    found = engines.MODES[mode](engines.draw(3))
    assert found is None, found


@pytest.mark.parametrize("path", sorted(engines.FOUND.glob("*.json")), ids=lambda p: p.stem)
def test_found(path: Path) -> None:
    mode, program = engines.load(path)
    found = engines.MODES[mode](program)
    assert found is None, found


def test_programs_survive_writing(tmp_path: Path) -> None:
    for number in range(40):
        program = engines.draw(number)
        assert engines.load(engines.save("hard", program, tmp_path)) == ("hard", program)


def test_shrinking_ends_at_one_operation() -> None:
    program = next(p for p in map(engines.draw, range(99)) if any(op[0] == "timer" for op in p.ops))

    def wrong(one: engines.Program) -> str | None:
        return "timer" if any(op[0] == "timer" for op in one.ops) else None

    small = engines.shrink(program, wrong)
    assert [op[0] for op in small.ops] == ["timer"] and not any(small.actions)


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong cell, after the last frame, on the traced machine."""
    program = engines.draw(1)
    right = engines.state

    def wrong(m: engines.Core, last: bool) -> dict[str, object]:
        seen = right(m, last)
        if last and m is engines._SPARE[1]:
            seen["ram"] = seen["ram"][:-1] + bytes((seen["ram"][-1] ^ 1,))
        return seen

    monkeypatch.setattr(engines, "state", wrong)
    found = engines.hard(program)
    assert found is not None and found.startswith(f"traced, frame {len(program.actions) - 1}: ram[127]")


def test_a_window_is_a_trace() -> None:
    """A window ends where the machine is after as many instructions, and its rows are inside it."""
    for trace in engines.windows(engines.draw(4), 50):
        assert len(trace) <= 50 and trace.frames["end_instr"].tolist() == [len(trace)]
        assert (trace.tia["instr"] < len(trace)).all() and (trace.segments["instr"] < len(trace)).all()


def test_a_frame_that_the_program_does_not_end() -> None:
    """It stops in the middle of a line, whose pixels turn grey (tia.md 4.9) and are nobody's."""
    colour = ("burst", bytes((0x09, 0x78)))
    ops = (colour, ("lines", 40), ("wait", 20), colour, ("raw", b"\x02"))
    trace = record(engines.core(engines.Program("4K", ops, 0, 0, (0,), True)), [0], raw_frames=True)
    line = 40 - 34
    assert (trace.screens[0, :line] == 0x78).all() and (trace.screens[0, line, :9] == 4).all()
    assert (trace.winner[0, line] == NOBODY).all()
    replay(trace)()


def test_each_reset_starts_another_program() -> None:
    lists = [(("write", 0xE0, 10 + k),) for k in range(4)]
    m = engines.core(engines.Program("F6", lists[0], 0, 0, (0,), True, more=tuple(lists[1:])))
    seen = set()
    for _ in lists:
        m.system_reset()
        m.run_frame()
        seen.add(int(m.ram[0xE0 - 0x80]))
    assert seen == {10, 11, 12, 13}


def test_short_ale() -> None:
    pytest.importorskip("ale_py")
    number, ran, undecided, found, _ = engines.block(("ale", 0))
    engines._ALE[0].reference.close()
    assert (number, undecided, found) == (0, 0, []) and ran > engines.BLOCK["ale"]

"""Our machine against the golden records of xitari (pxc1, pxcs, golden).

The records hold checksums, so a difference is located as far as they allow: frame records to the frame and
the field, instruction records to the instruction, with both processors' states.
"""

from __future__ import annotations

import pathlib
import zlib
from typing import Any

import numpy as np

import vcs
from conformance import golden, locate, panels
from conformance.cases import DIFFERENT, EQUAL, SKIPPED, Case, Outcome
from vcs.asm import format_instruction
from vcs.machine import palette

FRAME_FIELDS = ("ram", "screen", "reward", "lives", "game_over")
REGISTERS = ("a", "x", "y", "sp", "p")


def _missing(case: Case, what: str) -> Outcome:
    return Outcome(case, SKIPPED, message=f"no {what} record of this game")


def run_frames(case: Case) -> Outcome:
    """One frame record. Parameters: golden (directory), stream, fields (subset of FRAME_FIELDS), out."""
    p = case.params
    path = golden.frame_records(pathlib.Path(p["golden"])).get((case.game, p["stream"]))
    if path is None:
        return _missing(case, f"{p['stream']} frame")
    record = golden.read_frames(path)
    fields = p["fields"]
    m = vcs.Machine(case.game, protocol="xitari")
    m.reset()  # constructing boots once; the records were made after one more reset
    reward = int(record.reward[0])  # no step has been made at index 0, so there is nothing to compare
    counts = {"frames": 0}
    shape = m.screen.shape
    if "screen" in fields and tuple(shape) != record.screen_shape:
        return Outcome(
            case, DIFFERENT, counts, message=f"screen is {shape}, the record's {record.screen_shape}"
        )
    for i in range(len(record.actions) + 1):
        if i:
            if record.game_over[i - 1]:
                m.reset()
            reward = int(m.step(int(record.actions[i - 1])))
        ours: dict[str, int] = {}
        theirs: dict[str, int] = {}
        if "ram" in fields:
            ours["ram"], theirs["ram"] = zlib.crc32(m.ram.tobytes()), int(record.ram_crc32[i])
        if "screen" in fields:
            ours["screen"], theirs["screen"] = zlib.crc32(m.screen.tobytes()), int(record.screen_crc32[i])
        if "reward" in fields:
            ours["reward"], theirs["reward"] = reward, int(record.reward[i])
        if "lives" in fields:
            ours["lives"], theirs["lives"] = int(m.lives), int(record.lives[i])
        if "game_over" in fields:
            ours["game_over"], theirs["game_over"] = int(m.game_over), int(record.game_over[i])
        if ours != theirs:
            wrong = [k for k in fields if ours[k] != theirs[k]]
            action = int(record.actions[i - 1]) if i else None
            picture = pathlib.Path(p["out"]) / f"{case.game}_{p['stream']}_frame{i}.png"
            panels.save_png(panels.picture(m.screen, palette(m.pal, "xitari")), picture)
            return Outcome(
                case,
                DIFFERENT,
                counts,
                message=f"{', '.join(wrong)} at frame {i}",
                difference={
                    "frame": i,
                    "action": action,
                    "fields": wrong,
                    "ours": ours,
                    "theirs": theirs,
                    "registers": dict(m.registers._asdict()),
                    "cycles": m.cycles,
                    "ram": m.ram.tobytes().hex(),
                    "our_picture": str(picture),
                },
            )
        counts["frames"] = i
    return Outcome(case, EQUAL, counts)


def _registers(m: Any) -> tuple[int, ...]:
    r = m.registers
    return (r.PC, r.A, r.X, r.Y, r.SP, r.P)


def legal(m: Any, action: Any) -> int:
    """What the environment makes of an action (environment.md 5.2): single steps bypass it."""
    return int(action) if int(action) in m.rules.legal_actions else 0


def run_instructions(case: Case) -> Outcome:
    """One instruction record, twice: by single steps (with RAM), and by the traced specialisation.

    Parameters: golden, start ("f0" or "f120").
    """
    p = case.params
    path = golden.instruction_records(pathlib.Path(p["golden"])).get((case.game, p["start"]))
    if path is None:
        return _missing(case, f"{p['start']} instruction")
    record = golden.read_instructions(path)
    m = vcs.Machine(case.game, protocol="xitari")
    m.reset()
    for action in record.actions[: record.start_frame]:
        if m.game_over:
            m.reset()
        m.step(int(action))
    start = m.snapshot()
    counts = {"instructions": 0}
    step_by_step = _single_steps(m, record, case, counts)
    if step_by_step is not None:
        return step_by_step
    m.restore(start)
    return _traced(m, record, case, counts) or Outcome(case, EQUAL, counts)


def _difference(
    case: Case,
    counts: dict[str, int],
    record: golden.Instructions,
    i: int,
    ours: tuple[int, ...],
    how: str,
    frame: int,
    extra: dict[str, Any],
) -> Outcome:
    theirs = (int(record.pc[i]), *(int(v) for v in record.regs[i]), int(record.cycles[i]))
    names = ("pc", *REGISTERS, "cycles")
    wrong = [n for n, a, b in zip(names, ours, theirs, strict=True) if a != b] or ["ram"]
    return Outcome(
        case,
        DIFFERENT,
        counts,
        message=f"{', '.join(wrong)} before instruction {i} ({how})",
        difference={
            "instruction": i,
            "frame": frame,
            "fields": wrong,
            "ours": dict(zip(names, ours, strict=True)),
            "theirs": dict(zip(names, theirs, strict=True)),
            **extra,
        },
    )


def _single_steps(m: Any, record: golden.Instructions, case: Case, counts: dict[str, int]) -> Outcome | None:
    frame = record.start_frame
    m.set_inputs(legal(m, record.actions[frame]))
    starting = not m.tia()["inprogress"]
    history: list[str] = []
    for i in range(len(record.pc)):
        # the counter is rebased with the first instruction of a frame, the record shows it rebased before
        ours = (*_registers(m), 0 if starting else m.cycles)
        theirs = (int(record.pc[i]), *record.regs[i].tolist(), int(record.cycles[i]))
        if ours != theirs or zlib.crc32(m.ram.tobytes()) != record.ram_crc32[i]:
            line, h = divmod(3 * m.cycles - m.tia()["F"], locate.CLOCKS_PER_LINE)
            extra = {"scanline": line, "colour_clock": h, "ram": m.ram.tobytes().hex(), "before": history}
            return _difference(case, counts, record, i, ours, "single steps", frame, extra)
        pc = ours[0]
        opcode, b1, b2 = (m.peek(pc + k & 0xFFFF) for k in range(3))
        history = [*history[-7:], f"${pc:04X} {format_instruction(opcode, b1, b2, pc)}"]
        starting = m.step_instruction()
        counts["instructions"] = i + 1
        if starting:
            frame += 1
            if frame >= len(record.actions):
                break
            m.set_inputs(legal(m, record.actions[frame]))
    return None


def _traced(m: Any, record: golden.Instructions, case: Case, counts: dict[str, int]) -> Outcome | None:
    done = 0
    for frame in range(record.start_frame, len(record.actions)):
        instr = m.trace([int(record.actions[frame])]).instr
        n = min(len(instr), len(record.pc) - done)
        want = slice(done, done + n)
        wrong = (instr["pc"][:n] != record.pc[want]) | (instr["cycles"][:n] != record.cycles[want])
        for k, name in enumerate(REGISTERS):
            wrong |= instr[name][:n] != record.regs[want, k]
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            ours = tuple(int(instr[c][i]) for c in ("pc", *REGISTERS, "cycles"))
            return _difference(case, counts, record, done + i, ours, "traced", frame, {})
        done += n
        if done == len(record.pc):
            break
    counts["traced"] = done
    return None

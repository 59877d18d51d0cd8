"""Experimental: branches as a select over their two outcomes (`control="join"`, docs/gradients.md).

Under `control="pc"` a branch moves the program counter and nothing else, so whatever reaches the picture
through a decision (a joystick line, a collision, a compare) has derivative 0. Here the side not taken is run
on the hard machine, from the state at the branch, until it meets the executed path again: same program
counter, stack pointer and bank. The difference of the two states there, times the slope of the branch's gate,
is the derivative by the flag.

    m = vcs.Machine("space_invaders")
    trace = m.clone().trace([0, 3])
    joins = vcs.join.find(m, trace)
    vcs.join.grad_join(trace, ("ram", 28), joins).inputs

What it cannot see: paths that do not meet within the limit or before the frame ends; what the other side drew
before it met (only registers and memory are compared); decisions after the meeting point that would fall
otherwise only together; and differences of time, which are reported and not followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vcs import checks, layout
from vcs._adjoint import sweep
from vcs.errors import VcsError
from vcs.gradient import RULES, Attribution, weighting
from vcs.machine import Machine, Snapshot
from vcs.soft.cpu import OPCODES
from vcs.trace import Trace, start_values

LIMIT: Final = 300  # instructions that each side may run before they meet
_FLAG: Final = {"BMI": 0x80, "BPL": 0x80, "BVS": 0x40, "BVC": 0x40, "BCS": 1, "BCC": 1, "BEQ": 2, "BNE": 2}
_MASK: Final = tuple(_FLAG.get(op.mnemonic, 0) for op in OPCODES)
# what is compared where two paths meet: everything but the program counter and the timer's divider
_COMPARED: Final = np.array(
    [
        *range(layout.RAM_SIZE),
        *range(layout.CPU, layout.CPU + 10),
        *range(layout.TIA_W, layout.POSITION + 5),
        layout.RIOT + 1,
        layout.TIMER,
    ]
)


@dataclass(frozen=True)
class Joins:
    """The other outcomes of a trace's branches.

    branch int64[J]: the instruction. meet int64[J]: the one before which the paths meet again. start
    int64[J + 1]: the differing locations of join k are place[start[k]:start[k + 1]], int32; there the other
    path holds `other`, the executed one `here`. steps int32[J]: instructions the other path ran. cycles
    int32[J]: CPU cycles by which it came later (negative: earlier). branches: all of the trace, met or not.
    """

    branch: npt.NDArray[np.int64]
    meet: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    place: npt.NDArray[np.int32]
    other: npt.NDArray[np.int32]
    here: npt.NDArray[np.int32]
    steps: npt.NDArray[np.int32]
    cycles: npt.NDArray[np.int32]
    branches: int

    def __len__(self) -> int:
        return len(self.branch)

    @property
    def met(self) -> float:
        """The fraction of the trace's branches whose paths met again."""
        return len(self) / self.branches if self.branches else 0.0


def _state(machine: Machine) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    return start_values(machine)[_COMPARED], machine.cart_ram


def _place(machine: Machine) -> int:
    """Where a machine is in its program: PC, SP and bank, as one number."""
    cpu = machine.cpu()
    return int(cpu[5] | cpu[3] << 16 | (machine.cart()["bank"] & 0xFF) << 24)


def find(machine: Machine, trace: Trace, limit: int = LIMIT) -> Joins:
    """Run the other outcome of every branch of a trace until it meets the executed path.

    machine: one of the trace's cartridge and settings; it is not changed. limit: instructions that either
    side may run. It costs about a millisecond a branch. Raises VcsError if the machine leaves the trace.
    """
    checks.instance("the machine", machine, Machine, "a vcs.Machine")
    checks.instance("the trace", trace, Trace, "what Machine.trace returned")
    if limit < 1:
        raise VcsError(f"limit is {limit}: let the paths run at least one instruction")
    main, other = machine.clone(), machine.clone()
    main.restore(Snapshot.from_bytes(trace.start.tobytes()))
    t = trace.instr
    keys = (
        t["pc"].astype(np.int64) | t["sp"].astype(np.int64) << 16 | t["bank"].astype(np.int64) << 24
    ).tolist()
    opcodes, n = t["opcode"].tolist(), len(t)
    first = {int(row["first_instr"]): row for row in trace.frames[::-1]}
    waiting: dict[int, list[tuple[int, Any, int, int]]] = {}  # meeting point -> what arrives there
    found: list[tuple[int, int, list[tuple[int, int, int]], int, int]] = []
    branches = 0
    for k in range(n):
        if k in first:
            _hold_inputs(main, first[k])
        if _place(main) != keys[k]:
            raise VcsError(
                f"this machine left the trace at instruction {k}: pass one of the trace's game and settings"
            )
        for branch, (state, cart), steps, total in waiting.pop(k, []):
            here, here_cart = _state(main)
            differ = [(int(_COMPARED[i]), int(state[i]), int(here[i])) for i in np.flatnonzero(state != here)]
            differ += [
                (layout.CART + int(i), int(cart[i]), int(here_cart[i]))
                for i in np.flatnonzero(cart != here_cart)
            ]
            found.append((branch, k, differ, steps, total - main.total_cycles))
        mask = _MASK[opcodes[k]]
        if mask:
            branches += 1
            after = {keys[j]: j for j in range(min(n - 1, k + limit), k, -1)}
            met = _run_other(main, other, mask, after, limit)
            if met is not None:
                at, steps = met
                waiting.setdefault(at, []).append((k, _state(other), steps, other.total_cycles))
        main.step_instruction()
    found.sort(key=lambda item: item[0])
    rows = [row for item in found for row in item[2]]
    columns = np.array(rows, np.int32).reshape(-1, 3)
    return Joins(
        np.array([item[0] for item in found], np.int64),
        np.array([item[1] for item in found], np.int64),
        np.cumsum([0] + [len(item[2]) for item in found]).astype(np.int64),
        np.ascontiguousarray(columns[:, 0]),
        np.ascontiguousarray(columns[:, 1]),
        np.ascontiguousarray(columns[:, 2]),
        np.array([item[3] for item in found], np.int32),
        np.array([item[4] for item in found], np.int32),
        branches,
    )


def _hold_inputs(machine: Machine, row: Any) -> None:
    """The controllers as they were during a frame; an action that the game declares illegal is NOOP."""
    machine.set_inputs(int(row["action"]))
    if machine.peek(0x280) != int(row["swcha"]):
        machine.set_inputs(0)


def _run_other(
    main: Machine, other: Machine, mask: int, after: dict[int, int], limit: int
) -> tuple[int, int] | None:
    """From the branch at which `main` stands, run its other outcome until it reaches a place of `after`.

    Returns the place and the number of instructions, or None: not within the limit, or not in this frame.
    """
    other.restore(main.snapshot())
    p = other.cpu()[4]
    other.set_cpu(p=p ^ mask)
    ended = other.step_instruction()
    other.set_cpu(p=p)
    for steps in range(limit + 1):
        at = after.get(_place(other))
        if at is not None:
            return at, steps
        if ended or other.jammed:
            return None
        ended = other.step_instruction()
    return None


def grad_join(
    trace: Trace,
    output: Any,
    joins: Joins,
    *,
    rules: str = RULES,
    alpha: float = 2.0,
    mode: str = "ste",
    T: float = 0.1,
    slope: float | None = None,
) -> Attribution:
    """`vcs.grad` with `control="join"`: the paths of `find` also carry derivatives from flags to state.

    alpha: sharpness of the gate. Its slope, which scales every path through a branch, is largest (0.45) at
    1.54 and 0.0009 at 10, so with the default alpha of `grad` it would show next to nothing. slope: in place
    of the gate's; 1 is the secant: a path through a branch counts with the exact effect of the flag's flip.
    """
    checks.instance("the trace", trace, Trace, "what Machine.trace returned")
    checks.instance("joins", joins, Joins, "what vcs.join.find returned")
    target = weighting(output, trace)
    settings: dict[str, Any] = {"rules": rules, "alpha": alpha, "T": T, "mode": mode, "slope": slope}
    ((arrays, value),) = sweep(trace, [target], control="join", joins=joins, **settings)
    return Attribution(
        arrays, target.text, value, rules, float(alpha), float(T), mode, "join", "adjoint", len(trace.frames)
    )

"""Is your emulator right? Write its run in the trace format and have it compared, instruction by instruction.

    python examples/your_emulator.py
    python -m conformance trace yours.npz

The emulator here stands for yours: py65's 6502 (another project's), RAM, the timer, WSYNC, and no picture at
all. It begins where a trace of ours begins, plays the same frames, and notes its processor before every
instruction. What it does not model (pictures, positions) stays zero in its trace and is left out of the
comparison.
"""
from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from py65.devices.mpu6502 import MPU

import vcs
from conformance import traces
from vcs import layout
from vcs.trace import FRAMES, INSTR, TIMER_SET, Trace

LINE = 76  # CPU cycles of a line


class Bus:
    """The console's address space as py65 sees it: an object with [] for reads and writes."""

    def __init__(self, start: Trace) -> None:
        self.rom = start.rom.tobytes()
        self.ram = start.ram0
        self.port_a, self.port_b = int(start.frames[0]["swcha"]), int(start.frames[0]["swchb"])
        self.inputs = start.frames[0]["inpt"]
        self.timer, self.shift = int(start.x0[layout.TIMER]), int(start.x0[layout.TIMER + 1])
        self.timer_set = int(start.x0[TIMER_SET])
        self.now = 0                     # cycle of the access, set by the processor's loop
        self.wait = False                # WSYNC was written
        self.last = 0                    # the byte that was on the bus before

    def __getitem__(self, address: int) -> int:
        address &= 0x1FFF
        if address & 0x1000:
            value = self.rom[address % len(self.rom)]
        elif not address & 0x80:         # the TIA: no picture, so nothing ever collides
            value = self.last & 0x3F
            if address & 15 in (12, 13):
                value |= int(self.inputs[address & 1])
        elif not address & 0x200:
            value = int(self.ram[address & 0x7F])
        elif address & 7 == 4:
            value = (self.timer - 1 - (self.now - self.timer_set - 1 >> self.shift)) & 0xFF
        else:
            value = self.port_b if address & 2 else self.port_a
        self.last = value
        return value

    def __setitem__(self, address: int, value: int) -> None:
        address &= 0x1FFF
        if address & 0x1080 == 0:
            self.wait = address & 0x3F == 2
        elif address & 0x1280 == 0x80:
            self.ram[address & 0x7F] = value
        elif address & 0x1294 == 0x294:
            self.timer, self.shift = value, (0, 3, 6, 10)[address & 3]
            self.timer_set = self.now


def play(start: Trace, fault: bool = False) -> Trace:
    """What your emulator does: run from where `start` begins, and note every instruction."""
    first, frame = start.instr[0], start.frames[0]
    cpu = MPU()
    bus = cpu.memory = Bus(start)
    cpu.pc = int(first["pc"])
    cpu.a, cpu.x, cpu.y, cpu.sp, cpu.p = (int(first[name]) for name in ("a", "x", "y", "sp", "p"))
    rows = np.zeros(len(start), INSTR)
    phase = -int(frame["start_clock"]) // 3          # a line begins where (cycle + phase) % 76 is 0
    cycle = int(first["cycles"])
    for row in rows:
        row["pc"], row["cycles"] = cpu.pc, cycle
        row["a"], row["x"], row["y"], row["sp"], row["p"] = cpu.a, cpu.x, cpu.y, cpu.sp, cpu.p | 0x30
        row["opcode"] = opcode = bus[cpu.pc]
        bus.now = cycle + cpu.cycletime[opcode]      # most accesses are in the last cycle
        before = cpu.processorCycles
        cpu.step()
        if fault and opcode == 0x69:                 # ADC #: forgets the carry, now and then
            cpu.p &= ~1
        cycle += cpu.processorCycles - before
        if bus.wait:
            cycle += -(cycle + phase) % LINE
            bus.wait = False
    frames = np.zeros(1, FRAMES)
    frames["action"], frames["end_instr"] = frame["action"], len(rows)
    return Trace(
        instr=rows, frames=frames, tia=start.tia[:0], segments=start.segments[:0],
        screens=np.zeros_like(start.screens), winner=np.zeros_like(start.winner),
        x0=start.x0, x1=np.zeros_like(start.x1), cart0=start.cart0, cart1=start.cart1,
        rom=start.rom, start=start.start,
    )


def main(out: str = "yours.npz", fault: bool = False) -> bool:
    """Trace a frame of Glass with both machines, write theirs, compare; True if they are equal."""
    warnings.filterwarnings("ignore", "glass has no game rules")
    machine = vcs.Machine("glass")
    machine.run([3] * 60)
    start = machine.trace([3])
    theirs = play(start, fault)
    theirs.save(Path(out))
    outcome = traces.compare(Trace.load(Path(out)), ("pc", "opcode", "a", "x", "y", "sp", "p", "cycles"))
    print(f"{outcome.status}: {outcome.counts['instructions']:,} instructions alike", outcome.message)
    return outcome.status == "equal"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="yours.npz", help="trace file to write")
    parser.add_argument("--fault", action="store_true", help="let the emulator make a mistake")
    args = parser.parse_args()
    main(args.out, args.fault)

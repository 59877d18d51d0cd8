"""From the joystick to the cannon: what moves the Space Invaders cannon, three ways.

    python examples/cannon.py

1. An intervention on each byte of RAM names the cell that holds the cannon's column.
2. The gradient of the cannon's picture by that cell, beside a true step of one pixel.
3. The path from the stick: with `control="pc"` a branch carries nothing, so the derivative is 0; with both
   outcomes of every branch followed (`vcs.join`) it is the machine's own answer.
"""
from __future__ import annotations

import numpy as np

import vcs
from vcs import layout
from vcs.soft import cannon
from vcs.xai import Oracle, do

LOW = 185                                # the rows the cannon is drawn in begin here


def moves(machine: vcs.Machine) -> list[int]:
    """RAM cells that, one higher, change the rows of the cannon in the next frames and nothing above them."""
    oracle = Oracle(machine, [0] * 4)
    before = oracle.baseline.picture()
    found = []
    for cell in range(layout.RAM_SIZE):
        after = oracle.do(do(cell, delta=4)).picture()
        rows = np.flatnonzero((after != before).any(axis=1))
        if len(rows) and rows.min() >= LOW and rows.max() < LOW + 10:
            found.append(cell)
    return found


def main() -> cannon.Measured:
    """Prints the three answers; returns the measured numbers."""
    machine = cannon.played(cannon.boot(), [3] * 24 + [0] * 8)
    print("cells that move something in the cannon's rows and nowhere else:",
          ", ".join(layout.name(cell) for cell in moves(machine)))
    numbers = cannon.experiment().true
    print(f"the map of the gradient: {numbers.sampler_non_zero} pixels, sum {numbers.sampler_l1:g}; "
          f"the machine, moved a pixel each way: {numbers.machine_non_zero} pixels, "
          f"sum {numbers.machine_l1:g}")
    for what, slopes in (("control=pc", numbers.stick_to_column_pc), ("join", numbers.stick_to_column_join),
                         ("the machine itself", numbers.stick_to_column_effect)):
        print(f"d column / d (up, down, left, right), {what}: {cannon.arrow(slopes)}")
    return numbers


if __name__ == "__main__":
    main()

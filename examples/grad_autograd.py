"""A loss of your own over the screen, differentiated through the game's program by HIPS autograd.

    python examples/grad_autograd.py [GAME]

The rollout is one primitive (`vcs.soft.rollout`): autograd differentiates the loss, the compiled adjoint
the machine. Printed: which bytes of RAM and ROM the loss would change with.
"""

from __future__ import annotations

import sys

import autograd
import autograd.numpy as anp
import numpy as np

import vcs
from vcs import layout
from vcs.soft import rollout


def main(game: str = "glass") -> None:
    machine = vcs.Machine(game)
    machine.run(np.zeros(60, np.int32))
    trace = machine.trace([0, 0])
    rows, columns = np.nonzero(trace.winner[-1] != 255)
    f = rollout(trace, pixels=np.stack([np.full(len(rows), 1), rows, columns], axis=1))

    def loss(state):
        """How far the last frame is from one colour, softened: any function of the pixels will do."""
        return anp.mean(anp.log(1.0 + (f(state)["pixels"] - 20.0) ** 2))

    start = f.start()
    value, gradient = autograd.value_and_grad(loss)(start)
    print(f"{game}: loss {value:.4f} over {len(rows)} pixels")
    for part, first in (("ram", layout.RAM), ("rom", layout.ROM)):
        best = np.argsort(-np.abs(gradient[part]))[:5]
        print(
            f"  {part}: " + ", ".join(f"{layout.name(first + int(i))} {gradient[part][i]:+.4g}" for i in best)
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])

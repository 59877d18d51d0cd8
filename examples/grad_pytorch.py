"""The machine inside a PyTorch graph: the vector-Jacobian product is a plain NumPy function.

    python examples/grad_pytorch.py [GAME]

PyTorch is no dependency of Glass VCS; install it yourself.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

import vcs
from vcs import layout
from vcs.soft import primitive

PIXELS = [(1, row, column) for row in range(40, 180, 4) for column in range(0, 160, 4)]


class Play(torch.autograd.Function):
    """Pixels of a trace as a function of the RAM it began with."""

    @staticmethod
    def forward(ctx, ram, trace):
        ctx.trace = trace
        return torch.from_numpy(primitive.forward(trace, PIXELS)["pixels"])

    @staticmethod
    def backward(ctx, cotangent):
        state = primitive.vjp(ctx.trace, {"pixels": cotangent.numpy()}, PIXELS)
        return torch.from_numpy(state["ram"]), None


def main(game: str = "glass") -> None:
    machine = vcs.Machine(game)
    machine.run(np.zeros(60, np.int32))
    trace = machine.trace([0, 0])
    ram = torch.tensor(primitive.start(trace)["ram"], requires_grad=True)
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(len(PIXELS), 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    ).double()
    value = network(Play.apply(ram, trace) / 255)
    value.backward()
    best = np.argsort(-np.abs(ram.grad.numpy()))[:5]
    print(
        f"{game}: value {value.item():.4f}; it changes most with "
        + ", ".join(f"{layout.name(int(i))} {ram.grad[i]:+.4g}" for i in best)
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])

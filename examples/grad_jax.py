"""The machine inside a JAX program: a custom_vjp whose both halves call back into NumPy.

    python examples/grad_jax.py [GAME]

JAX is no dependency of Glass VCS; install it yourself.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np

import vcs
from vcs import layout
from vcs.soft import primitive

jax.config.update("jax_enable_x64", True)
PIXELS = [(1, row, column) for row in range(40, 180, 4) for column in range(0, 160, 4)]


def pixels_of(trace):
    """The pixels of a trace as a JAX function of the RAM it began with."""
    shape = jax.ShapeDtypeStruct((len(PIXELS),), jnp.float64)

    @jax.custom_vjp
    def pixels(ram):
        return jax.pure_callback(lambda _: primitive.forward(trace, PIXELS)["pixels"], shape, ram)

    def forward(ram):
        return pixels(ram), None

    def backward(_, cotangent):
        ram_shape = jax.ShapeDtypeStruct((layout.RAM_SIZE,), jnp.float64)
        pull = lambda g: primitive.vjp(trace, {"pixels": np.asarray(g)}, PIXELS)["ram"]  # noqa: E731
        return (jax.pure_callback(pull, ram_shape, cotangent),)

    pixels.defvjp(forward, backward)
    return pixels


def main(game: str = "glass") -> None:
    machine = vcs.Machine(game)
    machine.run(np.zeros(60, np.int32))
    trace = machine.trace([0, 0])
    pixels = pixels_of(trace)
    weights = jax.random.normal(jax.random.PRNGKey(0), (len(PIXELS),), jnp.float64)
    loss = jax.jit(jax.value_and_grad(lambda ram: jnp.tanh(weights @ pixels(ram) / 1000)))
    value, gradient = loss(jnp.asarray(primitive.start(trace)["ram"]))
    best = np.argsort(-np.abs(np.asarray(gradient)))[:5]
    print(
        f"{game}: loss {value:.4f}; it changes most with "
        + ", ".join(f"{layout.name(int(i))} {gradient[i]:+.4g}" for i in best)
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])

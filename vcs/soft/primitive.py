"""The compiled adjoint as one primitive: a rollout of the machine inside anybody's differentiable program.

`forward` and `vjp` are plain NumPy functions of a trace, for any framework (examples/grad_pytorch.py,
examples/grad_jax.py); `rollout` wraps them as an autograd primitive, which composes with a loss of your own:

    f = vcs.soft.rollout(trace, pixels=[(0, 100, 80)])
    loss = lambda ram: anp.sum((f(ram=ram)["pixels"] - goal) ** 2)
    autograd.grad(loss)(f.start()["ram"])

It is `vcs.soft.replay` with the trace's own values in place of recomputed ones: the same derivatives some
thousand times faster, at the trace's starting state only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from autograd.extend import defvjp_argnums, primitive

from vcs import layout
from vcs._adjoint import Backward
from vcs.errors import VcsError
from vcs.soft import ops
from vcs.soft.replay import _pixel_array, input_lines
from vcs.trace import Trace

Array = npt.NDArray[np.float64]

# What a rollout depends on, in the order of the primitive's arguments, and what it gives.
STATE: Final = (*layout.PARTS, "cart", "rom", "inputs")
OUTPUTS: Final = ("pixels", "ram", "registers", "flags", "pc", "tia", "positions", "cart")


def start(trace: Trace, rules: str = "value") -> dict[str, Array]:
    """The state a trace began with, a dict of float64 arrays by the names of `STATE`.

    Shapes as in `vcs.gradient.Attribution.parts`; bytes have a second axis of eight bits under `bit`.
    """
    parts = {name: (trace.x0[first : first + n], wide) for name, (first, n, wide) in layout.PARTS.items()}
    state: dict[str, Array] = {}
    for name, (values, wide) in {**parts, "cart": (trace.cart0, True), "rom": (trace.rom, True)}.items():
        state[name] = ops.BITS[values] if wide and rules == "bit" else np.asarray(values, np.float64)
    state["inputs"] = input_lines(trace)
    return state


def forward(trace: Trace, pixels: Any = ()) -> dict[str, Array]:
    """What a trace showed and ended with, a dict of float64 arrays by the names of `OUTPUTS`.

    pixels: (frame, row, column) triples or "all". Raises VcsError for one outside the picture.
    """
    where = _pixel_array(pixels, trace)
    out = {"pixels": trace.screens[tuple(where.T)].astype(np.float64)}
    for name in OUTPUTS[1:-1]:
        first, n, _ = layout.PARTS[name]
        out[name] = trace.x1[first : first + n].astype(np.float64)
    out["cart"] = trace.cart1.astype(np.float64)
    return out


def vjp(
    trace: Trace,
    cotangents: Mapping[str, npt.ArrayLike],
    pixels: Any = (),
    *,
    rules: str = "value",
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
) -> dict[str, Array]:
    """The cotangents of `start(trace, rules)` from those of `forward(trace, pixels)`.

    cotangents: arrays by the names of `OUTPUTS`; those left out are zero. Raises VcsError for another name
    or shape.
    """
    where = _pixel_array(pixels, trace)
    back = Backward(trace.rom, len(trace.cart0), 1, rules=rules, alpha=alpha, T=T, mode=mode)
    weights = np.zeros(0)
    sizes = {name: len(value) for name, value in forward(trace, where).items()}
    for name, given in cotangents.items():
        if name not in sizes:
            raise VcsError(f"a rollout has no output {name!r}: it has {', '.join(OUTPUTS)}")
        array = np.asarray(given, np.float64)
        if array.shape != (sizes[name],):
            raise VcsError(
                f"the cotangent of {name} has shape {array.shape} where ({sizes[name]},) is expected"
            )
        if name == "pixels":
            weights = array
            continue
        first = layout.CART if name == "cart" else layout.PARTS[name][0]
        for k in np.flatnonzero(array).tolist():
            back.seed(0, first + k, float(array[k]))
    flat = np.ravel_multi_index(tuple(where.T), trace.screens.shape)[: len(weights)]
    places, back_to = np.unique(flat, return_inverse=True)
    total = np.zeros((len(places), 1))
    np.add.at(total[:, 0], back_to, weights)
    lines = back.sweep(trace, places.astype(np.int64), total)
    return {**back.parts(0), "inputs": lines[:, :, 0].copy()}


class Rollout:
    """A trace as a differentiable function of its starting state; call it with the state or parts of it.

    trace: what `Machine.trace` returned. pixels: (frame, row, column) triples or "all", the pixels it shows.
    rules: "value" or "bit". alpha, T, mode: as for `vcs.grad`. Raises VcsError for a pixel outside the
    picture.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        pixels: Any = (),
        rules: str = "value",
        alpha: float = 10.0,
        T: float = 0.1,
        mode: str = "ste",
    ) -> None:
        self.trace = trace
        self.rules = rules
        self.pixels = _pixel_array(pixels, trace)
        self._settings: dict[str, Any] = {"rules": rules, "alpha": alpha, "T": T, "mode": mode}
        self._start = start(trace, rules)
        outputs = forward(trace, self.pixels)
        bounds = np.cumsum([0] + [len(outputs[name]) for name in OUTPUTS])
        self._slices = {name: slice(*bounds[k : k + 2]) for k, name in enumerate(OUTPUTS)}
        self._values = np.concatenate([outputs[name] for name in OUTPUTS])

        def run(*parts: Array) -> Array:
            for name, part in zip(STATE, parts):
                if not np.array_equal(part, self._start[name]):
                    raise VcsError(
                        f"{name} is not what the trace began with: trace again from the state you mean"
                    )
            return self._values

        def rule(
            argnums: tuple[int, ...], answer: Array, args: Any, kwargs: Any
        ) -> Callable[[Array], tuple[Array, ...]]:
            def back(g: Array) -> tuple[Array, ...]:
                given = {name: g[part] for name, part in self._slices.items()}
                result = vjp(trace, given, self.pixels, rules=rules, alpha=alpha, T=T, mode=mode)
                return tuple(result[STATE[k]] for k in argnums)

            return back

        self._run = primitive(run)
        defvjp_argnums(self._run, rule)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as what it was made of; a primitive of autograd is a local function."""
        return partial(Rollout, pixels=self.pixels, **self._settings), (self.trace,)

    def start(self) -> dict[str, Array]:
        """The state to differentiate at: copies of what the trace began with (`start`)."""
        return {name: array.copy() for name, array in self._start.items()}

    def __call__(self, state: Mapping[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
        """The outputs (`forward`) from a state, or from single parts of it; the rest is the trace's.

        Raises VcsError for a part that is not the trace's: another state may take another path.
        """
        if state is not None and not isinstance(state, Mapping) and not hasattr(state, "_value"):
            raise VcsError(f"a rollout's state is a dict such as start() gives, not a {type(state).__name__}")
        given = {**(state or {}), **parts} if not hasattr(state, "_value") else {n: state[n] for n in STATE}  # type: ignore[index]
        unknown = sorted(set(given) - set(STATE))
        if unknown:
            raise VcsError(f"a rollout's state has no part {unknown[0]!r}: it has {', '.join(STATE)}")
        flat = self._run(*[given.get(name, self._start[name]) for name in STATE])
        return {name: flat[part] for name, part in self._slices.items()}


def rollout(
    trace: Trace,
    *,
    pixels: Any = (),
    rules: str = "value",
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
) -> Rollout:
    """A trace as an autograd primitive; see `Rollout`.

    trace: what `Machine.trace` returned. pixels: (frame, row, column) triples or "all". rules: "value" or
    "bit". alpha, T, mode: as for `vcs.grad`. Raises VcsError for a pixel outside the picture.
    """
    return Rollout(trace, pixels=pixels, rules=rules, alpha=alpha, T=T, mode=mode)

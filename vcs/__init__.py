"""Glass VCS: a bit-exact, fast and differentiable Atari 2600.

    import vcs
    m = vcs.Machine("space_invaders")     # a game name, a path or bytes
    m.reset()
    m.step(1)                             # one frame; 1 is FIRE
    t = m.trace([0])                      # everything that happened during one more frame
    g = vcs.grad(t, vcs.Pixel(100, 80))   # what that pixel depends on: RAM, ROM, registers, inputs

Names are loaded on first use, so that `import vcs` needs NumPy alone and costs a few milliseconds.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vcs.errors import VcsError

__version__ = "0.1.0"

# public name -> module that defines it
_NAMES = {
    "Machine": "vcs.machine",
    "Snapshot": "vcs.machine",
    "Trace": "vcs.trace",
    "Attribution": "vcs.gradient",
    "Pixel": "vcs.gradient",
    "Ram": "vcs.gradient",
    "grad": "vcs.gradient",
}
_MODULES = ("asm", "env", "errors", "horizon", "join", "layout", "roms", "soft", "xai")

__all__ = ["Attribution", "Machine", "Pixel", "Ram", "Snapshot", "Trace", "VcsError", "__version__", "grad"]

if TYPE_CHECKING:
    from vcs.gradient import Attribution, Pixel, Ram, grad
    from vcs.machine import Machine, Snapshot
    from vcs.trace import Trace


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"vcs.{name}")
    else:
        raise AttributeError(f"module 'vcs' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *_MODULES])

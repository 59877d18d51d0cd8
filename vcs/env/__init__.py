"""Environments: what reinforcement-learning programs play on.

| name | what |
|---|---|
| `ALE`, `ALEInterface`, `ALEState`, `Action`, `LoggerMode` | ale-py's interface (`vcs/env/ale.py`) |
| `AtariEnv`, and the ids `VCS/<Game>-v5` | Gymnasium environments (`vcs/env/gym.py`) |
| `AtariVectorEnv` | many environments on a thread pool (`vcs/env/vector.py`) |

Importing this package registers the ids. Without gymnasium only ale-py's interface is there.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vcs.env.ale import ALE, Action, ALEError, ALEInterface, ALEState, LoggerMode
from vcs.errors import VcsError

if TYPE_CHECKING:
    from vcs.env.gym import AtariEnv as AtariEnv
    from vcs.env.vector import AtariVectorEnv as AtariVectorEnv

__all__ = [
    "ALE", "ALEError", "ALEInterface", "ALEState", "Action", "AtariEnv", "AtariVectorEnv", "LoggerMode",
]  # fmt: skip

# name -> module; loaded on first use
_LAZY = {"AtariEnv": "vcs.env.gym", "AtariVectorEnv": "vcs.env.vector"}

if find_spec("gymnasium"):
    from vcs.env.gym import register

    register()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'vcs.env' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as why:
        raise VcsError(f"vcs.env.{name} needs {why.name}: pip install 'glassvcs[env]'") from None

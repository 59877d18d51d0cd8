"""The training run of a profile-guided build (setup.py, VCS_PGO): what the hard machine mostly does.

    python -m vcs._hard.train

Plays those of a few games that are installed, and the cartridge of our own: every frame, four frames a step,
snapshots, and some frames traced.
"""

from __future__ import annotations

import warnings

import numpy as np

import vcs

GAMES = ("glass", "pong", "breakout", "space_invaders", "seaquest", "ms_pacman", "qbert", "enduro")
FRAMES = 300


def play(game: str) -> None:
    """One game, with random actions."""
    actions = np.random.RandomState(0).randint(18, size=FRAMES).astype(np.int32)
    machine = vcs.Machine(game)
    machine.run(actions)
    machine.trace(actions[:10].tolist())
    skipping = vcs.Machine(game, frame_skip=4)
    skipping.run(actions[: FRAMES // 3])
    for action in actions[:20].tolist():
        kept = machine.snapshot()
        machine.step(action)
        machine.restore(kept)


def main() -> None:
    """Play all that can be found."""
    warnings.simplefilter("ignore")  # a cartridge without rules says so
    known = vcs.roms.available()
    for game in GAMES:
        if game in known:
            play(game)


if __name__ == "__main__":
    main()

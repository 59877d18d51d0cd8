"""The console as the published audit sets it up (section 1.1, 1.2 of the audit protocol).

Most games run "generic": a joystick in the left port, no starting actions, all 18 actions, never over,
NTSC timing whatever the cartridge does, 210 rows from scanline 34. Five games keep their own settings.
Everything else about the machine is `vcs.Machine`'s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vcs import cart, games, roms
from vcs.machine import Machine

#: Games that keep their own properties; True: and their own end of the episode.
OWN_SETTINGS = {"pong": True, "breakout": True, "space_invaders": True, "ms_pacman": True, "qbert": False}
NTSC = 1


class AuditMachine(Machine):
    """A machine in the audit's configuration, booted twice, with action 0..17 for `step`.

    rom: as for `vcs.Machine`. The protocol is xitari's: RAM 0 at power-on, no sticky actions.
    """

    def __init__(self, rom: Any) -> None:
        image = roms.find(rom)
        known = OWN_SETTINGS.get(image.name)
        props = roms.properties(image.md5, "xitari")
        self.mapper = cart.detect(image.data, image.md5, None, "xitari")
        self.name, self.md5, self.game = image.name, image.md5, image.game
        self.protocol, self.seed = "xitari", 0
        own_rules = known and image.game is not None
        self.rules = (
            games.get_game(image.game).rules("xitari")
            if own_rules and image.game
            else games.neutral_rules("xitari", image.name)
        )
        self._start_mode = self._start_difficulty = 0
        own = known is not None
        self._settings: dict[str, Any] = {
            "ale": False,
            "y0": props.ystart if own else 34,
            "height": 210,
            "format": NTSC,
            "hmove_blanks": props.hmove_blanks if own else True,
            "paddles": (props.left_controller == "PADDLES") | (props.right_controller == "PADDLES") << 1
            if own
            else 0,
            "swap_ports": False,
            "swap_paddles": props.swap_paddles if own else False,
            "swchb": 0x3F,
            "program": np.asarray(self.rules.program),
        }
        super(Machine, self).__init__(image.data, cart.MAPPERS[self.mapper], **self._settings)
        # The format probe runs although its verdict is ignored: RAM keeps what it leaves.
        for _ in range(60):
            self.run_frame()
        self.boot()
        self.boot()

"""`vcs explore`: start the server, print its address, open the browser."""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vcs import roms
from vcs.cli import MaybeRomArg, Protocol, ProtocolOpt, SeedOpt
from vcs.errors import VcsError

app = typer.Typer()
console = Console()


def _display() -> bool:
    """Whether a graphical browser can be expected: a text browser would take over the terminal."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


@app.command(epilog="Example: vcs explore space_invaders")
def explore(
    rom: MaybeRomArg = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 2600,
    frames: Annotated[
        int, typer.Option(min=0, max=10_000, help="Frames to play before the page opens.")
    ] = 60,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VCS_EXPLORE_TOKEN",
            help="Token of the address, 16 to 100 letters, digits, - or _; default: a new "
            "random one. With a token of your own, open pages reconnect after a restart.",
        ),
    ] = None,
    protocol: ProtocolOpt = Protocol.ale,
    seed: SeedOpt = 0,
) -> None:
    """Open the explorer, a web page: point at a pixel, see what caused it.

    Without ROM it shows Space Invaders, or our own cartridge where that is not installed. The page is
    reachable from this computer only. Ctrl-C ends it.
    """
    from vcs.explore.server import Server, application

    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,100}", token):
        raise VcsError("that token cannot be used: give 16 to 100 letters, digits, - or _")
    name = rom or ("space_invaders" if "space_invaders" in roms.available() else "glass")
    image = roms.find(name)
    source = name if Path(name).suffix == "" and not os.path.exists(name) else str(Path(name).resolve())
    secret = token or secrets.token_urlsafe(24)
    warm = threading.Thread(target=_warm, args=(image,), daemon=True)
    server = Server(
        application(image, source, secret, protocol=protocol.value, seed=seed, frames=frames), secret, port
    )
    warm.start()
    console.print(
        f"{image.name}: [bold]{server.url}[/bold]  (Ctrl-C ends it)", highlight=False, soft_wrap=True
    )
    if browser and _display():
        threading.Timer(0.5, webbrowser.open, [server.url]).start()
    server.serve_here()


def _warm(image: roms.Rom) -> None:
    """Load what the first click needs, so that it does not wait for it."""
    import numpy as np

    from vcs import gradient, machine
    from vcs.explore import explain

    gradient.grad(machine.Machine(image).trace(np.zeros(1, np.int32)), gradient.Pixel(0, 0))
    explain.method_list()

"""The web server of the explorer, and who may talk to it.

It listens on 127.0.0.1 only. Every address begins with a random token, compared in constant time; a request
must name this machine in its Host header (so that a foreign name that resolves to 127.0.0.1 is refused)
and, if it says where it comes from, come from the page itself (so that no other site's script gets in). The
files it serves are the ones in a list. Pages may load nothing from elsewhere and run no inline script
(Content-Security-Policy).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final

import anyio.from_thread
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from vcs import roms
from vcs.errors import VcsError
from vcs.explore.explain import Stopped
from vcs.explore.protocol import LARGEST, LONG, Session, binary, parse

log = logging.getLogger(__name__)
HOST: Final = "127.0.0.1"
NAMES: Final = ("127.0.0.1", "localhost")
MOST_TABS: Final = 8
TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
RAW_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def assets() -> dict[str, tuple[bytes, str]]:
    """The files of the page: name -> content and type. Only these are ever served."""
    found = {}
    for item in files("vcs.explore").joinpath("static").iterdir():
        kind = TYPES.get(item.name.rsplit(".", 1)[-1])
        if kind:
            found[item.name] = (item.read_bytes(), kind)
    return found


def refusal(connection: HTTPConnection, token: str) -> str:
    """Why a connection is refused, "" if it is not."""
    host = connection.headers.get("host", "")
    if host.rsplit(":", 1)[0] not in NAMES:
        return "this server answers to 127.0.0.1 and localhost only"
    origin = connection.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "this server answers its own page only"
    if origin is None and connection.scope["type"] == "websocket":
        return "a websocket must say which page it comes from"
    if connection.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "this server answers its own page only"
    given = connection.path_params.get("token", "")
    if not hmac.compare_digest(given.encode(), token.encode()):
        return "wrong token: open the address that `vcs explore` printed"
    return ""


class Armour:
    """Puts the protecting headers on every answer, also on those of errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def armoured(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *RAW_HEADERS]
            await send(message)

        await self.app(scope, receive, armoured)


class Tab:
    """One websocket: reads messages in order, answers them, runs long operations beside the others."""

    def __init__(self, ws: WebSocket, session: Session) -> None:
        self.ws, self.session = ws, session
        self.sending = asyncio.Lock()
        self.jobs: set[asyncio.Task[None]] = set()

    async def send(self, number: int, answer: Mapping[str, Any], body: bytes | None = None) -> None:
        """Send one answer; a page that has gone is no error."""
        async with self.sending:
            try:
                if body is None:
                    await self.ws.send_json({"id": number, **answer})
                else:
                    await self.ws.send_bytes(binary({"id": number, **answer}, body))
            except (WebSocketDisconnect, RuntimeError):
                self.session.stop()

    def progress(self, number: int) -> Callable[[dict[str, Any]], None]:
        """A function that a worker thread may call to send part of an answer."""
        return lambda part: anyio.from_thread.run(self.send, number, part)

    async def run(self) -> None:
        """Serve the tab until it closes."""
        try:
            while True:
                message = await self.ws.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await self.handle(message.get("text"))
        finally:
            self.session.stop()
            for job in self.jobs:
                job.cancel()

    async def handle(self, text: str | None) -> None:
        """Answer one message."""
        number = 0
        try:
            if text is None:
                raise VcsError("the message is binary: send JSON as text")
            message = parse(text)
            number = message.get("id", 0)
            report = self.progress(number)
            if message["op"] not in LONG:
                await self.send(number, *await run_in_threadpool(self.session.answer, message, report))
                return
            job = await run_in_threadpool(self.session.prepare, message, report)
            task = asyncio.create_task(self.long(number, job))
            self.jobs.add(task)
            task.add_done_callback(self.jobs.discard)
        except Exception as why:
            await self.send(number, {"error": told(why)})

    async def long(self, number: int, job: Callable[[], Any]) -> None:
        """Run a long operation and send its answer."""
        try:
            await self.send(number, *await run_in_threadpool(job))
        except Stopped:
            await self.send(number, {"stopped": True})
        except Exception as why:
            await self.send(number, {"error": told(why)})


def told(why: Exception) -> str:
    """What the page is told of a failure: the sentence of a VcsError; anything else is our mistake, and
    logged."""
    if isinstance(why, VcsError):
        return str(why)
    log.error("a request of the page failed", exc_info=why)
    return f"the server failed ({type(why).__name__}): its terminal says more; please report it"


def application(image: roms.Rom, source: str, token: str, **settings: Any) -> Starlette:
    """The web application. settings: protocol, seed and frames of every tab's `Session`."""
    served = assets()
    open_tabs: set[WebSocket] = set()

    async def page(request: Request) -> Response:
        why = refusal(request, token)
        if why:
            return PlainTextResponse(why + "\n", 403)
        name = request.path_params.get("name") or "index.html"
        if name not in served:
            return PlainTextResponse("there is no such file\n", 404)
        content, kind = served[name]
        return Response(content, media_type=kind)

    async def talk(ws: WebSocket) -> None:
        if refusal(ws, token):
            await ws.close(1008)  # before it is accepted: the browser sees 403
            return
        await ws.accept()
        if len(open_tabs) >= MOST_TABS:
            await ws.send_json({"id": 0, "error": f"{MOST_TABS} tabs are open already: close one of them"})
            await ws.close(1013)
            return
        open_tabs.add(ws)
        try:
            session = await run_in_threadpool(partial(Session, image, source, **settings))
            await Tab(ws, session).run()
        finally:
            open_tabs.discard(ws)

    async def nothing(request: Request) -> Response:
        return PlainTextResponse("there is nothing here: open the address that `vcs explore` printed\n", 404)

    routes = [
        Route("/{token}/", page),
        Route("/{token}/{name}", page),
        WebSocketRoute("/{token}/ws", talk),
        Route("/{rest:path}", nothing),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.add_middleware(Armour)
    return app


class Server(uvicorn.Server):
    """A uvicorn server of the application on a socket of its own.

    port: 0 chooses a free one. Attributes: `url`, with the token. Raises VcsError if the port is taken.
    """

    def __init__(self, app: Starlette, token: str, port: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if sys.platform != "win32":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((HOST, port))
            self.socket.listen(64)  # now, so that a second server on the port is refused
        except OSError as why:
            self.socket.close()
            raise VcsError(
                f"port {port} cannot be used ({why.strerror}): choose another, or --port 0"
            ) from None
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/{token}/"
        # no compression: the page is on this machine, and packing pictures took more time than sending them
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", access_log=False, ws="websockets-sansio", ws_max_size=4 * LARGEST,
                ws_per_message_deflate=False, proxy_headers=False, lifespan="off", server_header=False,
                timeout_graceful_shutdown=1,
            )
        )  # fmt: skip

    def serve_here(self) -> None:
        """Serve until interrupted."""
        self.run(sockets=[self.socket])

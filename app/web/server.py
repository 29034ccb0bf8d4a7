"""How uvicorn serves Saiten: strict framing, time limits, and a stop that loses no request.

A client keeps connections and sends its next request on one of them. If the server closes it in that moment the request
is lost, and a POST may not be sent again. So every answer of the last seconds says `Connection: close`, and what has
reached this machine already is still answered.
"""

from __future__ import annotations

import asyncio
import select
import signal
import socket
import time
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.runtime.settings import Settings
from app.web.application import create_application
from app.web.middleware import SAFE_HEADERS
from app.web.problems import problem
from app.web.protocol import ImpatientProtocol

RETRY_SECONDS = "2"


class Farewell:
    """The layer around the application: once `state.draining`, answers say that the connection ends with them.

    A request that is cut off because the stop has lasted too long is answered with 503, where no answer has begun.
    """

    def __init__(self, app: ASGIApp, state: Any) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def part(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if self._state.draining:
                    MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self._app(scope, receive, part)
        except asyncio.CancelledError:
            if begun or not self._state.draining:
                raise
            detail = "the service stopped before this was done; send it again"
            headers = {"Retry-After": RETRY_SECONDS, "X-Request-Id": scope["state"]["request_id"], **SAFE_HEADERS}
            response = problem(
                503, "stopping", "The service is stopping", detail, instance=scope["path"], headers=headers
            )
            await response(scope, receive, part)


class PartingProtocol(ImpatientProtocol):
    """Does not close an idle connection under a request that has come and is not read yet: that is answered first.

    While `state.parting_seconds` is not 0, an idle connection stays open for so long after the listener is closed: a
    request may be on its way, and none of the connections that are still used then was used in all of the drain.
    """

    _parting = False

    def __init__(self, *arguments: Any, state: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._state = state

    def shutdown(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if not idle:
            super().shutdown()
        elif self._state.parting_seconds and not self._parting:
            self._parting = True
            self.loop.call_later(self._state.parting_seconds, self.shutdown)
        elif not self.transport.is_closing() and not has_unread(self.transport):
            super().shutdown()


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether bytes of the peer, or its end, wait in the system for the next turn of the event loop."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


LARGEST_HEADER_BYTES = 256 * 1024
"""Beyond it the connection is cut. The application's own, smaller bound can still answer 431."""


STOP_SECONDS = 23
"""From SIGTERM to the end of the last request, the drain included: with the closing of everything a stop takes less
than 25 s."""

IDLE_SECONDS = 75
"""How long a connection is kept for a caller's next request. Longer than balancers keep theirs (60 s is usual), so that
it is they who close: the other way round a request may meet a connection that is being closed."""


PARTING_SECONDS = 8.0
"""After the drain, for connections that nobody used in all that time. Whoever closes one may do so under a request that
is on its way; the longer nobody has used it, the less likely that is."""


class DrainingServer(uvicorn.Server):
    """On SIGTERM readiness fails at once, while the listener stays for `drain_seconds`.

    A load balancer needs that long to notice: closing the listener first would refuse what it still sends. Meanwhile
    every answer takes leave of its connection. A second signal, or SIGINT, stops at once, as does a signal before the
    service was ready; requests in flight finish in any case, up to STOP_SECONDS after the first signal.
    """

    def __init__(self, config: uvicorn.Config, state: Any, drain_seconds: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain_seconds = drain_seconds
        self._exit_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._state.parting_seconds = 0.0
        at_once = self._exit_at is not None or not self._drain_seconds or not self.started
        if sig != signal.SIGTERM or at_once:
            super().handle_exit(sig, frame)
            return
        self._state.draining = True
        self._state.parting_seconds = PARTING_SECONDS
        self._exit_at = time.monotonic() + self._drain_seconds

    async def on_tick(self, counter: int) -> bool:
        if self._state.draining:
            # Batches stop while requests drain: both together have to fit into what an orchestrator waits for.
            self._state.stopping.set()
        if self._exit_at is not None and time.monotonic() >= self._exit_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # However it was told to stop: event streams and batches end with it.
        self._state.draining = True
        self._state.stopping.set()
        await super().shutdown(sockets)


def make_server(settings: Settings) -> DrainingServer:
    """A server that is ready to `run` or `serve`."""
    application = create_application(settings)
    config = uvicorn.Config(
        Farewell(application, application.state),
        http=partial(PartingProtocol, state=application.state),  # type: ignore[arg-type]
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEADER_BYTES,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=int(STOP_SECONDS - settings.drain_seconds),
    )
    return DrainingServer(config, application.state, settings.drain_seconds)

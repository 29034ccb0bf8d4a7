"""How uvicorn serves Saiten: time limits, and a stop that loses no request.

A client reuses its connections. If the server closes one just as a request is sent, the request is lost, and a POST may
not be repeated. So all answers during the stop say `Connection: close`, and requests that have already arrived are
answered.
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


class ConnectionClose:
    """The layer around the application: while `state.draining`, every answer says `Connection: close`.

    A request that is cancelled because the stop takes too long is answered with 503, unless its answer has begun.
    """

    def __init__(self, app: ASGIApp, state: Any) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_closing(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if self._state.draining:
                    MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self._app(scope, receive, send_closing)
        except asyncio.CancelledError:
            if begun or not self._state.draining:
                raise
            detail = "the service stopped before this was done; send it again"
            headers = {"Retry-After": RETRY_SECONDS, "X-Request-Id": scope["state"]["request_id"], **SAFE_HEADERS}
            response = problem(
                503, "stopping", "The service is stopping", detail, instance=scope["path"], headers=headers
            )
            await response(scope, receive, send_closing)


class DrainingProtocol(ImpatientProtocol):
    """Does not close an idle connection on which a request has arrived that is not read yet.

    If `state.close_seconds` is not 0, an idle connection stays open for this time after the listener is closed, because
    a request may be on its way.
    """

    _closing_later = False

    def __init__(self, *arguments: Any, state: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._state = state

    def shutdown(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if not idle:
            super().shutdown()
        elif self._state.close_seconds and not self._closing_later:
            self._closing_later = True
            self.loop.call_later(self._state.close_seconds, self.shutdown)
        elif not self.transport.is_closing() and not has_unread(self.transport):
            super().shutdown()


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether bytes from the peer, or its end of stream, wait in the socket."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


LARGEST_HEADER_BYTES = 256 * 1024
"""Beyond it the connection is closed. The application's own, smaller limit answers 431."""

STOP_SECONDS = 23
"""From SIGTERM to the end of the last request, including the drain; a whole stop takes less than 25 s."""

IDLE_SECONDS = 75
"""How long an idle connection is kept. Longer than load balancers keep theirs (usually 60 s), so that they close first:
otherwise a request may be sent on a connection that is being closed."""

CLOSE_SECONDS = 8.0
"""How long connections that were idle during the whole drain stay open after it. The longer a connection has been idle,
the less likely it is that a request is on its way."""


class DrainingServer(uvicorn.Server):
    """On SIGTERM readiness fails at once, while the listener stays open for `drain_seconds`: a load balancer needs this
    time to notice.

    A second signal, SIGINT, or a signal before the service is ready stops at once. Requests in flight finish in any
    case, up to STOP_SECONDS after the first signal.
    """

    def __init__(self, config: uvicorn.Config, state: Any, drain_seconds: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain_seconds = drain_seconds
        self._exit_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._state.close_seconds = 0.0
        at_once = self._exit_at is not None or not self._drain_seconds or not self.started
        if sig != signal.SIGTERM or at_once:
            super().handle_exit(sig, frame)
            return
        self._state.draining = True
        self._state.close_seconds = CLOSE_SECONDS
        self._exit_at = time.monotonic() + self._drain_seconds

    async def on_tick(self, counter: int) -> bool:
        if self._state.draining:
            # Batches stop while requests drain, so that both fit into the time that an orchestrator waits.
            self._state.stopping.set()
        if self._exit_at is not None and time.monotonic() >= self._exit_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # However the stop began, event streams and batches end with it.
        self._state.draining = True
        self._state.stopping.set()
        await super().shutdown(sockets)


def make_server(settings: Settings) -> DrainingServer:
    """The server for these settings, ready to `run` or `serve`."""
    application = create_application(settings)
    config = uvicorn.Config(
        ConnectionClose(application, application.state),
        http=partial(DrainingProtocol, state=application.state),  # type: ignore[arg-type]
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

"""How uvicorn serves Saiten: time limits, and a stop that loses no request.

Uvicorn limits idle connections, and routes limit the bodies that they read. `ImpatientProtocol` limits the rest:
headers that never end, the rest of a body that is already answered (401, 404, 413, a GET with a body), and answers that
are not read.

A client reuses its connections. If the server closes one just as a request is sent, the request is lost, and a POST may
not be repeated. So all answers during the stop say `Connection: close`, and requests that have already arrived are
answered.
"""

from __future__ import annotations

import asyncio
import secrets
import select
import signal
import socket
import struct
import sys
import time
from functools import partial
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Sent
from uvicorn.protocols.http.h11_impl import H11Protocol

from saiten.core.messages import Message
from saiten_server.application import create_application
from saiten_server.platform.settings import Settings
from saiten_server.platform.web.middleware import SAFE_HEADERS
from saiten_server.platform.web.problems import problem, refuse

HEADER_SECONDS = 25.0
SENT_PIECE_BYTES = 256 * 1024
"""What is sent of an answer at once."""

CLOSING_SECONDS = 5.0
"""How long a caller may go on sending after its answer. Closing at once could lose the answer."""

LINGER_BYTES_PER_SECOND = 50_000
LONGEST_LINGER_SECONDS = 25.0
"""One more second per so many bytes, up to a bound: many clients read no answer before a large body is sent."""

READER_SECONDS = 60.0
READER_BYTES_PER_SECOND = 1000
"""A caller that reads a waiting answer more slowly than this is disconnected, since the answer occupies memory."""


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose request is not complete in time.

    Request line and headers have `HEADER_SECONDS` from the opening of the connection or from their first byte. The rest
    of a body that is already answered has `CLOSING_SECONDS` from the answer, and longer if it arrives fast. Bodies that
    are being read are limited by the route, and answers by `READER_SECONDS`.
    """

    _timer: asyncio.TimerHandle | None = None
    _timeout_seconds: float | None = None
    _received = 0
    _granted = 0.0
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._received += len(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        self._stop_reader_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The send buffer is full: from now on the caller must read at the required rate."""
        super().pause_writing()
        self._stop_reader_timer()
        self._time_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reader_timer()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP with a problem document, unless an answer has begun already."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self._close()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # The body broke off midway. This is its answer; the application's own answer is discarded.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        headers = {"Connection": "close", "X-Request-Id": secrets.token_hex(12), **SAFE_HEADERS}
        detail = Message("http-malformed")
        answer = problem(400, "invalid-http", detail, instance="", headers=headers)
        events: tuple[Any, ...] = (
            h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self._close()

    def _watch(self) -> None:
        seconds = self._find_timeout_seconds()
        # Only a change sets the timer: a byte now and then must not restart it.
        if seconds != self._timeout_seconds:
            self._set_timer(seconds)

    def _find_timeout_seconds(self) -> float | None:
        """Seconds for what is missing; None if nothing is, or if it is limited elsewhere."""
        if self.conn.their_state is h11.IDLE:
            # After an answer, uvicorn's keep-alive timeout applies.
            return HEADER_SECONDS if self.timeout_keep_alive_task is None else None
        answered = self.cycle is not None and self.cycle.response_complete
        return CLOSING_SECONDS if answered and self.conn.their_state is h11.SEND_BODY else None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timeout_seconds = seconds
        self._received, self._granted = 0, seconds or 0.0
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        lingering = self._timeout_seconds is not None and self.conn.their_state is h11.SEND_BODY
        earned = CLOSING_SECONDS + self._received / LINGER_BYTES_PER_SECOND if lingering else 0.0
        more = min(earned, LONGEST_LINGER_SECONDS) - self._granted
        if more <= 0:
            self._close()
            return
        self._granted += more
        self._timer = self.loop.call_later(more, self._give_up)

    def _close(self) -> None:
        """Closes once everything is sent, or when the caller reads too slowly."""
        self.transport.close()
        if self.transport.get_write_buffer_size() and self._reader is None:
            self._time_reader()

    def _time_reader(self) -> None:
        waiting = count_unsent(self.transport)
        self._reader = self.loop.call_later(READER_SECONDS, self._judge_reader, waiting)

    def _judge_reader(self, before: int) -> None:
        """Disconnects a slow reader. Nothing is written meanwhile, so what is gone from the buffer was read."""
        taken = before - count_unsent(self.transport)
        if taken < READER_SECONDS * READER_BYTES_PER_SECOND or self.transport.is_closing():
            reset(self.transport)
        else:
            self._time_reader()

    def _stop_reader_timer(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


if sys.platform != "win32":
    import fcntl
    import termios


def count_unsent(transport: asyncio.Transport) -> int:
    """Bytes that wait in this process, plus those in the socket that are not acknowledged.

    The socket reports free room only when a third of its buffer is free, which may be a megabyte.
    """
    waiting = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None or connection.fileno() < 0:
        return waiting
    try:
        queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    except OSError:
        return waiting
    return waiting + int.from_bytes(queued, sys.byteorder)


def reset(transport: asyncio.Transport) -> None:
    """Resets the connection. After a normal close, the system would keep unread data for minutes."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


RETRY_AFTER_TIMEOUT = "2"


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

        async def send_closing(message: Sent) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if self._state.draining:
                    MutableHeaders(scope=message)["Connection"] = "close"
            body = message.get("body", b"")
            # In pieces, for which the sender waits in between: of tens of megabytes, each copy takes long.
            for start in range(0, len(body) - SENT_PIECE_BYTES, SENT_PIECE_BYTES):
                await send({"type": message["type"], "body": body[start : start + SENT_PIECE_BYTES], "more_body": True})
            if len(body) > SENT_PIECE_BYTES:
                message = {**message, "body": body[(len(body) - 1) // SENT_PIECE_BYTES * SENT_PIECE_BYTES :]}
            await send(message)

        try:
            await self._app(scope, receive, send_closing)
        except asyncio.CancelledError:
            if begun or not self._state.draining:
                raise
            headers = {"Retry-After": RETRY_AFTER_TIMEOUT, "X-Request-Id": scope["state"]["request_id"], **SAFE_HEADERS}
            response = refuse(Request(scope), 503, "stopping", Message("service-stopped"), headers)
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

SERVER_STOP_SECONDS = 23
"""From SIGTERM to the end of the last request, including the drain; a whole stop takes less than 25 s."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept. Longer than load balancers keep theirs (usually 60 s), so that they close first:
otherwise a request may be sent on a connection that is being closed."""

CLOSE_SECONDS = 8.0
"""How long connections that were idle during the whole drain stay open after it. The longer a connection has been idle,
the less likely it is that a request is on its way."""


class DrainingServer(uvicorn.Server):
    """On SIGTERM readiness fails at once, while the listener stays open for `drain_seconds`: a load balancer needs this
    time to notice.

    A second signal, SIGINT, or a signal before the service is ready stops at once. Requests in flight finish in any
    case, up to SERVER_STOP_SECONDS after the first signal.
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
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(SERVER_STOP_SECONDS - settings.drain_seconds),
    )
    return DrainingServer(config, application.state, settings.drain_seconds)

"""Time limits that uvicorn's HTTP/1.1 protocol lacks.

Uvicorn limits idle connections, and routes limit the bodies that they read. This module limits the rest: headers that
never end, the rest of a body that is already answered (401, 404, 413, a GET with a body), and answers that are not
read.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.middleware import SAFE_HEADERS
from app.web.problems import REFUSALS, problem

HEADER_SECONDS = 25.0
LINGER_SECONDS = 5.0
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
    of a body that is already answered has `LINGER_SECONDS` from the answer, and longer if it arrives fast. Bodies that
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
        detail = "the request does not follow HTTP/1.1 (RFC 9112)"
        answer = problem(400, "invalid-http", REFUSALS["invalid-http"], detail, instance="", headers=headers)
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
        return LINGER_SECONDS if answered and self.conn.their_state is h11.SEND_BODY else None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timeout_seconds = seconds
        self._received, self._granted = 0, seconds or 0.0
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        lingering = self._timeout_seconds is not None and self.conn.their_state is h11.SEND_BODY
        earned = LINGER_SECONDS + self._received / LINGER_BYTES_PER_SECOND if lingering else 0.0
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

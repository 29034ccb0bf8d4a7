"""HTTP/1.1 as uvicorn speaks it, for callers who never finish what they send.

Uvicorn limits idle connections, and the routes limit the bodies that they read. What neither sees is cut here: headers
that never end, and the rest of a body after its answer has gone out (401, 404, 413, a GET with a body).
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 25.0
LINGER_SECONDS = 5.0
"""How long an answered caller may go on sending. Closing at once could cut the answer off on its way."""

LINGER_BYTES_PER_SECOND = 50_000
LONGEST_LINGER_SECONDS = 25.0
"""A second more for so many bytes, to that bound: many clients read no answer before they have sent a large body."""


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose request is not whole in time.

    Request line and headers have `HEADER_SECONDS` from the opening of the connection or their first byte, the rest
    of a body that has been answered `LINGER_SECONDS` from the answer, and longer where it comes fast. A body that is
    still being read is its reader's, and an answer that is still being written its writer's.
    """

    _timer: asyncio.TimerHandle | None = None
    _patience: float | None = None
    _received = 0
    _granted = 0.0

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
        super().connection_lost(exc)

    def _watch(self) -> None:
        seconds = self._find_patience()
        # Only a change sets the clock: a byte now and then must not wind it up again.
        if seconds != self._patience:
            self._set_timer(seconds)

    def _find_patience(self) -> float | None:
        """Seconds for what is missing; None where nothing is, or somebody else watches."""
        if self.conn.their_state is h11.IDLE:
            # After an answer the connection is idle by right, and uvicorn's keep-alive watches it.
            return HEADER_SECONDS if self.timeout_keep_alive_task is None else None
        answered = self.cycle is not None and self.cycle.response_complete
        return LINGER_SECONDS if answered and self.conn.their_state is h11.SEND_BODY else None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._patience = seconds
        self._received, self._granted = 0, seconds or 0.0
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        lingering = self._patience is not None and self.conn.their_state is h11.SEND_BODY
        earned = LINGER_SECONDS + self._received / LINGER_BYTES_PER_SECOND if lingering else 0.0
        more = min(earned, LONGEST_LINGER_SECONDS) - self._granted
        if more <= 0:
            self.transport.close()
            return
        self._granted += more
        self._timer = self.loop.call_later(more, self._give_up)

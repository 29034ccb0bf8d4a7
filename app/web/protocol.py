"""HTTP/1.1 as uvicorn speaks it, for callers who never finish their headers.

Uvicorn limits idle connections and Saiten limits bodies; without this, a caller who sends a header every few seconds
would hold a connection for ever.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 25.0


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose request line and headers are not whole `HEADER_SECONDS` after their first byte.

    The clock also runs from the opening of a connection on which nothing is said at all.
    """

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch_headers(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_watching(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _give_up(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()

"""How uvicorn serves Saiten: strict framing, patience with limits, and a stop that fails nobody."""

from __future__ import annotations

import signal
import socket
import time
from types import FrameType
from typing import Any

import uvicorn

from app.settings import Settings
from app.web.application import create_application
from app.web.protocol import ImpatientProtocol

LARGEST_HEADER_BYTES = 256 * 1024
"""Beyond it the connection is cut. The application's own, smaller bound can still answer 431."""


class DrainingServer(uvicorn.Server):
    """On SIGTERM readiness fails at once, while the listener stays for `drain_seconds`.

    A load balancer needs that long to notice: closing the listener first would refuse what it still sends. A second
    signal, or SIGINT, stops at once; requests in flight finish in any case.
    """

    def __init__(self, config: uvicorn.Config, state: Any, drain_seconds: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain_seconds = drain_seconds
        self._exit_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGTERM or self._exit_at is not None or not self._drain_seconds:
            super().handle_exit(sig, frame)
            return
        self._state.draining = True
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
        application,
        http=ImpatientProtocol,
        h11_max_incomplete_event_size=LARGEST_HEADER_BYTES,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=15,
        # With the drain before it, a stop takes less than 25 s.
        timeout_graceful_shutdown=18,
    )
    return DrainingServer(config, application.state, settings.drain_seconds)

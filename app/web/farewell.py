"""How a service that stops parts from its callers: none of them writes into a connection that is being closed.

A client keeps connections and sends its next request on one of them. If the server closes it in that moment the request
is lost, and a POST may not be sent again. So every answer of the last seconds says `Connection: close`, and what has
reached this machine already is still answered.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

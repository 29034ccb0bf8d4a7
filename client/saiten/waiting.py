"""An HTTP transport that waits out the limits of a service: a request that was refused is sent again in time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httpx

from saiten.core.errors import AnswerInvalid
from saiten.core.language import tell

COST_LIMIT = "cost-limit-reached"
PASSING_CODES = frozenset({"request-limit-reached", "queue-limit-reached", "overloaded"})
"""Limits that pass within minutes. The service has begun nothing, so sending the request again does no harm."""

MOST_SECONDS = 600.0
"""The longest wait for one request in all. A limit that takes longer to pass, as that of a day's cost, is returned."""

SPREAD = 0.2
"""Callers that got the same Retry-After should not all return at the same moment."""

WAITED = "saiten_waited"

MOST_ANSWER_BYTES = 256 * 1024 * 1024
"""Of an answer that is held in memory, or of one line of a stream. None of Saiten's is nearly as long."""


class WaitingTransport(httpx.AsyncBaseTransport):
    """Sends through `inner`. An answer that is still a limit after `MOST_SECONDS` is returned as it is."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._inner = inner
        self._sleep = sleep
        self._spread = spread

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        left = MOST_SECONDS
        while True:
            response = await self._inner.handle_async_request(request)
            if not is_limited(response):
                return response
            response = await read_whole(response)
            pause = find_pause(response)
            if pause is None:
                return response
            pause *= self._spread(1, 1 + SPREAD)
            if pause > left:
                response.extensions[WAITED] = True
                return response
            left -= pause
            await self._sleep(pause)

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_limited(response: httpx.Response) -> bool:
    """Whether the answer is a limit that names seconds to wait."""
    seconds = response.headers.get("retry-after", "")
    limited = response.status_code in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
    return limited and seconds.isascii() and seconds.isdigit()


def find_pause(response: httpx.Response) -> float | None:
    """Seconds that a limit asks to wait, at least one; None for one that does not pass by itself."""
    code = read_object(response).get("code", "")
    # A proxy in front of the service that limits its callers sends no code of Saiten's.
    known = isinstance(code, str) and code in PASSING_CODES
    passes = known or (code == "" and response.status_code == HTTPStatus.TOO_MANY_REQUESTS)
    return max(1.0, float(response.headers["retry-after"])) if passes else None


async def read_whole(response: httpx.Response) -> httpx.Response:
    """The answer with its content. Raises AnswerInvalid for one that is too long: one that never ends would fill the
    memory."""
    pieces, size = list[bytes](), 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MOST_ANSWER_BYTES:
            await response.aclose()
            raise AnswerInvalid(tell("the service's answer has more than {most:,} bytes", most=MOST_ANSWER_BYTES))
        pieces.append(piece)
    packing = {b"content-encoding", b"transfer-encoding", b"content-length"}  # of what came, and not of what is here
    return httpx.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.raw if name.lower() not in packing],
        content=b"".join(pieces),
        extensions=response.extensions,
    )


def is_final(response: httpx.Response) -> bool:
    """Whether another attempt soon would not help: a limit was waited for in vain, or does not pass today."""
    return bool(response.extensions.get(WAITED)) or read_object(response).get("code") == COST_LIMIT


def read_object(response: httpx.Response) -> dict[str, Any]:
    """The answer's JSON object; empty where there is none, as in a proxy's error page."""
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}

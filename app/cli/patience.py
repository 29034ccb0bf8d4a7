"""A way to a service whose limits are waited out: what was turned away is sent again when the service says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import httpx

from app.domain.errors import CostLimitReached, Overloaded, QueueLimitReached, RequestLimitReached
from app.domain.strict_json import StrictJSONError, parse_strict_json

PASSING = frozenset({RequestLimitReached.code, QueueLimitReached.code, Overloaded.code})
"""Limits that pass within minutes. Nothing of the request was begun: to send it again does no harm."""

MOST_SECONDS = 600.0
"""Waited for one request in all. A limit that takes longer to pass, as that of a day's money, is an answer."""

SPREAD = 0.2
"""Those that were told the same moment are not to come back at the same moment."""

WAITED = "saiten_waited"


class PatientTransport(httpx.AsyncBaseTransport):
    """Sends through `inner`. An answer that is still a limit after `MOST_SECONDS` is given as it is."""

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
            pause = await find_pause(response)
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


def open_transport() -> httpx.AsyncBaseTransport:
    """How the commands reach a service."""
    return PatientTransport(httpx.AsyncHTTPTransport(trust_env=False))


async def find_pause(response: httpx.Response) -> float | None:
    """Seconds that the service asks to wait, at least one; None where the answer is no limit that passes."""
    said = response.headers.get("retry-after", "")
    limited = response.status_code in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
    if not (limited and said.isascii() and said.isdigit()):
        return None
    await response.aread()
    code = code_of(response)
    # Whoever stands before a service and limits it names no code of Saiten's.
    passes = code in PASSING or (code == "" and response.status_code == HTTPStatus.TOO_MANY_REQUESTS)
    return max(1.0, float(said)) if passes else None


def is_final(response: httpx.Response) -> bool:
    """Whether a limit was waited out in vain, or will not pass today: to ask once more soon does not help."""
    return bool(response.extensions.get(WAITED)) or code_of(response) == CostLimitReached.code


def code_of(response: httpx.Response) -> str:
    """The `code` of a problem document that was read; empty where it has none."""
    try:
        answer = parse_strict_json(response.content)
    except StrictJSONError:
        return ""
    code = answer.get("code") if isinstance(answer, dict) else None
    return code if isinstance(code, str) else ""

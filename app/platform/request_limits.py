"""Limits of requests per minute, of keys and invitations, counted in this process alone. Nothing of Redis is loaded."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from saiten.core.messages import Message
from saiten_server.core import errors
from saiten_server.core.access import APIKey
from saiten_server.platform.tasks import cancel_for_good

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import Scope

    from saiten_server.container import Container


WINDOW_SECONDS = 60


@dataclass(frozen=True)
class RateLimitDecision:
    """Whether a request is allowed, and the values of its `RateLimit` headers: `remaining` of `limit` requests per
    `window_seconds` are left for the next `reset_seconds`."""

    allowed: bool
    limit: int
    remaining: int
    reset_seconds: float
    window_seconds: int = 60


class RequestLimiter(Protocol):
    """Counts requests by key, across all processes that share a Redis, otherwise in this process. It never raises: if
    Redis is unreachable, each process counts alone."""

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision: ...

    async def close(self) -> None: ...


class MemoryRequestLimiter:
    """`RequestLimiter` for one process: a window that moves, so that no 60 s hold more than the limit."""

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._window = MovingWindowRateLimiter(self._storage)

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision:
        return await take_from(self._window, key_id, per_minute)

    async def close(self) -> None:
        # What tidies old entries up is a task of its own.
        if self._storage.timer is not None:
            await cancel_for_good([self._storage.timer])


async def take_from(window: MovingWindowRateLimiter, key_id: str, per_minute: int) -> RateLimitDecision:
    """Counts a request, and tells what is left of the minute. One that is refused is not counted."""
    item = RateLimitItemPerMinute(per_minute)
    allowed = await window.hit(item, key_id)
    reset_at, remaining = await window.get_window_stats(item, key_id)
    return RateLimitDecision(
        allowed=allowed,
        limit=per_minute,
        remaining=max(0, remaining) if allowed else 0,
        reset_seconds=min(max(0.0, reset_at - time.time()), float(WINDOW_SECONDS)),
        window_seconds=WINDOW_SECONDS,
    )


async def count_request(request: Request, key: APIKey | None) -> None:
    """Counts the request if its key has a limit, for the `RateLimit` headers. Raises RequestLimitReached."""
    container: Container = request.app.state.container
    if key is not None:
        await count_caller(request, key.id, requests_of(key, container))


async def count_caller(request: Request, caller_id: str, most: int | None) -> None:
    """Counts a request of the key or invitation of that id, of which `most` are allowed a minute; None: any number.
    Raises RequestLimitReached."""
    container: Container = request.app.state.container
    if most is None:
        return
    decision = await container.governance.limiter.take(caller_id, most)
    request.state.rate_limit = decision
    if not decision.allowed:
        container.telemetry.limited("requests")
        detail = Message("key-requests-reached", limit=decision.limit, seconds=decision.window_seconds)
        raise errors.RequestLimitReached(detail, retry_after_seconds=decision.reset_seconds)


def describe_rate_limit(scope: Scope) -> dict[str, str]:
    """The `RateLimit` headers (draft-ietf-httpapi-ratelimit-headers), empty if the request was not counted."""
    decision: RateLimitDecision | None = scope["state"].get("rate_limit")
    if decision is None:
        return {}
    # `t` is the time until the oldest request leaves the window.
    return {
        "RateLimit-Policy": f'"requests";q={decision.limit};w={decision.window_seconds}',
        "RateLimit": f'"requests";r={decision.remaining};t={math.ceil(decision.reset_seconds)}',
    }


def requests_of(key: APIKey, container: Container) -> int | None:
    """Requests per minute; None for no limit."""
    own = key.requests_per_minute
    return container.settings.key_requests_per_minute if own is None else own

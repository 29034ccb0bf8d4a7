"""How many requests each key made within the last minute, counted in this process alone. Nothing of Redis is loaded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from saiten_server.platform.tasks import cancel_for_good

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

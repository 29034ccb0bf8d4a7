"""How many requests each key made within the last minute, counted in Redis for all processes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio import Redis

from saiten_server.platform.redis.outage import RedisOutage
from saiten_server.platform.request_windows import MemoryRequestLimiter, RateLimitDecision, take_from

logger = logging.getLogger("saiten.limits")

LOST_SECONDS = 2.0
"""For so long after a failure Redis is not looked for again."""

EXCHANGES_AT_ONCE = 8
"""Exchanges with Redis under way. A burst of hundreds would open as many connections, and take that for an outage."""

LIMITS_PREFIX = "saiten:requests"


class RedisRequestLimiter:
    """`RequestLimiter` for all processes that share a Redis, whose clocks have to agree to a fraction of a minute. If
    Redis fails or takes longer than `timeout_seconds`, the process continues with its own count, and looks for Redis
    every few seconds while requests arrive. The client is not closed with it."""

    def __init__(
        self, client: Redis, *, timeout_seconds: float = 0.8, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # The address is not used: the connections are the client's.
        storage = RedisStorage(
            "redis://",
            implementation="redispy",
            key_prefix=LIMITS_PREFIX,
            connection_pool=client.connection_pool,  # type: ignore[arg-type]
        )
        self._shared = MovingWindowRateLimiter(storage)
        self._own = MemoryRequestLimiter()
        self._turns = asyncio.Semaphore(EXCHANGES_AT_ONCE)
        self._outage = RedisOutage(
            lambda: client.exists(LIMITS_PREFIX),
            user="limits",
            instead="each process counts for itself",
            logger=logger,
            timeout_seconds=timeout_seconds,
            look_seconds=LOST_SECONDS,
            clock=clock,
        )

    @property
    def counts_alone(self) -> bool:
        """Whether this process counts for itself, because Redis is away."""
        return self._outage.lasts

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision:
        async with self._turns:
            found = await self._outage.ask(lambda: take_from(self._shared, key_id, per_minute))
        if found is not None and not found.allowed:
            return found
        # Also while Redis counts: a key that has used up its minute must not get another one when Redis fails.
        own = await self._own.take(key_id, per_minute)
        return found or own

    async def close(self) -> None:
        await self._outage.close()
        await self._own.close()

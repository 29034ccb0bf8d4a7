"""How many requests each key made within the last minute, counted in Redis for all processes.

A process notices when Redis cannot be reached, does without it, and looks for it every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio import Redis
from redis.exceptions import RedisError

from saiten_server.platform.request_limits import MemoryRequestLimiter, RateLimitDecision, take_from
from saiten_server.platform.tasks import cancel_for_good

Answer = TypeVar("Answer")

FAILURES = (RedisError, OSError, TimeoutError)


class RedisOutage:
    """Asks Redis as long as it answers within `timeout_seconds`. After a failure, `probe`, which is any short exchange,
    looks for it every `look_seconds`. `user` and `instead` appear in the log once per outage: whose exchanges fail, and
    what is done meanwhile."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[object]],
        *,
        user: str,
        instead: str,
        logger: logging.Logger,
        timeout_seconds: float,
        look_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe = probe
        self._user = user
        self._instead = instead
        self._logger = logger
        self._timeout_seconds = timeout_seconds
        self._look_seconds = look_seconds
        self._clock = clock
        self._lasts = False
        self._look_at = -math.inf
        self._look: asyncio.Task[None] | None = None

    @property
    def lasts(self) -> bool:
        """Whether Redis is away, as far as is known."""
        return self._lasts

    async def ask(self, exchange: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """What Redis answers; None where it is away or takes too long."""
        if self._lasts:
            if self._clock() >= self._look_at:
                self._look_at = self._clock() + self._look_seconds
                # In another task, so that no exchange waits for a Redis that may still be gone.
                self._look = asyncio.create_task(self._reach())
            return None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await exchange()
        except FAILURES as error:
            # Of many exchanges under way, all fail.
            if not self._lasts:
                self._logger.warning("%s: Redis fails (%s); %s", self._user, type(error).__name__, self._instead)
            self._lasts, self._look_at = True, self._clock() + self._look_seconds
            return None

    async def close(self) -> None:
        if self._look is not None:
            await cancel_for_good([self._look])

    async def _reach(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._probe()
        except FAILURES:
            return
        self._lasts = False
        self._logger.info("%s: Redis is back", self._user)


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

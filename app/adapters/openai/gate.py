"""One gate per endpoint and key: so many calls at once, and none before the moment the endpoint asked to wait for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.domain.errors import JudgeUnavailable, UpstreamError

HERD_SECONDS = 0.25
"""Callers that waited for the same moment leave within this time, not all at once."""


class Gate:
    """Lets at most `limit` calls through at a time, and none while it is closed."""

    def __init__(
        self,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._places = asyncio.Semaphore(limit)
        self._clock = clock
        self._sleep = sleep
        self._opens_at = 0.0
        self._refusal: UpstreamError | None = None

    def close_for(self, seconds: float) -> None:
        """Keeps everybody out for that long. A shorter time never cuts a longer one."""
        self._opens_at = max(self._opens_at, self._clock() + seconds)

    def turn_away(self, refusal: UpstreamError) -> None:
        """Refuses all who wait now: the account was refused, so would they be. Those who come later may try."""
        self._refusal = refusal

    @asynccontextmanager
    async def passage(self, *, patience_seconds: float) -> AsyncIterator[None]:
        """A place for one call. Raises JudgeUnavailable where all waiting together takes longer than the patience."""
        known, ends_at = self._refusal, self._clock() + patience_seconds
        await self._take_place(patience_seconds)
        try:
            if self._refusal is not known and self._refusal is not None:
                raise type(self._refusal)(self._refusal.loggable)
            await self._wait_until_open(ends_at)
            yield
        finally:
            self._places.release()

    async def _take_place(self, patience_seconds: float) -> None:
        try:
            async with asyncio.timeout(patience_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise JudgeUnavailable(
                f"the judge is busy: no place within {patience_seconds:.3g} s; try again, or raise its concurrency",
                # Nobody knows when a place comes free; who waited so long in vain need not hurry.
                retry_after_seconds=max(1.0, patience_seconds),
            ) from None

    async def _wait_until_open(self, ends_at: float) -> None:
        while (wait := self._opens_at - self._clock()) > 0:
            if self._clock() + wait > ends_at:
                raise JudgeUnavailable(
                    f"the judge asked for no calls for another {wait:.0f} s", retry_after_seconds=wait
                )
            await self._sleep(wait + random.uniform(0, HERD_SECONDS))  # noqa: S311 - spreads load, keeps no secret

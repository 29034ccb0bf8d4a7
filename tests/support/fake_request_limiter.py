"""A `RequestLimiter` in memory with a clock of the test's, held to the same contract as the real ones."""

import time
from collections import defaultdict
from collections.abc import Callable

from saiten_server.platform.request_limits import RateLimitDecision

WINDOW_SECONDS = 60


class FakeRequestLimiter:
    """`taken` are the moments of the requests that were let through, by key and limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.taken: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        self._clock = clock

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision:
        now, moments = self._clock(), self.taken[key_id, per_minute]
        moments[:] = [moment for moment in moments if moment > now - WINDOW_SECONDS]
        allowed = len(moments) < per_minute
        if allowed:
            moments.append(now)
        reset_seconds = moments[0] + WINDOW_SECONDS - now
        return RateLimitDecision(allowed, per_minute, per_minute - len(moments), reset_seconds, WINDOW_SECONDS)

    async def close(self) -> None:
        """Nothing is open."""

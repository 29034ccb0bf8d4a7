"""The flow control state of one process that shares with none, or has lost sight of the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.flow.state import (
    BURST_SECONDS,
    FIRST_CALLS,
    FIRST_LIMIT,
    Bounds,
    Demand,
    Grant,
    Report,
    batch_places,
)

NEGLIGIBLE_SECONDS = 1e-6


@dataclass
class Pace:
    """One rate limit by the generic cell rate algorithm: `due` is when everything admitted so far is paid for.

    A call of any size passes as soon as what came before it is paid, so that none is too large for the limit.
    """

    configured: float | None
    told: float | None = None
    due: float = 0.0

    def interval(self, processes: int) -> float:
        """Seconds that one unit takes; 0 where no limit is known."""
        known = [per_minute for per_minute in (self.configured, self.told) if per_minute is not None]
        return 60.0 * processes / min(known) if known else 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next call may be charged; 0 or less: now."""
        return self.due - now - BURST_SECONDS

    def charge(self, seconds: float, now: float) -> None:
        self.due = max(self.due, now) + seconds


class LocalFlowState:
    """Fills `FlowState` in memory. It takes one share of `processes` of everything."""

    heartbeat_seconds: float | None = None

    def __init__(self, bounds: Bounds, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._concurrency = bounds.concurrency
        self._limit = min(bounds.concurrency, FIRST_LIMIT)
        self._answered = False
        self._processes = 1
        self._opens_at = -math.inf
        self._halved_at = -math.inf
        self._requests = Pace(bounds.requests_per_minute)
        self._tokens = Pace(bounds.tokens_per_minute)

    async def exchange(self, report: Report, demand: Demand) -> Grant:
        now = self._clock()
        self._learn(report, now)
        return self._admit(demand, now)

    async def close(self) -> None:
        """There is nothing to close."""

    def adopt(
        self,
        *,
        limit: int,
        processes: int,
        answered: bool,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
    ) -> None:
        """Takes over what all processes know together, to go on from it should they be lost."""
        self._limit = limit
        self._processes = processes
        self._answered = answered
        self._requests.told = requests_per_minute
        self._tokens.told = tokens_per_minute

    def _learn(self, report: Report, now: float) -> None:
        self._answered = self._answered or report.answered
        self._opens_at = max(self._opens_at, now + report.closed_seconds)
        self._requests.told = report.requests_per_minute or self._requests.told
        self._tokens.told = report.tokens_per_minute or self._tokens.told
        self._tokens.charge(report.tokens * self._tokens.interval(self._processes), now)
        self._limit = min(self._concurrency, self._limit + report.successes)
        age = report.throttled_age_seconds
        if age is not None and now - age > self._halved_at:
            self._limit = max(1, self._limit // 2)
            self._halved_at = now

    def _admit(self, demand: Demand, now: float) -> Grant:
        limit = self._limit if self._answered else min(self._limit, FIRST_CALLS)
        places = math.ceil(limit / self._processes)
        closed = self._opens_at - now
        if closed > NEGLIGIBLE_SECONDS:
            return Grant(0, places, closed, closed)
        for position, tokens in enumerate(demand.tokens):
            room = places if position < demand.interactive else batch_places(places)
            if demand.in_flight + position >= room:
                return Grant(position, places)
            wait = max(self._requests.wait(now), self._tokens.wait(now))
            if wait > NEGLIGIBLE_SECONDS:
                return Grant(position, places, wait)
            self._requests.charge(self._requests.interval(self._processes), now)
            self._tokens.charge(tokens * self._tokens.interval(self._processes), now)
        return Grant(len(demand.tokens), places)

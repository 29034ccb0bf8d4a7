"""The state of flow control that processes calling one endpoint with one key share, and its in-memory version."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

FIRST_CALLS = 8  # Calls in flight at most until the endpoint's first answer, which states its rate limit
FIRST_LIMIT = 64  # The adaptive limit's initial number of calls in flight. It grows by one per success.
LONGEST_PAUSE_SECONDS = 600.0  # The longest pause that an endpoint is believed to need, unless the operator says more
BURST_SECONDS = 0.1  # How much of a rate may be used in advance, so that a late timer costs no throughput
PLACES_A_RESERVE = 64
FEWEST_WITH_RESERVE = 4
CALLS_A_BATCH_CALL = 10  # While both lanes wait, one in so many admitted calls is a batch's: its minimum share


@dataclass(frozen=True)
class FlowLimits:
    """The operator's limits for all processes together; None for an unknown rate. No pause is longer than
    `longest_pause_seconds`."""

    concurrency: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS


@dataclass(frozen=True)
class FlowReport:
    """What a process has observed since its last exchange. `throttled_age_seconds` is how long ago the latest call that
    was answered with 429 began, None if there was none. `closed_seconds` is for how long no call may be made, by
    what the endpoint has said since then; with `probing` it asked for more than is believed, so that one call is to be
    made first. `tokens` is the number used minus the number reserved. The rates are the endpoint's latest, None
    if it stated none."""

    successes: int = 0
    throttled_age_seconds: float | None = None
    closed_seconds: float = 0.0
    probing: bool = False
    tokens: int = 0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the endpoint has answered, and so stated its limits."""
        return self.successes > 0 or self.throttled_age_seconds is not None


@dataclass(frozen=True)
class Demand:
    """The calls that wait in a process, in order: the tokens of each. The first `interactive` calls may use every
    place: interactive calls, and a batch's call if its minimum share is due. The others leave the reserve free.
    `in_flight` is how many calls the process has in flight. These and the admitted ones count against the limit until
    the next exchange."""

    tokens: tuple[int, ...] = ()
    interactive: int = 0
    in_flight: int = 0


@dataclass(frozen=True)
class Grant:
    """The first `admitted` of a demand's calls may be made now. `wait_seconds` is when to ask again, None if a call in
    flight must end first or no call is left. `places` is how many calls this process may have in flight, at least 1,
    and fewer than its share while other processes use more. `closed_seconds` is for how long no call may be made."""

    admitted: int
    places: int
    wait_seconds: float | None = None
    closed_seconds: float = 0.0


class FlowState(Protocol):
    """The shared state. `exchange` records the report, then admits as many calls of the demand as possible. It never
    fails: if the other processes are unreachable, it continues alone. `heartbeat_seconds` is how often a process with
    calls in flight must make an exchange to be counted; None if it need not, because no other process shares the state.
    `reopen` ends the pause."""

    @property
    def heartbeat_seconds(self) -> float | None: ...
    async def exchange(self, report: FlowReport, demand: Demand) -> Grant: ...
    async def reopen(self) -> None: ...
    async def close(self) -> None: ...


async def find_pause(state: FlowState) -> float:
    """For how many seconds no call may be made."""
    return (await state.exchange(FlowReport(), Demand())).closed_seconds


def batch_places(places: int) -> int:
    """How many of a process's places batches may use. One in 64 is reserved, and at least one of four or more."""
    if places < FEWEST_WITH_RESERVE:
        return places
    return places - max(1, places // PLACES_A_RESERVE)


NEGLIGIBLE_SECONDS = 1e-6


@dataclass
class Pace:
    """One rate limit by the generic cell rate algorithm: `due` is when the rate has covered all admitted calls. A call
    of any size is admitted once the earlier ones are covered, so no call is too large for the limit. `stated` is the
    rate that the endpoint stated."""

    configured: float | None
    stated: float | None = None
    due: float = 0.0

    def interval(self, processes: int) -> float:
        """Seconds per unit; 0 if no limit is known."""
        known = [per_minute for per_minute in (self.configured, self.stated) if per_minute is not None]
        return 60.0 * processes / min(known) if known else 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next call may be admitted; 0 or less means now."""
        return self.due - now - BURST_SECONDS

    def charge(self, seconds: float, now: float) -> None:
        self.due = max(self.due, now) + seconds


class LocalFlowState:
    """Implements `FlowState` in memory. It uses one share of `processes` of each limit."""

    heartbeat_seconds: float | None = None

    def __init__(self, bounds: FlowLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._concurrency = bounds.concurrency
        self._longest_pause_seconds = bounds.longest_pause_seconds
        self._limit = min(bounds.concurrency, FIRST_LIMIT)
        self._answered = False
        self._processes = 1
        self._opens_at = -math.inf
        self._halved_at = -math.inf
        self._requests = Pace(bounds.requests_per_minute)
        self._tokens = Pace(bounds.tokens_per_minute)

    async def close(self) -> None:
        """There is nothing to close."""

    async def reopen(self) -> None:
        self._opens_at = -math.inf

    @property
    def closed_seconds(self) -> float:
        """For how long no call may be made."""
        return max(0.0, self._opens_at - self._clock())

    def adopt(
        self,
        *,
        limit: int,
        processes: int,
        answered: bool,
        closed_seconds: float,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
    ) -> None:
        """Copies the shared state, so that this process can continue alone if it becomes unreachable."""
        self._limit = limit
        self._processes = processes
        self._answered = answered
        self._opens_at = self._clock() + closed_seconds
        self._requests.stated = requests_per_minute
        self._tokens.stated = tokens_per_minute

    async def exchange(self, report: FlowReport, demand: Demand) -> Grant:
        now = self._clock()
        self._answered = self._answered or report.answered
        self._opens_at = max(self._opens_at, now + min(report.closed_seconds, self._longest_pause_seconds))
        self._requests.stated = report.requests_per_minute or self._requests.stated
        self._tokens.stated = report.tokens_per_minute or self._tokens.stated
        self._tokens.charge(report.tokens * self._tokens.interval(self._processes), now)
        self._limit = min(self._concurrency, self._limit + report.successes)
        age = report.throttled_age_seconds
        if age is not None and now - age > self._halved_at:
            self._limit = max(1, self._limit // 2)
            self._halved_at = now
        if report.probing:
            self._limit = 1
        return self._admit(demand, now)

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

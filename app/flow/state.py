"""What all processes that call one endpoint with one key must agree on, as a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

FIRST_CALLS = 8
"""In flight at most until the endpoint has answered for the first time: its answer tells its rate limit."""
FIRST_LIMIT = 64
"""Calls in flight at which the adaptive limit starts. From there it grows by one a success."""
BURST_SECONDS = 0.1
"""So much of a rate may be used ahead of time, that a late timer costs no throughput."""
PLACES_A_RESERVE = 64
FEWEST_WITH_RESERVE = 4
CALLS_A_BATCH_CALL = 10
"""While both lanes wait, one in so many calls that are let through is a batch's: its minimum share."""


@dataclass(frozen=True)
class Bounds:
    """What the operator allows for all processes together; None where a rate is not known."""

    concurrency: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True)
class Report:
    """What a process has seen since its last exchange.

    `throttled_age_seconds` is how long ago the youngest of the calls that were answered with 429 began, None where none
    was. `closed_seconds` is for how long nobody may call, as far as this process knows. `tokens` were used beyond what
    was reserved (negative: reserved in vain). The rates are those that the endpoint told last, None where it told none.
    """

    successes: int = 0
    throttled_age_seconds: float | None = None
    closed_seconds: float = 0.0
    tokens: int = 0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the endpoint showed that it is there and what it allows."""
        return self.successes > 0 or self.throttled_age_seconds is not None


@dataclass(frozen=True)
class Demand:
    """Calls that wait in a process, in the order in which they are to be made: the tokens of each.

    The first `interactive` may take every place: interactive calls, and a batch's where its minimum share is due. The
    others leave the reserve free. `in_flight` are the calls that this process has under way. The others are reckoned to
    leave these, and those that are admitted, until the next exchange tells otherwise.
    """

    tokens: tuple[int, ...] = ()
    interactive: int = 0
    in_flight: int = 0


@dataclass(frozen=True)
class Grant:
    """The first `admitted` of a demand's calls may be made now.

    `wait_seconds` is when to ask for the next, None where a call in flight has to end first (or none is left to ask
    for). `places` are the process's own, at least 1; fewer than its share while the others' calls leave no more.
    `closed_seconds` is for how long nobody may call.
    """

    admitted: int
    places: int
    wait_seconds: float | None = None
    closed_seconds: float = 0.0


class FlowState(Protocol):
    """The shared state. `exchange` never fails: a state that cannot reach the other processes goes on by itself."""

    @property
    def heartbeat_seconds(self) -> float | None:
        """How often a process that has calls under way must make an exchange to be counted; None: never."""
        ...

    async def exchange(self, report: Report, demand: Demand) -> Grant:
        """Takes in the report, then admits what it can of the demand."""
        ...

    async def close(self) -> None: ...


def batch_places(places: int) -> int:
    """How many of a process's places batches may use: one in 64, and at least one of four or more, is kept free."""
    if places < FEWEST_WITH_RESERVE:
        return places
    return places - max(1, places // PLACES_A_RESERVE)

"""What Saiten needs from outside, as roles. Adapters fill them; `bootstrap` decides which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from app.domain.evaluation import Usage
from app.domain.rubric import Rubric


class Turn(Enum):
    """Who makes the call for a key that has no reply."""

    CALL = "call"
    """The one who asked."""
    WAIT = "wait"
    """Another process is making it."""


class CallCache(Protocol):
    """Replies of outside calls by the digest of everything that was sent. May forget at any time."""

    def peek(self, key: str) -> bytes | None:
        """The reply where it can be had without waiting; None where there is none, or that cannot be told."""
        ...

    async def get(self, key: str) -> bytes | None: ...

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        """The reply, else whose turn it is. An entry equal to `refused` counts as none: the caller does not believe it.

        `Turn.CALL` is to be followed by `put` or `leave`. After `Turn.WAIT`, claim again from time to time; the wait
        ends when the other process puts, leaves or dies. Never WAIT where no other process can share this cache.
        """
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keeps the reply, in place of what is there. It is kept when this returns, unless it is too large."""
        ...

    async def leave(self, key: str) -> None:
        """Whoever was told `Turn.CALL` has no reply to put: the call failed, or was cancelled."""
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Removes replies. Unlike the others it raises (StoreError): an erasure that failed must be known."""
        ...

    async def close(self) -> None:
        """Waits for what is being written."""
        ...


class RubricSource(Protocol):
    """Where rubrics come from. `get` and `nearest` raise UnknownRubric."""

    def get(self, name: str) -> Rubric:
        """The rubric of that id in its newest version, or with `id@version` in that one."""
        ...

    def nearest(self, name: str) -> Rubric:
        """The same, or the newest version where that one is gone: for what has been scored already."""
        ...

    def versions(self, rubric_id: str) -> Sequence[int]:
        """The versions of an id, oldest first."""
        ...

    def list(self) -> list[Rubric]:
        """The newest version of each, by id."""
        ...


Outcome = Literal["hit", "miss"]


@dataclass(frozen=True)
class FlowFigures:
    """Flow control of the judge's endpoint as one process sees it now.

    `limit` are the calls that it may make at once, `waiting` those that wait for their turn; `closed_seconds` is for
    how long nobody may call.
    """

    limit: int
    in_flight: int
    waiting: int
    closed_seconds: float


class Span(Protocol):
    """A step of a trace that is under way."""

    def note(self, **ids: str | int | bool) -> None:
        """Adds what is known only now. Ids, figures and Saiten's own words, never a text."""
        ...


class Telemetry(Protocol):
    """Counts and durations for the operator, and the steps of a trace. Never given a text."""

    def cache(self, call: str, outcome: Outcome) -> None: ...

    def judged(self, kind: str, usage: Usage, seconds: float) -> None: ...

    def evaluated(self, rubric: str, status: str, seconds: float) -> None: ...

    def warned(self, code: str) -> None: ...

    def batch_item(self, status: str, code: str) -> None:
        """A candidate of a batch has its result; `code` says why it failed, else it is empty."""
        ...

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        """What waits: candidates without a result, the age of the oldest batch among them, jobs on the queue; None
        where the queue cannot be asked."""
        ...

    def holding(self, chunks: int) -> None:
        """How many chunks this process works on."""
        ...

    def paused(self, batches: Mapping[str, int]) -> None:
        """How many batches are paused now, by `pause_reason`."""
        ...

    def encoder_failed(self) -> None:
        """A similarity could not be had: no encoder, or one that failed or took too long."""
        ...

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the route's template, never the address that was asked for."""
        ...

    def limited(self, limit: str) -> None:
        """A request was turned away: `requests`, `cost`, `evaluations` or `queue`."""
        ...

    def gated(self, verdict: str) -> None:
        """A gate was answered: `pass`, `fail` or `inconclusive`."""
        ...

    def checked(self, verdict: str) -> None:
        """A judge was held against its own earlier ratings of the anchors: `moved`, `steady` and so on."""
        ...

    def dealt_with(self, policy: str) -> None:
        """A dialogue that looks like an attack was dealt with by that policy: `flag`, `refuse` or `judge-twice`."""
        ...

    def span(self, name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
        """A step of the trace, from here to the end of the block, with those ids; nothing where traces are off."""
        ...

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        """Where to look flow control's figures up whenever they are wanted. To be told once."""
        ...


@dataclass(frozen=True)
class RateLimitDecision:
    """Whether a request may go on, and what `RateLimit` headers say of it. `remaining` requests may still come within
    the next `reset_seconds`, of `limit` in `window_seconds`."""

    allowed: bool
    limit: int
    remaining: int
    reset_seconds: float
    window_seconds: int = 60


class RequestLimiter(Protocol):
    """Counts requests by key, in all processes together where they share a Redis, else in this one.

    Never raises: where Redis is away each process counts for itself.
    """

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision: ...

    async def close(self) -> None: ...

"""Protocols that several rooms share: call cache, rubrics, telemetry and request limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from app.domain.evaluation import Usage
from app.domain.rubric import Rubric


class Turn(Enum):
    """Who makes the call for a key without a reply."""

    CALL = "call"
    """The caller of `claim`."""
    WAIT = "wait"
    """Another process, which is making it."""


class CallCache(Protocol):
    """Replies of outside calls by the digest of everything that was sent. Entries may disappear at any time."""

    def peek(self, key: str) -> bytes | None:
        """The reply if it is available without waiting; None if it is not, or that is not known."""
        ...

    async def get(self, key: str) -> bytes | None: ...

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        """The reply, or whose turn it is to make the call. An entry equal to `refused` counts as missing.

        After `Turn.CALL` the caller must call `put` or `leave`. After `Turn.WAIT` it claims again from time to time,
        until the other process puts, leaves or dies. A cache that no other process shares never returns WAIT.
        """
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Stores the reply, replacing any entry, before it returns. A reply that is too large is not stored."""
        ...

    async def leave(self, key: str) -> None:
        """Ends a turn without a reply, because the call failed or was cancelled."""
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Removes replies. Unlike the other methods it raises StoreError, so that no failed erasure is missed."""
        ...

    async def close(self) -> None:
        """Waits for pending writes."""
        ...


class RubricSource(Protocol):
    """Finds rubrics. `get` and `nearest` raise UnknownRubric."""

    def get(self, name: str) -> Rubric:
        """The newest version of the rubric `id`, or the version in `id@version`."""
        ...

    def nearest(self, name: str) -> Rubric:
        """Like `get`, but the newest version if that version is gone: for results that exist already."""
        ...

    def versions(self, rubric_id: str) -> Sequence[int]:
        """The versions of a rubric, oldest first."""
        ...

    def list(self) -> list[Rubric]:
        """The newest version of each rubric, by id."""
        ...


Outcome = Literal["hit", "miss"]


@dataclass(frozen=True)
class FlowFigures:
    """The current state of flow control in one process.

    `limit` is how many calls the process may have in flight, `waiting` how many calls wait for their turn, and
    `closed_seconds` for how long no call may be made.
    """

    limit: int
    in_flight: int
    waiting: int
    closed_seconds: float


class Span(Protocol):
    """A step of a trace that has begun."""

    def note(self, **ids: str | int | bool) -> None:
        """Adds ids and figures that were not known at the start; never a text."""
        ...


class Telemetry(Protocol):
    """Counts, durations and traces for the operator. It never receives a text."""

    def cache(self, call: str, outcome: Outcome) -> None: ...

    def judged(self, kind: str, usage: Usage, seconds: float) -> None: ...

    def evaluated(self, rubric: str, status: str, seconds: float) -> None: ...

    def warned(self, code: str) -> None: ...

    def batch_item(self, status: str, code: str) -> None:
        """Counts a result of a batch; `code` says why it failed and is otherwise empty."""
        ...

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        """Sets the number of candidates without a result, the age of the oldest of their batches, and the jobs on the
        queue (None if the queue cannot be reached)."""
        ...

    def holding(self, chunks: int) -> None:
        """Sets how many chunks this process works on."""
        ...

    def paused(self, batches: Mapping[str, int]) -> None:
        """Sets how many batches are paused, by `pause_reason`."""
        ...

    def encoder_failed(self) -> None:
        """Counts a similarity that is missing because the encoder was unavailable, failed or took too long."""
        ...

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request. `route` is the route's template, never the requested address."""
        ...

    def limited(self, limit: str) -> None:
        """Counts a request refused by a limit: `requests`, `cost`, `evaluations` or `queue`."""
        ...

    def gated(self, verdict: str) -> None:
        """Counts a gate's verdict: `pass`, `fail` or `inconclusive`."""
        ...

    def checked(self, verdict: str) -> None:
        """Counts a comparison of a judge with its earlier ratings of the anchors: `moved`, `steady` and so on."""
        ...

    def dealt_with(self, policy: str) -> None:
        """Counts a dialogue that looks like an attack, by the policy applied: `flag`, `refuse` or `judge-twice`."""
        ...

    def span(self, name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
        """Records the block as a step of the trace with these ids, if tracing is on."""
        ...

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        """Registers the function that gives flow control's current figures. Call it once."""
        ...


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
    """Counts requests by key, across all processes that share a Redis, otherwise in this process.

    It never raises: if Redis is unreachable, each process counts alone.
    """

    async def take(self, key_id: str, per_minute: int) -> RateLimitDecision: ...

    async def close(self) -> None: ...

"""What governance needs from outside, as roles: policies, the audit log, what keys spend, and where texts lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from app.domain.audit import AuditEvent
from app.domain.policy import ProjectPolicy, TextKeeping


class PolicyStore(Protocol):
    """Projects' policies. Raises the `Store…` errors of `app.domain.errors`."""

    async def find_policy(self, project: str) -> ProjectPolicy:
        """The project's policy; the default where none was set."""
        ...

    async def save_policy(self, project: str, policy: ProjectPolicy, now: datetime) -> None:
        """Sets it. Where texts are now to go sooner, or more of them, everything that is kept is looked at again."""
        ...

    async def policies(self) -> Mapping[str, ProjectPolicy]:
        """Every project that has a policy of its own."""
        ...


class AuditLog(Protocol):
    """What administrators did; only ever added to. Raises the `Store…` errors of `app.domain.errors`."""

    async def note(self, event: AuditEvent) -> None: ...

    async def events(self, project: str | None, *, before: int | None, limit: int) -> list[AuditEvent]:
        """Newest first, those with a number below `before`; of all projects where `project` is None."""
        ...


class Spending(Protocol):
    """What each key has cost. Batches are charged where their results are committed.

    Raises the `Store…` errors of `app.domain.errors`.
    """

    async def spent_usd(self, key_id: str, now: datetime) -> float:
        """On the day (UTC) of `now`."""
        ...

    async def charge(self, key_id: str, cost_usd: float, now: datetime) -> None:
        """Returns when it is kept. It may be kept, too, where the caller is cancelled."""
        ...

    async def close(self) -> None:
        """Waits for what is being charged."""
        ...


@dataclass(frozen=True)
class Erased:
    """What an erasure removed: whole batches, candidates of other batches, and single evaluations."""

    batches: int
    candidates: int
    evaluations: int


class TextStore(Protocol):
    """Where dialogue texts lie, so that they can be removed. Raises the `Store…` errors of `app.domain.errors`."""

    async def erase_marked(self, project: str, metadata: Mapping[str, str]) -> Erased:
        """Removes everything whose metadata hold all these entries: batches as `BatchStore.erase` does, candidates of
        other batches (in their place stands a failure with the code `erased`, and a result that comes in later is
        refused), single evaluations, and human ratings of any of them. Their calls are owed as those of an erased
        batch."""
        ...

    async def redact(
        self, project: str, texts: TextKeeping, before: datetime, limit: int, *, under: ProjectPolicy | None = None
    ) -> int:
        """Hashes or drops texts of what is older than `before`, at most `limit` records; how many it did. The calls
        that held them are owed. Where a policy is given: nothing, once the project's keeps texts otherwise."""
        ...


@dataclass(frozen=True)
class Allowance:
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

    async def take(self, key_id: str, per_minute: int) -> Allowance: ...

    async def close(self) -> None: ...

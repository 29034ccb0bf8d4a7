"""The policies of projects: read for each request, and shown and changed by administrators."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from saiten_server.core.access import AuditEvent, ProjectPolicy
from saiten_server.core.batch import BatchOptions
from saiten_server.core.evaluation import ConversationRequest, EvaluationRequest, PreferenceRequest
from saiten_server.governance.store import AuditLog, PolicyStore
from saiten_server.platform.memory_cache import RecentValues

PolicyRequest = TypeVar("PolicyRequest", EvaluationRequest, ConversationRequest, PreferenceRequest, BatchOptions)

RECENT_SECONDS = 2.0
"""How long a change by another process may go unnoticed; a change by this process applies at once."""


class RecentPolicies:
    """The policies of a `PolicyStore`, cached for `seconds`."""

    def __init__(
        self, store: PolicyStore, *, seconds: float = RECENT_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._known = RecentValues(store.find_policy, seconds=seconds, clock=clock)

    async def recent(self, project: str) -> ProjectPolicy:
        """The project's policy as it was at most `seconds` ago. Raises the `Store…` errors."""
        return await self._known.get(project)

    async def find_policy(self, project: str) -> ProjectPolicy:
        return await self._known.read(project)

    async def save_policy(self, project: str, policy: ProjectPolicy, now: datetime) -> None:
        try:
            await self._store.save_policy(project, policy, now)
        finally:
            self._known.forget(project)


def apply_policy(asked: PolicyRequest, policy: ProjectPolicy) -> PolicyRequest:
    """The request with an integrity policy: its own, else the project's."""
    return asked if asked.integrity is not None else asked.model_copy(update={"integrity": policy.integrity})


async def settle_for(project: str, asked: PolicyRequest, policies: RecentPolicies) -> PolicyRequest:
    """The request with an integrity policy; the store is read only if it has none. Raises the `Store…` errors."""
    return asked if asked.integrity is not None else apply_policy(asked, await policies.recent(project))


class PolicyService:
    """Shows policies, and changes them with an event in the audit log. Methods raise the `Store…` errors."""

    def __init__(self, *, policies: RecentPolicies, audit: AuditLog, now: Callable[[], datetime]) -> None:
        self._policies = policies
        self._audit = audit
        self._now = now

    async def show(self, project: str) -> ProjectPolicy:
        """The project's policy; the default where none was set."""
        return await self._policies.find_policy(project)

    async def change(self, project: str, policy: ProjectPolicy, *, actor: str) -> ProjectPolicy:
        """Sets the policy, on behalf of `actor`, who is as in `AuditEvent`."""
        now = self._now()
        before = await self._policies.find_policy(project)
        # Recorded first: a change that cannot be recorded is not made.
        await self._audit.note(
            AuditEvent(
                at=now,
                project=project,
                actor=actor,
                action="policy.changed",
                target=project,
                detail={"before": before.model_dump(), "after": policy.model_dump()},
            )
        )
        await self._policies.save_policy(project, policy, now)
        return policy

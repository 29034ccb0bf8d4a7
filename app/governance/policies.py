"""Projects' policies as administrators set them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.adapters.sql.governance import AuditLog
from app.domain.audit import AuditEvent
from app.domain.policy import ProjectPolicy
from app.governance.integrity import RecentPolicies


class PolicyService:
    """Shows policies, and changes them with a line in the audit log. Methods raise the `Store…` errors."""

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
        # Noted first: what cannot be noted is not done.
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

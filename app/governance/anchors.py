"""A judge's stored ratings of the anchors: whoever replaces them changes what drift is measured against."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.domain.audit import AuditEvent
from app.domain.judge_check import AnchorRatings
from app.governance.acting import actor
from app.governance_ports import AuditLog
from app.meta_ports import AnchorStore


class NotedAnchors:
    """An `AnchorStore` over another, which notes when ratings take the place of others. The first ones are no event."""

    def __init__(self, store: AnchorStore, audit: AuditLog, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._audit = audit
        self._now = now

    async def find_anchor_ratings(self, project: str, key: str) -> AnchorRatings | None:
        return await self._store.find_anchor_ratings(project, key)

    async def keep_anchor_ratings(self, project: str, key: str, ratings: AnchorRatings) -> None:
        before = await self._store.find_anchor_ratings(project, key)
        await self._store.keep_anchor_ratings(project, key, ratings)
        if before is None:
            return
        event = AuditEvent(
            at=self._now(),
            project=project,
            actor=actor.get(),
            action="judge-reference.replaced",
            target=ratings.rubric,
            detail={"asked": ratings.asked, "anchors": ratings.anchors, "before": before.at.isoformat()},
        )
        await self._audit.note(event)

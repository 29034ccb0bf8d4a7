"""A judge's stored ratings of the anchors: whoever replaces them changes what drift is measured against."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.governance import AuditLog
from app.adapters.sql.ratings import RatingStore
from app.domain.audit import AuditEvent
from app.domain.judge_check import AnchorRatings
from app.governance.acting import actor


class NotedAnchors(RatingStore):
    """A `RatingStore` that writes to the audit log when anchor ratings are replaced. The first ones are no event."""

    def __init__(self, engine: AsyncEngine, audit: AuditLog, *, now: Callable[[], datetime]) -> None:
        super().__init__(engine)
        self._audit = audit
        self._now = now

    async def keep_anchor_ratings(self, project: str, key: str, ratings: AnchorRatings) -> None:
        before = await self.find_anchor_ratings(project, key)
        await super().keep_anchor_ratings(project, key, ratings)
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

"""A judge's stored ratings of the anchors: who replaces them is noted, who takes the first is not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.governance import AuditLog
from app.domain.audit import AuditEvent
from app.domain.errors import StoreUnavailable
from app.domain.judge_check import AnchorRatings
from app.governance.acting import acting_as
from app.governance.anchors import NotedAnchors
from tests.support.judge_checks import make_check

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
RATINGS: AnchorRatings = make_check("recorded").ratings


class FailingLog(AuditLog):
    async def note(self, event: AuditEvent) -> None:
        raise StoreUnavailable("away")


async def test_only_what_takes_the_place_of_others_is_noted(sqlite_engine: AsyncEngine) -> None:
    log = AuditLog(sqlite_engine)
    anchors = NotedAnchors(sqlite_engine, log, now=lambda: NOW)
    await anchors.keep_anchor_ratings("team", "k", RATINGS)
    await anchors.keep_anchor_ratings("rivals", "k", RATINGS)
    assert await log.events(None, before=None, limit=9) == []
    with acting_as("key_1"):
        await anchors.keep_anchor_ratings("team", "k", RATINGS)
    [event] = await log.events(None, before=None, limit=9)
    assert (event.at, event.project, event.actor, event.target) == (NOW, "team", "key_1", RATINGS.rubric)
    assert event.detail["before"] == RATINGS.at.isoformat()
    assert await anchors.find_anchor_ratings("team", "k") == RATINGS


async def test_a_log_that_fails_is_heard(sqlite_engine: AsyncEngine) -> None:
    anchors = NotedAnchors(sqlite_engine, FailingLog(sqlite_engine), now=lambda: NOW)
    await anchors.keep_anchor_ratings("team", "k", RATINGS)
    with pytest.raises(StoreUnavailable):
        await anchors.keep_anchor_ratings("team", "k", RATINGS)

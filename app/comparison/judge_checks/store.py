"""A judge's ratings of the anchors, which its later ratings are compared with."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.judge_checks.values import AnchorRatings
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import anchor_ratings, can_store, equals
from saiten_server.scoring.stored import STORED

anchor = anchor_ratings.c


class AnchorStore:
    """A judge's ratings of the anchors by project and key. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, project: str, key: str) -> AnchorRatings | None:
        """The stored ratings, if there are any."""
        if not can_store(key):
            return None
        query = select(anchor.ratings).where(equals(anchor.project, project), anchor.key == digest(key))
        found = await db.fetch_value(self._engine, query)
        return None if found is None else AnchorRatings.model_validate_json(found, context=STORED)

    async def keep(self, project: str, key: str, ratings: AnchorRatings) -> None:
        """Stores the ratings, replacing earlier ones with the same key."""
        text = ratings.model_dump_json()
        if not can_store(project, key):
            raise InvalidRequest(Message("anchors-key-not-kept"))
        row = {"project": project, "key": digest(key), "ratings": text}
        await db.execute(self._engine, db.insert_or_replace(self._engine, anchor_ratings), row)

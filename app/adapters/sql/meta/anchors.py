"""A judge's ratings of the anchors, in SQL."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.batches.rows import STORED
from app.adapters.sql.engine import read, write
from app.adapters.sql.meta.replacing import insert_or_replace
from app.adapters.sql.tables import anchor_ratings, can_hold
from app.domain.errors import InvalidRequest
from app.domain.judge_check import AnchorRatings
from app.domain.model import digest

table = anchor_ratings.c


class Anchors:
    """`AnchorStore` in SQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find_anchor_ratings(self, project: str, key: str) -> AnchorRatings | None:
        if not can_hold(project, key):
            return None
        query = select(table.ratings).where(table.project == project, table.key == digest(key))
        async with read(self._engine) as connection:
            found = (await connection.execute(query)).scalar_one_or_none()
        return None if found is None else AnchorRatings.model_validate_json(found, context=STORED)

    async def keep_anchor_ratings(self, project: str, key: str, ratings: AnchorRatings) -> None:
        text = ratings.model_dump_json()
        if not can_hold(project, key):
            raise InvalidRequest("the key of anchor ratings holds NUL or half of a surrogate pair")
        row = {"project": project, "key": digest(key), "ratings": text}
        async with write(self._engine) as connection:
            await connection.execute(insert_or_replace(connection, anchor_ratings, row))

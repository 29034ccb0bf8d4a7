"""Human ratings in SQL."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, literal_column, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.batches.rows import RECEIVING, ROWS
from app.adapters.sql.engine import change, file_of, read, scrub, write
from app.adapters.sql.meta.targets import find_rubrics, find_targets
from app.adapters.sql.meta.turns import take_turn
from app.adapters.sql.tables import batch_items, batches, can_hold, human_ratings
from app.domain.errors import InvalidRequest
from app.domain.human_rating import HumanRating, RatingFilter, StoredRating
from app.domain.model import digest
from app.meta_ports import RatingsKept, RatingsMark

UNHELD = "holds a character that cannot be kept: NUL, or half of a surrogate pair"

table = human_ratings.c

ITEM_START_CHARACTERS = 64
ITEM_START: ColumnElement[str] = literal_column(f"substr(human_ratings.item, 1, {ITEM_START_CHARACTERS})")
"""What the index holds of an item's id, whose length only the operator bounds."""

logger = logging.getLogger("saiten.ratings")


class Ratings:
    """`RatingStore` in SQL. A rating that takes another's place gets a number of its own and stands last.

    So whoever reads in pages finds it, after the earlier one where that was on a page before: of the same rater and
    target, the later counts.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, project: str, ratings: Sequence[HumanRating], now: datetime) -> RatingsKept:
        refuse_unheld(project, ratings)
        replaced = 0
        async with change(self._engine) as connection:
            await take_turn(connection, project)
            targets = await find_targets(connection, project, ratings)
            rows = dict[str, dict[str, Any]]()
            for number, rating in enumerate(ratings):
                key = identify(project, rating)
                rows.pop(key, None)  # the later stands last
                batch_id = targets.owner_of(rating, number)
                rows[key] = {**describe(rating, now), "project": project, "key": key, "batch_id": batch_id}
            keys, added = [*rows], [*rows.values()]
            for start in range(0, len(rows), ROWS):
                earlier = delete(human_ratings).where(table.key.in_(keys[start : start + ROWS]))
                replaced += (await connection.execute(earlier)).rowcount
                await connection.execute(insert(human_ratings), added[start : start + ROWS])
        return RatingsKept(added=len(rows) - replaced, replaced=replaced)

    async def rubrics_of(self, project: str, evaluations: Sequence[str]) -> dict[str, str]:
        if not can_hold(project, *evaluations):
            evaluations = [each for each in evaluations if can_hold(project, each)]
        async with read(self._engine) as connection:
            return await find_rubrics(connection, project, evaluations)

    async def of_batch(
        self, project: str, batch_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        if not can_hold(project, batch_id):
            return []
        items = (
            select(batch_items.c.item)
            .join(batches, batches.c.id == batch_items.c.batch_id)
            .where(batches.c.id == batch_id, batches.c.project == project, batches.c.status != RECEIVING)
        )
        mine = (table.project == project) & (table.number > after)
        # Each by one index in the order of the numbers. An OR of both conditions would read all of the project.
        own = select(human_ratings).where(mine, table.batch_id == batch_id).order_by(table.number).limit(limit)
        free = select(human_ratings).where(mine, table.batch_id.is_(None), table.item.in_(items))
        free = free.order_by(table.number).limit(limit)
        either = union_all(select(own.subquery()), select(free.subquery())).subquery()
        query = select(either).order_by(either.c.number).limit(limit)
        async with read_by_hash(self._engine) as connection:
            return [(row.number, read_rating(row)) for row in await connection.execute(query)]

    async def remove(self, project: str, wanted: RatingFilter) -> int:
        named = wanted.model_dump(exclude_none=True)
        if not named:
            raise InvalidRequest(f"say which ratings: name at least one of {', '.join(RatingFilter.model_fields)}")
        if not can_hold(project, *named.values()):
            return 0
        these = [table.project == project, *conditions_of(wanted)]
        owners = select(table.batch_id).where(*these)
        async with change(self._engine) as connection:
            await take_turn(connection, project)
            # An erasure locks the batch first, and then removes its ratings in an order of its own.
            locked = select(batches.c.id).where(batches.c.id.in_(owners)).order_by(batches.c.id)
            await connection.execute(locked.with_for_update(key_share=True, read=True))
            removed = (await connection.execute(delete(human_ratings).where(*these))).rowcount
        if removed and not await scrub(self._engine):
            logger.warning("another process reads the database; what was removed is cleaned from its log later")
        return removed

    async def mark(self, project: str) -> RatingsMark:
        if not can_hold(project):
            return RatingsMark(0, -1)
        query = select(func.count(), func.max(table.number)).where(table.project == project)
        async with read(self._engine) as connection:
            count, newest = (await connection.execute(query)).one()
        return RatingsMark(count, -1 if newest is None else newest)

    async def rated_batches(self, project: str, *, limit: int) -> Sequence[str]:
        if not can_hold(project):
            return []
        newest = func.max(table.number)
        mine = (table.project == project, table.batch_id.is_not(None), table.simulated.is_(False))
        query = select(table.batch_id).where(*mine).group_by(table.batch_id).order_by(newest.desc()).limit(limit)
        async with read(self._engine) as connection:
            return (await connection.execute(query)).scalars().all()

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        if not can_hold(project, *wanted.model_dump(exclude_none=True).values()):
            return []
        query = select(human_ratings).where(table.project == project, table.number > after, *conditions_of(wanted))
        async with read(self._engine) as connection:
            rows = await connection.execute(query.order_by(table.number).limit(limit))
            return [(row.number, read_rating(row)) for row in rows]


@asynccontextmanager
async def read_by_hash(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A `read` of one statement that joins many rows with many.

    PostgreSQL takes a batch that came in a moment ago for a few rows, and would compare each rating with each item: for
    10,000 ratings and 100,000 items that took 132 s, and by hash 0.6.
    """
    if file_of(engine) is not None:
        async with read(engine) as connection:
            yield connection
        return
    async with write(engine) as connection:
        await connection.execute(text("SET LOCAL enable_nestloop = off"))
        yield connection


def refuse_unheld(project: str, ratings: Sequence[HumanRating]) -> None:
    """Raises InvalidRequest where no column can hold a text; the pointer is the rating's number."""
    if not can_hold(project):
        raise InvalidRequest(f"the project's name {UNHELD}")
    for number, rating in enumerate(ratings):
        texts = (rating.item, rating.evaluation, rating.batch, rating.system, rating.rater, rating.comment)
        if not can_hold(*(one for one in texts if one is not None), *rating.ratings):
            raise InvalidRequest(f"the rating {UNHELD}", pointer=str(number))


def identify(project: str, rating: HumanRating) -> str:
    """The digest of whose rating it is and of what."""
    target = (rating.item, rating.evaluation, rating.batch, rating.candidate, rating.system)
    return digest([project, *target, rating.rater])


def describe(rating: HumanRating, now: datetime) -> dict[str, Any]:
    """The columns that the rating itself tells, save its batch."""
    return {
        "item": rating.item,
        "evaluation": rating.evaluation,
        "candidate": rating.candidate,
        "system": rating.system,
        "rater": rating.rater,
        "ratings": json.dumps(rating.ratings),
        "comment": rating.comment,
        "simulated": rating.simulated,
        "created_at": now,
    }


def read_rating(row: Row[Any]) -> StoredRating:
    """The rating of a row. Not validated again: limits are for letting in."""
    return StoredRating.model_construct(
        item=row.item,
        evaluation=row.evaluation,
        batch=None if row.item is None else row.batch_id,
        candidate=row.candidate,
        system=row.system,
        rater=row.rater,
        ratings=json.loads(row.ratings),
        comment=row.comment,
        simulated=row.simulated,
        created_at=row.created_at,
    )


def conditions_of(wanted: RatingFilter) -> Sequence[ColumnElement[bool]]:
    """What a rating must fulfil to be meant. One of an evaluation is one of the batch that the evaluation is of."""
    exact = (
        (ITEM_START, wanted.item and wanted.item[:ITEM_START_CHARACTERS]),
        # Not the column alone: SQLite would put its value into what is asked of the beginning, and miss the index.
        (table.item.concat(""), wanted.item),
        (table.evaluation, wanted.evaluation),
        (table.batch_id, wanted.batch),
        (table.rater, wanted.rater),
    )
    return [column == value for column, value in exact if value is not None]

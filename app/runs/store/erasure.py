"""Erasing a batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.platform.sql.engine import change, scrub
from saiten_server.platform.sql.erased_calls import note_erased_calls
from saiten_server.platform.sql.sizes import DRAWN_BYTES, PREFERENCE_SIZE, RATING_SIZE, add_bytes, remove_sized
from saiten_server.platform.sql.tables import (
    batch_chunks,
    batches,
    can_store,
    evaluations,
    human_preferences,
    human_ratings,
    rating_rounds,
    round_items,
    round_pairs,
    round_tasks,
)
from saiten_server.runs.store.account import read_account, spend_lost
from saiten_server.runs.store.rows import STATEMENT_ROWS, utc_now

logger = logging.getLogger("saiten.batches")


class Erasure:
    """Erases batches. On SQLite it then removes the traces of deleted rows from the file and its log."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        # The previous process may have died between an erasure and the cleaning.
        self._has_traces = True

    async def erase(self, project: str, batch_id: str) -> bool:
        """Removes the batch with everything that belongs to it; returns whether there was one."""
        if not can_store(project, batch_id):
            return False
        this = (batches.c.id == batch_id) & (batches.c.project == project)
        async with change(self._engine) as connection:
            # The batch is locked first, so that a commit that waits for it finds it gone; then its chunks, in the
            # order of `renew`.
            await hold_owners(connection, batch_id)
            found = (await connection.execute(select(batches).where(this).with_for_update())).one_or_none()
            if found is None:
                return False
            chunk = batch_chunks.c
            leased = select(chunk.number).where(chunk.batch_id == batch_id, chunk.owner.is_not(None))
            await connection.execute(leased.order_by(chunk.number).with_for_update())
            await note_batch_calls(connection, batch_id)
            begun = select(func.sum(chunk.begun)).where(chunk.batch_id == batch_id)
            # The batch's usage is removed with it, but its key still pays for what was begun.
            lost: int = (await connection.execute(begun)).scalar_one() or 0
            await spend_lost(connection, read_account(found), lost, self._clock())
            rated = await remove_sized(connection, human_ratings, RATING_SIZE, human_ratings.c.batch_id == batch_id)
            rated += await remove_pairs(connection, batch_id, None, self._clock())
            await connection.execute(delete(batches).where(this))
            await add_bytes(connection, {project: -sum(rated)})
        self.mark_traces()
        await self.tidy()
        return True

    def mark_traces(self) -> None:
        """Notes that rows were deleted, so that the next `tidy` cleans up after them."""
        self._has_traces = True

    async def tidy(self) -> None:
        """Cleans up after deletions, where that is still to be done. What could not be cleaned is tried again later."""
        if self._has_traces:
            self._has_traces = not await scrub(self._engine)
            if self._has_traces:
                logger.warning("another process reads the database; what was erased is cleaned from its log later")


async def note_batch_calls(connection: AsyncConnection, batch_id: str) -> None:
    """Notes all calls that the batch's results rest on, page by page, because a large batch has millions."""
    table, after = evaluations.c, -1
    query = select(table.position, table.calls).where(table.batch_id == batch_id).order_by(table.position)
    while rows := (await connection.execute(query.where(table.position > after).limit(STATEMENT_ROWS))).all():
        await note_erased_calls(connection, {key for row in rows for key in json.loads(row.calls)})
        after = rows[-1].position


def find_sides(table: Any, batch_id: str, places: Collection[int] | None) -> Any:
    """The condition that either side of a pair is of the batch, and at one of the places where there are any."""
    first, second = table.c.first_batch_id == batch_id, table.c.second_batch_id == batch_id
    if places is None:
        return or_(first, second)
    return or_(and_(first, table.c.first_position.in_(places)), and_(second, table.c.second_position.in_(places)))


async def hold_owners(connection: AsyncConnection, batch_id: str) -> None:
    """Locks the batch and those that own rounds with pairs of it, in the order of all who lock several."""
    pairs = select(rating_rounds.c.batch_id).join(round_pairs, round_pairs.c.round_id == rating_rounds.c.id)
    owners = pairs.where(find_sides(round_pairs, batch_id, None))
    query = select(batches.c.id).where(or_(batches.c.id == batch_id, batches.c.id.in_(owners)))
    await connection.execute(query.order_by(batches.c.id).with_for_update())


async def remove_pairs(
    connection: AsyncConnection, batch_id: str, places: Collection[int] | None, now: datetime
) -> list[int]:
    """Withdraws the pairs with these responses of the batch, or with any, from their rounds, and removes what people
    preferred; returns the size of each preference. A rater who has such a pair continues with the next."""
    these = find_sides(round_pairs, batch_id, places)
    pair, task, drawn = round_pairs.c, round_tasks.c, rating_rounds.c
    gone: dict[str, list[int]] = {}
    for row in await connection.execute(select(pair.round_id, pair.position).where(these)):
        gone.setdefault(row.round_id, []).append(row.position)
    for round_id, positions in gone.items():
        own = and_(round_items.c.round_id == round_id, round_items.c.position.in_(positions))
        count = (await connection.execute(delete(round_items).where(own))).rowcount
        this = update(rating_rounds).where(drawn.id == round_id).values(drawn=drawn.drawn - count)
        owner = (await connection.execute(this.returning(drawn.batch_id))).scalar_one()
        shrunk = update(batches).where(batches.c.id == owner)
        await connection.execute(shrunk.values(stored_bytes=batches.c.stored_bytes - DRAWN_BYTES * count))
        pending = (task.round_id == round_id, task.position.in_(positions), task.done_at.is_(None))
        await connection.execute(update(round_tasks).where(*pending).values(done_at=now))
    await connection.execute(delete(round_pairs).where(these))
    # Of the batch itself where it compares pairs: what people say of its results.
    ids = select(evaluations.c.id).where(evaluations.c.batch_id == batch_id)
    if places is not None:
        ids = ids.where(evaluations.c.position.in_(places))
    named = and_(human_preferences.c.pair.like("pr\\_%", escape="\\"), human_preferences.c.pair.in_(ids))
    of_side = or_(find_sides(human_preferences, batch_id, places), named)
    return await remove_sized(connection, human_preferences, PREFERENCE_SIZE, of_side)

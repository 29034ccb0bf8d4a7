"""Removing a batch with everything that was kept of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Insert, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.storage.sql.batches.account import read_account, spend_lost
from app.storage.sql.batches.rows import ROWS, utc_now
from app.storage.sql.engine import change, insert_or_ignore, read, scrub
from app.storage.sql.tables import batch_chunks, batches, can_hold, erased_calls, evaluations

chunk = batch_chunks.c

logger = logging.getLogger("saiten.batches")


class Erasure:
    """Erases batches. On SQLite the file and its log are then cleaned of what was erased."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        # The process before this one may have died between an erasure and the cleaning.
        self._traces = True

    async def erase(self, project: str, batch_id: str) -> bool:
        if not can_hold(project, batch_id):
            return False
        this = (batches.c.id == batch_id) & (batches.c.project == project)
        async with change(self._engine) as connection:
            # Locked first: a commit that waits for the batch finds it gone. Then its chunks, in the order of `renew`.
            found = (await connection.execute(select(batches).where(this).with_for_update())).one_or_none()
            if found is None:
                return False
            leased = select(chunk.number).where(chunk.batch_id == batch_id, chunk.owner.is_not(None))
            await connection.execute(leased.order_by(chunk.number).with_for_update())
            await owe_all_calls(connection, batch_id)
            begun = select(func.sum(chunk.begun)).where(chunk.batch_id == batch_id)
            # Its usage goes with it, and its key still pays for what was begun.
            lost: int = (await connection.execute(begun)).scalar_one() or 0
            await spend_lost(connection, read_account(found), lost, self._clock())
            await connection.execute(delete(batches).where(this))
        self.remember()
        await self.tidy()
        return True

    async def owe(self, keys: Sequence[str]) -> None:
        async with change(self._engine) as connection:
            await owe_calls(connection, keys)

    async def owed(self, limit: int) -> tuple[str, ...]:
        async with read(self._engine) as connection:
            query = select(erased_calls.c.key).order_by(erased_calls.c.key).limit(limit)
            return tuple((await connection.execute(query)).scalars())

    async def settle(self, keys: Sequence[str]) -> None:
        async with change(self._engine) as connection:
            for start in range(0, len(keys), ROWS):
                settled = erased_calls.c.key.in_(keys[start : start + ROWS])
                await connection.execute(delete(erased_calls).where(settled))

    def remember(self) -> None:
        """Something was deleted: its traces are to go."""
        self._traces = True

    async def tidy(self) -> None:
        """Cleans up after deletions, where that is still to be done; a sweep tries again what could not be."""
        if self._traces:
            self._traces = not await scrub(self._engine)
            if self._traces:
                logger.warning("another process reads the database; what was erased is cleaned from its log later")


async def owe_calls(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Notes calls whose replies are to leave the cache, sorted: two who note the same do not wait for each other."""
    ordered = sorted(keys)
    statement: Insert = insert_or_ignore(connection, erased_calls)
    for start in range(0, len(ordered), ROWS):
        rows: list[dict[str, Any]] = [{"key": key} for key in ordered[start : start + ROWS]]
        await connection.execute(statement, rows)


async def owe_all_calls(connection: AsyncConnection, batch_id: str) -> None:
    """Notes the calls that the batch's results rest on, page by page: a large batch's would fill the memory."""
    table, after = evaluations.c, -1
    query = select(table.position, table.calls).where(table.batch_id == batch_id).order_by(table.position)
    while rows := (await connection.execute(query.where(table.position > after).limit(ROWS))).all():
        await owe_calls(connection, {key for row in rows for key in json.loads(row.calls)})
        after = rows[-1].position

"""Which chunks are to be put on the job queue. A mark says that they were, so that each is told once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import lock_batches
from app.adapters.sql.batches.erasure import Erasure
from app.adapters.sql.batches.part import ACTIVE, RECEIVING
from app.adapters.sql.engine import change, read
from app.adapters.sql.tables import batch_chunks, batches
from app.batch_ports import COLLECT, Job

ABANDONED = timedelta(hours=1)
"""A batch that has not been accepted for so long belonged to a process that died."""

LEAST = 2
"""Chunks that every batch may have under way, however many others there are."""

chunk = batch_chunks.c

UNDER_WAY = chunk.state.in_(("queued", "leased")) & ~chunk.set_aside


class Queueing(Erasure):
    """Gives out jobs. Safe in every process at once: a batch's row is locked while its chunks are chosen."""

    async def next_jobs(self, batch_id: str, window: int) -> list[Job]:
        async with change(self._engine) as connection:
            return await self._next_jobs(connection, batch_id, window)

    async def _next_jobs(self, connection: AsyncConnection, batch_id: str, window: int) -> list[Job]:
        found = (await lock_batches(connection, [batch_id])).get(batch_id)
        if found is None or not found.account.is_active:
            return []
        share = share_of(window, await count_active(connection))
        return await queue_waiting(connection, batch_id, share, self._clock())

    async def unhold(self, batch_id: str) -> list[Job]:
        mine = update(batch_chunks).where(chunk.batch_id == batch_id)
        async with change(self._engine) as connection:
            if batch_id not in await lock_batches(connection, [batch_id]):
                return []
            collected = mine.where(chunk.number == COLLECT, chunk.state != "done").values(state="done", queued_at=None)
            if (await connection.execute(collected)).rowcount == 0:
                return []
            await connection.execute(mine.where(chunk.number >= 0, chunk.state == "blocked").values(state="waiting"))
            return await self._next_jobs(connection, batch_id, self._window)

    async def sweep(self, window: int, patience_seconds: float) -> list[Job]:
        now = self._clock()
        overdue = overdue_at(now, now - timedelta(seconds=patience_seconds))
        await self.tidy()
        due, abandoned, share = await self._find_due(window, overdue, now)
        if not due and not abandoned:
            return []
        async with change(self._engine) as connection:
            if abandoned:
                await connection.execute(delete(batches).where(batches.c.status == RECEIVING, begun_before(now)))
            locked = await lock_batches(connection, due)
            jobs: list[Job] = []
            for each in locked.values():
                if each.account.is_active:
                    jobs += await queue_overdue(connection, each.id, overdue, now)
                    jobs += await queue_waiting(connection, each.id, share, now, with_end=True)
        if abandoned:
            self.remember()
        return jobs

    async def _find_due(
        self, window: int, overdue: ColumnElement[bool], now: datetime
    ) -> tuple[Sequence[str], bool, int]:
        """Active batches with a job to give out, whether a batch was abandoned, and each batch's share. Locks nothing:
        mostly there is nothing to do."""
        status = batches.c.status
        open_ones = or_(status.in_(ACTIVE), and_(status == RECEIVING, begun_before(now)))
        async with read(self._engine) as connection:
            rows = (await connection.execute(select(batches.c.id, status).where(open_ones))).all()
            active = [row.id for row in rows if row.status != RECEIVING]
            share = share_of(window, len(active))
            mine = chunk.batch_id == batches.c.id
            under_way = select(func.count()).where(mine, UNDER_WAY).scalar_subquery()
            has_room = and_(exists().where(mine, chunk.state == "waiting"), under_way < share)
            query = select(batches.c.id).where(status.in_(ACTIVE), or_(has_room, exists().where(mine, overdue)))
            due = (await connection.execute(query)).scalars().all() if active else []
        return due, len(active) < len(rows), share


def share_of(window: int, active: int) -> int:
    """How many chunks one of `active` batches may have queued or leased, so that a small one is soon served."""
    return max(LEAST, math.ceil(window / max(1, active)))


async def count_active(connection: AsyncConnection) -> int:
    """Batches that are worked on."""
    query = select(func.count()).select_from(batches).where(batches.c.status.in_(ACTIVE))
    return (await connection.execute(query)).scalar_one()


def begun_before(now: datetime) -> ColumnElement[bool]:
    """Batches that were begun too long ago to be received still."""
    return batches.c.created_at < now - ABANDONED


def overdue_at(now: datetime, told_before: datetime) -> ColumnElement[bool]:
    """Chunks whose lease has run out, or that the queue lost: told before that time, and nobody came."""
    told_long_ago = chunk.queued_at < told_before
    run_out = and_(chunk.state == "leased", chunk.lease_until < now, or_(chunk.queued_at.is_(None), told_long_ago))
    # The states first and alone: by them each database finds the few in its index, whatever a batch has besides.
    under_way = chunk.state.in_(("queued", "leased"))
    return and_(under_way, or_(and_(chunk.state == "queued", told_long_ago), run_out))


async def queue_overdue(
    connection: AsyncConnection, batch_id: str, overdue: ColumnElement[bool], now: datetime
) -> list[Job]:
    """Marks overdue chunks as queued now. The owner of a lease that ran out stays: who claims it counts a crash."""
    # skip_locked: one whose lease is being renewed is not overdue.
    query = select(chunk.number).where(chunk.batch_id == batch_id, overdue).order_by(chunk.number)
    numbers = (await connection.execute(query.with_for_update(skip_locked=True))).scalars().all()
    return await tell(connection, batch_id, numbers, {"queued_at": now})


async def queue_waiting(
    connection: AsyncConnection, batch_id: str, share: int, now: datetime, *, with_end: bool = False
) -> list[Job]:
    """Marks the next chunks as queued, so that at most `share` are queued or leased. The caller has locked the batch.

    `with_end`: work on the batch as a whole too. Only a sweep gives that out again, so that an end which fails is not
    tried without a pause.
    """
    mine = chunk.batch_id == batch_id
    under_way = select(func.count()).where(mine, UNDER_WAY)
    room = share - (await connection.execute(under_way)).scalar_one()
    if room <= 0:
        return []
    waiting = select(chunk.number).where(mine, chunk.state == "waiting", chunk.number >= (COLLECT if with_end else 0))
    numbers = (await connection.execute(waiting.order_by(chunk.number).limit(room))).scalars().all()
    return await tell(connection, batch_id, numbers, {"state": "queued", "queued_at": now})


async def tell(
    connection: AsyncConnection, batch_id: str, numbers: Sequence[int], marks: dict[str, object]
) -> list[Job]:
    """The jobs of these chunks, with the marks set."""
    if numbers:
        mine = update(batch_chunks).where(chunk.batch_id == batch_id, chunk.number.in_(numbers))
        await connection.execute(mine.values(marks))
    return [Job(batch_id, number) for number in numbers]

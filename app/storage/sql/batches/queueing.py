"""Chooses the chunks to be put on the job queue, and marks them as queued, so that each is queued once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.work import COLLECT, ChunkJob
from app.storage.sql.batches.account import lock_batches
from app.storage.sql.batches.rows import ACTIVE, RECEIVING
from app.storage.sql.tables import batch_chunks, batches

ABANDONED = timedelta(hours=1)
"""A batch that has not been accepted for this long belonged to a process that died."""

LEAST = 2
"""Chunks that every batch may have under way, however many others there are."""

chunk = batch_chunks.c

UNDER_WAY = chunk.state.in_(("queued", "leased")) & ~chunk.set_aside


@dataclass(frozen=True)
class Due:
    """What a sweep has to do: `batches` with a job to be queued, and whether a batch was `abandoned` before it was
    accepted. `share` is how many chunks each batch may have queued or leased."""

    batches: Sequence[str]
    abandoned: bool
    share: int


async def find_due(connection: AsyncConnection, window: int, overdue: ColumnElement[bool], now: datetime) -> Due:
    """Finds what a sweep has to do, without locks: usually there is nothing to do."""
    status = batches.c.status
    open_ones = or_(status.in_(ACTIVE), and_(status == RECEIVING, begun_before(now)))
    rows = (await connection.execute(select(batches.c.id, status).where(open_ones))).all()
    active = [row.id for row in rows if row.status != RECEIVING]
    share = share_of(window, len(active))
    mine = chunk.batch_id == batches.c.id
    under_way = select(func.count()).where(mine, UNDER_WAY).scalar_subquery()
    has_room = and_(exists().where(mine, chunk.state == "waiting"), under_way < share)
    query = select(batches.c.id).where(status.in_(ACTIVE), or_(has_room, exists().where(mine, overdue)))
    due = (await connection.execute(query)).scalars().all() if active else []
    return Due(due, len(active) < len(rows), share)


async def queue_due(
    connection: AsyncConnection, due: Due, overdue: ColumnElement[bool], now: datetime
) -> list[ChunkJob]:
    """Discards abandoned batches, and marks the chunks that are due as queued."""
    if due.abandoned:
        await connection.execute(delete(batches).where(batches.c.status == RECEIVING, begun_before(now)))
    jobs: list[ChunkJob] = []
    for each in (await lock_batches(connection, due.batches)).values():
        if each.account.is_active:
            jobs += await queue_overdue(connection, each.id, overdue, now)
            jobs += await queue_waiting(connection, each.id, due.share, now, with_end=True)
    return jobs


async def queue_next(connection: AsyncConnection, batch_id: str, window: int, now: datetime) -> list[ChunkJob]:
    """Marks the batch's next chunks as queued, up to its share of the window."""
    found = (await lock_batches(connection, [batch_id])).get(batch_id)
    if found is None or not found.account.is_active:
        return []
    return await queue_waiting(connection, batch_id, share_of(window, await count_active(connection)), now)


async def queue_after(connection: AsyncConnection, ids: Sequence[str], window: int, now: datetime) -> list[ChunkJob]:
    """Marks the next chunks as queued of batches with closed chunks. The caller has locked the batches."""
    if not ids:
        return []
    share = share_of(window, await count_active(connection))
    return [job for batch_id in ids for job in await queue_waiting(connection, batch_id, share, now)]


def share_of(window: int, active: int) -> int:
    """How many chunks each of `active` batches may have queued or leased, so that a small one is served soon."""
    return max(LEAST, math.ceil(window / max(1, active)))


async def count_active(connection: AsyncConnection) -> int:
    """The number of active batches."""
    query = select(func.count()).select_from(batches).where(batches.c.status.in_(ACTIVE))
    return (await connection.execute(query)).scalar_one()


def begun_before(now: datetime) -> ColumnElement[bool]:
    """Batches that were begun too long ago to be still coming in."""
    return batches.c.created_at < now - ABANDONED


def overdue_at(now: datetime, queued_before: datetime) -> ColumnElement[bool]:
    """Chunks whose lease has run out, or that the queue has lost: queued before that time and never claimed."""
    queued_long_ago = chunk.queued_at < queued_before
    run_out = and_(chunk.state == "leased", chunk.lease_until < now, or_(chunk.queued_at.is_(None), queued_long_ago))
    # The states stand first and alone, so that each database finds the few chunks by its index.
    under_way = chunk.state.in_(("queued", "leased"))
    return and_(under_way, or_(and_(chunk.state == "queued", queued_long_ago), run_out))


async def queue_overdue(
    connection: AsyncConnection, batch_id: str, overdue: ColumnElement[bool], now: datetime
) -> list[ChunkJob]:
    """Marks overdue chunks as queued now. Keeps the owner of a lease that ran out, so that the next claim counts a
    crash."""
    # skip_locked: a chunk whose lease is being renewed is not overdue.
    query = select(chunk.number).where(chunk.batch_id == batch_id, overdue).order_by(chunk.number)
    numbers = (await connection.execute(query.with_for_update(skip_locked=True))).scalars().all()
    return await mark_chunks(connection, batch_id, numbers, {"queued_at": now})


async def queue_waiting(
    connection: AsyncConnection, batch_id: str, share: int, now: datetime, *, with_end: bool = False
) -> list[ChunkJob]:
    """Marks the next chunks as queued, so that at most `share` are queued or leased. The caller has locked the batch.

    `with_end` includes work on the whole batch. Only a sweep queues that again, so that a failing end is not retried
    without a pause.
    """
    mine = chunk.batch_id == batch_id
    under_way = select(func.count()).where(mine, UNDER_WAY)
    room = share - (await connection.execute(under_way)).scalar_one()
    if room <= 0:
        return []
    waiting = select(chunk.number).where(mine, chunk.state == "waiting", chunk.number >= (COLLECT if with_end else 0))
    numbers = (await connection.execute(waiting.order_by(chunk.number).limit(room))).scalars().all()
    return await mark_chunks(connection, batch_id, numbers, {"state": "queued", "queued_at": now})


async def mark_chunks(
    connection: AsyncConnection, batch_id: str, numbers: Sequence[int], marks: dict[str, object]
) -> list[ChunkJob]:
    """Sets the marks of these chunks, and returns their jobs."""
    if numbers:
        mine = update(batch_chunks).where(chunk.batch_id == batch_id, chunk.number.in_(numbers))
        await connection.execute(mine.values(marks))
    return [ChunkJob(batch_id, number) for number in numbers]

"""The end of batches whose running time is over: what is missing fails, in the order of the chunks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked, lock_batches, log_completed, store_accounts
from app.adapters.sql.batches.closing import close_chunks
from app.adapters.sql.batches.commits import enter, keep, settle_figures
from app.adapters.sql.batches.leases import select_todo
from app.adapters.sql.batches.part import StorePart, whole_seconds
from app.adapters.sql.batches.reservations import spend_lost
from app.adapters.sql.batches.results import read_placed
from app.adapters.sql.batches.rows import score_result
from app.adapters.sql.engine import change, read
from app.adapters.sql.tables import batch_chunks, batches
from app.batch_ports import COLLECT, Finished, Job
from app.domain.batch import EXPIRED

logger = logging.getLogger("saiten.batches")

CHUNKS_AT_ONCE = 10
"""Chunks of one transaction, some 400 results: others are to commit in between."""

chunk = batch_chunks.c


class Deadlines(StorePart):
    """Ends batches. Safe in every process at once: a batch's row is locked while its chunks are closed."""

    async def expire(self) -> list[Job]:
        now, jobs = self._clock(), list[Job]()
        over = or_(batches.c.expires_at.is_(None), batches.c.expires_at <= now)
        query = select(batches.c.id).where(batches.c.status == "running", over)
        async with read(self._engine) as connection:
            due = (await connection.execute(query)).scalars().all()
        for batch_id in due:
            while await self._expire_some(batch_id, now, jobs):
                pass
        return jobs

    async def _expire_some(self, batch_id: str, now: datetime, jobs: list[Job]) -> bool:
        """Ends some chunks of the batch; whether to go on. `jobs` grows by those that follow."""
        async with change(self._engine) as connection:
            batch = (await lock_batches(connection, [batch_id])).get(batch_id)
            if batch is None or batch.account.status != "running":
                return False
            if batch.account.expires_at is None:
                # It was started by a process that knew of no deadlines.
                batch.account.run_out(now, whole_seconds(batch.row))
            if batch.account.expires_at is not None and now < batch.account.expires_at:
                await store_accounts(connection, [batch])
                return False
            ended = await end_chunks(connection, batch, now)
            jobs += await close_chunks(connection, {batch_id: batch}, dict.fromkeys(ended, True), now)
            await store_accounts(connection, [batch])
        log_completed([batch])
        if ended:
            logger.warning("the deadline of a batch has come", extra={"batch_id": batch_id, "code": EXPIRED.code})
        return bool(ended)


async def end_chunks(connection: AsyncConnection, batch: Locked, now: datetime) -> Sequence[Job]:
    """Fails what is missing in some chunks of the batch, which the caller closes."""
    mine = chunk.batch_id == batch.id
    left = select(batch_chunks).where(mine, chunk.number >= 0, chunk.state != "done").order_by(chunk.number)
    # skip_locked: one that is being committed to comes later.
    rows = (await connection.execute(left.limit(CHUNKS_AT_ONCE).with_for_update(skip_locked=True))).all()
    failed: list[Finished] = []
    for row in rows:
        todo = await select_todo(connection, batch.id, row)
        job = Job(batch.id, row.number)
        failed += [Finished(job, read_placed(item)[0], None, EXPIRED) for item in todo]
        await spend_lost(connection, batch, row.begun, now)
    new = [(each, score_result(each)) for each in failed]
    locked = {batch.id: batch}
    added = await keep(connection, locked, new, now)
    await enter(connection, locked, new)
    await settle_figures(connection, locked, added)
    collecting = update(batch_chunks).where(mine, chunk.number == COLLECT)
    await connection.execute(collecting.values(state="done", queued_at=None))
    return [Job(batch.id, row.number) for row in rows]

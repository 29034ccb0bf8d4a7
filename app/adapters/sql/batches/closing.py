"""Closing chunks: done where every candidate has a result, and what the last of a batch sets off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked
from app.adapters.sql.tables import batch_chunks
from app.batch_ports import COLLECT, FINISH, Job

chunk = batch_chunks.c
RELEASED = {"owner": None, "lease_until": None, "queued_at": None, "reserved_usd": 0.0, "begun": 0, "set_aside": False}
CLOSE = (
    update(batch_chunks)
    .where(chunk.batch_id == bindparam("this"), chunk.number == bindparam("job"))
    .values(state=bindparam("state"), **RELEASED)
)
END = update(batch_chunks).where(chunk.number == FINISH, chunk.state == "blocked")


async def close_chunks(
    connection: AsyncConnection, locked: Mapping[str, Locked], closed: Mapping[Job, bool], now: datetime
) -> list[Job]:
    """Closes the chunks, which the caller holds: those with True are done. Counts them in the batches' accounts, ends
    batches whose last chunk it was, and returns the ends that are to be made."""
    rows = [
        {"this": job.batch, "job": job.chunk, "state": "done" if done else "waiting"} for job, done in closed.items()
    ]
    if rows:
        await connection.execute(CLOSE, rows)
    for job, done in closed.items():
        if done and job.chunk >= 0:
            locked[job.batch].account.chunks_left -= 1
    # Not a step of the provider's mode: its close may come after the last chunk's, which has freed the end.
    steps = [job for job, done in closed.items() if done and job.chunk != COLLECT]
    ended = {job.batch for job in steps if locked[job.batch].account.chunks_left == 0}
    return await end_batches(connection, [locked[batch_id] for batch_id in sorted(ended)], now)


async def end_batches(connection: AsyncConnection, batches: Collection[Locked], now: datetime) -> list[Job]:
    """Completes batches without chunks left, or frees the chunk that stands for their end: then it is to be queued."""
    ready = []
    for each in batches:
        is_active = each.account.is_active
        # One that is paused keeps its end until it is resumed; a sweep finds it then.
        freed = {"state": "queued", "queued_at": now} if is_active else {"state": "waiting", "queued_at": None}
        if (await connection.execute(END.where(chunk.batch_id == each.id).values(freed))).rowcount == 0:
            each.account.complete(now)
        elif is_active:
            ready.append(Job(each.id, FINISH))
    return ready

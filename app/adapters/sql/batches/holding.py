"""Who holds which chunks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.part import ACTIVE
from app.adapters.sql.tables import batch_chunks, batches
from app.batch_ports import Job

chunk = batch_chunks.c


@dataclass(frozen=True)
class Span:
    """The candidates of a held chunk, both ends included."""

    first: int
    last: int
    state: str

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def holds(self, batch_id: str, places: Collection[tuple[str, int]]) -> bool:
        """Whether any of the places, of several batches, is one of this chunk of the batch."""
        return any(owner == batch_id and self.first <= position <= self.last for owner, position in places)


def hold_condition(jobs: Iterable[Job]) -> ColumnElement[bool]:
    """Finds the jobs' chunks; each database reaches them by the primary key."""
    numbers: dict[str, list[int]] = {}
    for job in jobs:
        numbers.setdefault(job.batch, []).append(job.chunk)
    return or_(*((chunk.batch_id == batch_id) & chunk.number.in_(found) for batch_id, found in numbers.items()))


async def find_held(connection: AsyncConnection, owner: str, jobs: Iterable[Job]) -> dict[Job, Span]:
    """Those of the jobs whose chunk is the owner's, locked in one order for all, so that none waits in a circle."""
    query = select(chunk.batch_id, chunk.number, chunk.first, chunk.last, chunk.state)
    mine = query.where(hold_condition(jobs), chunk.owner == owner).order_by(chunk.batch_id, chunk.number)
    rows = await connection.execute(mine.with_for_update())
    return {Job(row.batch_id, row.number): Span(row.first, row.last, row.state) for row in rows}


async def stopped_among(connection: AsyncConnection, held: Mapping[Job, Span]) -> frozenset[Job]:
    """Those of the jobs whose batch is not to be worked on now."""
    query = select(batches.c.id).where(batches.c.id.in_({job.batch for job in held}), batches.c.status.not_in(ACTIVE))
    stopped = set((await connection.execute(query)).scalars())
    return frozenset(job for job in held if job.batch in stopped)

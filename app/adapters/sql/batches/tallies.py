"""What the results of batches amount to, as it was added up while they came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import exists, select, update

from app.adapters.sql.batches.part import RECEIVING, StorePart
from app.adapters.sql.engine import read, write
from app.adapters.sql.tables import batch_chunks, batches, can_hold
from app.domain.tally import Tally
from app.tally import pack, unpack

ENDED = ("completed", "cancelled")


class Tallies(StorePart):
    """Reads figures of whole batches, and takes those in that somebody had to add up."""

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        if not ids or not can_hold(project, *ids):
            return {}
        table = batches.c
        query = select(table.id, table.tally).where(
            table.id.in_(ids), table.project == project, table.status != RECEIVING
        )
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        return {row.id: None if row.tally is None else unpack(row.tally) for row in rows}

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        if not can_hold(project, batch_id):
            return
        table, chunk = batches.c, batch_chunks.c
        # Whoever holds a chunk of a cancelled batch may still commit to it or rewrite its results.
        held = exists().where(chunk.batch_id == table.id, chunk.state == "leased")
        unchanged = table.scored + table.partial + table.failed + table.expired == tally.results
        unknown = update(batches).where(
            table.id == batch_id, table.project == project, table.tally.is_(None), table.status.in_(ENDED)
        )
        async with write(self._engine) as connection:
            await connection.execute(unknown.where(unchanged, ~held).values(tally=pack(tally)))

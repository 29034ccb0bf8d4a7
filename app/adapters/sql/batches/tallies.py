"""What the results of batches amount to, as it was added up while they came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, exists, select, update

from app.adapters.sql.batches.figures import VALUES, read_measures
from app.adapters.sql.batches.part import RECEIVING, StorePart
from app.adapters.sql.engine import read, write
from app.adapters.sql.tables import batch_chunks, batches, can_hold, result_figures
from app.batch_ports import ValuesPage
from app.domain.summary import Intervals
from app.domain.tally import Tally
from app.tally import pack, unpack

ENDED = ("completed", "cancelled")
figure = result_figures.c


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
        settled = has_settled(project, batch_id, tally.results)
        unknown = update(batches).where(*settled, batches.c.tally.is_(None))
        async with write(self._engine) as connection:
            await connection.execute(unknown.values(tally=pack(tally)))

    async def values(self, project: str, batch_id: str, *, after: int, limit: int) -> ValuesPage:
        if not can_hold(project, batch_id):
            return ValuesPage((), [])
        table = batches.c
        mine = (table.id == batch_id) & (table.project == project) & (table.status != RECEIVING)
        async with read(self._engine) as connection:
            names = read_measures((await connection.execute(select(table.measures).where(mine))).scalar_one_or_none())
            columns = (figure[name] for name in VALUES[: len(names)])
            query = select(figure.position, figure.cluster, *columns).join(batches, table.id == figure.batch_id)
            page = query.where(mine, figure.position > after).order_by(figure.position).limit(limit)
            return ValuesPage(names, [tuple(row) for row in await connection.execute(page)])

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        if not ids or not can_hold(project, *ids):
            return {}
        table = batches.c
        query = select(table.id, table.intervals).where(
            table.id.in_(ids), table.project == project, table.intervals.is_not(None)
        )
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        return {row.id: Intervals.model_validate_json(row.intervals) for row in rows}

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        if not can_hold(project, batch_id):
            return
        unknown = update(batches).where(*has_settled(project, batch_id, intervals.results))
        async with write(self._engine) as connection:
            await connection.execute(unknown.values(intervals=intervals.model_dump_json()))


def has_settled(project: str, batch_id: str, results: int) -> tuple[ColumnElement[bool], ...]:
    """What holds of a batch that has ended with so many results, to which nobody may commit any more."""
    table, chunk = batches.c, batch_chunks.c
    # Whoever holds a chunk of a cancelled batch may still commit to it or rewrite its results.
    held = exists().where(chunk.batch_id == table.id, chunk.state == "leased")
    unchanged = table.scored + table.partial + table.failed + table.expired == results
    return table.id == batch_id, table.project == project, table.status.in_(ENDED), unchanged, ~held

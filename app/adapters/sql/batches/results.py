"""A batch's results and candidates, in pages by position."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from app.adapters.sql.batches.part import RECEIVING, StorePart
from app.adapters.sql.batches.texts import read_candidate, read_failure, read_record
from app.adapters.sql.engine import read
from app.adapters.sql.tables import batch_items, batches, can_hold, evaluations
from app.batch_ports import Scored
from app.domain.batch import Candidate, Entry, ItemResult
from app.scores import unpack

UNPACKED = 100
"""Scores read at a stretch, in a millisecond or two: whoever reads a whole batch keeps nobody else waiting."""


PLACE = ("position", "item", "candidate", "dialogue", "cluster")
"""Columns of a result that say where in its batch it stands."""


RATED = ("scored", "partial")
"""Statuses of a result that the judge gave."""


class Results(StorePart):
    """Reads results; changes nothing."""

    async def results(self, project: str, batch_id: str, *, after: int, limit: int) -> list[ItemResult]:
        columns = (*PLACE, "record", "failure")
        return [read_result(row) for row in await self._page(columns, project, batch_id, after, limit)]

    async def scores(self, project: str, batch_id: str, *, after: int, limit: int) -> list[Scored]:
        columns = ("id", *PLACE, "scores")
        rows = await self._page(columns, project, batch_id, after, limit)
        found: list[Scored] = []
        for start in range(0, len(rows), UNPACKED):
            found += [Scored(read_entry(row), row.id, unpack(row.scores)) for row in rows[start : start + UNPACKED]]
            await asyncio.sleep(0)
        return found

    async def _page(
        self, columns: Sequence[str], project: str, batch_id: str, after: int, limit: int
    ) -> Sequence[Row[Any]]:
        if not can_hold(project, batch_id):
            return []
        table = evaluations.c
        mine: ColumnElement[bool] = (table.batch_id == batch_id) & (table.project == project)
        query = select(*(table[name] for name in columns)).where(mine, table.position > after)
        async with read(self._engine) as connection:
            return (await connection.execute(query.order_by(table.position).limit(limit))).all()

    async def candidates(self, batch_id: str, *, after: int, limit: int) -> list[tuple[Entry, Candidate]]:
        if not can_hold(batch_id):
            return []
        table = batch_items.c
        query = (
            select(table.position, table.item, table.candidate, table.cluster, table.request)
            .join(batches, batches.c.id == table.batch_id)
            .where(table.batch_id == batch_id, table.position > after, batches.c.status != RECEIVING)
        )
        async with read(self._engine) as connection:
            rows = await connection.execute(query.order_by(table.position).limit(limit))
            return [read_placed(row) for row in rows]

    async def find_scored(self, batch_id: str) -> Candidate | None:
        if not can_hold(batch_id):
            return None
        table, result = batch_items.c, evaluations.c
        query = (
            select(table.request)
            .join(batches, batches.c.id == table.batch_id)
            .join(evaluations, (result.batch_id == table.batch_id) & (result.position == table.position))
            .where(table.batch_id == batch_id, batches.c.texts.is_(None), result.status.in_(RATED))
        )
        async with read(self._engine) as connection:
            row = (await connection.execute(query.limit(1))).one_or_none()
        return None if row is None else read_candidate(row.request)


def read_entry(row: Any) -> Entry:
    """The place that a row of a result tells."""
    return Entry(**{name: getattr(row, name) for name in PLACE})


def read_placed(row: Any) -> tuple[Entry, Candidate]:
    """A candidate of a batch with its place."""
    candidate = read_candidate(row.request)
    entry = Entry(
        position=row.position,
        item=row.item,
        candidate=row.candidate,
        dialogue=candidate.dialogue,
        cluster=row.cluster,
    )
    return entry, candidate


def read_result(row: Row[Any]) -> ItemResult:
    """The result of a row: an evaluation, or the failure in its place."""
    failure = read_failure(row.failure)
    evaluation = read_record(row.record).evaluation if failure is None else None
    return ItemResult.model_construct(entry=read_entry(row), evaluation=evaluation, failure=failure)

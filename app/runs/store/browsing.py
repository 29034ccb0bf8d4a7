"""Sorted and filtered pages of a batch's results: positions are found in narrow rows, and only a page is read whole."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isinf
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Float,
    Integer,
    Select,
    any_,
    bindparam,
    false,
    func,
    null,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import fetch, read
from saiten_server.platform.sql.tables import can_store, equals
from saiten_server.runs.result import ANY_ASPECT, Result, ResultQuery
from saiten_server.runs.store.rows import (
    RECEIVING,
    Measures,
    enclose,
    name_columns,
    of_batch,
    read_full_result,
    read_measures,
    select_results,
)
from saiten_server.runs.store.search import TextSearch
from saiten_server.runs.summary import SYSTEM, AspectTally, Tally, unpack_tally

if TYPE_CHECKING:
    from saiten_server.runs.frame import Places

SORTED = 10_000
"""The number of results that a database sorts in a few milliseconds for each page."""

UNDONE = ("waiting", "queued", "leased", "blocked")
"""States of a chunk that may have candidates without a result."""


figure = t.result_figures.c
result, item = t.evaluations.c, t.batch_items.c


@dataclass(frozen=True)
class Browsable:
    """A batch of the project, the columns that its measures stand in, by their names too, and how many results its
    candidates have. `tally` is what they amount to, packed, and None where that is not known."""

    id: str
    measures: Measures
    columns: Mapping[str, str]
    total: int
    candidates: int
    tally: str | None


class ResultBrowser:
    """Pages of the results of one batch; empty if the project has no such batch. Raises the `Store…` errors. The
    database sorts up to `most_sorted` results for a page. A page of more results is found without sorting if the
    batch's figures allow it."""

    def __init__(self, engine: AsyncEngine, *, most_sorted: int = SORTED) -> None:
        self._engine = engine
        self._most_sorted = most_sorted
        self._texts = TextSearch(engine)

    async def find(
        self, project: str, batch_id: str, query: ResultQuery, *, offset: int, limit: int
    ) -> tuple[int, Sequence[int]]:
        """The number of matching results, and the positions of those from number `offset` on, in order."""
        asked = (query.unrated, query.warning, query.status, query.text, *(query.metadata or ()))
        if not can_store(*(text for text in asked if text is not None)):
            return 0, ()
        left, wanted = await self._search(project, batch_id, query), (offset, offset + limit)
        async with read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
            if batch is None or (left is not None and not len(left)):
                return 0, ()
            if left is None:
                placed = await self._look_up(connection, batch, query, wanted)
                return placed or await find_positions(connection, batch, query, wanted)
            # A search that leaves all of them leaves no work.
            named = left.tolist() if len(left) < batch.candidates else None
            if query.ranked is None:
                return await find_positions(connection, batch, query, wanted, named)
            _, found = await find_positions(connection, batch, query, (0, len(left)), named)
        there = {*found}
        ranked = [position for position in query.ranked if position in there]
        return len(ranked), ranked[offset : offset + limit]

    async def _search(self, project: str, batch_id: str, query: ResultQuery) -> Places | None:
        """The positions that searches of texts and metadata leave, in order; None without a search."""
        entry = None if query.metadata is None or query.metadata[0] == SYSTEM else query.metadata
        if query.ranked is None and not query.text and entry is None:
            return None
        import numpy as np

        found: list[Places] = []
        if query.ranked is not None:
            found.append(np.array(sorted(query.ranked), dtype=np.int32))
        if query.text:
            found.append(await self._texts.find(project, batch_id, query.text))
        if entry is not None:
            found.append(await self._texts.find_entry(project, batch_id, *entry))
        return functools.reduce(np.intersect1d, found)

    async def _look_up(
        self, connection: AsyncConnection, batch: Browsable, query: ResultQuery, wanted: tuple[int, int]
    ) -> tuple[int, list[int]] | None:
        """Like `find_positions` for all results, but without sorting them; None if that is not possible."""
        every = ResultQuery(sort=query.sort, descending=query.descending, target=query.target)
        if query != every or batch.total <= self._most_sorted:
            return None
        numbers = range(wanted[0], min(wanted[1], batch.total))
        if query.sort is None:
            # As far as each candidate has a result, the number of one is its position.
            last = batch.total - 1
            places = [last - number if query.descending else number for number in numbers]
            return (batch.total, places) if max(places, default=-1) < await count_leading(connection, batch) else None
        column = figure.get(batch.columns.get(query.sort, ""))
        runs = None if batch.tally is None or column is None else list_runs(unpack_tally(batch.tally), query)
        if runs is None or column is None:
            return None
        found = await cut_runs(connection, batch.id, column, runs, numbers)
        # Fewer where some were erased between the two looks.
        return (batch.total, found) if len(found) == len(numbers) else None

    async def read(self, project: str, batch_id: str, positions: Sequence[int]) -> Mapping[int, Result]:
        """The results at these positions that are there, whole, by position and in the order given."""
        if not positions:
            return {}
        query = (
            select_results(item.request)
            .join(t.batch_items, (item.batch_id == result.batch_id) & (item.position == result.position))
            .where(result.position.in_(positions))
        )
        rows = {row.position: row for row in await fetch(self._engine, of_batch(query, project, batch_id))}
        # Each takes some tenths of a millisecond, and one of a long conversation more: in a thread, beside the loop.
        return await asyncio.to_thread(lambda: {at: read_full_result(rows[at]) for at in positions if at in rows})

    async def measures(self, project: str, batch_id: str) -> tuple[str, ...]:
        """The measures by which the batch's results can be sorted."""
        async with read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
        return tuple(batch.columns) if batch is not None else ()

    async def count_patterns(
        self, project: str, batch_id: str, measures: Sequence[str], *, most: int
    ) -> Sequence[tuple[tuple[float | None, ...], int, float | None]] | None:
        """How many results have each combination of values of these measures, and what these weigh by the inverse of
        the probabilities with which they were sampled, None where all weigh the same. None where there are more than
        `most` combinations."""
        async with read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
            if batch is None:
                return []
            known = [batch.columns[name] for name in measures if name in batch.columns]
            columns = [figure[name] for name in known]
            drawn = func.coalesce(figure.probability, 1.0)
            told = func.count(), func.sum(1.0 / drawn), func.min(drawn), func.max(drawn)
            query = select(*told, *columns).where(figure.batch_id == batch_id).group_by(*columns)
            rows = (await connection.execute(query.limit(most + 1))).all()
        if len(rows) > most:
            return None
        held = [row for row in rows if row[0]]
        # A failure has no value, and was sampled like anything else.
        alike = len({end for row in held if any(one is not None for one in row[4:]) for end in row[2:4]}) < 2
        return [
            (tuple(values.get(batch.columns.get(name, "")) for name in measures), row[0], None if alike else row[1])
            for row in held
            for values in [dict(zip(known, row[4:], strict=True))]
        ]


async def find_batch(connection: AsyncConnection, project: str, batch_id: str) -> Browsable | None:
    """The batch if the project has it."""
    table = t.batches.c
    mine = equals(table.id, batch_id) & equals(table.project, project) & (table.status != RECEIVING)
    results = table.scored + table.partial + table.failed + table.expired
    query = select(table.measures, table.tally, table.total, results.label("results")).where(mine)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    measures = read_measures(row.measures)
    return Browsable(batch_id, measures, name_columns(measures), row.results, row.total, row.tally)


async def count_leading(connection: AsyncConnection, batch: Browsable) -> int:
    """How many candidates stand before the first unfinished chunk: all of them have a result."""
    if batch.total == batch.candidates:
        return batch.total
    # State by state: the first of each is found in the index.
    chunk = t.batch_chunks.c
    mine = select(chunk.first).where(chunk.batch_id == batch.id, chunk.number >= 0).order_by(chunk.number).limit(1)
    firsts = [mine.where(chunk.state == state).scalar_subquery() for state in UNDONE]
    found = (await connection.execute(select(*firsts))).one()
    return min((first for first in found if first is not None), default=0)


async def find_positions(
    connection: AsyncConnection,
    batch: Browsable,
    query: ResultQuery,
    wanted: tuple[int, int],
    named: Sequence[int] | None = None,
) -> tuple[int, list[int]]:
    """The number of matching results, and the positions of those from one number to before another; only of those
    `named`, where some are."""
    first, last = wanted
    conditions = result_conditions(batch.columns, connection.dialect.name, query)
    conditions += [] if named is None else [is_among(connection.dialect.name, named)]
    key = sort_key(batch.columns, query).label("key")
    every = select(figure.position, key).where(figure.batch_id == batch.id)
    if not conditions:
        return batch.total, await cut_positions(connection, every, query, batch.total, wanted)
    # Counted and sorted in one statement, so that what the conditions leave is looked for once.
    fitting = every.where(*conditions).cte("fitting")
    counted = select(func.count().label("total")).select_from(fitting).subquery("counted")
    ordered = select(fitting.c.position, fitting.c.key).order_by(*order_of(fitting.c, query))
    page = ordered.offset(first).limit(last - first).subquery("page")
    both = select(counted.c.total, page.c.position).select_from(counted.outerjoin(page, true()))
    rows = (await connection.execute(both.order_by(*order_of(page.c, query)))).all()
    return rows[0].total, [row.position for row in rows if row.position is not None]


def is_among(dialect: str, positions: Sequence[int]) -> ColumnElement[bool]:
    """The condition that a result stands at one of these positions: one parameter, however many they are."""
    if dialect == "postgresql":
        return figure.position == any_(bindparam(None, positions, ARRAY(Integer)))
    listed = func.json_each(json.dumps(positions)).table_valued("value")
    return figure.position.in_(select(listed.c.value))


async def cut_positions(
    connection: AsyncConnection, every: Select[Any], query: ResultQuery, total: int, wanted: tuple[int, int]
) -> list[int]:
    """The positions of results from one number to before another, of all `total`. Those of the further half are counted
    from the end: a database sorts as many rows as it is to skip."""
    first, last = wanted
    backwards = first > total // 2
    if backwards:
        first, last = max(0, total - last), total - first
    if last <= first:
        return []
    source = every.subquery("every")
    ordered = select(source.c.position).order_by(*order_of(source.c, query, backwards=backwards))
    found = (await connection.execute(ordered.offset(first).limit(last - first))).scalars().all()
    return [*reversed(found)] if backwards else [*found]


def result_conditions(columns: Mapping[str, str], dialect: str, query: ResultQuery) -> list[ColumnElement[bool]]:
    """What the wanted results of a batch fulfil but for searches; nothing if all are wanted. `columns` are those of its
    measures, `dialect` is the database's name."""
    # Not LIKE, which is slower, knows wildcards, and on SQLite another case.
    find = func.strpos if dialect == "postgresql" else func.instr
    wanted: list[ColumnElement[bool]] = []
    for name, (least, most) in query.levels.items():
        column = figure.get(columns.get(name, ""))
        ends: list[ColumnElement[bool]] = [false()] if column is None else [column.is_not(None)]
        if column is not None and not isinf(least):
            ends.append(column >= least)
        if column is not None and not isinf(most):
            ends.append(column <= most)
        wanted += ends
    is_any = query.unrated == ANY_ASPECT
    if is_any:
        wanted.append(figure.unrated != enclose(()))
    named = ((figure.unrated, None if is_any else query.unrated), (figure.warnings, query.warning))
    wanted += [find(column, enclose((name,))) > 0 for column, name in named if name is not None]
    system = query.metadata[1] if query.metadata is not None and query.metadata[0] == SYSTEM else None
    exact = ((figure.status, query.status), (figure.system, system))
    return wanted + [column == value for column, value in exact if value is not None]


def sort_key(columns: Mapping[str, str], query: ResultQuery) -> ColumnElement[Any]:
    """The sort key: null for results without a value, and for all if there is no measure to sort by."""
    if query.by_spread:
        return figure.spread
    column = columns.get(query.sort or "")
    if column is None:
        return null().cast(Float(precision=53))
    return figure[column] if query.target is None else func.abs(figure[column] - query.target)


def order_of(
    found: ReadOnlyColumnCollection[str, Any], query: ResultQuery, *, backwards: bool = False
) -> list[ColumnElement[Any]]:
    """The order of rows with `key` and `position`, or exactly its reverse; without a measure, by position."""
    key, position = found["key"], found["position"]
    if query.sort is None and not query.by_spread:
        return [position.desc() if query.descending != backwards else position.asc()]
    by_key = key.desc() if query.descending != backwards else key.asc()
    if backwards:
        return [key.is_(None).desc(), by_key, position.desc()]
    return [key.is_(None), by_key, position.asc()]


@dataclass(frozen=True)
class LevelRun:
    """Results with equal sort keys: those with one of the values, or those without a value."""

    values: tuple[float, ...]
    count: int

    def fits(self, column: Column[float]) -> ColumnElement[bool]:
        """The condition that finds them in the measure's column."""
        return column.in_(self.values) if self.values else column.is_(None)


def list_runs(tally: Tally, query: ResultQuery) -> list[LevelRun] | None:
    """All results as the query sorts them; None where the figures do not tell. The values are the aspect's ratings,
    which they are only where each was made of one sample."""
    known = tally.aspects.get(query.sort or "")
    if known is None or not is_determined(known):
        return None
    by_key: dict[float, list[int]] = {}
    for level in sorted(level for level, count in known.levels.items() if count):
        by_key.setdefault(level if query.target is None else abs(level - query.target), []).append(level)
    ordered = sorted(by_key.items(), reverse=query.descending)
    runs = [LevelRun(tuple(map(float, levels)), sum(known.levels[level] for level in levels)) for _, levels in ordered]
    return [*runs, LevelRun((), tally.results - int(known.means.n))]


def is_determined(known: AspectTally) -> bool:
    """Whether every mean is a rating: as many, with the same mean and the same squared deviations."""
    n = known.levels.total()
    if n != known.means.n or not n:
        return False
    mean = sum(level * count for level, count in known.levels.items()) / n
    squares = sum(count * (level - mean) ** 2 for level, count in known.levels.items())
    return isclose(mean, known.means.mean, abs_tol=1e-9) and isclose(squares, known.means.squares, abs_tol=1e-6 * n)


async def cut_runs(
    connection: AsyncConnection, batch_id: str, column: Column[float], runs: Sequence[LevelRun], numbers: range
) -> list[int]:
    """The positions of the results with these numbers in all runs together. Each run is read from its nearer end."""
    found: list[int] = []
    begin = 0
    for run in runs:
        first, stop = max(numbers.start - begin, 0), min(numbers.stop - begin, run.count)
        if first < stop:
            backwards = first > run.count // 2
            query = select(figure.position).where(figure.batch_id == batch_id, run.fits(column))
            ordered = query.order_by(figure.position.desc() if backwards else figure.position)
            page = ordered.offset(run.count - stop if backwards else first).limit(stop - first)
            positions = (await connection.execute(page)).scalars().all()
            found += reversed(positions) if backwards else positions
        begin += run.count
    return found

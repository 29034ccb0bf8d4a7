"""How many bytes the rows of a project take, counted as they are written and removed.

A batch has the sum of its own in `batches.stored_bytes`, a dataset in `datasets.bytes`, a kept verdict in
`gates.bytes`: they go with the row. All else of a project, which is single evaluations, human ratings and preferences,
and kept answers, has one sum in `project_bytes`. A transaction changes that one last: who holds it
waits for no one else, so no two transactions can deadlock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Select, Table, delete, func, literal
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import fetch, insert_or_add

ROW_BYTES = 500
"""What a row of texts takes beside them: keys, figures and indexes. On SQLite it was 350 to 1,000."""

RESULT_BYTES = 4_000
"""What a result will take that is not there yet. One by a judge with short reasons takes that."""

DRAWN_BYTES = 100
"""What a response takes in a rating round."""

COPIES = 2
"""How often a candidate's texts are stored: as they were sent, and as they are searched."""

RESULT_TEXTS = ("record", "signature", "failure", "calls")


class octets(FunctionElement[int]):  # noqa: N801 (a function of SQL)
    """The length of a column in bytes of UTF-8."""

    type = BigInteger()
    inherit_cache = True


@compiles(octets)
def _in_postgres(element: Any, compiler: Any, **options: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"


@compiles(octets, "sqlite")
def _in_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


def sum_octets(*columns: Column[Any]) -> ColumnElement[int]:
    """The bytes of all these columns of a row, of which any may be null."""
    total: ColumnElement[int] = literal(0, BigInteger)
    for column in columns:
        total = total + (func.coalesce(octets(column), 0) if column.nullable else octets(column))
    return total


evaluation, rating, answer = t.evaluations.c, t.human_ratings.c, t.idempotency_keys.c
preference = t.human_preferences.c

RESULT_SIZE = sum_octets(*(evaluation[name] for name in RESULT_TEXTS)) + ROW_BYTES
"""The size of a row of `evaluations`."""

RATING_SIZE = sum_octets(rating["item"], rating.system, rating.rater, rating.ratings, rating.comment, rating.earlier)
RATING_SIZE = RATING_SIZE + ROW_BYTES
"""The size of a row of `human_ratings`."""

PREFERENCE_TEXTS = ("rater", "reason", "dialogue", "first_system", "second_system", "context", "first", "second")

PREFERENCE_SIZE = sum_octets(*(preference[name] for name in PREFERENCE_TEXTS)) + ROW_BYTES
"""The size of a row of `human_preferences`."""

# SQLite takes a `CASE` on a column that is null for null where a deleted row is returned.
ANSWER_SIZE = func.coalesce(octets(answer.body), 0)
"""The size of a row of `idempotency_keys`; 0 until it has an answer."""


MOST_PAGE_BYTES = 16_000_000
"""Of the rows of a page: they are held in memory several times while it is written."""

MEASURED_ROWS = 200
"""Rows that are measured at a time: SQLite reads them for it."""


async def fetch_page(
    engine: AsyncEngine, query: Select[Any], number: Column[int], size: ColumnElement[int], limit: int
) -> tuple[Sequence[Any], int | None]:
    """The first `limit` rows of the query in the order of `number`, or as many as have `MOST_PAGE_BYTES` together, and
    one at least; and the number behind which the next page begins, None on the last."""
    measured = query.with_only_columns(number, size).order_by(number)
    last, kept, held = -1, 0, 0
    more = True
    while more:
        sizes = await fetch(engine, measured.where(number > last).limit(min(MEASURED_ROWS, limit + 1 - kept)))
        for place, row_bytes in sizes:
            held += row_bytes
            if kept == limit or (kept and held > MOST_PAGE_BYTES):
                break
            last, kept = place, kept + 1
        else:
            more = len(sizes) == MEASURED_ROWS
            continue
        return await fetch(engine, query.where(number <= last).order_by(number)), last
    return await fetch(engine, query.where(number <= last).order_by(number)) if kept else [], None


def count_bytes(text: str | None) -> int:
    """The length in bytes of UTF-8; 0 of None."""
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def measure_candidate(request: str) -> int:
    """The size of a candidate with this row of `batch_items`, and what is searched of it."""
    return COPIES * count_bytes(request) + ROW_BYTES


def measure_result(row: Mapping[str, Any]) -> int:
    """The size of a new row of `evaluations`, as `RESULT_SIZE`."""
    return ROW_BYTES + sum(count_bytes(row.get(name)) for name in RESULT_TEXTS)


async def add_bytes(connection: AsyncConnection, added: Mapping[str, int]) -> None:
    """Adds to the projects' bytes in `project_bytes`; less than 0 where some were removed. It is to be the last
    statement of its transaction."""
    # In one order for all, which prevents deadlocks.
    rows = [{"project": project, "bytes": size} for project, size in sorted(added.items()) if size]
    if rows:
        await connection.execute(insert_or_add(connection, t.project_bytes, t.project_bytes.c.bytes), rows)


async def remove_sized(
    connection: AsyncConnection, table: Table, size: ColumnElement[int], *conditions: ColumnElement[bool]
) -> list[int]:
    """Removes the rows, and returns the size of each."""
    removed = await connection.execute(delete(table).where(*conditions).returning(size))
    return [*removed.scalars()]


def sum_up(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The sum of each name's numbers."""
    sums: dict[str, int] = {}
    for name, number in rows:
        sums[name] = sums.get(name, 0) + number
    return sums

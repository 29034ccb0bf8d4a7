"""Results by a measure that has few values: how many have each is known, so nothing needs to be sorted.

For one page of them a database sorts all results of a batch, which at a million takes seconds. Here it goes through
them in the batch's own order, and stops where the page is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

from sqlalchemy import Column, ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.tables import result_figures
from app.browse_ports import ResultQuery
from app.domain.tally import AspectTally, Tally

figure = result_figures.c


@dataclass(frozen=True)
class Run:
    """Results that no order tells apart but the batch's own: those with one of the values, or those without any."""

    values: tuple[float, ...]
    count: int

    def fits(self, column: Column[float]) -> ColumnElement[bool]:
        """Finds them in the measure's column."""
        return column.in_(self.values) if self.values else column.is_(None)


def list_runs(tally: Tally, query: ResultQuery) -> list[Run] | None:
    """All results as the query sorts them; None where the figures do not tell. The values are the aspect's ratings,
    which they are only where each was made of one sample."""
    known = tally.aspects.get(query.sort or "")
    if known is None or not is_told(known):
        return None
    by_key: dict[float, list[int]] = {}
    for level in sorted(level for level, count in known.levels.items() if count):
        by_key.setdefault(level if query.target is None else abs(level - query.target), []).append(level)
    ordered = sorted(by_key.items(), reverse=query.descending)
    runs = [Run(tuple(map(float, levels)), sum(known.levels[level] for level in levels)) for _, levels in ordered]
    return [*runs, Run((), tally.results - known.means.n)]


def is_told(known: AspectTally) -> bool:
    """Whether every mean is a rating: as many, with the same mean and the same squared deviations."""
    n = known.levels.total()
    if n != known.means.n or not n:
        return False
    mean = sum(level * count for level, count in known.levels.items()) / n
    squares = sum(count * (level - mean) ** 2 for level, count in known.levels.items())
    return isclose(mean, known.means.mean, abs_tol=1e-9) and isclose(squares, known.means.squares, abs_tol=1e-6 * n)


async def cut_runs(
    connection: AsyncConnection, batch_id: str, column: Column[float], runs: Sequence[Run], numbers: range
) -> list[int]:
    """The positions of the results with these numbers in all runs together."""
    found: list[int] = []
    begin = 0
    for run in runs:
        inside = range(max(numbers.start - begin, 0), min(numbers.stop - begin, run.count))
        if inside:
            found += await cut_run(connection, batch_id, column, run, inside)
        begin += run.count
    return found


async def cut_run(
    connection: AsyncConnection, batch_id: str, column: Column[float], run: Run, numbers: range
) -> list[int]:
    """Those of one run, counted from its nearer end."""
    backwards = numbers.start > run.count // 2
    skipped = run.count - numbers.stop if backwards else numbers.start
    query = select(figure.position).where(figure.batch_id == batch_id, run.fits(column))
    ordered = query.order_by(figure.position.desc() if backwards else figure.position)
    found = (await connection.execute(ordered.offset(skipped).limit(len(numbers)))).scalars().all()
    return [*reversed(found)] if backwards else [*found]

"""The figures of a batch's results, one by one."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.summary import ResultFigures
from app.storage.sql.batches.rows import figure, read_figures, read_measures, select_figures
from app.storage.sql.engine import fetch, fetch_value
from app.storage.sql.tables import batches


async def read_all(engine: AsyncEngine, batch_id: str = "ba_1") -> list[ResultFigures]:
    """Those of all results that there are, in order."""
    measures = read_measures(await fetch_value(engine, select(batches.c.measures).where(batches.c.id == batch_id)))
    query = select(*select_figures(measures)).where(figure.batch_id == batch_id).order_by(figure.position)
    return [read_figures(row, measures) for row in await fetch(engine, query)]

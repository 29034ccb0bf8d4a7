"""Reads of stored runs what a preference run is planned from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import equals

if TYPE_CHECKING:
    from saiten_server.preferences.runs.planning import Responses

FIGURES_PAGE = 20_000
"""Rows that are read at a time: some tens of milliseconds."""

result, figure = t.evaluations.c, t.result_figures.c


class ItemPlace(NamedTuple):
    """What a response answers: the item's id, the number among its responses, its dialogue and its cluster."""

    item: str
    candidate: int | None
    dialogue: str | None
    cluster: str | None


class SourceStore:
    """Reads runs. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def read_responses(self, run_id: str, *, whole: bool) -> Responses:
        """The run's responses; of conversations with `whole`. What has no result is left out."""
        # Loads numpy, at the first run that is planned.
        from saiten_server.preferences.runs.planning import Responses

        rows: list[tuple[int, int, int | None, int | None]] = []
        columns = (figure.position, figure.item_key, figure.candidate, figure.context_key)
        query = select(*columns).where(equals(figure.batch_id, run_id), figure.failure.is_distinct_from("erased"))
        after = -1
        while page := await db.fetch(
            self._engine, query.where(figure.position > after).order_by(figure.position).limit(FIGURES_PAGE)
        ):
            rows += [(row.position, row.item_key, row.candidate, row.context_key) for row in page]
            after = page[-1].position
        return await asyncio.to_thread(Responses.make, rows, whole=whole)

    async def read_items(self, run_id: str, positions: Collection[int]) -> Mapping[int, ItemPlace]:
        """What the responses at these positions answer."""
        query = select(result.position, result.item, result.candidate, result.dialogue, result.cluster).where(
            equals(result.batch_id, run_id), result.position.in_(positions)
        )
        rows = await db.fetch(self._engine, query)
        return {row.position: ItemPlace(row.item, row.candidate, row.dialogue, row.cluster) for row in rows}

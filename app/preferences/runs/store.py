"""Reads of stored runs what a preference run is planned from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import equals

if TYPE_CHECKING:
    from saiten_server.preferences.runs.planning import Responses

FIGURES_PAGE = 20_000
"""Rows that are read at a time: some tens of milliseconds."""

result, figure, item = t.evaluations.c, t.result_figures.c, t.batch_items.c


def read_pair_places(rows: Sequence[Any]) -> set[tuple[int, int, int, int]]:
    """The places in rows of candidates."""
    return {read_pair(row.request) for row in rows}


def read_pair(request: str) -> tuple[int, int, int, int]:
    """The places in the text of a candidate."""
    pair = json.loads(request)["pair"]
    return (*pair["runs"], *pair["positions"])


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

    async def read_pairs(self, run_id: str) -> set[tuple[int, int, int, int]]:
        """The pairs that a preference run has: the places of two runs, and the positions in these."""
        query = select(item.position, item.request).where(equals(item.batch_id, run_id))
        found: set[tuple[int, int, int, int]] = set()
        after = -1
        while page := await db.fetch(
            self._engine, query.where(item.position > after).order_by(item.position).limit(FIGURES_PAGE)
        ):
            found |= await asyncio.to_thread(read_pair_places, page)
            after = page[-1].position
        return found

    async def read_items(self, run_id: str, positions: Collection[int]) -> Mapping[int, ItemPlace]:
        """What the responses at these positions answer."""
        query = select(result.position, result.item, result.candidate, result.dialogue, result.cluster).where(
            equals(result.batch_id, run_id), result.position.in_(positions)
        )
        rows = await db.fetch(self._engine, query)
        return {row.position: ItemPlace(row.item, row.candidate, row.dialogue, row.cluster) for row in rows}

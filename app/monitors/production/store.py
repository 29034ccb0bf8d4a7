"""What of a monitor's conversations and windows can be used further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.monitors.production.values import MOST_SEARCHED, ConversationFilter
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.store.monitors import older, read_result
from saiten_server.monitors.traces.commits import name_id
from saiten_server.monitors.values import LiveResult
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import batches, can_store, equals

seen, window = t.monitor_conversations.c, t.monitor_windows.c

PAGE = 1_000


@dataclass(frozen=True)
class ChosenConversation:
    """A conversation that a monitor saw, by its id, with what it saw of it."""

    id: str
    result: LiveResult


class ProductionStore:
    """Reads what a monitor saw. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find_named(self, project: str, monitor_id: str, names: Sequence[str]) -> dict[str, ChosenConversation]:
        """By the caller's name those of these conversations that the monitor saw; of one that two have, that which
        spans name."""
        ids = [name_id(project, name, is_trace=is_trace) for name in names for is_trace in (True, False)]
        found: dict[str, ChosenConversation] = {}
        for some in db.cut_pieces(ids, PAGE // 2):
            query = select(t.monitor_conversations).where(seen.monitor_id == monitor_id, seen.conversation_id.in_(some))
            rows = {row.conversation_id: row for row in await db.fetch(self._engine, query)}
            found |= {rows[each].name: read_chosen(rows[each]) for each in some if each in rows}
        return found

    async def search(self, monitor_id: str, wanted: ConversationFilter, limit: int) -> list[ChosenConversation]:
        """The newest of the sample that fit, of the newest `MOST_SEARCHED`."""
        mine = select(t.monitor_conversations).where(seen.monitor_id == monitor_id, seen.outcome == "sampled")
        if wanted.run is not None:
            if not can_store(wanted.run):
                return []
            mine = mine.where(seen.batch_id == wanted.run)
        if wanted.at_most:
            mine = mine.where(seen.scores.is_not(None))
        found: list[ChosenConversation] = []
        looked, query = 0, mine
        while looked < MOST_SEARCHED and len(found) < limit:
            rows = await db.fetch(self._engine, newest(query))
            found += (one for one in map(read_chosen, rows) if wanted.takes(one.result))
            if len(rows) < PAGE:
                break
            looked += len(rows)
            query = mine.where(
                older(seen.closed_at, seen.conversation_id, (rows[-1].closed_at, rows[-1].conversation_id))
            )
        return found[:limit]

    async def find_window(self, project: str, monitor_id: str, run: str | None = None) -> Row[Any] | None:
        """Run, begin and whether it is sealed, and the run's status, of the window with this run; without one, of the
        last whose run has ended with all of it, of several at a time the one with the largest sample."""
        there = (window.batch_id == batches.c.id) & (batches.c.project == project)
        query = select(
            window.batch_id.label("run"), window.starts_at, window.ends_at, window.sealed, batches.c.status
        ).join(batches, there)
        query = query.where(window.monitor_id == monitor_id)
        if run is not None:
            return await db.fetch_one(self._engine, query.where(equals(window.batch_id, run)))
        ended = query.where(window.sealed, window.sampled > 0, batches.c.status == "completed")
        order = (window.starts_at.desc(), window.sampled.desc(), window.line, window.part.desc())
        return await db.fetch_one(self._engine, ended.order_by(*order).limit(1))


def newest(query: Select[Any]) -> Select[Any]:
    """A page of the conversations, the newest first."""
    return query.order_by(seen.closed_at.desc(), seen.conversation_id.desc()).limit(PAGE)


def read_chosen(row: Row[Any]) -> ChosenConversation:
    """The conversation of a row."""
    return ChosenConversation(row.conversation_id, read_result(row))

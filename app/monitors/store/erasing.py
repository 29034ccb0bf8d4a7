"""Removes what monitors keep of conversations that are erased."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, or_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.monitors.store.tables import monitor_conversations, monitor_outbox, monitors
from saiten_server.monitors.traces.store import NAME_MARK
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import has_marks
from saiten_server.platform.sql.tables import equals

ERASED_AT_ONCE = 200

own, seen, outbox = monitors.c, monitor_conversations.c, monitor_outbox.c


async def erase_seen(engine: AsyncEngine, project: str, metadata: Mapping[str, str]) -> None:
    """Removes the rows of conversations with this name or these attributes, and what waits to be sent of them. Counts
    of windows, and sums, in which no one can be found again, stay."""
    attributes = {key: value for key, value in metadata.items() if key not in {NAME_MARK, "monitor"}}
    conditions = has_marks(engine, seen.attributes, attributes) if attributes else []
    if NAME_MARK in metadata:
        conditions = [*conditions, seen.name == metadata[NAME_MARK]]
    if not conditions:
        return
    mine = select(own.id).where(equals(own.project, project))
    found = select(seen.monitor_id, seen.conversation_id, seen.name).where(seen.monitor_id.in_(mine), *conditions)
    while True:
        async with db.change(engine) as connection:
            rows = (await connection.execute(found.limit(ERASED_AT_ONCE))).all()
            if not rows:
                return
            sent = or_(*(has_marks(engine, outbox.body, {"session": row.name})[0] for row in rows))
            await connection.execute(delete(monitor_outbox).where(outbox.monitor_id.in_(mine), sent))
            these = or_(
                *((seen.monitor_id == row.monitor_id) & (seen.conversation_id == row.conversation_id) for row in rows)
            )
            await connection.execute(delete(monitor_conversations).where(these))

"""The audit log in SQL: rows that are only ever added."""

from __future__ import annotations

import json
import logging

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.engine import read, write
from app.adapters.sql.governance_tables import audit_events
from app.adapters.sql.tables import UNHOLDABLE, can_hold
from app.domain.audit import AuditEvent

logger = logging.getLogger("saiten.audit")

events = audit_events.c


class SQLAuditLog:
    """`AuditLog` on any engine that `app.adapters.sql.engine` opens. Each event is a log record too."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def note(self, event: AuditEvent) -> None:
        async with write(self._engine) as connection:
            await keep_event(connection, event)
        tell_events(event)

    async def events(self, project: str | None, *, before: int | None, limit: int) -> list[AuditEvent]:
        if project is not None and not can_hold(project):
            return []
        query = select(audit_events).order_by(events.number.desc()).limit(limit)
        if project is not None:
            query = query.where(events.project == project)
        if before is not None:
            query = query.where(events.number < before)
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [AuditEvent(**{**row, "detail": json.loads(row["detail"])}) for row in rows]


async def keep_event(connection: AsyncConnection, event: AuditEvent) -> None:
    """Adds the event within a transaction of the caller's, who tells it once that is committed."""
    row = {
        "at": event.at,
        "project": holdable(event.project),
        "actor": holdable(event.actor),
        "action": event.action,
        "target": holdable(event.target),
        "detail": json.dumps(event.detail),
    }
    await connection.execute(insert(audit_events).values(row))


def holdable(text: str) -> str:
    """The text with a sign in place of what no column can hold: a refused attempt has to be noted all the same."""
    return UNHOLDABLE.sub("\ufffd", text)


def tell_events(*told: AuditEvent | None) -> None:
    """A log record for each event that there is: ids and the action, without the details."""
    for event in told:
        if event is not None:
            about = {"project": event.project, "actor": event.actor, "action": event.action, "target": event.target}
            logger.info("audit", extra=about)

"""What waits to be sent, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.monitors.sinks.values import BACKLOG, Outgoing, Sent, key_of_sink
from saiten_server.monitors.store.tables import monitor_outbox, monitor_sinks, monitors
from saiten_server.monitors.values import MonitorOptions, Sink, SinkState, StoredMonitor
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import insert_into, insert_or_ignore
from saiten_server.scoring.store import STORED

outbox, sinks = monitor_outbox.c, monitor_sinks.c

SENT: TypeAdapter[Sent] = TypeAdapter(Sent)

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
"""Between two tries of a sink that does not answer."""

SENDING = timedelta(seconds=60)
"""How long what a process sends is left to it."""


@dataclass(frozen=True)
class WaitingItem:
    """What is to be sent now."""

    id: str
    monitor_id: str
    key: str
    sink: Sink
    body: Sent


async def post(connection: AsyncConnection, stored: StoredMonitor, outgoing: Sequence[Outgoing], now: datetime) -> None:
    """Has these sent, in the caller's transaction. Where a sink's backlog is full, the oldest is given up."""
    if not outgoing:
        return
    rows = [
        {
            "id": one.id,
            "monitor_id": stored.monitor.id,
            "sink": one.sink,
            "body": one.body.model_dump_json(),
            "created_at": now,
            "due_at": now,
        }
        for one in outgoing
    ]
    await connection.execute(insert_or_ignore(connection, monitor_outbox), rows)
    for key in sorted({one.sink for one in outgoing}):
        mine = (outbox.monitor_id == stored.monitor.id, outbox.sink == key)
        count = (await connection.execute(select(func.count()).select_from(monitor_outbox).where(*mine))).scalar_one()
        if count > BACKLOG:
            oldest = select(outbox.id).where(*mine).order_by(outbox.created_at, outbox.id).limit(count - BACKLOG)
            await connection.execute(delete(monitor_outbox).where(outbox.id.in_(oldest)))
            await note(connection, stored.monitor.id, key, dropped=count - BACKLOG, error="backlog-full")


async def note(
    connection: AsyncConnection,
    monitor_id: str,
    key: str,
    *,
    sent: int = 0,
    dropped: int = 0,
    error: str | None = None,
) -> None:
    """Counts what became of what a sink was to get."""
    into = insert_into(connection, monitor_sinks)
    added: dict[str, Any] = {name: sinks[name] + into.excluded[name] for name in ("sent", "dropped")}
    if error is not None:
        added["last_error"] = error
    row = {"monitor_id": monitor_id, "sink": key, "sent": sent, "dropped": dropped, "last_error": error, "failures": 0}
    statement = into.on_conflict_do_update(index_elements=[*monitor_sinks.primary_key], set_=added)
    await connection.execute(statement, row)


class OutboxStore:
    """What waits to be sent. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def take(self, now: datetime, limit: int) -> list[WaitingItem]:
        """What is due, the oldest first, which is left to the caller for `SENDING`; nothing for sinks that pause, and a
        single piece for one that failed the last time, to see whether it answers again."""
        open_ones = or_(sinks.closed_until.is_(None), sinks.closed_until <= now)
        query = (
            select(outbox.id, outbox.monitor_id, outbox.sink, outbox.body, monitors.c.options, sinks.failures)
            .join(monitors, monitors.c.id == outbox.monitor_id)
            .outerjoin(monitor_sinks, (sinks.monitor_id == outbox.monitor_id) & (sinks.sink == outbox.sink))
            .where(outbox.due_at <= now, open_ones)
            .order_by(outbox.due_at, outbox.id)
            .limit(limit)
            .with_for_update(skip_locked=True, of=monitor_outbox)
        )
        async with db.change(self._engine) as connection:
            rows = (await connection.execute(query)).all()
            found, orphans, probed = [], [], set[tuple[str, str]]()
            for row in rows:
                sink = find_sink(row.options, row.sink)
                if sink is None:
                    orphans.append(row.id)
                elif (place := (row.monitor_id, row.sink)) not in probed:
                    if row.failures:
                        probed.add(place)
                    found.append(WaitingItem(row.id, row.monitor_id, row.sink, sink, SENT.validate_json(row.body)))
            if orphans:  # the monitor sends there no longer
                await connection.execute(delete(monitor_outbox).where(outbox.id.in_(orphans)))
            if found:
                mine = outbox.id.in_([one.id for one in found])
                await connection.execute(update(monitor_outbox).where(mine).values(due_at=now + SENDING))
        return found

    async def settle(self, one: WaitingItem, *, error: str | None = None) -> None:
        """It was sent, or is given up because of the error."""
        async with db.change(self._engine) as connection:
            gone = (await connection.execute(delete(monitor_outbox).where(outbox.id == one.id))).rowcount
            await note(
                connection,
                one.monitor_id,
                one.key,
                sent=gone if error is None else 0,
                dropped=0 if error is None else gone,
                error=error,
            )
            this = update(monitor_sinks).where(sinks.monitor_id == one.monitor_id, sinks.sink == one.key)
            await connection.execute(this.values(failures=0, closed_until=None))

    async def put_off(self, one: WaitingItem, now: datetime, error: str, pause: timedelta | None = None) -> None:
        """The sink does not answer: it is left alone for longer each time, and what waits for it stays. What was sent
        beside what failed first counts as the same time."""
        async with db.change(self._engine) as connection:
            await note(connection, one.monitor_id, one.key, error=error)
            this = (sinks.monitor_id == one.monitor_id) & (sinks.sink == one.key)
            failures, until = (await connection.execute(select(sinks.failures, sinks.closed_until).where(this))).one()
            is_closed = until is not None and until > now
            wait = timedelta(0) if is_closed else min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 20))
            closed = max(now + min(LONGEST_PAUSE, max(wait, pause or wait)), until or now)
            values = {"failures": failures + (not is_closed), "closed_until": closed}
            await connection.execute(update(monitor_sinks).where(this).values(values))
            await connection.execute(update(monitor_outbox).where(outbox.id == one.id).values(due_at=now))

    async def states(self, stored: StoredMonitor) -> list[SinkState]:
        """What became of what each of the monitor's sinks was to get."""
        mine = outbox.monitor_id == stored.monitor.id
        waits = select(outbox.sink, func.count()).where(mine).group_by(outbox.sink)
        waiting = {row[0]: int(row[1]) for row in await db.fetch(self._engine, waits)}
        known = select(monitor_sinks).where(sinks.monitor_id == stored.monitor.id)
        rows = {row.sink: row for row in await db.fetch(self._engine, known)}
        found = []
        for sink in stored.options.send_to:
            key = key_of_sink(sink)
            row = rows.get(key)
            found.append(
                SinkState(
                    kind=sink.kind,
                    url=sink.url,
                    waiting=waiting.get(key, 0),
                    sent=row.sent if row else 0,
                    dropped=row.dropped if row else 0,
                    last_error=row.last_error if row else None,
                )
            )
        return found

    async def backlog(self) -> int:
        """What waits, of all monitors."""
        return int(await db.fetch_value(self._engine, select(func.count()).select_from(monitor_outbox)) or 0)


def find_sink(options: str, key: str) -> Sink | None:
    """The monitor's sink of this key; None where it has none any more."""
    found = MonitorOptions.model_validate_json(options, context=STORED)
    return next((sink for sink in found.send_to if key_of_sink(sink) == key), None)

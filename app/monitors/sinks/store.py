"""What waits to be sent, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.monitors.sinks.values import BACKLOG, Outgoing, Sent, key_of_sink, origin_of
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


SinkPlace = tuple[str, str]
"""A monitor's id, and the key of one of its sinks."""


@dataclass(frozen=True)
class Backlog:
    """How much waits for one sink, and since when; `due`: whether some of it may be sent now. `service` is where to,
    None where the monitor sends there no longer, or nothing is due."""

    place: SinkPlace
    count: int
    since: datetime
    due: bool
    service: str | None


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
            await note_sent(connection, stored.monitor.id, key, dropped=count - BACKLOG, error="backlog-full")


async def hold(connection: AsyncConnection, monitor_id: str) -> bool:
    """Whether there is the monitor, which stays until the transaction ends. A removal locks it before all that is
    its, so everything else that writes there does too: in another order each would wait for the other."""
    query = select(monitors.c.id).where(monitors.c.id == monitor_id).with_for_update(read=True, key_share=True)
    return (await connection.execute(query)).one_or_none() is not None


async def note_sent(
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

    async def backlog(self, now: datetime) -> list[Backlog]:
        """What waits, by sink."""
        query = (
            select(
                outbox.monitor_id,
                outbox.sink,
                func.count(),
                func.min(outbox.due_at),
                func.min(outbox.created_at),
                sinks.closed_until,
            )
            .outerjoin(monitor_sinks, (sinks.monitor_id == outbox.monitor_id) & (sinks.sink == outbox.sink))
            .group_by(outbox.monitor_id, outbox.sink, sinks.closed_until)
        )
        rows = await db.fetch(self._engine, query)
        due = [row[3] <= now and (row.closed_until is None or row.closed_until <= now) for row in rows]
        named = sorted({row.monitor_id for row, is_due in zip(rows, due, strict=True) if is_due})
        chosen = select(monitors.c.id, monitors.c.options).where(monitors.c.id.in_(named))
        options = {row.id: row.options for row in await db.fetch(self._engine, chosen)} if named else {}
        found = []
        for row, is_due in zip(rows, due, strict=True):
            sink = find_sink(options[row.monitor_id], row.sink) if is_due and row.monitor_id in options else None
            service = None if sink is None else origin_of(sink.url)
            found.append(Backlog((row.monitor_id, row.sink), int(row[2]), row[4], is_due, service))
        return found

    async def take(self, place: SinkPlace, now: datetime, limit: int) -> list[WaitingItem]:
        """What is due at one sink, the oldest first, which is left to the caller for `SENDING`; nothing while the sink
        pauses, and a single piece where it failed the last time, to see whether it answers again. Alarms are taken one
        by one in their order: who hears that one is over before it was raised believes that it is on."""
        this = (sinks.monitor_id == place[0]) & (sinks.sink == place[1])
        mine = (outbox.monitor_id == place[0], outbox.sink == place[1])
        async with db.change(self._engine) as connection:
            state = (await connection.execute(select(sinks.failures, sinks.closed_until).where(this))).one_or_none()
            if state is not None and state.closed_until is not None and state.closed_until > now:
                return []
            named = select(monitors.c.options).where(monitors.c.id == place[0])
            options = (await connection.execute(named)).scalar_one_or_none()
            sink = None if options is None else find_sink(options, place[1])
            if sink is None:  # the monitor sends there no longer
                await connection.execute(delete(monitor_outbox).where(*mine))
                return []
            query = select(outbox.id, outbox.body, outbox.due_at).where(*mine)
            if sink.kind == "webhook":
                query = query.order_by(outbox.created_at, outbox.id).limit(1).with_for_update()
            else:
                query = (
                    query.where(outbox.due_at <= now)
                    .order_by(outbox.due_at, outbox.id)
                    .limit(1 if state is not None and state.failures else limit)
                    .with_for_update(skip_locked=True)
                )
            rows = (await connection.execute(query)).all()
            if not rows or rows[0].due_at > now:  # another process sends it
                return []
            taken = update(monitor_outbox).where(outbox.id.in_([row.id for row in rows]))
            await connection.execute(taken.values(due_at=now + SENDING))
        return [WaitingItem(row.id, *place, sink, SENT.validate_json(row.body)) for row in rows]

    async def settle(self, one: WaitingItem, *, error: str | None = None) -> None:
        """It was sent, or is given up because of the error."""
        async with db.change(self._engine) as connection:
            if not await hold(connection, one.monitor_id):
                return
            gone = (await connection.execute(delete(monitor_outbox).where(outbox.id == one.id))).rowcount
            await note_sent(
                connection,
                one.monitor_id,
                one.key,
                sent=gone if error is None else 0,
                dropped=0 if error is None else gone,
                error=error,
            )
            this = update(monitor_sinks).where(sinks.monitor_id == one.monitor_id, sinks.sink == one.key)
            await connection.execute(this.values(failures=0, closed_until=None))

    async def put_off(self, one: WaitingItem, now: datetime, error: str, pause: timedelta | None = None) -> bool:
        """The sink does not answer: it is left alone for longer each time, and what waits for it stays. What was sent
        beside what failed first counts as the same time; returns whether this was the first."""
        async with db.change(self._engine) as connection:
            if not await hold(connection, one.monitor_id):
                return False
            await note_sent(connection, one.monitor_id, one.key, error=error)
            this = (sinks.monitor_id == one.monitor_id) & (sinks.sink == one.key)
            failures, until = (await connection.execute(select(sinks.failures, sinks.closed_until).where(this))).one()
            is_closed = until is not None and until > now
            wait = timedelta(0) if is_closed else min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 20))
            closed = max(now + min(LONGEST_PAUSE, max(wait, pause or wait)), until or now)
            values = {"failures": failures + (not is_closed), "closed_until": closed}
            await connection.execute(update(monitor_sinks).where(this).values(values))
            await connection.execute(update(monitor_outbox).where(outbox.id == one.id).values(due_at=now))
        return not is_closed

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


def find_sink(options: str, key: str) -> Sink | None:
    """The monitor's sink of this key; None where it has none any more."""
    found = MonitorOptions.model_validate_json(options, context=STORED)
    return next((sink for sink in found.send_to if key_of_sink(sink) == key), None)

"""Monitors by project, and what is read of them."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.errors import InvalidRequest
from saiten_server.monitors.sampling import count_halvings
from saiten_server.monitors.sinks.store import post
from saiten_server.monitors.sinks.values import address_alarm
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.values import (
    FINDING_MEASURES,
    RESTARTING,
    Alarm,
    LiveResult,
    MeasureState,
    Monitor,
    MonitorOptions,
    StoredMonitor,
)
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import Instant, batches, equals
from saiten_server.runs.store.growing import seal
from saiten_server.runs.store.rows import RECEIVING
from saiten_server.scoring.store import STORED

MOST_MONITORS = 100
"""Of a project."""

PART_DIGITS = 9
"""Of a window's part, which is a number of 32 bits; a cursor may be made up."""

own, seen, window, alarm, state = (
    t.monitors.c,
    t.monitor_conversations.c,
    t.monitor_windows.c,
    t.monitor_alarms.c,
    t.monitor_states.c,
)

AspectNames = Mapping[str, Mapping[str, str]]
"""What a rubric calls each of its aspects, by language."""

Place = tuple[datetime, str]
"""When something was, and its id: what a page of a list begins after."""


class MonitorStore:
    """Monitors by project. Methods return None, or nothing, where the project has no such monitor. Raises the `Store…`
    errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def create(self, made: StoredMonitor) -> None:
        """Stores it. Raises InvalidRequest beyond MOST_MONITORS."""
        options, monitor = made.options.model_dump_json(), made.monitor
        row = {
            "id": monitor.id,
            "project": made.project,
            "version": monitor.version,
            "epoch": made.epoch,
            "created_at": monitor.created_at,
            "updated_at": monitor.updated_at,
            "salt": made.salt,
            "api_key": made.api_key,
            "options": options,
        }
        async with db.change(self.engine) as connection:
            known = select(func.count()).select_from(t.monitors).where(own.project == made.project)
            if (await connection.execute(known)).scalar_one() >= MOST_MONITORS:
                raise InvalidRequest(Message("monitors-most", most=MOST_MONITORS))
            await connection.execute(insert(t.monitors), row)
            await keep_version(connection, monitor, options)

    async def find(self, project: str, monitor_id: str, now: datetime) -> StoredMonitor | None:
        """The monitor as it is now."""
        found = await self._read(now, equals(own.project, project), equals(own.id, monitor_id))
        return found[0] if found else None

    async def list(self, project: str, now: datetime) -> builtins.list[StoredMonitor]:
        """The project's monitors, newest first."""
        return await self._read(now, equals(own.project, project))

    async def list_all(self, now: datetime, project: str | None = None) -> builtins.list[StoredMonitor]:
        """The monitors of all projects, or of one, the oldest first."""
        mine = [] if project is None else [equals(own.project, project)]
        return (await self._read(now, *mine))[::-1]

    async def _read(self, now: datetime, *conditions: ColumnElement[bool]) -> builtins.list[StoredMonitor]:
        query = select(t.monitors).where(*conditions).order_by(own.created_at.desc(), own.id.desc())
        async with db.read(self.engine) as connection:
            rows = (await connection.execute(query)).all()
            figures = await read_spending(connection, [row.id for row in rows], now) if rows else {}
        return [read_monitor(row, *figures.get(row.id, (0, 0.0))) for row in rows]

    async def change(
        self,
        project: str,
        monitor_id: str,
        merge: Callable[[MonitorOptions], MonitorOptions],
        name_aspects: Callable[[MonitorOptions], AspectNames],
        now: datetime,
    ) -> bool:
        """Gives it the options that `merge` makes of those that it has, as a new version; what `merge` raises leaves
        it as it is. Where results are made otherwise from now on, there is another reference, and the alarms that are
        on are over: who was told that they began is told so, with what `name_aspects` calls the aspects."""
        mine = (equals(own.project, project), equals(own.id, monitor_id))
        async with db.change(self.engine) as connection:
            row = (await connection.execute(select(t.monitors).where(*mine).with_for_update())).one_or_none()
            if row is None:
                return False
            before = MonitorOptions.model_validate_json(row.options, context=STORED)
            options = merge(before)
            restarts = any(getattr(before, name) != getattr(options, name) for name in RESTARTING)
            text = options.model_dump_json()
            changed: dict[str, Any] = {"version": row.version + 1, "updated_at": now, "options": text}
            if restarts:
                await end_alarms(connection, read_monitor(row, 0, 0.0), name_aspects(before), now)
                changed |= {"epoch": row.epoch + 1, "reference_from": None}
                await connection.execute(delete(t.monitor_states).where(state.monitor_id == row.id))
                await connection.execute(delete(t.monitor_sums).where(t.monitor_sums.c.monitor_id == row.id))
                await seal_windows(connection, now, window.monitor_id == row.id)
            await connection.execute(update(t.monitors).where(*mine).values(changed))
            made = read_monitor(row, 0, 0.0).monitor.model_copy(update={"version": row.version + 1, "updated_at": now})
            await keep_version(connection, made, text)
        return True

    async def remove(self, project: str, monitor_id: str, now: datetime) -> bool:
        """Removes it with what it kept. Its runs stay, and end with what is in them. Returns whether there was one."""
        mine = (equals(own.project, project), equals(own.id, monitor_id))
        async with db.change(self.engine) as connection:
            row = (await connection.execute(select(own.id).where(*mine).with_for_update())).one_or_none()
            if row is None:
                return False
            await seal_windows(connection, now, window.monitor_id == row.id)
            await connection.execute(delete(t.monitors).where(own.id == row.id))
        return True

    async def seal_ended(self, before: datetime, now: datetime) -> None:
        """Ends the windows that were over by then and that nothing has joined since."""
        over = (window.ends_at < before, window.touched_at < before)
        # Looks first: usually there is none, and SQLite has one writer.
        some = select(window.monitor_id).where(~window.sealed, *over).limit(1)
        if await db.fetch_column(self.engine, some):
            async with db.change(self.engine) as connection:
                await seal_windows(connection, now, *over)

    async def conversations(
        self, monitor_id: str, *, before: Place | None = None, limit: int, waiting: bool = False
    ) -> Sequence[tuple[str, LiveResult]]:
        """What it saw, the newest first, each with its id; with `waiting` only what has no result yet."""
        query = select(t.monitor_conversations).where(seen.monitor_id == monitor_id)
        if waiting:
            query = query.where(seen.waiting)
        if before is not None:
            query = query.where(older(seen.closed_at, seen.conversation_id, before))
        newest = query.order_by(seen.closed_at.desc(), seen.conversation_id.desc()).limit(limit)
        return [(row.conversation_id, read_result(row)) for row in await db.fetch(self.engine, newest)]

    async def alarms(self, monitor_id: str, *, before: Place | None = None, limit: int) -> builtins.list[Alarm]:
        """Its alarms, the newest first."""
        query = select(t.monitor_alarms.c.alarm).where(alarm.monitor_id == monitor_id)
        if before is not None:
            query = query.where(older(alarm.raised_at, alarm.id, before))
        newest = query.order_by(alarm.raised_at.desc(), alarm.id.desc()).limit(limit)
        return [Alarm.model_validate_json(text) for text in await db.fetch_column(self.engine, newest)]

    async def states(self, monitor_id: str) -> builtins.list[MeasureState]:
        """How each measure stands, by name."""
        query = select(t.monitor_states).where(state.monitor_id == monitor_id).order_by(state.measure)
        return [read_state(row) for row in await db.fetch(self.engine, query)]

    async def count_alarms(self) -> Mapping[str, int]:
        """By monitor how many alarms are on."""
        query = select(state.monitor_id, func.count()).where(state.alarm_id.is_not(None)).group_by(state.monitor_id)
        return {row[0]: int(row[1]) for row in await db.fetch(self.engine, query)}

    async def windows(self, monitor_id: str, *, before: Place | None = None, limit: int) -> Sequence[Row[Any]]:
        """Rows of its windows, the newest first, with the names of runs that are gone left out. `before` is when the
        last one began, and `name_window` of it."""
        there = select(batches.c.id).where(batches.c.id == window.batch_id, batches.c.status != RECEIVING)
        query = select(t.monitor_windows, there.scalar_subquery().label("run")).where(window.monitor_id == monitor_id)
        if before is not None:
            line, _, part = before[1].partition("_")
            number = int(part) if part.isdecimal() and len(part) <= PART_DIGITS else 0
            place = tuple_(literal(before[0], Instant()), literal(line), literal(number))
            query = query.where(tuple_(window.starts_at, window.line, window.part) < place)
        newest = query.order_by(window.starts_at.desc(), window.line.desc(), window.part.desc()).limit(limit)
        return await db.fetch(self.engine, newest)

    async def scored(self, runs: Iterable[str]) -> Sequence[Row[Any]]:
        """Batch, probability, ratings and faults of what is scored in these batches."""
        columns = (seen.batch_id, seen.probability, seen.scores, seen.faulty, seen.answers)
        query = select(*columns).where(seen.batch_id.in_(sorted(runs)), seen.scores.is_not(None))
        return await db.fetch(self.engine, query)


async def seal_windows(connection: AsyncConnection, now: datetime, *conditions: ColumnElement[bool]) -> int:
    """Lets nothing more join these windows, whose runs end with their last result; returns how many."""
    query = select(t.monitor_windows).where(~window.sealed, *conditions)
    rows = (await connection.execute(query.order_by(window.batch_id).with_for_update())).all()
    for row in rows:
        same = (window.monitor_id == row.monitor_id, window.starts_at == row.starts_at, window.line == row.line)
        await connection.execute(update(t.monitor_windows).where(*same, window.part == row.part).values(sealed=True))
        if row.batch_id is not None:
            await seal(connection, row.batch_id, now)
    return len(rows)


async def keep_version(connection: AsyncConnection, monitor: Monitor, options: str) -> None:
    """Notes what the options were in this version."""
    row = {
        "monitor_id": monitor.id,
        "version": monitor.version,
        "created_at": monitor.updated_at,
        "options": options,
    }
    await connection.execute(insert(t.monitor_versions), row)


def name_window(row: Row[Any]) -> str:
    """What tells a window from others that begin at its time."""
    return f"{row.line}_{row.part}"


def older(moment: Any, key: Any, place: Place) -> ColumnElement[bool]:
    """The condition that a row comes after the place in a list of the newest first."""
    condition: ColumnElement[bool] = tuple_(moment, key) < tuple_(literal(place[0], Instant()), literal(place[1]))
    return condition


async def read_spending(
    connection: AsyncConnection, ids: Sequence[str], now: datetime
) -> Mapping[str, tuple[int, float | None]]:
    """By monitor how many conversations wait, and what its runs cost today (UTC) with what is in hand, in USD; None
    where a price is not known."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    hand = (
        select(seen.monitor_id, func.count(), func.sum(seen.expected_usd), func.count(seen.expected_usd))
        .where(seen.waiting, seen.monitor_id.in_(ids))
        .group_by(seen.monitor_id)
    )
    spent = (
        select(window.monitor_id, func.sum(batches.c.cost_usd), func.count() - func.count(batches.c.cost_usd))
        .join(batches, batches.c.id == window.batch_id)
        .where(window.monitor_id.in_(ids), window.starts_at >= today)
        .group_by(window.monitor_id)
    )
    waits = {
        row[0]: (int(row[1]), float(row[2] or 0.0), int(row[1] - row[3])) for row in await connection.execute(hand)
    }
    costs = {row[0]: (float(row[1] or 0.0), int(row[2])) for row in await connection.execute(spent)}
    found: dict[str, tuple[int, float | None]] = {}
    for name in ids:
        count, expected, unpriced = waits.get(name, (0, 0.0, 0))
        cost, unknown = costs.get(name, (0.0, 0))
        found[name] = count, None if unknown or unpriced else cost + expected
    return found


def read_monitor(row: Row[Any], waiting: int, spent_usd: float | None) -> StoredMonitor:
    """The monitor of a row."""
    options = MonitorOptions.model_validate_json(row.options, context=STORED)
    monitor = Monitor(
        id=row.id,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        options=options,
        waiting=waiting,
        thinning=count_halvings(spent_usd, options.budget_usd_per_day),
        spent_usd_today=spent_usd,
    )
    return StoredMonitor(
        monitor,
        row.project,
        row.salt,
        row.epoch,
        api_key=row.api_key,
        reference_from=row.reference_from,
    )


async def resolve_alarms(connection: AsyncConnection, now: datetime, *which: ColumnElement[bool]) -> list[Alarm]:
    """Ends these alarms; returns them."""
    texts = (await connection.execute(select(alarm.alarm).where(*which))).scalars().all()
    found = [Alarm.model_validate_json(text).model_copy(update={"resolved_at": now}) for text in texts]
    for one in found:
        changed = {"resolved_at": now, "alarm": one.model_dump_json()}
        await connection.execute(update(t.monitor_alarms).where(alarm.id == one.id).values(changed))
    return found


async def end_alarms(connection: AsyncConnection, stored: StoredMonitor, names: AspectNames, now: datetime) -> None:
    """Ends the alarms that are on, and has that sent."""
    mine = (alarm.monitor_id == stored.monitor.id, alarm.resolved_at.is_(None))
    for ended in await resolve_alarms(connection, now, *mine):
        await post(connection, stored, address_alarm(stored.monitor, ended, names.get(ended.measure, {})), now)


def read_result(row: Row[Any]) -> LiveResult:
    """What a row says of a conversation."""
    same = ("closed_at", "system", "build", "outcome", "probability", "position", "status", "turns", "answers")
    return LiveResult(
        **{name: getattr(row, name) for name in same},
        conversation=row.name,
        run=row.batch_id,
        errors=row.errors,
        latency_seconds=row.latency_seconds,
        findings=json.loads(row.findings),
        aspects=json.loads(row.scores) if row.scores else {},
        faulty_turns=row.faulty,
    )


def read_state(row: Row[Any]) -> MeasureState:
    """How the measure of a row stands; rates are told per 100 turns, as those of alarms are."""
    per = 100 if row.measure in {FAULTY_TURNS, *FINDING_MEASURES} else 1
    return MeasureState(
        measure=row.measure,
        state=row.state,
        difference=None if row.difference is None else per * row.difference,
        interval=None if row.low is None else (per * row.low, per * row.high),
        since=None if row.since_day is None else begin_of(row.since_day),
        n=row.n,
        looked_at=row.looked_at,
    )


def begin_of(day: int) -> datetime:
    """When a day begins, by its ordinal, in UTC."""
    return datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=day - 1)

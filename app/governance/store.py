"""Projects' policies, the audit log, and what keys have spent."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.access import DEFAULT_POLICY, AuditEvent, ProjectPolicy
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import UNSTORABLE_CHARACTERS, equals

SALT_BYTES = 32

policy = t.project_policies.c
POLICY_COLUMNS = (policy.integrity, policy.texts, policy.after_days)


class PolicyStore:
    """Projects' policies, a row for each that is not the default. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find_policy(self, project: str) -> ProjectPolicy:
        """The project's policy; the default where none was set."""
        row = await db.fetch_one(self._engine, select(*POLICY_COLUMNS).where(equals(policy.project, project)))
        return DEFAULT_POLICY if row is None else ProjectPolicy.model_validate(row._asdict())

    async def save_policy(self, project: str, wanted: ProjectPolicy, now: datetime) -> None:
        """Sets it. If the rule for texts has changed, all stored texts are checked again."""
        values = {**wanted.model_dump(), "updated_at": now}
        # The salt never changes, so that digests of one project stay comparable.
        made = {**values, "project": project, "salt": secrets.token_hex(SALT_BYTES), "redacted_to": None}
        async with db.change(self._engine) as connection:
            if (await connection.execute(db.insert_or_ignore(connection, t.project_policies), made)).rowcount == 1:
                return
            this = policy.project == project
            held = (await connection.execute(select(*POLICY_COLUMNS).where(this).with_for_update())).one()
            goes_further = (held.texts, held.after_days) != (wanted.texts, wanted.after_days)
            again = {"redacted_to": None} if goes_further else {}
            await connection.execute(update(t.project_policies).where(this).values(**values, **again))

    async def policies(self) -> Mapping[str, ProjectPolicy]:
        """Every project that has a policy of its own."""
        rows = await db.fetch(self._engine, select(policy.project, *POLICY_COLUMNS).order_by(policy.project))
        return {row[0]: ProjectPolicy(integrity=row[1], texts=row[2], after_days=row[3]) for row in rows}


logger = logging.getLogger("saiten.audit")

events = t.audit_events.c


class AuditLog:
    """What administrators did. Rows are only ever added; each event is a log record too. Raises the `Store…` errors of
    `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def note(self, event: AuditEvent) -> None:
        async with db.write(self._engine) as connection:
            await keep_event(connection, event)
        tell_events(event)

    async def events(self, project: str | None, *, before: int | None, limit: int) -> list[AuditEvent]:
        """Newest first, those with a number below `before`; of all projects where `project` is None."""
        wanted = [] if project is None else [equals(events.project, project)]
        wanted += [] if before is None else [events.number < before]
        query = select(t.audit_events).where(*wanted).order_by(events.number.desc()).limit(limit)
        async with db.read(self._engine) as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [AuditEvent(**{**row, "detail": json.loads(row["detail"])}) for row in rows]


async def keep_event(connection: AsyncConnection, event: AuditEvent) -> None:
    """Adds the event within a transaction of the caller's, who logs it once that is committed (`tell_events`)."""
    # A refused attempt has to be noted too, so what no column can hold is replaced.
    texts = {name: UNSTORABLE_CHARACTERS.sub("\ufffd", getattr(event, name)) for name in ("project", "actor", "target")}
    row = {"at": event.at, "action": event.action, "detail": json.dumps(event.detail)}
    await connection.execute(insert(t.audit_events).values(row | texts))


def tell_events(*events: AuditEvent | None) -> None:
    """Logs the events: ids and the action, without the details."""
    for event in events:
        if event is not None:
            about = {"project": event.project, "actor": event.actor, "action": event.action, "target": event.target}
            logger.info("audit", extra=about)


spent = t.key_spending.c

ROUNDING_USD = 1e-9
"""A limit that is a multiple of a cost must not lose a call to binary fractions."""


@dataclass(frozen=True)
class Charge:
    """USD to be added to what a key has spent on a day (UTC); with `most_usd`, only within that sum."""

    key_id: str
    day: str
    usd: float
    most_usd: float | None = None


class SpendingStore:
    """What each key has cost, exactly and for all processes. Batches are charged when their results are committed;
    other work reserves its cost before it begins, and gives back what it did not need.
    Raises the `Store…` errors. Charges that arrive while others are committed share the next
    transaction: those of one key all change one row, and would wait for each other's commits, each holding a
    connection."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._charges: Coalescer[Charge, float | None] = Coalescer(self._charge_all, own_context=True)

    async def spent_usd(self, key_id: str, now: datetime) -> float:
        """On the day (UTC) of `now`."""
        query = select(spent.cost_usd).where(equals(spent.api_key, key_id), spent.day == day_of(now))
        found: float | None = await db.fetch_value(self._engine, query)
        return found or 0.0

    async def charge(self, key_id: str, cost_usd: float, now: datetime) -> None:
        """Returns when it is stored; below 0, a reservation is given back. It may also be stored if the caller is
        cancelled."""
        await self._charges(Charge(key_id, day_of(now), cost_usd))

    async def reserve(self, key_id: str, usd: float, most_usd: float, now: datetime) -> float | None:
        """Adds the amount to what the key has spent on the day of `now`, unless that would be more than `most_usd`.
        Returns None if it was added, else what the key has spent. The amount is given back if the caller is cancelled
        meanwhile."""
        adding = self._charges.submit(Charge(key_id, day_of(now), usd, most_usd))
        try:
            return await asyncio.shield(adding)
        except asyncio.CancelledError:
            adding.add_done_callback(partial(self._give_back, Charge(key_id, day_of(now), -usd)))
            raise

    def _give_back(self, back: Charge, added: asyncio.Future[float | None]) -> None:
        if not added.cancelled() and added.exception() is None and added.result() is None:
            self._charges.submit(back)

    async def close(self) -> None:
        """Waits for charges in progress, including those whose callers were cancelled."""
        await db.finish(self._engine, "charges", self._charges)

    async def _charge_all(self, charges: Sequence[Charge]) -> list[float | None]:
        """Stores the charges, then the reservations for which there is room; what the key had spent for each that was
        not stored, None for the others."""
        costs: dict[tuple[str, str], float] = defaultdict(float)
        for one in charges:
            if one.most_usd is None:
                costs[one.day, one.key_id] += one.usd
        refused: dict[int, float] = {}
        # In one order for all, which prevents deadlocks. SQLite has one writer at a time.
        reservations = sorted(
            (one.day, one.key_id, number) for number, one in enumerate(charges) if one.most_usd is not None
        )
        async with db.write(self._engine) as connection:
            await add_costs(connection, costs)
            for _, _, number in reservations:
                if (spent_usd := await reserve_cost(connection, charges[number])) is not None:
                    refused[number] = spent_usd
        return [refused.get(number) for number in range(len(charges))]


async def reserve_cost(connection: AsyncConnection, asked: Charge) -> float | None:
    """Adds the amount where it leaves the sum within `most_usd`; otherwise returns what was spent before."""
    this = (equals(spent.api_key, asked.key_id), spent.day == asked.day)
    row = {"api_key": asked.key_id, "day": asked.day, "cost_usd": 0.0}
    await connection.execute(db.insert_or_ignore(connection, t.key_spending), [row])
    fits = spent.cost_usd + asked.usd <= (asked.most_usd or 0.0) + ROUNDING_USD
    adding = update(t.key_spending).where(*this, fits).values(cost_usd=spent.cost_usd + asked.usd)
    if (await connection.execute(adding)).rowcount:
        return None
    return float((await connection.execute(select(spent.cost_usd).where(*this))).scalar_one())


async def charge_keys(connection: AsyncConnection, costs: Mapping[str, float], now: datetime) -> None:
    """Adds the costs (USD) to what each key has spent on the day of `now`."""
    await add_costs(connection, {(day_of(now), key_id): cost for key_id, cost in costs.items()})


async def add_costs(connection: AsyncConnection, costs: Mapping[tuple[str, str], float]) -> None:
    """Adds the costs (USD) by day and key."""
    # In one order for all, which prevents deadlocks.
    rows = [{"api_key": key_id, "day": day, "cost_usd": cost} for (day, key_id), cost in sorted(costs.items()) if cost]
    if rows:
        await connection.execute(db.insert_or_add(connection, t.key_spending, spent.cost_usd), rows)


async def find_money(
    connection: AsyncConnection, key_id: str, default_usd: float | None, now: datetime
) -> tuple[float, float] | None:
    """What the key has spent today and may spend a day (USD); None without a limit."""
    limit = select(t.api_keys.c.usd_per_day).where(t.api_keys.c.id == key_id).scalar_subquery()
    today = select(spent.cost_usd).where(spent.api_key == key_id, spent.day == day_of(now)).scalar_subquery()
    own, cost = (await connection.execute(select(limit, func.coalesce(today, 0.0)))).one()
    most = default_usd if own is None else own
    return None if most is None else (cost, most)


def day_of(now: datetime) -> str:
    """The day in UTC, as 2026-01-31."""
    return now.astimezone(UTC).date().isoformat()

"""What keys have spent, in SQL: money must outlive a wiped Redis, and is exact for all processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.engine import finish, read, write
from app.adapters.sql.governance_tables import key_spending
from app.adapters.sql.store import insert_or_add
from app.adapters.sql.tables import api_keys, can_hold
from app.coalescing import Coalescer

spent = key_spending.c


class Charge(NamedTuple):
    """What a key has to pay, and at what moment."""

    key_id: str
    cost_usd: float
    now: datetime


class SQLSpending:
    """`Spending` on any engine that `app.adapters.sql.engine` opens.

    Charges that come while others are committed go together in the next transaction: those of one key all change one
    row, and would wait for each other's commits, each with a connection in hand. So a key's charge may wait for the
    commit of a batch that pays by another key.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._charges = Coalescer(self._charge_all, own_context=True)

    async def spent_usd(self, key_id: str, now: datetime) -> float:
        if not can_hold(key_id):
            return 0.0
        query = select(spent.cost_usd).where(spent.api_key == key_id, spent.day == day_of(now))
        async with read(self._engine) as connection:
            found: float | None = (await connection.execute(query)).scalar_one_or_none()
        return found or 0.0

    async def charge(self, key_id: str, cost_usd: float, now: datetime) -> None:
        await self._charges(Charge(key_id, cost_usd, now))

    async def close(self) -> None:
        """Waits for what is being charged, also for those who no longer wait for it."""
        await finish(self._engine, "charges", self._charges)

    async def _charge_all(self, charges: Sequence[Charge]) -> list[None]:
        days: dict[str, list[Charge]] = defaultdict(list)
        for one in charges:
            days[day_of(one.now)].append(one)
        async with write(self._engine) as connection:
            for _, of_day in sorted(days.items()):
                costs: dict[str, float] = defaultdict(float)
                for one in of_day:
                    costs[one.key_id] += one.cost_usd
                await charge_keys(connection, costs, of_day[0].now)
        return [None] * len(charges)


async def charge_keys(connection: AsyncConnection, costs: Mapping[str, float], now: datetime) -> None:
    """Adds the costs (USD) to what each key has spent on the day of `now`. Nothing is written where there are none."""
    # In one order for all, so that none waits for another in a circle.
    rows = [
        {"api_key": key_id, "day": day_of(now), "cost_usd": cost} for key_id, cost in sorted(costs.items()) if cost > 0
    ]
    if rows:
        await connection.execute(insert_or_add(connection, key_spending, spent.cost_usd), rows)


async def find_overspent(
    connection: AsyncConnection, key_id: str, default_usd: float | None, now: datetime
) -> tuple[float, float] | None:
    """What the key has spent today and may spend (USD), where that is no less; None where it may go on."""
    limit = select(api_keys.c.usd_per_day).where(api_keys.c.id == key_id).scalar_subquery()
    today = select(spent.cost_usd).where(spent.api_key == key_id, spent.day == day_of(now)).scalar_subquery()
    own, cost = (await connection.execute(select(limit, func.coalesce(today, 0.0)))).one()
    most = default_usd if own is None else own
    return None if most is None or cost < most else (cost, most)


def day_of(now: datetime) -> str:
    """The day in UTC, as 2026-01-31."""
    return now.astimezone(UTC).date().isoformat()

"""Running time: a clock that stands still while no worker is alive, so that an outage uses up no batch's deadline.

Workers sign that they live. Time between two signs counts unless it is longer than `SILENCE`: then the service was off,
the machine slept, or a clock was put forward. A clock that was put back counts nothing either.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import insert_or_ignore
from saiten_server.platform.sql.tables import running_time

SIGN = timedelta(seconds=5)
"""Between two signs of all workers together."""

SILENCE = timedelta(seconds=30)
"""The longest time without a sign that counts, and how far the clocks of workers may differ."""

ONLY = 1
"""The number of the only row."""

READ_RUNNING_TIME = select(running_time).where(running_time.c.id == ONLY)


async def read_running_time(connection: AsyncConnection, now: datetime) -> datetime:
    """The running clock's time: `now` less all time that did not count. The first look starts the clock."""
    row = (await connection.execute(READ_RUNNING_TIME)).one_or_none()
    if row is None:
        await start_clock(connection, now)
        return now
    return tell_time(row, now)


async def start_clock(connection: AsyncConnection, now: datetime) -> None:
    """Starts the running clock, unless it runs."""
    first = {"id": ONLY, "seen_at": now, "skipped_seconds": 0.0}
    await connection.execute(insert_or_ignore(connection, running_time), first)


def tell_time(row: Row[Any], now: datetime) -> datetime:
    """The running clock's time at `now`, after the last sign."""
    since: timedelta = now - row.seen_at
    counted = since if abs(since) <= SILENCE else timedelta()
    time: datetime = row.seen_at + counted - timedelta(seconds=row.skipped_seconds)
    return time


async def sign(engine: AsyncEngine, now: datetime) -> datetime:
    """Signs that a worker is alive, unless one has just done so. Returns the running clock's time."""
    row = await db.fetch_one(engine, READ_RUNNING_TIME)
    if row is None or not is_fresh(row, now):
        async with db.change(engine) as connection:
            await start_clock(connection, now)
            row = (await connection.execute(READ_RUNNING_TIME.with_for_update())).one()
            if not is_fresh(row, now):
                skipped = (now - tell_time(row, now)).total_seconds()
                signed = update(running_time).where(running_time.c.id == ONLY)
                await connection.execute(signed.values(seen_at=now, skipped_seconds=skipped))
    return tell_time(row, now)


def is_fresh(row: Row[Any], now: datetime) -> bool:
    """Whether the last sign is recent. One from the near future is another worker's, whose clock is ahead."""
    since: timedelta = now - row.seen_at
    return -SILENCE <= since < SIGN

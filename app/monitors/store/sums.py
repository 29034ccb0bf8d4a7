"""What alarms are judged by: sums of every measure, by day and slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten_server.monitors.store.tables import monitor_sums
from saiten_server.monitors.values import Span, StoredMonitor
from saiten_server.platform.sql.engine import insert_into

if TYPE_CHECKING:
    from saiten_server.stats.observations import Floats

SLOTS: Mapping[Span, int] = {"hour": 24, "day": 7}
"""Hours of a day, or days of a week: what is compared with itself."""

SUM_COLUMNS = ("n", "wy", "wk", "wwyy", "wwyk", "wwkk")

own = monitor_sums.c


class Counted(NamedTuple):
    """A measure of one conversation: its value, the size that it is of, and its weight."""

    measure: str
    day: int
    slot: int
    value: float
    size: float
    weight: float


def slot_of(span: Span, at: datetime) -> tuple[int, int]:
    """The day, as an ordinal, and the slot of a moment, in UTC."""
    moment = at.astimezone(UTC)
    return moment.toordinal(), moment.hour if span == "hour" else moment.weekday()


async def add_sums(connection: AsyncConnection, stored: StoredMonitor, counted: Sequence[Counted]) -> None:
    """Adds these to the monitor's sums. The caller has locked the monitor."""
    rows: dict[tuple[str, int, int], list[float]] = {}
    for one in counted:
        y, k = one.weight * one.value, one.weight * one.size
        sums = rows.setdefault((one.measure, one.day, one.slot), [0.0] * len(SUM_COLUMNS))
        for place, value in enumerate((1.0, y, k, y * y, y * k, k * k)):
            sums[place] += value
    if not rows:
        return
    into = insert_into(connection, monitor_sums)
    added = {name: own[name] + into.excluded[name] for name in SUM_COLUMNS}
    statement = into.on_conflict_do_update(index_elements=[*monitor_sums.primary_key], set_=added)
    mine = {"monitor_id": stored.monitor.id, "epoch": stored.epoch}
    await connection.execute(
        statement,
        [
            {**mine, "measure": measure, "day": day, "slot": slot, **dict(zip(SUM_COLUMNS, sums, strict=True))}
            for (measure, day, slot), sums in sorted(rows.items())
        ],
    )


async def read_reference(
    connection: AsyncConnection, stored: StoredMonitor, first: int, days: int
) -> Mapping[str, Floats]:
    """By measure the sums of the reference, shape (slots, sums)."""
    import numpy as np

    sums = [func.sum(own[name]) for name in SUM_COLUMNS]
    mine = (own.monitor_id == stored.monitor.id, own.epoch == stored.epoch, own.day >= first, own.day < first + days)
    found: dict[str, Floats] = {}
    for row in await connection.execute(
        select(own.measure, own.slot, *sums).where(*mine).group_by(own.measure, own.slot)
    ):
        table = found.setdefault(row[0], np.zeros((SLOTS[stored.options.window], len(SUM_COLUMNS))))
        table[row[1]] = row[2:]
    return found


async def read_days(connection: AsyncConnection, stored: StoredMonitor, first: int, last: int) -> Mapping[str, Floats]:
    """By measure the sums of the days from `first` to `last`, shape (days, slots, sums)."""
    import numpy as np

    mine = (own.monitor_id == stored.monitor.id, own.epoch == stored.epoch, own.day >= first, own.day <= last)
    shape = (max(0, last - first + 1), SLOTS[stored.options.window], len(SUM_COLUMNS))
    found: dict[str, Floats] = {}
    columns = [own[name] for name in SUM_COLUMNS]
    for row in await connection.execute(select(own.measure, own.day, own.slot, *columns).where(*mine)):
        table = found.setdefault(row[0], np.zeros(shape))
        table[row[1] - first, row[2]] = row[3:]
    return found

"""What every part of the batch store stands on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.batches.texts import read_options

ACTIVE = ("queued", "running")
"""Statuses of a batch that is worked on."""

RECEIVING = "receiving"
"""The status of a batch that was begun and not accepted: nobody sees it."""

ROWS = 1000
"""Rows of one statement, where there are many: 31,000 to 49,000 rows a second on SQLite."""


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def whole_seconds(batch: Row[Any]) -> float:
    """The running time that the batch of a row has in all, in seconds."""
    return 3600.0 * read_options(batch.options).running_hours


class StorePart:
    """The engine and the clock. `window` is how many chunks of all batches together are queued or leased at a time,
    `usd_per_day` what a key may cost a day (UTC) that has no limit of its own, None for any.

    Processes that share a PostgreSQL share their leases: their clocks have to agree to a fraction of a lease.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        window: int = 24,
        usd_per_day: float | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._engine = engine
        self._window = window
        self._usd_per_day = usd_per_day
        self._clock = clock

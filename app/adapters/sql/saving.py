"""Group commit: evaluations that are saved at the same moment share one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import finish, write
from app.adapters.sql.tables import evaluations
from app.coalescing import Coalescer
from app.domain.errors import StoreError, StoreUnavailable

Row = Mapping[str, Any]
"""Values by the columns of `evaluations`; of all rows the same columns."""

MOST_ROWS = 64
"""Of one transaction. A row is some 6 kB, and a few hundred kB at most."""

LINGER_SECONDS = 0.008
"""A transaction costs a millisecond of CPU whatever it holds: while several save at once, a dozen share one."""


class Saving:
    """Writes rows of `evaluations`, for the tasks of one event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._rows = Coalescer(self._write, most=MOST_ROWS, linger_seconds=LINGER_SECONDS, company=2, own_context=True)

    async def save(self, row: Row) -> None:
        """Returns when the row is committed. Raises the `Store…` errors.

        Whoever is cancelled meanwhile takes nothing from the others; the row may be written all the same.
        """
        error = await self._rows(row)
        if error is not None:
            raise error

    async def close(self) -> None:
        """Waits for what is being written, also for those who no longer wait for it."""
        await finish(self._engine, "evaluations", self._rows)

    async def _write(self, rows: Sequence[Row]) -> list[StoreError | ValueError | None]:
        """What became of each row."""
        try:
            await self._insert(rows)
        except StoreUnavailable as error:
            # Nobody's own fault, and nobody would fare better alone.
            return [error] * len(rows)
        except (StoreError, ValueError) as error:
            # ValueError: a text that SQLite's driver cannot encode. It is one row's own, and the others are as good as
            # without it; no space may be left for one and suffice for the others.
            return [error] if len(rows) == 1 else [found for row in rows for found in await self._write([row])]
        return [None] * len(rows)

    async def _insert(self, rows: Sequence[Row]) -> None:
        async with write(self._engine) as connection:
            await connection.execute(insert(evaluations), rows)

"""The notes of calls whose replies are to leave the call cache."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from saiten_server.platform.sql.engine import cut_pieces, insert_or_ignore
from saiten_server.platform.sql.tables import erased_calls

NOTED_AT_ONCE = 1000


async def note_erased_calls(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Notes these keys of the call cache. They are sorted, so that two transactions that note the same ones cannot
    deadlock."""
    statement = insert_or_ignore(connection, erased_calls)
    for some in cut_pieces(sorted(keys), NOTED_AT_ONCE):
        rows: list[dict[str, Any]] = [{"key": key} for key in some]
        await connection.execute(statement, rows)

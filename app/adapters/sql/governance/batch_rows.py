"""What erasing and redacting have in common: the calls that they owe, and who still works on a batch."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Exists, Insert, exists
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.part import ROWS
from app.adapters.sql.store import insert_or_ignore
from app.adapters.sql.tables import batch_chunks, batches, erased_calls


async def owe_calls(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Notes calls whose replies are to leave the cache, sorted: two who note the same do not wait for each other."""
    ordered = sorted(keys)
    statement: Insert = insert_or_ignore(connection, erased_calls)
    for start in range(0, len(ordered), ROWS):
        rows: list[dict[str, Any]] = [{"key": key} for key in ordered[start : start + ROWS]]
        await connection.execute(statement, rows)


def held_now(now: datetime) -> Exists:
    """Whether a worker holds a chunk of the batch of the outer query."""
    chunk = batch_chunks.c
    return exists().where(chunk.batch_id == batches.c.id, chunk.state == "leased", chunk.lease_until >= now)

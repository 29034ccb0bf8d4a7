"""Whoever changes a project's ratings takes turns."""

from __future__ import annotations

import hashlib

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.engine import file_of

TURNS = 7_236_147
"""Any number that no other program on the database uses with two: whoever changes a project's ratings takes turns."""


async def take_turn(connection: AsyncConnection, project: str) -> None:
    """Waits until nobody else changes the project's ratings, to the end of the transaction.

    So a rating is never seen before one with a smaller number, and two who replace the same do not collide. SQLite has
    one writer at a time as it is.
    """
    if file_of(connection.engine) is None:
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:4], signed=True)
        await connection.execute(select(func.pg_advisory_xact_lock(TURNS, number)))

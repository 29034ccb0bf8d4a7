"""`CallCache` in SQL and in memory. A cache may forget at any time, so its trouble is a miss, never an error."""

from __future__ import annotations

import logging
from collections import OrderedDict
from datetime import UTC, datetime

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import read, write
from app.adapters.sql.store import insert_or_ignore
from app.adapters.sql.tables import call_cache, can_hold
from app.domain.errors import StoreError

logger = logging.getLogger("saiten.cache")

PRUNED_EVERY = 1000
"""Writes between two counts of the table: counting is the only expensive part of keeping it bounded."""


class SQLCallCache:
    """Keeps at most about `entries` replies of at most `value_bytes` each, the oldest going first."""

    def __init__(self, engine: AsyncEngine, *, entries: int = 200_000, value_bytes: int = 256 * 1024) -> None:
        self._engine = engine
        self._entries = entries
        self._value_bytes = value_bytes
        self._writes = 0

    async def get(self, key: str) -> bytes | None:
        if not can_hold(key):
            return None
        try:
            async with read(self._engine) as connection:
                query = select(call_cache.c.value).where(call_cache.c.key == key)
                return (await connection.execute(query)).scalar_one_or_none()
        except StoreError as error:
            logger.warning("cache read failed: %s", error.detail)
            return None

    async def put(self, key: str, value: bytes) -> None:
        if len(value) > self._value_bytes or not can_hold(key):
            return
        row = {"key": key, "value": value, "created_at": datetime.now(UTC)}
        self._writes += 1
        try:
            async with write(self._engine) as connection:
                # Replaced rather than ignored: what stands there was refused by its reader (poisoned or truncated).
                await connection.execute(delete(call_cache).where(call_cache.c.key == key))
                await connection.execute(insert_or_ignore(connection, call_cache, row))
            if self._writes % PRUNED_EVERY == 0:
                await self.prune()
        except StoreError as error:
            logger.warning("cache write failed: %s", error.detail)

    async def prune(self) -> None:
        """Drops the oldest entries beyond the bound."""
        async with write(self._engine) as connection:
            count = (await connection.execute(select(func.count()).select_from(call_cache))).scalar_one()
            if count > self._entries:
                oldest = select(call_cache.c.key).order_by(call_cache.c.created_at).limit(count - self._entries)
                await connection.execute(delete(call_cache).where(call_cache.c.key.in_(oldest)))


class MemoryCallCache:
    """Keeps the `entries` most recently used replies in this process, of `total_bytes` together at most."""

    def __init__(self, *, entries: int = 200_000, total_bytes: int = 512 * 1024 * 1024) -> None:
        self._entries = entries
        self._total_bytes = total_bytes
        self._held_bytes = 0
        self._values: OrderedDict[str, bytes] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    async def put(self, key: str, value: bytes) -> None:
        self._held_bytes += len(value) - len(self._values.pop(key, b""))
        self._values[key] = value
        while len(self._values) > self._entries or self._held_bytes > self._total_bytes:
            _, dropped = self._values.popitem(last=False)
            self._held_bytes -= len(dropped)


class NoCallCache:
    """Forgets everything at once."""

    async def get(self, key: str) -> bytes | None:
        return None

    async def put(self, key: str, value: bytes) -> None:
        return None

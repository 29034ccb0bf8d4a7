"""`CallCache` in SQL. A cache may forget at any time, so its trouble is a miss, never an error."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreError
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import call_cache, can_store

logger = logging.getLogger("saiten.cache")

PRUNED_EVERY = 1000
"""Writes between two counts of the table: counting is the only expensive part of keeping it bounded."""

MOST_KEYS = 512
"""Of one statement, a power of two. SQLite before 3.32 takes 999 variables."""

LONGEST_KEY = 128

CACHE_LINGER_SECONDS = 0.02
"""A statement costs a millisecond of CPU, whatever it holds: under load, a dozen calls share one."""


class SQLCallCache(CallCache):
    """Keeps at most about `entries` replies of at most `value_bytes` each, the oldest going first. Reads that come
    together are one statement, writes that come together one transaction. `put` returns when the reply is committed."""

    def __init__(self, engine: AsyncEngine, *, entries: int = 200_000, value_bytes: int = 256 * 1024) -> None:
        self._engine = engine
        self._entries = entries
        self._value_bytes = value_bytes
        self._writes = 0
        self._gets = Coalescer(self._read, most=MOST_KEYS, linger_seconds=CACHE_LINGER_SECONDS)
        self._puts = Coalescer(self._write, most=MOST_KEYS, linger_seconds=CACHE_LINGER_SECONDS)

    async def get(self, key: str) -> bytes | None:
        return await self._gets(key) if can_keep(key) else None

    async def put(self, key: str, value: bytes) -> None:
        if len(value) <= self._value_bytes and can_keep(key):
            await self._puts((key, value))

    async def forget(self, keys: Sequence[str]) -> None:
        # After what is being written: it would come back otherwise.
        await self._puts(None)
        known = [key for key in keys if can_keep(key)]
        for start in range(0, len(known), MOST_KEYS):
            chunk = pad(known[start : start + MOST_KEYS])
            # A transaction each, so that others can write in between.
            await db.execute(self._engine, delete(call_cache).where(call_cache.c.key.in_(chunk)))
        if known and not await db.scrub(self._engine):
            logger.warning("another process reads the database; what was erased stays in its log until it is rewritten")

    async def close(self) -> None:
        await db.finish(self._engine, "cached replies", self._gets, self._puts)

    async def prune(self) -> None:
        """Drops the oldest entries beyond the bound."""
        async with db.write(self._engine) as connection:
            count = (await connection.execute(select(func.count()).select_from(call_cache))).scalar_one()
            if count > self._entries:
                oldest = select(call_cache.c.key).order_by(call_cache.c.created_at).limit(count - self._entries)
                await connection.execute(delete(call_cache).where(call_cache.c.key.in_(oldest)))

    async def _read(self, keys: Sequence[str]) -> list[bytes | None]:
        query = select(call_cache.c.key, call_cache.c.value).where(call_cache.c.key.in_(pad(keys)))
        try:
            found = {row.key: row.value for row in await db.fetch(self._engine, query)}
        except StoreError as error:
            logger.warning("cache read failed: %s", error.detail)
            found = {}
        return [found.get(key) for key in keys]

    async def _write(self, entries: Sequence[tuple[str, bytes] | None]) -> list[None]:
        now, last = datetime.now(UTC), dict(filter(None, entries))
        # Sorted: two processes that write the same keys lock them in the same order.
        rows = [{"key": key, "value": value, "created_at": now} for key, value in sorted(last.items())]
        try:
            if rows:
                await self._replace(rows)
        except StoreError as error:
            logger.warning("cache write failed: %s", error.detail)
        return [None] * len(entries)

    async def _replace(self, rows: list[dict[str, object]]) -> None:
        await db.execute(self._engine, db.insert_or_replace(self._engine, call_cache), rows)
        self._writes += len(rows)
        if self._writes >= PRUNED_EVERY:
            self._writes = 0
            await self.prune()


def can_keep(key: str) -> bool:
    """Whether the table's key column takes it."""
    return len(key) <= LONGEST_KEY and can_store(key)


def pad(keys: Sequence[str]) -> list[str]:
    """The keys, the last one repeated up to a power of two: a handful of statements, which databases have prepared."""
    length = 1 << (len(keys) - 1).bit_length()
    return [*keys, *[keys[-1]] * (length - len(keys))]

"""One suite for every `CallCache`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.adapters.sql.cache import MemoryCallCache, NoCallCache, SQLCallCache
from app.adapters.sql.engine import migrate, open_engine
from app.ports import CallCache


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str | None:
    """The database's URL; None for the one in memory."""
    return None if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def cache(backend: str | None) -> AsyncIterator[CallCache]:
    if backend is None:
        yield MemoryCallCache(entries=3)
        return
    engine = open_engine(backend)
    await migrate(engine)
    yield SQLCallCache(engine, entries=3, value_bytes=100)
    await engine.dispose()


async def test_what_was_put_comes_back(cache: CallCache) -> None:
    assert await cache.get("k") is None
    await cache.put("k", b"\x00one")
    assert await cache.get("k") == b"\x00one"


async def test_a_later_value_replaces_an_earlier_one(cache: CallCache) -> None:
    await cache.put("k", b"one")
    await cache.put("k", b"two")
    assert await cache.get("k") == b"two"


async def test_a_key_that_no_column_can_hold_is_a_miss(cache: CallCache) -> None:
    assert await cache.get("k\0") is None
    assert await cache.get("\ud800") is None


async def test_it_stays_bounded(cache: CallCache) -> None:
    for position in range(6):
        await cache.put(f"k{position}", b"v")
    if isinstance(cache, SQLCallCache):
        await cache.prune()
    kept = [position for position in range(6) if await cache.get(f"k{position}") is not None]
    assert kept == [3, 4, 5]


async def test_sql_leaves_out_what_is_too_large(engine) -> None:
    cache = SQLCallCache(engine, value_bytes=4)
    await cache.put("small", b"1234")
    await cache.put("large", b"12345")
    assert await cache.get("small") == b"1234"
    assert await cache.get("large") is None


async def test_memory_is_bounded_in_bytes_too() -> None:
    cache = MemoryCallCache(entries=9, total_bytes=5)
    await cache.put("a", b"12")
    await cache.put("b", b"345")
    assert (await cache.get("a"), await cache.get("b")) == (b"12", b"345")
    await cache.put("b", b"34")  # 2 + 2: the replaced value no longer counts
    await cache.put("c", b"6")  # 2 + 2 + 1 = 5
    assert await cache.get("a") == b"12"
    await cache.put("d", b"7")  # 6 > 5: b has gone unused for longest
    assert [await cache.get(key) for key in "abcd"] == [b"12", None, b"6", b"7"]


async def test_a_database_that_is_gone_is_a_miss_not_an_error() -> None:
    engine = open_engine("postgresql+asyncpg://nobody@127.0.0.1:1/none")
    cache = SQLCallCache(engine)
    await cache.put("k", b"v")
    assert await cache.get("k") is None
    await engine.dispose()


async def test_no_cache_forgets() -> None:
    cache = NoCallCache()
    await cache.put("k", b"v")
    assert await cache.get("k") is None

"""One suite for every `CallCache`, and what each keeps to besides."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis
from sqlalchemy import event

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.memory_cache import CallCache, Caller, MemoryCallCache, NearCallCache, NoCallCache
from saiten_server.platform.redis.cache import RedisCallCache
from saiten_server.platform.sql.cache import SQLCallCache
from saiten_server.platform.sql.engine import open_engine
from tests.support.dict_cache import DictCache

IN_PROCESS: dict[str, Callable[[], CallCache]] = {
    "dict": DictCache,
    "memory": MemoryCallCache,
    "near": lambda: NearCallCache(DictCache()),
}
UNREACHABLE = "postgresql+asyncpg://nobody@127.0.0.1:1/none"


@pytest.fixture(params=["dict", "memory", "near", "sqlite", "postgres", "redis"])
async def cache(request: pytest.FixtureRequest, find_backend: Callable[[str], str]) -> AsyncIterator[CallCache]:
    if request.param in IN_PROCESS:
        yield IN_PROCESS[request.param]()
    elif request.param == "redis":
        async with Redis.from_url(find_backend("redis_url")) as client:
            made = RedisCallCache(client)
            yield made
            await made.close()
    else:
        engine = open_engine(find_backend(f"{request.param}_url"))
        kept = SQLCallCache(engine)
        yield kept
        await kept.close()
        await engine.dispose()


@pytest.fixture
def find_backend(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Starts a server only for those that need it."""
    urls = {name: request.getfixturevalue(name) for name in needed(request)}
    return lambda name: urls[name]


def needed(request: pytest.FixtureRequest) -> list[str]:
    kind = request.node.callspec.params["cache"]
    return [] if kind in IN_PROCESS else [f"{kind}_url"]


async def test_what_was_put_comes_back(cache: CallCache) -> None:
    assert await cache.get("k") is None
    await cache.put("k", b"\x00one")
    assert await cache.get("k") == b"\x00one"
    assert await cache.get("l") is None


async def test_what_can_be_told_without_waiting_is_what_is_kept(cache: CallCache) -> None:
    assert cache.peek("k") is None
    await cache.put("k", b"one")
    await cache.get("k")
    assert cache.peek("k") in {None, b"one"}
    await cache.put("k", b"two")
    assert cache.peek("k") in {None, b"two"}
    await cache.forget(["k"])
    assert cache.peek("k") is None


async def test_a_later_value_replaces_an_earlier_one(cache: CallCache) -> None:
    await cache.put("k", b"one")
    await cache.put("k", b"two")
    assert await cache.get("k") == b"two"


async def test_puts_and_gets_that_come_together_each_find_their_own(cache: CallCache) -> None:
    # More than any adapter asks for at once.
    entries = {f"k{number}": str(number).encode() for number in range(1100)}
    await asyncio.gather(*(cache.put(key, value) for key, value in entries.items()))
    assert await asyncio.gather(*map(cache.get, entries)) == [*entries.values()]
    assert [*await asyncio.gather(cache.get("k7"), cache.get("none"), cache.get("k7"))] == [b"7", None, b"7"]


async def test_of_puts_of_one_key_that_come_together_the_last_one_stays(cache: CallCache) -> None:
    await asyncio.gather(*(cache.put("k", str(number).encode()) for number in range(5)))
    assert await cache.get("k") == b"4"


async def test_a_key_that_no_column_can_hold_is_a_miss(cache: CallCache) -> None:
    assert await cache.get("k\0") is None
    assert await cache.get("\ud800") is None
    assert await cache.get("k" * 1000) is None


async def test_a_key_that_no_column_can_hold_spoils_no_other(cache: CallCache) -> None:
    await asyncio.gather(*(cache.put(key, b"v") for key in ("k\0", "\ud800", "k" * 1000, "good")))
    assert await cache.get("good") == b"v"


async def test_a_claim_gives_the_reply_or_the_turn(cache: CallCache) -> None:
    assert await cache.claim("k") is Caller.CALL
    await cache.put("k", b"one")
    assert await cache.claim("k") == b"one"


async def test_whoever_left_may_claim_again(cache: CallCache) -> None:
    assert await cache.claim("k") is Caller.CALL
    await cache.leave("k")
    assert await cache.claim("k") is Caller.CALL


@pytest.mark.parametrize("poison", [b"", b"bad"])
async def test_a_refused_entry_counts_as_none_until_it_is_replaced(cache: CallCache, poison: bytes) -> None:
    await cache.put("k", poison)
    assert await cache.claim("k") == poison
    assert await cache.claim("k", refused=poison) is Caller.CALL
    await cache.put("k", b"good")
    assert await cache.claim("k", refused=poison) == b"good"


async def test_what_is_forgotten_is_gone_and_the_rest_stays(cache: CallCache) -> None:
    keys = [f"k{number}" for number in range(1100)]
    await asyncio.gather(*(cache.put(key, b"v") for key in [*keys, "other"]))
    await cache.forget([*keys, "never put", "k\0"])
    assert await asyncio.gather(*map(cache.get, keys)) == [None] * 1100
    assert await cache.get("other") == b"v"
    await cache.forget([])


async def test_what_was_being_put_is_forgotten_too(cache: CallCache) -> None:
    puts = [asyncio.create_task(cache.put(f"k{number}", b"v")) for number in range(300)]
    await asyncio.sleep(0)
    await cache.forget([f"k{number}" for number in range(300)])
    await asyncio.gather(*puts)
    assert await asyncio.gather(*(cache.get(f"k{number}") for number in range(300))) == [None] * 300


async def test_memory_forgets_what_has_gone_unused_for_longest() -> None:
    cache = MemoryCallCache(entries=3)
    for position in range(6):
        await cache.put(f"k{position}", b"v")
    assert [position for position in range(6) if await cache.get(f"k{position}") is not None] == [3, 4, 5]


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
    await cache.forget(["a"])
    await cache.put("e", b"89")  # 1 + 1 + 2: what was forgotten no longer counts
    assert [await cache.get(key) for key in "cde"] == [b"6", b"7", b"89"]


async def test_no_cache_forgets() -> None:
    cache = NoCallCache()
    await cache.put("k", b"v")
    assert await cache.get("k") is None
    assert await cache.claim("k") is Caller.CALL
    await cache.leave("k")
    await cache.forget(["k"])
    await cache.close()


async def test_sql_stays_bounded(engine) -> None:
    cache = SQLCallCache(engine, entries=3)
    for position in range(6):
        await cache.put(f"k{position}", b"v")
    await cache.prune()
    assert [position for position in range(6) if await cache.get(f"k{position}") is not None] == [3, 4, 5]


async def test_sql_prunes_by_itself(engine, monkeypatch) -> None:
    monkeypatch.setattr("saiten_server.platform.sql.cache.PRUNED_EVERY", 4)
    cache = SQLCallCache(engine, entries=2)
    for position in range(4):
        await cache.put(f"k{position}", b"v")
    assert [position for position in range(4) if await cache.get(f"k{position}") is not None] == [2, 3]


async def test_sql_leaves_out_what_is_too_large(engine) -> None:
    cache = SQLCallCache(engine, value_bytes=4)
    await cache.put("small", b"1234")
    await cache.put("large", b"12345")
    assert await cache.get("small") == b"1234"
    assert await cache.get("large") is None


async def test_sql_asks_once_for_what_comes_together(engine) -> None:
    cache = SQLCallCache(engine)
    statements: list[str] = []
    commits: list[object] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: statements.append(told[2].split()[0]))
    event.listen(engine.sync_engine, "commit", commits.append)
    await asyncio.gather(*(cache.put(f"k{number}", b"v") for number in range(300)))
    assert (statements, len(commits)) == (["INSERT"], 1)
    assert await asyncio.gather(*(cache.get(f"k{number}") for number in range(300))) == [b"v"] * 300
    assert statements == ["INSERT", "SELECT"]


async def test_sql_puts_are_committed_when_they_return(engine) -> None:
    await SQLCallCache(engine).put("k", b"v")
    other = open_engine(engine.url.render_as_string(hide_password=False))
    assert await SQLCallCache(other).get("k") == b"v"
    await other.dispose()


async def test_two_processes_that_put_the_same_keys_do_not_block_each_other(engine, caplog) -> None:
    other = open_engine(engine.url.render_as_string(hide_password=False))
    keys = [f"k{number}" for number in range(200)]
    one, two = SQLCallCache(engine), SQLCallCache(other)
    for _ in range(5):
        await asyncio.gather(*(one.put(key, b"one") for key in keys), *(two.put(key, b"two") for key in reversed(keys)))
    assert set(await asyncio.gather(*map(one.get, keys))) <= {b"one", b"two"}
    assert caplog.records == []  # a deadlock would be a warning, and a lost reply
    await other.dispose()


async def test_a_database_that_is_gone_is_a_miss_not_an_error() -> None:
    engine = open_engine(UNREACHABLE)
    cache = SQLCallCache(engine)
    await cache.put("k", b"v")
    assert await cache.get("k") is None
    assert await cache.claim("k") is Caller.CALL
    await cache.leave("k")
    await engine.dispose()


async def test_an_erasure_that_a_database_did_not_make_is_told() -> None:
    engine = open_engine(UNREACHABLE)
    with pytest.raises(StoreUnavailable):
        await SQLCallCache(engine).forget(["k"])
    await engine.dispose()

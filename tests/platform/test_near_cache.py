"""What the short memory in front of a call cache holds, for how long, and what it lets go of at once."""

import asyncio
from collections.abc import Sequence

import pytest

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.memory_cache import Caller, NearCallCache
from tests.support.dict_cache import DictCache, FakeTime
from tests.support.faults import words


class Behind(DictCache):
    """Counts what it is asked, and holds reads up after they have looked, while `go` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.go = asyncio.Event()
        self.go.set()
        self.fails = False

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        found = await super().get(key)
        await self.go.wait()
        return found

    async def forget(self, keys: Sequence[str]) -> None:
        if self.fails:
            raise StoreUnavailable(words("gone"))
        await super().forget(keys)


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def cache(behind: Behind, time: FakeTime) -> NearCallCache:
    return NearCallCache(behind, entries=3, total_bytes=10, seconds=15.0, clock=time.clock)


async def test_what_was_read_is_not_asked_for_again(cache: NearCallCache, behind: Behind) -> None:
    behind.entries["k"] = b"v"
    assert cache.peek("k") is None
    assert await cache.claim("k") == b"v"
    assert (await cache.claim("k"), await cache.get("k"), cache.peek("k")) == (b"v", b"v", b"v")
    assert behind.asked == 1


async def test_a_miss_is_not_remembered(cache: NearCallCache, behind: Behind) -> None:
    assert await cache.claim("k") is Caller.CALL
    behind.entries["k"] = b"v"  # another process
    assert await cache.claim("k") == b"v"


async def test_it_is_asked_for_again_in_time(cache: NearCallCache, behind: Behind, time: FakeTime) -> None:
    behind.entries["k"] = b"v"
    await cache.get("k")
    time.now += 10
    assert await cache.get("k") == b"v"
    del behind.entries["k"]  # another process's erasure
    time.now += 4.9
    assert await cache.get("k") == b"v"
    time.now += 0.1  # 15 s after it was read: being asked for keeps nothing alive
    assert (cache.peek("k"), await cache.get("k")) == (None, None)


async def test_the_time_runs_from_when_it_was_asked_for(cache: NearCallCache, behind: Behind, time: FakeTime) -> None:
    behind.entries["k"] = b"v"
    behind.go.clear()
    reading = asyncio.create_task(cache.get("k"))
    await asyncio.sleep(0.01)
    time.now += 14
    behind.go.set()
    assert await reading == b"v"
    time.now += 1
    assert cache.peek("k") is None


async def test_a_refused_reply_is_asked_for_behind(cache: NearCallCache, behind: Behind) -> None:
    behind.entries["k"] = b"bad"
    assert await cache.claim("k") == b"bad"
    assert await cache.claim("k", refused=b"bad") is Caller.CALL
    behind.entries["k"] = b"good"  # another process has made the call
    assert await cache.claim("k", refused=b"bad") == b"good"
    assert cache.peek("k") == b"good"


async def test_what_is_put_takes_the_place_of_what_was_held(cache: NearCallCache, behind: Behind) -> None:
    behind.entries["k"] = b"old"
    await cache.get("k")
    await cache.put("k", b"new")
    assert await cache.get("k") == b"new"


async def test_what_is_forgotten_is_gone_at_once_even_where_that_fails_behind(
    cache: NearCallCache, behind: Behind
) -> None:
    behind.entries |= {"k": b"v", "l": b"w"}
    await cache.get("k")
    await cache.get("l")
    behind.fails = True
    with pytest.raises(StoreUnavailable):
        await cache.forget(["k"])
    assert (cache.peek("k"), cache.peek("l")) == (None, b"w")


async def test_what_was_being_read_while_it_was_forgotten_is_not_held(cache: NearCallCache, behind: Behind) -> None:
    behind.entries["k"] = b"v"
    behind.go.clear()
    reading = asyncio.create_task(cache.claim("k"))
    await asyncio.sleep(0.01)
    await cache.forget(["k"])
    behind.go.set()
    assert await reading == b"v"  # it had been read before the erasure
    assert cache.peek("k") is None


async def test_it_is_bounded_and_what_was_read_first_goes_first(cache: NearCallCache, behind: Behind) -> None:
    behind.entries |= dict.fromkeys("abcd", b"12")
    for key in "abcad":
        await cache.get(key)
    assert [key for key in "abcd" if cache.peek(key)] == ["b", "c", "d"]
    behind.entries["e"] = b"1234567"
    await cache.get("e")  # 7 + 2 + 2 > 10: one of them stays
    assert [key for key in "bcde" if cache.peek(key)] == ["d", "e"]


async def test_what_nobody_asks_for_any_more_leaves_the_memory(behind: Behind, time: FakeTime) -> None:
    cache = NearCallCache(behind, seconds=0.01, clock=time.clock)
    behind.entries |= {"old": b"v", "young": b"w"}
    await cache.get("old")
    time.now += 0.008
    await cache.get("young")
    time.now += 0.004
    await asyncio.sleep(0.05)  # some sweeps
    assert (cache.entry_count, cache.peek("young")) == (1, b"w")
    time.now += 0.01
    await asyncio.sleep(0.05)
    assert cache.entry_count == 0
    behind.entries["later"] = b"x"
    await cache.get("later")
    time.now += 0.01
    await asyncio.sleep(0.05)
    assert cache.entry_count == 0


async def test_closing_lets_everything_go(cache: NearCallCache, behind: Behind) -> None:
    behind.entries["k"] = b"v"
    await cache.get("k")
    await cache.close()
    assert cache.peek("k") is None

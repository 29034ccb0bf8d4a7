"""For how long a value is told without being read, who reads it anew, and what a change does."""

import asyncio

import pytest

from saiten_server.platform.memory_cache import RecentValues
from tests.support.dict_cache import FakeTime


class Source:
    """Values by name; counts reads, and holds them up after they have looked while `go` is not set."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {"a": 1}
        self.reads = 0
        self.go = asyncio.Event()
        self.go.set()

    async def read(self, name: str) -> int:
        self.reads += 1
        value = self.values[name]
        await self.go.wait()
        return value


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def known(source: Source, time: FakeTime) -> RecentValues[str, int]:
    return RecentValues(source.read, seconds=10.0, most=3, clock=time.clock)


async def test_a_value_is_read_once_in_its_time(known: RecentValues[str, int], source: Source, time: FakeTime) -> None:
    assert await known.get("a") == 1
    source.values["a"] = 2
    time.now += 8.9
    assert await known.get("a") == 1
    time.now += 0.2
    assert await known.get("a") == 2
    assert source.reads == 2


async def test_one_reads_it_anew_and_the_others_go_on_with_it_until_its_end(
    known: RecentValues[str, int], source: Source, time: FakeTime
) -> None:
    await known.get("a")
    source.values["a"] = 2
    time.now += 9.5
    source.go.clear()
    renewing = asyncio.create_task(known.get("a"))
    await asyncio.sleep(0)
    assert [await known.get("a") for _ in range(3)] == [1, 1, 1]
    assert source.reads == 2
    time.now += 0.5  # too old for anybody, however long the source takes
    late = asyncio.create_task(known.get("a"))
    await asyncio.sleep(0)
    assert not late.done()
    source.go.set()
    assert (await renewing, await late) == (2, 2)


async def test_its_time_runs_from_when_it_was_asked_for(
    known: RecentValues[str, int], source: Source, time: FakeTime
) -> None:
    source.go.clear()
    reading = asyncio.create_task(known.get("a"))
    await asyncio.sleep(0)
    time.now += 10
    source.go.set()
    await reading
    await known.get("a")
    assert source.reads == 2


async def test_an_error_is_told_and_not_remembered(
    known: RecentValues[str, int], source: Source, time: FakeTime
) -> None:
    await known.get("a")
    gone = source.values.pop("a")
    time.now += 9.5
    for _ in range(2):  # nobody is left to renew it after the first
        with pytest.raises(KeyError):
            await known.get("a")
    source.values["a"] = gone
    assert await known.get("a") == gone


async def test_a_change_is_seen_at_once(known: RecentValues[str, int], source: Source) -> None:
    await known.get("a")
    source.values["a"] = 2
    known.forget("a")
    assert await known.get("a") == 2


async def test_what_was_being_read_during_a_change_is_not_remembered(
    known: RecentValues[str, int], source: Source
) -> None:
    source.go.clear()
    reading = asyncio.create_task(known.get("a"))
    await asyncio.sleep(0)
    source.values["a"] = 2
    known.forget("a")
    source.go.set()
    assert await reading == 1
    assert await known.get("a") == 2


async def test_keys_are_bounded(known: RecentValues[str, int], source: Source) -> None:
    source.values |= dict.fromkeys("bcd", 0)
    for name in "abcd":
        await known.get(name)
    await known.get("d")
    assert source.reads == 4
    await known.get("a")
    assert source.reads == 5

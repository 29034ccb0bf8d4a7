"""Single flight, sound entries and callers that go away."""

from __future__ import annotations

import asyncio

import pytest

from app.call_cache import CachedCalls
from tests.support.dict_cache import DictCache
from tests.support.fake_telemetry import FakeTelemetry


class Maker:
    """Counts its calls; waits for `go` before it answers, where it is told to."""

    def __init__(self, *replies: bytes | Exception, wait: bool = False) -> None:
        self.replies = list(replies)
        self.calls = 0
        self.cancelled = 0
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        if not wait:
            self.go.set()

    async def __call__(self) -> bytes:
        self.calls += 1
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def is_sound(reply: bytes) -> bool:
    return reply.startswith(b"good")


@pytest.fixture
def cache() -> DictCache:
    return DictCache()


@pytest.fixture
def telemetry() -> FakeTelemetry:
    return FakeTelemetry()


@pytest.fixture
def calls(cache: DictCache, telemetry: FakeTelemetry) -> CachedCalls:
    return CachedCalls(cache, telemetry)


async def test_the_second_fetch_makes_no_call(calls, telemetry):
    make = Maker(b"good 1", b"good 2")
    assert await calls.fetch("judge", "k", make, is_sound) == (b"good 1", False)
    assert await calls.fetch("judge", "k", make, is_sound) == (b"good 1", True)
    assert make.calls == 1
    assert telemetry.told == [("cache", "judge", "miss"), ("cache", "judge", "hit")]


async def test_another_key_is_another_call(calls):
    make = Maker(b"good 1", b"good 2")
    await calls.fetch("judge", "k", make, is_sound)
    assert await calls.fetch("judge", "l", make, is_sound) == (b"good 2", False)


@pytest.mark.parametrize("poison", [b"", b"goo", b"bad", b"\xff\x00"])
async def test_a_spoiled_entry_is_a_miss_and_is_replaced(calls, cache, poison):
    cache.entries["k"] = poison
    assert await calls.fetch("judge", "k", Maker(b"good"), is_sound) == (b"good", False)
    assert cache.entries["k"] == b"good"


async def test_a_reply_that_is_not_accepted_is_returned_but_not_kept(calls, cache):
    assert await calls.fetch("judge", "k", Maker(b"bad"), is_sound) == (b"bad", False)
    assert cache.entries == {}


async def test_concurrent_callers_share_one_call(calls, telemetry):
    make = Maker(b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound)) for _ in range(20)]
    await make.started.wait()
    make.go.set()
    results = await asyncio.gather(*tasks)
    assert make.calls == 1
    assert sorted(hit for _, hit in results) == [False] + [True] * 19
    assert sorted(telemetry.told) == [("cache", "judge", "hit")] * 19 + [("cache", "judge", "miss")]


async def test_an_error_reaches_all_and_is_not_kept(calls):
    make = Maker(OSError("down"), b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound)) for _ in range(3)]
    await make.started.wait()
    make.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    assert await calls.fetch("judge", "k", make, is_sound) == (b"good", False)


async def test_a_cancelled_leader_leaves_the_call_to_the_others(calls):
    make = Maker(b"good", wait=True)
    leader = asyncio.create_task(calls.fetch("judge", "k", make, is_sound))
    await make.started.wait()
    follower = asyncio.create_task(calls.fetch("judge", "k", make, is_sound))
    await asyncio.sleep(0)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    make.go.set()
    # The follower is told of the call: somebody has to count what it cost.
    assert await follower == (b"good", False)
    assert (make.calls, make.cancelled) == (1, 0)


async def test_the_call_ends_when_nobody_waits_any_more(calls):
    make = Maker(b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound)) for _ in range(2)]
    await make.started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert make.cancelled == 1
    make.go.set()
    assert await calls.fetch("judge", "k", make, is_sound) == (b"good", False)
    assert make.calls == 2

"""One suite for every `RequestLimiter`: the fake that other tests use, in memory, and over a real Redis."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from saiten_server.platform.redis.request_limits import RedisRequestLimiter
from saiten_server.platform.request_limits import MemoryRequestLimiter, RequestLimiter
from tests.support.fake_request_limiter import FakeRequestLimiter


@pytest.fixture(params=["fake", "memory", "redis"])
async def limiter(request: pytest.FixtureRequest) -> AsyncIterator[RequestLimiter]:
    if request.param != "redis":
        made: RequestLimiter = FakeRequestLimiter() if request.param == "fake" else MemoryRequestLimiter()
        yield made
        await made.close()
        return
    client = Redis.from_url(request.getfixturevalue("redis_url"))
    shared = RedisRequestLimiter(client, timeout_seconds=10)
    yield shared
    await shared.close()
    await client.aclose()


async def test_what_is_left_is_told_with_each_request(limiter: RequestLimiter) -> None:
    told = [await limiter.take("key_1", 3) for _ in range(3)]
    assert [(one.allowed, one.limit, one.remaining, one.window_seconds) for one in told] == [
        (True, 3, 2, 60),
        (True, 3, 1, 60),
        (True, 3, 0, 60),
    ]
    assert all(0 < one.reset_seconds <= 60 for one in told)


async def test_one_too_many_is_refused_and_told_when_to_come_back(limiter: RequestLimiter) -> None:
    await limiter.take("key_1", 1)
    refused = [await limiter.take("key_1", 1) for _ in range(3)]
    assert [(one.allowed, one.remaining) for one in refused] == [(False, 0)] * 3
    # The first is a minute old a minute after it came; those that were refused do not put that off.
    assert all(0 < one.reset_seconds <= 60 for one in refused)
    assert refused[0].reset_seconds >= refused[-1].reset_seconds


async def test_keys_do_not_take_from_each_other(limiter: RequestLimiter) -> None:
    assert (await limiter.take("key_1", 1)).allowed
    assert not (await limiter.take("key_1", 1)).allowed
    assert (await limiter.take("key_2", 1)).allowed


async def test_of_two_hundred_at_once_the_limit_gets_through(limiter: RequestLimiter) -> None:
    told = await asyncio.gather(*(limiter.take("key_1", 50) for _ in range(200)))
    assert sum(one.allowed for one in told) == 50


async def test_a_raised_limit_holds_at_once(limiter: RequestLimiter) -> None:
    await limiter.take("key_1", 1)
    assert not (await limiter.take("key_1", 1)).allowed
    assert (await limiter.take("key_1", 5)).allowed

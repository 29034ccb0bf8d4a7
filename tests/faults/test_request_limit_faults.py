"""Requests are counted whatever becomes of Redis: exactly while it is there, by each process while it is not."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from saiten_server.platform.redis.request_limits import LOST_SECONDS, RedisRequestLimiter
from tests.support.services import absent, free_port, redis_on
from tests.support.waiting import LIMIT_SECONDS


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def limiting(url: str, clock: Clock, **more: float) -> AsyncIterator[RedisRequestLimiter]:
    client = Redis.from_url(url)
    limiter = RedisRequestLimiter(client, clock=clock, **more)
    yield limiter
    await limiter.close()
    await client.aclose()


async def take(limiter: RedisRequestLimiter, count: int, limit: int = 10) -> int:
    """How many of `count` requests get through."""
    return sum([(await limiter.take("key_1", limit)).allowed for _ in range(count)])


def test_two_processes_that_ask_at_once_get_the_limit_through_together(redis_url: str) -> None:
    command = [sys.executable, "-m", "tests.support.request_burst", redis_url, "200", "100"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    got = [int(process.communicate(timeout=120)[0]) for process in running]
    assert abs(sum(got) - 100) <= 1


async def test_two_clients_share_a_minute(redis_url: str) -> None:
    async with limiting(redis_url, Clock()) as first, limiting(redis_url, Clock()) as second:
        assert (await take(first, 6), await take(second, 6), await take(first, 6)) == (6, 4, 0)


async def test_without_redis_each_process_counts_for_itself_and_goes_on_from_what_it_knows() -> None:
    port, clock = free_port(), Clock()
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    with redis_on(port) as url:
        client = Redis.from_url(url)
        limiter = RedisRequestLimiter(client, clock=clock)
        assert await take(limiter, 7) == 7
    # Gone, in the middle of the minute: 3 are left, not 10, and none for who comes after them.
    assert await take(limiter, 20) == 3
    with redis_on(port):
        # Back, and empty. Nobody looks before it is time.
        assert await take(limiter, 1) == 0
        clock.now += LOST_SECONDS
        assert await take(limiter, 1) == 0
        await until_found(limiter)
        assert await take(limiter, 20) == 10
    await limiter.close()
    await client.aclose()


async def until_found(limiter: RedisRequestLimiter) -> None:
    """Waits until the look for Redis has ended."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while limiter.counts_alone:
            await asyncio.sleep(0.01)


async def test_a_redis_that_hangs_is_given_up_and_not_asked_by_everybody() -> None:
    asked = 0

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with limiting(f"redis://127.0.0.1:{port}/0", Clock(), timeout_seconds=0.05) as limiter:
        got = await asyncio.gather(*(limiter.take("key_1", 10) for _ in range(200)))
        assert sum(one.allowed for one in got) == 10
        assert limiter.counts_alone
        # Those that were under way when it was found out, and nobody after them.
        first = asked
        assert first <= 8
        assert await take(limiter, 5) == 0
        assert asked == first
    server.close()
    await server.wait_closed()

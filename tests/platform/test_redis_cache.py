"""The call cache in a real Redis: one call among processes, and none of Redis's troubles is anybody's error."""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.memory_cache import Caller
from saiten_server.platform.redis.cache import RedisCallCache
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import RequestScope
from tests.support.dict_cache import FakeTime
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.services import absent, free_port, redis_on

LONG = 60.0
"""Seconds that no test waits: what ends before them was not ended by a lock's lapse."""


class Maker:
    """One outside call: counts how often it is made, and waits for `go` where it is told to."""

    def __init__(self, reply: bytes = b"good", *, error: Exception | None = None, wait: bool = False) -> None:
        self.reply, self.error = reply, error
        self.calls = 0
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        if not wait:
            self.go.set()

    async def __call__(self) -> bytes:
        self.calls += 1
        self.started.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.reply


def is_sound(reply: bytes) -> bool:
    return reply.startswith(b"good")


class Process:
    """What one of several processes has: a client, a cache and its calls."""

    def __init__(self, url: str, *, max_wait_seconds: float = LONG, **settings: Any) -> None:
        self.client: Redis = Redis.from_url(url)
        self.cache = RedisCallCache(self.client, **settings)
        self.telemetry = FakeTelemetry()
        self.calls = CachedCalls(self.cache, self.telemetry, max_wait_seconds=max_wait_seconds)

    async def fetch(self, make: Maker, key: str = "k") -> tuple[bytes, bool]:
        return await self.calls.fetch("judge", key, make, is_sound, RequestScope())

    async def close(self) -> None:
        await self.cache.close()
        await self.client.aclose()


Start = Callable[..., Process]


@pytest.fixture
async def start(redis_url: str) -> AsyncIterator[Start]:
    """Makes processes that share the test's Redis, or the one at `url`."""
    made: list[Process] = []

    def make(url: str = redis_url, **settings: Any) -> Process:
        made.append(Process(url, **settings))
        return made[-1]

    yield make
    for process in made:
        await process.close()


@pytest.fixture
def binary() -> str:
    return shutil.which("redis-server") or absent(
        "redis-server is not installed: a Redis that is stopped must be our own"
    )


@pytest.fixture
def own_redis(binary: str) -> Iterator[str]:
    """The URL of a Redis that this test may stop, fill and configure."""
    with redis_on(free_port(), binary) as url:
        yield url


# One call among processes


async def test_fifty_callers_in_each_of_two_processes_share_one_call(start):
    one, two, make = start(), start(), Maker(wait=True)
    tasks = [asyncio.create_task(process.fetch(make)) for process in (one, two) for _ in range(50)]
    await make.started.wait()
    make.go.set()
    results = await asyncio.gather(*tasks)
    assert make.calls == 1
    assert {reply for reply, _ in results} == {b"good"}
    assert [hit for _, hit in results].count(False) == 1
    told = one.telemetry.told + two.telemetry.told
    assert told.count(("cache", "judge", "miss")) == 1
    assert told.count(("cache", "judge", "hit")) == 99


async def test_many_keys_are_one_call_each(start):
    processes, make = (start(), start()), Maker()
    keys = [f"k{number}" for number in range(200)]
    await asyncio.gather(*(process.fetch(make, key) for process in processes for key in keys))
    assert make.calls == 200


async def test_a_dead_leaders_lock_lapses_and_another_makes_the_call(start):
    process, make = start(flight_seconds=LONG), Maker()
    await process.client.set("saiten:flight:k", b"one that died", px=int(LONG * 1000))
    assert await process.cache.claim("k") is Caller.WAIT
    await process.client.pexpire("saiten:flight:k", 300)
    assert await process.fetch(make) == (b"good", False)
    assert make.calls == 1


@pytest.mark.parametrize("spoil", ["forever", "for long", "a list"])
async def test_a_lock_that_no_process_has_set_holds_nobody_up(start, spoil):
    process, make = start(), Maker()
    if spoil == "a list":
        await process.client.rpush("saiten:flight:k", b"x")
    else:
        await process.client.set("saiten:flight:k", b"x", ex=None if spoil == "forever" else 86_400)
    assert await process.fetch(make) == (b"good", False)
    assert await process.client.exists("saiten:flight:k") == 0


async def test_where_the_leaders_call_fails_the_other_makes_it(start):
    one, two = start(flight_seconds=LONG), start(flight_seconds=LONG)
    failing, make = Maker(error=OSError("down"), wait=True), Maker()
    leader = asyncio.create_task(one.fetch(failing))
    await failing.started.wait()
    assert await two.cache.claim("k") is Caller.WAIT
    follower = asyncio.create_task(two.fetch(make))
    failing.go.set()
    with pytest.raises(OSError, match="down"):
        await leader
    assert await follower == (b"good", False)


async def test_where_the_leader_goes_away_the_other_makes_the_call(start):
    one, two, held, make = start(flight_seconds=LONG), start(flight_seconds=LONG), Maker(wait=True), Maker()
    leader = asyncio.create_task(one.fetch(held))
    await held.started.wait()
    leader.cancel()
    assert await two.fetch(make) == (b"good", False)


async def test_a_cancelled_claim_holds_nothing(start):
    one, two = start(flight_seconds=LONG), start(flight_seconds=LONG)
    for turns in range(8):  # before it is sent, on its way, and when it is there
        claim = asyncio.create_task(one.cache.claim(f"k{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        claim.cancel()
        await asyncio.gather(claim, return_exceptions=True)
        if claim.cancelled():
            await one.cache.get("none")  # commands keep their order: the claim is answered
            assert await two.cache.claim(f"k{turns}") is Caller.CALL


async def test_a_process_that_closes_lets_go_of_everything(start):
    one, two = start(flight_seconds=LONG), start(flight_seconds=LONG)
    await asyncio.gather(*(one.cache.claim(f"k{number}") for number in range(3)))
    await one.cache.close()
    assert await asyncio.gather(*(two.cache.claim(f"k{number}") for number in range(3))) == [Caller.CALL] * 3


async def test_the_lock_is_renewed_while_the_call_runs_and_gone_after_it(start):
    process, make = start(flight_seconds=4.5), Maker(wait=True)
    task = asyncio.create_task(process.fetch(make))
    await make.started.wait()
    left = await process.client.pttl("saiten:flight:k")
    while (now := await process.client.pttl("saiten:flight:k")) <= left:
        assert now > 0, "it lapsed"
        left = now
        await asyncio.sleep(0.01)
    make.go.set()
    await task
    assert await process.client.exists("saiten:flight:k") == 0


async def test_nobody_releases_or_renews_anothers_lock(start):
    one, two = start(flight_seconds=0.2), start(flight_seconds=LONG)
    assert await one.cache.claim("k") is Caller.CALL
    await one.client.set("saiten:flight:k", b"another", px=50_000)  # as after a lapse
    await asyncio.sleep(0.1)  # one renewal at least
    await one.cache.leave("k")
    assert await two.client.get("saiten:flight:k") == b"another"
    assert await two.client.pttl("saiten:flight:k") > 1000  # a renewal would have made it 200


async def test_its_own_lock_is_not_waited_for(start):
    cache = start(flight_seconds=LONG).cache
    # As where the reply to a claim was lost and the client asked again.
    assert [await cache.claim("k"), await cache.claim("k")] == [Caller.CALL, Caller.CALL]


async def test_after_its_patience_a_process_makes_the_call_itself(start):
    one, two, held, make = start(), start(max_wait_seconds=0.05), Maker(wait=True), Maker(b"good too")
    leader = asyncio.create_task(one.fetch(held))
    await held.started.wait()
    assert await two.fetch(make) == (b"good too", False)
    held.go.set()
    assert await leader == (b"good", False)


# Entries


@pytest.mark.parametrize("poison", [b"", b"goo", b"bad", b"\xff\x00" * 1000])
async def test_a_poisoned_entry_is_one_call_among_processes_and_is_replaced(start, poison):
    one, two, make = start(flight_seconds=LONG), start(flight_seconds=LONG), Maker(wait=True)
    await one.client.set("saiten:call:k", poison)
    tasks = [asyncio.create_task(process.fetch(make)) for process in (one, two)]
    await make.started.wait()
    make.go.set()
    assert sorted(await asyncio.gather(*tasks)) == [(b"good", False), (b"good", True)]
    assert make.calls == 1
    assert await one.client.get("saiten:call:k") == b"good"


async def test_an_entry_of_another_type_is_a_miss_and_is_replaced(start):
    process = start()
    await process.client.rpush("saiten:call:k", b"x")
    assert await process.cache.get("k") is None
    assert await process.fetch(Maker()) == (b"good", False)
    assert await process.client.get("saiten:call:k") == b"good"


async def test_entries_lapse(start):
    process = start(seconds=100)
    await process.fetch(Maker())
    assert 0 < await process.client.ttl("saiten:call:k") <= 100


async def test_what_is_too_large_is_not_kept_and_held_for_nobody(start):
    one, two = start(value_bytes=4, flight_seconds=LONG), start(flight_seconds=LONG)
    assert await one.fetch(Maker(b"good!")) == (b"good!", False)
    assert await one.client.exists("saiten:call:k") == 0
    assert await two.cache.claim("k") is Caller.CALL
    assert await one.fetch(Maker(b"good"), "l") == (b"good", False)
    assert await one.client.get("saiten:call:l") == b"good"


async def test_a_redis_that_is_wiped_in_mid_call_costs_nothing(start):
    process, make = start(), Maker(wait=True)
    task = asyncio.create_task(process.fetch(make))
    await make.started.wait()
    await process.client.flushdb()
    make.go.set()
    assert await task == (b"good", False)
    assert await process.fetch(Maker()) == (b"good", True)


async def test_commands_that_come_together_are_one_round_trip(start):
    process = start()
    before = (await process.client.info("stats"))["total_reads_processed"]
    await asyncio.gather(*(process.cache.claim(f"k{number}") for number in range(100)))
    after = (await process.client.info("stats"))["total_reads_processed"]
    # One for the claims, one for the second INFO, and up to three for what a connection says when it opens; a
    # hundred commands are some 70 kB, which Redis reads in pieces of 16.
    assert after - before <= 10


# Trouble


async def test_a_redis_that_stops_is_a_miss_and_comes_back(binary, start, caplog):
    port, time = free_port(), FakeTime()
    with redis_on(port, binary) as url:
        process = start(url, clock=time.clock, pause_seconds=3.0)
        await process.fetch(Maker())
    make = Maker()
    assert await process.cache.get("k") is None
    assert await asyncio.gather(*(process.fetch(make, f"k{number}") for number in range(9))) == [(b"good", False)] * 9
    with pytest.raises(StoreUnavailable):
        await process.cache.forget(["k"])
    with redis_on(port, binary):
        assert await process.cache.get("k0") is None  # not asked yet
        time.now += 3.0
        assert await process.fetch(Maker()) == (b"good", False)
        assert await process.fetch(Maker()) == (b"good", True)
        await process.cache.forget(["k"])
        assert await process.cache.get("k") is None
    assert [record.name for record in caplog.records if record.levelno >= logging.WARNING] == ["saiten.cache"]


async def test_whoever_waits_for_another_process_goes_on_when_redis_stops(binary, start):
    with redis_on(free_port(), binary) as url:
        one, two = start(url, flight_seconds=LONG), start(url, flight_seconds=LONG)
        held, make = Maker(wait=True), Maker(b"good too")
        leader = asyncio.create_task(one.fetch(held))
        await held.started.wait()
        assert await two.cache.claim("k") is Caller.WAIT
        follower = asyncio.create_task(two.fetch(make))
    assert await follower == (b"good too", False)
    held.go.set()
    assert await leader == (b"good", False)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_late_reply_is_nobody_elses(own_redis, start):
    time = FakeTime()
    process = start(own_redis, clock=time.clock, timeout_seconds=0.2)
    await asyncio.gather(process.cache.put("a", b"1"), process.cache.put("b", b"2"))
    with stopped((await process.client.info("server"))["process_id"]):
        assert [*await asyncio.gather(process.cache.get("a"), process.cache.claim("a"))] == [None, Caller.CALL]
    time.now += 60
    assert await asyncio.gather(*map(process.cache.get, "bab")) == [b"2", b"1", b"2"]


async def test_a_silent_redis_is_waited_for_once_and_not_by_every_call(start):
    connections: list[asyncio.StreamWriter] = []

    def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    process = start(f"redis://127.0.0.1:{port}/0", timeout_seconds=0.05, pause_seconds=LONG)
    make = Maker()
    for batch in range(5):
        await asyncio.gather(*(process.fetch(make, f"{batch}-{number}") for number in range(300)))
    assert make.calls == 1500
    assert len(connections) == 1
    for writer in connections:
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_a_full_redis_still_answers_and_keeps_nothing_new(own_redis, start, caplog):
    process, make = start(own_redis), Maker()
    await process.fetch(Maker())
    await process.client.config_set("maxmemory", 1)
    assert await process.fetch(make) == (b"good", True)
    assert await process.fetch(make, "new") == (b"good", False)
    assert await process.fetch(make, "new") == (b"good", False)
    await process.cache.forget(["k"])
    await process.client.config_set("maxmemory", 0)
    assert await process.cache.get("k") is None
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["the call cache in Redis failed (OutOfMemoryError); calls are made as if it were empty"]


async def test_one_warning_stands_for_all_that_fail_in_some_seconds(start, caplog):
    time = FakeTime()
    process = start(f"redis://127.0.0.1:{free_port()}/0", clock=time.clock, pause_seconds=0.0)
    for _ in range(5):
        await process.cache.get("k")
    assert len(caplog.records) == 1
    time.now += 60
    await process.cache.get("k")
    assert len(caplog.records) == 2

"""SAQ's queue where Redis goes, comes back, forgets, hangs, and where a worker dies."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from saiten_server.runs.redis_queue import Outage, SAQJobQueue
from saiten_server.runs.work import ChunkJob, QueueUnavailable
from tests.contract.test_job_queue_port import JOBS, Recorder, working
from tests.support.services import free_port, redis_on

DEAD_WORKER = """
import asyncio, sys
from saiten_server.runs.redis_queue import SAQJobQueue

async def handle(job):
    print(job.chunk, flush=True)
    await asyncio.Event().wait()

asyncio.run(SAQJobQueue(sys.argv[1]).work(handle, 2))
"""


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[SAQJobQueue]:
    made = SAQJobQueue(redis_url)
    yield made
    await made.close()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    made: redis.asyncio.Redis = redis.asyncio.Redis.from_url(redis_url)
    yield made
    await made.aclose()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_put_without_redis_says_so_and_keeps_the_password_to_itself() -> None:
    queue = SAQJobQueue(f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    with pytest.raises(QueueUnavailable, match="Redis cannot be reached") as caught:
        await queue.put(JOBS)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(QueueUnavailable):
        await queue.depth()
    await queue.close()


async def test_a_redis_that_takes_nothing_is_no_queue(queue: SAQJobQueue, client: redis.asyncio.Redis) -> None:
    assert await queue.depth() == 0
    await client.config_set("maxmemory", 1)
    await client.config_set("maxmemory-policy", "noeviction")
    try:
        for asked in (queue.put(JOBS), queue.depth()):
            with pytest.raises(QueueUnavailable, match=r"refuses commands \(OutOfMemoryError\)"):
                await asked
    finally:
        await client.config_set("maxmemory", 0)
    assert await queue.depth() == 0


async def test_a_put_into_a_redis_that_hangs_ends() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    queue = SAQJobQueue(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
    with pytest.raises(QueueUnavailable):
        await queue.put(JOBS)
    await queue.close()
    server.close()


async def test_work_goes_on_when_redis_comes_back_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port, recorder = free_port(), Recorder()
    queue = SAQJobQueue(f"redis://127.0.0.1:{port}/0")
    async with working(queue, recorder):
        with redis_on(port):
            await queue.put(JOBS[:1])
            await recorder.until(1)
        while len(warnings(caplog)) == 0:
            await asyncio.sleep(0.01)
        with pytest.raises(QueueUnavailable):
            await queue.put(JOBS[1:2])
        with redis_on(port):
            await queue.put(JOBS[1:2])
            await recorder.until(2)
    await queue.close()
    assert recorder.seen == JOBS[:2]
    said = [text for text in warnings(caplog) if text.startswith("jobs wait")]
    # The worker may have begun before the first server listened.
    assert 1 <= len(said) <= 2
    assert warnings(caplog) == said
    assert not [record for record in caplog.records if record.name == "saq"]


async def test_a_worker_that_waits_outlives_a_wipe(queue: SAQJobQueue, client: redis.asyncio.Redis) -> None:
    recorder = Recorder(held=True)
    async with working(queue, recorder, concurrency=1):
        await queue.put(JOBS[:3])
        await recorder.until(1)
        await client.flushall()
        assert await queue.depth() == 0
        await queue.put(JOBS[:3])
        recorder.open.set()
        await recorder.until(4)
    assert recorder.seen == [JOBS[0], *JOBS[:3]]


async def test_a_job_of_a_killed_worker_is_told_again_at_once(queue: SAQJobQueue, redis_url: str) -> None:
    await queue.put(JOBS[:1])
    worker = subprocess.Popen([sys.executable, "-c", DEAD_WORKER, redis_url], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert await asyncio.to_thread(worker.stdout.readline) == "0\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    await queue.put(JOBS[:1])
    assert await queue.depth() == 1
    recorder = Recorder()
    async with working(queue, recorder):
        await recorder.until(1)


async def test_what_a_worker_died_over_in_the_handover_is_delivered_again(
    queue: SAQJobQueue, client: redis.asyncio.Redis
) -> None:
    await queue.put(JOBS[:1])
    await client.lmove("saq:saiten:queued", "saq:saiten:active", "LEFT", "RIGHT")
    # One whose body was evicted.
    await client.execute_command("RPUSH", "saq:saiten:active", "saq:job:saiten:ba_9:9")
    recorder = Recorder()
    async with working(queue, recorder):
        await recorder.until(1)
        while await client.exists("saq:saiten:active"):
            await asyncio.sleep(0.01)
    assert recorder.seen == JOBS[:1]


async def test_nothing_is_left_behind(queue: SAQJobQueue, client: redis.asyncio.Redis) -> None:
    recorder = Recorder()
    async with working(queue, recorder):
        await queue.put(JOBS)
        await recorder.until(4)
    left = {key for key in await client.keys() if b"worker_info" not in key}
    assert left <= {b"saq:saiten:stats", b"saq:saiten:schedule", b"saq:saiten:sweep"}


async def test_what_is_stored_holds_an_id_and_a_number_and_no_more(
    queue: SAQJobQueue, client: redis.asyncio.Redis
) -> None:
    await queue.put([ChunkJob("ba_1", 7)])
    body = await client.get("saq:job:saiten:ba_1:7")
    assert b'"kwargs": {"batch": "ba_1", "chunk": 7}' in body


async def test_signals_are_left_to_the_process(queue: SAQJobQueue) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with working(queue, Recorder()):
        await asyncio.sleep(0)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_an_outage_is_waited_for_longer_and_longer_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def fail() -> bool:
        raise redis.exceptions.ConnectionError

    async def succeed() -> bool:
        return True

    outage = Outage(sleep)
    for call in [succeed, *[fail] * 6, succeed, fail]:
        assert await outage.watch(call()) is (True if call is succeed else None)
    assert pauses == [0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 0.1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]

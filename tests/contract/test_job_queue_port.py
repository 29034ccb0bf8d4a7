"""One suite for every `JobQueue`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from saiten_server.runs.redis_queue import SAQJobQueue
from saiten_server.runs.work import FINISH, AsyncioJobQueue, ChunkJob, Handler, JobQueue
from tests.support.waiting import LIMIT_SECONDS

JOBS = [ChunkJob("ba_1", 0), ChunkJob("ba_2", 0), ChunkJob("ba_1", 1), ChunkJob("ba_1", FINISH)]
WAIT_SECONDS = LIMIT_SECONDS


@pytest.fixture(params=["embedded", "saq"])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[JobQueue]:
    made: JobQueue = AsyncioJobQueue()
    if request.param == "saq":
        made = SAQJobQueue(request.getfixturevalue("redis_url"))
    yield made
    await made.close()


@asynccontextmanager
async def working(queue: JobQueue, handler: Handler, concurrency: int = 2) -> AsyncIterator[None]:
    work = asyncio.create_task(queue.work(handler, concurrency))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield
    finally:
        work.cancel()
        assert isinstance((await asyncio.gather(work, return_exceptions=True))[0], asyncio.CancelledError)


class Recorder:
    """A handler that keeps what it was given, and holds each job while `open` is not set."""

    def __init__(self, *, held: bool = False) -> None:
        self.seen: list[ChunkJob] = []
        self.running = 0
        self.most = 0
        self.cut_off: list[ChunkJob] = []
        self.open = asyncio.Event()
        self._changed = asyncio.Condition()
        if not held:
            self.open.set()

    async def __call__(self, job: ChunkJob) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        async with self._changed:
            self.seen.append(job)
            self._changed.notify_all()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # as who hands a lease back
            self.cut_off.append(job)
            raise
        finally:
            self.running -= 1

    async def until(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)


async def test_every_job_is_handled_in_the_order_of_its_put(queue: JobQueue) -> None:
    recorder = Recorder()
    await queue.put(JOBS[:2])
    await queue.put(JOBS[2:])
    assert await queue.depth() == 4
    async with working(queue, recorder, concurrency=1):
        await recorder.until(4)
    assert recorder.seen == JOBS
    assert await queue.depth() == 0


async def test_a_job_that_waits_is_not_put_twice(queue: JobQueue) -> None:
    await queue.put([JOBS[0], JOBS[0]])
    await queue.put(JOBS[:2])
    assert await queue.depth() == 2
    recorder = Recorder()
    async with working(queue, recorder):
        await recorder.until(2)
    assert recorder.seen == JOBS[:2]


async def test_a_job_that_ran_may_be_put_again(queue: JobQueue) -> None:
    recorder = Recorder()
    async with working(queue, recorder):
        for times in range(1, 4):
            await queue.put(JOBS[:1])
            await recorder.until(times)
    assert recorder.seen == JOBS[:1] * 3


async def test_a_job_that_runs_may_be_put_again_and_is_told_to_another(queue: JobQueue) -> None:
    recorder = Recorder(held=True)
    async with working(queue, recorder):
        await queue.put(JOBS[:1])
        await recorder.until(1)
        await queue.put(JOBS[:1])
        await recorder.until(2)
    assert recorder.seen == JOBS[:1] * 2


async def test_no_more_run_at_once_than_asked_for(queue: JobQueue) -> None:
    recorder = Recorder(held=True)
    await queue.put([ChunkJob("ba_1", chunk) for chunk in range(10)])
    async with working(queue, recorder, concurrency=3):
        await recorder.until(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (recorder.running, await queue.depth()) == (3, 7)
        recorder.open.set()
        await recorder.until(10)
    assert recorder.most == 3


async def test_an_error_of_the_handler_is_logged_and_ends_nothing(
    queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()

    async def fail_first(job: ChunkJob) -> None:
        await recorder(job)
        if job == JOBS[0]:
            raise RuntimeError("a defect")

    await queue.put(JOBS)
    async with working(queue, fail_first, concurrency=1):
        await recorder.until(4)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["unexpected error"]


async def test_what_is_cut_off_ends_first_and_waits_again(queue: JobQueue) -> None:
    recorder = Recorder(held=True)
    await queue.put(JOBS)
    async with working(queue, recorder, concurrency=2):
        await recorder.until(2)
    assert (recorder.running, recorder.cut_off) == (0, JOBS[:2])
    assert await queue.depth() == 4
    again = Recorder()
    async with working(queue, again):
        await again.until(4)
    assert set(again.seen) == set(JOBS)


async def test_two_workers_share_the_jobs(queue: JobQueue) -> None:
    first, second = Recorder(held=True), Recorder(held=True)
    await queue.put([ChunkJob("ba_1", chunk) for chunk in range(4)])
    async with working(queue, first), working(queue, second):
        await first.until(2)
        await second.until(2)
    assert sorted(job.chunk for job in first.seen + second.seen) == [0, 1, 2, 3]


async def test_a_worker_that_waits_hears_of_a_job(queue: JobQueue) -> None:
    recorder = Recorder()
    async with working(queue, recorder):
        await asyncio.sleep(0)
        assert recorder.seen == []
        await queue.put(JOBS[:1])
        await recorder.until(1)

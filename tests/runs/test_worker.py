"""A worker from its start to its stop: what it takes, brings back, hands back and shares out."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from saiten_server.container import keep_working
from saiten_server.core.batch import BatchOptions
from saiten_server.core.evaluation import RelevanceOptions
from saiten_server.runs.provider_run import UNAVAILABLE
from saiten_server.runs.work import CHUNK_SIZE, COLLECT, FINISH, AsyncioJobQueue, ChunkJob, Handler, QueueUnavailable
from saiten_server.runs.worker import REQUEUE_SECONDS, SWEEP_SECONDS, BatchWorker, window_of
from saiten_server.scoring.evaluate import ScoringContext
from tests.support.batches import LEASE, claim, run_chunk
from tests.support.fake_rubrics import FakeRubrics
from tests.support.faults import words
from tests.support.waiting import LIMIT_SECONDS
from tests.support.worker_bench import OWNER, RUBRIC, Bench, MakeBench, turns

CONCURRENCY = 8
IN_HAND = 12
"""One and a half for each call."""


def make_worker(bench: Bench, **changes: Any) -> BatchWorker:
    parts: dict[str, Any] = {
        "store": bench.store,
        "queue": bench.queue,
        "cache": bench.cache,
        "instruments": bench.instruments,
        "telemetry": bench.telemetry,
        "owner": OWNER,
        "concurrency": CONCURRENCY,
        "lease_seconds": LEASE,
        "sleep": bench.time.sleep,
        "stop_seconds": 30,
        "hand_back_seconds": 30,
    }
    return BatchWorker(**{**parts, **changes})


@asynccontextmanager
async def running(worker: BatchWorker) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(worker.run())
    await turns()
    yield task
    await stop(task)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(reached: Callable[[], bool]) -> None:
    """Lets the loop turn until it is so. Nothing waits for time here: what is not so after these turns never will be."""
    for _ in range(20_000):
        if reached():
            return
        await turns(1)
    pytest.fail("it never came to it")


def is_completed(bench: Bench, batch_id: str = "ba_1") -> Callable[[], bool]:
    return lambda: bench.store.look(batch_id).status == "completed"


async def enqueue(bench: Bench, batch_id: str = "ba_1") -> None:
    await bench.queue.put(await bench.store.next_jobs(batch_id, window_of(CONCURRENCY)))


async def test_a_batch_is_scored_to_its_end(make_bench: MakeBench) -> None:
    bench = await make_bench(window=window_of(CONCURRENCY))
    await bench.post(5 * CHUNK_SIZE)
    await enqueue(bench)
    async with running(make_worker(bench)):
        await until(is_completed(bench))
    assert bench.store.statuses() == dict.fromkeys(range(5 * CHUNK_SIZE), "scored")
    assert len(bench.judge.tasks) == 5 * CHUNK_SIZE
    assert bench.telemetry.told[-1] == ("holding", "0")


async def test_a_batch_of_another_rubric_file_is_left_to_others(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await make_bench(window=window_of(CONCURRENCY))
    await bench.post(2 * CHUNK_SIZE, rubric_digest="0" * 64)
    await bench.post(2, "ba_2", rubric_digest=RUBRIC.digest)
    await enqueue(bench)
    await enqueue(bench, "ba_2")
    async with running(make_worker(bench)):
        await until(is_completed(bench, "ba_2"))
        await until(lambda: bench.telemetry.told.count(("left to others",)) >= 2)
    assert len(bench.judge.tasks) == 2
    assert bench.store.look().status == "queued"
    (said,) = [one for one in caplog.records if getattr(one, "code", None) == "rubric-differs"]
    assert "is not the service's (000000000000)" in said.getMessage()


async def test_at_a_stop_what_is_in_hand_finishes_and_the_rest_goes_back(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(2 * CHUNK_SIZE)
    await enqueue(bench)
    async with running(make_worker(bench)) as task:
        await until(lambda: len(bench.judge.held) == IN_HAND)
        in_hand = bench.judge.held
        task.cancel()
        await turns()
        assert not task.done()
        assert bench.judge.held == in_hand
        bench.judge.let_all_go()
        await asyncio.wait([task])
        assert task.cancelled()
    assert sorted(bench.judge.judged) == sorted(in_hand)
    assert len(bench.store.statuses()) == IN_HAND
    chunks = bench.store.look().chunks.values()
    assert [(chunk.owner, chunk.crashes) for chunk in chunks] == [(None, 0), (None, 0)]


async def test_calls_that_do_not_end_in_time_are_cut_off_and_their_leases_go_back(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(2 * CHUNK_SIZE)
    await enqueue(bench)
    async with running(make_worker(bench, stop_seconds=0)) as task:
        await until(lambda: len(bench.judge.held) == IN_HAND)
        await stop(task)
    assert len(bench.judge.cancelled) == IN_HAND
    assert bench.store.statuses() == {}
    assert [chunk.owner for chunk in bench.store.look().chunks.values()] == [None, None]


async def test_a_store_that_is_away_does_not_keep_a_worker_from_ending(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(CHUNK_SIZE)
    await enqueue(bench)
    async with running(make_worker(bench, stop_seconds=0, hand_back_seconds=0)) as task:
        await until(lambda: len(bench.judge.held) == IN_HAND)
        bench.store.away = True
        bench.judge.let_go()
        await turns()
        task.cancel()
        await asyncio.wait([task], timeout=LIMIT_SECONDS)
        assert task.done()
    # Its lease ends by itself, and its results are done again: from the cache, where there is one.
    bench.store.away = False
    await bench.time.move(LEASE + 1)
    assert (await claim(bench.store, 0, "w2")).suspect


async def test_what_is_taken_after_the_stop_is_not_begun(make_bench: MakeBench) -> None:
    class LateQueue(AsyncioJobQueue):
        """Hands a job over while it is being stopped."""

        async def work(self, handler: Handler, concurrency: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await handler(ChunkJob("ba_1", 0))

    bench = await make_bench()
    await bench.post(4)
    async with running(make_worker(bench, queue=LateQueue())) as task:
        await stop(task)
    assert bench.judge.tasks == []
    assert bench.store.look().chunks[0].owner is None


async def test_a_claim_under_way_at_the_stop_is_handed_back(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4)
    await enqueue(bench)
    claimed, go, claims = asyncio.Event(), asyncio.Event(), bench.store.claim

    async def slowly(*asked: Any, **known: Any) -> Any:
        claimed.set()
        await go.wait()
        return await claims(*asked, **known)

    bench.store.claim = slowly  # type: ignore[method-assign]
    async with running(make_worker(bench)) as task:
        await claimed.wait()
        task.cancel()
        await turns()
        go.set()
        await asyncio.wait([task])
    assert bench.judge.tasks == []
    assert (bench.store.look().chunks[0].owner, bench.store.commits) == (None, [([], [ChunkJob("ba_1", 0)])])


async def test_the_sweep_finds_batches_that_nobody_was_told_of(make_bench: MakeBench) -> None:
    bench = await make_bench()
    async with running(make_worker(bench)):
        await bench.post(4)
        await turns()
        assert bench.judge.tasks == []
        await bench.time.move(SWEEP_SECONDS)
        await until(is_completed(bench))


async def test_the_sweep_brings_back_jobs_that_the_queue_lost(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4)
    assert await bench.store.next_jobs("ba_1", 8) == [ChunkJob("ba_1", 0)]
    async with running(make_worker(bench)):
        await bench.time.move(REQUEUE_SECONDS - SWEEP_SECONDS)
        assert bench.judge.tasks == []
        await bench.time.move(2 * SWEEP_SECONDS)
        await until(is_completed(bench))


async def test_the_sweep_brings_back_the_chunks_of_a_worker_that_died(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4)
    await claim(bench.store, 0, "w0")
    async with running(make_worker(bench)):
        await bench.time.move(LEASE - SWEEP_SECONDS)
        assert bench.judge.tasks == []
        await bench.time.move(3 * SWEEP_SECONDS)
        await until(is_completed(bench))
    assert bench.store.look().chunks[0].crashes == 1


async def test_leases_are_renewed_as_long_as_the_work_lasts(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(4)
    await enqueue(bench)
    async with running(make_worker(bench)):
        await bench.time.move(4 * LEASE)
        assert await bench.store.claim(ChunkJob("ba_1", 0), "w2", LEASE) is None
        bench.judge.let_all_go()
        await until(is_completed(bench))
    assert len(bench.judge.tasks) == 4


async def test_a_chunk_whose_lease_ran_out_during_an_outage_is_not_begun_a_second_time(make_bench: MakeBench) -> None:
    """The sweep gives it out again, and the only worker there is has it already."""
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(4)
    await enqueue(bench)
    async with running(make_worker(bench)):
        bench.store.away = True
        await bench.time.move(2 * LEASE)
        bench.store.away = False
        await bench.queue.put(await bench.store.sweep(8, REQUEUE_SECONDS))
        await turns()
        assert len(bench.judge.held) == 4
        bench.judge.let_all_go()
        await bench.time.move(5)
        assert is_completed(bench)()
    assert len(bench.judge.tasks) == 4


async def test_the_end_of_a_batch_is_made_once_all_is_scored(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4, relevance=RelevanceOptions(baseline="batch"))
    await enqueue(bench)
    async with running(make_worker(bench)):
        await until(is_completed(bench))
    results = await bench.store.results("team", "ba_1", after=-1, limit=9)
    relevances = [one.evaluation.relevance for one in results if one.evaluation]
    scores = [one.score for one in relevances if one and one.score is not None]
    assert len(scores) == 4
    assert [one.baseline for one in relevances if one] == pytest.approx([sum(scores) / 4] * 4)


async def test_an_end_that_cannot_be_made_pauses_the_batch_and_says_why(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4, relevance=RelevanceOptions(baseline="batch"))
    assert await run_chunk(bench.store, 0) == [ChunkJob("ba_1", FINISH)]
    await bench.queue.put([ChunkJob("ba_1", FINISH)])
    without = replace(bench.instruments, rubrics=FakeRubrics([]))
    async with running(make_worker(bench, instruments=without)):
        await until(lambda: bench.store.look().status == "paused")
        assert bench.store.look().pause[0] == "unknown-rubric"
    await bench.store.resume("team", "ba_1")
    async with running(make_worker(bench, instruments=bench.instruments)):
        await until(is_completed(bench))


async def test_an_end_that_always_fails_pauses_the_batch(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await make_bench()
    await bench.post(4, relevance=RelevanceOptions(baseline="batch"))
    assert await run_chunk(bench.store, 0) == [ChunkJob("ba_1", FINISH)]
    await bench.queue.put([ChunkJob("ba_1", FINISH)])
    plain, bench.store.rewrite = bench.store.rewrite, break_for_good  # type: ignore[method-assign, assignment]
    async with running(make_worker(bench)):
        await until(lambda: bench.store.look().status == "paused")
        assert bench.store.look().pause[0] == "internal-error"
        assert "unexpected error" in caplog.messages
        bench.store.rewrite = plain  # type: ignore[method-assign]
        await bench.store.resume("team", "ba_1")
        await bench.time.move(SWEEP_SECONDS)
        await until(is_completed(bench))


class FakeProvider:
    """Counts its steps. The first lets the batch go; tidying never ends where `hangs`."""

    def __init__(self, bench: Bench, *, hangs: bool = False) -> None:
        self.bench = bench
        self.hangs = hangs
        self.steps: list[str] = []

    async def step(self, batch_id: str) -> None:
        self.steps.append(batch_id)
        await self.bench.queue.put(await self.bench.store.release_held_chunks(batch_id))

    async def tidy(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    def instruments_for(self, batch_id: str, options: BatchOptions, instruments: ScoringContext) -> ScoringContext:
        return instruments


async def test_a_batch_in_the_providers_mode_is_collected_and_then_scored(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4, mode="provider-batch")
    provider = FakeProvider(bench)
    async with running(make_worker(bench, provider=provider)):
        await until(is_completed(bench))
    assert provider.steps == ["ba_1"]
    assert len(bench.judge.tasks) == 4


async def test_a_worker_without_the_providers_mode_pauses_such_a_batch(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4, mode="provider-batch")
    await bench.queue.put([ChunkJob("ba_1", COLLECT)])
    async with running(make_worker(bench)):
        await until(lambda: bench.store.look().status == "paused")
    assert bench.store.look().pause[0] == UNAVAILABLE


async def test_an_odd_answer_of_the_provider_ends_no_worker(
    caplog: pytest.LogCaptureFixture, make_bench: MakeBench
) -> None:
    bench = await make_bench()
    provider = FakeProvider(bench)
    provider.tidy = break_for_good  # type: ignore[method-assign]
    async with running(make_worker(bench, provider=provider)) as task:
        await bench.post(4)
        await bench.time.move(2 * SWEEP_SECONDS)
        assert is_completed(bench)()
        assert not task.done()
    assert {record.getMessage() for record in caplog.records if record.levelname == "ERROR"} == {"unexpected error"}


async def test_a_provider_that_hangs_does_not_hold_up_the_sweep(make_bench: MakeBench) -> None:
    bench = await make_bench()
    async with running(make_worker(bench, provider=FakeProvider(bench, hangs=True))):
        await bench.post(4)
        await bench.time.move(2 * SWEEP_SECONDS)
        assert is_completed(bench)()


class ClosedQueue(AsyncioJobQueue):
    """Takes jobs in and hands none out."""

    async def work(self, handler: Handler, concurrency: int) -> None:
        await asyncio.Event().wait()


async def test_what_waits_is_told_to_telemetry(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.queue = ClosedQueue()
    await bench.post(4)
    await bench.store.pause("ba_1", "requested", words("…"))
    async with running(make_worker(bench)):
        assert ("backlog", "0", "0") in bench.telemetry.told
        assert ("paused", "requested=1") in bench.telemetry.told
        await bench.store.resume("team", "ba_1")
        await bench.time.move(SWEEP_SECONDS)
        assert ("backlog", "4", "1") in bench.telemetry.told
        assert ("paused",) in bench.telemetry.told

        async def fail() -> int:
            raise QueueUnavailable("Redis cannot be reached")

        bench.queue.depth = fail  # type: ignore[method-assign]
        await bench.time.move(SWEEP_SECONDS)
        assert bench.telemetry.told[-2:] == [("backlog", "4", "None"), ("paused",)]


def break_once(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    broken: list[bool] = []

    async def broken_once(*asked: Any, **known: Any) -> Any:
        if not broken:
            broken.append(True)
            raise ValueError("a defect")
        return await call(*asked, **known)

    return broken_once


async def break_for_good(*_: Any) -> Any:
    raise ValueError("a defect")


async def test_a_defect_in_a_job_is_logged_and_ends_neither_worker_nor_batch(
    caplog: pytest.LogCaptureFixture, make_bench: MakeBench
) -> None:
    bench = await make_bench()
    await bench.post(4)
    await enqueue(bench)
    bench.store.claim = break_once(bench.store.claim)  # type: ignore[method-assign, assignment]
    async with running(make_worker(bench)) as task:
        await turns()
        assert [record.getMessage() for record in caplog.records] == ["unexpected error"]
        assert not task.done()
        await bench.time.move(REQUEUE_SECONDS + SWEEP_SECONDS)
        assert is_completed(bench)()


@pytest.mark.parametrize("part", ["commit", "sweep", "backlog"])
async def test_a_part_that_fails_ends_the_worker_and_leaves_no_task_behind(part: str, make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.post(4)
    await enqueue(bench)
    setattr(bench.store, part, break_for_good if part == "commit" else break_once(getattr(bench.store, part)))
    before = asyncio.all_tasks()
    task = asyncio.create_task(make_worker(bench, stop_seconds=0, hand_back_seconds=0).run())
    await asyncio.wait([task], timeout=LIMIT_SECONDS)
    assert isinstance(task.exception(), ValueError)
    # A connection that was cut off during a statement, or while it was opened, is closed in a task of its own.
    closing = ("_terminate", "close_opened", "DatabaseFile.open")
    left = [each for each in asyncio.all_tasks() - before - {task} if not any(name in repr(each) for name in closing)]
    assert left == []


async def test_the_services_own_worker_starts_again_after_a_failure(
    caplog: pytest.LogCaptureFixture, make_bench: MakeBench
) -> None:
    bench = await make_bench()
    await bench.post(4)
    await enqueue(bench)
    bench.store.sweep = break_once(bench.store.sweep)  # type: ignore[method-assign, assignment]
    worker = make_worker(bench, stop_seconds=0, hand_back_seconds=0)
    with caplog.at_level(logging.ERROR):
        work = asyncio.create_task(keep_working(worker, sleep=bench.time.sleep))
        await until(lambda: bool(caplog.records))
        assert "starts again" in caplog.records[0].getMessage()
        await bench.time.move(LEASE + 10)
        assert is_completed(bench)()
    await stop(work)


async def test_a_stop_while_a_failed_worker_hands_back_is_a_stop(make_bench: MakeBench) -> None:
    """The failure took the place of the cancellation, which nobody repeats."""
    bench = await make_bench()
    bench.judge.holds = True
    await bench.post(4)
    await enqueue(bench)
    worker = make_worker(bench, stop_seconds=600, hand_back_seconds=600)
    winding_up, wait_for_runs = asyncio.Event(), worker._wait_for_runs

    async def announce(seconds: float) -> None:
        winding_up.set()
        await wait_for_runs(seconds)

    worker._wait_for_runs = announce  # type: ignore[method-assign]
    work = asyncio.create_task(keep_working(worker, sleep=bench.time.sleep))
    await until(lambda: bool(bench.judge.held))
    bench.store.sweep = break_for_good  # type: ignore[method-assign, assignment]
    # The first sweep may still be reading the database: the failing one comes after it.
    while not winding_up.is_set():
        await bench.time.move(1)
    work.cancel()
    await asyncio.wait([work], timeout=LIMIT_SECONDS)
    assert work.cancelled()
    assert bench.judge.held == []


async def test_a_small_batch_does_not_wait_for_a_large_one(make_bench: MakeBench) -> None:
    bench = await make_bench(window=window_of(CONCURRENCY))
    large, small = 600, CHUNK_SIZE
    done = 0
    await bench.post(large, "large")
    await enqueue(bench, "large")
    async with running(make_worker(bench)):
        await until(lambda: len(bench.store.statuses("large")) >= 100)
        await bench.post(small, "small")
        await enqueue(bench, "small")
        before = len(bench.store.statuses("large"))
        await until(is_completed(bench, "small"))
        done = len(bench.store.statuses("large")) - before
        assert bench.store.look("large").status == "running"
        await until(is_completed(bench, "large"))
    # It waits behind the window of the large one, and then they take turns.
    assert done <= (window_of(CONCURRENCY) + 2) * CHUNK_SIZE
    assert bench.store.statuses("large") == dict.fromkeys(range(large), "scored")
    assert len(bench.judge.tasks) == large + small

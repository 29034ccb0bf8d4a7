"""Group commit: what goes together, what is told and when, and what becomes of lost leases."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from saiten_server.core.batch import INTERNAL
from saiten_server.core.errors import StoreUnavailable
from saiten_server.core.redaction import ERASED_FAILURE
from saiten_server.runs.commits import MOST_AT_ONCE, CommitBuffer, enqueue
from saiten_server.runs.work import ChunkJob, Committed, FinishedCandidate, QueueUnavailable
from tests.support.batches import LEASE, C, finish
from tests.support.faults import words
from tests.support.waiting import LIMIT_SECONDS
from tests.support.worker_bench import OWNER, Bench, turns


def told(tasks: Sequence[asyncio.Task[None]]) -> list[bool]:
    return [task.done() for task in tasks]


async def hang() -> None:
    await asyncio.Event().wait()


async def test_what_arrives_during_a_commit_goes_together_into_the_next(bench: Bench) -> None:
    await bench.post(C)
    work, _ = await bench.lease()
    bench.store.gate.clear()
    first = asyncio.create_task(bench.buffer.keep(finish(work, 0)))
    await turns()
    assert bench.store.tried == 1
    rest = [asyncio.create_task(bench.buffer.keep(finish(work, position))) for position in range(1, 6)]
    await turns()
    assert told([first, *rest]) == [False] * 6
    bench.store.gate.set()
    await asyncio.gather(first, *rest)
    assert [positions for positions, _ in bench.store.commits] == [[0], [1, 2, 3, 4, 5]]


async def test_a_group_has_a_greatest_size(bench: Bench) -> None:
    await bench.post(C)
    work, _ = await bench.lease()
    one = finish(work, 0)
    await asyncio.gather(*(bench.buffer.keep(one) for _ in range(MOST_AT_ONCE + 1)))
    assert [len(positions) for positions, _ in bench.store.commits] == [MOST_AT_ONCE, 1]
    assert len(bench.store.statuses()) == 1


async def test_a_store_that_is_away_is_tried_until_it_is_back_and_nothing_is_told_before(bench: Bench) -> None:
    await bench.post(C)
    work, _ = await bench.lease()
    bench.store.away = True
    kept = asyncio.create_task(bench.buffer.keep(finish(work, 0)))
    await bench.time.move(60)
    assert not kept.done()
    tried = bench.store.tried
    # At first often, then every 1.5 to 3 s.
    assert 60 / 3 <= tried <= 60 / 1.5 + 8
    bench.store.away = False
    await bench.time.move(3.25)
    await kept
    assert bench.store.tried == tried + 1
    assert bench.store.statuses() == {0: "scored"}


async def test_the_last_results_of_a_chunk_close_it_in_the_same_commit(bench: Bench) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    kept = [asyncio.create_task(bench.buffer.keep(finish(work, position))) for position in (0, 1)]
    leased.tasks.update(kept)
    leased.fed = True
    await asyncio.gather(*kept)
    await bench.buffer.close(leased)
    assert bench.store.commits == [([0, 1], [work.job])]
    assert bench.store.look().status == "completed"
    assert bench.buffer.held == 0


@pytest.mark.parametrize("fed", [True, False])
async def test_a_chunk_with_something_in_hand_or_to_begin_is_not_closed_early(bench: Bench, fed: bool) -> None:
    await bench.post(3)
    work, leased = await bench.lease()
    kept = asyncio.create_task(bench.buffer.keep(finish(work, 0)))
    leased.tasks.add(kept)
    other = asyncio.create_task(hang())
    if fed:
        leased.tasks.add(other)
    leased.fed = fed
    await kept
    assert bench.store.commits == [([0], [])]
    other.cancel()


@pytest.mark.parametrize("others", [0, 1])
async def test_a_commit_waits_for_company_only_where_some_may_come(bench: Bench, others: int) -> None:
    await bench.post(3)
    work, _ = await bench.lease()

    async def sleep(_seconds: float) -> None:
        await hang()

    buffer = CommitBuffer(bench.store, bench.queue, bench.cache, owner=OWNER, lease_seconds=LEASE, sleep=sleep)
    running = asyncio.create_task(buffer.run())
    kept = asyncio.create_task(buffer.keep(finish(work, 0)))
    in_hand = [kept, *(asyncio.create_task(hang()) for _ in range(others))]
    buffer.add(work.job).tasks.update(in_hand)
    await turns()
    assert kept.done() is (others == 0)
    for task in [running, *in_hand]:
        task.cancel()
    await asyncio.wait([running, *in_hand])


async def test_a_batch_is_stopped_in_all_its_chunks_and_no_other(bench: Bench) -> None:
    jobs = [ChunkJob("ba_1", 0), ChunkJob("ba_1", 1), ChunkJob("ba_2", 0)]
    chunks = [bench.buffer.add(job) for job in jobs]
    bench.buffer.stop("ba_1")
    assert [leased.stopped for leased in chunks] == [True, True, False]


async def test_a_chunk_that_is_closed_with_candidates_left_is_queued_again(bench: Bench) -> None:
    await bench.post(3)
    work, leased = await bench.lease()
    await bench.buffer.keep(finish(work, 0))
    await bench.buffer.close(leased)
    await turns()
    assert await bench.queue.depth() == 1
    again, _ = await bench.lease()
    assert [entry.position for entry, _ in again.todo] == [1, 2]


async def test_a_run_that_ends_late_does_not_close_the_chunks_next_lease(bench: Bench) -> None:
    """A chunk that goes back with candidates left may be here again before its run has quite ended."""
    await bench.post(2)
    work, first = await bench.lease()
    first.closed = True
    await bench.store.commit(OWNER, [finish(work, 0)], [work.job])
    _, second = await bench.lease()
    await bench.buffer.close(first)
    assert bench.buffer.works_on(work.job)
    assert bench.store.look().chunks[0].state == "leased"
    await bench.buffer.close(second)
    assert not bench.buffer.works_on(work.job)


async def test_a_lost_lease_ends_what_is_in_hand(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    working = asyncio.create_task(hang())
    leased.tasks.add(working)
    await bench.time.move(LEASE + 1)
    assert await bench.store.claim(work.job, "w2", LEASE) is not None
    with caplog.at_level(logging.WARNING, "saiten.batches"):
        await bench.buffer.renew()
    await asyncio.wait([working])
    assert working.cancelled()
    assert (leased.lost, leased.stopped) == (True, True)
    [record] = caplog.records
    assert (record.__dict__["batch_id"], record.__dict__["chunk"]) == ("ba_1", 0)


async def test_a_result_of_a_lost_chunk_is_refused_and_its_sender_told(bench: Bench) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    await bench.time.move(LEASE + 1)
    assert await bench.store.claim(work.job, "w2", LEASE) is not None
    await bench.buffer.keep(finish(work, 0))
    assert leased.lost
    assert bench.store.statuses() == {}
    await bench.buffer.close(leased)
    assert bench.store.look().chunks[0].owner == "w2"
    assert [closed for _, closed in bench.store.commits] == [[]]


async def test_a_lease_that_ran_out_while_nobody_took_it_is_renewed(bench: Bench) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    await bench.time.move(LEASE + 1)
    await bench.buffer.renew()
    assert not leased.lost
    assert await bench.store.claim(work.job, "w2", LEASE) is None


async def test_a_lease_that_went_back_during_the_renewal_was_not_lost(bench: Bench) -> None:
    await bench.post(1)
    work, leased = await bench.lease()
    renewal = asyncio.Event()
    renew = bench.store.renew

    async def slowly(*asked: object) -> object:
        await renewal.wait()
        return await renew(*asked)  # type: ignore[arg-type]

    bench.store.renew = slowly  # type: ignore[method-assign, assignment]
    renewing = asyncio.create_task(bench.buffer.renew())
    await turns()
    await bench.buffer.keep(finish(work, 0))
    closing = asyncio.create_task(bench.buffer.close(leased))
    await turns()
    renewal.set()
    await asyncio.gather(renewing, closing)
    assert not leased.lost


async def test_a_paused_batch_stops_its_chunks_and_keeps_what_is_in_hand(bench: Bench) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    working = asyncio.create_task(hang())
    leased.tasks.add(working)
    await bench.store.pause("ba_1", "requested", words("…"))
    await bench.buffer.renew()
    await turns()
    assert (leased.stopped, leased.lost, working.done()) == (True, False, False)
    await bench.buffer.keep(finish(work, 0))
    assert bench.store.statuses() == {0: "scored"}
    working.cancel()


@pytest.mark.parametrize("erased", [True, False])
async def test_lost_work_of_an_erased_batch_leaves_nothing_in_the_cache(bench: Bench, erased: bool) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    bench.cache.entries = {"mine": b"1", "another's": b"2"}
    leased.touched.add("mine")
    if erased:
        await bench.store.erase("team", "ba_1")
    else:
        await bench.time.move(LEASE + 1)
        assert await bench.store.claim(work.job, "w2", LEASE) is not None
    await bench.buffer.renew()
    assert leased.lost
    await bench.buffer.close(leased)
    assert set(bench.cache.entries) == ({"another's"} if erased else {"mine", "another's"})
    assert bench.buffer.held == 0


async def test_what_a_chunk_with_erased_candidates_rests_on_leaves_the_cache(bench: Bench) -> None:
    await bench.post(2)
    work, leased = await bench.lease()
    bench.cache.entries = {"mine": b"1", "another's": b"2"}
    leased.touched.add("mine")
    await bench.store.commit(OWNER, [FinishedCandidate(work.job, work.todo[0][0], None, ERASED_FAILURE)], [])
    await bench.buffer.close(leased)
    assert not leased.lost
    assert set(bench.cache.entries) == {"another's"}


async def test_what_an_erasure_owes_is_remembered_where_the_cache_is_away(bench: Bench) -> None:
    await bench.post(2)
    _, leased = await bench.lease()
    leased.touched.update({"one", "another"})

    async def fail(_: Sequence[str]) -> None:
        raise StoreUnavailable(words("Redis is away"))

    bench.cache.forget = fail  # type: ignore[method-assign, assignment]
    await bench.store.erase("team", "ba_1")
    await bench.buffer.renew()
    await bench.buffer.close(leased)
    assert await bench.store.list_erased_calls(9) == ("another", "one")


async def test_a_result_that_cannot_be_written_holds_no_other_up(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.post(4)
    work, leased = await bench.lease()
    leased.fed = True
    commit = bench.store.commit

    async def refuse_one(
        owner: str, finished: Sequence[FinishedCandidate], closed: Sequence[ChunkJob], *begun: Any
    ) -> Committed:
        if any(one.record is not None and one.entry.position == 1 for one in finished):
            raise ValueError("no such character")
        return await commit(owner, finished, closed, *begun)

    bench.store.commit = refuse_one  # type: ignore[method-assign]
    async with asyncio.timeout(LIMIT_SECONDS):
        await asyncio.gather(*(bench.buffer.keep(finish(work, position)) for position in range(4)))
        await bench.buffer.close(leased)
    assert bench.store.statuses() == {0: "scored", 1: INTERNAL.code, 2: "scored", 3: "scored"}
    assert bench.store.failures()[1] == INTERNAL
    assert [vars(record).get("position") for record in caplog.records] == [None, 1]


async def test_a_sender_that_goes_away_takes_its_result_not_back(bench: Bench) -> None:
    await bench.post(2)
    work, _ = await bench.lease()
    bench.store.gate.clear()
    going, staying = (asyncio.create_task(bench.buffer.keep(finish(work, position))) for position in (0, 1))
    await turns()
    going.cancel()
    bench.store.gate.set()
    await staying
    assert going.cancelled()
    assert bench.store.statuses() == {0: "scored", 1: "scored"}


async def test_jobs_of_a_queue_that_is_away_are_left_to_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        async def put(self, jobs: Sequence[ChunkJob]) -> None:
            raise QueueUnavailable("Redis cannot be reached")

    with caplog.at_level(logging.WARNING, "saiten.batches"):
        await enqueue(Away(), [ChunkJob("ba_1", 0)])  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == ["jobs wait for the queue: Redis cannot be reached"]
    assert vars(caplog.records[0])["code"] == "queue-unavailable"


async def test_results_are_counted_once_though_they_come_twice(bench: Bench) -> None:
    await bench.post(2)
    work, _ = await bench.lease()
    one = finish(work, 0, cost_usd=0.5)
    await bench.buffer.keep(one)
    await bench.buffer.keep(replace(one))
    batch = await bench.store.find("team", "ba_1")
    assert batch is not None
    assert (batch.counts.scored, batch.usage.cost_usd) == (1, 0.5)


@pytest.mark.parametrize("how", ["cancel", "erase"])
async def test_a_look_ends_what_runs_for_a_batch_that_was_cancelled_or_erased(bench: Bench, how: str) -> None:
    await bench.post(12, api_key="key_1")
    bench.judge.holds = True
    work, leased = await bench.lease()
    run = bench.begin(work, leased)
    await turns()
    await (bench.store.cancel("team", "ba_1") if how == "cancel" else bench.store.erase("team", "ba_1"))
    await bench.buffer.watch()
    await turns()
    assert len(bench.judge.cancelled) == bench.places
    await run
    if how == "cancel":
        assert bench.store.look().estimated_calls == bench.places
        assert bench.store.look().chunks[0].owner is None


async def test_a_look_lets_what_is_in_hand_of_a_paused_batch_finish(bench: Bench) -> None:
    await bench.post(12)
    bench.judge.holds = True
    work, leased = await bench.lease()
    run = bench.begin(work, leased)
    await turns()
    await bench.store.pause("ba_1", "requested", words("…"))
    await bench.buffer.watch()
    await turns()
    assert (bench.judge.cancelled, leased.stopped) == ([], True)
    bench.judge.let_all_go()
    await run
    assert bench.store.statuses() == dict.fromkeys(range(bench.places), "scored")


async def test_calls_of_a_chunk_that_went_back_wait_for_nothing(bench: Bench) -> None:
    await bench.post(3)
    _, leased = await bench.lease()
    await bench.buffer.close(leased)
    leased.permitted = leased.begun
    async with asyncio.timeout(LIMIT_SECONDS):
        await bench.buffer.announce(leased, 0)


async def test_a_call_goes_on_though_another_candidate_of_the_chunk_came_to_nothing(bench: Bench) -> None:
    await bench.post(3)
    _, leased = await bench.lease()
    # The first was called and ended in an error; of it no task is left.
    await bench.buffer.announce(leased, 0)
    leased.fed = leased.stopped = True
    leased.permitted = leased.begun
    last = asyncio.create_task(bench.buffer.announce(leased, 1))
    leased.tasks.add(last)
    async with asyncio.timeout(LIMIT_SECONDS):
        await last
    assert leased.called == {0, 1}


async def test_calls_of_one_candidate_that_wait_side_by_side_are_announced_together(bench: Bench) -> None:
    await bench.post(C)
    _, leased = await bench.lease()
    leased.fed, leased.permitted = True, 0
    leased.tasks.add(asyncio.create_task(hang()))
    samples = [asyncio.create_task(bench.buffer.announce(leased, 0)) for _ in range(3)]
    await turns(200)
    for task in [*samples, *leased.tasks]:
        task.cancel()
    await asyncio.gather(*samples, *leased.tasks, return_exceptions=True)
    assert [task.cancelled() for task in samples] == [False] * 3
    assert leased.begun == 1

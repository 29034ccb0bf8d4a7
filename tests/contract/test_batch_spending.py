"""What batches charge to their keys, on each database."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.evaluation import RelevanceOptions
from saiten_server.governance.keys import APIKeyStore
from saiten_server.governance.store import SpendingStore
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import COLLECT, FINISH, ChunkJob
from tests.support.batches import LEASE, C, HandClock, claim, finish, finish_all, make_batch, run_chunk
from tests.support.faults import words
from tests.support.waiting import LIMIT_SECONDS

DAY_SECONDS = 86_400.0
CENT = 0.015625
"""USD of one result; a power of two, so that sums are exact."""


@dataclass
class Bench:
    """The store under test, what keys spend, how a key's own limit is set, and the clock. Without one a key may cost 40
    results a day."""

    store: BatchStore
    spending: SpendingStore
    limit: Callable[[float], Awaitable[None]]
    clock: HandClock
    key_id: str


@pytest.fixture
async def bench(engine: AsyncEngine) -> Bench:
    clock, default = HandClock(), C * CENT
    keyring = APIKeyStore(engine)
    key, _ = await keyring.create("ci", "team", "write")

    async def change_limit(usd: float) -> None:
        await keyring.limit(key.id, requests_per_minute=None, usd_per_day=usd)

    store = BatchStore(engine, window=4, usd_per_day=default, clock=clock)
    return Bench(store, SpendingStore(engine), change_limit, clock, key.id)


async def pause_of(bench: Bench, batch_id: str = "ba_1") -> tuple[str, str | None]:
    found = await bench.store.find("team", batch_id)
    assert found is not None
    return found.status, found.pause_reason


async def spent(bench: Bench) -> float:
    return await bench.spending.spent_usd(bench.key_id, bench.clock())


async def test_a_commit_charges_what_its_new_results_cost(bench: Bench) -> None:
    await make_batch(bench.store, count=C, api_key=bench.key_id)
    work = await claim(bench.store, 0)
    results = [finish(work, position, cost_usd=CENT) for position in range(3)]
    await bench.store.commit("w1", results, [])
    # Sent again, they are not new.
    await bench.store.commit("w1", results, [])
    assert await spent(bench) == 3 * CENT


async def test_who_has_no_key_and_what_has_no_cost_is_not_charged(bench: Bench) -> None:
    await make_batch(bench.store, count=C)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    await make_batch(bench.store, "ba_2", count=C, api_key=bench.key_id)
    work = await claim(bench.store, 0, batch_id="ba_2")
    await bench.store.commit("w1", [finish(work, 0, cost_usd=0.0), finish(work, 1, cost_usd=None)], [])
    assert await spent(bench) == 0


async def test_commits_for_one_key_at_once_are_all_charged(bench: Bench) -> None:
    names = ["ba_1", "ba_2", "ba_3"]
    await bench.limit(1000.0)
    for name in names:
        await make_batch(bench.store, name, count=2 * C, api_key=bench.key_id)

    async def run(owner: str, number: int) -> None:
        for name in names if number else reversed(names):
            # The other's commit may be queueing this very chunk, and a claim waits for nobody.
            while (work := await bench.store.claim(ChunkJob(name, number), owner, LEASE)) is None:
                await asyncio.sleep(0.01)
            await bench.store.commit(owner, finish_all(work, cost_usd=CENT), [work.job])

    async with asyncio.timeout(LIMIT_SECONDS):
        await asyncio.gather(run("w1", 0), run("w2", 1))
    assert await spent(bench) == 6 * C * CENT


async def test_a_spent_limit_pauses_the_batch_at_the_next_chunk(bench: Bench) -> None:
    await make_batch(bench.store, count=3 * C, api_key=bench.key_id)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    assert await pause_of(bench) == ("running", None)
    assert await bench.store.claim(ChunkJob("ba_1", 1), "w1", LEASE) is None
    assert await pause_of(bench) == ("paused", "cost-limit-reached")
    found = await bench.store.find("team", "ba_1")
    assert found is not None
    assert found.pause_detail


async def test_what_is_left_of_the_limit_bounds_what_begins(bench: Bench) -> None:
    await bench.limit((C + 5) * CENT)
    await make_batch(bench.store, count=3 * C, api_key=bench.key_id)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    await make_batch(bench.store, "ba_2", count=C, api_key=bench.key_id, unit_cost_usd=CENT)
    held = await claim(bench.store, 1)
    assert (held.affordable, held.unit_usd) == (5, CENT)
    # All of it is in hand: nothing else begins, of whichever batch of the key.
    others = (ChunkJob("ba_1", 2), ChunkJob("ba_2", 0))
    assert [await bench.store.claim(job, "w1", LEASE) for job in others] == [None, None]
    assert await pause_of(bench) == ("running", None)
    # Less than a candidate may cost is left once the four are done. Another may begin then, and one alone.
    await bench.store.commit("w1", [*finish_all(held, cost_usd=CENT)[:4]], [held.job])
    await bench.limit((C + 4.5) * CENT)
    last = await claim(bench.store, 2)
    assert last.affordable == 1
    assert await bench.store.claim(others[1], "w1", LEASE) is None
    await bench.store.commit("w1", finish_all(last, cost_usd=CENT), [last.job])
    assert await spent(bench) == (C + 5) * CENT
    assert await bench.store.claim(held.job, "w1", LEASE) is None
    assert await pause_of(bench) == ("paused", "cost-limit-reached")


async def test_claims_at_once_reserve_no_more_than_is_left(bench: Bench) -> None:
    await make_batch(bench.store, count=3 * C, api_key=bench.key_id, unit_cost_usd=CENT)
    await make_batch(bench.store, "ba_2", count=3 * C, api_key=bench.key_id, unit_cost_usd=CENT)
    jobs = [ChunkJob(name, number) for name in ("ba_1", "ba_2") for number in range(3)]
    found = await asyncio.gather(*(bench.store.claim(job, "w1", LEASE) for job in jobs))
    assert sum(work.affordable for work in found if work is not None) == C


async def test_what_is_in_hand_is_kept_and_charged(bench: Bench) -> None:
    await make_batch(bench.store, count=3 * C, api_key=bench.key_id)
    held = await claim(bench.store, 1)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    assert await bench.store.claim(ChunkJob("ba_1", 2), "w1", LEASE) is None
    told = await bench.store.commit("w1", finish_all(held, cost_usd=CENT), [])
    assert told.lost == frozenset()
    assert told.stopped == {held.job}
    assert await spent(bench) == 2 * C * CENT


async def test_another_batch_of_the_key_pauses_too_and_other_batches_go_on(bench: Bench) -> None:
    await make_batch(bench.store, count=C, api_key=bench.key_id)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    await make_batch(bench.store, "ba_2", api_key=bench.key_id)
    assert await bench.store.claim(ChunkJob("ba_2", 0), "w1", LEASE) is None
    assert await pause_of(bench, "ba_2") == ("paused", "cost-limit-reached")
    await make_batch(bench.store, "ba_3")
    await make_batch(bench.store, "ba_4", api_key="key_other")
    assert (await claim(bench.store, 0, batch_id="ba_3")).affordable == C
    assert (await claim(bench.store, 0, batch_id="ba_4")).affordable == C


@pytest.mark.parametrize("mended", ["midnight", "raised"])
async def test_a_resumed_batch_goes_on_on_another_day_or_with_a_raised_limit(bench: Bench, mended: str) -> None:
    await make_batch(bench.store, count=2 * C, api_key=bench.key_id)
    await run_chunk(bench.store, 0, cost_usd=CENT)
    assert await bench.store.claim(ChunkJob("ba_1", 1), "w1", LEASE) is None
    # Resumed too early it pauses again.
    await bench.store.resume("team", "ba_1")
    assert await bench.store.claim(ChunkJob("ba_1", 1), "w1", LEASE) is None
    assert await pause_of(bench) == ("paused", "cost-limit-reached")
    if mended == "raised":
        await bench.limit(2 * C * CENT)
    else:
        bench.clock.move(DAY_SECONDS)
    await bench.store.resume("team", "ba_1")
    await run_chunk(bench.store, 1, cost_usd=CENT)
    assert await pause_of(bench) == ("completed", None)
    assert await spent(bench) == (2 if mended == "raised" else 1) * C * CENT


async def test_the_end_of_a_batch_costs_nothing_and_is_made(bench: Bench) -> None:
    await make_batch(bench.store, count=C, api_key=bench.key_id, relevance=RelevanceOptions(baseline="batch"))
    assert await run_chunk(bench.store, 0, cost_usd=CENT) == [ChunkJob("ba_1", FINISH)]
    assert await bench.store.claim(ChunkJob("ba_1", FINISH), "w1", LEASE) is not None


async def test_replies_that_the_providers_batch_has_are_paid_for_and_kept(bench: Bench) -> None:
    await make_batch(bench.store, count=2 * C, api_key=bench.key_id, mode="provider-batch")
    assert await bench.store.claim(ChunkJob("ba_1", COLLECT), "w1", LEASE) is not None
    await bench.store.release_held_chunks("ba_1")
    for number in range(2):
        await run_chunk(bench.store, number, cost_usd=CENT)
    assert await spent(bench) == 2 * C * CENT
    # What is not sent yet is not sent.
    await make_batch(bench.store, "ba_2", api_key=bench.key_id, mode="provider-batch")
    assert await bench.store.claim(ChunkJob("ba_2", COLLECT), "w1", LEASE) is None
    assert await pause_of(bench, "ba_2") == ("paused", "cost-limit-reached")


async def test_what_waits_is_counted_over_all_and_by_project(bench: Bench) -> None:
    assert await bench.store.waiting("team") == (0, 0)
    await make_batch(bench.store, count=2 * C, api_key=bench.key_id)
    await make_batch(bench.store, "ba_2", count=7, project="other")
    await make_batch(bench.store, "ba_3", count=9)
    await run_chunk(bench.store, 0)
    await bench.store.pause("ba_3", "requested", words("…"))
    assert await bench.store.waiting("team") == (C + 7, C)
    assert await bench.store.waiting("other") == (C + 7, 7)
    assert await bench.store.waiting("\0") == (C + 7, 0)

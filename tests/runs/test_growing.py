"""A batch that grows while it runs, and ends once it is sealed."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchConversation, BatchOptions
from saiten_server.platform.sql.engine import change
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.growing import GrowingBatch, begin_growing, grow, seal
from tests.support.batches import LEASE, START, HandClock, finish_all
from tests.support.conversations import make_turns

NEW = GrowingBatch("ba_1", "team", BatchOptions(name="live", rubric="ja-conversation"), "0" * 64, 0.01)


def talk(name: str) -> BatchConversation:
    return BatchConversation.model_validate({"id": name, "turns": make_turns(f"{name} でございます。")})


async def begin(engine: AsyncEngine, *names: str) -> BatchStore:
    async with change(engine) as connection:
        await begin_growing(connection, NEW, START)
        assert await grow(connection, "ba_1", [talk(name) for name in names]) == 0
    return BatchStore(engine)


async def add(engine: AsyncEngine, *names: str) -> int | None:
    async with change(engine) as connection:
        return await grow(connection, "ba_1", [talk(name) for name in names])


async def close(engine: AsyncEngine) -> None:
    async with change(engine) as connection:
        await seal(connection, "ba_1", START)


async def score_next(store: BatchStore) -> int:
    """Scores all chunks that are to be queued; how many."""
    jobs = await store.next_jobs("ba_1", 10)
    for job in jobs:
        work = await store.claim(job, "w1", LEASE)
        assert work is not None
        await store.commit("w1", finish_all(work), [job])
    return len(jobs)


async def test_what_joins_later_is_scored_too_and_a_sealed_batch_ends(engine: AsyncEngine) -> None:
    store = await begin(engine, "a", "b")
    assert await score_next(store) == 1
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.counts.total, found.counts.scored) == ("running", 2, 2)
    assert await add(engine, "c") == 2
    assert await score_next(store) == 1
    await close(engine)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.counts.total, found.counts.scored) == ("completed", 3, 3)
    assert [entry.item for entry, _ in await store.candidates("ba_1", after=-1, limit=9)] == ["a", "b", "c"]


async def test_a_sealed_batch_ends_with_its_last_result(engine: AsyncEngine) -> None:
    store = await begin(engine, "a")
    await close(engine)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert found.status == "queued"
    await score_next(store)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert found.status == "completed"
    assert await add(engine, "late") is None


async def test_nothing_joins_a_batch_that_is_gone(engine: AsyncEngine) -> None:
    store = await begin(engine, "a")
    await store.erase("team", "ba_1")
    assert await add(engine, "b") is None
    await close(engine)
    assert await store.find("team", "ba_1") is None


async def test_one_that_is_open_is_counted_in_the_backlog_and_is_not_old(engine: AsyncEngine) -> None:
    await begin(engine, "a", "b")
    clock = HandClock()
    clock.move(86_400)
    store = BatchStore(engine, clock=clock)
    assert await store.backlog() == (2, 0.0)
    assert await score_next(store) == 1
    assert await store.backlog() == (0, 0.0)
    await add(engine, "c")
    await close(engine)
    assert await store.backlog() == (1, 86_400.0)

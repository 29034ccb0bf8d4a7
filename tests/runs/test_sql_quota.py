"""What a project stores is summed up again after a while; what is let in meanwhile is added."""

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import ProjectFull
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.sizes import COPIES, RESULT_BYTES, ROW_BYTES, add_bytes
from saiten_server.preferences.human.store import HumanPreferenceStore, measure_preferences
from saiten_server.preferences.human.values import HumanPreference, KeptOpinion
from saiten_server.ratings.service import measure_ratings
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import HumanRating
from saiten_server.runs import quota
from saiten_server.runs.quota import FRESH_SECONDS, StorageQuota, expect_bytes
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import make_batch, run_chunk

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def store(engine: AsyncEngine, project: str, size: int) -> None:
    async with db.write(engine) as connection:
        await add_bytes(connection, {project: size})


async def store_dataset(engine: AsyncEngine, number: int, state: str, size: int) -> None:
    texts = {"project": "team", "state": state, "name": "n", "key": str(number), "digest": "d", "unit": "item"}
    row = {"id": f"ds_{number}", **texts, "version": None, "korean": False, "items": 1, "bytes": size}
    async with db.write(engine) as connection:
        await connection.execute(insert(t.datasets), {**row, "created_at": NOW})


async def test_everything_of_the_project_counts(engine: AsyncEngine) -> None:
    await store(engine, "team", 7)
    await store(engine, "other", 1_000)
    for number, state in enumerate(("upload", "kept", "done")):  # the content of the last became the kept one's
        await store_dataset(engine, number, state, 10**number * 20)
    assert await StorageQuota(engine, None).used("team") == 7 + 20 + 200
    assert await StorageQuota(engine, None).used("nobody") == 0
    assert expect_bytes(texts=300, candidates=2) == COPIES * 300 + 2 * (ROW_BYTES + RESULT_BYTES)


async def test_results_that_a_batch_is_still_to_get_count_until_they_are_there(engine: AsyncEngine) -> None:
    batches = BatchStore(engine)
    await make_batch(batches, count=3)

    async def measure() -> tuple[int, int]:
        held: int = await db.fetch_value(engine, select(t.batches.c.stored_bytes)) or 0
        return held, await StorageQuota(engine, None).used("team")

    held, used = await measure()
    assert used == held + 3 * RESULT_BYTES
    await run_chunk(batches, 0)
    with_results, used = await measure()
    assert used == with_results > held


async def test_a_sum_holds_for_a_while_and_what_is_let_in_is_added(sqlite_engine: AsyncEngine) -> None:
    now, refused = 100.0, list[str]()
    bound = StorageQuota(sqlite_engine, 100, refused=lambda: refused.append("bytes"), clock=lambda: now)
    await bound.require_room("team", 100)
    with pytest.raises(ProjectFull):
        await bound.require_room("team")
    await bound.require_room("other", 100)
    now += FRESH_SECONDS  # nothing of it was stored
    await store(sqlite_engine, "team", 40)
    await bound.require_room("team", 60)
    with pytest.raises(ProjectFull, match=r"100 of 100 bytes.* 1 "):
        await bound.require_room("team", 1)
    now += FRESH_SECONDS
    with pytest.raises(ProjectFull):
        await bound.require_room("team", 61)  # refused, so not added
    await bound.require_room("team", 60)
    assert refused == ["bytes"] * 3


async def test_without_a_bound_nothing_is_asked_of_the_store(
    sqlite_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    async def count(*given: object) -> int:
        asked.append(given)
        return 0

    monkeypatch.setattr(quota, "count_stored", count)
    await StorageQuota(sqlite_engine, None).require_room("team", 10**18)
    assert asked == []


async def test_one_caller_sums_up_while_the_others_go_by_the_last_sum(
    sqlite_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, summed, answer = 100.0, 0, asyncio.Event()
    bound = StorageQuota(sqlite_engine, 100, clock=lambda: now)
    assert await bound.used("team") == 0
    now += FRESH_SECONDS

    async def count(*_: object) -> int:
        nonlocal summed
        summed += 1
        await answer.wait()
        return 100

    monkeypatch.setattr(quota, "count_stored", count)
    first = asyncio.create_task(bound.used("team"))
    while not summed:
        await asyncio.sleep(0)
    assert [await bound.used("team") for _ in range(3)] == [0, 0, 0]
    answer.set()
    assert (await first, await bound.used("team"), summed) == (100, 100, 1)


def test_the_statement_that_adds_is_built_once(sqlite_engine: AsyncEngine) -> None:
    built = [db.insert_or_add(sqlite_engine, t.project_bytes, t.project_bytes.c.bytes) for _ in range(2)]
    assert built[0] is built[1]


async def test_what_people_said_takes_no_more_than_was_asked_for(sqlite_engine: AsyncEngine) -> None:
    given = {"context": ["長" * 1000], "first": {"response": "海" * 500, "id": "波"}, "second": {"response": "はい"}}
    said = [
        HumanPreference.model_validate({**given, "rater": f"甲{number}", "preference": "first", "reason": "詳" * 90})
        for number in range(5)
    ]
    await HumanPreferenceStore(sqlite_engine).keep("a", [KeptOpinion(one) for one in said], NOW)
    assert await StorageQuota(sqlite_engine, None).used("a") == measure_preferences(said)
    rated = [
        HumanRating(item=f"品{number}", rater="甲", ratings={"overall": 4.0, "warmth": 1.0}, comment="硬" * 600)
        for number in range(5)
    ]
    await RatingStore(sqlite_engine).keep("b", rated, NOW)
    assert await StorageQuota(sqlite_engine, None).used("b") == measure_ratings(rated)

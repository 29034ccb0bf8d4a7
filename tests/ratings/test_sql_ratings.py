"""What the SQL store of meta-evaluation promises beyond its ports: no traces, yesterday's limits, indexed reads."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.comparison.judge_checks.service import AnchorStore
from saiten_server.core.dialogue import UNBOUNDED
from saiten_server.core.errors import NotFound, StoreUnavailable
from saiten_server.platform.sql.engine import open_engine, read, write
from saiten_server.platform.sql.tables import batches, human_ratings
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import HumanRating, RatingFilter
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import START, make_batch, run_chunk
from tests.support.waiting import LIMIT_SECONDS

MARKER = "消えるべき人"
ALL = {"after": -1, "limit": 1000}


def make_rating(**changes: Any) -> HumanRating:
    given = {"rater": "r1", "ratings": {"naturalness": 3.0}, **changes}
    return HumanRating.model_validate(given, context={"limits": UNBOUNDED})


async def rate(engine: AsyncEngine) -> RatingStore:
    """A batch with ratings that hold the marker, between others that stay."""
    batches, meta = BatchStore(engine), RatingStore(engine)
    await make_batch(batches, count=5)
    await run_chunk(batches, 0)
    await meta.keep("team", [make_rating(item=f"before {number}") for number in range(50)], START)
    marked = {"rater": MARKER, "comment": MARKER * 300}  # long enough for pages of their own
    targets = [{"evaluation": "ev_ba_1_0"}, {"item": "item-1", "batch": "ba_1", "system": MARKER}]
    await meta.keep("team", [make_rating(**target, **marked) for target in targets], START)
    await meta.keep("team", [make_rating(item=f"after {number}") for number in range(50)], START)
    return meta


def traces(folder: Path) -> list[str]:
    """Files of the database that hold the marker."""
    return [path.name for path in sorted(folder.glob("saiten.db*")) if MARKER.encode() in path.read_bytes()]


async def test_ratings_of_an_erased_batch_leave_no_trace(sqlite_url: str, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url)
    meta = await rate(engine)
    assert traces(tmp_path) != []
    await BatchStore(engine).erase("team", "ba_1")
    assert traces(tmp_path) == []
    assert len(await meta.list("team", RatingFilter(), **ALL)) == 100
    await engine.dispose()


async def test_removed_ratings_leave_no_trace(sqlite_url: str, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url)
    meta = await rate(engine)
    assert traces(tmp_path) != []
    assert await meta.remove("team", RatingFilter(rater=MARKER)) == 2
    assert traces(tmp_path) == []
    await engine.dispose()


async def test_a_removal_that_cannot_be_cleaned_up_is_told(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(sqlite_url)
    # Else SQLite would wait as long as a caller does before it gives up.
    event.listen(engine.sync_engine, "checkout", lambda raw, *_: raw.execute("PRAGMA busy_timeout=50"))
    meta = await rate(engine)
    other = sqlite3.connect(tmp_path / "saiten.db", isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM human_ratings").fetchall()
    with caplog.at_level(logging.WARNING, logger="saiten.ratings"):
        assert await meta.remove("team", RatingFilter(rater=MARKER)) == 2
    assert [one.getMessage() for one in caplog.records] == [
        "another process reads the database; what was removed is cleaned from its log later"
    ]
    other.close()
    await engine.dispose()


async def test_erased_ratings_are_in_no_row(engine: AsyncEngine) -> None:
    await rate(engine)
    await BatchStore(engine).erase("team", "ba_1")
    async with read(engine) as connection:
        query = select(func.count()).select_from(human_ratings).where(human_ratings.c.batch_id.is_not(None))
        assert (await connection.execute(query)).scalar_one() == 0


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(postgres_url)
    yield engine
    await engine.dispose()


async def wait_for_a_waiter(engine: AsyncEngine, task: asyncio.Task[Any]) -> None:
    """Until a transaction waits for another's lock."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not task.done():
            async with read(engine) as connection:
                if (await connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))).scalar_one():
                    return
            await asyncio.sleep(0.01)
    raise AssertionError(f"it did not wait: {task.result()}")


async def test_who_rates_a_batch_that_is_being_erased_waits_and_is_told(postgres: AsyncEngine) -> None:
    meta = await rate(postgres)
    async with write(postgres) as erasing:
        await erasing.execute(delete(batches).where(batches.c.id == "ba_1"))
        keeping = asyncio.create_task(meta.keep("team", [make_rating(evaluation="ev_ba_1_1")], START))
        await wait_for_a_waiter(postgres, keeping)
    with pytest.raises(NotFound):
        await keeping


async def test_a_removal_waits_for_an_erasure_and_leaves_it_the_ratings(postgres: AsyncEngine) -> None:
    meta = await rate(postgres)
    async with write(postgres) as erasing:
        await erasing.execute(select(batches.c.id).where(batches.c.id == "ba_1").with_for_update())
        removing = asyncio.create_task(meta.remove("team", RatingFilter(rater=MARKER)))
        await wait_for_a_waiter(postgres, removing)
        # Had the removal locked ratings by now, each would wait for the other.
        await erasing.execute(delete(batches).where(batches.c.id == "ba_1"))
    assert await removing == 0


async def test_what_a_raised_limit_let_in_is_kept_replaced_and_read_back(engine: AsyncEngine) -> None:
    meta, long = RatingStore(engine), "".join(chr(0x4E00 + number) for number in range(20_000))
    rating = make_rating(item=long, system=long, rater=long)
    for _ in range(2):
        await meta.keep("team", [rating], START)
    await meta.keep("team", [make_rating(item=long[:-1], rater=long)], START)  # which begins as the other does
    ((_, found),) = await meta.list("team", RatingFilter(item=long, rater=long), **ALL)
    assert found.model_dump(exclude={"created_at", "earlier"}) == rating.model_dump()


@pytest.mark.parametrize("batch_id", ["ba_1", "ba_none"])
async def test_reading_goes_by_an_index(sqlite_url: str, batch_id: str) -> None:
    engine = open_engine(sqlite_url)
    meta, seen = await rate(engine), list[tuple[str, Any]]()
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: seen.append((told[2], told[3])))
    await meta.of_batch("team", batch_id, **ALL)
    await meta.list("team", RatingFilter(), **ALL)
    by_target = len(seen)
    await meta.list("team", RatingFilter(item="before 1"), **ALL)
    await meta.list("team", RatingFilter(evaluation="ev_ba_1_0"), **ALL)
    for place, (statement, parameters) in enumerate([*seen]):
        async with read(engine) as connection:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row["detail"] for row in plan.mappings() if "human_ratings" in row["detail"]]
        assert steps != []
        assert all(step.startswith("SEARCH human_ratings USING INDEX") for step in steps), steps
        # Not by the project alone, whose ratings may be a million.
        assert place < by_target or all("<expr>=?" in step or "evaluation=?" in step for step in steps), steps
    await engine.dispose()


async def test_a_missing_table_leaves_as_an_error_of_the_store(engine: AsyncEngine) -> None:
    meta = RatingStore(engine)
    async with write(engine) as connection:
        for name in ("human_ratings", "validations", "anchor_ratings"):
            await connection.execute(text(f"DROP TABLE {name}"))
    calls = [
        lambda: meta.keep("team", [make_rating(item="1")], START),
        lambda: meta.list("team", RatingFilter(), **ALL),
        lambda: meta.of_batch("team", "ba_1", **ALL),
        lambda: meta.remove("team", RatingFilter(rater="r1")),
        lambda: meta.validations("team"),
        lambda: AnchorStore(engine).find("team", "k"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            await call()

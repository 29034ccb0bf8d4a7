"""The migrations make what the tables say, and take it back, on each database."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.browsing import ResultQuery
from app.domain.evaluation import AspectResult, Unrated

# They add their tables to `metadata`.
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.browsing import ResultBrowser
from app.storage.sql.engine import open_engine, read, write
from app.storage.sql.evaluations import EvaluationStore
from app.storage.sql.frames import FrameStore
from app.storage.sql.schema import alembic_config, migrate, migrating, newest_revision, upgrade
from app.storage.sql.search import TextSearch
from app.storage.sql.tables import batches, metadata, running_time
from tests.support.batches import C, claim, fail, finish, make_batch, run_chunk
from tests.support.records import make_record
from tests.support.waiting import LIMIT_SECONDS

PROCESSES, ROUNDS = 3, 4


@pytest.fixture
def sqlite_url(bare_sqlite_url: str) -> str:
    return bare_sqlite_url


@pytest.fixture
def postgres_url(bare_postgres_url: str) -> str:
    return bare_postgres_url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine with the schema of today, made by every migration in turn: `migrate` makes a fresh one at once."""
    made = open_engine(database_url)
    async with migrating(made) as connection:
        await connection.run_sync(upgrade)
    yield made
    await made.dispose()


# Of SQLite alone, whose reflection knows no expressions: the catalogs are compared where the schema is made at once.
@pytest.mark.filterwarnings("ignore:(Skipped unsupported reflection of|autogenerate skipping).*expression-based index")
async def test_the_schema_is_what_the_tables_say(engine) -> None:
    async with read(engine) as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync, opts={"compare_type": True}), metadata)
        )
    assert differences == []


async def test_up_down_up(engine) -> None:
    async with write(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "base"))
    async with read(engine) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert names == ["alembic_version"]
    await migrate(engine)
    async with read(engine) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert set(names) == {*metadata.tables, "alembic_version"}


async def test_going_back_before_batches_and_forth_keeps_single_evaluations(engine) -> None:
    store, record = EvaluationStore(engine), make_record("ev_single")
    await store.save("team", record)
    await make_batch(BatchStore(engine), count=3)
    await run_chunk(BatchStore(engine), 0)
    async with write(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0001"))
    async with read(engine) as connection:
        columns = await connection.run_sync(lambda sync: inspect(sync).get_columns("evaluations"))
        ids = (await connection.exec_driver_sql("SELECT id FROM evaluations")).scalars().all()
    assert "batch_id" not in {column["name"] for column in columns}
    assert ids == ["ev_single"]
    await migrate(engine)
    assert await store.find("team", "ev_single") == record


async def test_replicas_that_start_at_once_migrate_once(postgres_url: str) -> None:
    engines = [open_engine(postgres_url) for _ in range(4)]
    await asyncio.gather(*(migrate(engine) for engine in engines))
    async with read(engines[0]) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert "evaluations" in names
    for engine in engines:
        await engine.dispose()


async def test_replicas_that_start_at_once_on_an_older_database_walk_it_up_once(engine) -> None:
    async with write(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0005"))
    replicas = [open_engine(engine.url.render_as_string(hide_password=False)) for _ in range(4)]
    await asyncio.gather(*(migrate(replica) for replica in replicas))
    async with read(engine) as connection:
        assert (await connection.exec_driver_sql("SELECT version_num FROM alembic_version")).scalars().all() == [
            newest_revision()
        ]
    for replica in replicas:
        await replica.dispose()


def start(barrier, urls: list[str]) -> None:
    """Comes up on each database at the moment at which the others do."""

    async def come_up(url: str) -> None:
        engine = open_engine(url)
        try:
            await migrate(engine)
            await EvaluationStore(engine).ping()
        finally:
            await engine.dispose()

    for url in urls:
        barrier.wait(LIMIT_SECONDS)
        asyncio.run(come_up(url))


def test_processes_that_start_at_once_on_a_fresh_file_all_come_up(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    urls = [f"sqlite+aiosqlite:///{tmp_path / f'{number}.db'}" for number in range(ROUNDS)]
    with context.Manager() as manager, ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        barrier = manager.Barrier(PROCESSES)
        running = [pool.submit(start, barrier, urls) for _ in range(PROCESSES)]
        assert [done.result(timeout=120) for done in running] == [None] * PROCESSES


async def test_engines_that_start_at_once_on_a_fresh_file_all_come_up(sqlite_url: str) -> None:
    engines = [open_engine(sqlite_url) for _ in range(8)]
    await asyncio.gather(*(migrate(engine) for engine in engines))
    await asyncio.gather(*(EvaluationStore(engine).ping() for engine in engines))
    for engine in engines:
        async with read(engine) as connection:
            assert (await connection.exec_driver_sql("SELECT count(*) FROM alembic_version")).scalar_one() == 1
        await engine.dispose()


async def test_a_file_is_in_wal_mode(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    await migrate(engine)
    async with read(engine) as connection:
        assert (await connection.exec_driver_sql("PRAGMA journal_mode")).scalar_one() == "wal"
    await engine.dispose()


async def test_a_database_in_memory_is_one_database() -> None:
    engine = open_engine("sqlite+aiosqlite://")
    await migrate(engine)
    store = EvaluationStore(engine)
    await asyncio.gather(*(store.ping() for _ in range(8)))
    await store.save_baseline("bert_L9", "ja", "c1", 0.5)
    assert await asyncio.gather(*(store.find_baseline("bert_L9", "ja", "c1") for _ in range(8))) == [0.5] * 8
    await engine.dispose()


async def test_a_file_that_another_writes_when_it_is_first_opened_is_waited_for(
    sqlite_url: str, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "saiten.db", isolation_level=None)
    other.execute("CREATE TABLE theirs (x)")
    other.execute("BEGIN IMMEDIATE")  # in this state SQLite refuses the switch to WAL at once, whatever its timeout
    engine = open_engine(sqlite_url)
    migrating = asyncio.create_task(migrate(engine))
    await asyncio.sleep(0.2)
    assert not migrating.done()
    other.execute("COMMIT")
    other.close()
    await migrating
    await EvaluationStore(engine).ping()
    await engine.dispose()


async def test_batches_of_before_are_browsed_and_summed_up_as_those_of_today(engine) -> None:
    store, browser = BatchStore(engine), ResultBrowser(engine)
    await make_batch(store, count=2 * C)
    await run_chunk(store, 0)
    work = await claim(store, 1)
    missing = AspectResult(
        rating=None,
        scale=(1, 3),
        label=None,
        samples=(None,),
        mean=None,
        sd=None,
        unrated=Unrated(reason="refused", detail=""),
    )
    later = finish(work, C, aspects={"wit": missing}, composites={"both": 0.5}, warnings=(), metadata={})
    await store.commit("w1", [later, fail(work, C + 1)], [])
    await make_batch(store, "ba_2", count=1)

    async def look() -> list[object]:
        queries = [
            ResultQuery(sort="both"),
            ResultQuery(unrated="wit"),
            ResultQuery(text="返事 39"),
            ResultQuery(metadata=("system", "甲")),
        ]
        pages = [await browser.browse("team", "ba_1", query, offset=0, limit=99) for query in queries]
        patterns = await browser.count_patterns("team", "ba_1", ["naturalness", "both"], most=9)
        frame = await FrameStore(engine).read_frame("team", "ba_1")
        found = (await TextSearch(engine).find("team", "ba_1", "返事 39")).tolist()
        columns = [frame.items.tolist(), frame.contexts.tolist(), found]
        return [*pages, sorted(await browser.measures("team", "ba_1")), sorted(patterns or [], key=str), *columns]

    before = await look()
    async with write(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0004"))
    assert (await store_counts(engine)) == {"batch_items": 2 * C + 1, "evaluations": C + 2}
    await migrate(engine)
    assert await look() == before
    assert await store.tallies("team", ["ba_1", "ba_2"]) == {"ba_1": None, "ba_2": None}
    await store.commit("w1", [finish(work, C + 2)], [])
    assert (await browser.browse("team", "ba_1", ResultQuery(), offset=0, limit=1)).total == C + 3


async def store_counts(engine) -> dict[str, int]:
    """Rows that a batch's texts and results have of old."""
    async with read(engine) as connection:
        return {
            name: (await connection.exec_driver_sql(f"SELECT count(*) FROM {name}")).scalar_one()
            for name in ("batch_items", "evaluations")
        }


async def test_ratings_of_simulated_raters_are_marked_and_stored_badges_cleared(engine) -> None:
    async with write(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0009"))
        for number, rater in enumerate(("simulated-1", "simulated-12", "simulated-1b", "not-simulated-1", "R1")):
            row = f"'team', 'k{number}', '{rater}', '{{}}', '2026-11-21 00:00:00'"
            await connection.exec_driver_sql(
                f'INSERT INTO human_ratings (project, "key", rater, ratings, created_at) VALUES ({row})'
            )
        await connection.exec_driver_sql("INSERT INTO validations VALUES ('team', 'k', '{}', '{}')")
    await migrate(engine)
    async with read(engine) as connection:
        rows = await connection.exec_driver_sql("SELECT rater, simulated FROM human_ratings ORDER BY number")
        assert {row.rater for row in rows if row.simulated} == {"simulated-1", "simulated-12"}
        assert (await connection.exec_driver_sql("SELECT * FROM validations")).all() == []


async def test_without_a_running_clock_deadlines_are_put_off_by_what_did_not_count(engine) -> None:
    store, expires_at = BatchStore(engine), select(batches.c.expires_at)
    await make_batch(store, deadline_hours=1.0)
    await claim(store, 0)
    async with write(engine) as connection:
        before = (await connection.execute(expires_at)).scalar_one()
        await connection.execute(update(running_time).values(skipped_seconds=7200.0))
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "0020"))
    async with read(engine) as connection:
        assert (await connection.execute(expires_at)).scalar_one() == before + timedelta(hours=2)

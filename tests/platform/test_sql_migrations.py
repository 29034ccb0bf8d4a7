"""The migrations make what the tables say, and take it back, on each database."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.sql.engine import open_engine, read, write
from saiten_server.platform.sql.schema import LAST_CHAINED, alembic_config, load_tables, migrate, migrating, upgrade
from saiten_server.platform.sql.tables import metadata
from saiten_server.scoring.store import EvaluationStore
from tests.support.migrations import NUMBER, add_migration
from tests.support.schema_catalog import read_catalog
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
    load_tables()
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


async def test_replicas_that_start_at_once_migrate_once(postgres_url: str) -> None:
    engines = [open_engine(postgres_url) for _ in range(4)]
    await asyncio.gather(*(migrate(engine) for engine in engines))
    async with read(engines[0]) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert "evaluations" in names
    for engine in engines:
        await engine.dispose()


async def test_replicas_that_start_at_once_on_an_earlier_database_walk_it_up_once(
    engine: AsyncEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_migration(tmp_path, monkeypatch)
    replicas = [open_engine(engine.url.render_as_string(hide_password=False)) for _ in range(4)]
    await asyncio.gather(*(migrate(replica) for replica in replicas))
    async with read(engine) as connection:
        assert (await connection.exec_driver_sql("SELECT version_num FROM alembic_version")).scalars().all() == [NUMBER]
    for replica in replicas:
        await replica.dispose()


OLD_DATABASE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('0028')",
    "CREATE TABLE evaluations (id VARCHAR(64) PRIMARY KEY)",
    "INSERT INTO evaluations VALUES ('ev_1')",
)


async def test_an_older_database_is_refused_and_nothing_written(database_url: str, tmp_path: Path) -> None:
    engine = open_engine(database_url)
    async with write(engine) as connection:
        for statement in OLD_DATABASE:
            await connection.exec_driver_sql(statement)

    async def look() -> tuple[object, ...]:
        async with read(engine) as connection:
            ids = (await connection.exec_driver_sql("SELECT id FROM evaluations")).scalars().all()
            catalog = await connection.run_sync(read_catalog)
        return ids, catalog, {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    before = await look()
    with pytest.raises(SettingsInvalid, match=f"revision 0028, .* at commit {LAST_CHAINED}"):
        await migrate(engine)
    assert await look() == before
    await engine.dispose()


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

"""A schema that is made at once is the one that the migrations make, in everything that the database says of it."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.sql.engine import open_engine, read
from saiten_server.platform.sql.schema import (
    create_schema,
    downgrade,
    is_empty,
    known_revisions,
    migrate,
    migrating,
    newest_revision,
    read_stamp,
    upgrade,
)
from tests.support.cases import in_turn
from tests.support.schema_catalog import Catalog, normalise, read_catalog


@pytest.fixture
def sqlite_url(bare_sqlite_url: str) -> str:
    return bare_sqlite_url


@pytest.fixture
def postgres_url(bare_postgres_url: str) -> str:
    return bare_postgres_url


@pytest.fixture
async def empty(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
async def engine(empty: AsyncEngine) -> AsyncEngine:
    await migrate(empty)
    return empty


async def look(engine: AsyncEngine) -> Catalog:
    async with read(engine) as connection:
        return await connection.run_sync(read_catalog)


async def change(engine: AsyncEngine, *statements: str) -> None:
    async with migrating(engine) as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def clear(engine: AsyncEngine) -> None:
    """Leaves nothing behind, so that the same database can be made anew in another way."""
    await downgrade(engine, "base")
    await change(engine, "DROP TABLE alembic_version")


def test_the_newest_revision_is_the_one_that_alembic_takes_for_it() -> None:
    assert newest_revision() == known_revisions()[-1].number


async def test_the_schema_made_at_once_is_the_migrated_one(empty: AsyncEngine) -> None:
    async with migrating(empty) as connection:
        await connection.run_sync(upgrade)
    migrated = await look(empty)
    await clear(empty)
    async with migrating(empty) as connection:
        await connection.run_sync(create_schema)
    made = await look(empty)
    assert made == migrated
    # What is compared is there, and more than names.
    assert len(made["columns"]) > 150
    assert len(made["indexes"]) > 30
    assert made["revision"] == [(newest_revision(),)]


async def test_a_fresh_database_is_made_at_once_and_not_again(empty: AsyncEngine) -> None:
    async with read(empty) as connection:
        assert await connection.run_sync(is_empty)
        assert await connection.run_sync(read_stamp) is None
    await migrate(empty)
    made = await look(empty)
    async with read(empty) as connection:
        assert not await connection.run_sync(is_empty)
        assert await connection.run_sync(read_stamp) == newest_revision()
    await migrate(empty)
    assert await look(empty) == made


async def test_a_database_with_others_tables_is_walked_up_and_keeps_them(empty: AsyncEngine) -> None:
    await change(empty, "CREATE TABLE theirs (x INTEGER)", "INSERT INTO theirs VALUES (7)")
    await migrate(empty)
    async with read(empty) as connection:
        assert await connection.run_sync(read_stamp) == newest_revision()
        assert (await connection.exec_driver_sql("SELECT x FROM theirs")).scalar_one() == 7


async def test_what_fails_on_the_way_leaves_nothing(empty: AsyncEngine) -> None:
    async def make() -> None:
        async with migrating(empty) as connection:
            await connection.run_sync(create_schema)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await make()
    async with read(empty) as connection:
        assert await connection.run_sync(is_empty)
    await migrate(empty)


@in_turn(
    "statement",
    [
        "DROP INDEX ix_batches_status",
        "CREATE INDEX ix_more ON batches (status) WHERE status = 'running'",
        "CREATE INDEX ix_even_more ON batches (lower(status))",
        "CREATE UNIQUE INDEX ix_most ON batches (name)",
        "ALTER TABLE batches ADD COLUMN more INTEGER",
        "ALTER TABLE batches RENAME COLUMN texts TO words",
        "CREATE TABLE more (x INTEGER)",
        "UPDATE alembic_version SET version_num = '0001'",
    ],
)
async def test_the_comparison_sees_each_difference(engine: AsyncEngine, statement: str) -> None:
    before = await look(engine)
    await change(engine, statement)
    assert await look(engine) != before


@in_turn(
    ("one", "other"),
    [
        ("x INTEGER NOT NULL", "x INTEGER"),
        ("x VARCHAR(64)", "x VARCHAR(65)"),
        ("x INTEGER DEFAULT 1", "x INTEGER"),
        ("x INTEGER PRIMARY KEY", "x INTEGER"),
        ("x INTEGER UNIQUE", "x INTEGER"),
        ("x INTEGER CHECK (x > 1)", "x INTEGER CHECK (x > 2)"),
        ("x INTEGER, y INTEGER", "y INTEGER, x INTEGER"),
        ("x VARCHAR(64) REFERENCES batches (id) ON DELETE CASCADE", "x VARCHAR(64) REFERENCES batches (id)"),
        ("x INTEGER, CONSTRAINT a UNIQUE (x)", "x INTEGER, CONSTRAINT b UNIQUE (x)"),
    ],
)
async def test_the_comparison_sees_each_difference_within_a_table(engine: AsyncEngine, one: str, other: str) -> None:
    found = []
    for columns in (one, other):
        await change(engine, f"CREATE TABLE more ({columns})")
        found.append(await look(engine))
        await change(engine, "DROP TABLE more")
    assert found[0] != found[1]


def test_a_statement_is_the_same_whatever_its_form() -> None:
    bare = "CREATE TABLE t (a VARCHAR(4), b INTEGER, CONSTRAINT c UNIQUE (a, b), CONSTRAINT p PRIMARY KEY (a)) STRICT"
    formed = 'CREATE TABLE "t" (\n\ta VARCHAR(4),\n\tb INTEGER, CONSTRAINT p PRIMARY KEY (a), CONSTRAINT c UNIQUE (a, b)\n)\n STRICT'
    assert normalise(bare) == normalise(formed)
    assert normalise(bare) != normalise(bare.replace("UNIQUE (a, b)", "UNIQUE (b, a)"))
    assert normalise("CREATE INDEX i ON t (a)") != normalise("CREATE INDEX i ON t (a) WHERE b > 0")

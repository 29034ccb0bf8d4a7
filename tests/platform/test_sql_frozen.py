"""A process that is stopped in the middle of a transaction does not hold up the others."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql import engine as connections
from saiten_server.platform.sql.engine import (
    close_engine,
    end_frozen,
    fetch_value,
    keep_ending_frozen,
    open_engine,
    write,
)
from saiten_server.platform.tasks import cancel_for_good
from tests.support.waiting import LIMIT_SECONDS


@pytest.fixture
async def other(bare_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncEngine]:
    """The engine of a process that goes on, on a database with a row that both change."""
    monkeypatch.setattr(connections, "FROZEN_SECONDS", 1)
    engine = open_engine(bare_postgres_url)
    async with write(engine) as connection:
        await connection.execute(text("CREATE TABLE shared (id int PRIMARY KEY, n int)"))
        await connection.execute(text("INSERT INTO shared VALUES (1, 0)"))
    yield engine
    await close_engine(engine)


@pytest.fixture
async def frozen(bare_postgres_url: str, other: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    """The engine of a process that stands still."""
    engine = open_engine(bare_postgres_url)
    yield engine
    await close_engine(engine)


async def change(engine: AsyncEngine) -> None:
    """Changes what another transaction has locked."""
    async with asyncio.timeout(LIMIT_SECONDS), write(engine) as connection:
        await connection.execute(text("UPDATE shared SET n = n + 10"))


async def read_changed(engine: AsyncEngine) -> int:
    found: int | None = await fetch_value(engine, text("SELECT n FROM shared"))
    assert found is not None
    return found


async def test_postgresql_takes_back_what_it_has_locked(frozen: AsyncEngine, other: AsyncEngine) -> None:
    async def stand_still() -> None:
        async with write(frozen) as holding:
            await holding.execute(text("UPDATE shared SET n = 1"))
            await change(other)
            await holding.execute(text("UPDATE shared SET n = 2"))

    with pytest.raises(StoreUnavailable, match=r"stood still|cannot be reached"):
        await stand_still()
    assert await read_changed(other) == 10


async def test_a_statement_whose_process_stands_still_is_ended(frozen: AsyncEngine, other: AsyncEngine) -> None:
    """asyncpg has prepared it, and PostgreSQL waits for its values: no timeout counts then."""

    async def stand_still() -> None:
        async with write(frozen) as holding:
            await holding.execute(text("UPDATE shared SET n = 1"))
            await prepare(holding)
            keeping = asyncio.create_task(keep_ending_frozen(other))
            try:
                await change(other)
            finally:
                await cancel_for_good([keeping])
            await holding.execute(text("UPDATE shared SET n = 2"))

    with pytest.raises(StoreUnavailable, match=r"ended|cannot be reached|closed"):
        await stand_still()
    assert await read_changed(other) == 10
    assert await end_frozen(other) == 0


async def prepare(connection: AsyncConnection) -> None:
    """Does the first half of a statement."""
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None
    await driver.prepare("SELECT n + $1 FROM shared")

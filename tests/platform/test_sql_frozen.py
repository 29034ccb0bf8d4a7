"""A process that is stopped in the middle of a transaction does not hold up the others."""

import asyncio

import pytest
from sqlalchemy import text

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql import engine as connections
from saiten_server.platform.sql.engine import close_engine, end_frozen, keep_ending_frozen, open_engine, write
from saiten_server.platform.tasks import cancel_for_good
from tests.support.waiting import LIMIT_SECONDS


async def test_postgresql_takes_back_what_it_has_locked(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FROZEN_SECONDS", 1)
    frozen, other = open_engine(postgres_url), open_engine(postgres_url)

    async def stand_still() -> None:
        async with write(frozen) as holding:
            await holding.execute(text("UPDATE shared SET n = 1"))
            async with asyncio.timeout(LIMIT_SECONDS), write(other) as connection:
                await connection.execute(text("UPDATE shared SET n = n + 10"))
            await holding.execute(text("UPDATE shared SET n = 2"))

    try:
        async with write(other) as connection:
            await connection.execute(text("CREATE TABLE shared (id int PRIMARY KEY, n int)"))
            await connection.execute(text("INSERT INTO shared VALUES (1, 0)"))
        with pytest.raises(StoreUnavailable, match=r"stood still|cannot be reached"):
            await stand_still()
        async with write(other) as connection:
            assert (await connection.execute(text("SELECT n FROM shared"))).scalar_one() == 10
    finally:
        await close_engine(frozen)
        await close_engine(other)


async def test_a_statement_whose_process_stands_still_is_ended(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncpg has prepared it, and PostgreSQL waits for its values: no timeout counts then."""
    monkeypatch.setattr(connections, "FROZEN_SECONDS", 1)
    frozen, other = open_engine(postgres_url), open_engine(postgres_url)

    async def stand_still() -> None:
        async with write(frozen) as holding:
            await holding.execute(text("UPDATE held SET n = 1"))
            driver = (await holding.get_raw_connection()).driver_connection
            assert driver is not None
            await driver.prepare("SELECT n + $1 FROM held")
            keeping = asyncio.create_task(keep_ending_frozen(other))
            try:
                async with asyncio.timeout(LIMIT_SECONDS), write(other) as connection:
                    await connection.execute(text("UPDATE held SET n = n + 10"))
            finally:
                await cancel_for_good([keeping])
            await holding.execute(text("UPDATE held SET n = 2"))

    try:
        async with write(other) as connection:
            await connection.execute(text("CREATE TABLE held (id int PRIMARY KEY, n int)"))
            await connection.execute(text("INSERT INTO held VALUES (1, 0)"))
        with pytest.raises(StoreUnavailable, match=r"ended|cannot be reached|closed"):
            await stand_still()
        async with write(other) as connection:
            assert (await connection.execute(text("SELECT n FROM held"))).scalar_one() == 10
            assert await end_frozen(other) == 0
    finally:
        await close_engine(frozen)
        await close_engine(other)

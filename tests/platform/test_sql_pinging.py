"""When a PostgreSQL connection is asked whether it still answers, and what becomes of one that does not."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_connection
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql import engine as connections
from saiten_server.platform.sql.engine import close_engine, open_engine, read, write


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[AsyncEngine]:
    made = open_engine(postgres_url)
    yield made
    await close_engine(made)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The connections that were asked."""
    found: list[int] = []
    plain = AsyncAdapt_asyncpg_connection.ping

    def ping(connection: AsyncAdapt_asyncpg_connection) -> None:
        found.append(id(connection))
        plain(connection)

    monkeypatch.setattr(AsyncAdapt_asyncpg_connection, "ping", ping)
    return found


async def backend(engine: AsyncEngine) -> int:
    """The server's process that answers."""
    async with read(engine) as connection:
        return int((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())


async def test_one_that_was_just_used_comes_first_and_is_not_asked(engine: AsyncEngine, asked: list[int]) -> None:
    await asyncio.gather(*(backend(engine) for _ in range(4)))
    assert len({await backend(engine) for _ in range(5)}) == 1
    async with write(engine) as connection:
        await connection.execute(text("SELECT 1"))
    assert asked == []


async def test_one_that_was_idle_is_asked(
    engine: AsyncEngine, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await backend(engine)
    assert asked == []  # it was made for this
    monkeypatch.setattr(connections, "TRUSTED_SECONDS", 0.0)
    assert await backend(engine) == first
    assert len(asked) == 1


async def test_one_that_no_longer_answers_is_made_anew(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await backend(engine)
    monkeypatch.setattr(connections, "TRUSTED_SECONDS", 0.0)
    plain, broken = AsyncAdapt_asyncpg_connection.ping, [ConnectionResetError("gone")]

    def ping(connection: AsyncAdapt_asyncpg_connection) -> None:
        if broken:
            raise broken.pop()
        plain(connection)

    monkeypatch.setattr(AsyncAdapt_asyncpg_connection, "ping", ping)
    assert await backend(engine) != first
    assert await backend(engine) != first


async def test_one_that_the_server_ended_is_made_anew_without_asking(engine: AsyncEngine, asked: list[int]) -> None:
    first = await backend(engine)
    async with read(engine) as connection:
        driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None
    with pytest.raises(StoreUnavailable):
        async with read(engine) as connection:
            await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert driver.is_closed()
    assert await backend(engine) != first
    assert asked == []


async def test_of_those_that_the_server_ended_each_is_made_anew_alone(engine: AsyncEngine) -> None:
    before = set(await asyncio.gather(*(backend(engine) for _ in range(4))))
    ended = await backend(engine)
    async with read(engine) as one, read(engine) as other:
        for connection in (one, other):
            if (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one() != ended:
                await connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": ended})
                break
    after = set(await asyncio.gather(*(backend(engine) for _ in range(4))))
    assert before - after == {ended}


async def test_a_read_is_one_statement_of_its_own_and_a_write_is_not(engine: AsyncEngine) -> None:
    for times, open_one in ((2, read), (1, write)):
        async with open_one(engine) as connection:
            moments = {
                (await connection.execute(text("SELECT transaction_timestamp()"))).scalar_one() for _ in range(2)
            }
        assert len(moments) == times

"""A statement on SQLite takes one hop to its connection's thread, and says what aiosqlite's own cursors would."""

import asyncio
import gc
import sqlite3
import threading
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql.engine import close_engine, open_engine, read, write

SHELF = Table("shelf", MetaData(), Column("id", Integer, primary_key=True), Column("word", String(16), nullable=False))
WORDS = [{"id": number, "word": f"語{number}"} for number in range(3)]


@pytest.fixture
async def engine(sqlite_url: str) -> Any:
    engine = open_engine(sqlite_url)
    async with write(engine) as connection:
        await connection.run_sync(SHELF.create)
        await connection.execute(insert(SHELF), WORDS)
    yield engine
    await engine.dispose()


async def driver_of(connection: AsyncConnection) -> Any:
    return (await connection.get_raw_connection()).driver_connection


async def count_hops(connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows by one for every hop from now on."""
    driver, hops = await driver_of(connection), list[object]()
    plain = driver._execute

    async def hop(work: Any, *arguments: Any, **more: Any) -> Any:
        hops.append(work)
        return await plain(work, *arguments, **more)

    monkeypatch.setattr(driver, "_execute", hop)
    return hops


async def test_a_statement_is_one_hop(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with write(engine) as connection:
        hops = await count_hops(connection, monkeypatch)
        await connection.execute(select(SHELF))
        await connection.execute(insert(SHELF), [{"id": number, "word": "x"} for number in range(10, 20)])
        await connection.execute(update(SHELF).values(word="y"))
        assert len(hops) == 3
    assert len(hops) == 4, "and the commit"


async def test_rows_and_counts_are_told(engine: AsyncEngine) -> None:
    async with write(engine) as connection:
        result = await connection.execute(select(SHELF).order_by(SHELF.c.id))
        assert result.keys() == ["id", "word"]
        assert [tuple(row) for row in result] == [(0, "語0"), (1, "語1"), (2, "語2")]
        assert (await connection.execute(select(SHELF.c.id).where(SHELF.c.id == 9))).one_or_none() is None
        assert (await connection.execute(update(SHELF).where(SHELF.c.id > 0).values(word="y"))).rowcount == 2
        added = await connection.execute(insert(SHELF).values(word="z"))
        assert added.inserted_primary_key == (3,)
        returned = await connection.execute(insert(SHELF).values(word="w").returning(SHELF.c.id, SHELF.c.word))
        assert returned.one() == (4, "w")


async def test_an_error_reaches_the_caller_and_leaves_the_connection_whole(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        with pytest.raises(IntegrityError):
            await connection.execute(insert(SHELF).values(id=0, word="twice"))
        await connection.rollback()
        assert len((await connection.execute(select(SHELF))).all()) == 3


async def test_nothing_but_the_pool_keeps_a_connection(engine: AsyncEngine) -> None:
    async with read(engine) as connection:
        driver = await driver_of(connection)
        found, thread = ref(driver), driver._thread
        await connection.execute(select(SHELF))
    del connection, driver
    gc.collect()
    gc.disable()
    try:
        assert found() is not None
        await engine.dispose()
        await asyncio.to_thread(thread.join, 30)
        assert found() is None, "it waits for the garbage collector"
    finally:
        gc.enable()


async def test_a_connection_that_nobody_waits_for_is_closed_before_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, may_open, before = threading.Event(), threading.Event(), {*threading.enumerate()}
    connect = sqlite3.connect

    def connect_slowly(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.set()
        may_open.wait(30)
        made: sqlite3.Connection = connect(*arguments, **options)
        return made

    monkeypatch.setattr(sqlite3, "connect", connect_slowly)
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'late.db'}")
    reading = asyncio.create_task(engine.connect().start())
    await asyncio.to_thread(opened.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    closing = asyncio.create_task(close_engine(engine))
    await asyncio.sleep(0.05)
    assert not closing.done()
    may_open.set()
    await closing
    left = [thread for thread in {*threading.enumerate()} - before if "connection_worker" in thread.name]
    for thread in left:
        await asyncio.to_thread(thread.join, 30)
    assert not any(thread.is_alive() for thread in left)


async def test_no_task_in_the_background_opens_or_keeps_a_file_after_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    engine = open_engine(f"sqlite+aiosqlite:///{file}")
    used = await engine.connect()
    driver: Any = (await used.get_raw_connection()).driver_connection
    await close_engine(engine)
    assert driver._connection is None
    with pytest.raises(OperationalError, match="Connection closed"):
        await used.exec_driver_sql("SELECT 1")
    await used.close()
    file.unlink()
    with pytest.raises(StoreUnavailable):
        async with read(engine):
            pass
    assert [*tmp_path.iterdir()] == []

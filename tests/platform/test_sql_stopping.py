"""A connection whose task is cancelled while it is being closed does not keep the event loop from its end."""

import asyncio
from threading import Thread
from typing import Any

import pytest

from saiten_server.platform.sql.engine import open_engine, read
from saiten_server.scoring.store import EvaluationStore
from tests.support.waiting import LIMIT_SECONDS

SLOW = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 200000) SELECT max(i) FROM r"


@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_two_cancellations_leave_nothing_that_never_ends(sqlite_url: str, between: int, after: int) -> None:
    engine = open_engine(sqlite_url)
    before = asyncio.all_tasks()
    begun, threads = asyncio.Event(), list[Thread]()

    async def hold() -> None:
        async with read(engine) as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            threads.append(driver._thread)
            begun.set()
            await connection.exec_driver_sql(SLOW)

    holding = asyncio.create_task(hold())
    await begun.wait()
    for turns in (between, after):
        await asyncio.sleep(0)
        holding.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
    # As the end of an event loop does.
    others = asyncio.all_tasks() - before
    for task in others:
        task.cancel()
    if others:
        _, endless = await asyncio.wait(others, timeout=LIMIT_SECONDS)
        assert endless == set()
    # It answers to the event loop, so it must be heard before that ends.
    await asyncio.to_thread(threads[0].join, 30)
    assert not threads[0].is_alive()
    await EvaluationStore(engine).ping()
    await engine.dispose()

"""Charges of one key change one row: those that come together are one transaction."""

import asyncio
import sqlite3
from pathlib import Path

from sqlalchemy import event

from saiten_server.governance.store import SpendingStore
from saiten_server.platform.sql.engine import DRAIN_SECONDS, open_engine, write
from tests.support.batches import START


async def test_charges_that_come_together_share_a_transaction(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    commits: list[object] = []
    event.listen(engine.sync_engine, "commit", commits.append)
    spending = SpendingStore(engine)
    await asyncio.gather(*(spending.charge("key_1", 0.125, START) for _ in range(40)))
    assert await spending.spent_usd("key_1", START) == 5.0
    assert len(commits) == 1
    await engine.dispose()


async def test_at_the_end_a_file_that_another_process_holds_is_waited_for(sqlite_url: str, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url)
    spending = SpendingStore(engine)
    other = sqlite3.connect(tmp_path / "saiten.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    charging = asyncio.create_task(spending.charge("key_1", 0.5, START))
    closing = asyncio.create_task(spending.close())
    done, _ = await asyncio.wait({closing}, timeout=2 * DRAIN_SECONDS)
    assert not done
    other.execute("COMMIT")
    other.close()
    await charging
    await closing
    assert await spending.spent_usd("key_1", START) == 0.5
    await engine.dispose()


async def test_what_nobody_waits_for_any_more_is_charged_before_the_end(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    spending = SpendingStore(engine)
    async with write(engine):  # meanwhile nobody else writes
        caller = asyncio.create_task(spending.charge("key_1", 0.5, START))
        await asyncio.sleep(0.01)
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
    await spending.close()
    assert await spending.spent_usd("key_1", START) == 0.5
    await engine.dispose()

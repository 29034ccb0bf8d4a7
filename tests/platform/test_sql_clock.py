"""How far a process's clock is from the database's is measured, and told once."""

import asyncio
import logging
import time
from types import SimpleNamespace

import pytest

from saiten_server.platform.sql import engine as connections
from saiten_server.platform.sql.engine import close_engine, keep_measuring_clock, measure_clock, open_engine


async def test_a_clock_that_is_ahead_is_told_once(
    bare_postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(bare_postgres_url)
    assert abs(await measure_clock(engine)) < 60  # this test's own machine, however busy
    ahead = SimpleNamespace(time=lambda: time.time() + 3600, monotonic=time.monotonic)
    monkeypatch.setattr(connections, "time", ahead)
    told: list[float] = []

    async def stop_after_three(_seconds: float) -> None:
        if len(told) == 3:
            raise asyncio.CancelledError

    with caplog.at_level(logging.WARNING), pytest.raises(asyncio.CancelledError):
        await keep_measuring_clock(engine, told.append, stop_after_three)
    await close_engine(engine)
    assert [round(seconds / 3600) for seconds in told] == [1, 1, 1]
    assert [record.getMessage()[:40] for record in caplog.records if "clock" in record.getMessage()] == [
        f"this machine's clock is +{told[0]:.0f} s from the"[:40]
    ]


async def test_sqlite_has_the_clock_of_its_process(tmp_path) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'clock.db'}")
    assert await measure_clock(engine) == 0
    await close_engine(engine)

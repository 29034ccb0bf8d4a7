"""A monitor's service and worker, on each database."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.live import MonitorBench


@pytest.fixture
def bench(engine: AsyncEngine) -> MonitorBench:
    return MonitorBench(engine)


@pytest.fixture
def quick(sqlite_engine: AsyncEngine) -> MonitorBench:
    """On SQLite alone, for what does not turn on the database."""
    return MonitorBench(sqlite_engine)

"""The services on a fresh SQLite database."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.bench import Bench, build_bench


@pytest.fixture
def bench(sqlite_engine: AsyncEngine) -> Bench:
    return build_bench(sqlite_engine)

"""A worker's parts, with a ledger that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.floor import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    commits = asyncio.create_task(made.ledger.run())
    yield made
    commits.cancel()
    await asyncio.gather(commits, return_exceptions=True)

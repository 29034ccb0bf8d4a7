"""A worker's parts, with a ledger that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.floor import Bench


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Parametrize it indirectly with the arguments of another bench."""
    arguments: dict[str, Any] = getattr(request, "param", {})
    made = Bench(**arguments)
    commits = asyncio.create_task(made.ledger.run())
    yield made
    commits.cancel()
    await asyncio.gather(commits, return_exceptions=True)

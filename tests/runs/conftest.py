"""A worker's parts, with a commit buffer that runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.worker_bench import Bench, MakeBench, open_bench


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    """Makes benches on a database each, which are closed after the test."""
    numbers = count()
    async with AsyncExitStack() as benches:

        async def make(**arguments: Any) -> Bench:
            path = tmp_path / f"bench{next(numbers)}.db"
            return await benches.enter_async_context(open_bench(path, **arguments))

        yield make


@pytest.fixture
async def bench(request: pytest.FixtureRequest, make_bench: MakeBench) -> AsyncIterator[Bench]:
    """Parametrize it indirectly with the arguments of another bench."""
    arguments: dict[str, Any] = getattr(request, "param", {})
    made = await make_bench(**arguments)
    commits = asyncio.create_task(made.buffer.run())
    yield made
    commits.cancel()
    await asyncio.gather(commits, return_exceptions=True)

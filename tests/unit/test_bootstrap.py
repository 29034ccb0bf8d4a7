"""The service's own worker: when it works, and how it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.bootstrap import working


class SlowToEnd:
    """A worker with something in hand, which ends when it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ending = asyncio.Event()
        self.go = asyncio.Event()
        self.watching = False
        self.finished = False

    async def watch(self) -> None:
        self.watching = True
        try:
            await asyncio.Event().wait()
        finally:
            self.watching = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.go.wait()
            self.finished = True


def serving(worker: Any, redis_url: str | None = None) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(redis_url=redis_url), worker=worker)


@pytest.mark.parametrize("told", [True, False])
async def test_what_is_in_hand_finishes_however_the_service_ends(told: bool) -> None:
    worker, stopping, leave = SlowToEnd(), asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with working(serving(worker), stopping):
            await leave.wait()

    service = asyncio.create_task(serve())
    await worker.begun.wait()
    if told:
        # A stop that was told begins while requests are still answered; then the service ends.
        stopping.set()
        await worker.ending.wait()
    leave.set()
    await worker.ending.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not service.done()
    worker.go.set()
    await service
    assert worker.finished


async def test_where_workers_have_a_queue_of_their_own_the_service_only_watches() -> None:
    worker = SlowToEnd()
    async with working(serving(worker, "redis://localhost"), asyncio.Event()):
        await asyncio.sleep(0)
        assert worker.watching
        assert not worker.begun.is_set()
    assert not worker.watching


def test_nothing_that_starts_waits_for_what_only_analyses_need():
    code = (
        "import sys, app.web.application, app.cli.score, app.cli.worker;"
        "print([name for name in ('scipy', 'matplotlib', 'torch') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""`JobQueue` within this process: what waits is gone with it, and the sweep puts it back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.adapters.crew import Crew
from app.batches.queue import Handler
from app.domain.work import Job


class AsyncioJobQueue:
    """A job that waits already is not put a second time. For use within one event loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Job] = asyncio.Queue()
        self._waiting: set[Job] = set()

    async def put(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job not in self._waiting:
                self._waiting.add(job)
                self._queue.put_nowait(job)

    async def work(self, handler: Handler, concurrency: int) -> None:
        crew = Crew(handler, concurrency)
        try:
            while True:
                await crew.wait_for_place()
                job = await self._queue.get()
                self._waiting.discard(job)
                crew.take(job)
        finally:
            await self.put(await crew.stop())

    async def depth(self) -> int:
        return self._queue.qsize()

    async def close(self) -> None:
        """Forgets what waits."""
        self._queue = asyncio.Queue()
        self._waiting.clear()

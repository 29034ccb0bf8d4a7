"""Runs a handler for several jobs at a time, whatever queue they come from."""

from __future__ import annotations

import asyncio
import logging

from app.batches.queue import Handler
from app.domain.work import Job

logger = logging.getLogger("saiten.queue")


class Crew:
    """At most `size` runs of `handler` at a time."""

    def __init__(self, handler: Handler, size: int) -> None:
        self._handler = handler
        self._size = size
        self._runs: dict[asyncio.Task[None], Job] = {}
        self._free = asyncio.Event()
        self._free.set()

    async def wait_for_place(self) -> None:
        """Returns when one more job may be taken."""
        await self._free.wait()

    def take(self, job: Job) -> None:
        """Begins a job."""
        run = asyncio.create_task(self._run(job))
        self._runs[run] = job
        run.add_done_callback(self._end)
        if len(self._runs) >= self._size:
            self._free.clear()

    async def stop(self) -> list[Job]:
        """Cancels what runs, waits until it has ended, and returns the jobs that were cut off."""
        runs = dict(self._runs)
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
        return [job for run, job in runs.items() if run.cancelled()]

    def _end(self, run: asyncio.Task[None]) -> None:
        del self._runs[run]
        self._free.set()

    async def _run(self, job: Job) -> None:
        try:
            await self._handler(job)
        except Exception:
            logger.exception("unexpected error", extra={"batch_id": job.batch, "chunk": job.chunk})

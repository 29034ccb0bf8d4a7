"""The queue of jobs for workers: its protocol, the pool that runs jobs, and an implementation within one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from saiten_server.runs.work import ChunkJob

Handler = Callable[[ChunkJob], Awaitable[None]]


class QueueUnavailable(Exception):
    """The queue cannot be reached, as one sentence. Callers of the service do not see it: `code` is for the log."""

    code = "queue-unavailable"


class JobQueue(Protocol):
    """Delivers jobs to workers. It may lose jobs at any time, and may deliver them twice: the store decides. If the
    queue cannot be reached, `put` raises QueueUnavailable; a sweep puts the jobs again."""

    async def put(self, jobs: Sequence[ChunkJob]) -> None: ...

    async def work(self, handler: Handler, concurrency: int) -> None:
        """Runs `handler` for each job, `concurrency` at a time, until cancelled. Jobs of different batches arrive in
        the order in which they were put. An error of the handler is logged and does not end the loop."""
        ...

    async def depth(self) -> int:
        """The number of waiting jobs."""
        ...

    async def close(self) -> None: ...


logger = logging.getLogger("saiten.queue")


class TaskPool:
    """At most `size` runs of `handler` at a time."""

    def __init__(self, handler: Handler, size: int) -> None:
        self._handler = handler
        self._size = size
        self._runs: dict[asyncio.Task[None], ChunkJob] = {}
        self._free = asyncio.Event()
        self._free.set()

    async def wait_for_place(self) -> None:
        """Returns when there is room for one more job."""
        await self._free.wait()

    def take(self, job: ChunkJob) -> None:
        """Starts a job."""
        run = asyncio.create_task(self._run(job))
        self._runs[run] = job
        run.add_done_callback(self._end)
        if len(self._runs) >= self._size:
            self._free.clear()

    async def stop(self) -> list[ChunkJob]:
        """Cancels the running jobs, waits until they have ended, and returns those that were interrupted."""
        runs = dict(self._runs)
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
        return [job for run, job in runs.items() if run.cancelled()]

    def _end(self, run: asyncio.Task[None]) -> None:
        del self._runs[run]
        self._free.set()

    async def _run(self, job: ChunkJob) -> None:
        try:
            await self._handler(job)
        except Exception:
            logger.exception("unexpected error", extra={"batch_id": job.batch, "chunk": job.chunk})


class AsyncioJobQueue:
    """A queue in memory, for one event loop. Waiting jobs are lost with the process, and a sweep puts them again. A job
    that is already waiting is not put a second time."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[ChunkJob] = asyncio.Queue()
        self._waiting: set[ChunkJob] = set()

    async def put(self, jobs: Sequence[ChunkJob]) -> None:
        for job in jobs:
            if job not in self._waiting:
                self._waiting.add(job)
                self._queue.put_nowait(job)

    async def work(self, handler: Handler, concurrency: int) -> None:
        pool = TaskPool(handler, concurrency)
        try:
            while True:
                await pool.wait_for_place()
                job = await self._queue.get()
                self._waiting.discard(job)
                pool.take(job)
        finally:
            await self.put(await pool.stop())

    async def depth(self) -> int:
        return self._queue.qsize()

    async def close(self) -> None:
        """Drops the waiting jobs."""
        self._queue = asyncio.Queue()
        self._waiting.clear()

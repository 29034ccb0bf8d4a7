"""A batch as work: chunks that are leased to workers, the results that come back, and the queue of jobs with the pool
that runs them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol

from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure
from saiten_server.core.evaluation import Record, Usage

CHUNK_SIZE = 40
"""Candidates per job: few, so that batches take turns and little is repeated when a worker dies."""

PROVIDER_TIME = timedelta(hours=24)
"""The completion time that a provider promises for its batch mode."""

FINISH = -1
"""The chunk number of a batch's final step, once all chunks are done."""

COLLECT = -2
"""The chunk number of a step in the provider's batch mode: sending, polling or fetching calls."""

MOST_SET_ASIDE = 8
"""Chunks of a batch that may be set aside because all their remaining candidates wait."""


@dataclass(frozen=True)
class ChunkJob:
    """A request to work on a chunk. It holds no text; the receiver asks the store what is left to do. `chunk` counts
    from 0; `FINISH` and `COLLECT` mean work on the batch as a whole."""

    batch: str
    chunk: int


NOTHING_BEGUN: Mapping[ChunkJob, int] = MappingProxyType({})


@dataclass(frozen=True)
class Work:
    """A leased chunk: its candidates without a result, in order.

    `suspect` is True if a worker died while it held this chunk: each candidate must then be marked before it is begun
    (`BatchStore.mark`), and `tries` counts by position how often a candidate was marked before. `unit_usd` is the most
    that one candidate may cost under the batch's budget, None without one; the budget has been reserved for the first
    `affordable` candidates of `todo` (all of them without a budget).
    """

    job: ChunkJob
    project: str
    options: BatchOptions
    todo: Sequence[tuple[Entry, Candidate]]
    suspect: bool
    affordable: int
    unit_usd: float | None = None
    tries: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FinishedCandidate:
    """A candidate's result on its way to the store: a record, or why there is none. `calls` are the cache keys of the
    external calls that it is based on, so that an erasure finds them."""

    job: ChunkJob
    entry: Entry
    record: Record | None
    failure: Failure | None = None
    usage: Usage = field(default_factory=Usage)
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Committed:
    """The outcome of a commit.

    `lost` are jobs whose lease the owner has lost, or whose batch is erased: their results were refused. `stopped` are
    leased jobs whose batch is paused or cancelled: no new candidate may be begun. `erased` are leased jobs with erased
    candidates. `cancelled` are the stopped ones whose batch is cancelled: running calls must end at once. `ready` are
    jobs to be queued now.
    """

    lost: frozenset[ChunkJob] = frozenset()
    stopped: frozenset[ChunkJob] = frozenset()
    ready: Sequence[ChunkJob] = ()
    erased: frozenset[ChunkJob] = frozenset()
    cancelled: frozenset[ChunkJob] = frozenset()


BOUGHT_SHARE = 4
"""The stored unit cost covers two tries at full price; the provider's batch mode costs half of one."""


def price_candidate(mode: str, unit_cost_usd: float | None, dearest_usd: float) -> float:
    """What a budget reserves per candidate in USD: the estimate `unit_cost_usd`, or `dearest_usd`, the highest cost so
    far, whichever is more.

    In the provider's mode it is the price there: the calls are mostly paid for by now, and a batch that was sent within
    its budget must not stop before it is scored. Live calls cost more and count when they are done.
    """
    if mode == "provider-batch":
        return (unit_cost_usd or 0.0) / BOUGHT_SHARE
    return max(unit_cost_usd or 0.0, dearest_usd)


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

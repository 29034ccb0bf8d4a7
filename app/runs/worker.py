"""A worker takes chunks from the queue and scores them until it is stopped. Many may run, in as many processes.

A batch resumes after a crash here. `_sweep` puts chunks whose lease has run out on the queue again, `_work_on` claims
them, and the claim (`saiten_server.runs.store.leases`) finds the candidates that have no result yet.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from saiten.core.messages import Message
from saiten_server.core.batch import INTERNAL
from saiten_server.core.errors import StoreError, UnknownRubric
from saiten_server.platform.caches import CallCache
from saiten_server.platform.tasks import cancel_for_good, end_once, end_tasks
from saiten_server.platform.telemetry import Telemetry, working_on
from saiten_server.runs.attempt import RefusalCounter, RetryPolicy
from saiten_server.runs.chunk import ChunkRun, WorkerContext
from saiten_server.runs.commits import FEEDING, CommitBuffer, enqueue
from saiten_server.runs.ending import end_batch
from saiten_server.runs.provider_run import UNAVAILABLE, ProviderRun
from saiten_server.runs.queue import JobQueue, QueueUnavailable
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import CHUNK_SIZE, COLLECT, FINISH, ChunkJob
from saiten_server.scoring.evaluate import ScoringContext

logger = logging.getLogger("saiten.batches")

SWEEP_SECONDS = 2.0
REQUEUE_SECONDS = 10.0
"""A queued job that no worker has claimed for this long is put on the queue again: the queue has lost it."""

RENEWALS = 4  # renewals of a lease within its duration, so that a late or failed one does no harm
WATCH_SECONDS = 0.5
"""Between two checks whether a batch was cancelled or erased. Its calls have to end within a second."""

STOP_SECONDS = 12.0
"""How long candidates in progress may take to finish after a stop. A whole stop has to take less than 25 s."""

HAND_BACK_SECONDS = 4.0
"""How long the worker then waits until its leases are released. It has to end even if the store is down."""

TIDY_SECONDS = 2.0
"""Between two removals of what erased and finished batches have left in the cache and at the provider."""

END_FAILED = Message("pause-end-failed")

SPARE = 1.5  # Candidates in progress per judge call in flight. The others are being prepared or committed.


def places_of(concurrency: int) -> int:
    """The most candidates in progress."""
    return math.ceil(SPARE * concurrency)


def window_of(concurrency: int) -> int:
    """Chunks of a batch under way at once: just enough to fill all places while chunks begin and end, because the next
    batch waits behind them."""
    return math.ceil(SPARE * places_of(concurrency) / CHUNK_SIZE) + 2


@dataclass(kw_only=True, eq=False)
class BatchWorker:
    """Works for the queue `queue` on the batches of `store`, as `owner`. `concurrency` is how many judge calls may be
    in flight; `instruments` are those of the batch lane. `own` are the ids of the only batches to work on; None for
    all. `chores` run beside the work until it ends; a chore that fails ends the worker."""

    store: BatchStore
    queue: JobQueue
    cache: CallCache
    instruments: ScoringContext
    telemetry: Telemetry
    owner: str
    concurrency: int
    lease_seconds: float
    own: Collection[str] | None = None
    provider: ProviderRun | None = None
    chores: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    stop_seconds: float = STOP_SECONDS
    hand_back_seconds: float = HAND_BACK_SECONDS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._buffer = CommitBuffer(
            self.store,
            self.queue,
            self.cache,
            owner=self.owner,
            lease_seconds=self.lease_seconds,
            ahead=self.concurrency,
            sleep=self.sleep,
        )
        self._context = WorkerContext(
            owner=self.owner,
            store=self.store,
            buffer=self._buffer,
            instruments=self.instruments,
            telemetry=self.telemetry,
            retries=RetryPolicy(sleep=self.sleep),
            places=asyncio.Semaphore(places_of(self.concurrency)),
            outbox=asyncio.Semaphore(places_of(self.concurrency)),
            alone=asyncio.Lock(),
            refusals=RefusalCounter(),
            provider=self.provider,
        )
        self._runs: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._left_to_others: set[str] = set()

    async def run(self) -> None:
        """Works until cancelled. Then lets candidates in progress finish, for a while, and releases its leases. Raises
        an error that a part could not handle; its leases are released then too, and it may be run again."""
        self._stopping = False
        work = asyncio.create_task(self.queue.work(self._take, FEEDING))
        parts = (self._buffer.run, self._renew, self._watch, self._sweep, self._tidy, *self.chores)
        loops = [asyncio.create_task(part()) for part in parts]
        async with AsyncExitStack() as ending:
            # These run from the last to the first, each even if one before it has failed.
            ending.push_async_callback(end_tasks, loops)
            ending.push_async_callback(self._wind_up)
            ending.push_async_callback(end_once, work)
            ending.callback(self._begin_nothing)
            # Not `gather`: cancelled, it would cancel the buffer too, before the last results are in.
            await asyncio.wait([work, *loops], return_when=asyncio.FIRST_COMPLETED)

    def _begin_nothing(self) -> None:
        self._stopping = True
        self._buffer.stop()

    async def _wind_up(self) -> None:
        """Lets candidates in progress finish, then releases leases. What is not done by then is given up: leases run
        out by themselves, and another worker finds the replies in the cache."""
        try:
            await self._wait_for_runs(self.stop_seconds)
        finally:
            self._buffer.cut_off_all()
            for run in self._runs:
                run.cancel()
            await self._wait_for_runs(self.hand_back_seconds)
            await cancel_for_good(self._runs)
            await self._context.retries.close()

    async def _wait_for_runs(self, seconds: float) -> None:
        if self._runs:
            await asyncio.wait(self._runs, timeout=seconds)

    async def _take(self, job: ChunkJob) -> None:
        """Starts a task for the job. Returns when there is room for another job, not when this one is done."""
        if self._stopping or (self.own is not None and job.batch not in self.own):
            return
        fed = asyncio.Event()
        run = asyncio.create_task(self._run(job, fed))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        run.add_done_callback(lambda _: fed.set())
        await fed.wait()

    async def _run(self, job: ChunkJob, fed: asyncio.Event) -> None:
        """Does one job. An error does not end the worker: the job's lease runs out, and the sweep queues it again."""
        with working_on(batch_id=job.batch, chunk=job.chunk):
            try:
                await self._work_on(job, fed)
            except StoreError as error:
                logger.warning("a job waits for the store: %s", error.loggable, extra={"code": error.code})
            except Exception:
                logger.exception("unexpected error")

    async def _work_on(self, job: ChunkJob, fed: asyncio.Event) -> None:
        if self._buffer.works_on(job):
            # Its lease ran out and it was queued again. This worker continues with it, and renews.
            return
        work = await self.store.claim(
            job, self.owner, self.lease_seconds, self._buffer.first, has_rubric=partial(self._has_rubric, job.batch)
        )
        if work is None:
            return
        leased = self._buffer.add(job)
        self.telemetry.holding(self._buffer.held)
        if self._stopping:
            leased.stop()
        try:
            if job.chunk == FINISH:
                await self._finish(job.batch)
            elif job.chunk == COLLECT:
                await self._collect(job.batch)
            else:
                with self.telemetry.span("chunk", batch_id=job.batch, chunk=job.chunk, candidates=len(work.todo)):
                    await ChunkRun(work, leased, self._context, fed).run()
        finally:
            await self._buffer.close(leased)
            self.telemetry.holding(self._buffer.held)

    def _has_rubric(self, batch_id: str, name: str, digest: str) -> bool:
        """Whether the rubric that this worker has under the name is the one with which the batch was accepted: results
        of two meanings of one version are not to be mixed."""
        try:
            own = self.instruments.rubrics.get(name).digest
        except UnknownRubric:
            # The batch pauses, and says which rubric is missing.
            return True
        if own == digest:
            return True
        self.telemetry.left_to_others()
        if batch_id not in self._left_to_others:
            self._left_to_others.add(batch_id)
            logger.warning(
                "a batch is left to other workers: the file of %s here (%s) is not the service's (%s)",
                name,
                own[:12],
                digest[:12],
                extra={"batch_id": batch_id, "code": "rubric-differs"},
            )
        return False

    async def _finish(self, batch_id: str) -> None:
        """Computes what needs all results of a batch. Pauses the batch where that cannot be done: the job would
        be tried for ever, since no deadline holds for it."""
        try:
            await end_batch(self.store, self.instruments.rubrics, batch_id)
        except UnknownRubric as error:
            await self.store.pause(batch_id, error.code, error.message)
        except StoreError:
            raise
        except Exception:
            logger.exception("unexpected error", extra={"code": INTERNAL.code})
            await self.store.pause(batch_id, INTERNAL.code, END_FAILED)

    async def _collect(self, batch_id: str) -> None:
        """Makes the next step of a batch in the provider's own batch mode."""
        if self.provider is None:
            detail = Message("pause-no-batch-mode")
            await self.store.pause(batch_id, UNAVAILABLE, detail)
        else:
            await self.provider.step(batch_id)

    async def _renew(self) -> None:
        while True:
            await self.sleep(self.lease_seconds / RENEWALS)
            try:
                await self._buffer.renew()
            except StoreError as error:
                logger.warning("leases wait for the store: %s", error.loggable, extra={"code": error.code})

    async def _watch(self) -> None:
        while True:
            await self.sleep(WATCH_SECONDS)
            try:
                await self._buffer.watch()
            except StoreError as error:
                logger.debug("what was stopped is not known: %s", error.loggable)

    async def _sweep(self) -> None:
        while True:
            try:
                await enqueue(self.queue, await self.store.expire())
                await enqueue(self.queue, await self.store.sweep(window_of(self.concurrency), REQUEUE_SECONDS))
                await self._report()
            except StoreError as error:
                logger.warning("the sweep waits for the store: %s", error.loggable, extra={"code": error.code})
            await self.sleep(SWEEP_SECONDS)

    async def _tidy(self) -> None:
        """Runs apart from the sweep, so that a cache or provider that hangs does not delay lost jobs."""
        while True:
            try:
                await self.store.settle_erasures(self.cache)
                if self.provider is not None:
                    await self.provider.tidy()
            except StoreError as error:
                logger.warning("what was erased waits for the store: %s", error.loggable, extra={"code": error.code})
            except Exception:
                # For example an unexpected answer of a provider, which would end the worker in every round.
                logger.exception("unexpected error", extra={"code": INTERNAL.code})
            await self.sleep(TIDY_SECONDS)

    async def watch(self) -> None:
        """Only reports the backlog to the telemetry, until cancelled. For a process that accepts batches and leaves the
        work to others: if all of those died, no other process would report it."""
        while True:
            try:
                await self._report()
            except StoreError as error:
                logger.debug("the backlog is not known: %s", error.loggable)
            await self.sleep(SWEEP_SECONDS)

    async def _report(self) -> None:
        candidates, oldest_seconds = await self.store.backlog()
        jobs = None
        with suppress(QueueUnavailable):
            jobs = await self.queue.depth()
        self.telemetry.backlog(candidates, oldest_seconds, jobs)
        self.telemetry.paused(await self.store.paused())

"""A worker takes chunks from the queue and scores them until it is stopped. Many may run, in as many processes.

A batch resumes after a crash here. `_sweep` puts chunks whose lease has run out on the queue again, `_work_on` claims
them, and the claim (`saiten_server.runs.store.leases`) finds the candidates that have no result yet.

A batch whose similarity baseline b̄ is the mean b of its own responses is blended at its end.
"""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import Any

from saiten.core.messages import Message
from saiten_server.core.batch import INTERNAL, plan_of
from saiten_server.core.errors import StoreError, UnknownRubric
from saiten_server.core.evaluation import Evaluation, Path, PathResult, RelevanceResult
from saiten_server.core.signature import ENGLISH_PIECES, describe_relevance, merge_paths, sign
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.tasks import cancel_for_good, end_once, end_tasks, surviving
from saiten_server.platform.telemetry import Telemetry, working_on
from saiten_server.runs.attempt import RefusalCounter, RetryPolicy
from saiten_server.runs.chunk import ChunkRun, WorkerContext
from saiten_server.runs.commits import FEEDING, CommitBuffer, enqueue
from saiten_server.runs.provider_run import UNAVAILABLE, ProviderRun
from saiten_server.runs.result import Result
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import add_up
from saiten_server.runs.work import CHUNK_SIZE, COLLECT, FINISH, ChunkJob, JobQueue, QueueUnavailable
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.record import blend_aspect
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.scoring.subject import blended_aspects

SUMMED_RESULTS_PAGE = 500

Chore = Callable[[], Coroutine[Any, Any, None]]
"""What a worker does beside batches, until it is cancelled."""


@dataclass
class Means:
    """The values of b by language path. Memory: eight bytes per candidate, so that their sum is rounded only once."""

    scores: dict[Path, array[float]] = field(default_factory=dict)

    def add(self, path: Path, relevance: RelevanceResult | None) -> None:
        if relevance is not None and relevance.score is not None:
            self.scores.setdefault(path, array("d")).append(relevance.score)

    def mean(self, path: Path) -> float | None:
        """b̄ of the path; None where no response has a similarity."""
        found = self.scores.get(path)
        return fsum(found) / len(found) if found else None


async def end_batch(store: BatchStore, rubrics: RubricSource, batch_id: str) -> None:
    """Puts b̄ and the blended values into every result, completes the batch, and stores its figures. Every value is
    computed from c, b and b̄, so doing it twice, or resuming after a crash, gives the same result. Figures that were
    not stored are computed by the first caller who asks for them."""
    project = await store.project_of(batch_id)
    options = await store.options(project, batch_id) if project is not None else None
    if project is None or options is None:
        return
    names = blended_aspects(rubrics.get(options.rubric), options.relevance)
    means = Means()
    async for page in read_pages(store, project, batch_id):
        for evaluation in (result.evaluation for result in page if result.evaluation):
            for path, found in evaluation.by_path.items():
                means.add(path, found.relevance)
    async for page in read_pages(store, project, batch_id):
        changed = [
            (one.entry.position, blend_evaluation(one.evaluation, means, names)) for one in page if one.evaluation
        ]
        await store.rewrite(batch_id, changed)
    await store.complete(batch_id)
    await store.keep_tally(project, batch_id, await add_up(store, project, batch_id))


async def read_pages(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[list[Result]]:
    """All results of the batch, page by page."""
    after = -1
    while page := await store.results(project, batch_id, after=after, limit=SUMMED_RESULTS_PAGE):
        yield page
        after = page[-1].entry.position


def blend_evaluation(evaluation: Evaluation, means: Means, names: tuple[str, ...]) -> Evaluation:
    """The evaluation with the batch's b̄ in every path's relevance, blended values and signature. `names` are the
    aspects to blend."""
    paths, pieces = evaluation.paths, evaluation.signature_pieces
    if paths is None:
        ((path, result),) = evaluation.by_path.items()
        top, pieces = blend_path(result, means.mean(path), names, pieces)
    else:
        own, theirs = split_pieces(pieces)
        top, own = blend_path(paths.source, means.mean("source"), names, own)
        english, theirs = blend_path(paths.english, means.mean("english"), names, theirs)
        paths, pieces = paths.model_copy(update={"source": top, "english": english}), merge_paths(own, theirs)
    update = {"aspects": top.aspects, "relevance": top.relevance, "paths": paths}
    return evaluation.model_copy(update={**update, "signature_pieces": pieces, "signature": sign(pieces)})


def blend_path(
    result: PathResult | Evaluation, baseline: float | None, names: tuple[str, ...], pieces: dict[str, str]
) -> tuple[PathResult | Evaluation, dict[str, str]]:
    """One path's result with b̄ and the pieces of its signature; both unchanged if it has no similarity."""
    relevance = result.relevance
    if relevance is None or relevance.score is None or baseline is None:
        return result, pieces
    relevance = relevance.model_copy(update={"baseline": baseline})
    aspects = {
        name: blend_aspect(aspect, relevance) if name in names else aspect for name, aspect in result.aspects.items()
    }
    signed = pieces | describe_relevance(relevance, names)
    update = {"aspects": aspects, "relevance": relevance, "signature": sign(signed)}
    return result.model_copy(update=update), signed


def split_pieces(pieces: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The source path's and the English path's pieces of a signature on both paths: the inverse of `merge_paths`."""
    source = {key: value for key, value in pieces.items() if not key.startswith(ENGLISH_PIECES)} | {"path": "source"}
    english = {
        key.removeprefix(ENGLISH_PIECES): value for key, value in pieces.items() if key.startswith(ENGLISH_PIECES)
    }
    return source, source | english | {"path": "english"}


logger = logging.getLogger("saiten.batches")

SWEEP_SECONDS = 2.0
REQUEUE_SECONDS = 10.0
"""A queued job that no worker has claimed for this long is put on the queue again: the queue has lost it."""

RENEWALS = 4  # renewals of a lease within its duration, so that a late or failed one does no harm
WATCH_SECONDS = 0.5
"""Between two checks whether a batch was cancelled or erased. Its calls have to end within a second."""

WORKER_STOP_SECONDS = 12.0
"""How long candidates in progress may take to finish after a stop. A whole stop has to take less than 25 s."""

HAND_BACK_SECONDS = 4.0
"""How long the worker then waits until its leases are released. It has to end even if the store is down."""

CHORES_SECONDS = 1.0
"""Delay before the first round of work that no one waits for, so that the first callers of a service that has just
started need not share it with them."""

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
    all. `grow` adds the next candidates to a batch that chooses them by its results, and returns whether there are any.
    `chores` run beside the work until it ends; a chore that fails ends the worker."""

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
    grow: Callable[[str], Awaitable[bool]] | None = None
    chores: Sequence[Chore] = ()
    stop_seconds: float = WORKER_STOP_SECONDS
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
        loops = [asyncio.create_task(part()) for part in (self._buffer.run, self._renew, self._watch, self._sweep)]
        loops += [asyncio.create_task(self._begin_later(chore)) for chore in (self._tidy, *self.chores)]
        async with AsyncExitStack() as ending:
            # These run from the last to the first, each even if one before it has failed.
            ending.push_async_callback(end_tasks, loops)
            ending.push_async_callback(self._wind_up)
            ending.push_async_callback(end_once, work)
            ending.callback(self._begin_nothing)
            # Not `gather`: cancelled, it would cancel the buffer too, before the last results are in.
            await asyncio.wait([work, *loops], return_when=asyncio.FIRST_COMPLETED)

    async def _begin_later(self, chore: Chore) -> None:
        await self.sleep(CHORES_SECONDS)
        await chore()

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
            options = await self.store.active_options(batch_id)
            if options is not None and plan_of(options) is not None:
                await self._next_round(batch_id)
            else:
                await end_batch(self.store, self.instruments.rubrics, batch_id)
        except UnknownRubric as error:
            await self.store.pause(batch_id, error.code, error.message)
        except StoreError:
            raise
        except Exception:
            logger.exception("unexpected error", extra={"code": INTERNAL.code})
            await self.store.pause(batch_id, INTERNAL.code, END_FAILED)

    async def _next_round(self, batch_id: str) -> None:
        """Lets a batch of pairs grow by what is to be judged next, or completes it."""
        if self.grow is not None and await self.grow(batch_id):
            await enqueue(self.queue, await self.store.next_jobs(batch_id, window_of(self.concurrency)))
        else:
            await self.store.complete(batch_id)

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
            with surviving(logger, "erased texts"):
                await self.store.settle_erasures(self.cache)
                if self.provider is not None:
                    await self.provider.tidy()
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

"""The batch service: submits, reads, pauses, resumes, cancels and erases batches, independently of HTTP."""

from __future__ import annotations

import builtins
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.core.batch import Batch, BatchFilter, BatchOptions, BatchUsage, Counts, EstimateReport, KeyedAnswer
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import (
    BatchFinished,
    InvalidRequest,
    LimitReached,
    NotFound,
    Overloaded,
    QueueLimitReached,
    StoreError,
)
from saiten_server.core.rubric import split_name
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.sql.tables import can_store
from saiten_server.runs.commits import enqueue
from saiten_server.runs.document import BatchReader
from saiten_server.runs.estimates import admit, estimate, settle_unit
from saiten_server.runs.intake import BatchSource, Intake, Spool, store_batch, take_in
from saiten_server.runs.provider_run import ProviderRun
from saiten_server.runs.quota import StorageQuota, expect_bytes
from saiten_server.runs.result import Result
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import Summaries
from saiten_server.runs.summary import Summary
from saiten_server.runs.work import JobQueue
from saiten_server.scoring.evaluate import ScoringContext

logger = logging.getLogger("saiten.batches")

RESULTS_PAGE = 200  # results read at once: small enough that other requests on the event loop are not delayed
TEXTS_BYTES = 1 << 20  # texts read at once, or those of one candidate that has more


QUEUE_RETRY_SECONDS = 30.0  # When to try again. The batches in front take minutes, so trying more often gains nothing.


@dataclass(frozen=True)
class QueueLimits:
    """The most candidates without a result in batches that are queued or running: of all projects together, and of each
    project. None is no limit. They are counted before a batch is accepted or resumed; batches that arrive together do
    not see each other."""

    all_projects: int | None = None
    project: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.all_projects is not None or self.project is not None

    def require_room(self, waiting: tuple[int, int], candidates: int, *, resumed: bool = False) -> None:
        """Raises QueueLimitReached or Overloaded if there is no room for the new candidates, or, with `resumed`, for
        those that a paused batch has left. `waiting` are the candidates of all projects, and of the caller's."""
        everyone, own = waiting
        if (most := self.project) is not None and own + candidates > most:
            advice = advise(candidates, most, resumed=resumed)
            message = Message("project-candidates-wait", own=own, candidates=candidates, most=most, advice=advice)
            raise QueueLimitReached(message, retry_after_seconds=QUEUE_RETRY_SECONDS)
        if (most := self.all_projects) is not None and everyone + candidates > most:
            # The caller must not learn how many candidates other projects have waiting.
            advice = advise(candidates, most, resumed=resumed)
            message = Message("service-candidates-wait", candidates=candidates, most=most, advice=advice)
            raise Overloaded(message, retry_after_seconds=QUEUE_RETRY_SECONDS)


def advise(candidates: int, most: int, *, resumed: bool) -> Message:
    """What the caller can do: a batch larger than the limit is never accepted, however long the caller waits."""
    if resumed:
        return Message("raise-limit") if candidates > most else Message("resume-batch-later")
    return Message("send-smaller-batches") if candidates > most else Message("send-batch-later")


@dataclass(kw_only=True, eq=False)
class BatchService:
    """Everything that a caller can do with batches within the caller's project. Methods raise NotFound for a batch that
    is not in the project, InvalidRequest for one that cannot be scored as requested, and StoreError. `window` is how
    many chunks of a batch are queued at once, `queue_limits` bound how many candidates may wait, and `quota` how much
    may be stored."""

    store: BatchStore
    queue: JobQueue
    instruments: ScoringContext
    cache: CallCache
    limits: Limits
    new_id: Callable[[], str]
    window: int
    provider: ProviderRun | None = None
    queue_limits: QueueLimits = field(default_factory=QueueLimits)
    quota: StorageQuota | None = None
    absent: Message = field(default_factory=lambda: Message("batch-not-found"))
    """What a caller is told of a batch that does not exist, or belongs to another project."""

    def __post_init__(self) -> None:
        self._summaries = Summaries(self.store, self.instruments.rubrics)

    async def take_in(self, body: AsyncIterable[bytes], spool: Spool, *, ndjson: bool) -> Intake:
        """Reads a whole, valid batch. Raises StrictJSONError, InvalidDocument, and whatever `body` raises."""
        return await take_in(body, BatchReader(self.limits, ndjson=ndjson), spool)

    async def estimate(self, intake: Intake) -> EstimateReport:
        """The expected cost of the batch. Stores nothing, and calls no service."""
        rubric = self.instruments.rubrics.get(intake.options.rubric)
        return await estimate(settle_unit(intake, rubric), self.instruments)

    async def accept(
        self, project: str, intake: Intake, answer: Callable[[Batch], KeyedAnswer] | None, *, api_key: str | None = None
    ) -> Batch:
        """Stores the batch; from then on it will run, whichever process stops. `answer` makes the answer to keep under
        the caller's Idempotency-Key, in the same transaction. `api_key` is the id of the key that pays. Raises
        QueueLimitReached and Overloaded if too many candidates are waiting, and ProjectFull if the batch does not fit
        into the project's quota."""
        intake = settle_unit(intake, self.instruments.rubrics.get(intake.options.rubric))
        return await self.accept_source(project, intake, answer, api_key=api_key)

    async def accept_source(
        self, project: str, source: BatchSource, answer: Callable[[Batch], KeyedAnswer] | None, *, api_key: str | None
    ) -> Batch:
        """The same of a batch from anywhere, whose options fit what it holds."""
        # Pins the version, so that every candidate is judged by the same one, whatever is installed later.
        rubric = self.instruments.rubrics.get(source.options.rubric)
        if source.options.mode == "provider-batch" and self.provider is None:
            detail = Message("judge-without-batch-mode", judge=repr(self.instruments.judge.kind))
            raise InvalidRequest(detail, pointer="/mode")
        source = source.pinned(rubric.name)
        is_limited = api_key is not None and await self.store.limits_money(api_key)
        unit_cost_usd = await admit(source, self.instruments, is_limited=is_limited)
        await self._require_room(project, source.candidates)
        if self.quota is not None:
            await self.quota.require_room(project, expect_bytes(source.text_bytes, source.candidates))
        # Built here rather than read back: a worker may have started on the batch already, and a replay has to return
        # the same as the first answer.
        batch = start_record(self.new_id(), source, self.instruments.now())
        await store_batch(
            self.store,
            project,
            batch.id,
            source,
            now=batch.created_at,
            unit_cost_usd=unit_cost_usd,
            answer=answer(batch) if answer else None,
            api_key=api_key,
            rubric_digest=rubric.digest,
        )
        logger.info("batch accepted", extra={"batch_id": batch.id, "candidates": source.candidates})
        await self._enqueue(batch.id)
        return batch

    async def _require_room(self, project: str, candidates: int, *, resumed: bool = False) -> None:
        if not self.queue_limits.is_limited:
            return
        try:
            self.queue_limits.require_room(await self.store.waiting(project), candidates, resumed=resumed)
        except LimitReached:
            self.instruments.telemetry.limited("queue")
            raise

    async def look(self, project: str, batch_id: str) -> Batch | None:
        """The batch as it is now; None if there is none, or it is erased."""
        return await self.store.find(project, batch_id)

    def _present(self, batch: Batch | None) -> Batch:
        if batch is None:
            raise NotFound(self.absent)
        return batch

    async def find_each(self, project: str, ids: Sequence[str]) -> builtins.list[Batch]:
        """Those of the batches that there are, as they are now, in one query."""
        return await self.store.find_all(project, [batch_id for batch_id in ids if can_store(batch_id)])

    async def find(self, project: str, batch_id: str) -> Batch:
        """The batch as it is now."""
        return self._present(await self.store.find(project, batch_id))

    async def list(
        self, project: str, wanted: BatchFilter, *, after: tuple[datetime, str] | None, limit: int
    ) -> builtins.list[Batch]:
        """Batches, newest first; `after` is (created_at, id) of the last one of the page before."""
        return await self.store.list(project, wanted, after=after, limit=limit)

    async def newest_pairs(self, project: str, wanted: BatchFilter, *, limit: int) -> Sequence[tuple[Batch, Batch]]:
        """For each name, system and rubric, the newest completed batch and the one before it; newest first."""
        return await self.store.newest_pairs(project, wanted, limit=limit)

    async def befores(self, project: str, ids: Sequence[str]) -> Mapping[str, str]:
        """By id of a batch that of the completed one before it of its name, system and rubric, in whatever version."""
        return await self.store.befores(project, ids)

    async def pause(self, project: str, batch_id: str) -> Batch:
        """Pauses the batch. Raises BatchFinished."""
        detail = Message("pause-requested")
        found = self._present(await self.store.pause(batch_id, "requested", detail, project=project))
        return unfinished(found)

    async def resume(self, project: str, batch_id: str) -> Batch:
        """Resumes the batch, whatever the reason for its pause. Raises BatchFinished; QueueLimitReached and Overloaded
        if there is no room for its remaining candidates."""
        if self.queue_limits.is_limited:
            before = unfinished(await self.find(project, batch_id))
            # A batch that is not paused is counted already.
            if before.status == "paused" and before.counts.queued:
                await self._require_room(project, before.counts.queued, resumed=True)
        found = unfinished(self._present(await self.store.resume(project, batch_id)))
        await self._enqueue(batch_id)
        return found

    async def cancel(self, project: str, batch_id: str) -> Batch:
        """Cancels the batch. Raises BatchFinished if it was completed before."""
        found = self._present(await self.store.cancel(project, batch_id))
        if self.provider is not None and found.mode == "provider-batch":
            await self.provider.cancel(batch_id)
        return found if found.status == "cancelled" else unfinished(found)

    async def erase(self, project: str, batch_id: str) -> None:
        """Removes the batch, its texts and results, and its replies in the call cache; if the cache is down, as soon as
        a sweep reaches it."""
        if self.provider is not None and await self.store.options(project, batch_id) is not None:
            await self.provider.forget(batch_id)
        if not await self.store.erase(project, batch_id):
            raise NotFound(self.absent)
        try:
            await self.store.settle_erasures(self.cache)
        except StoreError as error:
            logger.warning("an erasure goes on later: %s", error.loggable, extra={"batch_id": batch_id})
        logger.info("batch erased", extra={"batch_id": batch_id})

    async def results(
        self, project: str, batch_id: str, *, after: int, limit: int | None
    ) -> AsyncIterator[builtins.list[Result]]:
        """Results in order, page by page, at most `limit` of them. Raises NotFound if the batch is erased meanwhile."""
        left = limit
        while left is None or left > 0:
            wanted = RESULTS_PAGE if left is None else min(left, RESULTS_PAGE)
            page = await self.store.results(project, batch_id, after=after, limit=wanted)
            if not page:
                break
            yield page
            after = page[-1].entry.position
            left = None if left is None else left - len(page)
        # An erased batch has no more results either, which must not look like the end.
        await self.find(project, batch_id)

    async def add_texts(
        self, batch_id: str, pages: AsyncIterable[Sequence[Result]]
    ) -> AsyncIterator[builtins.list[Result]]:
        """The same results with their candidates, in pages of at most TEXTS_BYTES."""
        async for page in pages:
            sizes = await self.store.text_sizes(batch_id, page[0].entry.position, page[-1].entry.position)
            for some in cut_by_size(page, sizes):
                found = await self.store.asked(batch_id, [result.entry.position for result in some])
                yield [replace(result, asked=found.get(result.entry.position)) for result in some]

    async def options(self, project: str, batch_id: str) -> BatchOptions:
        """What all items of the batch have in common."""
        found = await self.store.options(project, batch_id)
        if found is None:
            raise NotFound(self.absent)
        return found

    async def summarize(self, project: str, batch_id: str) -> Summary:
        """The summary of the current results."""
        return await self._summaries.summarize(project, await self.find(project, batch_id))

    async def summaries(self, project: str, batches: Sequence[Batch], *, intervals: bool = True) -> dict[str, Summary]:
        """The summaries of several batches by id, without those whose rubric is gone. Without `intervals` no batch's
        values are read for one that is not kept."""
        return await self._summaries.summarize_all(project, batches, intervals=intervals)

    async def _enqueue(self, batch_id: str) -> None:
        """Queues jobs for workers. A failure only causes a delay: a sweep finds every batch that has work and no
        jobs."""
        try:
            await enqueue(self.queue, await self.store.next_jobs(batch_id, self.window))
        except StoreError as error:
            logger.warning("the batch waits for a sweep: %s", error.loggable, extra={"batch_id": batch_id})


def start_record(batch_id: str, source: BatchSource, now: datetime) -> Batch:
    """A batch that has not started."""
    options, total = source.options, source.candidates
    rubric, version = split_name(options.rubric)
    same = ("name", "mode", "path", "relevance", "judge", "budget_usd", "metadata")
    return Batch(
        **{name: getattr(options, name) for name in same},
        id=batch_id,
        status="queued",
        rubric=rubric,
        rubric_version=version,
        deadline_hours=options.running_hours,
        counts=Counts(total=total, queued=total, scored=0, partial=0, failed=0),
        progress=0.0,
        rate_per_second=None,
        estimated_end=None,
        usage=BatchUsage(),
        signature=None,
        ids_given=source.ids_given,
        created_at=now,
    )


def cut_by_size(page: Sequence[Result], sizes: Mapping[int, int]) -> Iterator[builtins.list[Result]]:
    """The results in pieces of at most TEXTS_BYTES, or of a single result."""
    piece, size = list[Result](), 0
    for result in page:
        own = sizes.get(result.entry.position, 0)
        if piece and size + own > TEXTS_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(result)
        size += own
    yield piece


def unfinished(batch: Batch) -> Batch:
    """The batch; raises BatchFinished where it is completed or cancelled."""
    if batch.status in {"completed", "cancelled"}:
        raise BatchFinished(Message("batch-finished", status=batch.status))
    return batch

"""The work on one leased chunk: its candidates side by side, as many as there are places."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.errors import JudgeReplyInvalid, StoreError
from saiten_server.core.evaluation import Usage
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.ports import RequestScope
from saiten_server.runs.attempt import Pause, RefusalCounter, RetryPolicy, Trial, attempt, make_example, probe_with
from saiten_server.runs.commits import CommitBuffer, LeasedChunk
from saiten_server.runs.provider_run import ProviderRun
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import FinishedCandidate, Work
from saiten_server.scoring.evaluate import ScoringContext

logger = logging.getLogger("saiten.batches")

MONEY_ROUNDING = (
    1e-9  # a reservation that is a whole multiple of the cost must not lose a candidate to binary fractions
)
MOST_TRIES = 3
"""Workers that may die over a candidate that is already suspected. The death that raises the suspicion accuses all
candidates in progress, and a worker may be killed for other reasons: an innocent candidate must not lose its rating."""

DEAD_LETTER = "worker-died"

REFUSED_CODE = "judge-refused-request"

MOST_RESTING = 64
"""Candidates that wait between two rounds without a place, so that others may begin. If more candidates than this fail,
the service serves none, and beginning still more does not help."""


class BudgetReservation:
    """Lets candidates begin as long as all in progress stay within what is reserved, each at the highest cost so far.
    `unit_usd` is what was reserved per candidate, for `count` candidates; None without a budget."""

    def __init__(self, count: int, unit_usd: float | None) -> None:
        self._bounded = unit_usd is not None
        self._highest_cost_usd = unit_usd or 0.0
        self._left_usd = count * self._highest_cost_usd
        self._in_hand = 0

    def begin(self) -> bool:
        """Whether one more candidate may begin; it then counts as in progress."""
        if self._bounded and self._highest_cost_usd * (self._in_hand + 1) > self._left_usd + MONEY_ROUNDING:
            return False
        self._in_hand += 1
        return True

    def end(self, cost_usd: float | None) -> None:
        """Notes that a candidate is done. One whose cost is not known uses up the whole reservation."""
        self._in_hand -= 1
        if cost_usd is None:
            self._left_usd = -math.inf
        else:
            self._left_usd -= cost_usd
            self._highest_cost_usd = max(self._highest_cost_usd, cost_usd)


@dataclass
class WorkerContext:
    """What all chunks of a worker share.

    `places` bounds the candidates whose outcome is not known yet, and `outbox` those that only wait for their commit; a
    single bound would leave the judge idle while results are written. `resting` counts the candidates that wait between
    two rounds and have given up their place. `alone` lets one suspect at a time be tried again.
    """

    owner: str
    store: BatchStore
    buffer: CommitBuffer
    instruments: ScoringContext
    telemetry: Telemetry
    retries: RetryPolicy
    places: asyncio.Semaphore
    outbox: asyncio.Semaphore
    alone: asyncio.Lock
    refusals: RefusalCounter
    provider: ProviderRun | None = None
    resting: int = 0

    def instruments_for(self, work: Work) -> ScoringContext:
        """The instruments for the batch's mode. In the provider's own batch mode the judge has its replies already."""
        if work.options.mode == "live" or self.provider is None:
            return self.instruments
        return self.provider.instruments_for(work.job.batch, work.options, self.instruments)


class ChunkRun:
    """Scores a chunk's candidates and delivers each result as soon as it is known. Ends early, after the candidates in
    progress, if the batch is stopped, paused or lost. `fed` is set when every candidate has begun: then there is room
    for the next chunk."""

    def __init__(self, work: Work, leased: LeasedChunk, context: WorkerContext, fed: asyncio.Event) -> None:
        self._fed = fed
        self._begun_at = time.monotonic()
        self._instruments = context.instruments_for(work)
        self._work = work
        self._chunk = leased
        self._context = context
        self._placed: set[asyncio.Task[None] | None] = set()
        self._error: BaseException | None = None
        self._troubled: set[asyncio.Task[None] | None] = set()
        self._set_aside = False
        self._reservation = BudgetReservation(work.affordable, work.unit_usd)

    async def run(self) -> None:
        """Returns when every candidate that was begun has been delivered."""
        # If the account is refused from here on, so is the rest of the chunk: the batch will be paused.
        self._begun_at = time.monotonic()
        work = self._work
        todo = work.todo[: work.affordable]
        fresh = [one for one in todo if work.tries.get(one[0].position, 0) == 0]
        tried = [one for one in todo if work.tries.get(one[0].position, 0)]
        await self._score(fresh, last=not tried)
        # Candidates that were in progress when a worker died run one at a time, so that the culprit shows; the least
        # tried first, so that workers that are killed at random do not accuse the same candidate each time.
        for one in sorted(tried, key=lambda one: work.tries[one[0].position]):
            async with self._context.alone:
                await self._score([one], last=False)
        self._feed()

    async def _score(self, candidates: Iterable[tuple[Entry, Candidate]], *, last: bool) -> None:
        try:
            for entry, candidate in candidates:
                await self._context.places.acquire()
                if self._chunk.stopped or not self._reservation.begin():
                    self._context.places.release()
                    break
                task = asyncio.create_task(self._handle(entry, candidate))
                self._chunk.tasks.add(task)
                self._placed.add(task)
                task.add_done_callback(self._leave)
            if last:
                self._feed()
        finally:
            await self._settle()

    def _feed(self) -> None:
        self._chunk.fed = True
        self._fed.set()

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._give_place_back(task)
        self._chunk.tasks.discard(task)
        # A task that `LeasedChunk.lose` cancelled has not failed.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = self._error or error
            self._chunk.stop()

    async def _settle(self) -> None:
        """Waits for the candidates in progress; raises their first error."""
        await asyncio.gather(*self._chunk.tasks, return_exceptions=True)
        # The tasks' callbacks run in the turn after their end.
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error

    async def _handle(self, entry: Entry, candidate: Candidate) -> None:
        finished = None
        try:
            announce = partial(self._context.buffer.announce, self._chunk, entry.position)
            finished = await self._find(entry, candidate, RequestScope(begun_at=self._begun_at, announce=announce))
            if finished is None:
                # Refused, or stopped while it waited: nothing was paid for.
                self._chunk.called.discard(entry.position)
        finally:
            self._reservation.end(finished.usage.cost_usd if finished else 0.0)
        if finished is not None:
            async with self._context.outbox:
                self._give_place_back(asyncio.current_task())
                await self._context.buffer.keep(finished)
            self._count(finished)

    @asynccontextmanager
    async def _resting(self, trial: Trial) -> AsyncIterator[None]:
        """Gives up the candidate's place between two rounds, and the chunk's, if nothing else is left of the chunk."""
        task, context = asyncio.current_task(), self._context
        gives_place = context.resting < MOST_RESTING
        context.resting += gives_place
        if gives_place:
            self._give_place_back(task)
        try:
            if trial.failed_rounds:
                self._troubled.add(task)
                await self._make_room()
            yield
        finally:
            context.resting -= gives_place
        if gives_place:
            await context.places.acquire()
            self._placed.add(task)

    async def _make_room(self) -> None:
        """Lets the batch's next chunk begin if only failing candidates are left of this one."""
        leased = self._chunk
        if not leased.fed or self._set_aside or not leased.tasks <= self._troubled:
            return
        self._set_aside = True
        try:
            await self._context.store.set_aside(leased.job, self._context.owner)
        except StoreError as error:
            self._set_aside = False
            logger.info("a chunk is not set aside: %s", error.loggable, extra={"code": error.code})

    async def _probe(self, scope: RequestScope) -> Usage | None:
        """Asks the judge about a candidate of the batch that it has rated before, or about an example of the rubric.
        `scope` is that of the failing candidate, and collects the calls."""
        try:
            candidate = await self._context.store.find_scored(self._work.job.batch)
        except StoreError:
            return None
        candidate = candidate or make_example(self._context.instruments.rubrics.get(self._work.options.rubric))
        # The probe may outlast the candidate that started it, and its chunk, so it announces no call for them.
        own = replace(scope, announce=None, bypass_cache=True)
        # Uses the worker's own judge: a provider's batch has its reply already.
        return await probe_with(self._work, candidate, self._context.instruments, own)

    def _give_place_back(self, task: asyncio.Task[None] | None) -> None:
        """Called once however the task ends: a task that is cancelled before it begins never runs."""
        if task in self._placed:
            self._placed.discard(task)
            self._context.places.release()

    async def _find(self, entry: Entry, candidate: Candidate, scope: RequestScope) -> FinishedCandidate | None:
        work, context = self._work, self._context
        if work.suspect and await context.store.mark(work.job, context.owner, entry.position) >= MOST_TRIES:
            detail = f"{MOST_TRIES} workers died while they worked on this candidate"
            return FinishedCandidate(work.job, entry, None, Failure(code=DEAD_LETTER, detail=detail))
        try:
            finished = await attempt(
                work,
                entry,
                candidate,
                self._instruments,
                scope=scope,
                leased=self._chunk,
                retries=context.retries,
                probe=partial(self._probe, scope),
                resting=self._resting,
            )
        except Pause as pause:
            await self._pause(pause.error.code, pause.error.message)
            return None
        if finished is None:
            return None
        refusal = find_refusal(finished)
        if refusal is None:
            context.refusals.took(work.job.batch)
        elif context.refusals.refused(work.job.batch):
            await self._pause(REFUSED_CODE, Message("pause-judge-refuses", fault=refusal))
            return None
        return finished

    async def _pause(self, reason: str, detail: Message) -> None:
        if self._chunk.stopped:
            # Another candidate has paused the batch, and a caller may have resumed it since.
            return
        # Stops the batch's other chunks here too: their candidates would call in vain until a commit reports the pause.
        self._chunk.stop()
        self._context.buffer.stop(self._work.job.batch)
        await self._context.store.pause(self._work.job.batch, reason, detail)

    def _count(self, finished: FinishedCandidate) -> None:
        status = finished.record.evaluation.status if finished.record else "failed"
        code = JudgeReplyInvalid.code if status == "failed" else ""  # nothing of it was rated
        self._context.telemetry.batch_item(status, finished.failure.code if finished.failure else code)


def find_refusal(finished: FinishedCandidate) -> Message | None:
    """What was said where the judge refused the candidate, or its provider's filter did; None where neither did."""
    if finished.failure is not None:
        return finished.failure.sentence if finished.failure.code == REFUSED_CODE else None
    aspects = finished.record.evaluation.aspects.values() if finished.record else ()
    unrated = [aspect.unrated for aspect in aspects if aspect.unrated is not None]
    filtered = [one.sentence for one in unrated if one.reason == "content-filter"]
    return filtered[0] if filtered and len(filtered) == len(unrated) == len(aspects) else None

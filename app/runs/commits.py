"""A worker's leases, and the results on their way to the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from saiten_server.core.batch import INTERNAL
from saiten_server.core.errors import StoreError
from saiten_server.platform.memory_cache import CallCache
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import CHUNK_SIZE, ChunkJob, Committed, FinishedCandidate, JobQueue, QueueUnavailable

logger = logging.getLogger("saiten.batches")

LONGEST_WAIT_SECONDS = 3.0  # between two tries to reach a store that is down: recovery is promised within 30 s
GATHER_SECONDS = 0.05
"""How long a transaction waits for more results: it costs milliseconds of CPU, however many it has. It does not wait
when no other candidate is in progress, as at the end of a batch."""

FEEDING = 3  # chunks whose candidates are begun in turn, from several batches if several have work
FEWEST_AHEAD = 2
"""The fewest candidates of a chunk that may begin between two transactions, however many chunks there are."""

MOST_AT_ONCE = 200  # results of one transaction


@dataclass(eq=False)
class LeasedChunk:
    """A chunk that this worker has leased."""

    job: ChunkJob
    permitted: int = CHUNK_SIZE  # candidates that may begin, as far as the store knows
    begun: int = 0  # candidates for which a call was ever made
    reported: int = 0  # candidates that the store would count as spent if this worker died
    waiting: int = 0  # candidates that wait until more are permitted
    # Positions of candidates for which a call was made and whose results are not stored.
    called: set[int] = field(default_factory=set)
    stopped: bool = False  # no more candidates are to begin
    lost: bool = False  # the chunk has another owner, or is erased
    fed: bool = False  # every candidate has begun
    closed: bool = False  # the lease is being released, with the last results or after them
    erased: bool = False  # some of the candidates are erased
    touched: set[str] = field(default_factory=set)  # the call cache's keys of every call that its candidates needed
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # the candidates in progress

    def stop(self) -> None:
        self.stopped = True

    def cut_off(self) -> None:
        """Ends what runs for the chunk."""
        self.stopped = True
        for task in self.tasks:
            task.cancel()

    def count_uncalled(self) -> int:
        """Candidates for which a call may still be made."""
        return CHUNK_SIZE if not self.fed and not self.stopped else max(0, len(self.tasks) - len(self.called))

    def lose(self) -> None:
        """Ends what runs because the chunk is not this worker's any more: its results would be refused."""
        self.lost = True
        self.cut_off()


@dataclass
class Delivery:
    """One result, the closing of one chunk, or neither (then the commit only reports what is about to begin). The
    future `committed` resolves once the transaction is committed."""

    committed: asyncio.Future[None]
    finished: FinishedCandidate | None = None
    closed: ChunkJob | None = None


@dataclass(eq=False)
class CommitBuffer:
    """Commits results in groups: whatever arrives during one transaction goes together into the next.

    A result counts as delivered only once its transaction is committed. While the store is down, results are kept here
    and retried, so a worker that survives the outage loses nothing.

    Each transaction also reports how many candidates may begin until the next one: `ahead` in all.
    """

    store: BatchStore
    queue: JobQueue
    cache: CallCache
    _: KW_ONLY
    owner: str
    lease_seconds: float
    ahead: int = FEEDING * CHUNK_SIZE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _chunks: dict[ChunkJob, LeasedChunk] = field(default_factory=dict, init=False)
    _waiting: list[Delivery] = field(default_factory=list, init=False)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _complete: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def held(self) -> int:
        """Chunks that this worker holds."""
        return len(self._chunks)

    @property
    def first(self) -> int:
        """Candidates of a chunk that may begin before the first commit: the claim reports these."""
        return max(FEWEST_AHEAD, self.ahead // FEEDING)

    def add(self, job: ChunkJob) -> LeasedChunk:
        """Registers a chunk that was just leased, with `first` candidates that may begin."""
        self._chunks[job] = LeasedChunk(job, permitted=self.first, reported=self.first)
        return self._chunks[job]

    async def announce(self, leased: LeasedChunk, position: int) -> None:
        """Returns once the store knows that a call for the candidate may be made; usually it knows already. Reports
        nothing for a chunk that was released meanwhile."""
        # Several calls of one candidate (samples, aspects) may wait here side by side: the first counts for all.
        while (
            position not in leased.called
            and leased.begun >= leased.permitted
            and not leased.lost
            and self._chunks.get(leased.job) is leased
        ):
            leased.waiting += 1
            try:
                await self._deliver()
            finally:
                leased.waiting -= 1
        if position not in leased.called:
            leased.begun += 1
            leased.called.add(position)

    async def watch(self) -> None:
        """Finds batches that were stopped or erased meanwhile, and ends what runs for them."""
        if asked := dict(self._chunks):
            halted = await self.store.find_halted(list(asked))
            self._apply(halted, [leased for leased in asked.values() if not leased.closed])

    def works_on(self, job: ChunkJob) -> bool:
        """Whether this worker has the chunk, even if its lease ran out while the store was down."""
        leased = self._chunks.get(job)
        return leased is not None and not leased.closed

    def stop(self, batch_id: str | None = None) -> None:
        """Lets no more candidates begin in the batch's chunks; by default in any chunk."""
        for leased in self._chunks.values():
            if batch_id in {None, leased.job.batch}:
                leased.stop()

    def cut_off_all(self) -> None:
        """Ends what runs for any chunk."""
        for leased in self._chunks.values():
            leased.cut_off()

    async def keep(self, finished: FinishedCandidate) -> None:
        """Returns once the result is committed, or refused because the chunk has another owner."""
        await self._deliver(finished)

    async def close(self, leased: LeasedChunk) -> None:
        """Releases the lease, after all results that were delivered before. Candidates without a result are queued
        again."""
        try:
            if not leased.lost and not leased.closed:
                leased.closed = True
                await self._deliver(closed=leased.job)
            if leased.lost or leased.erased:
                await self._forget(leased)
        finally:
            # Once closed, the chunk may be leased again, and then another lease has its place.
            if self._chunks.get(leased.job) is leased:
                del self._chunks[leased.job]

    async def _deliver(self, finished: FinishedCandidate | None = None, closed: ChunkJob | None = None) -> None:
        delivery = Delivery(asyncio.get_running_loop().create_future(), finished, closed)
        self._waiting.append(delivery)
        self._arrived.set()
        if len(self._waiting) >= sum(len(leased.tasks) for leased in self._chunks.values()):
            self._complete.set()
        await delivery.committed

    async def run(self) -> None:
        """Commits whatever arrives, until cancelled."""
        while True:
            await self._arrived.wait()
            await self._gather()
            group, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            if not self._waiting:
                self._arrived.clear()
            await self._commit(group)

    async def _gather(self) -> None:
        """Waits for more results, as long as any may come."""
        ends = [asyncio.ensure_future(self.sleep(GATHER_SECONDS)), asyncio.ensure_future(self._complete.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            self._complete.clear()

    async def renew(self) -> None:
        """Extends all leases; learns which were lost and which batches were stopped."""
        if asked := dict(self._chunks):
            renewed = await self.store.renew(self.owner, list(asked), self.lease_seconds)
            # A lease that was released meanwhile was not lost.
            self._apply(renewed, [leased for leased in asked.values() if not leased.closed])

    async def _commit(self, group: Sequence[Delivery]) -> None:
        finished = [one.finished for one in group if one.finished is not None]
        closed = [one.closed for one in group if one.closed is not None]
        closed += self._find_ended(finished)
        begun, permitted = self._plan(finished, closed)
        committed = await self._persist(finished, closed, begun)
        for one in finished:
            if leased := self._chunks.get(one.job):
                leased.called.discard(one.entry.position)
        for job, count in permitted.items():
            if leased := self._chunks.get(job):
                leased.permitted, leased.reported = count, begun.get(job, leased.reported)
        self._apply(committed, list(self._chunks.values()))
        for delivery in group:
            if not delivery.committed.done():
                delivery.committed.set_result(None)
        await enqueue(self.queue, committed.ready)

    def _plan(
        self, finished: Sequence[FinishedCandidate], closed: Sequence[ChunkJob]
    ) -> tuple[dict[ChunkJob, int], dict[ChunkJob, int]]:
        """By chunk, how many begun candidates to report to the store, and how many may then have begun in all."""
        delivered = {(one.job, one.entry.position) for one in finished}
        begun, permitted = dict[ChunkJob, int](), dict[ChunkJob, int]()
        calling = sum(leased.count_uncalled() > 0 for job, leased in self._chunks.items() if job.chunk >= 0)
        share = max(FEWEST_AHEAD, self.ahead // max(1, calling))
        for job, leased in self._chunks.items():
            called = sum((job, position) not in delivered for position in leased.called)
            if job in closed:
                begun[job] = called
            elif job.chunk >= 0 and not leased.closed and not leased.lost:
                # What is already permitted may be used while this is written.
                ahead = min(leased.count_uncalled(), max(share, leased.permitted - leased.begun))
                # Calls without a result count as well, so at least one waiting candidate is let through.
                ahead = max(ahead, min(1, leased.waiting))
                permitted[job], count = leased.begun + ahead, called + ahead
                if count != leased.reported:
                    begun[job] = count
        return begun, permitted

    def _find_ended(self, finished: Sequence[FinishedCandidate]) -> list[ChunkJob]:
        """Chunks whose last results these are. They are closed in the same transaction, which saves a second one."""
        counts = Counter(one.job for one in finished)
        found = [
            leased for job, count in counts.items() if (leased := self._chunks.get(job)) and len(leased.tasks) == count
        ]
        ended = [leased for leased in found if leased.fed and not leased.lost]
        for leased in ended:
            leased.closed = True
        return [leased.job for leased in ended]

    async def _persist(
        self, finished: Sequence[FinishedCandidate], closed: Sequence[ChunkJob], begun: Mapping[ChunkJob, int]
    ) -> Committed:
        try:
            return await self._insist(finished, closed, begun)
        except Exception:
            if not finished:
                raise
            logger.exception("results cannot be written together, and are written one by one")
        # A result that cannot be written must not block the others, nor be judged again and again.
        each = [await self._persist_alone(one) for one in finished]
        return merge_outcomes([*each, await self._insist((), closed, begun)])

    async def _persist_alone(self, one: FinishedCandidate) -> Committed:
        """Stores the result, or a failure in its place if it cannot be written."""
        try:
            return await self._insist([one], (), {})
        except Exception:
            about = {"batch_id": one.job.batch, "position": one.entry.position, "code": INTERNAL.code}
            logger.exception("a result cannot be written", extra=about)
        return await self._insist([replace(one, record=None, failure=INTERNAL)], (), {})

    async def _insist(
        self, finished: Sequence[FinishedCandidate], closed: Sequence[ChunkJob], begun: Mapping[ChunkJob, int]
    ) -> Committed:
        """Commits, retrying until the store is back."""
        wait_seconds = 0.1
        while True:
            try:
                return await self.store.commit(self.owner, finished, closed, begun)
            except StoreError as error:
                logger.warning("results wait for the store: %s", error.loggable, extra={"code": error.code})
            await self.sleep(wait_seconds * random.uniform(0.5, 1))  # noqa: S311 - spreads load
            wait_seconds = min(LONGEST_WAIT_SECONDS, 2 * wait_seconds)

    async def _forget(self, leased: LeasedChunk) -> None:
        """Removes the chunk's calls from the cache if its batch or some of its candidates are erased: calls whose
        results were not stored are known only here. Replies that other batches could use are removed too."""
        if not leased.touched:
            return
        try:
            if leased.erased or await self.store.project_of(leased.job.batch) is None:
                await forget_calls(self.store, self.cache, leased.touched)
        except StoreError as error:
            logger.warning("replies of an erased batch stay in the cache: %s", error.loggable)

    def _apply(self, committed: Committed, chunks: Iterable[LeasedChunk]) -> None:
        for leased in chunks:
            if leased.job in committed.stopped:
                leased.stop()
            if leased.job in committed.cancelled:
                leased.cut_off()
            if leased.job in committed.erased:
                leased.erased = True
            if leased.job in committed.lost:
                about = {"batch_id": leased.job.batch, "chunk": leased.job.chunk}
                logger.warning("a lease was lost: this process stood still, or clocks of workers differ", extra=about)
                leased.lose()


def merge_outcomes(commits: Iterable[Committed]) -> Committed:
    """The joint outcome of several commits."""
    each = list(commits)
    names = ("lost", "stopped", "erased", "cancelled")
    sets = {name: frozenset[ChunkJob]().union(*(getattr(one, name) for one in each)) for name in names}
    return Committed(**sets, ready=[job for one in each for job in one.ready])


async def enqueue(queue: JobQueue, jobs: Sequence[ChunkJob]) -> None:
    """Puts jobs on the queue. Where it is away they are left for a sweep, which finds every job that was lost."""
    if not jobs:
        return
    try:
        await queue.put(jobs)
    except QueueUnavailable as error:
        logger.warning("jobs wait for the queue: %s", error, extra={"code": error.code})


async def forget_calls(store: BatchStore, cache: CallCache, keys: Collection[str]) -> None:
    """Removes the replies of calls that are recorded nowhere else. If the cache is down, the store notes them. Raises
    StoreError if the store is down as well."""
    ordered = sorted(keys)
    try:
        await cache.forget(ordered)
    except StoreError:
        await store.note_erased_calls(ordered)

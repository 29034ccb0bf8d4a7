"""What batches need from outside, as roles: where they are kept, and who tells a worker that there is work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from app.domain.batch import Batch, BatchOptions, BatchStatus, Candidate, Entry, Failure, ItemResult
from app.domain.evaluation import Evaluation, Record, Usage
from app.domain.summary import Intervals
from app.domain.tally import Tally

CHUNK_SIZE = 40
"""Candidates of a job: small, so that batches take turns and that little is done twice when a worker dies."""

PROVIDER_TIME = timedelta(hours=24)
"""What a provider promises for its own batch mode."""


@dataclass(frozen=True)
class Job:
    """A request to work on a chunk. It holds no text; whoever gets it asks the store what is still to be done.

    `chunk` counts from 0; `FINISH` and `COLLECT` stand for work on the batch as a whole.
    """

    batch: str
    chunk: int


MOST_SET_ASIDE = 8
"""Chunks of a batch that make room for others because all that is left of them waits."""

NOTHING_BEGUN: Mapping[Job, int] = MappingProxyType({})

FINISH = -1
"""The batch's end: all its chunks are done, and something is still to be made of them together."""

COLLECT = -2
"""A batch in the provider's own batch mode: its calls are to be sent, asked after, or fetched."""


@dataclass(frozen=True)
class Work:
    """A leased chunk: its candidates without a result, in order.

    `suspect` is True where a worker died while it held this chunk: then each candidate is to be marked before it is
    begun (`BatchStore.mark`); `tries` says, by position, how often one was marked before, where it was.
    `unit_usd` is what one candidate is reckoned with under the batch's budget, None without one; `affordable` is how
    many of `todo`, from the first, the budget has been reserved for (all of them without a budget).
    """

    job: Job
    project: str
    options: BatchOptions
    todo: Sequence[tuple[Entry, Candidate]]
    suspect: bool
    affordable: int
    unit_usd: float | None = None
    tries: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A candidate's result on its way to the store: a record, or why there is none.

    `calls` are the call cache's keys of every outside call that it rests on, so that an erasure finds them.
    """

    job: Job
    entry: Entry
    record: Record | None
    failure: Failure | None = None
    usage: Usage = field(default_factory=Usage)
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Committed:
    """What a commit led to. `lost` are jobs whose lease is not the owner's any more, or whose batch is erased: their
    results were refused. `stopped` are jobs still held whose batch is paused or cancelled: nothing new is to be begun.
    `erased` are jobs still held with candidates that were erased. `cancelled` are those of the stopped whose batch is
    cancelled: what runs for them is to end at once. `ready` are jobs to be put on the queue now."""

    lost: frozenset[Job] = frozenset()
    stopped: frozenset[Job] = frozenset()
    ready: Sequence[Job] = ()
    erased: frozenset[Job] = frozenset()
    cancelled: frozenset[Job] = frozenset()


@dataclass(frozen=True)
class KeyedAnswer:
    """The answer to keep under an Idempotency-Key in the very transaction that accepts the batch."""

    key: str
    status: int
    body: bytes


@dataclass(frozen=True)
class BatchFilter:
    """Which batches to list; None and empty mean any. `metadata` entries must all match; `text` is in the id, the name
    or a metadata value, whatever the case of its ASCII letters."""

    name: str | None = None
    text: str | None = None
    rubric: str | None = None
    status: BatchStatus | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Scores(NamedTuple):
    """One result as summaries and analyses need it. `aspects` holds (mean rating or None, blended value or None,
    unrated reason or None, rating or None) by aspect.

    `similarity` is b; `system` what the candidate's own metadata name as such; `context` the digest of its dialogue
    context.
    """

    status: str
    aspects: Mapping[str, tuple[float | None, float | None, str | None, int | None]]
    composites: Mapping[str, float | None]
    warnings: tuple[str, ...] = ()
    failure: str | None = None
    similarity: float | None = None
    system: str | None = None
    context: str | None = None


class Scored(NamedTuple):
    """A result's place in its batch, its id as an evaluation, and its scores."""

    entry: Entry
    evaluation: str
    scores: Scores


MOST_PAIRED = 10_000
"""Batches among which pairs are looked for: a database reads them by an index in some ten milliseconds."""


class ValuesPage(NamedTuple):
    """Values of some results by `names`: aspects, composites and `NAME.blended`. A row has the position, the digest of
    the cluster, None where the result stands alone, and the values in the order of the names, None for none."""

    names: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


class BatchStore(Protocol):
    """The truth about batches. Raises the `Store…` errors of `app.domain.errors`. Times are in UTC.

    A batch is invisible, and nobody works on it, from `begin` to `accept`.
    """

    # Taking in

    async def begin(self, project: str, batch_id: str, options: BatchOptions, now: datetime) -> None: ...

    async def append(self, batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]) -> None:
        """Adds candidates in order, in one transaction; positions go on where the last call ended."""
        ...

    async def accept(
        self,
        project: str,
        batch_id: str,
        *,
        unit_cost_usd: float | None,
        answer: KeyedAnswer | None,
        api_key: str | None = None,
    ) -> Batch:
        """Cuts the batch into chunks, makes it visible and `queued`, keeps the keyed answer: all or nothing.

        `unit_cost_usd` is what one candidate is expected to cost at most, for the budget; None where unknown. `api_key`
        is the id of the key that is charged with what the results cost; None where nobody is.
        """
        ...

    async def discard(self, batch_id: str) -> None:
        """Removes a batch that was begun and is not to be accepted."""
        ...

    # Looking

    async def find(self, project: str, batch_id: str) -> Batch | None: ...

    async def results(self, project: str, batch_id: str, *, after: int, limit: int) -> list[ItemResult]:
        """Results with a position greater than `after`, in order; candidates without one are left out."""
        ...

    async def scores(self, project: str, batch_id: str, *, after: int, limit: int) -> list[Scored]:
        """The same, as what summaries and analyses need: cheap to read for a whole batch."""
        ...

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        """The figures of all results that each of the batches has now, however many; those of other projects are left
        out. None where they are not known: add up `scores` then."""
        ...

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        """Keeps what was added up of a completed or cancelled batch whose figures are not known. Where results have
        come in meanwhile, or may still, nothing is kept."""
        ...

    async def values(self, project: str, batch_id: str, *, after: int, limit: int) -> ValuesPage:
        """The values of results with a position greater than `after`, in order. The names of a later page may be more,
        and begin with those of an earlier one."""
        ...

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        """The intervals of the batches' means, of those where they are kept."""
        ...

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        """Keeps the intervals of a completed or cancelled batch, as `keep_tally` does.

        They go when a result changes.
        """
        ...

    async def options(self, project: str, batch_id: str) -> BatchOptions | None: ...

    # Steering. Each returns the batch as it is then, or None where there is none in this project.

    async def pause(self, batch_id: str, reason: str, detail: str, *, project: str | None = None) -> Batch | None:
        """queued or running → paused; any other status stays. `project` None: on behalf of a worker."""
        ...

    async def resume(self, project: str, batch_id: str) -> Batch | None:
        """paused → queued; any other status stays."""
        ...

    async def cancel(self, project: str, batch_id: str) -> Batch | None:
        """queued, running or paused → cancelled; any other status stays."""
        ...

    async def erase(self, project: str, batch_id: str) -> bool:
        """Removes the batch with all texts and results: whether there was one.

        The cache keys of its calls are owed from then on: until `settle` they are remembered, whatever dies in between.
        """
        ...

    async def owe(self, keys: Sequence[str]) -> None:
        """Remembers cache keys that are to be removed, until `settle`."""
        ...

    async def owed(self, limit: int) -> tuple[str, ...]:
        """Cache keys of erased batches that nobody has settled yet."""
        ...

    async def settle(self, keys: Sequence[str]) -> None:
        """These keys are gone from the cache."""
        ...

    # Working. `owner` is one worker process; a lease is good until its end, unless it is renewed.

    async def claim(self, job: Job, owner: str, lease_seconds: float, begun: int = 0) -> Work | None:
        """Leases the chunk; None where it is done, leased by another, its batch is not to be worked on, or the batch's
        deadline has come.

        A lease that had run out while another held it marks the chunk as suspect, and what its owner may have begun is
        counted as spent. `begun` is how many candidates the new owner may begin before it tells more (`commit`). The
        first claim starts the batch, and its running time.
        Where a budget forbids even one candidate and no other chunk of the batch is leased, the batch pauses with the
        reason `budget-exhausted`. Where the batch's key has spent its limit of today (UTC), nothing more of the batch
        that may cost something is given out, and it pauses with the reason `cost-limit-reached`.
        """
        ...

    async def renew(self, owner: str, jobs: Sequence[Job], lease_seconds: float) -> Committed: ...

    async def commit(
        self,
        owner: str,
        finished: Sequence[Finished],
        closed: Sequence[Job],
        begun: Mapping[Job, int] = NOTHING_BEGUN,
    ) -> Committed:
        """Keeps results and closes chunks, in one transaction with the batches' counts, usage, signatures and charges.

        `begun` is for how many candidates of a chunk the owner has made calls, or may make them from here on, and whose
        results are not kept: where the owner dies so many are counted as spent, at what a candidate is expected to
        take. Of a chunk that is closed they were begun in vain, and are counted at once.

        A closed chunk whose candidates all have a result is done; one with candidates left goes back. When the last
        chunk of a batch is done the batch is completed, or, where an end is still to be made (`relevance.baseline:
        batch`), the job `FINISH` is ready.
        """
        ...

    async def set_aside(self, job: Job, owner: str) -> None:
        """All that is left of the owner's chunk waits: the batch may have another chunk under way in its place."""
        ...

    async def find_halted(self, jobs: Sequence[Job]) -> Committed:
        """Those of the jobs that are not to be worked on any more: `lost` where the batch is erased, `stopped` where it
        is paused or cancelled, `cancelled` too. Cheap enough to be asked twice a second."""
        ...

    async def find_scored(self, batch_id: str) -> Candidate | None:
        """A candidate of the batch that the judge rated, whose texts are still there; None where there is none."""
        ...

    async def expire(self) -> list[Job]:
        """Ends batches whose running time is over: what has no result fails with `EXPIRED`. Returns the jobs that
        follow, to be put on the queue. Many may do so at once."""
        ...

    async def mark(self, job: Job, owner: str, position: int) -> int:
        """Counts a try of a candidate of a suspect chunk, durably, before it is begun: how many there were before."""
        ...

    async def next_jobs(self, batch_id: str, window: int) -> list[Job]:
        """Chunks to be queued so that at most `window` of the batch are queued or leased, each marked as queued."""
        ...

    async def sweep(self, window: int, patience_seconds: float) -> list[Job]:
        """Jobs to put on the queue, once for each: of batches with fewer than `window` chunks under way, of leases
        that have run out, of chunks queued longer than `patience_seconds` ago and never claimed (a queue that lost
        them), and of batches whose end is to be made. Also discards what was begun an hour ago and never accepted."""
        ...

    # The provider's own batch mode

    async def candidates(self, batch_id: str, *, after: int, limit: int) -> list[tuple[Entry, Candidate]]:
        """Candidates with a position greater than `after`, in order, whether they have a result or not."""
        ...

    async def unhold(self, batch_id: str) -> list[Job]:
        """A batch of the mode `provider-batch` is accepted as held: none of its chunks is given out, and `sweep` gives
        the job `COLLECT` in their place. This ends that, and returns the first chunks to be queued."""
        ...

    # The end of a batch whose similarity baseline is its own mean

    async def rewrite(self, batch_id: str, changed: Sequence[tuple[int, Evaluation]]) -> None:
        """Puts evaluations in the place of those at these positions, signatures and scores with them."""
        ...

    async def complete(self, batch_id: str) -> None: ...

    async def project_of(self, batch_id: str) -> str | None: ...

    async def backlog(self) -> tuple[int, float]:
        """Candidates without a result in batches that are queued or running, and the age in seconds of the oldest, as
        `age_of_oldest` tells it."""
        ...

    async def newest_pairs(self, project: str, wanted: BatchFilter, *, limit: int) -> Sequence[tuple[Batch, Batch]]:
        """Of each name, system (`metadata.system`) and rubric the newest completed batch, where there is one before it,
        with that; that of the newest batch first. Among the project's `MOST_PAIRED` newest completed batches."""
        ...

    async def waiting(self, project: str) -> tuple[int, int]:
        """Candidates without a result in batches that are queued or running: of all projects, and of this one."""
        ...

    async def paused(self) -> Mapping[str, int]:
        """How many batches are paused, by `pause_reason`; of all projects together."""
        ...

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, wanted: BatchFilter, *, after: tuple[datetime, str] | None, limit: int
    ) -> list[Batch]:
        """Newest first; `after` is (created_at, id) of the last one of the page before."""
        ...


Handler = Callable[[Job], Awaitable[None]]


class JobQueue(Protocol):
    """Tells workers that there is work. It may lose everything at any time, and may tell twice: the store decides.

    Where the queue itself is out of reach `put` raises QueueUnavailable; a sweep will put it again.
    """

    async def put(self, jobs: Sequence[Job]) -> None: ...

    async def work(self, handler: Handler, concurrency: int) -> None:
        """Runs `handler` for each job, `concurrency` at a time, until cancelled. Jobs of different batches come in the
        order in which they were put. An error of the handler is logged and ends nothing."""
        ...

    async def depth(self) -> int:
        """Jobs that wait."""
        ...

    async def close(self) -> None: ...


def age_of_oldest(now: datetime, live: datetime | None, given: datetime | None) -> float:
    """Seconds since the oldest batch was taken: `live` of those that workers score, `given` of those that the provider
    has been given. These have a day, and count from its end on. 0 where there is none."""
    due = [live] if live else []
    if given:
        due.append(given + PROVIDER_TIME)
    return max(0.0, (now - min(due)).total_seconds()) if due else 0.0


BOUGHT_SHARE = 4
"""In the provider's own mode a candidate is stored with two tries at full price; that mode takes half of one."""


def reckon_candidate(mode: str, unit_cost_usd: float | None, dearest_usd: float) -> float:
    """What a candidate's budget is reckoned with in USD: `unit_cost_usd` as it was expected, or as much as any took.

    In the provider's mode what one costs there: mostly it is paid for by now, and a batch that was sent within its
    budget is not to stop before it is scored. What is asked live all the same costs more, and counts once it is done.
    """
    if mode == "provider-batch":
        return (unit_cost_usd or 0.0) / BOUGHT_SHARE
    return max(unit_cost_usd or 0.0, dearest_usd)


class QueueUnavailable(Exception):
    """The queue cannot be reached; in one sentence. No caller hears of it: `code` is for the log."""

    code = "queue-unavailable"

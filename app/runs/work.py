"""A batch as work: chunks that are leased to workers, and the results that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

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

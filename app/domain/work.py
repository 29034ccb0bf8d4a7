"""A batch as work: chunks that are leased to workers, and the results that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from app.domain.batch import BatchOptions, Candidate, Entry, Failure
from app.domain.evaluation import Record, Usage

CHUNK_SIZE = 40
"""Candidates per job: few, so that batches take turns and that little is done twice when a worker dies."""

PROVIDER_TIME = timedelta(hours=24)
"""What a provider promises for its own batch mode."""

FINISH = -1
"""The chunk number of the batch's end: all chunks are done, and something is still to be made of them together."""

COLLECT = -2
"""The chunk number of a step in the provider's own batch mode: calls are to be sent, polled, or fetched."""

MOST_SET_ASIDE = 8
"""Chunks of a batch that make room for others because all that is left of them waits."""


@dataclass(frozen=True)
class ChunkJob:
    """A request to work on a chunk. It holds no text; its receiver asks the store what is still to be done.

    `chunk` counts from 0; `FINISH` and `COLLECT` stand for work on the batch as a whole.
    """

    batch: str
    chunk: int


NOTHING_BEGUN: Mapping[ChunkJob, int] = MappingProxyType({})


@dataclass(frozen=True)
class Work:
    """A leased chunk: its candidates without a result, in order.

    `suspect` is True where a worker died while it held this chunk: then each candidate is to be marked before it is
    begun (`BatchStore.mark`); `tries` says, by position, how often a candidate was marked before, where it was.
    `unit_usd` is what one candidate may cost under the batch's budget, None without one; `affordable` is how many of
    `todo`, from the first, the budget has been reserved for (all of them without a budget).
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
    """A candidate's result on its way to the store: a record, or why there is none.

    `calls` are the call cache's keys of every outside call that it rests on, so that an erasure finds them.
    """

    job: ChunkJob
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

    lost: frozenset[ChunkJob] = frozenset()
    stopped: frozenset[ChunkJob] = frozenset()
    ready: Sequence[ChunkJob] = ()
    erased: frozenset[ChunkJob] = frozenset()
    cancelled: frozenset[ChunkJob] = frozenset()


BOUGHT_SHARE = 4
"""In the provider's own mode a candidate is stored with two tries at full price; that mode takes half of one."""


def price_candidate(mode: str, unit_cost_usd: float | None, dearest_usd: float) -> float:
    """What a budget sets aside per candidate in USD: `unit_cost_usd` as it was expected, or `dearest_usd`, what the
    dearest one took.

    In the provider's mode it is what a candidate costs there: in most cases that is paid for by now, and a batch that
    was sent within its budget is not to stop before it is scored. What is asked live all the same costs more, and
    counts once it is done.
    """
    if mode == "provider-batch":
        return (unit_cost_usd or 0.0) / BOUGHT_SHARE
    return max(unit_cost_usd or 0.0, dearest_usd)

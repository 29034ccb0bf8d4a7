"""Scores rows side by side in one event loop: which errors are waited out, which fail a row, and which end the run."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, Protocol

from saiten.core.messages import Message
from saiten_server.core.batch import BatchOptions, Candidate, any_request_of
from saiten_server.core.errors import CostLimitReached, PriceUnknown, SaitenError
from saiten_server.core.evaluation import Usage
from saiten_server.core.rubric import Rubric
from saiten_server.offline.frame_files import ScoredRow
from saiten_server.offline.rows import Row
from saiten_server.providers.ports import RequestScope
from saiten_server.runs.attempt import Pause, RefusalCounter, RetryPolicy, Trial, attempt, make_example, probe_with
from saiten_server.runs.chunk import REFUSED_CODE, find_refusal
from saiten_server.runs.commits import LeasedChunk
from saiten_server.runs.work import ChunkJob, Work
from saiten_server.scoring.admission import quote
from saiten_server.scoring.evaluate import ScoringContext

RUN = "offline"
"""What stands for the batch where a batch is counted by its id."""


class Budget(Protocol):
    """The money of a run, that all its processes share. `reserve` takes what a row is expected to cost, and returns
    whether it was there; `settle` gives that back, and takes what the row did cost."""

    async def reserve(self, expected_usd: float) -> bool: ...
    async def settle(self, expected_usd: float, cost_usd: float) -> None: ...


class LocalBudget:
    """Implements `Budget` in memory."""

    def __init__(self, most_usd: float) -> None:
        self._most_usd = most_usd
        self._taken_usd = 0.0
        self._dearest = 1.0  # what a row has cost at most, as a multiple of what it was expected to

    async def reserve(self, expected_usd: float) -> bool:
        needed = expected_usd * self._dearest
        if self._taken_usd + needed > self._most_usd:
            return False
        self._taken_usd += expected_usd
        return True

    async def settle(self, expected_usd: float, cost_usd: float) -> None:
        self._taken_usd += cost_usd - expected_usd
        if expected_usd > 0:
            self._dearest = max(self._dearest, cost_usd / expected_usd)


class Silence(NamedTuple):
    """How long the judge has given no answer while rows wait for one, in how many rounds of rows it failed since, and
    what the last of these met; None where calls have only not returned."""

    seconds: float
    failures: int
    fault: Message | None


class Judging:
    """Scores one row at a time per call of `score`, as many at once as the caller begins. Once a row has met an error
    that every other row would meet, `stopped` is that error, and rows that wait are given up."""

    def __init__(
        self, options: BatchOptions, rubric: Rubric, context: ScoringContext, *, budget: Budget | None = None
    ) -> None:
        self._options = options
        self.context = context
        self._budget = budget
        self._retries = RetryPolicy()
        self._refusals = RefusalCounter()
        self._work = Work(ChunkJob(RUN, 0), "", options, (), suspect=False, affordable=0)
        self._lease = LeasedChunk(self._work.job)
        self._probed: Candidate = make_example(rubric)
        self._begun_at = self._answered_at = time.monotonic()
        self._failures = 0
        self._fault: Message | None = None
        self._waiting = 0
        self.stopped: SaitenError | None = None

    async def score(self, row: Row) -> ScoredRow | None:
        """The row's result; None if the run was stopped before there was one. Raises the error that stops the run."""
        if row.candidate is None:
            return ScoredRow(row.key, row.entry, None, row.failure)
        if self.stopped is not None:
            return None
        async with self._paying(row.candidate) as spent, self._awaiting():
            scope = RequestScope(begun_at=self._begun_at)
            try:
                finished = await attempt(
                    self._work,
                    row.entry,
                    row.candidate,
                    self.context,
                    scope=scope,
                    leased=self._lease,
                    retries=self._retries,
                    probe=partial(self._probe, scope),
                    resting=self._rest,
                )
            except Pause as pause:
                raise self.stop(pause.error) from pause
            finally:
                self._lease.touched.clear()
            if finished is None:
                return None
            spent.append(finished.usage)
            if finished.failure is not None or finished.usage.judge_calls:
                self._note_answer()
            self._judge_refusal(find_refusal(finished))
        if finished.record is not None:
            self._probed = row.candidate
        return ScoredRow(row.key, row.entry, finished.record, finished.failure, finished.usage)

    def stop(self, error: SaitenError) -> SaitenError:
        """Ends the run: no row is begun any more, and none is tried again. Returns the error that ended it first."""
        self._lease.stop()
        self.stopped = self.stopped or error
        return self.stopped

    @property
    def silence(self) -> Silence:
        """Since when the judge is silent. May be asked for from another thread."""
        waited = time.monotonic() - self._answered_at if self._waiting else 0.0
        return Silence(waited, self._failures, self._fault)

    async def close(self) -> None:
        """Ends a probe that is under way."""
        await self._retries.close()

    @asynccontextmanager
    async def _awaiting(self) -> AsyncIterator[None]:
        """Counts a row that waits for the judge: while none does, the judge is not silent."""
        if not self._waiting:
            self._note_answer()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _note_answer(self) -> None:
        """Notes that the judge is there. A reply from the cache says nothing about it."""
        self._answered_at = time.monotonic()
        self._failures, self._fault = 0, None

    @asynccontextmanager
    async def _rest(self, trial: Trial) -> AsyncIterator[None]:
        """Notes a round that failed. A row keeps its place between two rounds: while the judge is out, others would
        only wait as well."""
        self._failures += 1
        self._fault = trial.error.message if trial.error is not None else None
        yield

    def _judge_refusal(self, refusal: Message | None) -> None:
        """Raises the error that stops the run if the judge refuses every row."""
        if refusal is None:
            self._refusals.took(RUN)
        elif self._refusals.refused(RUN):
            error = SaitenError(Message("pause-judge-refuses", fault=refusal))
            error.code = REFUSED_CODE
            raise self.stop(error)

    @asynccontextmanager
    async def _paying(self, candidate: Candidate) -> AsyncIterator[list[Usage]]:
        """Reserves what the candidate may cost; the block adds what it did. Raises CostLimitReached if the budget does
        not allow it, and PriceUnknown."""
        spent: list[Usage] = []
        if self._budget is None:
            yield spent
            return
        expected_usd = quote([any_request_of(self._options, candidate)], self.context).cost_usd
        if expected_usd is None:
            raise self.stop(PriceUnknown(Message("offline-price-unknown")))
        if not await self._budget.reserve(expected_usd):
            raise self.stop(CostLimitReached(Message("offline-budget-reached"), retry_after_seconds=math.inf))
        try:
            yield spent
        finally:
            # A call that was cut off may be billed all the same.
            costs = [one.cost_usd or 0.0 for one in spent] or [expected_usd]
            await asyncio.shield(self._budget.settle(expected_usd, sum(costs)))

    async def _probe(self, scope: RequestScope) -> Usage | None:
        """Asks the judge about a row that it has rated before, or an example of the rubric."""
        own = RequestScope(begun_at=scope.begun_at, bypass_cache=True)
        return await probe_with(self._work, self._probed, self.context, own)

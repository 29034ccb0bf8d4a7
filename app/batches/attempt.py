"""One candidate of a batch, scored whatever happens: what is tried again, what fails, what pauses the batch."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from cachetools import LRUCache

from app.batches.commits import LeasedChunk
from app.domain import errors
from app.domain.batch import INTERNAL, Candidate, Entry, Failure, request_of
from app.domain.errors import SaitenError
from app.domain.evaluation import EvaluationRequest, Record, Usage
from app.domain.work import FinishedCandidate, Work
from app.providers.ports import RequestScope
from app.runtime.log_context import working_on
from app.scoring.evaluate import ScoringContext, evaluate

logger = logging.getLogger("saiten.batches")

Service = Literal["judge", "translator"]

Probe = Callable[[], Awaitable[Usage | None]]
"""Asks a service about a candidate that it has served before: what that took, None where it could not be had."""

LONGEST_WAIT_SECONDS = 8.0
"""Between two rounds of a candidate: work is to be under way again 30 s after an outage at the latest."""

FIRST_WAIT_SECONDS = 0.5

MOST_STRIKES = 3
"""Rounds that a candidate may fail while others are served. A round is already several tries."""


@dataclass(eq=False)
class Trial:
    """One candidate's rounds so far. `strikes` counts the failed ones that count against it: the service had served
    another candidate since the round before, or since it was begun. `seen` is how many had been served by then."""

    rounds: int = 0
    strikes: int = 0
    seen: Counter[Service] = field(default_factory=Counter)


class RetryPolicy:
    """Decides by what one worker sees. While a service serves no candidate, failures do not count: that is an outage.

    Where nothing but candidates in trouble is left, even a sound service would serve none of them. Then a candidate
    that was scored before is asked about again, one at a time; what these probes took is billed to its batch.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._sleep = sleep
        self._spread = spread
        self._served: Counter[Service] = Counter()
        self._untroubled: set[Trial] = set()
        self._probing: asyncio.Task[None] | None = None
        self._bills: dict[str, Usage] = {}

    def served(self, usage: Usage) -> None:
        """A candidate was served, at this expense. What came from the cache says nothing of a service."""
        self._served["judge"] += usage.judge_calls > 0
        self._served["translator"] += usage.translated_characters > 0

    @contextmanager
    def trying(self) -> Iterator[Trial]:
        """A candidate that has not been tried yet, and is in hand inside."""
        trial = Trial(seen=self._served.copy())
        self._untroubled.add(trial)
        try:
            yield trial
        finally:
            self._untroubled.discard(trial)

    def count(self, trial: Trial, service: Service | None, batch_id: str, probe: Probe) -> bool:
        """A round failed at the service; None where it was neither's doing. Whether there is to be another round."""
        self._untroubled.discard(trial)
        trial.rounds += 1
        if service is not None:
            trial.strikes += self._served[service] > trial.seen[service]
        trial.seen = self._served.copy()
        if trial.strikes >= MOST_STRIKES:
            return False
        if service is not None and not self._untroubled and self._probing is None:
            self._probing = asyncio.create_task(self._probe(batch_id, probe))
        return True

    async def wait(self, trial: Trial) -> None:
        """Waits for the next round, exponentially longer with full jitter."""
        most_seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(trial.rounds, 10))
        await self._sleep(self._spread(0, most_seconds))

    def take_bill(self, batch_id: str) -> Usage:
        """What the batch's probes took since the last bill."""
        return self._bills.pop(batch_id, Usage())

    async def close(self) -> None:
        """Ends a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})

    async def _probe(self, batch_id: str, probe: Probe) -> None:
        try:
            usage = await probe()
        except Exception:
            # The candidate's own rounds go on, and meet what there is to be met.
            logger.exception("unexpected error in a probe", extra={"batch_id": batch_id})
            usage = None
        finally:
            self._probing = None
        if usage is not None:
            self.served(usage)
            self._bills[batch_id] = self._bills.get(batch_id, Usage()) + usage


MOST_REFUSED = 8
"""Candidates of a batch refused, and none ever taken: then it is not the candidates."""


MOST_BATCHES = 1000
"""Remembered at a time: far more than are ever under way together."""

TAKEN = 0


class RefusalCounter:
    """Counts refusals by batch until the judge takes one of its candidates. For one worker.

    Of a batch that it has not heard of for long it knows nothing any more; then it counts anew.
    """

    def __init__(self) -> None:
        self._counts: LRUCache[str, int] = LRUCache(MOST_BATCHES)

    def took(self, batch_id: str) -> None:
        """The judge has taken a candidate: it takes this batch's."""
        self._counts[batch_id] = TAKEN

    def refused(self, batch_id: str) -> bool:
        """The judge has refused a candidate; whether the batch is to pause. A pause starts the count anew."""
        known = self._counts.pop(batch_id, None)
        if known == TAKEN:
            self._counts[batch_id] = TAKEN
            return False
        count = (known or 0) + 1
        if count >= MOST_REFUSED:
            return True
        self._counts[batch_id] = count
        return False


PAUSING = (
    errors.JudgeQuotaExhausted,
    errors.JudgeUnauthorized,
    errors.TranslatorQuotaExhausted,
    errors.TranslatorUnauthorized,
    errors.TranslatorNotConfigured,
    errors.UnknownRubric,
    errors.RubricNotSupported,
)
"""Every other candidate would fare the same until somebody mends it. The last three: this worker is set up otherwise
than the service that took the batch."""

WAITING = (errors.JudgeUnavailable, errors.TranslatorUnavailable, errors.StoreError)
"""Passes by itself."""


class Pause(Exception):
    """The batch is to pause. `error` says why."""

    def __init__(self, error: SaitenError) -> None:
        super().__init__(error.code)
        self.error = error


SERVICES: Mapping[type[SaitenError], Service | None] = {
    errors.JudgeUnavailable: "judge",
    errors.TranslatorUnavailable: "translator",
}


async def attempt(
    work: Work,
    entry: Entry,
    candidate: Candidate,
    tools: ScoringContext,
    *,
    scope: RequestScope,
    leased: LeasedChunk,
    retries: RetryPolicy,
    probe: Probe,
    resting: Callable[[Trial], AbstractAsyncContextManager[None]],
) -> FinishedCandidate | None:
    """The candidate's result; None where its chunk is stopped before there is one. Waits as long as the trouble is not
    its own, each time inside `resting`; raises Pause where it is everybody's.

    The leased chunk is given the cache keys that `scope` collects, however it ends. `probe` asks about a scored
    candidate of the batch.
    """
    ids = {"batch_id": work.job.batch, "position": entry.position}
    with working_on(**ids), retries.trying() as trial:
        try:
            request = request_of(work.options, candidate)
            outcome = await try_once(request, tools, scope, retries)
            while isinstance(outcome, SaitenError):
                if not retries.count(trial, service_of(outcome), work.job.batch, probe):
                    outcome = Failure(code=outcome.code, detail=outcome.detail)
                    break
                async with resting(trial):
                    await retries.wait(trial)
                if leased.stopped:
                    return None
                outcome = await try_once(request, tools, scope, retries)
        finally:
            leased.touched.update(scope.keys)
    bill = retries.take_bill(work.job.batch)
    if isinstance(outcome, Failure):
        return FinishedCandidate(work.job, entry, None, outcome, usage=bill, calls=tuple(scope.keys))
    return FinishedCandidate(work.job, entry, outcome, usage=outcome.evaluation.usage + bill, calls=tuple(scope.keys))


async def try_once(
    request: EvaluationRequest, tools: ScoringContext, scope: RequestScope, retries: RetryPolicy
) -> Record | Failure | SaitenError:
    """One round: a record, a reason why there will be none, or an error that passes by itself. Raises Pause."""
    try:
        record = await evaluate(request, tools, scope)
    except PAUSING as error:
        raise Pause(error) from error
    except WAITING as error:
        logger.info("a candidate waits: %s", error.loggable, extra={"code": error.code})
        return error
    except SaitenError as error:
        return Failure(code=error.code, detail=error.detail)
    except Exception:
        # The edge of a batch, as `RequestFrame` is that of HTTP: a defect costs this candidate, not the worker.
        logger.exception("unexpected error", extra={"code": INTERNAL.code})
        return INTERNAL
    retries.served(record.evaluation.usage)
    return record


def service_of(error: SaitenError) -> Service | None:
    """Whose failure it is: None where it is the store's, which fails no candidate."""
    return next((service for kind, service in SERVICES.items() if isinstance(error, kind)), None)


async def probe_with(work: Work, candidate: Candidate, tools: ScoringContext, scope: RequestScope) -> Usage | None:
    """What it took to judge a candidate anew; None where the judge could not be had. The result is thrown away.
    `scope` bypasses the call cache."""
    request = request_of(work.options, candidate).model_copy(update={"relevance": None})
    try:
        record = await evaluate(request, tools, scope)
    except SaitenError as error:
        logger.info("a probe was not served: %s", error.loggable, extra={"code": error.code})
        return None
    return record.evaluation.usage

"""Scoring one candidate of a batch: which errors are retried, which fail the candidate, and which pause the batch."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from cachetools import LRUCache

from saiten_server.core import errors
from saiten_server.core.batch import (
    APART,
    INTERNAL,
    AnyRequest,
    BatchOptions,
    Candidate,
    Entry,
    Failure,
    any_request_of,
    describe_failure,
    have_one_goal,
    parts_of,
    plan_of,
)
from saiten_server.core.conversation import Conversation, Turn
from saiten_server.core.dialogue import Utterance
from saiten_server.core.errors import SaitenError
from saiten_server.core.evaluation import ConversationRequest, PreferenceRequest, Record, Usage
from saiten_server.core.rubric import Rubric
from saiten_server.platform.telemetry import working_on
from saiten_server.providers.ports import RequestScope
from saiten_server.runs.commits import LeasedChunk
from saiten_server.runs.work import FinishedCandidate, Work
from saiten_server.scoring.conversation import evaluate_conversation
from saiten_server.scoring.evaluate import ScoringContext, evaluate
from saiten_server.scoring.preferring import prefer

logger = logging.getLogger("saiten.batches")

Service = Literal["judge", "translator"]

Probe = Callable[[], Awaitable[Usage | None]]
"""Asks a service about a candidate that it can serve. Returns what that cost; None if the service failed."""

LONGEST_WAIT_SECONDS = 8.0
"""Between two rounds of a candidate. Work has to be under way again within 30 s of an outage's end."""

FIRST_WAIT_SECONDS = 0.5

MAX_FAILED_ROUNDS = 3
"""Rounds that a candidate may fail while others are served. A round already consists of several tries."""


@dataclass(eq=False)
class Trial:
    """One candidate's rounds so far. `failed_rounds` counts the failures that count against the candidate: those before
    which the service had served another candidate since the previous round, or since the candidate was begun. `seen` is
    how many candidates each service had served by then, and `error` what the last round met."""

    rounds: int = 0
    failed_rounds: int = 0
    seen: Counter[Service] = field(default_factory=Counter)
    error: SaitenError | None = None


class RetryPolicy:
    """Decides, from what one worker sees, whether a failed candidate is tried again.

    While a service serves no candidate at all, there is an outage, and failures do not count. When only candidates
    with failures are left, an outage cannot be told from candidates that always fail. Then the service is asked about a
    candidate that was scored before, or an example of the rubric, one at a time; the batch pays for these probes.
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
        """Notes that a candidate was served. A reply from the cache (no usage) says nothing about a service."""
        self._served["judge"] += usage.judge_calls > 0
        self._served["translator"] += usage.translated_characters > 0

    @contextmanager
    def trying(self) -> Iterator[Trial]:
        """Counts a new candidate as in progress while the context lasts."""
        trial = Trial(seen=self._served.copy())
        self._untroubled.add(trial)
        try:
            yield trial
        finally:
            self._untroubled.discard(trial)

    def count(self, trial: Trial, service: Service | None, batch_id: str, probe: Probe) -> bool:
        """Counts a round that failed at the service, or at neither (None). Returns whether to try another round."""
        self._untroubled.discard(trial)
        trial.rounds += 1
        if service is not None:
            trial.failed_rounds += self._served[service] > trial.seen[service]
        trial.seen = self._served.copy()
        if trial.failed_rounds >= MAX_FAILED_ROUNDS:
            return False
        if service is not None and not self._untroubled and self._probing is None:
            self._probing = asyncio.create_task(self._probe(batch_id, probe))
        return True

    async def wait(self, trial: Trial) -> None:
        """Waits before the next round: exponential backoff with full jitter."""
        most_seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(trial.rounds, 10))
        await self._sleep(self._spread(0, most_seconds))

    def take_bill(self, batch_id: str) -> Usage:
        """What the batch's probes have cost since the last call."""
        return self._bills.pop(batch_id, Usage())

    async def close(self) -> None:
        """Cancels a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})

    async def _probe(self, batch_id: str, probe: Probe) -> None:
        try:
            usage = await probe()
        except Exception:
            # The candidate's own rounds continue and meet the same failure, if it persists.
            logger.exception("unexpected error in a probe", extra={"batch_id": batch_id})
            usage = None
        finally:
            self._probing = None
        if usage is not None:
            self.served(usage)
            self._bills[batch_id] = self._bills.get(batch_id, Usage()) + usage


MOST_REFUSED = 8  # Refused candidates of a batch of which none was ever accepted. Then the candidates are not at fault.
REMEMBERED_BATCHES = 1000  # batches remembered at a time: far more than are ever under way together
TAKEN = 0


class RefusalCounter:
    """Counts one worker's refused candidates per batch until the judge accepts one. A batch that was not seen for a
    long time is forgotten, and its count starts again."""

    def __init__(self) -> None:
        self._counts: LRUCache[str, int] = LRUCache(REMEMBERED_BATCHES)

    def took(self, batch_id: str) -> None:
        """Notes that the judge accepted a candidate of the batch."""
        self._counts[batch_id] = TAKEN

    def refused(self, batch_id: str) -> bool:
        """Counts a refusal; returns whether the batch is to pause. A pause resets the count."""
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
    errors.SettingsInvalid,
    errors.UnknownRubric,
    errors.RubricNotSupported,
)
"""Errors that every other candidate would meet too, until a person acts. The last four mean that this worker is
configured differently from the service that accepted the batch."""

TEMPORARY_ERRORS = (errors.JudgeUnavailable, errors.TranslatorUnavailable, errors.StoreError)  # temporary errors


class Pause(Exception):
    """The batch is to pause because of `error`."""

    def __init__(self, error: SaitenError) -> None:
        super().__init__(error.code)
        self.error = error


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
    """The candidate's result; None if its chunk is stopped before there is one.

    Waits, inside `resting`, as long as the failure is temporary and not the candidate's own. Raises Pause where every
    candidate would fail. The cache keys that `scope` collects are added to the leased chunk, however this ends. `probe`
    asks about a candidate that can be scored.
    """
    ids = {"batch_id": work.job.batch, "position": entry.position}
    with working_on(**ids), retries.trying() as trial:
        try:
            request = any_request_of(work.options, candidate)
            if have_one_goal(candidate.shown):
                outcome = await try_once(request, tools, scope, retries)
            else:
                outcome = APART
            while isinstance(outcome, SaitenError):
                trial.error = outcome
                if not retries.count(trial, service_of(outcome), work.job.batch, probe):
                    outcome = describe_failure(outcome)
                    break
                async with resting(trial):
                    await retries.wait(trial)
                if leased.stopped:
                    return None
                outcome = await try_once(request, tools, scope, retries)
        finally:
            leased.touched.update(scope.keys)
    if isinstance(outcome, Record):
        outcome = name_runs(outcome, work.options, candidate)
    bill = retries.take_bill(work.job.batch)
    if isinstance(outcome, Failure):
        return FinishedCandidate(work.job, entry, None, outcome, usage=bill, calls=tuple(scope.keys))
    return FinishedCandidate(work.job, entry, outcome, usage=outcome.evaluation.usage + bill, calls=tuple(scope.keys))


def name_runs(record: Record, options: BatchOptions, candidate: Candidate) -> Record:
    """The record; of a pair with the runs that the two are of."""
    plan, places, pair = plan_of(options), candidate.pair, record.evaluation.pair
    if plan is None or places is None or pair is None:
        return record
    first, second = (
        side.model_copy(update={"run": plan.runs[run], "system": plan.systems[run]})
        for side, run in zip((pair.first, pair.second), places.runs, strict=True)
    )
    named = pair.model_copy(update={"first": first, "second": second, "runs": places.runs})
    return record.model_copy(update={"evaluation": record.evaluation.model_copy(update={"pair": named})})


async def rate_request(request: AnyRequest, tools: ScoringContext, scope: RequestScope) -> Record:
    """The record of a response, of a conversation, or of two that are compared. Raises as `evaluate` does."""
    if isinstance(request, PreferenceRequest):
        return await prefer(request, tools, scope)
    if isinstance(request, ConversationRequest):
        record, _ = await evaluate_conversation(request, tools, scope)
        return record
    return await evaluate(request, tools, scope)


async def try_once(
    request: AnyRequest, tools: ScoringContext, scope: RequestScope, retries: RetryPolicy
) -> Record | Failure | SaitenError:
    """One round: a record, a permanent failure, or a temporary error. Raises Pause."""
    try:
        record = await rate_request(request, tools, scope)
    except PAUSING as error:
        raise Pause(error) from error
    except TEMPORARY_ERRORS as error:
        logger.info("a candidate waits: %s", error.loggable, extra={"code": error.code})
        return error
    except SaitenError as error:
        return describe_failure(error)
    except Exception:
        # The outermost handler of a candidate, as `RequestFrame` is of a request: a defect fails this candidate only.
        logger.exception("unexpected error", extra={"code": INTERNAL.code})
        return INTERNAL
    retries.served(record.evaluation.usage)
    return record


def service_of(error: SaitenError) -> Service | None:
    """The service that failed; None for the store, whose failures count against no candidate."""
    if isinstance(error, errors.JudgeUnavailable):
        return "judge"
    return "translator" if isinstance(error, errors.TranslatorUnavailable) else None


def make_example(rubric: Rubric) -> Candidate:
    """A dialogue to probe with where no candidate was scored: the rubric's first example, else its title."""
    language = rubric.source_language
    if rubric.unit == "conversation":
        turn = Turn.model_construct(speaker="B", text=rubric.title[language], role="system")
        return Candidate.model_construct(**parts_of(Conversation.model_construct(turns=(turn,))))
    levels = (level for aspect in rubric.aspects for level in aspect.levels)
    example = next((level.example[language] for level in levels if level.example), None)
    if example is None:
        title = rubric.title[language]
        return Candidate(context=(Utterance(speaker="A", text=title),), response=title)
    context = tuple(Utterance(speaker=one.speaker, text=one.text) for one in example.context)
    return Candidate(context=context, response=example.response)


async def probe_with(work: Work, candidate: Candidate, tools: ScoringContext, scope: RequestScope) -> Usage | None:
    """What it cost to judge the candidate; None if the judge failed. The result is discarded. `scope` bypasses the
    call cache."""
    options = work.options.model_copy(update={"relevance": None})
    try:
        record = await rate_request(any_request_of(options, candidate), tools, scope)
    except SaitenError as error:
        logger.info("a probe was not served: %s", error.loggable, extra={"code": error.code})
        return None
    return record.evaluation.usage

"""One candidate of a batch, scored whatever happens: what waits, what fails, and what pauses the whole batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from app.batch_ports import Finished, Work
from app.batches.ledger import Hold
from app.batches.retries import Probe, RetryPolicy, Service, Trial
from app.domain import errors
from app.domain.batch import INTERNAL, Candidate, Entry, Failure, request_of
from app.domain.errors import SaitenError
from app.domain.evaluation import EvaluationRequest, Record, Usage
from app.log_context import working_on
from app.pipeline import Instruments, evaluate
from app.providers.ports import RequestScope

logger = logging.getLogger("saiten.batches")

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
    tools: Instruments,
    *,
    scope: RequestScope,
    hold: Hold,
    retries: RetryPolicy,
    probe: Probe,
    resting: Callable[[Trial], AbstractAsyncContextManager[None]],
) -> Finished | None:
    """The candidate's result; None where its chunk is stopped before there is one. Waits as long as the trouble is not
    its own, each time inside `resting`; raises Pause where it is everybody's.

    The hold is given the cache keys that `scope` collects, however it ends. `probe` asks about a scored candidate of
    the batch.
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
                if hold.stopped:
                    return None
                outcome = await try_once(request, tools, scope, retries)
        finally:
            hold.touched.update(scope.keys)
    bill = retries.take_bill(work.job.batch)
    if isinstance(outcome, Failure):
        return Finished(work.job, entry, None, outcome, usage=bill, calls=tuple(scope.keys))
    return Finished(work.job, entry, outcome, usage=outcome.evaluation.usage + bill, calls=tuple(scope.keys))


async def try_once(
    request: EvaluationRequest, tools: Instruments, scope: RequestScope, retries: RetryPolicy
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


async def probe_with(work: Work, candidate: Candidate, tools: Instruments, scope: RequestScope) -> Usage | None:
    """What it took to judge a candidate anew; None where the judge could not be had. The result is thrown away.
    `scope` bypasses the call cache."""
    request = request_of(work.options, candidate).model_copy(update={"relevance": None})
    try:
        record = await evaluate(request, tools, scope)
    except SaitenError as error:
        logger.info("a probe was not served: %s", error.loggable, extra={"code": error.code})
        return None
    return record.evaluation.usage

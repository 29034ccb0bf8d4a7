"""One candidate of a batch, scored whatever happens: what waits, what fails, and what pauses the whole batch."""

from __future__ import annotations

import logging

from app.batch_ports import Finished, Work
from app.batches.patience import Patience
from app.call_cache import collect_keys
from app.domain import errors
from app.domain.batch import INTERNAL, Candidate, Entry, Failure, request_of
from app.domain.errors import SaitenError
from app.domain.evaluation import Record
from app.log_context import working_on
from app.pipeline import Instruments, evaluate

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


async def attempt(
    work: Work, entry: Entry, candidate: Candidate, tools: Instruments, *, patience: Patience, touched: set[str]
) -> Finished:
    """The candidate's result. Waits as long as the trouble is not its own; raises Pause where it is everybody's.

    `touched` is given the cache keys of its calls, however it ends.
    """
    ids = {"batch_id": work.job.batch, "position": entry.position}
    with working_on(**ids), collect_keys() as keys:
        try:
            outcome = await insist(work, candidate, tools, patience)
        finally:
            touched.update(keys)
    if isinstance(outcome, Failure):
        return Finished(work.job, entry, None, outcome, calls=tuple(keys))
    return Finished(work.job, entry, outcome, usage=outcome.evaluation.usage, calls=tuple(keys))


async def insist(work: Work, candidate: Candidate, tools: Instruments, patience: Patience) -> Record | Failure:
    """Evaluates until there is a record, or a reason why there will be none. Raises Pause."""
    request, trial = request_of(work.options, candidate), patience.begin()
    while True:
        try:
            record = await evaluate(request, tools)
        except PAUSING as error:
            raise Pause(error) from error
        except WAITING as error:
            logger.info("a candidate waits: %s", error.loggable, extra={"code": error.code})
            if not await patience.wait(trial):
                return Failure(code=error.code, detail=error.detail)
        except SaitenError as error:
            return Failure(code=error.code, detail=error.detail)
        except Exception:
            # The edge of a batch, as `RequestFrame` is that of HTTP: a defect costs this candidate, not the worker.
            logger.exception("unexpected error", extra={"code": INTERNAL.code})
            return INTERNAL
        else:
            patience.succeeded()
            return record

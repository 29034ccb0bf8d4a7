"""Examining two runs behind a page: whether it can be done at all, and its result once it is reckoned."""

from __future__ import annotations

from typing import Any

from app.bootstrap import Service
from app.domain.batch import Batch
from app.domain.rubric import Rubric
from app.meta.computations import PATIENCE_SECONDS, Pending
from app.meta.examination import Examination
from app.web.dashboard.run_values import find_rubric
from app.web.dashboard.run_view import ENDED

Both = tuple[Batch, Batch]
"""Baseline and candidate."""


def find_obstacle(service: Service, both: Both) -> dict[str, Any] | None:
    """Why there is nothing to compare, as a state of the page; None where there is."""
    baseline, candidate = both
    if baseline.id == candidate.id:
        return {"state": "same"}
    if baseline.rubric != candidate.rubric:
        return {"state": "rubrics", "rubrics": [find_rubric(service, batch.rubric_name) for batch in both]}
    open_ones = [batch for batch in both if batch.status not in ENDED]
    if open_ones:
        return {"state": "open", "waiting": open_ones}
    empty = [batch for batch in both if not batch.counts.scored + batch.counts.partial]
    return {"state": "nothing", "empty": empty} if empty else None


async def examine(
    service: Service,
    project: str,
    both: Both,
    rubric: Rubric,
    *,
    measure: str | None = None,
    mismatch: bool = False,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Examination | Pending:
    """The comparison, once it is reckoned. Raises SignatureMismatch, and UnknownAspect for the measure."""
    key = ("examination", *map(state_of, both), rubric.digest, measure, mismatch)
    return await service.computations.get(
        project,
        key,
        lambda: service.examiner.examine(
            project, both[0].id, both[1].id, allow_signature_mismatch=mismatch, measure=measure
        ),
        patience_seconds=patience_seconds,
    )


def state_of(batch: Batch) -> tuple[object, ...]:
    """What changes whenever the run's results do."""
    counts = batch.counts
    return (
        batch.id,
        batch.status,
        batch.finished_at,
        counts.total,
        counts.scored,
        counts.partial,
        counts.failed,
        counts.expired,
    )

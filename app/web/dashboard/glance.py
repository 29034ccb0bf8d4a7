"""At one glance: whether the newest builds got better or worse than the ones before them, and in what."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.bootstrap import Service
from app.domain.batch import Batch, BatchFilter
from app.domain.errors import SaitenError, SignatureMismatch
from app.domain.rubric import Rubric
from app.domain.summary import Spread, Summary
from app.meta.computations import Pending
from app.web.dashboard.compare_view import list_names, make_tables
from app.web.dashboard.examining import examine, find_obstacle
from app.web.dashboard.run_values import find_rubric
from app.web.dashboard.speech import Speech

MOST = 6
"""Comparisons that are reckoned without being asked for."""

MOST_LINES = 50
"""Names and systems among which the largest falls are looked for: those with the newest runs."""

LARGEST = 20_000
"""Candidates of a run for which that is done: of more, it takes seconds."""

PATIENCE_SECONDS = 0.1

State = Literal["told", "computing", "mismatch", "unknown"]


@dataclass(frozen=True)
class Glance:
    """A run against the one before. `worse` and `better` name aspects. With `unknown` the comparison says more."""

    batch: Batch
    before: Batch
    state: State
    worse: str = ""
    better: str = ""


async def glance(service: Service, project: str, speech: Speech, wanted: BatchFilter) -> list[Glance]:
    """How the newest runs stand against the ones before them, as far as it is known by now, those that are worse first.

    Of all names and systems in the store those whose means fell most evidently are compared, `MOST` at most.
    """
    pairs = await service.desk.newest_pairs(project, wanted, limit=MOST_LINES)
    if len(pairs) > MOST:
        batches = {batch.id: batch for pair in pairs for batch in pair}
        summaries = await service.desk.summaries(project, [*batches.values()], intervals=False)
        pairs = sorted(pairs, key=lambda pair: fall_of(service, pair, summaries), reverse=True)
    found = await asyncio.gather(*(look(service, project, speech, *pair) for pair in pairs[:MOST]))
    return sorted(found, key=lambda one: not one.worse)


def fall_of(service: Service, pair: tuple[Batch, Batch], summaries: Mapping[str, Summary]) -> float:
    """How evidently the means of some aspect fell: the largest fall in standard errors, as a first look that takes no
    results to be read. Negative where every mean rose."""
    batch, before = pair
    rubric, now, then = find_rubric(service, batch.rubric), summaries.get(batch.id), summaries.get(before.id)
    if rubric is None or now is None or then is None:
        return -math.inf
    falls = [
        fall_between(then.aspects[aspect.id], now.aspects[aspect.id], aspect.best)
        for aspect in rubric.aspects
        if aspect.id in now.aspects and aspect.id in then.aspects
    ]
    return max(falls, default=-math.inf)


def fall_between(then: Spread, now: Spread, best: int | None) -> float:
    """How far the mean fell, or moved away from the best level, in standard errors of the difference."""
    if then.mean is None or now.mean is None:
        return -math.inf
    fall = then.mean - now.mean if best is None else abs(now.mean - best) - abs(then.mean - best)
    error = math.sqrt(sum((one.sd or 0.0) ** 2 / one.n for one in (then, now)))
    return fall / error if error else math.copysign(math.inf, fall) if fall else 0.0


async def look(service: Service, project: str, speech: Speech, batch: Batch, before: Batch) -> Glance:
    """One of them."""
    rubric = find_rubric(service, batch.rubric_name)
    large = max(batch.counts.total, before.counts.total) > LARGEST
    if rubric is None or large or find_obstacle(service, (before, batch)) is not None:
        return Glance(batch, before, "unknown")
    return await tell(service, project, speech, rubric=rubric, batch=batch, before=before)


async def tell(
    service: Service, project: str, speech: Speech, *, rubric: Rubric, batch: Batch, before: Batch
) -> Glance:
    """The verdicts on the aspects."""
    try:
        found = await examine(service, project, (before, batch), rubric, patience_seconds=PATIENCE_SECONDS)
    except SignatureMismatch:
        return Glance(batch, before, "mismatch")
    except SaitenError:
        return Glance(batch, before, "unknown")  # the comparison's own page says what is wrong
    if isinstance(found, Pending):
        return Glance(batch, before, "computing")
    rows = make_tables(found.comparison, rubric, speech).aspects
    return Glance(batch, before, "told", list_names(rows, "worse", speech), list_names(rows, "better", speech))

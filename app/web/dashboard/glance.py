"""At one glance: whether the newest builds got better or worse than the ones before them, and in what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.bootstrap import Service
from app.domain.batch import Batch
from app.domain.errors import SaitenError, SignatureMismatch
from app.domain.rubric import Rubric
from app.meta.computations import Pending
from app.web.dashboard.compare_view import list_names, make_tables
from app.web.dashboard.examining import examine, find_obstacle
from app.web.dashboard.run_values import find_rubric
from app.web.dashboard.speech import Speech

MOST = 6
"""Comparisons that are reckoned without being asked for."""

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


async def glance(service: Service, project: str, speech: Speech, pairs: Sequence[tuple[Batch, Batch]]) -> list[Glance]:
    """What the first `MOST` of these (run, run before) amount to, as far as it is known by now."""
    return await asyncio.gather(*(look(service, project, speech, *pair) for pair in pairs[:MOST]))


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

"""The runs of `saiten demo`: batches and simulated human ratings, which fill the pages of the dashboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from app.cli.backend import Backend, understand
from app.cli.output import DASH, LEFT
from app.cli.runs import wait
from app.demo_data import DemoRun
from app.domain.batch import Batch
from app.domain.summary import Summary

OVERALL = "overall"


@dataclass(frozen=True)
class ScoredRun:
    """A run as the service has it. `mean` is of the rubric's overall impression, by whatever name it has there."""

    batch: Batch
    measure: str
    mean: float | None


async def post_runs(backend: Backend, runs: Sequence[DemoRun]) -> list[ScoredRun]:
    """Posts every run, waits for all and adds their ratings. Raises SaitenError."""
    posted = [(run, await backend.submit(to_ndjson(run.lines()))) for run in runs]
    return [await finish(backend, run, batch) for run, batch in posted]


async def finish(backend: Backend, run: DemoRun, batch: Batch) -> ScoredRun:
    """Waits for the batch, then keeps its ratings."""
    done = await wait(backend, batch.id, lambda _: None)
    ratings = [rating for rated in run.ratings for rating in rated.by_rater(batch.id)]
    if ratings:
        await backend.client.post_ratings(rating.model_dump(mode="json", exclude_unset=True) for rating in ratings)
    return describe(done, understand(Summary, await backend.client.summary(batch.id)))


def describe(batch: Batch, summary: Summary) -> ScoredRun:
    """The run's mean of `overall`, or of the first composite where the rubric has no such aspect."""
    if OVERALL in summary.aspects:
        return ScoredRun(batch, OVERALL, summary.aspects[OVERALL].mean)
    measure = next(iter(summary.composites), DASH)
    return ScoredRun(batch, measure, summary.composites[measure].mean if measure != DASH else None)


def to_ndjson(lines: Sequence[object]) -> bytes:
    """One JSON value a line."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def table_of_runs(runs: Sequence[ScoredRun]) -> Table:
    """One row a run, in the order of posting."""
    table = Table(title="runs", box=SIMPLE_HEAD, padding=(0, 2, 0, 0), **LEFT)
    for name in ("name", "rubric", "system", "build"):
        table.add_column(name)
    table.add_column("scored", justify="right")
    table.add_column("mean", justify="right")
    for run in runs:
        batch, metadata = run.batch, run.batch.metadata
        mean = DASH if run.mean is None else f"{run.measure} {run.mean:.2f}"
        named = (batch.name or DASH, batch.rubric, metadata.get("system", DASH), metadata.get("build", DASH))
        table.add_row(*named, f"{batch.counts.scored} of {batch.counts.total}", mean)
    return table

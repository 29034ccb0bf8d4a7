"""What the results of a batch amount to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.batch import BatchStatus, Counts
from app.domain.evaluation import Usage
from app.domain.model import Value
from app.domain.reliability import Reliability


class Spread(Value):
    """`n` values: their mean, sample standard deviation (n − 1) and the 95 % t-interval of the mean.

    `mean` is null of nothing, `sd` of fewer than two values; `interval` also where all values are equal, since they
    show nothing of how far the mean may be off. The interval is not cut to the scale.
    """

    n: int
    mean: float | None
    sd: float | None
    interval: Annotated[tuple[float, float], Field(strict=False)] | None


class AspectSummary(Spread):
    """One aspect over all evaluations: each counts with the mean of its samples.

    `histogram` counts ratings by level, every level of the scale present; `blended` is null where nothing is blended.
    """

    unrated: int = Field(description="evaluations without a rating of this aspect")
    unrated_reasons: dict[str, int]
    histogram: dict[str, int]
    blended: Spread | None


class Coverage(Value):
    """How much of what was asked for there is: `rated` of `expected` verdicts, one a candidate and aspect.

    Candidates that failed, and those still without a result, are among the expected; `share` is null where nothing is
    expected.
    """

    rated: int
    expected: int
    share: float | None


class Summary(Value):
    """A batch's results in figures. `failures` counts candidates without a single rating by the failure's code,
    `warnings` results by warning code, `signatures` results by signature where they differ."""

    batch: str
    name: str | None
    status: BatchStatus
    rubric: str
    rubric_version: int | None = None
    counts: Counts
    coverage: Coverage
    aspects: dict[str, AspectSummary]
    composites: dict[str, Spread]
    warnings: dict[str, int]
    failures: dict[str, int]
    usage: Usage
    signature: str | None
    signatures: dict[str, int]
    reliability: Reliability | None = None

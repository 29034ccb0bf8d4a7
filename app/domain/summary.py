"""What the results of a batch amount to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.batch import BatchStatus, Counts
from app.domain.evaluation import Usage
from app.domain.model import Value
from app.domain.reliability import Reliability


class Spread(Value):
    """`n` values: their mean, sample standard deviation (n − 1) and the 95 % interval of the mean.

    `mean` is null of nothing, `sd` of fewer than two values. The interval takes dialogues, not their turns, as
    independent, and never leaves the scale; where there is none, `reason` says why.
    """

    n: int
    mean: float | None
    sd: float | None
    interval: Annotated[tuple[float, float], Field(strict=False)] | None
    clusters: int = Field(
        default=0, description="independent units among the values: dialogues, and responses that stand alone"
    )
    reason: str | None = Field(default=None, description="why there is no interval")


class MeanEstimate(Value):
    """What is known of a mean beside it."""

    clusters: int
    interval: Annotated[tuple[float, float], Field(strict=False)] | None
    reason: str | None


class Intervals(Value):
    """The intervals of a batch's means, as they are kept beside it: by aspect, by composite, and by `NAME.blended`.

    They are of `results` results, of `clusters` independent units; null where no result is a turn of a dialogue.
    """

    results: int
    clusters: int | None
    measures: dict[str, MeanEstimate]


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
    clusters: int | None = Field(
        default=None,
        description="dialogues and responses that stand alone: what counts as independent. Null where no response is "
        "known to be a turn of a dialogue, and each counts as independent of all others",
    )

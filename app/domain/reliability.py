"""Whether a judge's scores were ever held against people's, and how they fared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.model import Value
from app.domain.reports import Interval

NOT_VALIDATED = "not validated against humans"


@dataclass(frozen=True)
class JudgeKey:
    """Which judge, asked what, on which language path: what a validation is of."""

    rubric: str
    digest: str
    kind: str
    model: str
    path: str


class AspectValidation(Value):
    """One aspect's correlation with the rater means of `n` items. `spearman_interval` is 95 %."""

    n: int
    raters: int
    spearman: float | None
    pearson: float | None
    spearman_interval: Interval = None
    ceiling_spearman: float | None = None


class Validation(Value):
    """Correlations found on `n` items of a batch, on a date."""

    n: int
    batch: str | None
    at: Annotated[datetime, Field(strict=False)]
    aspects: dict[str, AspectValidation]


class Reliability(Value):
    """What a result says of how far it can be trusted: `detail` in words, the figures where there are any."""

    validated: bool
    detail: str
    n: int | None = None
    at: Annotated[datetime | None, Field(strict=False)] = None
    aspects: dict[str, AspectValidation] = Field(default_factory=dict)


UNVALIDATED = Reliability(validated=False, detail=NOT_VALIDATED)


def describe_reliability(found: Validation) -> Reliability:
    """The badge of a judge of which this was found."""
    figures = ", ".join(
        f"{name} {aspect.spearman:.2f}" for name, aspect in found.aspects.items() if aspect.spearman is not None
    )
    detail = f"Spearman with humans, n = {found.n}, {found.at:%Y-%m-%d}: {figures or 'none could be computed'}"
    return Reliability(validated=True, detail=detail, n=found.n, at=found.at, aspects=found.aspects)

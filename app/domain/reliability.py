"""Whether a judge's scores were ever held against people's, and how they fared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.model import Value
from app.domain.reports import Interval

NOT_VALIDATED = "not validated against humans"

FEWEST_ITEMS = 20
"""Fewer show next to nothing: at n = 19 a Spearman of 0.45 is still within chance."""


@dataclass(frozen=True)
class JudgeKey:
    """Which judge, asked what, on which language path: what a validation is of."""

    rubric: str
    digest: str
    kind: str
    model: str
    path: str


class AspectValidation(Value):
    """One aspect's correlation with the rater means of `n` items. `spearman_interval` is 95 %; `ceiling_spearman` what
    a rater reaches against the others."""

    n: int
    raters: int
    spearman: float | None
    pearson: float | None
    spearman_interval: Interval = None
    ceiling_spearman: float | None = None

    @property
    def follows(self) -> bool:
        """Whether the scores go up with people's ratings beyond chance, and the items are enough to say so."""
        interval = self.spearman_interval
        return self.n >= FEWEST_ITEMS and interval is not None and interval[0] > 0


class Validation(Value):
    """Correlations found on `n` items of a batch, on a date."""

    n: int
    batch: str | None
    at: Annotated[datetime, Field(strict=False)]
    aspects: dict[str, AspectValidation]


class Reliability(Value):
    """What a result says of how far it can be trusted: `detail` in words, the figures where there are any."""

    validated: bool = Field(
        description="whether some aspect's Spearman with humans has a 95 % interval above 0, on 20 items or more"
    )
    detail: str
    n: int | None = Field(default=None, description="items that judge and humans both rated")
    at: Annotated[datetime | None, Field(strict=False, description="when the correlation was computed")] = None
    aspects: dict[str, AspectValidation] = Field(default_factory=dict)


UNVALIDATED = Reliability(validated=False, detail=NOT_VALIDATED)


def describe_reliability(found: Validation | None) -> Reliability:
    """The badge of a judge."""
    if found is None:
        return UNVALIDATED
    figures = ", ".join(
        f"{name} {aspect.spearman:.2f}" for name, aspect in found.aspects.items() if aspect.spearman is not None
    )
    validated = any(aspect.follows for aspect in found.aspects.values())
    detail = f"Spearman with humans, n = {found.n}, {found.at:%Y-%m-%d}: {figures or 'none could be computed'}"
    if not validated:
        few = found.n < FEWEST_ITEMS
        detail += (
            f" (fewer than {FEWEST_ITEMS} items prove little)" if few else " (no aspect goes with people's ratings)"
        )
    return Reliability(validated=validated, detail=detail, n=found.n, at=found.at, aspects=found.aspects)


def outweighs(found: Validation, known: Validation | None) -> bool:
    """Whether a new correlation takes the place of the one that is known: it is of the same batch, or of as many items
    or more."""
    return known is None or found.batch == known.batch or found.n >= known.n

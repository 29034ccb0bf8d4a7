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
    validated: bool = Field(default=False, description="interval above 0, on 20 items or more")

    def told(self) -> str:
        """`0.71 [0.47, 0.86]`."""
        if self.spearman is None:
            return "undefined"
        span = f" [{self.spearman_interval[0]:.2f}, {self.spearman_interval[1]:.2f}]" if self.spearman_interval else ""
        return f"{self.spearman:.2f}{span}"


def follows(found: AspectValidation) -> bool:
    """Whether the scores go up with people's ratings beyond chance, and the items are enough to say so."""
    interval = found.spearman_interval
    return found.n >= FEWEST_ITEMS and interval is not None and interval[0] > 0


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
    aspects = {name: each.model_copy(update={"validated": follows(each)}) for name, each in found.aspects.items()}
    shown = {name: f"{name} {each.told()}" for name, each in aspects.items()}
    good = [shown[name] for name, each in aspects.items() if each.validated]
    doubtful = [shown[name] for name, each in aspects.items() if not each.validated]
    raters = max((each.raters for each in aspects.values()), default=0)
    whose = f"{found.n} responses, {raters} {'rater' if raters == 1 else 'raters'}, {found.at:%Y-%m-%d}"
    why = "too few to prove anything" if found.n < FEWEST_ITEMS else "not shown to go with people's"
    parts = [", ".join(good)] if good else []
    parts += [f"{why}: {', '.join(doubtful)}"] if doubtful else []
    detail = f"Spearman with humans (n = {whose}): {'; '.join(parts)}; no other aspect was compared"
    return Reliability(validated=bool(good), detail=detail, n=found.n, at=found.at, aspects=aspects)


def outweighs(found: Validation, known: Validation | None) -> bool:
    """Whether a new correlation takes the place of the one that is known: it is of the same batch, or of as many items
    or more."""
    return known is None or found.batch == known.batch or found.n >= known.n

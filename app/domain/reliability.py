"""Whether the scores of a judge were compared with human ratings, and with what result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from app.domain.model import Value
from app.domain.plain_text import write_figure
from app.domain.reports import Interval

NOT_VALIDATED = "not validated against humans"

FEWEST_ITEMS = 20
"""Fewer show almost nothing: at n = 19 a Spearman of 0.45 is still within chance."""

FEWEST_RATERS = 2
"""One rater shows only that the judge agrees with this rater."""

State = Literal["validated", "not-shown", "unknown"]


@dataclass(frozen=True)
class JudgeKey:
    """The judge, rubric and language path that a validation is of. `rubric` is id and version; `judge` holds all other
    signature pieces that can change a rating, as a signature line."""

    rubric: str
    digest: str
    path: str
    judge: str


class ValidationSource(Value):
    """The ratings that an aspect's state is based on."""

    batch: str | None = Field(description="the batch whose ratings these are; null where they are of several batches")
    items: int = Field(description="items that the judge and people both rated")
    raters: int = Field(description="people who rated the aspect")
    at: Annotated[datetime, Field(strict=False, description="when the correlation was computed")]


class AspectValidation(Value):
    """One aspect's correlation with the rater means of `n` items.

    `spearman_interval` is at 95 %; `ceiling_spearman` is the correlation of a rater with the others.
    """

    n: int
    raters: int
    spearman: float | None
    pearson: float | None
    spearman_interval: Interval = None
    ceiling_spearman: float | None = None
    validated: bool = Field(default=False, description="whether `state` is `validated`")
    state: State = Field(
        default="unknown",
        description="validated: interval above 0, on 20 items or more, by 2 raters or more; not-shown: people rated "
        "the aspect, and that is not shown; unknown: no human ratings for this rubric, judge and path",
    )
    source: ValidationSource | None = Field(default=None, description="what the state is based on; null if unknown")

    def describe(self) -> str:
        """`0.71 [0.47, 0.86]`."""
        if self.spearman is None:
            return "undefined"
        shown = write_figure(self.spearman, 2)
        if self.spearman_interval is None:
            return shown
        low, high = (write_figure(end, 2) for end in self.spearman_interval)
        return f"{shown} [{low}, {high}]"


UNKNOWN = AspectValidation(n=0, raters=0, spearman=None, pearson=None)


class Validation(Value):
    """Correlations on `n` items of a batch, computed at a time."""

    n: int
    batch: str | None
    at: Annotated[datetime, Field(strict=False)]
    aspects: dict[str, AspectValidation]


class Reliability(Value):
    """The badge of a judge: how far its ratings can be trusted, in words (`detail`) and in figures."""

    validated: bool = Field(
        description="whether every aspect that was compared with human ratings is validated, and one was at least"
    )
    detail: str
    n: int | None = Field(default=None, description="items that judge and humans both rated")
    at: Annotated[datetime | None, Field(strict=False, description="when the correlation was computed")] = None
    aspects: dict[str, AspectValidation] = Field(
        default_factory=dict, description="every aspect of the rubric, and what else of it people rated"
    )


UNVALIDATED = Reliability(validated=False, detail=NOT_VALIDATED)


def describe_reliability(found: Validation | None) -> Reliability:
    """The badge of a judge, for the aspects that people rated."""
    if found is None:
        return UNVALIDATED
    aspects = {name: judge_aspect(each, found) for name, each in found.aspects.items()}
    shown = {name: f"{name} {each.describe()}" for name, each in aspects.items()}
    good = [shown[name] for name, each in aspects.items() if each.validated]
    uncertain = [shown[name] for name, each in aspects.items() if not each.validated]
    raters = max((each.raters for each in aspects.values()), default=0)
    whose = f"{found.n} responses, {raters} {'rater' if raters == 1 else 'raters'}, {found.at:%Y-%m-%d}"
    few = found.n < FEWEST_ITEMS or raters < FEWEST_RATERS
    why = "too few to prove anything" if few else "not shown to go with people's"
    parts = [", ".join(good)] if good else []
    parts += [f"{why}: {', '.join(uncertain)}"] if uncertain else []
    detail = f"Spearman with humans (n = {whose}): {'; '.join(parts)}; no other aspect was compared"
    return Reliability(validated=bool(good) and not uncertain, detail=detail, n=found.n, at=found.at, aspects=aspects)


def judge_aspect(each: AspectValidation, found: Validation) -> AspectValidation:
    """One aspect of the validation with its source, and validated if its scores follow human ratings beyond chance, on
    enough items and by enough raters."""
    interval = each.spearman_interval
    enough = each.n >= FEWEST_ITEMS and each.raters >= FEWEST_RATERS
    good = enough and interval is not None and interval[0] > 0
    source = ValidationSource(batch=found.batch, items=each.n, raters=each.raters, at=found.at)
    state: State = "validated" if good else "not-shown"
    return each.model_copy(update={"validated": good, "state": state, "source": source})


def list_all(badge: Reliability, names: Iterable[str]) -> Reliability:
    """The badge with all these aspects, in this order; those without human ratings are unknown."""
    every = {name: badge.aspects.get(name, UNKNOWN) for name in names}
    return badge.model_copy(update={"aspects": every | badge.aspects})


WEAKEST_FIRST: Sequence[State] = ("not-shown", "unknown", "validated")


def find_weakest(found: Iterable[AspectValidation]) -> AspectValidation:
    """What scores by several judges rest on: validated only if every judge is; unknown without any."""
    return min(found, key=lambda one: (WEAKEST_FIRST.index(one.state), one.n), default=UNKNOWN)


def outweighs(found: Validation, known: Validation | None) -> bool:
    """Whether a new correlation replaces the known one: it is of the same batch, or of at least as many items."""
    return known is None or found.batch == known.batch or found.n >= known.n

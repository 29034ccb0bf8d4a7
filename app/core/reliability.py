"""Whether the scores of a judge were compared with human ratings, and with what result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from saiten.core.figures import write_figure
from saiten.core.messages import Message
from saiten_server.core.model import Value
from saiten_server.core.reports import Interval
from saiten_server.core.sentences import Sentence

NOT_VALIDATED = Message("not-validated")

FEWEST_ITEMS = 20
"""Fewer show almost nothing: at n = 19 a Spearman of 0.45 is still within chance."""

STRONG = 0.3
"""The correlation that a judge must lie above to be validated, or above `SHARE_OF_RATERS` of the raters' own, if that
is less."""

SHARE_OF_RATERS = 0.5

ValidationState = Literal["validated", "follows", "not-shown", "unknown"]


WEAKEST_FIRST: Sequence[ValidationState] = ("not-shown", "unknown", "follows", "validated")


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
    items: int = Field(description="items that the judge and two people or more rated")
    raters: int = Field(description="people who rated the aspect")
    at: Annotated[datetime, Field(strict=False, description="when the correlation was computed")]


class AspectValidation(Value):
    """One aspect's correlation within systems with the rater means of `n` items that two people or more rated each.

    `spearman_interval` holds with 95% for all aspects that were compared, and however often it is looked at;
    `ceiling_spearman` is the correlation of a rater with the others. Without such items `spearman` is that of all.
    """

    n: int = Field(description="items that the judge and two people or more rated")
    raters: int = Field(description="people who rated the aspect")
    spearman: float | None
    pearson: float | None
    spearman_interval: Interval = None
    ceiling_spearman: float | None = None
    validated: bool = Field(default=False, description="whether `state` is `validated`")
    state: ValidationState = Field(
        default="unknown",
        description="validated: on 20 items or more, by two people or more each, the interval lies above 0.3, or above "
        "half of the raters' own agreement; follows: it lies above 0; not-shown: people rated the aspect, and neither "
        "is shown; unknown: no human ratings for this rubric, judge and path",
    )
    source: ValidationSource | None = Field(default=None, description="what the state is based on; null if unknown")

    def describe(self, name: str) -> str:
        """`overall ρ 0.55 [0.41, 0.67]`."""
        low_high = [write_figure(end, 2) for end in self.spearman_interval or ()]
        return self.name_figure(name) + (f" [{', '.join(low_high)}]" if low_high else "")

    def name_figure(self, name: str) -> str:
        """`overall ρ 0.55`."""
        return name if self.spearman is None else f"{name} ρ {write_figure(self.spearman, 2)}"

    def judge(self) -> ValidationState:
        """What the figures show. Of an aspect without ratings it says nothing."""
        low = self.spearman_interval[0] if self.spearman_interval is not None else None
        if self.n < FEWEST_ITEMS or low is None or low <= 0:
            return "not-shown"
        agreement = self.ceiling_spearman
        enough = STRONG if agreement is None or agreement <= 0 else min(STRONG, SHARE_OF_RATERS * agreement)
        return "validated" if low > enough else "follows"


NO_VALIDATION = AspectValidation(n=0, raters=0, spearman=None, pearson=None)


class Validation(Value):
    """Correlations of a batch, of which judge and humans both rated `n` items, computed at a time."""

    n: int
    batch: str | None
    at: Annotated[datetime, Field(strict=False)]
    aspects: dict[str, AspectValidation]


class Reliability(Value):
    """The badge of a judge: how far its ratings can be trusted, in figures and in words (`detail`)."""

    validated: bool = Field(
        description="whether every aspect that was compared with human ratings is validated, and one was at least"
    )
    detail: Sentence
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
    strongest = sorted(aspects.items(), key=lambda one: -WEAKEST_FIRST.index(one[1].state))
    alike: dict[tuple[ValidationState, int, bool], list[str]] = {}
    for name, each in strongest:
        if each.n >= FEWEST_ITEMS:
            alike.setdefault((each.state, each.n, each.spearman_interval is None), []).append(each.describe(name))
    clauses = [Message(f"badge-{state}", names=" · ".join(told), responses=n) for (state, n, _), told in alike.items()]
    few = [f"{each.name_figure(name)} ({each.n})" for name, each in aspects.items() if each.n < FEWEST_ITEMS]
    if few:
        clauses.append(Message("badge-few-responses", least=FEWEST_ITEMS, names=", ".join(few)))
    detail = Message("badge", date=f"{found.at:%Y-%m-%d}", clauses=clauses)
    validated = all(each.validated for each in aspects.values())
    return Reliability(validated=validated, detail=detail, n=found.n, at=found.at, aspects=aspects)


def judge_aspect(each: AspectValidation, found: Validation) -> AspectValidation:
    """One aspect of the validation with its source and state."""
    source = ValidationSource(batch=found.batch, items=each.n, raters=each.raters, at=found.at)
    state = each.judge()
    return each.model_copy(update={"validated": state == "validated", "state": state, "source": source})


def list_all(badge: Reliability, names: Iterable[str]) -> Reliability:
    """The badge with all these aspects, in this order; those without human ratings are unknown."""
    every = {name: badge.aspects.get(name, NO_VALIDATION) for name in names}
    return badge.model_copy(update={"aspects": every | badge.aspects})


def find_weakest(found: Iterable[AspectValidation]) -> AspectValidation:
    """What scores by several judges rest on: the least that is shown of any; unknown without any."""
    return min(found, key=lambda one: (WEAKEST_FIRST.index(one.state), one.n), default=NO_VALIDATION)


def outweighs(found: Validation, known: Validation | None) -> bool:
    """Whether a new correlation replaces the known one: it is of the same batch, or of at least as many items that two
    people rated, or else that anyone rated."""
    return known is None or found.batch == known.batch or count_people(found) >= count_people(known)


def count_people(found: Validation) -> tuple[int, int]:
    """The most items of an aspect that two people rated, and the items that anyone rated."""
    return max((each.n for each in found.aspects.values()), default=0), found.n

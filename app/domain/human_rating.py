"""What people said of responses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, model_validator

from app.domain.batch import ItemId
from app.domain.dialogue import MetadataValue
from app.domain.faults import Location, refuse
from app.domain.model import Finite, Id, Value

MOST_EXCLUSIONS = 1000
"""Of a project: each analysis reads them all."""


RaterId = ItemId
Comment = Annotated[str, Field(max_length=2000)]
Rated = Annotated[Finite, Field(ge=-1e15, le=1e15)]
"""As far as the analyses reckon: one rating beyond would make its batch one that cannot be analysed."""


class HumanRating(Value):
    """One rater's ratings of one response.

    The response is an `evaluation`, or an `item` by its id: of one `batch`, else of every batch that has an item of
    that id. Where an item has several candidates, `candidate` counts them from 0; where several systems answered it,
    `system` says which. `simulated` ratings are no person's, and never validate a judge.
    """

    item: ItemId | None = None
    evaluation: ItemId | None = None
    batch: ItemId | None = None
    candidate: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    system: MetadataValue | None = None
    rater: RaterId
    ratings: Annotated[dict[Id, Rated], Field(min_length=1, max_length=64)]
    comment: Comment | None = None
    simulated: bool = False

    @model_validator(mode="after")
    def _check_target(self) -> HumanRating:
        faults: list[tuple[Location, str]] = []
        if (self.item is None) == (self.evaluation is None):
            faults.append(((), "needs an item or an evaluation, and not both"))
        if self.evaluation is not None:
            extra = [name for name in ("batch", "candidate", "system") if getattr(self, name) is not None]
            faults += [((name,), "goes with an item only; an evaluation says it by itself") for name in extra]
        refuse("HumanRating", faults)
        return self


class StoredRating(HumanRating):
    """A rating with the time at which it came in."""

    created_at: Annotated[datetime, Field(strict=False)]


def tell_rating(rating: HumanRating) -> dict[str, Any]:
    """The rating as JSON has it, without what is not there; `simulated` where it is."""
    return rating.model_dump(mode="json", exclude_none=True, exclude=None if rating.simulated else {"simulated"})


class RatingFilter(Value):
    """Which ratings; None means any. Those of a `batch` are of its items, or of its evaluations."""

    item: str | None = None
    evaluation: str | None = None
    batch: str | None = None
    rater: str | None = None


class Exclusion(Value):
    """A rater, or a rating round, whose ratings do not count."""

    rater: RaterId | None = None
    round: ItemId | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Exclusion:
        faults = (
            [((), "needs a rater or a round, and not both")] if (self.rater is None) == (self.round is None) else []
        )
        refuse("Exclusion", faults)
        return self


class StoredExclusion(Exclusion):
    """An exclusion with the time from which it holds."""

    created_at: Annotated[datetime, Field(strict=False)]


@dataclass(frozen=True)
class Excluded:
    """Whose ratings do not count: all of these raters', and of rounds what these (rater, evaluation) are."""

    raters: frozenset[str] = frozenset()
    rated: frozenset[tuple[str, str]] = frozenset()

    def holds(self, rating: HumanRating) -> bool:
        """Whether the rating does not count."""
        return rating.rater in self.raters or (rating.rater, rating.evaluation) in self.rated


@dataclass(frozen=True)
class RatingsKept:
    """How many ratings were added, and how many took the place of an earlier one of the same rater and target."""

    added: int
    replaced: int


@dataclass(frozen=True)
class RatingsMark:
    """How many ratings a project has, and the number of the newest, -1 without one."""

    count: int
    newest: int

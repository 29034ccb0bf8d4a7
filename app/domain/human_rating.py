"""Human ratings of responses: as values, and as JSON lines in which every fault is reported with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, model_validator

from app.domain.batch import ItemId
from app.domain.dialogue import Limits, MetadataValue
from app.domain.errors import MOST_REFUSED, InvalidLines, InvalidRequest, NotFound
from app.domain.model import Finite, Id, Location, Value, refuse
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.domain.validation import InvalidDocument, validate

MOST_BATCHES = 1000
"""Whose items are rated at a time: each is looked up for its rubric."""


MOST_EXCLUSIONS = 1000
"""Per project: each analysis reads them all."""


RaterId = ItemId
Comment = Annotated[str, Field(max_length=2000)]
Rated = Annotated[Finite, Field(ge=-1e15, le=1e15)]
"""The range that the analyses accept: one rating beyond it would block the analysis of its batch."""


class HumanRating(Value):
    """One rater's ratings of one response.

    The response is named by its `evaluation`, or by its `item`: in one `batch`, else in every batch with an item of
    that id. `candidate` counts the item's candidates from 0 if there are several; `system` selects one of several
    systems. `simulated` ratings were not made by a person and never validate a judge.
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
    """A rating with the time at which it was received."""

    created_at: Annotated[datetime, Field(strict=False)]


def tell_rating(rating: HumanRating) -> dict[str, Any]:
    """The rating as JSON without null fields, and without `simulated` if false."""
    return rating.model_dump(mode="json", exclude_none=True, exclude=None if rating.simulated else {"simulated"})


class RatingFilter(Value):
    """Which ratings; None means any. `batch` selects ratings of its items and of its evaluations."""

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
    """An exclusion with the time from which it applies."""

    created_at: Annotated[datetime, Field(strict=False)]


@dataclass(frozen=True)
class Excluded:
    """The ratings that do not count: those by `raters`, and in rounds those by (rater, evaluation)."""

    raters: frozenset[str] = frozenset()
    rated: frozenset[tuple[str, str]] = frozenset()

    def holds(self, rating: HumanRating) -> bool:
        """Whether the rating does not count."""
        return rating.rater in self.raters or (rating.rater, rating.evaluation) in self.rated


@dataclass(frozen=True)
class RatingsKept:
    """How many ratings were added, and how many replaced an earlier one by the same rater of the same target."""

    added: int
    replaced: int


@dataclass(frozen=True)
class RatingsMark:
    """The number of a project's ratings, and the sequence number of the newest, -1 without one."""

    count: int
    newest: int


def read_rating_lines(body: bytes, limits: Limits) -> tuple[list[HumanRating], list[int]]:
    """The ratings in NDJSON and their line numbers.

    Raises InvalidLines for lines that are not ratings, and for two by one rater of one response, since the later one
    would replace the earlier one.
    """
    ratings: list[HumanRating] = []
    numbers: list[int] = []
    faults: list[tuple[int, str]] = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        if len(faults) == MOST_REFUSED:
            raise InvalidLines(faults, stopped=True)
        try:
            rating = validate(HumanRating, parse_strict_json(line), limits)
        except (StrictJSONError, InvalidDocument) as error:
            faults.append((number, str(error)))
            continue
        before = seen.setdefault(target_of(rating), number)
        if before != number:
            faults.append((number, f"rates what line {before} rates, by the same rater"))
        ratings.append(rating)
        numbers.append(number)
    if faults:
        raise InvalidLines(faults)
    return ratings, numbers


def target_of(rating: HumanRating) -> tuple[Any, ...]:
    """The rater and the target."""
    return rating.rater, rating.item, rating.evaluation, rating.batch, rating.candidate, rating.system


def locate_fault(error: NotFound | InvalidRequest, numbers: Sequence[int]) -> NotFound | InvalidRequest:
    """The store's faults of single ratings at the numbers of their records; the error itself if it names none."""
    if isinstance(error, InvalidLines):
        return InvalidLines([(numbers[number - 1], what) for number, what in error.faults], error.total)
    if error.pointer is None or not error.pointer.isdigit():
        return error
    return InvalidLines([(numbers[int(error.pointer)], error.detail)])

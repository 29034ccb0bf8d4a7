"""What people said of responses.

Human ratings as they are sent and filed: one JSON object a line, every fault told with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True)
class Unread:
    """Stands in the place of a record that could not be read."""

    why: str


def read_rating_lines(body: bytes, limits: Limits) -> tuple[list[HumanRating], list[int]]:
    """The ratings of NDJSON, each with its line. Raises InvalidLines."""
    return check_records(parse_lines(body), limits)


def parse_lines(body: bytes) -> Iterator[tuple[int, Any]]:
    """(line, JSON value or Unread) of each line that is not blank."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, parse_strict_json(line)
        except StrictJSONError as error:
            yield number, Unread(str(error))


def check_records(
    records: Iterable[tuple[int, Any]], limits: Limits, *, noun: str = "line"
) -> tuple[list[HumanRating], list[int]]:
    """The ratings of numbered records, each with its number. Raises InvalidLines: for a record that is none too, and
    for two by one rater of one response, of which the earlier would be lost."""
    ratings: list[HumanRating] = []
    numbers: list[int] = []
    faults: list[tuple[int, str]] = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, record in records:
        if len(faults) == MOST_REFUSED:
            raise InvalidLines(faults, noun=noun, stopped=True)
        if isinstance(record, Unread):
            faults.append((number, record.why))
            continue
        try:
            rating = validate(HumanRating, record, limits)
        except InvalidDocument as error:
            faults.append((number, str(error)))
            continue
        before = seen.setdefault(target_of(rating), number)
        if before != number:
            faults.append((number, f"rates what {noun} {before} rates, by the same rater"))
        ratings.append(rating)
        numbers.append(number)
    if faults:
        raise InvalidLines(faults, noun=noun)
    return ratings, numbers


def target_of(rating: HumanRating) -> tuple[Any, ...]:
    """Who rates what."""
    return rating.rater, rating.item, rating.evaluation, rating.batch, rating.candidate, rating.system


def locate_fault(
    error: NotFound | InvalidRequest, numbers: Sequence[int], *, noun: str = "line"
) -> NotFound | InvalidRequest:
    """The faults of single ratings that keeping them told, at the numbers of their records; the error itself where it
    names none."""
    if isinstance(error, InvalidLines):
        return InvalidLines([(numbers[number - 1], what) for number, what in error.faults], error.total, noun)
    if error.pointer is None or not error.pointer.isdigit():
        return error
    return InvalidLines([(numbers[int(error.pointer)], error.detail)], noun=noun)

"""Human ratings as they are sent and filed: one JSON object a line, every fault told with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest, NotFound
from app.domain.human_rating import HumanRating
from app.domain.lines import MOST_REFUSED, InvalidLines
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.domain.validation import InvalidDocument, validate


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

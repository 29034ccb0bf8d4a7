"""Human ratings as they are posted, and the fields of the form for a rating round, with what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from saiten.core.messages import Message
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.validation import validate
from saiten_server.platform.web.body import JSON, decode
from saiten_server.platform.web.language import mark
from saiten_server.ratings import values as human_rating
from saiten_server.ratings.values import HumanRating

ITEM_CHOICES: Mapping[str, str] = {
    "random": mark("At random"),
    "informative": mark("More of those in which the judge is unsteady"),
    "stratified": mark("Some of every level of the judge's ratings"),
    "worst": mark("The worst by the judge. Their ratings say nothing of the others, so they are left out of figures."),
    "chosen": mark("Chosen one by one. Their ratings say nothing of the others, so they are left out of figures."),
}
WHOLE_NUMBER = mark("Enter a whole number from %(low)s to %(high)s.")
NAME_NEEDED = mark("Enter a name on one line, with at most %(most)s characters.")


class RatingFault(NamedTuple):
    """The fault of a field: a message and its values."""

    message: str
    values: Mapping[str, Any]


def parse_integer(text: str) -> int | str:
    """The number, or the text if it is not one."""
    try:
        return int(text)
    except ValueError:
        return text


HUMAN = [{"item": "sea-1", "batch": "ba_…", "rater": "r1", "ratings": {"overall": 4}, "comment": "少し硬い"}]


def parse_ratings(body: bytes, media_type: str, limits: Limits) -> tuple[list[HumanRating], list[int]]:
    """The ratings, each with its line. Raises RequestRefused (400), InvalidDocument and InvalidLines."""
    if media_type == JSON:
        return [validate(HumanRating, decode(body), limits)], [1]
    ratings, lines = human_rating.read_rating_lines(body, limits)
    if not ratings:
        raise InvalidRequest(Message("ratings-body-empty"))
    return ratings, lines

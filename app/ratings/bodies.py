"""Human ratings as they are posted."""

from __future__ import annotations

from saiten.core.messages import Message
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.validation import validate
from saiten_server.platform.web.body import JSON, decode
from saiten_server.ratings import values as human_rating
from saiten_server.ratings.values import HumanRating

HUMAN = [{"item": "sea-1", "batch": "ba_…", "rater": "r1", "ratings": {"overall": 4}, "comment": "少し硬い"}]


def parse_ratings(body: bytes, media_type: str, limits: Limits) -> tuple[list[HumanRating], list[int]]:
    """The ratings, each with its line. Raises RequestRefused (400), InvalidDocument and InvalidLines."""
    if media_type == JSON:
        return [validate(HumanRating, decode(body), limits)], [1]
    ratings, lines = human_rating.read_rating_lines(body, limits)
    if not ratings:
        raise InvalidRequest(Message("ratings-body-empty"))
    return ratings, lines

"""The human ratings of batches that count, read page by page. Loads no numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.human_rating import StoredRating
from app.domain.reports import RatingsUsed
from app.storage.sql.ratings import RatingStore

RATINGS_PAGE = 1000


@dataclass(frozen=True)
class CountedRatings:
    """The ratings that count; `used` says how many there are and how many were left out."""

    ratings: Sequence[StoredRating]
    used: RatingsUsed


async def read_ratings(store: RatingStore, project: str, batch_ids: Sequence[str]) -> CountedRatings:
    """The ratings that may concern the batches, each once, without those of excluded raters and rounds.

    Simulated ratings count only if there are no others.
    """
    found: dict[int, StoredRating] = {}
    for batch_id in batch_ids:
        after = -1
        while page := await store.of_batch(project, batch_id, after=after, limit=RATINGS_PAGE):
            after = page[-1][0]
            for number, rating in page:
                found.setdefault(number, rating)
    excluded = await store.excluded(project)
    left = [rating for rating in found.values() if not excluded.holds(rating)]
    people = [rating for rating in left if not rating.simulated]
    counted = people or left
    used = RatingsUsed(
        counted=len(counted),
        simulated=bool(left) and not people,
        simulated_left_out=len(left) - len(counted),
        excluded=len(found) - len(left),
    )
    return CountedRatings(counted, used)

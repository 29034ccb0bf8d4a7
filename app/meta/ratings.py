"""Human ratings of batches, read page by page."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.human_rating import StoredRating
from app.meta_ports import RatingStore

RATINGS_PAGE = 1000


async def read_ratings(store: RatingStore, project: str, batch_ids: Sequence[str]) -> list[StoredRating]:
    """The ratings that may concern the batches, each once."""
    found: dict[int, StoredRating] = {}
    for batch_id in batch_ids:
        after = -1
        while page := await store.of_batch(project, batch_id, after=after, limit=RATINGS_PAGE):
            after = page[-1][0]
            for number, rating in page:
                found.setdefault(number, rating)
    return list(found.values())

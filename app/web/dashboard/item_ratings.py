"""What people said of one response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.domain.batch import Batch, Entry
from app.domain.human_rating import RatingFilter, StoredRating
from app.meta.desk import MetaDesk
from app.scores import SYSTEM

RATINGS_PAGE = 1000


@dataclass
class RaterView:
    """One rater's ratings by aspect, the later one of an aspect where there are two, and comments. `simulated` where no
    person gave the last of them."""

    rater: str
    ratings: dict[str, float] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    simulated: bool = False


@dataclass(frozen=True)
class Response:
    """What ratings may name a response by."""

    evaluation: str
    batch: Batch | None = None
    entry: Entry | None = None
    system: str | None = None

    @property
    def systems(self) -> set[str | None]:
        """What ratings may say of the system."""
        return {None, self.system or (self.batch.metadata.get(SYSTEM) if self.batch else None)}


async def find_ratings(desk: MetaDesk, project: str, response: Response) -> list[RaterView]:
    """The response's ratings by rater, in the order in which they came in."""
    wanted = [RatingFilter(evaluation=response.evaluation)]
    if response.batch is not None and response.entry is not None:
        item = response.entry.item
        wanted += [RatingFilter(batch=response.batch.id, item=item), RatingFilter(item=item)]
    found: dict[int, StoredRating] = {}
    for each in wanted:
        after = -1
        # Of an item's id alone there may be ratings of many runs, the newest last.
        while page := await desk.list_ratings(project, each, after=after, limit=RATINGS_PAGE):
            found.update((number, rating) for number, rating in page if concerns(rating, response))
            after = page[-1][0]
    return list(by_rater([found[number] for number in sorted(found)]))


def concerns(rating: StoredRating, response: Response) -> bool:
    """Whether the rating is of this response, and not of another candidate or system."""
    if rating.evaluation is not None:
        return rating.evaluation == response.evaluation
    batch, entry = response.batch, response.entry
    if batch is None or entry is None or rating.batch not in (None, batch.id):
        return False
    return rating.candidate == entry.candidate and rating.system in response.systems


def by_rater(ratings: Sequence[StoredRating]) -> Iterator[RaterView]:
    """The ratings of each rater together."""
    views: dict[str, RaterView] = {}
    for rating in ratings:
        view = views.setdefault(rating.rater, RaterView(rating.rater))
        view.ratings.update(rating.ratings)
        view.simulated = rating.simulated
        if rating.comment:
            view.comments.append(rating.comment)
    yield from views.values()

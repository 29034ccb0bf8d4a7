"""What meta-evaluation needs kept, as roles: human ratings, what they say of a judge, and a judge's stored ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from app.domain.human_rating import Excluded, Exclusion, HumanRating, RatingFilter, StoredExclusion, StoredRating
from app.domain.judge_check import AnchorRatings
from app.domain.reliability import JudgeKey, Validation

MOST_EXCLUSIONS = 1000
"""Of a project: each analysis reads them all."""


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


class RatingStore(Protocol):
    """Human ratings by project. Raises the `Store…` errors of `app.domain.errors`.

    One rater has one rating of a target: (item, batch, candidate, system), or an evaluation. A later one takes the
    place of the earlier. Ratings of an evaluation, or of a batch's item, go with the batch when it is erased.
    """

    async def keep(self, project: str, ratings: Sequence[HumanRating], now: datetime) -> RatingsKept:
        """All or nothing. Raises NotFound where a rating names an evaluation or a batch that the project has not: its
        `pointer` is the rating's number from 0."""
        ...

    async def rubrics_of(self, project: str, evaluations: Sequence[str]) -> Mapping[str, str]:
        """The rubric of each evaluation that the project has, by the evaluation's id."""
        ...

    async def list(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """In the order in which they came in, each with its number; those with a greater number than `after`."""
        ...

    async def mark(self, project: str) -> RatingsMark:
        """What changes whenever a rating of the project comes in, is replaced or goes."""
        ...

    async def of_batch(
        self, project: str, batch_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """Ratings that may concern the batch's results: of its evaluations, of its items by batch, and of items whose
        id it has, by no batch at all. Numbered as by `list`."""
        ...

    async def remove(self, project: str, wanted: RatingFilter) -> int:
        """Removes the ratings that `wanted` names, and says how many there were."""
        ...

    async def exclude(self, project: str, exclusion: Exclusion, now: datetime) -> bool:
        """Whether this is new. Raises NotFound for a round that the project has not, and InvalidRequest beyond
        `MOST_EXCLUSIONS`."""
        ...

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        """Takes the exclusion back; whether there was one."""
        ...

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]:
        """All of the project, the oldest first. That of a round goes with the round."""
        ...

    async def excluded(self, project: str) -> Excluded:
        """Whose ratings do not count."""
        ...

    async def rated_batches(self, project: str, *, limit: int) -> Sequence[str]:
        """Batches with ratings that are not simulated and name the batch or a result of it, that of the newest rating
        first."""
        ...


class ValidationStore(Protocol):
    """What correlations with humans were found, the newest a judge. Raises the `Store…` errors."""

    async def keep_validation(self, project: str, key: JudgeKey, found: Validation) -> None:
        """Takes the place of the earlier one of the same judge."""
        ...

    async def validations(self, project: str) -> Mapping[JudgeKey, Validation]:
        """All of the project."""
        ...


class AnchorStore(Protocol):
    """A judge's ratings of the anchors, as they were first taken. Raises the `Store…` errors."""

    async def find_anchor_ratings(self, project: str, key: str) -> AnchorRatings | None: ...

    async def keep_anchor_ratings(self, project: str, key: str, ratings: AnchorRatings) -> None:
        """Takes the place of earlier ones of the same key."""
        ...

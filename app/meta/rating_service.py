"""Human ratings: kept, listed, removed and excluded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from app.adapters.sql.batches.store import BatchStore
from app.adapters.sql.ratings import RatingStore
from app.domain.errors import InvalidRequest
from app.domain.human_rating import (
    Exclusion,
    HumanRating,
    RatingFilter,
    RatingsKept,
    RatingsMark,
    StoredExclusion,
    StoredRating,
)
from app.domain.rubric import split_name
from app.meta.revalidation import Revalidation
from app.meta.scales import Scales, check_ratings, scales_to_rate
from app.ports import RubricSource

if TYPE_CHECKING:
    pass

MOST_BATCHES = 1000
"""Whose items are rated at a time: each is looked up for its rubric."""


class RatingService:
    """Human ratings within the caller's project. Badges follow them in the background.

    Methods raise NotFound for a batch that is not in the project, InvalidRequest, and StoreError.
    """

    def __init__(
        self,
        *,
        batches: BatchStore,
        ratings: RatingStore,
        rubrics: RubricSource,
        now: Callable[[], datetime],
        revalidation: Revalidation | None = None,
    ) -> None:
        self._batches = batches
        self._ratings = ratings
        self._rubrics = rubrics
        self._now = now
        self._revalidation = revalidation or Revalidation()

    async def keep_ratings(self, project: str, ratings: Sequence[HumanRating]) -> RatingsKept:
        """Takes ratings in, all or none. Raises InvalidLines, numbered from 1, where one that names a batch or an
        evaluation has an aspect that its rubric has not, or a value off its scale; NotFound as the store does. Badges
        that they concern follow in the background."""
        named = dict.fromkeys(rating.batch for rating in ratings if rating.batch is not None)
        if len(named) > MOST_BATCHES:
            raise InvalidRequest(
                f"these are ratings of {len(named):,} batches; send at most {MOST_BATCHES:,} at a time"
            )
        rubrics: dict[str, str] = {}
        for batch_id in named:
            batch = await self._batches.find(project, batch_id)
            if batch is not None:  # else the store says which rating names none
                rubrics[batch_id] = batch.rubric_name
        scored = [rating.evaluation for rating in ratings if rating.evaluation is not None]
        rubrics.update(await self._ratings.rubrics_of(project, scored))
        scales = self._scales_of(set(rubrics.values()))
        fitting = [scales.get(rubrics.get(rating.batch or rating.evaluation or "", "")) for rating in ratings]
        await asyncio.to_thread(check_ratings, ratings, fitting)
        kept = await self._ratings.keep(project, ratings, self._now())
        loose = any(rating.batch is None for rating in ratings)
        self._revalidation.ask(project, [*named, *([None] if loose else [])])
        return kept

    def _scales_of(self, rubrics: Collection[str]) -> dict[str, Scales]:
        """What may be rated by each of the rubrics that are still there: of one that is gone, anything."""
        known = {rubric.id for rubric in self._rubrics.list()}
        return {name: scales_to_rate(self._rubrics.nearest(name)) for name in rubrics if split_name(name)[0] in known}

    async def list_ratings(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """Ratings in the order in which they came in."""
        return await self._ratings.list(project, wanted, after=after, limit=limit)

    async def mark_ratings(self, project: str) -> RatingsMark:
        """What changes whenever the project's ratings do."""
        return await self._ratings.mark(project)

    async def remove_ratings(self, project: str, wanted: RatingFilter) -> int:
        """How many there were. Badges that rested on them go, or follow what is left, in the background."""
        removed = await self._ratings.remove(project, wanted)
        if removed:
            self._revalidation.ask(project, [wanted.batch], removed=True)
        return removed

    async def exclude(self, project: str, exclusion: Exclusion) -> bool:
        """From now on these ratings do not count, and badges follow in the background; whether this is new. Raises
        NotFound for a round that is not there."""
        return await self._follow(project, changed=await self._ratings.exclude(project, exclusion, self._now()))

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        """The ratings count again; whether they did not before."""
        return await self._follow(project, changed=await self._ratings.include(project, exclusion))

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]:
        """Raters and rounds whose ratings do not count, the oldest first."""
        return await self._ratings.exclusions(project)

    async def _follow(self, project: str, *, changed: bool) -> bool:
        if changed:
            self._revalidation.ask(project, [None], removed=True)
        return changed

    async def settle(self) -> None:
        """Returns when the badges have followed the ratings: for a process that ends, while a service goes on."""
        await self._revalidation.drain()

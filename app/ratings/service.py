"""Human ratings: stored if they fit the rubric of the response, listed, removed and excluded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.core.errors import MOST_FAULTS, InvalidLines, InvalidRequest
from saiten_server.core.rubric import split_name
from saiten_server.core.validation import clip, suggest_name
from saiten_server.platform.sql.sizes import ROW_BYTES, count_bytes
from saiten_server.ratings.reliability import Revalidation
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import (
    MOST_BATCHES,
    Exclusion,
    HumanRating,
    RatingFilter,
    RatingsAdded,
    RatingsMark,
    StoredExclusion,
    StoredRating,
)
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import Bounds, bounds_of
from saiten_server.scoring.rubrics.files import RubricSource

ASPECT_UNKNOWN = Message("aspect-not-of-rubric", near="")


def check_ratings(
    ratings: Sequence[HumanRating], scales: Sequence[Bounds | None], turns: Sequence[frozenset[int] | None]
) -> None:
    """Raises InvalidLines, numbered from 1, where a rating does not fit the scales beside it, or marks what is none of
    the system's turns beside it; without any it fits."""
    faults: list[tuple[int, Message]] = []
    total = 0
    for number, (rating, known, own) in enumerate(zip(ratings, scales, turns, strict=True), start=1):
        if own is not None and not own.issuperset(rating.faulty_turns or ()):
            total += 1
            if total <= MOST_FAULTS:
                faults.append(
                    (number, Message("fault-at", where="/faulty_turns", fault=Message("not-a-turn-of-system")))
                )
        if known is not None:
            for name, what in misfits(rating, known):
                total += 1
                if total <= MOST_FAULTS:  # to look for what was meant takes longer than all else
                    near = suggest_name(name, known) if what is ASPECT_UNKNOWN else ""
                    fault = Message("aspect-not-of-rubric", near=near) if near else what
                    faults.append((number, Message("fault-at", where=f"/ratings/{clip(name)}", fault=fault)))
    if faults:
        raise InvalidLines(faults, total, "rating")


def measure_ratings(ratings: Sequence[HumanRating]) -> int:
    """The bytes that they will take. Takes a while: not for an event loop."""
    size = 0
    for one in ratings:
        texts = (one.item, one.system, one.rater, one.comment, json.dumps(one.ratings))
        size += ROW_BYTES + sum(map(count_bytes, texts))
    return size


def misfits(rating: HumanRating, scales: Bounds) -> Iterator[tuple[str, Message]]:
    """What does not fit: the name, and what is wrong. Values between two levels fit."""
    for name, value in rating.ratings.items():
        if name not in scales:
            yield name, ASPECT_UNKNOWN
            continue
        low, high = scales[name]
        if not low <= value <= high:
            yield name, Message("off-its-scale", value=value, low=low, high=high)


@dataclass(kw_only=True, eq=False)
class RatingService:
    """Human ratings within the caller's project. Badges follow them in the background. Methods raise NotFound for a
    batch that is not in the project, InvalidRequest, and StoreError."""

    batches: BatchStore
    ratings: RatingStore
    rubrics: RubricSource
    now: Callable[[], datetime]
    revalidation: Revalidation = field(default_factory=Revalidation)
    quota: StorageQuota | None = None

    async def keep_ratings(self, project: str, ratings: Sequence[HumanRating]) -> RatingsAdded:
        """Takes ratings in, all or none. Raises InvalidLines, numbered from 1, where one that names a batch or an
        evaluation has an aspect that its rubric has not, a value off its scale, or a marked turn that is none of the
        system's; NotFound as the store does. Badges
        that they concern follow in the background. ProjectFull where the project may not store any more."""
        if self.quota is not None:
            await self.quota.require_room(project, await asyncio.to_thread(measure_ratings, ratings))
        named = dict.fromkeys(rating.batch for rating in ratings if rating.batch is not None)
        if len(named) > MOST_BATCHES:
            raise InvalidRequest(Message("ratings-batches-most", count=len(named), maximum=MOST_BATCHES))
        rubrics: dict[str, str] = {}
        for batch_id in named:
            batch = await self.batches.find(project, batch_id)
            if batch is not None:  # else the store says which rating names none
                rubrics[batch_id] = batch.rubric_name
        scored = [rating.evaluation for rating in ratings if rating.evaluation is not None]
        rubrics.update(await self.ratings.rubrics_of(project, scored))
        # By each of the rubrics that are still there: of one that is gone, anything may be rated.
        known = {rubric.id for rubric in self.rubrics.list()}
        names = {name for name in rubrics.values() if split_name(name)[0] in known}
        scales = {name: bounds_of(self.rubrics.nearest(name)) for name in names}
        fitting = [scales.get(rubrics.get(rating.batch or rating.evaluation or "", "")) for rating in ratings]
        turns = await self.ratings.turns_of(project, ratings)
        await asyncio.to_thread(check_ratings, ratings, fitting, turns)
        kept = await self.ratings.keep(project, ratings, self.now())
        loose = any(rating.batch is None for rating in ratings)
        self.revalidation.ask(project, [*named, *([None] if loose else [])])
        return kept

    def check_by(self, rubric: str, ratings: Sequence[HumanRating]) -> None:
        """Raises InvalidLines, numbered from 1, where a rating has an aspect that the rubric has not, or a value off
        its scale; UnknownRubric."""
        scales = bounds_of(self.rubrics.get(rubric))
        check_ratings(ratings, [scales] * len(ratings), [None] * len(ratings))

    async def list_ratings(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """Ratings in the order in which they came in."""
        return await self.ratings.list(project, wanted, after=after, limit=limit)

    async def page_ratings(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> tuple[Sequence[StoredRating], int | None]:
        """The same, but fewer of long ones, with the number of the last where more follow."""
        return await self.ratings.page(project, wanted, after=after, limit=limit)

    async def mark_ratings(self, project: str) -> RatingsMark:
        """What changes whenever the project's ratings do."""
        return await self.ratings.mark(project)

    async def remove_ratings(self, project: str, wanted: RatingFilter) -> int:
        """How many there were. Badges that rested on them go, or follow what is left, in the background."""
        removed = await self.ratings.remove(project, wanted)
        if removed:
            self.revalidation.ask(project, [wanted.batch], removed=True)
        return removed

    async def exclude(self, project: str, exclusion: Exclusion) -> bool:
        """From now on these ratings do not count, and badges follow in the background; whether this is new. Raises
        NotFound for a round that is not there."""
        return await self._follow(project, changed=await self.ratings.exclude(project, exclusion, self.now()))

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        """The ratings count again; whether they did not before."""
        return await self._follow(project, changed=await self.ratings.include(project, exclusion))

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]:
        """Raters and rounds whose ratings do not count, the oldest first."""
        return await self.ratings.exclusions(project)

    async def _follow(self, project: str, *, changed: bool) -> bool:
        if changed:
            self.revalidation.ask(project, [None], removed=True)
        return changed

    async def settle(self) -> None:
        """Returns when the badges have followed the ratings: for a process that ends, while a service goes on."""
        await self.revalidation.drain()

"""Human ratings, validations and anchor ratings in memory, held to the same contract as the real store."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count

from app.adapters.sql.tables import can_hold
from app.domain.errors import InvalidRequest, NotFound
from app.domain.human_rating import Excluded, Exclusion, HumanRating, RatingFilter, StoredExclusion, StoredRating
from app.domain.judge_check import AnchorRatings
from app.domain.model import digest
from app.domain.reliability import JudgeKey, Validation
from app.meta_ports import MOST_EXCLUSIONS, RatingsKept, RatingsMark
from tests.support.fake_batch_store import FakeBatchStore, Kept
from tests.support.fake_store import FakeStore

Named = tuple[str, str]
"""A project, and whose rating of what."""


class FakeMetaStore:
    """`batches` and `store` say which evaluations there are. Nothing in it awaits, so every call is atomic."""

    def __init__(self, batches: FakeBatchStore | None = None, store: FakeStore | None = None) -> None:
        self._batches = batches or FakeBatchStore()
        self._store = store or FakeStore()
        self._numbers = count(1)
        self._ratings: dict[Named, tuple[int, StoredRating, str | None]] = {}
        self._known: dict[str, set[tuple[str, int | None]]] = {}
        self.validations_kept: dict[tuple[str, JudgeKey], Validation] = {}
        self._anchors: dict[tuple[str, str], AnchorRatings] = {}
        self._exclusions: dict[str, dict[Exclusion, StoredExclusion]] = {}
        self.rounds: dict[tuple[str, str], set[tuple[str, str]]] = {}
        """By project and round, whose (rater, evaluation) ratings it has."""

    async def keep(self, project: str, ratings: Sequence[HumanRating], now: datetime) -> RatingsKept:
        rows = dict[Named, tuple[HumanRating, str | None]]()
        for number, rating in enumerate(ratings):
            given = rating.model_dump(exclude_none=True, exclude={"ratings", "candidate", "simulated"})
            if not can_hold(*given.values()):
                raise InvalidRequest("the rating holds what cannot be kept", pointer=str(number))
            key = (project, digest(rating.model_dump(exclude={"ratings", "comment", "simulated"})))
            rows.pop(key, None)
            rows[key] = (rating, self._owner_of(project, rating, number))
        replaced = len(rows.keys() & dict(self._living()).keys())
        for key, (rating, owner) in rows.items():
            self._ratings.pop(key, None)
            stored = StoredRating(**rating.model_dump(), created_at=now)
            self._ratings[key] = (next(self._numbers), stored, owner)
        return RatingsKept(added=len(rows) - replaced, replaced=replaced)

    async def rubrics_of(self, project: str, evaluations: Sequence[str]) -> dict[str, str]:
        of_batches = {
            one.record.evaluation.id: one.record
            for kept in self._batches.batches.values()
            if kept.project == project
            for one in kept.results.values()
            if one.record
        }
        alone = {name: record for (owner, name), record in self._store.records.items() if owner == project}
        found = {**of_batches, **alone}
        return {name: found[name].evaluation.rubric.id for name in evaluations if name in found}

    async def of_batch(
        self, project: str, batch_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        kept = self._find_batch(project, batch_id)
        items = {entry.item for entry, _ in kept.items.values()} if kept else set[str]()
        found = [
            (number, rating)
            for (owning, _), (number, rating, owner) in self._living()
            if owning == project and (owner == batch_id or (owner is None and rating.item in items))
        ]
        return [one for one in found if one[0] > after][:limit]

    async def mark(self, project: str) -> RatingsMark:
        numbers = [number for (owner, _), (number, _, _) in self._living() if owner == project]
        return RatingsMark(len(numbers), max(numbers, default=-1))

    async def remove(self, project: str, wanted: RatingFilter) -> int:
        if wanted == RatingFilter():
            raise InvalidRequest("say which ratings")
        gone = [key for key, (_, rating, batch) in self._living() if key[0] == project and fits(rating, batch, wanted)]
        for key in gone:
            del self._ratings[key]
        return len(gone)

    async def exclude(self, project: str, exclusion: Exclusion, now: datetime) -> bool:
        if exclusion.round is not None and (project, exclusion.round) not in self.rounds:
            raise NotFound("there is no such rating round in this project", pointer="/round")
        known = self._exclusions.setdefault(project, {})
        if exclusion in known:
            return False
        if len(known) >= MOST_EXCLUSIONS:
            raise InvalidRequest("too many are excluded")
        known[exclusion] = StoredExclusion(**exclusion.model_dump(), created_at=now)
        return True

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        return self._exclusions.get(project, {}).pop(exclusion, None) is not None

    async def exclusions(self, project: str) -> builtins.list[StoredExclusion]:
        return [*self._exclusions.get(project, {}).values()]

    async def excluded(self, project: str) -> Excluded:
        known = self._exclusions.get(project, {})
        raters = frozenset(one.rater for one in known if one.rater is not None)
        return Excluded(
            raters, frozenset(pair for one in known for pair in self.rounds.get((project, one.round or ""), ()))
        )

    async def rated_batches(self, project: str, *, limit: int) -> builtins.list[str]:
        found = dict[str, int]()
        for (owner, _), (number, rating, batch) in self._living():
            if owner == project and batch is not None and not rating.simulated:
                found[batch] = number
        return sorted(found, key=lambda batch: -found[batch])[:limit]

    async def keep_validation(self, project: str, key: JudgeKey, found: Validation) -> None:
        if not can_hold(key.judge):
            raise InvalidRequest("the judge's name holds what cannot be kept")
        self.validations_kept[project, key] = found

    async def validations(self, project: str) -> Mapping[JudgeKey, Validation]:
        return {key: found for (owner, key), found in self.validations_kept.items() if owner == project}

    async def find_anchor_ratings(self, project: str, key: str) -> AnchorRatings | None:
        return self._anchors.get((project, key))

    async def keep_anchor_ratings(self, project: str, key: str, ratings: AnchorRatings) -> None:
        if not can_hold(key):
            raise InvalidRequest("the key holds what cannot be kept")
        self._anchors[project, key] = ratings

    def _living(self) -> Iterator[tuple[Named, tuple[int, StoredRating, str | None]]]:
        """In the order of their numbers; those of a batch that was erased went with it."""
        for key, row in [*self._ratings.items()]:
            if row[2] is None or row[2] in self._batches.batches:
                yield key, row

    def _find_batch(self, project: str, batch_id: str) -> Kept | None:
        kept = self._batches.batches.get(batch_id)
        return kept if kept and kept.project == project and kept.status != "receiving" else None

    def _owner_of(self, project: str, rating: HumanRating, number: int) -> str | None:
        if rating.evaluation is not None:
            return self._owner_of_evaluation(project, rating.evaluation, number)
        if rating.batch is None:
            return None
        if (rating.item, rating.candidate) not in self._places(project, rating.batch):
            raise NotFound("there is no such item of a batch in this project", pointer=str(number))
        return rating.batch

    def _places(self, project: str, batch_id: str) -> set[tuple[str, int | None]]:
        """The batch's items, as (item, None), and their candidates."""
        kept = self._find_batch(project, batch_id)
        if kept is None:
            return set()
        if batch_id not in self._known:  # an accepted batch stays as it is
            entries = [entry for entry, _ in kept.items.values()]
            self._known[batch_id] = {(entry.item, place) for entry in entries for place in (None, entry.candidate)}
        return self._known[batch_id]

    def _owner_of_evaluation(self, project: str, evaluation: str, number: int) -> str | None:
        if (project, evaluation) in self._store.records:
            return None
        for kept in self._batches.batches.values():
            ids = {one.record.evaluation.id for one in kept.results.values() if one.record}
            if kept.project == project and evaluation in ids:
                return kept.id
        raise NotFound("there is no such evaluation in this project", pointer=str(number))

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> builtins.list[tuple[int, StoredRating]]:
        found = [
            (number, rating)
            for (owner, _), (number, rating, batch) in self._living()
            if owner == project and number > after and fits(rating, batch, wanted)
        ]
        return found[:limit]


def fits(rating: StoredRating, batch: str | None, wanted: RatingFilter) -> bool:
    own = {**rating.model_dump(), "batch": batch}
    return all(own[name] == value for name, value in wanted.model_dump(exclude_none=True).items())

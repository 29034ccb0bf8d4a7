"""A `RoundStore` in memory, held to the same contract as the real one. Nothing in it awaits, so every call is atomic."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.adapters.sql.tables import can_hold
from app.domain.errors import InvalidRequest, NotFound
from app.domain.rating_round import RatingRound, RoundProgress, Task, own_order
from app.round_ports import ABANDONED_SECONDS
from tests.support.fake_batch_store import FakeBatchStore


@dataclass
class Given:
    """One response in one rater's hands."""

    position: int
    taken_at: datetime
    done: bool = False

    def counts(self, now: datetime) -> bool:
        return self.done or now - self.taken_at < timedelta(seconds=ABANDONED_SECONDS)


@dataclass
class Kept:
    project: str
    round: RatingRound
    positions: Sequence[int]
    given: dict[str, list[Given]] = field(default_factory=dict)

    def at(self, position: int, *, but: str = "") -> list[Given]:
        return [one for rater, had in self.given.items() for one in had if rater != but and one.position == position]

    def has_room(self, position: int, rater: str, now: datetime) -> bool:
        others = sum(one.counts(now) for one in self.at(position, but=rater))
        return others < self.round.options.raters_per_item

    def done_at(self, position: int) -> int:
        return sum(one.done for one in self.at(position))

    def tell(self, rater: str) -> list[Task]:
        return [
            Task(number=number, of=self.round.most_per_rater, position=one.position, done=one.done)
            for number, one in enumerate(self.given.get(rater, []))
        ]


class FakeRoundStore:
    """`batches` says which batches there are: a round is gone with its batch."""

    def __init__(self, batches: FakeBatchStore) -> None:
        self._batches = batches
        self._rounds: dict[str, Kept] = {}

    def _find(self, project: str, round_id: str) -> Kept | None:
        kept = self._rounds.get(round_id)
        if kept is None or kept.project != project or kept.round.batch not in self._batches.batches:
            return None
        return kept

    async def open_round(self, project: str, opened: RatingRound, positions: Sequence[int]) -> None:
        if await self._batches.find(project, opened.batch) is None:
            raise NotFound("there is no such batch in this project")
        self._rounds[opened.id] = Kept(project, opened, tuple(positions))

    async def find_round(self, project: str, round_id: str) -> RatingRound | None:
        kept = self._find(project, round_id)
        return kept.round if kept else None

    async def list_rounds(
        self, project: str, batch_id: str | None = None, *, limit: int = 200
    ) -> builtins.list[RatingRound]:
        seen = [kept.round for name in self._rounds if (kept := self._find(project, name))]
        newest = sorted(seen, key=lambda one: (one.created_at, one.id), reverse=True)
        return [one for one in newest if batch_id in {None, one.batch}][:limit]

    async def close_round(self, project: str, round_id: str, now: datetime) -> RatingRound | None:
        kept = self._find(project, round_id)
        if kept and kept.round.closed_at is None:
            kept.round = kept.round.model_copy(update={"closed_at": now})
        return kept.round if kept else None

    async def take(self, project: str, round_id: str, rater: str, now: datetime) -> Task | None:
        if not can_hold(rater):
            raise InvalidRequest("the rater's name holds what cannot be kept")
        kept = self._find(project, round_id)
        if kept is None or kept.round.closed_at is not None:
            return None
        had = kept.given.setdefault(rater, [])
        for one in had:
            if not one.done:
                one.taken_at = now if kept.has_room(one.position, rater, now) else one.taken_at
                return kept.tell(rater)[had.index(one)]
        seen = {one.position for one in had}
        free = [
            (-kept.done_at(position), own_order(kept.round.options.seed, rater, number), position)
            for number, position in enumerate(kept.positions)
            if position not in seen and kept.has_room(position, rater, now)
        ]
        if not free or len(had) >= kept.round.most_per_rater:
            return None
        had.append(Given(min(free)[-1], now))
        return kept.tell(rater)[-1]

    async def tasks(self, project: str, round_id: str, rater: str) -> builtins.list[Task]:
        kept = self._find(project, round_id)
        return kept.tell(rater) if kept else []

    async def finish(self, project: str, round_id: str, rater: str, position: int, now: datetime) -> bool:
        kept = self._find(project, round_id)
        mine = [one for one in kept.given.get(rater, []) if one.position == position] if kept else []
        for one in mine:
            one.done = True
        return bool(mine)

    async def progress(self, project: str, round_ids: Sequence[str]) -> dict[str, RoundProgress]:
        found = {name: self._find(project, name) for name in round_ids}
        return {name: describe(kept) for name, kept in found.items() if kept}


def describe(kept: Kept) -> RoundProgress:
    wanted = kept.round.options.raters_per_item
    rated = [min(wanted, kept.done_at(position)) for position in kept.positions]
    return RoundProgress(
        ratings=sum(rated),
        wanted=wanted * len(rated),
        complete=rated.count(wanted),
        raters={rater: sum(one.done for one in had) for rater, had in sorted(kept.given.items()) if had},
    )

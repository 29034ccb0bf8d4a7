"""Preferences of people: kept if their pairs are there, listed, removed, and given to rankings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate
from saiten_server.core.errors import MOST_FAULTS, InvalidLines
from saiten_server.core.evaluation import Choice
from saiten_server.platform.capability import Ground
from saiten_server.platform.sql import engine as db
from saiten_server.preferences.human.store import HumanPreferenceStore, measure_preferences
from saiten_server.preferences.human.values import (
    ORDERS,
    HumanPreference,
    KeptOpinion,
    NamedPair,
    PreferenceFilter,
    PreferencesAdded,
    StoredPreference,
)
from saiten_server.preferences.values import ShownPair
from saiten_server.ratings.values import PairOpinion
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore

CANDIDATES_AT_ONCE = 200
"""Candidates, of up to a megabyte each, that are read at a time."""


@dataclass(kw_only=True, eq=False)
class HumanPreferences:
    """Preferences of people within the caller's project. Methods raise InvalidRequest, ProjectFull, and StoreError."""

    store: HumanPreferenceStore
    batches: BatchStore
    quota: StorageQuota
    now: Callable[[], datetime]

    async def keep(
        self, project: str, given: Sequence[HumanPreference], shown_at: datetime | None = None
    ) -> PreferencesAdded:
        """Takes preferences in, all or none. A later one of a rater and a pair replaces the earlier. Raises
        InvalidLines, numbered from 1, where one names a pair that the project does not have."""
        await self.quota.require_room(project, await asyncio.to_thread(measure_preferences, given))
        pairs = await self.store.find_pairs(project, {one.pair for one in given if one.pair is not None})
        absent = [
            (number, Message("pair-not-found", name=one.pair))
            for number, one in enumerate(given, start=1)
            if one.pair is not None and one.pair not in pairs
        ]
        if absent:
            raise InvalidLines(absent[:MOST_FAULTS], len(absent))
        measured = await self._measure(pairs)
        opinions = [KeptOpinion(one, None if one.pair is None else measured[one.pair]) for one in given]
        return await self.store.keep(project, opinions, self.now(), shown_at)

    async def keep_shown(
        self,
        project: str,
        name: str,
        rater: str,
        preference: Choice,
        *,
        swapped: bool,
        reason: str | None,
        shown_at: datetime | None,
    ) -> None:
        """Keeps what a rater of a round prefers of the pair with this name. The rater and the reason are checked."""
        given = HumanPreference.model_construct(
            pair=name, rater=rater, preference=preference, shown=ORDERS[swapped], reason=reason
        )
        await self.keep(project, [given], shown_at)

    async def mark(self, project: str) -> tuple[int, int]:
        """What changes whenever a preference of the project does."""
        return await self.store.mark(project)

    async def own(self, project: str, name: str, rater: str) -> tuple[Choice, str | None] | None:
        """The rater's preference of the pair, and the reason."""
        return await self.store.own(project, name, rater)

    async def of_round(self, project: str, round_id: str, *, limit: int) -> Sequence[PairOpinion]:
        """The preferences of the round, without simulated ones and those of excluded raters, oldest first."""
        return [PairOpinion(*each) for each in await self.store.of_round(project, round_id, limit=limit)]

    async def _measure(self, pairs: Mapping[str, NamedPair]) -> dict[str, NamedPair]:
        """The pairs with the lengths of their sides, read where they are not known."""
        wanted = dict[str, set[int]]()
        for pair in pairs.values():
            for place in pair.places if None in pair.lengths else ():
                wanted.setdefault(place.batch, set()).add(place.position)
        lengths = dict[tuple[str, int], int]()
        for batch, positions in wanted.items():
            for some in db.cut_pieces(sorted(positions), CANDIDATES_AT_ONCE):
                read = await self.batches.asked(batch, some)
                lengths |= {(batch, position): count_said(one) for position, one in read.items()}
        return {
            name: replace(pair, lengths=(lengths.get(pair.first), lengths.get(pair.second)))
            if pair.first is not None and pair.second is not None and None in pair.lengths
            else pair
            for name, pair in pairs.items()
        }

    async def list(
        self, project: str, wanted: PreferenceFilter, *, after: int, limit: int
    ) -> tuple[Sequence[StoredPreference], int | None]:
        """Preferences in the order in which they came in, and the number of the last where more follow."""
        return await self.store.list(project, wanted, after=after, limit=limit)

    async def remove(self, project: str, wanted: PreferenceFilter) -> int:
        """Removes those that `wanted` names, and returns their number."""
        return await self.store.remove(project, wanted)

    async def shown(
        self, project: str, runs: Collection[str] | None = None, *, round_id: str | None = None
    ) -> Sequence[ShownPair]:
        """The looks of people at pairs of these runs, each rater's in the order in which they were shown, without
        simulated and excluded ones: see `HumanPreferenceStore.shown`."""
        return await self.store.shown(project, runs, round_id=round_id)


def count_said(candidate: Candidate) -> int:
    """Characters that the system said, in a response or in the turns of a conversation."""
    conversation = candidate.conversation
    if conversation is None:
        return len(candidate.response)
    return sum(len(conversation.turns[number].text) for number in conversation.system_turns)


def open_service(ground: Ground) -> HumanPreferences:
    """The service of this capability."""
    engine = ground.engine
    return HumanPreferences(
        store=HumanPreferenceStore(engine), batches=BatchStore(engine), quota=ground.quota, now=ground.now
    )

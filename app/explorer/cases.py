"""The explorer's cases: the results of some runs, in memory while someone looks at them, sorted and filtered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from saiten.core.messages import Message
from saiten_server.comparison.runs import are_unnamed, best_of
from saiten_server.core.batch import Batch
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import key_of
from saiten_server.core.rubric import Rubric
from saiten_server.platform.computations import Computations, PendingComputation
from saiten_server.ratings.reliability import fetch_ratings
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import StoredRating
from saiten_server.runs.result import MOST_BROWSED_RUNS, MOST_RESULTS, CasePage, CaseQuery, CaseScale
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.store.search import TextSearch
from saiten_server.runs.summaries import bounds_of
from saiten_server.runs.summary import BLENDED, SYSTEM

if TYPE_CHECKING:
    from saiten_server.explorer.case_table import CaseTable
    from saiten_server.runs.frame import Places
    from saiten_server.stats.observations import Floats

KEPT_BYTES = 256 * 1024 * 1024
"""Of frames and tables that are kept for the next visit."""

VISIT_WAIT_SECONDS = 1.0
"""How long a visit waits for what is not in memory yet."""


class CaseExplorer:
    """Cases of runs by one rubric. Methods raise InvalidRequest for no run, more than `MOST_BROWSED_RUNS` or too many
    results, and StoreError. The caller makes sure that the batches are the project's."""

    def __init__(
        self, *, frames: FrameStore, search: TextSearch, ratings: RatingStore, now: Callable[[], datetime]
    ) -> None:
        self.frames = frames
        self.search = search
        self._ratings = ratings
        self._kept = Computations(now=now, kept=KEPT_BYTES, size_of=lambda kept: int(kept.nbytes))

    async def close(self) -> None:
        """Stops what is being read."""
        await self._kept.close()

    async def look(
        self, project: str, batches: Sequence[Batch], rubric: Rubric, query: CaseQuery, *, offset: int, limit: int
    ) -> CasePage | PendingComputation:
        """The cases from an offset on, or a PendingComputation where they are not in memory within a second."""
        if not 1 <= len(batches) <= MOST_BROWSED_RUNS:
            raise InvalidRequest(Message("batches-named-most", maximum=MOST_BROWSED_RUNS))
        if (total := sum(batch.counts.total for batch in batches)) > MOST_RESULTS:
            raise InvalidRequest(Message("batches-results-most", total=total, most=MOST_RESULTS))
        table = await self._find(project, batches, rubric, VISIT_WAIT_SECONDS)
        if isinstance(table, PendingComputation):
            return table
        found = await self._search(project, batches, query)
        if isinstance(found, PendingComputation):
            return found
        people: Floats | None = None
        if query.sort == "people":
            measured = await self._measure_people(project, batches, table)
            if isinstance(measured, PendingComputation):
                return measured
            people = measured

        def work() -> CasePage:
            from saiten_server.explorer.case_table import choose_cases, page_of

            order, apart = choose_cases(table, query, found, people)
            return page_of(table, query, order, apart, offset=offset, limit=limit)

        return await asyncio.to_thread(work)

    async def _find(
        self, project: str, batches: Sequence[Batch], rubric: Rubric, wait_seconds: float
    ) -> CaseTable | PendingComputation:
        key = (rubric.id, rubric.version, *(state_of(batch) for batch in batches))
        return await self._kept.get(
            project, key, lambda: self._tabulate(project, batches, rubric), wait_seconds=wait_seconds
        )

    async def _search(
        self, project: str, batches: Sequence[Batch], query: CaseQuery
    ) -> Sequence[Sequence[Places]] | PendingComputation:
        """The positions by run that each search leaves. One that was made a moment ago is not made again. The runs are
        searched one after another, so that a request takes one turn at a time."""
        searches: list[tuple[tuple[str, ...], Callable[[str], Awaitable[Places]]]] = []
        if (text := query.text) is not None:
            searches.append((("text", text), partial(self.search.find, project, wanted=text)))
        if (entry := query.metadata) is not None:
            key, value = entry
            searches.append((("entry", *entry), partial(self.search.find_entry, project, key=key, value=value)))
        found = []
        for asked, search in searches:
            places = []
            for batch in batches:
                place = (*asked, *state_of(batch))
                kept = await self._kept.get(project, place, partial(search, batch.id), wait_seconds=VISIT_WAIT_SECONDS)
                if isinstance(kept, PendingComputation):
                    return kept
                places.append(kept)
            found.append(places)
        return found

    async def _tabulate(self, project: str, batches: Sequence[Batch], rubric: Rubric) -> CaseTable:
        frames = [await self.frames.read_frame(project, batch.id) for batch in batches]
        best, scales = best_of(rubric), dict[str, CaseScale]()
        for name, (low, high) in bounds_of(rubric).items():
            scales[name] = CaseScale(low, high, best.get(name))
            # A blended value counts on its aspect's scale, as it is.
            scales[name + BLENDED] = CaseScale(low, high)
        comparable = len({batch.texts for batch in batches}) == 1 and batches[0].texts != "drop"

        def work() -> CaseTable:
            from saiten_server.explorer.case_table import identify, make_case_table

            numbered = any(map(are_unnamed, batches, (frame.items for frame in frames)))
            keys = identify(frames, numbered=numbered, comparable=comparable)
            return make_case_table(frames, keys, scales, [aspect.id for aspect in rubric.aspects])

        return await asyncio.to_thread(work)

    async def _measure_people(
        self, project: str, batches: Sequence[Batch], table: CaseTable
    ) -> Floats | PendingComputation:
        """How far the judge is from people; see `measure_people`. Until a rating comes in, it stays as it is."""

        async def measure() -> Floats:
            found = await fetch_ratings(self._ratings, project, [batch.id for batch in batches])
            ids = [rating.evaluation for rating in found.ratings if rating.evaluation is not None]
            places = await self.frames.find_places(project, ids)

            def work() -> Floats:
                from saiten_server.explorer.case_table import measure_people

                return measure_people(table, place_ratings(batches, table, found.ratings, places))

            return await asyncio.to_thread(work)

        excluded = await self._ratings.exclusions(project)
        rated = await self._ratings.mark(project), tuple((one.rater, one.round) for one in excluded)
        key = ("people", rated, *(state_of(batch) for batch in batches))
        return await self._kept.get(project, key, measure, wait_seconds=VISIT_WAIT_SECONDS)


def state_of(batch: Batch) -> tuple[Any, ...]:
    """A value that changes whenever the batch's results do."""
    return batch.id, batch.status, batch.finished_at, batch.texts, *batch.counts.model_dump().values()


def place_ratings(
    batches: Sequence[Batch],
    table: CaseTable,
    ratings: Sequence[StoredRating],
    places: Mapping[str, tuple[str, int]],
) -> Mapping[tuple[int, int], Mapping[str, float]]:
    """The mean ratings by run and case. A rating of an item in no batch is one of every run's of its system."""
    import numpy as np

    given: dict[tuple[int, int], dict[str, list[float]]] = {}
    wanted = {key_of(rating.item) for rating in ratings if rating.item is not None}
    for run, (batch, frame) in enumerate(zip(batches, table.frames, strict=True)):
        rows = np.flatnonzero(np.isin(frame.items, np.array([*wanted], dtype=np.int64)))
        cases: dict[int, set[int]] = {}
        for row in rows.tolist():
            cases.setdefault(int(frame.items[row]), set()).add(int(table.case[run][row]))
        for rating in ratings:
            if rating.evaluation is not None:
                batch_id, position = places.get(rating.evaluation, ("", -1))
                row = int(np.searchsorted(frame.positions, position)) if batch_id == batch.id else len(frame.positions)
                there = row < len(frame.positions) and frame.positions[row] == position
                found = {int(table.case[run][row])} if there else set()
            elif rating.batch not in (None, batch.id) or rating.system not in (None, batch.metadata.get(SYSTEM)):
                continue
            else:
                found = cases.get(key_of(rating.item or ""), set())
            for case in found if len(found) == 1 else ():
                for name, value in rating.ratings.items():
                    given.setdefault((run, case), {}).setdefault(name, []).append(value)
    return {place: {name: sum(each) / len(each) for name, each in values.items()} for place, values in given.items()}

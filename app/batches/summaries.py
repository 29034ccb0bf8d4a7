"""Summaries on request: of the figures that the store keeps, or of all scores where it has none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from app.batch_ports import BatchStore, Scored
from app.batches.intervals import MOST_UNFINISHED, find_intervals, postpone_intervals
from app.batches.summary import BLENDED, summarize_tally, tally_pages
from app.domain.batch import Batch
from app.domain.errors import StoreError
from app.domain.rubric import Rubric
from app.domain.summary import Intervals, Summary
from app.domain.tally import Tally
from app.ports import RubricSource

NOT_COMPUTED = Intervals(results=0, clusters=None, measures={})
SCORES_PAGE = 1000
ENDED = ("completed", "cancelled")


class Summaries:
    """Sums batches up."""

    def __init__(self, store: BatchStore, rubrics: RubricSource) -> None:
        self._store = store
        self._rubrics = rubrics

    async def summarize(self, project: str, batch: Batch) -> Summary:
        """The summary of the results that there are now. Raises UnknownRubric where its rubric is gone."""
        rubric = self._rubrics.nearest(batch.rubric_name)
        return (await self._sum(project, [(batch, rubric)]))[batch.id]

    async def summarize_all(
        self, project: str, batches: Sequence[Batch], *, intervals: bool = True
    ) -> dict[str, Summary]:
        """The summaries by batch, without those whose rubric is gone. Without `intervals` only those that are kept are
        given: to compute one takes every value of its batch."""
        known = {rubric.id for rubric in self._rubrics.list()}
        found = [(batch, self._rubrics.nearest(batch.rubric_name)) for batch in batches if batch.rubric in known]
        return await self._sum(project, found, intervals=intervals)

    async def _sum(
        self, project: str, asked: Sequence[tuple[Batch, Rubric]], *, intervals: bool = True
    ) -> dict[str, Summary]:
        ids = [batch.id for batch, _ in asked]
        kept, estimated = await self._store.tallies(project, ids), await self._store.intervals(project, ids)
        found = {}
        for batch, rubric in asked:
            tally = kept.get(batch.id) or await self._add_up(project, batch)
            known = estimated.get(batch.id)
            if known is None and intervals:
                known = await self._find_intervals(project, batch, rubric, tally)
            found[batch.id] = summarize_tally(rubric, tally, batch, known or NOT_COMPUTED)
        return found

    async def _find_intervals(self, project: str, batch: Batch, rubric: Rubric, tally: Tally) -> Intervals:
        """The intervals, out of every value; those of a batch that has ended are kept likewise."""
        if batch.status not in ENDED and tally.results > MOST_UNFINISHED:
            blended = (name + BLENDED for name in tally.aspects)
            return postpone_intervals([*tally.aspects, *tally.composites, *blended], tally.results)
        found = await find_intervals(self._store, project, batch, rubric)
        if batch.status in ENDED:
            with suppress(StoreError):
                await self._store.keep_intervals(project, batch.id, found)
        return found

    async def _add_up(self, project: str, batch: Batch) -> Tally:
        """The figures, out of every score; those of a batch that has ended are kept for who asks again."""
        tally = await tally_pages(score_pages(self._store, project, batch.id))
        if batch.status in ENDED:
            with suppress(StoreError):  # a full disk is no reason to tell nothing
                await self._store.keep_tally(project, batch.id, tally)
        return tally


async def score_pages(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[Sequence[Scored]]:
    """The scores of every result that the batch has now, in order, some at a time."""
    after = -1
    while page := await store.scores(project, batch_id, after=after, limit=SCORES_PAGE):
        yield page
        after = page[-1].entry.position

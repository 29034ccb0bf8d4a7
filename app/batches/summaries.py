"""Summaries on request; those of completed batches, which change no more, are kept for who asks again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from app.batch_ports import BatchStore, Scored
from app.batches.summary import summarize_pages
from app.domain.batch import Batch
from app.domain.summary import Summary
from app.ports import RubricSource

SCORES_PAGE = 1000
KEPT = 64


class Summaries:
    """Sums batches up. The last `KEPT` summaries of completed batches are held in memory: they hold no text."""

    def __init__(self, store: BatchStore, rubrics: RubricSource) -> None:
        self._store = store
        self._rubrics = rubrics
        self._kept: OrderedDict[tuple[str, datetime], Summary] = OrderedDict()

    async def summarize(self, project: str, batch: Batch) -> Summary:
        """The summary of the results that there are now. Raises UnknownRubric where its rubric is gone."""
        if batch.status != "completed" or batch.finished_at is None:
            return await self._sum(project, batch)
        key = (batch.id, batch.finished_at)
        if key not in self._kept:
            self._kept[key] = await self._sum(project, batch)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]

    async def _sum(self, project: str, batch: Batch) -> Summary:
        return await summarize_pages(
            self._rubrics.get(batch.rubric), score_pages(self._store, project, batch.id), batch
        )


async def score_pages(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[Sequence[Scored]]:
    """The scores of every result that the batch has now, in order, some at a time."""
    after = -1
    while page := await store.scores(project, batch_id, after=after, limit=SCORES_PAGE):
        yield page
        after = page[-1].entry.position

"""The intervals of a batch's means, with dialogues as the units, from the values that are kept of each result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from app.batch_ports import BatchStore, ValuesPage
from app.domain.batch import Batch
from app.domain.composites import range_of
from app.domain.rubric import Rubric
from app.domain.summary import Intervals, MeanEstimate

if TYPE_CHECKING:
    import numpy as np

    from app.analysis.observations import Floats, Integers

PAGE = 1000
MOST_UNFINISHED = 20_000
"""Results of a batch that still goes on whose values are read at each request; it takes a fifth of a second."""

WAITING = "the batch is still running: the intervals of so many results are computed at its end"

Bounds = Mapping[str, tuple[float, float]]
"""Lowest and highest value by measure; blended ones have no scale and are not in it."""


async def find_intervals(store: BatchStore, project: str, batch: Batch, rubric: Rubric) -> Intervals:
    """The intervals of the results that there are now. Memory: 8 bytes per value. Another thread does the work."""
    values, after = Values(), -1
    while (page := await store.values(project, batch.id, after=after, limit=PAGE)).rows:
        await asyncio.to_thread(values.add, page)
        after = page.rows[-1][0]
    return await asyncio.to_thread(values.estimate, bounds_of(rubric))


def postpone_intervals(names: Iterable[str], results: int) -> Intervals:
    """What is said in their place of a batch that goes on and has many results."""
    waiting = MeanEstimate(clusters=0, interval=None, reason=WAITING)
    return Intervals(results=results, clusters=None, measures=dict.fromkeys(names, waiting))


def bounds_of(rubric: Rubric) -> Bounds:
    """The scales of everything that a rubric measures."""
    aspects = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
    return {**aspects, **{composite.id: range_of(composite, rubric) for composite in rubric.composites}}


class Values:
    """The values of results, column by column, with the clusters that they belong to."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._columns: list[list[Floats]] = []
        self._clusters: list[np.typing.NDArray[np.uint64]] = []

    def add(self, page: ValuesPage) -> None:
        """Takes in results that follow those before; their measures are those before, and perhaps more."""
        import numpy as np

        self._names = page.names
        table = np.array([row[2:] for row in page.rows], dtype=np.float64)
        before = [np.full(len(one), np.nan) for one in self._clusters]
        self._columns += ([*before] for _ in range(len(page.names) - len(self._columns)))
        for values, column in zip(self._columns, table.T, strict=True):
            values.append(column.copy())
        self._clusters.append(np.array([0 if row[1] is None else int(row[1], 16) for row in page.rows], np.uint64))

    def estimate(self, bounds: Bounds) -> Intervals:
        """The interval of each measure's mean. numpy and scipy are loaded here."""
        import numpy as np

        from app.analysis.resampling import estimate_mean

        if not self._clusters:
            return Intervals(results=0, clusters=None, measures={})
        cluster, known = number_clusters(np.concatenate(self._clusters))
        units = int(cluster.max()) + 1
        found = {}
        for name, parts in zip(self._names, self._columns, strict=True):
            column = np.concatenate(parts)
            held = ~np.isnan(column)
            sums = np.bincount(cluster[held], weights=column[held], minlength=units).astype(np.float64)
            counts = np.bincount(cluster[held], minlength=units).astype(np.float64)
            one = estimate_mean(sums, counts, bounds=bounds.get(name))
            found[name] = MeanEstimate(clusters=one.clusters, interval=one.interval, reason=one.reason)
        return Intervals(results=len(cluster), clusters=units if known else None, measures=found)


def number_clusters(digests: np.typing.NDArray[np.uint64]) -> tuple[Integers, bool]:
    """Each result's cluster, from 0 without gaps, shape (n,), and whether any was given; 0 is none: one of its own."""
    import numpy as np

    alone = np.flatnonzero(digests == 0)
    names, numbers = np.unique(digests, return_inverse=True)
    first = int(names[0] == 0)
    cluster = numbers.astype(np.int64) - first
    cluster[alone] = len(names) - first + np.arange(len(alone))
    return cluster, len(names) > first

"""Summaries of batches: from the figures that the store keeps, or from all scores where it has none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from math import inf, sqrt
from typing import TYPE_CHECKING

from app.domain.batch import EXPIRED, Batch, Counts
from app.domain.comparison import FINDING
from app.domain.composites import range_of
from app.domain.conversation import ANY_CODE, CODES, KIND, KIND_CODES, KINDS, KINDS_KNOWN, FaultyTurns
from app.domain.errors import StoreError
from app.domain.rubric import Aspect, Rubric
from app.domain.summary import (
    BUILD,
    SYSTEM,
    AspectSummary,
    AspectTally,
    BuildFixes,
    Coverage,
    FaultTally,
    FindingRate,
    FindingSummary,
    FixFirst,
    Intervals,
    MeanEstimate,
    Moments,
    Scored,
    Spread,
    Summary,
    Tally,
    ValuesPage,
    add_scores,
)
from app.stats.phrases import NO_VALUES
from app.storage.rubric_files import RubricSource
from saiten.core.messages import Message

if TYPE_CHECKING:
    import numpy as np

    from app.stats.observations import Floats, Integers
    from app.storage.sql.batches.store import BatchStore


BLENDED = ".blended"
OVERALL = "overall"
"""The aspect by which kinds of faults are weighed."""
UNSEEN = AspectTally()
NOTHING = Moments()
NOT_KEPT = Message("measures-not-kept")


def summarize_tally(rubric: Rubric, tally: Tally, batch: Batch, intervals: Intervals) -> Summary:
    """The results in figures; the bill, the total and the signatures are the batch's own. Everything that the rubric
    has is there, then what only older results have."""
    known = intervals.measures
    aspects = {aspect.id: aspect for aspect in rubric.aspects}
    names = dict.fromkeys([*aspects, *tally.aspects])
    composites = dict.fromkeys([*(composite.id for composite in rubric.composites), *tally.composites])
    rated = sum(tally.aspects.get(aspect.id, UNSEEN).means.n for aspect in rubric.aspects)
    unfit = sum(tally.aspects.get(aspect.id, UNSEEN).reasons["not-applicable"] for aspect in rubric.aspects)
    expected = batch.counts.total * len(rubric.aspects) - unfit
    findings = summarize_findings(tally, known) if rubric.unit == "conversation" else None
    return Summary(
        batch=batch.id,
        name=batch.name,
        status=batch.status,
        rubric=batch.rubric,
        rubric_version=batch.rubric_version,
        counts=count_statuses(tally, batch.counts.total),
        coverage=Coverage(rated=rated, expected=expected, share=rated / expected if expected else None),
        aspects={
            name: summarize_aspect(name, aspects.get(name), tally.aspects.get(name, UNSEEN), known) for name in names
        },
        composites={name: spread(tally.composites.get(name, NOTHING), known.get(name)) for name in composites},
        warnings=rank(tally.warnings),
        failures=rank(tally.failures),
        usage=batch.usage,
        signature=batch.signature,
        signatures=batch.signatures,
        findings=findings,
        faulty_turns=None if findings is None else findings.any,
        kinds=summarize_kinds(tally, known) if rubric.kinds else None,
        fix_first=intervals.fix_first if rubric.kinds else None,
        fix_first_by_system=intervals.fix_first_by_system if rubric.kinds else {},
        fix_first_by_build=intervals.fix_first_by_build if rubric.kinds else (),
        clusters=intervals.clusters,
    )


def summarize_aspect(
    name: str, aspect: Aspect | None, tally: AspectTally, known: Mapping[str, MeanEstimate]
) -> AspectSummary:
    """The aspect in figures; None for one that the rubric does not have any more."""
    levels = Counter(dict.fromkeys(aspect.values, 0) if aspect else {})
    levels.update(tally.levels)
    return AspectSummary(
        **dict(spread(tally.means, known.get(name))),
        unrated=tally.reasons.total(),
        unrated_reasons=rank(tally.reasons),
        histogram={str(level): count for level, count in sorted(levels.items())},
        blended=spread(tally.blended, known.get(name + BLENDED)) if tally.blended.n else None,
    )


def summarize_findings(tally: Tally, known: Mapping[str, MeanEstimate]) -> FindingSummary:
    """The findings in figures, by every code that there is."""
    rates = {code: find_rate(tally.findings.get(code, FaultTally()), known.get(FINDING + code)) for code in CODES}
    return FindingSummary(any=rates.pop(ANY_CODE), codes=rates)


def summarize_kinds(tally: Tally, known: Mapping[str, MeanEstimate]) -> dict[str, FindingRate]:
    """The findings in figures, by every kind of fault that there is."""
    return {
        kind: find_rate(tally.findings.get(KIND + kind, FaultTally()), known.get(FINDING + KIND + kind))
        for kind in KINDS
    }


def find_rate(found: FaultTally, estimate: MeanEstimate | None) -> FindingRate:
    """What the findings of one code amount to."""

    def per_hundred(turns: int, of: int) -> float | None:
        return 100 * turns / of if of else None

    return FindingRate(
        conversations=found.conversations,
        system_turns=sum(found.system_turns),
        turns=sum(found.turns),
        rate=per_hundred(sum(found.turns), sum(found.system_turns)),
        interval=estimate.interval if estimate else None,
        clusters=estimate.clusters if estimate else 0,
        reason=estimate.reason if estimate else NO_VALUES,
        thirds=tuple(map(per_hundred, found.turns, found.system_turns)),
    )


def spread(moments: Moments, estimate: MeanEstimate | None) -> Spread:
    """What the values amount to."""
    if not moments.n:
        return Spread(n=0, mean=None, sd=None, interval=None, reason=NO_VALUES)
    return Spread(
        n=moments.n,
        mean=moments.mean,
        sd=sqrt(moments.squares / (moments.n - 1)) if moments.n > 1 else None,
        interval=estimate.interval if estimate else None,
        clusters=estimate.clusters if estimate else 0,
        reason=estimate.reason if estimate else NOT_KEPT,
    )


def count_statuses(tally: Tally, total: int) -> Counts:
    """Counted here rather than taken from the batch, which may have gone on since its results were read."""
    done, expired = tally.statuses, tally.failures[EXPIRED.code]
    queued, failed = max(0, total - tally.results), done["failed"] - expired
    return Counts(
        total=total, queued=queued, scored=done["scored"], partial=done["partial"], failed=failed, expired=expired
    )


async def tally_pages(pages: AsyncIterable[Sequence[Scored]]) -> Tally:
    """The figures of results that come page by page."""
    tally = Tally()
    async for page in pages:
        for result in page:
            add_scores(tally, result.scores)
    return tally


def rank(counter: Counter[str]) -> dict[str, int]:
    """The counts by name, the most frequent first, equal ones by name."""
    return dict(sorted(counter.items(), key=lambda entry: (-entry[1], entry[0])))


PAGE = 1000
MOST_UNFINISHED = 20_000
"""Results of a batch that still goes on whose values are read at each request; it takes a fifth of a second."""

WAITING = Message("batch-still-running")

Bounds = Mapping[str, tuple[float, float]]
"""Lowest and highest value by measure; blended ones have no scale and are not in it."""


def bounds_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of everything that a rubric measures: its aspects and composites."""
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

        from app.stats.resampling import estimate_mean

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


def estimate_findings(results: Sequence[Scored]) -> dict[str, MeanEstimate]:
    """The intervals of the rates of findings, as `finding:CODE`. numpy and scipy are loaded here."""
    import numpy as np

    from app.stats.resampling import estimate_rate

    digests = [0 if one.entry.cluster is None else int(one.entry.cluster, 16) for one in results]
    cluster, _ = number_clusters(np.array(digests, np.uint64))
    found = {}
    for code in (*CODES, *KIND_CODES):
        turns = [one.scores.faulty and one.scores.faulty.turns_of(code) for one in results]
        rows = np.array([row for row, known in enumerate(turns) if known is not None], np.int64)
        faulty = np.array([100.0 * len(known) for known in turns if known is not None])
        counts = np.array([float(one.scores.faulty.system_turns) for one in results if one.scores.faulty])[rows]
        sums, sizes = (np.bincount(cluster[rows], weights=each).astype(np.float64) for each in (faulty, counts))
        rate = estimate_rate(sums, sizes, bounds=(0.0, 100.0))
        found[FINDING + code] = MeanEstimate(clusters=rate.clusters, interval=rate.interval, reason=rate.reason)
    return found


def rank_kinds(results: Sequence[Scored]) -> tuple[FixFirst, ...]:
    """What to mend first: the kinds of faults that occur, by how far they lower the mean `overall`, the furthest first
    and what has no weight last. numpy and scipy are loaded here."""
    import numpy as np

    from app.stats.priorities import weigh_fault

    rated: list[tuple[float, FaultyTurns, str | None]] = []
    for one in results:
        overall, faulty = one.scores.aspects.get(OVERALL), one.scores.faulty
        if overall is not None and overall[0] is not None and faulty is not None and KINDS_KNOWN in faulty.found:
            rated.append((overall[0], faulty, one.entry.cluster))
    ratings = np.array([rating for rating, _, _ in rated])
    digests = np.array([0 if cluster is None else int(cluster, 16) for _, _, cluster in rated], np.uint64)
    clusters = number_clusters(digests)[0] if rated else np.empty(0, np.int64)
    system_turns = sum(faulty.system_turns for _, faulty, _ in rated)
    found = []
    for kind in KINDS:
        turns = np.array([len(faulty.found.get(KIND + kind, ())) for _, faulty, _ in rated])
        if not turns.any():
            continue
        weighed = weigh_fault(ratings, turns > 0, clusters)
        found.append(
            FixFirst(
                kind=kind,
                conversations=int(np.count_nonzero(turns)),
                of=len(rated),
                rate=100 * float(turns.sum()) / system_turns,
                effect=weighed.effect,
                weight=weighed.weight,
                interval=weighed.interval,
                reason=weighed.reason,
            )
        )
    return tuple(sorted(found, key=lambda one: -inf if one.weight is None else one.weight, reverse=True))


def rank_kinds_by_system(results: Sequence[Scored], own: Mapping[str, str]) -> dict[str, tuple[FixFirst, ...]]:
    """The same by system, where results have several; `own` are the metadata of all, for results without any."""
    by_system: dict[str, list[Scored]] = {}
    for one in results:
        if (system := one.scores.system or own.get(SYSTEM)) is not None:
            by_system.setdefault(system, []).append(one)
    return {name: rank_kinds(some) for name, some in sorted(by_system.items())} if len(by_system) > 1 else {}


def rank_kinds_by_build(results: Sequence[Scored], own: Mapping[str, str]) -> tuple[BuildFixes, ...]:
    """The same by system and build, where results have several builds."""
    by_build: dict[tuple[str | None, str | None], list[Scored]] = {}
    for one in results:
        key = one.scores.system or own.get(SYSTEM), one.scores.build or own.get(BUILD)
        by_build.setdefault(key, []).append(one)
    if len(by_build) < 2 or not any(build for _, build in by_build):
        return ()
    groups = sorted(by_build.items(), key=lambda group: [name or "" for name in group[0]])
    return tuple(BuildFixes(system=key[0], build=key[1], fix_first=rank_kinds(some)) for key, some in groups)


def number_clusters(digests: np.typing.NDArray[np.uint64]) -> tuple[Integers, bool]:
    """Each result's cluster, from 0 without gaps, shape (n,), and whether any was given; 0 is none: one of its own."""
    import numpy as np

    alone = np.flatnonzero(digests == 0)
    names, numbers = np.unique(digests, return_inverse=True)
    first = int(names[0] == 0)
    cluster = numbers.astype(np.int64) - first
    cluster[alone] = len(names) - first + np.arange(len(alone))
    return cluster, len(names) > first


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
            names = [*tally.aspects, *tally.composites, *(name + BLENDED for name in tally.aspects)]
            names += (FINDING + code for code in tally.findings)
            waiting = MeanEstimate(clusters=0, interval=None, reason=WAITING)
            return Intervals(results=tally.results, clusters=None, measures=dict.fromkeys(names, waiting))
        # Memory: 8 bytes per value. Another thread does the work.
        values, after = Values(), -1
        while (page := await self._store.values(project, batch.id, after=after, limit=PAGE)).rows:
            await asyncio.to_thread(values.add, page)
            after = page.rows[-1][0]
        found = await asyncio.to_thread(values.estimate, bounds_of(rubric))
        if tally.findings:
            rated = [
                one async for page in score_pages(self._store, project, batch.id) for one in page if one.scores.faulty
            ]
            rates = await asyncio.to_thread(estimate_findings, rated)
            update: dict[str, object] = {"measures": {**found.measures, **rates}}
            if rubric.kinds:
                own = batch.metadata
                update["fix_first"] = await asyncio.to_thread(rank_kinds, rated)
                update["fix_first_by_system"] = await asyncio.to_thread(rank_kinds_by_system, rated, own)
                update["fix_first_by_build"] = await asyncio.to_thread(rank_kinds_by_build, rated, own)
            found = found.model_copy(update=update)
        if batch.status in ENDED:
            with suppress(StoreError):
                await self._store.keep_intervals(project, batch.id, found)
        return found

    async def _add_up(self, project: str, batch: Batch) -> Tally:
        """The figures, out of every score; those of a batch that has ended are kept for who asks again."""
        tally = await tally_pages(score_pages(self._store, project, batch.id))
        if batch.status in ENDED:
            with suppress(StoreError):  # a full disk must not prevent the answer
                await self._store.keep_tally(project, batch.id, tally)
        return tally


async def score_pages(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[Sequence[Scored]]:
    """The scores of every result that the batch has now, in order, some at a time."""
    after = -1
    while page := await store.scores(project, batch_id, after=after, limit=SCORES_PAGE):
        yield page
        after = page[-1].entry.position

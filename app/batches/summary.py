"""Sums a batch's results up, from the figures that were kept of them or as they stream by, in constant memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Mapping, Sequence
from math import sqrt

from app.batch_ports import Scored
from app.domain.batch import EXPIRED, Batch, Counts
from app.domain.rubric import Aspect, Rubric
from app.domain.summary import AspectSummary, Coverage, Intervals, MeanEstimate, Spread, Summary
from app.domain.tally import AspectTally, Moments, Tally
from app.tally import add_scores

BLENDED = ".blended"
UNSEEN = AspectTally()
NOTHING = Moments()
NO_VALUES = "there are no values"
NOT_KEPT = "so many measures are not kept by result"


def summarize_tally(rubric: Rubric, tally: Tally, batch: Batch, intervals: Intervals) -> Summary:
    """The results in figures; the bill, the total and the signatures are the batch's own.

    Everything that the rubric has is there, then what only older results have.
    """
    known = intervals.measures
    aspects = {aspect.id: aspect for aspect in rubric.aspects}
    names = dict.fromkeys([*aspects, *tally.aspects])
    composites = dict.fromkeys([*(composite.id for composite in rubric.composites), *tally.composites])
    return Summary(
        batch=batch.id,
        name=batch.name,
        status=batch.status,
        rubric=batch.rubric,
        rubric_version=batch.rubric_version,
        counts=count_statuses(tally, batch.counts.total),
        coverage=cover(rubric, tally, batch.counts.total),
        aspects={
            name: summarize_aspect(name, aspects.get(name), tally.aspects.get(name, UNSEEN), known) for name in names
        },
        composites={name: spread(tally.composites.get(name, NOTHING), known.get(name)) for name in composites},
        warnings=rank(tally.warnings),
        failures=rank(tally.failures),
        usage=batch.usage,
        signature=batch.signature,
        signatures=batch.signatures,
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
    return Counts(
        total=total,
        queued=max(0, total - tally.results),
        scored=tally.statuses["scored"],
        partial=tally.statuses["partial"],
        failed=tally.statuses["failed"] - tally.failures[EXPIRED.code],
        expired=tally.failures[EXPIRED.code],
    )


def cover(rubric: Rubric, tally: Tally, total: int) -> Coverage:
    """How many of the verdicts that were asked for there are."""
    rated = sum(tally.aspects.get(aspect.id, UNSEEN).means.n for aspect in rubric.aspects)
    expected = total * len(rubric.aspects)
    return Coverage(rated=rated, expected=expected, share=rated / expected if expected else None)


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

"""Sums a batch's results up as they stream by, in constant memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Iterable, Sequence
from math import sqrt

from app.batch_ports import Scored, Scores
from app.domain.batch import Batch, Counts
from app.domain.errors import JudgeReplyInvalid
from app.domain.intervals import interval_of_mean
from app.domain.rubric import Aspect, Rubric
from app.domain.summary import AspectSummary, Coverage, Spread, Summary


class Moments:
    """Mean and squared deviations of the values so far, by Welford's updates: equal values deviate by exactly 0."""

    __slots__ = ("mean", "n", "squares")

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.squares = 0.0

    def add(self, value: float) -> None:
        """Takes one value in."""
        self.n += 1
        deviation = value - self.mean
        self.mean += deviation / self.n
        self.squares += deviation * (value - self.mean)

    def spread(self) -> Spread:
        """What the values amount to."""
        mean = self.mean if self.n else None
        sd = sqrt(self.squares / (self.n - 1)) if self.n > 1 else None
        return Spread(n=self.n, mean=mean, sd=sd, interval=interval_of_mean(self.n, mean, sd))


class AspectTally:
    """One aspect's verdicts so far. `aspect` is None for one that the rubric does not have any more."""

    def __init__(self, aspect: Aspect | None) -> None:
        self.means = Moments()
        self.blended = Moments()
        self.reasons: Counter[str] = Counter()
        self._levels: Counter[int] = Counter(dict.fromkeys(aspect.values, 0) if aspect else {})

    def add(self, mean: float | None, blended: float | None, reason: str | None, rating: int | None) -> None:
        """Takes one result's entry of `Scores.aspects` in."""
        if mean is None:
            self.reasons[reason or "missing"] += 1
            return
        self.means.add(mean)
        if rating is not None:
            self._levels[rating] += 1
        if blended is not None:
            self.blended.add(blended)

    def summary(self) -> AspectSummary:
        """The aspect in figures."""
        return AspectSummary(
            **dict(self.means.spread()),
            unrated=self.reasons.total(),
            unrated_reasons=rank(self.reasons),
            histogram={str(level): count for level, count in sorted(self._levels.items())},
            blended=self.blended.spread() if self.blended.n else None,
        )


class SummaryTally:
    """All results of a batch so far. Add each once, in any order."""

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self._aspects = {aspect.id: AspectTally(aspect) for aspect in rubric.aspects}
        self._composites = {composite.id: Moments() for composite in rubric.composites}
        self._statuses: Counter[str] = Counter()
        self._warnings: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def add(self, scores: Scores) -> None:
        """Takes one result in."""
        self._statuses[scores.status] += 1
        for name, figures in scores.aspects.items():
            tally = self._aspects.get(name)
            if tally is None:
                tally = self._aspects[name] = AspectTally(None)
            tally.add(*figures)
        for name, value in scores.composites.items():
            if value is not None:
                self._composites.setdefault(name, Moments()).add(value)
        if scores.warnings:
            self._warnings.update(scores.warnings)
        if scores.status == "failed":
            # An evaluation with not one rating carries no failure: outside a batch it would have been this one.
            self._failures[scores.failure or JudgeReplyInvalid.code] += 1

    def summary(self, batch: Batch) -> Summary:
        """The results in figures; the bill, the total and the signatures are the batch's own."""
        return Summary(
            batch=batch.id,
            name=batch.name,
            status=batch.status,
            rubric=batch.rubric,
            counts=self._count(batch.counts.total),
            coverage=self._cover(batch.counts.total),
            aspects={name: tally.summary() for name, tally in self._aspects.items()},
            composites={name: moments.spread() for name, moments in self._composites.items()},
            warnings=rank(self._warnings),
            failures=rank(self._failures),
            usage=batch.usage,
            signature=batch.signature,
            signatures=batch.signatures,
        )

    def _count(self, total: int) -> Counts:
        """Counted here rather than taken from the batch, which may have gone on since its results were read."""
        return Counts(
            total=total,
            queued=max(0, total - self._statuses.total()),
            scored=self._statuses["scored"],
            partial=self._statuses["partial"],
            failed=self._statuses["failed"],
        )

    def _cover(self, total: int) -> Coverage:
        rated = sum(self._aspects[aspect.id].means.n for aspect in self._rubric.aspects)
        expected = total * len(self._rubric.aspects)
        return Coverage(rated=rated, expected=expected, share=rated / expected if expected else None)


def summarize(rubric: Rubric, results: Iterable[Scored], batch: Batch) -> Summary:
    """The summary of all results of `batch`."""
    tally = SummaryTally(rubric)
    for result in results:
        tally.add(result.scores)
    return tally.summary(batch)


async def summarize_pages(rubric: Rubric, pages: AsyncIterable[Sequence[Scored]], batch: Batch) -> Summary:
    """The same, of results that come page by page."""
    tally = SummaryTally(rubric)
    async for page in pages:
        for result in page:
            tally.add(result.scores)
    return tally.summary(batch)


def rank(counter: Counter[str]) -> dict[str, int]:
    """The counts by name, the most frequent first, equal ones by name."""
    return dict(sorted(counter.items(), key=lambda entry: (-entry[1], entry[0])))

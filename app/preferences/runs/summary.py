"""Counts what a preference run has found so far, page by page."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field

from saiten_server.core.batch import Batch, PairPlan
from saiten_server.core.model import key_of
from saiten_server.core.preference import Look
from saiten_server.preferences.runs.values import (
    ChoiceCounts,
    ComparedRuns,
    PositionReport,
    PreferenceSummary,
    RunPlace,
)
from saiten_server.preferences.store import PairSeen, as_shown
from saiten_server.runs.summary import MISSING

DEPENDENT = "position_dependent"


@dataclass
class PairTally:
    """What was seen so far. `same` and `both` count, by cluster, pairs with equal answers of those with two. Memory: a
    few numbers for each cluster, and for each pair of runs."""

    counts: dict[tuple[str, tuple[int, int]], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    shown: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    same: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    both: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    items: set[int] = field(default_factory=set)
    clusters: set[int] = field(default_factory=set)

    def add(self, seen: PairSeen) -> None:
        """Counts one pair."""
        cluster = key_of(seen.cluster or f"item {seen.item}")
        self.items.add(key_of(seen.item))
        self.clusters.add(cluster)
        for aspect, looks in seen.looks.by_aspect.items():
            counts = self.counts[aspect, seen.looks.runs]
            choice, dependent = settle(looks)
            counts[choice] += 1
            counts[DEPENDENT] += dependent
            for look in looks:
                if look.choice is not None:
                    self.shown[aspect][as_shown(look)] += 1
            if len(looks) == 2 and None not in {look.choice for look in looks}:
                self.both[aspect][cluster] += 1
                self.same[aspect][cluster] += looks[0].choice == looks[1].choice


def settle(looks: Sequence[Look]) -> tuple[str, bool]:
    """The preference of a pair by its looks, and whether it depends on the order."""
    said = {look.choice for look in looks}
    if None in said or not said:
        return MISSING, False
    only = next(iter(said))
    return (only if len(said) == 1 and only is not None else "tie"), {"first", "second"} <= said


async def count_choices(
    batch: Batch, plan: PairPlan, pages: AsyncIterable[Sequence[PairSeen]], failed: Mapping[tuple[int, int], int]
) -> PreferenceSummary:
    """The summary of the pairs that have a result; `failed` counts others, by the places of their runs."""
    tally = PairTally()
    async for page in pages:
        for seen in page:
            tally.add(seen)
    position = await asyncio.to_thread(lambda: {aspect: report_position(tally, aspect) for aspect in plan.aspects})
    pairs = sorted({runs for _, runs in tally.counts} | failed.keys())
    return PreferenceSummary(
        id=batch.id,
        status=batch.status,
        counts=batch.counts,
        items=len(tally.items),
        clusters=len(tally.clusters),
        aspects={
            aspect: write_counts(sum((tally.counts[aspect, runs] for runs in pairs), Counter()))
            for aspect in plan.aspects
        },
        pairs=tuple(
            ComparedRuns(
                first=RunPlace(run=plan.runs[one], system=plan.systems[one]),
                second=RunPlace(run=plan.runs[other], system=plan.systems[other]),
                aspects={aspect: write_counts(tally.counts[aspect, (one, other)]) for aspect in plan.aspects},
                failed=failed.get((one, other), 0),
            )
            for one, other in pairs
        ),
        position=position,
        usage=batch.usage,
    )


def write_counts(counts: Counter[str]) -> ChoiceCounts:
    """The counts by their names."""
    return ChoiceCounts(**{name: counts[name] for name in ChoiceCounts.model_fields})


def report_position(tally: PairTally, aspect: str) -> PositionReport:
    """How far the order decides. numpy and scipy are loaded here."""
    import numpy as np

    from saiten_server.stats.resampling import estimate_rate

    both, same, shown = tally.both[aspect], tally.same[aspect], tally.shown[aspect]
    counts = np.array(list(both.values()), dtype=np.float64)
    sums = np.array([same[cluster] for cluster in both], dtype=np.float64)
    found = estimate_rate(sums, counts, bounds=(0.0, 1.0))
    return PositionReport(
        pairs=int(counts.sum()),
        clusters=len(counts),
        consistency=found.mean,
        interval=found.interval,
        reason=None if found.interval is not None else found.reason,
        first_shown=shown["first"],
        second_shown=shown["second"],
        tie=shown["tie"],
    )

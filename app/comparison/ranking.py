"""Which places systems can have: by simultaneous comparisons of all pairs of runs on their common items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from saiten_server.comparison.corrected_runs import (
    MARKED,
    correct_alone,
    correct_pairs,
    list_correctable,
    name_measure,
    unfold_figure,
)
from saiten_server.comparison.differences import Arranged, Sides, estimate_difference, find_p
from saiten_server.comparison.pairing import match_runs
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.reports import CorrectedFigure
from saiten_server.runs.summary import MeasureKey
from saiten_server.stats.corrected import report_corrected_mean

PlaceRange = tuple[int, int]
"""Best and worst place, from 1."""

Ordered = set[tuple[int, int]]
"""Pairs of runs of which the first is surely better than the second."""


@dataclass(frozen=True)
class CorrectedPlace:
    """A run on people's scale; `figure` is None where people rated too little of it, and `needed` is how many ratings
    that needs, if it is known."""

    figure: CorrectedFigure | None
    needed: int | None
    places: PlaceRange


@dataclass(frozen=True)
class RunPlaces:
    """By aspect, composite or `faulty_turns` the places of each run, in the runs' order: by the judge, and by the judge
    corrected by people; `corrected` is empty where people rated nothing."""

    judged: Mapping[str, Sequence[PlaceRange]]
    corrected: Mapping[str, Sequence[CorrectedPlace]]


def rank_runs(runs: Sequence[ComparedRun], *, alpha: float = 0.05) -> RunPlaces:
    """The places of runs that were scored alike.

    A run is surely better than another where the interval of their difference, at `alpha` divided by the number of
    pairs, excludes 0: all such statements together are right with probability 1 − alpha (Bonferroni). Of N runs, one
    that b are surely better and w surely worse than has a place from 1 + b to N − w.
    """
    measures = list_correctable(*runs)
    rated = [bool(run.frame.people) for run in runs]
    pairs = [*combinations(range(len(runs)), 2)]
    level = alpha / max(1, len(pairs))
    judged: dict[MeasureKey, Ordered] = {key: set() for key in measures}
    corrected: dict[MeasureKey, Ordered] = {key: set() for key in measures}
    for first, second in pairs:
        before, after = runs[first], runs[second]
        for key, sides in Arranged(before, after, match_runs(before, after)).items():
            note_order(judged.get(key), first, second, compare_sides(sides, level))
        if rated[first] and rated[second]:
            for key, pair in correct_pairs(before, after, measures, alpha=level, paired=True).items():
                interval = pair.difference.interval if pair.difference else None
                note_order(corrected[key], first, second, tell_sign(interval))
    found = {name_measure(key): find_places(ordered, len(runs)) for key, ordered in judged.items()}
    if not any(rated):
        return RunPlaces(found, {})
    return RunPlaces(
        found,
        {
            name_measure(key): [
                place_run(run, key, alpha, places)
                for run, places in zip(runs, find_places(ordered, len(runs)), strict=True)
            ]
            for key, ordered in corrected.items()
        },
    )


def place_run(run: ComparedRun, key: MeasureKey, alpha: float, places: PlaceRange) -> CorrectedPlace:
    """The run's corrected mean with its places."""
    found = correct_alone(run, key, alpha, "once")
    figure = None if found.after is None else report_corrected_mean(found.after, found.options)
    return CorrectedPlace(unfold_figure(figure) if key == MARKED else figure, found.needed, places)


def compare_sides(sides: Sides, level: float) -> int:
    """1 where the candidate is surely better, −1 where the baseline is, 0 where that is not shown."""
    if not sides.testable:
        return 0
    interval = estimate_difference(sides, level).interval
    if interval is not None or not sides.weighed.mean:
        return tell_sign(interval)
    # All dialogues differ by the same, so there is no interval: the p of the test says whether that may be chance.
    p = find_p(sides, level, np.random.default_rng(0), level)["p"]
    return int(np.sign(sides.weighed.mean)) if p < level else 0


def tell_sign(interval: tuple[float, float] | None) -> int:
    """The sign of all that the interval holds; 0 where it holds 0, or is none."""
    if interval is None:
        return 0
    return int(interval[0] > 0) - int(interval[1] < 0)


def note_order(ordered: Ordered | None, first: int, second: int, sign: int) -> None:
    """Adds the pair, the better run first, where there is one."""
    if ordered is not None and sign:
        ordered.add((second, first) if sign > 0 else (first, second))


def find_places(ordered: Ordered, runs: int) -> list[PlaceRange]:
    """The places that each run can have."""
    better = [sum(worse == run for _, worse in ordered) for run in range(runs)]
    worse = [sum(own == run for own, _ in ordered) for run in range(runs)]
    return [(1 + above, runs - below) for above, below in zip(better, worse, strict=True)]

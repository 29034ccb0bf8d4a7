"""One measure in two runs: its test, its interval, its effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.analysis import differences
from app.analysis.observations import Floats, Integers
from app.analysis.pairing import Columns, MeasureKey
from app.domain.comparison import Favoured, Kind, Measure
from app.domain.reports import Interval, PairedWins

FEWEST = 3
"""Values on a side below which nothing is said of chance: two show no spread worth the name."""

OF_CHANCE = ("p", "p_adjusted", "interval", "standard_error", "smallest_detectable")
SAME = "no value differs, so there is no interval and no detectable difference"


@dataclass(frozen=True)
class Sides:
    """One measure's values in both runs, without those missing; row by row each other's where `paired`.

    `ratings` are the same before they were turned into distances from the best value, the baseline's first.
    """

    baseline: Floats
    candidate: Floats
    paired: bool
    ratings: tuple[Floats, Floats]

    @property
    def n(self) -> int:
        return min(len(self.baseline), len(self.candidate))

    @property
    def differences(self) -> Floats:
        """Candidate minus baseline by pair, shape (n,)."""
        return differences.level(self.candidate - self.baseline)

    @property
    def samples(self) -> tuple[Floats, ...]:
        """What varies by chance: the pairs' differences, else both runs' values, the candidate's first."""
        return (self.differences,) if self.paired else (self.candidate, self.baseline)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each of these has."""
        return (self.n,) if self.paired else (len(self.baseline), len(self.candidate))

    @property
    def testable(self) -> bool:
        return self.n >= FEWEST


@dataclass(frozen=True)
class Chance:
    """What can be said of chance. `lean` is above 0 where the ranks favour the candidate."""

    p: float | None
    lean: float
    interval: Interval
    standard_error: float | None
    smallest_detectable: float | None
    undefined: Mapping[str, str]


def align(baseline: Columns, candidate: Columns, key: MeasureKey, rows: tuple[Integers, Integers]) -> Sides:
    """The pairs with a value on both sides; `rows` are the pairs' in either run."""
    left, right = baseline.column(key)[rows[0]], candidate.column(key)[rows[1]]
    held = ~(np.isnan(left) | np.isnan(right))
    ratings = baseline.rating_column(key)[rows[0]][held], candidate.rating_column(key)[rows[1]][held]
    return Sides(left[held], right[held], True, ratings)


def drop_missing(baseline: Columns, candidate: Columns, key: MeasureKey) -> Sides:
    """Each side's values."""
    left, right = baseline.column(key), candidate.column(key)
    ours, theirs = ~np.isnan(left), ~np.isnan(right)
    ratings = baseline.rating_column(key)[ours], candidate.rating_column(key)[theirs]
    return Sides(left[ours], right[theirs], False, ratings)


def weigh(sides: Sides, *, alpha: float, tests: int, generator: np.random.Generator, resamples: int) -> Chance:
    """The test, the interval at 1 − alpha, and the difference that is detectable at alpha / tests."""
    if not sides.testable:
        what = "pairs with a value on both sides" if sides.paired else "values on each side"
        why = f"needs at least {FEWEST} {what}; there {'is' if sides.n == 1 else 'are'} {sides.n}"
        return Chance(None, 0.0, None, None, None, dict.fromkeys(OF_CHANCE, why))
    if sides.paired:
        p, lean = differences.test_paired(sides.differences), differences.lean_paired(sides.differences)
    else:
        p = differences.test_unpaired(sides.baseline, sides.candidate)
        lean = differences.find_cliffs_delta(sides.baseline, sides.candidate)
    error = differences.find_standard_error(*sides.samples)
    undefined = explain_chance(sides, error, alpha / tests)
    return Chance(
        p=p,
        lean=lean,
        interval=resample(sides, alpha, generator, resamples) if error else None,
        standard_error=error,
        smallest_detectable=None if undefined else differences.reach(alpha / tests) * error,
        undefined=undefined,
    )


def explain_chance(sides: Sides, error: float, level: float) -> dict[str, str]:
    """Why there is no interval, or nothing that could be detected at this level."""
    if not error:
        return dict.fromkeys(("interval", "smallest_detectable"), explain_no_spread(sides))
    if differences.find_least_p(*sides.sizes) >= level:
        few = f"{sides.n} {'is' if sides.n == 1 else 'are'} too few for any difference to be significant at {level:.2g}"
        return {"smallest_detectable": few}
    return {}


def explain_no_spread(sides: Sides) -> str:
    """Why values without any spread have no interval. There is a p all the same: ranks need no spread."""
    if sides.baseline[0] == sides.candidate[0] and (not sides.paired or not np.any(sides.differences)):
        return SAME
    equal = "all differences are equal" if sides.paired else "all values of a side are equal"
    return f"{equal}: without spread there is no interval and no detectable difference"


def resample(sides: Sides, alpha: float, generator: np.random.Generator, resamples: int) -> tuple[float, float]:
    """The bootstrap interval of the difference."""
    drawn = differences.limit_resamples(resamples, sum(map(len, sides.samples)))
    means = [differences.resample_mean(sample, generator, drawn) for sample in sides.samples]
    return differences.find_interval(means[0] if sides.paired else means[0] - means[1], alpha, *sides.samples)


def describe(kind: Kind, sides: Sides, chance: Chance, wins: PairedWins | None, best: float | None) -> Measure:
    """The measure, not yet adjusted and without a verdict."""
    before, after = find_mean(sides.baseline), find_mean(sides.candidate)
    return Measure(
        kind=kind,
        test="wilcoxon" if sides.paired else "mann-whitney",
        n=sides.n,
        n_baseline=len(sides.baseline),
        n_candidate=len(sides.candidate),
        baseline_mean=before,
        candidate_mean=after,
        difference=None if before is None or after is None else tidy(after - before),
        interval=chance.interval,
        standard_error=chance.standard_error,
        p=chance.p,
        p_adjusted=None,
        cliffs_delta=tidy(differences.find_cliffs_delta(sides.baseline, sides.candidate)) if sides.n else None,
        smallest_detectable=chance.smallest_detectable,
        verdict="inconclusive",
        wins=wins,
        best=best,
        baseline_rating_mean=find_mean(sides.ratings[0]),
        candidate_rating_mean=find_mean(sides.ratings[1]),
        ranks_favour=favour(chance.lean),
        undefined={**chance.undefined, **explain_missing(sides, wins)},
    )


def explain_missing(sides: Sides, wins: PairedWins | None) -> dict[str, str]:
    """Why figures that need no test are null."""
    why = "there are no pairs with a value on both sides" if sides.paired else "the run has no values"
    undefined: dict[str, str] = {}
    for side, values in (("baseline", sides.baseline), ("candidate", sides.candidate)):
        if not len(values):
            undefined |= dict.fromkeys((f"{side}_mean", f"{side}_rating_mean"), why)
    if not sides.n:
        undefined |= dict.fromkeys(("difference", "cliffs_delta"), why if sides.paired else "a run has no values")
    if wins is None:
        undefined["wins"] = "the items are not paired"
    return undefined


def favour(lean: float) -> Favoured:
    """Whose values rank higher."""
    if not lean:
        return "neither"
    return "candidate" if lean > 0 else "baseline"


def find_mean(values: Floats) -> float | None:
    """The mean; None of nothing."""
    return tidy(float(values.mean())) if len(values) else None


def tidy(figure: float) -> float:
    """The figure without the noise of adding: 0.30000000000000004 is 0.3, and −0 is 0."""
    return round(figure, 12) + 0.0

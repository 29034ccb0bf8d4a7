"""One measure in two runs: its test, its interval, its effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.analysis import differences
from app.analysis.observations import Floats
from app.domain.comparison import Favoured, Kind, Measure
from app.domain.reports import Interval, PairedWins

FEWEST = 3
"""Values on a side below which nothing is said of chance: two show no spread worth the name."""


@dataclass(frozen=True)
class Sides:
    """One measure's values in both runs, without those missing; row by row each other's where `paired`."""

    baseline: Floats
    candidate: Floats
    paired: bool

    @property
    def n(self) -> int:
        return min(len(self.baseline), len(self.candidate))

    @property
    def differences(self) -> Floats:
        """Candidate minus baseline by pair, shape (n,)."""
        return differences.level(self.candidate - self.baseline)


@dataclass(frozen=True)
class Chance:
    """What can be said of chance. `lean` is above 0 where the ranks favour the candidate."""

    p: float | None
    lean: float
    interval: Interval
    smallest_detectable: float | None
    undefined: Mapping[str, str]


def align(baseline: Floats, candidate: Floats) -> Sides:
    """The pairs with a value on both sides."""
    held = ~(np.isnan(baseline) | np.isnan(candidate))
    return Sides(baseline[held], candidate[held], paired=True)


def drop_missing(baseline: Floats, candidate: Floats) -> Sides:
    """Each side's values."""
    return Sides(baseline[~np.isnan(baseline)], candidate[~np.isnan(candidate)], paired=False)


def weigh(sides: Sides, *, alpha: float, generator: np.random.Generator, resamples: int) -> Chance:
    """The test, the interval and the smallest detectable difference."""
    if sides.n < FEWEST:
        what = "pairs with a value on both sides" if sides.paired else "values on each side"
        why = f"needs at least {FEWEST} {what}; there {'is' if sides.n == 1 else 'are'} {sides.n}"
        return Chance(None, 0.0, None, None, dict.fromkeys(("p", "p_adjusted", "interval", "smallest_detectable"), why))
    samples = (sides.differences,) if sides.paired else (sides.candidate, sides.baseline)
    drawn = differences.limit_resamples(resamples, sum(map(len, samples)))
    means = [differences.resample_mean(sample, generator, drawn) for sample in samples]
    error = differences.find_standard_error(*samples)
    if sides.paired:
        p, lean = differences.test_paired(samples[0]), differences.lean_paired(samples[0])
        constant = f"all differences are {'equal' if np.any(samples[0]) else 'zero'}"
    else:
        p = differences.test_unpaired(sides.baseline, sides.candidate)
        lean = differences.find_cliffs_delta(sides.baseline, sides.candidate)
        constant = "all values of a side are equal"
    undefined = {} if error else {"smallest_detectable": f"{constant}: they show nothing of chance"}
    sizes = (sides.n,) if sides.paired else (len(sides.baseline), len(sides.candidate))
    if not undefined and differences.find_least_p(*sizes) >= alpha:
        undefined = {"smallest_detectable": f"{sides.n} are too few for any difference to be significant at {alpha:g}"}
    return Chance(
        p=p,
        lean=lean,
        interval=differences.find_interval(means[0] if sides.paired else means[0] - means[1], alpha),
        smallest_detectable=None if undefined else differences.reach(alpha) * error,
        undefined=undefined,
    )


def describe(kind: Kind, sides: Sides, chance: Chance, wins: PairedWins | None) -> Measure:
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
        p=chance.p,
        p_adjusted=None,
        cliffs_delta=tidy(differences.find_cliffs_delta(sides.baseline, sides.candidate)) if sides.n else None,
        smallest_detectable=chance.smallest_detectable,
        verdict="inconclusive",
        wins=wins,
        ranks_favour=favour(chance.lean),
        undefined={**chance.undefined, **explain_missing(sides, wins)},
    )


def explain_missing(sides: Sides, wins: PairedWins | None) -> dict[str, str]:
    """Why figures that need no test are null."""
    why = "there are no pairs with a value on both sides" if sides.paired else "the run has no values"
    undefined = {}
    if not len(sides.baseline):
        undefined["baseline_mean"] = why
    if not len(sides.candidate):
        undefined["candidate_mean"] = why
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

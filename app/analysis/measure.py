"""One measure in two runs: its test, its interval, its effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.analysis import differences
from app.analysis.estimates import (
    ONE_CLUSTER,
    ROUNDING,
    Estimate,
    add_up,
    describe_clusters,
    estimate_mean,
    estimate_paired,
    estimate_unpaired,
    find_quantile,
    find_wilson,
    join_errors,
    join_freedom,
)
from app.analysis.observations import Floats, Integers, Mask
from app.analysis.pairing import Columns, MeasureKey
from app.analysis.permutations import FEWEST_CLUSTERS, count_flips, find_least_p, flip_signs, split_anew
from app.analysis.statistics import count
from app.domain.comparison import Favoured, Kind, Measure
from app.domain.reports import Interval, PairedWins

OF_TEST = ("p", "p_adjusted", "smallest_detectable")
OF_CHANCE = (*OF_TEST, "interval", "standard_error", "freedom")
SAME = "no value differs, so there is no interval and no detectable difference"
TOO_WIDE = "values vary so much that no difference which the scale allows would be found in four of five runs"


@dataclass(frozen=True)
class Sides:
    """One measure's values in both runs, without those missing; row by row each other's where `paired`.

    `clusters` numbers the dialogue of each value, of both runs alike where `paired`. `ratings` are the values before
    they were turned into distances from the best one. Of both the baseline's come first. `bounds` are the ends of the
    scale, None where it is not known or values lie beyond it.
    """

    baseline: Floats
    candidate: Floats
    paired: bool
    clusters: tuple[Integers, Integers]
    ratings: tuple[Floats, Floats]
    bounds: tuple[float, float] | None = None

    @property
    def n(self) -> int:
        return min(len(self.baseline), len(self.candidate))

    @property
    def differences(self) -> Floats:
        """Candidate minus baseline by pair, shape (n,)."""
        return differences.level(self.candidate - self.baseline)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many clusters there are of the baseline's values, and of the candidate's."""
        ours, theirs = (len(np.unique(numbers)) for numbers in self.clusters)
        return ours, theirs

    @property
    def units(self) -> int:
        """How many clusters there are: of the pairs, or of the run that has fewer."""
        return min(self.sizes)

    @property
    def testable(self) -> bool:
        return self.units >= FEWEST_CLUSTERS

    @property
    def width(self) -> float | None:
        """How much a value can change by."""
        return None if self.bounds is None else self.bounds[1] - self.bounds[0]


@dataclass(frozen=True)
class Chance:
    """What can be said of chance."""

    p: float | None
    interval: Interval
    standard_error: float | None
    freedom: float | None
    smallest_detectable: float | None
    undefined: Mapping[str, str]


def align(
    baseline: Columns,
    candidate: Columns,
    key: MeasureKey,
    rows: tuple[Integers, Integers],
    *,
    clusters: Integers,
    scale: tuple[float, float] | None,
) -> Sides:
    """The pairs with a value on both sides; `rows` are the pairs' in either run, `clusters` number their dialogues."""
    left, right = baseline.column(key)[rows[0]], candidate.column(key)[rows[1]]
    held = ~(np.isnan(left) | np.isnan(right))
    ratings = baseline.rating_column(key)[rows[0]][held], candidate.rating_column(key)[rows[1]][held]
    numbers = clusters[held]
    return Sides(left[held], right[held], True, (numbers, numbers), ratings, keep_scale(scale, left[held], right[held]))


def drop_missing(
    baseline: Columns,
    candidate: Columns,
    key: MeasureKey,
    *,
    clusters: tuple[Integers, Integers],
    scale: tuple[float, float] | None,
) -> Sides:
    """Each side's values."""
    left, right = baseline.column(key), candidate.column(key)
    ours, theirs = ~np.isnan(left), ~np.isnan(right)
    ratings = baseline.rating_column(key)[ours], candidate.rating_column(key)[theirs]
    numbers = clusters[0][ours], clusters[1][theirs]
    return Sides(left[ours], right[theirs], False, numbers, ratings, keep_scale(scale, left[ours], right[theirs]))


def keep_scale(scale: tuple[float, float] | None, *values: Floats) -> tuple[float, float] | None:
    """The scale where all values are on it."""
    if scale is None or not scale[0] < scale[1]:
        return None
    reached = [side for side in values if len(side)]
    on_it = all(
        side.min() >= scale[0] - ROUNDING and side.max() <= scale[1] + ROUNDING
        for side in map(differences.level, reached)
    )
    return scale if on_it else None


def weigh(sides: Sides, *, alpha: float, tests: int, generator: np.random.Generator) -> Chance:
    """The test, the interval at 1 − alpha, and the difference that is detectable at alpha / tests."""
    if not sides.n:
        why = "there are no pairs with a value on both sides" if sides.paired else "a run has no values"
        return Chance(None, None, None, None, None, dict.fromkeys(OF_CHANCE, why))
    level = alpha / max(1, tests)
    flips = count_flips(level)
    if sides.paired:
        estimate, error, freedom, p = weigh_pairs(sides, alpha, generator, flips)
    else:
        estimate, error, freedom, p = weigh_runs(sides, alpha, generator, flips)
    undefined: dict[str, str] = {}
    if estimate.interval is None:
        undefined = dict.fromkeys(("interval", "smallest_detectable"), explain_no_spread(sides, estimate.reason or ""))
    if sides.units == 1:
        undefined |= dict.fromkeys(("standard_error", "freedom"), ONE_CLUSTER)
    if not sides.testable:
        undefined |= dict.fromkeys(OF_TEST, explain_few(sides))
    elif "smallest_detectable" not in undefined and find_least_p(flips, *sides.sizes[sides.paired :]) >= level:
        few = f"{count_units(sides)} are too few for any difference to be significant at {level:.2g}"
        undefined["smallest_detectable"] = few
    reached = None if "smallest_detectable" in undefined else differences.reach(level, freedom) * error
    if reached is not None and sides.width is not None and reached > sides.width:
        reached, undefined["smallest_detectable"] = None, TOO_WIDE
    return Chance(
        p=p if sides.testable else None,
        interval=estimate.interval,
        standard_error=error if sides.units > 1 else None,
        freedom=freedom if sides.units > 1 else None,
        smallest_detectable=reached,
        undefined=undefined,
    )


def weigh_pairs(
    sides: Sides, alpha: float, generator: np.random.Generator, flips: int
) -> tuple[Estimate, float, float, float | None]:
    """Estimate, standard error, degrees of freedom, and p of the sign-flip test."""
    moved = sides.differences
    rises, counts = add_up(np.maximum(moved, 0), sides.clusters[0])
    falls, _ = add_up(np.maximum(-moved, 0), sides.clusters[0])
    found = describe_clusters(rises - falls, counts)
    estimate = estimate_paired(rises, falls, counts, width=sides.width, alpha=alpha)
    p = flip_signs(rises - falls, counts, generator, flips=flips) if sides.testable else None
    return estimate, found.error, found.freedom, p


def weigh_runs(
    sides: Sides, alpha: float, generator: np.random.Generator, flips: int
) -> tuple[Estimate, float, float, float | None]:
    """The same of two runs whose items are not paired, by the permutation test."""
    values = differences.level(sides.baseline), differences.level(sides.candidate)
    ours, theirs = (add_up(own, numbers) for own, numbers in zip(values, sides.clusters, strict=True))
    found = describe_clusters(*ours), describe_clusters(*theirs)
    estimate = estimate_unpaired(*found, bounds=sides.bounds, alpha=alpha)
    error = join_errors(*found)
    freedom = join_freedom(*found) if error else float(max(1, sides.units - 1))
    p = split_anew(ours, theirs, generator, flips=flips) if sides.testable else None
    return estimate, error, freedom, p


def explain_few(sides: Sides) -> str:
    """Why there is no test."""
    where = "" if sides.paired else " of each run"
    needed = f"a test needs at least {FEWEST_CLUSTERS} dialogues, or items without one{where}"
    return f"{needed}; there {'is' if sides.units == 1 else 'are'} {sides.units}"


def count_units(sides: Sides) -> str:
    """What varies by chance, counted."""
    return count(sides.units, "dialogue" if sides.units < sides.n else "item")


def explain_no_spread(sides: Sides, reason: str) -> str:
    """Why values without any spread have no interval. There is a p all the same: a test needs none."""
    if sides.baseline[0] == sides.candidate[0] and not (
        np.any(sides.differences) if sides.paired else np.ptp(sides.baseline) or np.ptp(sides.candidate)
    ):
        return SAME
    if sides.units == 1 or sides.units < sides.n:
        return reason
    equal = "all differences are equal" if sides.paired else "all values of a side are equal"
    return f"{equal}: without spread there is no interval and no detectable difference"


def describe(kind: Kind, sides: Sides, chance: Chance, wins: PairedWins | None, best: float | None) -> Measure:
    """The measure, not yet adjusted and without a verdict."""
    before, after = find_mean(sides.baseline), find_mean(sides.candidate)
    effect = tidy(differences.find_cliffs_delta(sides.baseline, sides.candidate)) if sides.n else None
    return Measure(
        kind=kind,
        test="sign-flip" if sides.paired else "permutation",
        n=sides.n,
        n_baseline=len(sides.baseline),
        n_candidate=len(sides.candidate),
        clusters=sides.units,
        clusters_baseline=sides.sizes[0],
        clusters_candidate=sides.sizes[1],
        baseline_mean=before,
        candidate_mean=after,
        difference=None if before is None or after is None else tidy(after - before),
        interval=chance.interval,
        standard_error=chance.standard_error,
        freedom=chance.freedom,
        p=chance.p,
        p_adjusted=None,
        cliffs_delta=effect,
        smallest_detectable=chance.smallest_detectable,
        verdict="inconclusive",
        wins=wins,
        best=best,
        baseline_rating_mean=find_mean(sides.ratings[0]),
        candidate_rating_mean=find_mean(sides.ratings[1]),
        ranks_favour=favour(effect or 0.0),
        undefined={**chance.undefined, **explain_missing(sides, wins)},
    )


def widen_wins(wins: PairedWins, sides: Sides) -> PairedWins:
    """The same wins with intervals over dialogues, where several pairs share one."""
    if not wins.contexts or sides.units == sides.n:
        return wins
    signs, clusters = np.sign(sides.differences), sides.clusters[0]
    decided = signs != 0
    preference = estimate_share((signs > 0)[decided], clusters[decided]) if decided.any() else None
    shares = {"a_wins": signs > 0, "b_wins": signs < 0, "ties": ~decided}
    found = {
        name: getattr(wins, name).model_copy(update={"interval": estimate_share(chosen, clusters)})
        for name, chosen in shares.items()
    }
    return wins.model_copy(update={**found, "preference_interval": preference})


def estimate_share(chosen: Mask, clusters: Integers) -> tuple[float, float]:
    """The 95 % interval of the share of pairs that are chosen, of which `clusters` number the dialogues."""
    sums, counts = add_up(chosen.astype(np.float64), clusters)
    interval = estimate_mean(sums, counts, bounds=(0.0, 1.0)).interval
    # Where dialogues do not differ in it, each tells as much as one pair.
    return interval or find_wilson(float(chosen.mean()), len(sums), find_quantile(max(1, len(sums) - 1), 0.05))


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


def favour(effect: float) -> Favoured:
    """Whose values are higher more often, by Cliff's δ."""
    if not effect:
        return "neither"
    return "candidate" if effect > 0 else "baseline"


def find_mean(values: Floats) -> float | None:
    """The mean; None of nothing."""
    return tidy(float(values.mean())) if len(values) else None


def tidy(figure: float) -> float:
    """The figure without the noise of adding: 0.30000000000000004 is 0.3, and −0 is 0."""
    return round(figure, 12) + 0.0

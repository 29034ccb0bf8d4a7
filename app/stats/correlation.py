"""Correlations of scores with ratings, and of aspects with each other; the figure that a judge's badge rests on.

A judge that only tells a good system from a bad one says nothing of a response, so that responses are ranked within
their systems, and these ranks are correlated. One person's ratings show only that the judge agrees with this person:
items count that two named people or more rated.

Ratings come in day by day, and people look each time. So the interval holds at every number of items at once,
from `FEWEST_ITEMS` on (Robbins 1970): a sum of n normal values passes √n · √(a² + log(n / m)) at some n ≥ m with a
probability of 2 (1 − Φ(a) + a φ(a)). It holds for all aspects at once by Bonferroni's inequality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log, pi, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reliability import FEWEST_ITEMS
from saiten_server.core.reports import (
    AspectCorrelation,
    Ceiling,
    CorrelationReport,
    Correlations,
    SystemLevel,
    WithinSystems,
)
from saiten_server.core.validation import clip
from saiten_server.stats.agreement import FEW_RATERS, NamedRatings, compare_raters, named_ratings, tabulate_pairs
from saiten_server.stats.correlation_intervals import (
    COEFFICIENTS,
    CorrelationEstimate,
    estimate_coefficient,
    estimate_within,
)
from saiten_server.stats.observations import (
    Floats,
    Integers,
    Mask,
    Observations,
    number_first,
    number_keys,
    weigh_units,
)
from saiten_server.stats.power import search_end
from saiten_server.stats.resampling import add_up_moves, count_clusters, estimate_paired, find_effective
from saiten_server.stats.severity import find_average
from saiten_server.stats.statistics import (
    FEWEST_CORRELATED,
    equalize,
    kendall,
    obstacle,
    pearson,
    pearson_weighted,
    rank_weighted,
    rank_within,
    settled_means,
    spearman,
)

ALPHA = 0.05
ONE_RATER = Message("few-items-of-two-people", least=FEWEST_CORRELATED)
CONSTANT = Message("constant-within-systems")
TOO_FEW = Message("few-items-of-two-people", least=FEWEST_ITEMS)


def follow_people(observations: Observations, rating: str, scores: Floats, both: Mask, *, tests: int) -> WithinSystems:
    """Spearman's ρ within systems of the scores, by unit of shape (units,), and the rater means; of the units of the
    mask `both`, of shape (units,), that two named raters or more rated. `tests` aspects share the error of the
    intervals."""
    named = named_ratings(observations, rating, both)
    several = np.bincount(named.unit, minlength=observations.units) >= 2
    units = observations.unit_order[several[observations.unit_order]]
    kept = several[named.unit]
    named = NamedRatings(named.unit[kept], named.rater[kept], named.values[kept])
    undefined: dict[str, Message] = {}
    found = estimate_units(observations, rating, scores, units)
    interval: tuple[float, float] | Message = TOO_FEW
    if isinstance(found, Message):
        undefined["spearman"] = interval = found
    elif len(units) >= FEWEST_ITEMS:
        interval = found.interval(find_tail(len(units), tests))
    if isinstance(interval, Message):
        undefined["interval"] = interval
    agreement = compare_raters(rank_ratings(named, observations.unit_system))
    if agreement.reason is not None:
        undefined["agreement"] = agreement.reason
    return WithinSystems(
        n=len(units),
        systems=len(np.unique(observations.unit_system[units])),
        raters=len(np.unique(named.rater)),
        spearman=None if isinstance(found, Message) else found.value,
        interval=None if isinstance(interval, Message) else interval,
        agreement=agreement.spearman,
        undefined=undefined,
    )


def estimate_units(
    observations: Observations, rating: str, scores: Floats, units: Integers
) -> CorrelationEstimate | Message:
    """The correlation of these units within their systems, or why there is none."""
    if len(units) < FEWEST_CORRELATED:
        return ONE_RATER
    x, y = scores[units], settled_means(observations, observations.ratings[rating])[units]
    system = number_keys(observations.unit_system[units])
    for column in (x, y):
        low, high = np.full(system.max() + 1, np.inf), np.full(system.max() + 1, -np.inf)
        np.minimum.at(low, system, column)
        np.maximum.at(high, system, column)
        if not (high > low).any():
            return CONSTANT
    return estimate_within(x, y, number_first(observations.unit_cluster[units]), system)


def rank_ratings(named: NamedRatings, unit_system: Integers) -> NamedRatings:
    """The ratings as their ranks within the system that they are of, as a share of its ratings less a half, so that
    what systems differ by is no agreement."""
    if not len(named.values):
        return named
    system = number_keys(unit_system[named.unit])
    count = np.bincount(system)[system]
    grades = (rank_within(system, named.values) - (count + 1) / 2) / count
    return NamedRatings(named.unit, named.rater, grades)


HALVINGS = 60
"""After which two ends within 40 are one number."""


def find_tail(n: int, tests: int) -> float:
    """What the interval of n items leaves to either side, so that those of so many aspects hold at every number of
    items from FEWEST_ITEMS on with 1 − ALPHA. `n` is at least that."""
    allowed = ALPHA / max(1, tests) / 2

    def pass_often(a: float) -> float:
        return float(ndtr(-a)) + a * exp(-a * a / 2) / sqrt(2 * pi) - allowed

    # `brentq` is as exact, but `scipy.optimize` takes longer to load than most analyses take.
    start = search_end(lambda a: pass_often(a) > 0, 1.0, 40.0, HALVINGS)
    return float(ndtr(-sqrt(start**2 + log(n / FEWEST_ITEMS))))


FEWEST_SYSTEMS = 3

COMMON_SHARE = 0.4
"""Scores and ratings that have less of their joint range in common may well be on two scales, as 0–1 and 0–3 are."""

ERROR_ROUNDING = 1e-12

FEWEST_WEIGHTED = 30
"""What the weights of clusters must be worth for the interval of a weighted bias: with fewer, what is rare and weighs
much is missing too often (in simulation .67 to .94 with 20 to 30 conversations of two strata, of whose differences 10
and 40% lie at one end)."""

NO_FIGURE = Message("no-figure")


def correlate_scores(
    observations: Observations, *, match: Mapping[str, str] | None = None, resamples: int = 2000, seed: int = 0
) -> CorrelationReport:
    """Scores against ratings by aspect. `match` names, for a score, the rating of another name that it is compared with
    (`mate`: `acceptability`). `resamples` and `seed` move nothing: they were of intervals by bootstrap, and the report
    repeats them for older callers. Raises InvalidRequest where there is no such score or no such rating."""
    ratings, scores = observations.ratings, observations.scores
    pairs = {aspect: aspect for aspect in ratings if aspect in scores} | dict(match or {})
    for score, rating in pairs.items():
        if score not in scores:
            raise InvalidRequest(Message("no-score-of", name=repr(clip(score))), pointer="/match")
        if rating not in ratings:
            raise InvalidRequest(Message("no-rating-of", name=repr(clip(rating))), pointer="/match")
    tests = sum(not aspect.endswith(".blended") for aspect in pairs)
    return CorrelationReport(
        systems=len(observations.systems),
        items=observations.units,
        raters=len(observations.raters),
        clusters=None if observations.dialogue is None else len(np.unique(observations.unit_cluster)),
        resamples=resamples,
        seed=seed,
        aspects={
            aspect: correlate_aspect(observations, aspect, rating=rating, tests=tests)
            for aspect, rating in pairs.items()
        },
        unmatched={
            **{aspect: Message("only-ratings") for aspect in ratings if aspect not in pairs.values()},
            **{aspect: Message("only-scores") for aspect in scores if aspect not in pairs},
        },
    )


def correlate_aspect(observations: Observations, aspect: str, *, rating: str, tests: int) -> AspectCorrelation:
    """The figures of one score, of `tests` that are compared, over the units that have both it and the `rating`."""
    scores = values_by_unit(observations, observations.scores[aspect])
    ratings = observations.means(observations.ratings[rating])
    both = ~np.isnan(scores) & ~np.isnan(ratings)
    # In an order that does not hang on that of the lines.
    units = observations.unit_order[both[observations.unit_order]]
    x, y = scores[units], ratings[units]
    cluster = number_first(observations.unit_cluster[units])
    settled = settled_means(observations, observations.ratings[rating])[units]
    figures, undefined = correlations(x, settled)
    found: dict[str, tuple[float, float] | Message] = dict.fromkeys(COEFFICIENTS, NO_FIGURE)
    found |= {name: one.interval() for name, one in estimate_all(x, settled, cluster, figures).items()}
    sampled = weigh_units(observations, units)
    differences = equalize(x - settled, np.abs(x) + np.abs(settled))
    width = float(np.ptp(np.concatenate([x, settled]))) if len(x) else 0.0
    found["bias"] = bias_interval(differences, cluster, width, sampled)
    for name, interval in found.items():
        figures[f"{name}_interval"] = None if isinstance(interval, Message) else interval
        if isinstance(interval, Message):
            undefined[f"{name}_interval"] = interval
    if not len(x):
        undefined |= dict.fromkeys(("score_mean", "rating_mean", "bias"), Message("no-item-has-both"))
    ceiling = ceiling_of(observations, rating, both)
    system_level = system_level_of(observations.unit_system[units], x, y)
    if ceiling is None:
        undefined["ceiling"] = FEW_RATERS
    if system_level is None:
        undefined["system_level"] = Message("few-systems", least=FEWEST_SYSTEMS)
    return AspectCorrelation(
        n=len(x),
        left_out=observations.units - len(x),
        contexts=len(np.unique(observations.unit_item[units])),
        clusters=count_clusters(cluster),
        **figures,
        score_mean=find_average(x, sampled) if len(x) else None,
        rating_mean=find_average(y, sampled) if len(y) else None,
        bias=find_average(x, sampled) - find_average(y, sampled) if len(x) else None,
        ceiling=ceiling,
        system_level=system_level,
        within_systems=follow_people(observations, rating, scores, both, tests=tests),
        notes=(*compare_scales(x, settled), *([] if sampled is None else [Message("correlations-unweighted")])),
        undefined=undefined,
    )


def values_by_unit(observations: Observations, column: Floats) -> Floats:
    """The one value that all rows of a unit share, shape (units,); NaN where there is none."""
    rows = np.flatnonzero(~np.isnan(column))
    values = np.full(observations.units, np.nan)
    values[observations.unit[rows]] = column[rows]
    return values


def correlations(x: Floats, y: Floats) -> tuple[dict[str, Any], dict[str, Message]]:
    """All three coefficients of two columns of shape (n,); None for each, and the reason by name, if there are none."""
    reason = obstacle(x, y)
    if reason is not None:
        return dict.fromkeys(COEFFICIENTS), dict.fromkeys(COEFFICIENTS, reason)
    return {"spearman": float(spearman(x, y)), "pearson": float(pearson(x, y)), "kendall": kendall(x, y)}, {}


def estimate_all(x: Floats, y: Floats, cluster: Integers, figures: Mapping[str, Any]) -> dict[str, CorrelationEstimate]:
    """The coefficients of two columns of shape (n,) that have a figure, with what their intervals are computed from."""
    return {
        name: estimate_coefficient(name, x, y, cluster, figures[name])
        for name in COEFFICIENTS
        if figures.get(name) is not None
    }


def bias_interval(
    differences: Floats, cluster: Integers, width: float, weights: Floats | None = None
) -> tuple[float, float] | Message:
    """The 95% interval of the mean difference, or why there is none: one of no width would claim to know it exactly.

    Differences of one cluster come together. Most are often 0, and the others may lie to one side, so that the interval
    is that of pairs of runs (`estimate_paired`); `width` is the range of what is subtracted. With `weights`, shape
    (n,), it is that of t, with the variance of the ratio of the clusters' weighted sums to their sizes (Cochran 1977,
    section 9A) and the degrees of freedom of as many clusters of one weight as they are worth (Kish), at least
    FEWEST_WEIGHTED.
    """
    clusters = count_clusters(cluster)
    if clusters < 2:
        return Message("few-have-both")
    if np.ptp(differences) == 0:
        return Message("all-differences-equal")
    if weights is None:
        found = estimate_paired(*add_up_moves(differences, cluster), width=width)
        return found.interval or Message("same-sums")
    worth = find_effective(np.bincount(cluster, weights).astype(np.float64))
    if worth < FEWEST_WEIGHTED:
        return Message("few-weighted", least=FEWEST_WEIGHTED)
    mean = find_average(differences, weights)
    sums = np.bincount(cluster, weights=weights * (differences - mean))
    error = float(np.sqrt(worth / (worth - 1) * (sums**2).sum()) / weights.sum())
    if error <= ERROR_ROUNDING * float(np.abs(differences).max()):
        return Message("same-sums")
    margin = stdtrit(worth - 1, 0.975) * error
    return mean - margin, mean + margin


def compare_scales(x: Floats, y: Floats) -> Iterator[Message]:
    """A note where scores and ratings, shapes (n,), hardly share a range: then the bias may be one of scales."""
    if len(x) < FEWEST_CORRELATED:
        return
    (low, high), (least, most) = (x.min(), x.max()), (y.min(), y.max())
    if low == high and least <= low <= most:
        return
    common, both = min(high, most) - max(low, least), max(high, most) - min(low, least)
    if common < COMMON_SHARE * both:
        ends = {"low": float(low), "high": float(high), "least": float(least), "most": float(most)}
        yield Message("scales-apart", **ends)


def ceiling_of(observations: Observations, aspect: str, units: Mask) -> Ceiling | None:
    """What raters reach on the same units, a mask of shape (units,); None where no two of them are named."""
    compared = compare_raters(named_ratings(observations, aspect, units))
    if compared.raters < 2:
        return None
    reason = {} if compared.reason is None else dict.fromkeys(("spearman", "pearson"), compared.reason)
    return Ceiling(raters=compared.raters, spearman=compared.spearman, pearson=compared.pearson, undefined=reason)


def system_level_of(system: Integers, x: Floats, y: Floats) -> SystemLevel | None:
    """The coefficients of the systems' means, from each unit's system and values; None for fewer than three systems."""
    present, place, count = np.unique(system, return_inverse=True, return_counts=True)
    if len(present) < FEWEST_SYSTEMS:
        return None
    scores, ratings = (
        equalize(np.bincount(place, weights=column) / count, np.bincount(place, weights=np.abs(column)) / count)
        for column in (x, y)
    )
    figures, undefined = correlations(scores, ratings)
    return SystemLevel(n=len(present), **figures, undefined=undefined)


Pattern = tuple[tuple[float | None, ...], int, float | None]
"""A combination of values, None for none, how many results have it, and what these weigh together, None where all
weigh the same."""


def correlate_patterns(names: Sequence[str], patterns: Sequence[Pattern]) -> Correlations:
    """The matrices over all pairs of the named aspects, whose values the combinations hold in the same order: those of
    `correlate_aspects` over the results themselves, but for rounding."""
    counted = [one for one in patterns if one[1] > 0]
    table = np.array([values for values, _, _ in counted], dtype=np.float64).reshape(len(counted), len(names))
    counts = np.array([count for _, count, _ in counted], dtype=np.int64)
    weights = np.array([count if weight is None else weight for _, count, weight in counted], dtype=np.float64)
    columns = {name: equalize(table[:, place]) for place, name in enumerate(names)}

    def compare(a: str, b: str) -> tuple[int, Message | tuple[float, float]]:
        both = ~np.isnan(columns[a]) & ~np.isnan(columns[b])
        x, y, held = columns[a][both], columns[b][both], weights[both]
        n = int(counts[both].sum())
        reason = Message("few-items-have-both", least=FEWEST_CORRELATED) if n < FEWEST_CORRELATED else None
        for column, name in ((x, a), (y, b)):
            if reason is None and column.min() == column.max():
                reason = Message("ratings-of-equal", name=name)
        if reason is not None:
            return n, reason
        by_rank = pearson_weighted(rank_weighted(x, held), rank_weighted(y, held), held)
        return n, (by_rank, pearson_weighted(x, y, held))

    return tabulate_pairs(names, compare)

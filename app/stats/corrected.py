"""Means on people's scale: a judge's scores of all items, corrected by people's ratings of some.

Prediction-powered inference with a tuned weight (PPI++: Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): with
judge f, people y, N judged items and n of them rated, the estimate is λ · mean(f over the N − n unrated) +
mean(y − λ · f over the n rated). λ in [0, 1] makes its variance least; with λ = 0 it is the mean of people's ratings.

Every item adds to the error what it adds to the estimate (its influence), and influences are summed by cluster, so that
dialogues, several systems' answers to one item, and items that only some systems answered all count as they should:
the error of a difference comes from the difference of two systems' influences. Ratings chosen with known unequal
probabilities have their inverse as weights, divided by the weights' sum (Hájek's estimator, not Horvitz and
Thompson's: it is exact where all ratings are equal, and does not vary with how many items were drawn). Unrated items
are no random part then, so that f is averaged over all N items.

Few ratings (`benchmarks/corrected.py` measures all this): the rated part of the variance has the CR2 correction for few
clusters, and loses a degree of freedom to λ (as a regression estimate does: Cochran 1977, section 7.6); t has Bell and
McCaffrey's degrees of freedom of both parts, joined by Satterthwaite's rule. The interval is Wilson's on the estimate
as a share of the scale (`resampling`), since ratings near an end of their scale are skewed and t leaves too many means
out there. What is too skewed for that is refused, and so are fewer than FEWEST_RATED clusters with ratings.

Where it is known who rated what, the raters' severity is in the error of a mean, and cancels in a difference, which is
by the raters of both systems alone (`severity`). Of ratings by one rater, or by raters without a name, a mean is as
these raters see it, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, exp, inf, log, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from saiten.core.figures import write_figure
from saiten.core.messages import Message
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import (
    FEWEST_SHARED,
    AspectDifference,
    CorrectedAspect,
    CorrectedDifference,
    CorrectedFigure,
    CorrectedReport,
    CorrectedSystem,
    LevelShare,
    Looks,
    MeanFigure,
    Quantile,
    SharedRaters,
    SystemsDifference,
)
from saiten_server.stats.observations import (
    Floats,
    Integers,
    Mask,
    Observations,
    average_groups,
    number_keys,
    weigh_inversely,
)
from saiten_server.stats.phrases import join_clauses, tell_count, tell_count_within
from saiten_server.stats.resampling import (
    Clustered,
    clip_interval,
    combine,
    count_freedom,
    find_quantile,
    find_share,
    find_wilson,
    join_errors,
    join_freedom,
)
from saiten_server.stats.severity import (
    Contrast,
    IndividualRatings,
    Severity,
    SideRatings,
    contrast_raters,
    measure_severity,
)
from saiten_server.stats.statistics import find_t_p, refuse_many, settled_means

FEWEST_RATED = FEWEST_SHARED
"""Clusters with ratings below which intervals were not found to hold."""

FEWEST_WEIGHTED = 5.0
"""Clusters that weighted ratings must count as (Kish 1965: the squared sum of their weights by the sum of the squares).
Of fewer, one that outweighs all others makes the mean, and what it adds to the error is then next to nothing."""

PER_SQUARED_SKEWNESS = 3.0
"""So many clusters with ratings are needed for each unit of the squared skewness. (For tests with t Cochran 1977,
section 2.15, has 25; the interval used here needs fewer.)"""

SKEWNESS_ALLOWANCE = 2.0
"""How much more skewed the ratings may be than the few that are known."""

TUNED_AT = 100
TUNING = 8.78 / TUNED_AT
"""ρ² of the confidence sequence: −2 log α + log(−2 log α) + 1 at α = 0.05, over the clusters at which it is narrowest.
It is fixed beforehand, as it must be; from 20 clusters to 1,000 an interval is 1.55 to 1.7 times as wide as for one
look."""

MOST_OVERSHOOT = 1.0
"""By how many of the ratings' own ranges scores may lie beyond them where no scale is known."""

PLANNING_STEPS = 20
SPREAD_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)

MOST_PAIRS = 20_000
"""Pairs of systems by aspects."""

MOST_CORRECTED_VALUES = 40_000_000
"""Items by aspects, of several systems by half their number as well: some seconds for each ten million."""

MOST_RATED_LEVELS = 11
MOST_SHARED = 4_000_000
"""Values up to which each level has its share, some seconds' work."""

MOST_SHARES = 20_000
"""Shares in one report: systems by aspects by levels."""

NO_RATINGS = Message("no-ratings")
NO_SHARED_RATER = Message("no-shared-rater", needed=FEWEST_RATED)

FEWEST_EVEN = 10.0
"""Ratings of equal weight that those of shared raters must count as, where each rater weighs the same on both sides: of
fewer, one who rated nearly everything on one side and next to nothing on the other decides."""

MOST_RATERS = 1_000
"""Raters up to which is looked for how many would halve an interval."""
Bounds = tuple[float, float]


@dataclass(frozen=True)
class CorrectedSample:
    """One system's values of an aspect, item by item, all of shape (n,). `scores` have no NaN; `ratings` are NaN where
    no one rated. `clusters` are numbers of the clusters, shared by all systems. `weights` are the inverse of the
    probabilities with which rated items were chosen, None where all had the same. `said` has the ratings one by one,
    None where it is not known who rated what; `ratings` are then their means by item. `shares` are the inverse of the
    probabilities with which all items were sampled, None where these are equal; `weights` then have both."""

    scores: Floats
    ratings: Floats
    clusters: Integers
    weights: Floats | None = None
    said: IndividualRatings | None = None
    shares: Floats | None = None

    @property
    def raters(self) -> Integers:
        """The numbers of the raters who have a name, ascending; empty where none is known."""
        return np.empty(0, dtype=np.int64) if self.said is None else self.said.raters

    def by(self, raters: Integers) -> CorrectedSample:
        """The sample with ratings by these raters alone."""
        if self.said is None:
            return self
        said = self.said.by(raters)
        return replace(self, said=said, ratings=average_groups(said.value, said.item, len(self.scores)))

    @property
    def rated(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.ratings)))

    @property
    def rated_clusters(self) -> int:
        return len(group(self.clusters[~np.isnan(self.ratings)])[0])

    @property
    def others(self) -> Mask:
        """The items over which the judge's mean is taken: those not rated. Where items were not chosen evenly, those
        left are no picture of all, and it is taken over all."""
        return np.isnan(self.ratings) if self.weights is None else np.ones(len(self.ratings), dtype=np.bool_)

    def shares_of(self, items: Mask) -> Floats | None:
        """The shares of these."""
        return None if self.shares is None else self.shares[items]


@dataclass(frozen=True)
class CorrectionOptions:
    """How to estimate: `bounds` are the ends of people's scale, None where they are not known. `rates`: the values are
    rates of what is rare, so that a few large ones decide how far an error can be trusted."""

    alpha: float = 0.05
    quantile: Quantile = "t"
    bounds: Bounds | None = None
    looks: Looks = "once"
    rates: bool = False

    def settle(self, *samples: CorrectedSample) -> CorrectionOptions:
        """The options at the level that these samples' figures have at this look."""
        if self.looks == "once":
            return self
        return replace(self, alpha=find_level(self.alpha, min(sample.rated_clusters for sample in samples)))


@dataclass(frozen=True)
class Estimate:
    """An estimate of a mean with its error; `clustered.parts` are aligned with `clusters`, sorted numbers of shape
    (k,). `weight` is λ, `rated_error` and `judged_error` are the errors of the two terms. `severity` is what the raters
    add, None where the estimate is as these raters see it, or none rated."""

    clustered: Clustered
    clusters: Integers
    weight: float = 0.0
    rated_error: float = 0.0
    judged_error: float = 0.0
    severity: Severity | None = None

    @property
    def error(self) -> float:
        """The standard error, with the raters' severity in it."""
        own, found = self.clustered.error, self.severity
        return own if found is None else sqrt(max(own**2, found.variance + max(0.0, own**2 - found.counted)))

    def find_margin(self, alpha: float, *, normal: bool) -> float:
        """Half of the width of a symmetric interval at 1 − alpha. Two parts of the error with their own degrees of
        freedom are joined as modified large samples are (Graybill & Wang 1980): exact where one of them is all, and
        else too wide rather than too narrow."""
        own, found = self.clustered, self.severity

        def quantile(freedom: float) -> float:
            return -float(ndtri(alpha / 2)) if normal else find_quantile(freedom, alpha)

        alone = quantile(own.freedom) ** 2
        if found is None:
            return sqrt(alone) * own.error
        rest = max(0.0, own.error**2 - found.counted)
        return sqrt(max(alone * own.error**2, quantile(found.freedom) ** 2 * found.variance + alone * rest))


def trust_error(estimate: Estimate, options: CorrectionOptions) -> Estimate:
    """The estimate of rates with the degrees of freedom that the contributions of its clusters to the variance have by
    their own kurtosis; never more than it had."""
    parts = estimate.clustered.parts
    squares, count = parts * parts, len(parts)
    spread = 0.0
    if options.rates and (total := float(squares.sum())):
        spread = float(squares @ squares) / total**2 - 1 / count
    if spread <= 0:
        return estimate
    freedom = min(estimate.clustered.freedom, max(1.0, 2 / spread))
    return replace(estimate, clustered=replace(estimate.clustered, freedom=freedom))


def estimate_plain(values: Floats, clusters: Integers, weights: Floats | None = None, *, plain: bool) -> Estimate:
    """The mean of values, by their weights, with its cluster-robust error. `plain`: n is the divisor of the variance,
    and nothing is corrected for few clusters."""
    part = weigh_part(values, clusters, weights, plain=plain)
    return Estimate(part.clustered, part.clusters, rated_error=part.clustered.error)


def group(clusters: Integers) -> tuple[Integers, Integers]:
    """The different numbers, ascending, and each one's place among them; numbers are ≥ 0. Nothing is sorted."""
    held = np.zeros(int(clusters.max()) + 1 if len(clusters) else 0, dtype=np.bool_)
    held[clusters] = True
    numbers: Integers = np.cumsum(held)
    numbers -= 1
    return np.flatnonzero(held), numbers[clusters]


def unite(*clusters: Integers) -> Integers:
    """The numbers that are in any of these, ascending."""
    return group(np.concatenate(clusters))[0]


def weigh_part(values: Floats, clusters: Integers, weights: Floats | None, *, plain: bool) -> Estimate:
    """A weighted mean with what each cluster adds to its error."""
    names, place = group(clusters)
    k = len(names)
    if k == 1:
        mean = float(values.mean()) if weights is None else float(weights @ values / weights.sum())
        return Estimate(Clustered(mean, 0.0, 1.0, np.zeros(1)), names)
    if weights is None:
        # Not with `@` where all weigh alike: its last digit depends on where the arrays lie in memory.
        mean = float(values.mean())
        shares: Floats = np.bincount(place, minlength=k) / len(values)
        parts: Floats = np.bincount(place, values - mean, k) / len(values)
        spreads = [shares / len(values), shares]
    else:
        own = weights / weights.sum()
        mean = float(own @ values)
        spread = own * find_spreads(values - mean, weights)
        columns = own, own * (values - mean), spread * spread, spread
        shares, parts, *spreads = (np.bincount(place, column, k).astype(np.float64) for column in columns)
    freedom = k - 1.0
    if not plain:
        parts = parts / np.sqrt(np.maximum(1 - shares, 1e-12))
        if weights is not None or k < len(values):
            # Whether items of a cluster are independent or all alike is not known: the fewer degrees are taken.
            apart, alike = spreads
            freedom = min(count_freedom(shares, apart), count_freedom(shares, alike * alike))
    error = float(np.sqrt(parts @ parts))
    if error <= 1e-12 * float(np.abs(values).max()):
        error, parts = 0.0, np.zeros(k)
    return Estimate(Clustered(mean, error, max(1.0, freedom), parts), names)


def find_spreads(residuals: Floats, weights: Floats) -> Floats:
    """Standard deviations of the residuals up to a factor, shape (n,), for the degrees of freedom alone: the weights to
    the power of 0, −1 or something between, whichever makes normal residuals likeliest. Items chosen because the judge
    is unsteady there have low weights and wide residuals, so that all add alike to the error; where the choice had
    nothing to do with the residuals, high weights add most."""
    logs = np.log(weights / weights.mean())
    squares = residuals * residuals
    likelihoods = [
        power * logs.mean() - 0.5 * float(np.log(max(np.mean(squares * np.exp(2 * power * logs)), 1e-300)))
        for power in SPREAD_POWERS
    ]
    spreads: Floats = np.exp(-SPREAD_POWERS[int(np.argmax(likelihoods))] * logs)
    return spreads


def estimate_corrected(sample: CorrectedSample, *, plain: bool = False, weight: float | None = None) -> Estimate:
    """The estimate of people's mean of all items, at least one of which is rated. `weight` fixes λ. `plain` is the
    arithmetic of ppi-python: λ of independent items, variances with n as divisor, nothing corrected for few ratings."""
    rated = ~np.isnan(sample.ratings)
    weights = None if sample.weights is None else sample.weights[rated]
    human, judged = sample.ratings[rated], sample.scores[rated]
    own = sample.clusters[rated]
    alone = estimate_plain(human, own, weights, plain=plain)
    others = sample.others
    if not others.any() or len(alone.clusters) < 2:
        return alone
    if weight is None:
        weight = find_weight(sample, plain=plain)
    if weight == 0:
        return alone
    residual = weigh_part(human - weight * judged, own, weights, plain=plain)
    return join_terms(
        residual,
        weigh_part(sample.scores[others], sample.clusters[others], sample.shares_of(others), plain=plain),
        weight,
        plain=plain,
    )


def join_terms(residual: Estimate, judged: Estimate, weight: float, *, plain: bool) -> Estimate:
    """The sum of the rated term, and of λ times the judge's mean of the others."""
    first, second = residual.clustered, judged.clustered
    freedom, inflation = first.freedom, 1.0
    if not plain and freedom > 3:
        # λ was chosen to fit these ratings, which makes their residuals too small.
        inflation, freedom = freedom / (freedom - 1) * (1 + 1 / (freedom - 2)), freedom - 1
    ours, theirs = first.parts * sqrt(inflation), weight * second.parts
    names = unite(residual.clusters, judged.clusters)
    parts = spread_out(ours, residual.clusters, names) + spread_out(theirs, judged.clusters, names)
    variances = float(ours @ ours), float(theirs @ theirs)
    total = sum(variances)
    if total:
        freedom = total**2 / (variances[0] ** 2 / freedom + variances[1] ** 2 / second.freedom)
    error = float(np.sqrt(parts @ parts))
    joined = Clustered(first.mean + weight * second.mean, error, max(1.0, freedom), parts)
    return Estimate(joined, names, weight, sqrt(variances[0]), sqrt(variances[1]))


def find_weight(sample: CorrectedSample, *, plain: bool) -> float:
    """λ in [0, 1] that makes the variance least: minus the covariance of the rated and the judged term over the
    variance of the judged one. The spread of the scores, which all items show, takes the place of the few rated
    ones'."""
    rated, others = ~np.isnan(sample.ratings), sample.others
    human, judged = sample.ratings[rated], sample.scores[rated]
    spread = float(sample.scores.var(ddof=1)) if len(sample.scores) > 1 else 0.0
    if not spread or not np.ptp(judged) or not np.ptp(human):
        return 0.0
    if plain and sample.weights is None and len(group(sample.clusters)[0]) == len(rated):
        covariance = float(np.mean((human - human.mean()) * (judged - judged.mean())))
        found = covariance / ((1 + len(judged) / np.count_nonzero(others)) * spread)
        return float(np.clip(found, 0, 1))
    _, people, ours, theirs = split_terms(sample, others)
    pooled = spread / float(judged.var(ddof=1)) if sample.weights is None else 1.0
    variance = pooled * float(ours @ ours) + float(theirs @ theirs) - 2 * float(ours @ theirs)
    return float(np.clip(people @ (ours - theirs) / variance, 0, 1)) if variance > 0 else 0.0


def split_terms(sample: CorrectedSample, others: Mask) -> tuple[Integers, Floats, Floats, Floats]:
    """What each cluster adds to the error of people's mean, of the judge's mean of the rated items, and of its mean of
    the `others`: the clusters' numbers, ascending, and three columns of shape (clusters,)."""
    rated = ~np.isnan(sample.ratings)
    weights = None if sample.weights is None else sample.weights[rated]
    parts = [
        weigh_part(sample.ratings[rated], sample.clusters[rated], weights, plain=True),
        weigh_part(sample.scores[rated], sample.clusters[rated], weights, plain=True),
        weigh_part(sample.scores[others], sample.clusters[others], sample.shares_of(others), plain=True),
    ]
    names = unite(parts[0].clusters, parts[2].clusters)
    people, ours, theirs = (spread_out(part.clustered.parts, part.clusters, names) for part in parts)
    return names, people, ours, theirs


def spread_out(parts: Floats, clusters: Integers, names: Integers) -> Floats:
    """The parts at their clusters' places among more clusters, 0 elsewhere; shape (names,)."""
    found = np.zeros(len(names))
    found[np.searchsorted(names, clusters)] = parts
    return found


def find_mean_interval(estimate: Estimate, options: CorrectionOptions, seen: Bounds | None = None) -> Bounds | None:
    """The interval at 1 − alpha; None without a spread. Where no scale is known the `seen` ratings' ends stand in, and
    the interval of t bounds it from inside."""
    found = estimate.clustered
    if not found.error:
        return None
    margin = estimate.find_margin(options.alpha, normal=options.quantile == "normal")
    plain = found.mean - margin, found.mean + margin
    if options.quantile == "normal":
        return plain
    bounds = options.bounds or seen
    if bounds is None or not bounds[0] < bounds[1]:
        return plain
    if not bounds[0] < found.mean < bounds[1]:
        return plain if options.bounds is None else clip_interval(*plain, bounds)
    low, width = bounds[0], bounds[1] - bounds[0]
    share = find_share(found.mean, bounds)
    lower, upper = find_wilson(share, found.effective(share, width), margin / found.error)
    ends = low + width * lower, low + width * upper
    if options.bounds is None:
        return min(plain[0], ends[0]), max(plain[1], ends[1])
    return clip_interval(*ends, bounds)


def find_level(alpha: float, clusters: int) -> float:
    """The level of a look at so many clusters with ratings, at which all looks together miss with `alpha` at most: that
    of the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024 (arXiv 2103.06476,
    theorem 2.2), narrowest at TUNED_AT clusters."""
    time = TUNING * max(1, clusters)
    return 2 * float(ndtr(-sqrt(2 * (time + 1) / time * log(sqrt(time + 1) / alpha))))


def find_sequential_p(p: float, clusters: int) -> float:
    """The p that holds at every look, by that of this look: the alpha at which the sequence first excludes 0."""
    time = TUNING * max(1, clusters)
    squared = float(ndtri(p / 2)) ** 2 if p > 0 else inf
    return min(1.0, sqrt(time + 1) * exp(-squared / 2 * time / (time + 1)))


def find_refusal(sample: CorrectedSample, options: CorrectionOptions) -> tuple[Message, int | None] | None:
    """Why there is no corrected figure, and how many ratings it needs; None where there is one. At least one item is
    rated."""
    rated = ~np.isnan(sample.ratings)
    human, own = sample.ratings[rated], sample.clusters[rated]
    n, units = len(human), len(group(own)[0])
    extent = (float(human.min()), float(human.max()))
    fewest = 2 if options.quantile == "normal" else FEWEST_RATED
    least = fewest if options.quantile == "normal" else max(fewest, count_skewed(sample))
    needed = ceil(least * n / units)
    if units < fewest:
        rated_items = tell_count_within(n, "item", None if units == n else units)
        told = [Message("people-rated", items=rated_items), Message("ratings-needed-of", ratings=needed, units=fewest)]
        return join_clauses(told), needed
    if extent[0] == extent[1]:
        needed = max(needed, 2 * n)
        return Message("all-ratings-equal", ratings=n, needed=needed), needed
    if options.bounds is None and (apart := tell_other_scale(sample.scores, extent)):
        return apart, None
    if units < least:
        return Message("values-at-one-end", ratings=tell_count(n, "rating"), needed=needed), needed
    return None


def tell_uneven(sample: CorrectedSample) -> Message | None:
    """That the probabilities of rated items are so uneven that a few ratings outweigh all others."""
    if sample.weights is None:
        return None
    rated = ~np.isnan(sample.ratings)
    weights = sample.weights[rated]
    sums = np.bincount(group(sample.clusters[rated])[1], weights / weights.max())
    size = float(sums.sum() ** 2 / (sums @ sums))
    if size >= FEWEST_WEIGHTED:
        return None
    return Message("uneven-probabilities", ratings=tell_count(len(weights), "rating"), size=size)


def count_skewed(sample: CorrectedSample) -> int:
    """How many clusters must have ratings for values so skewed: as skewed as the judge's scores, which are many, unless
    people's ratings are evidently less so."""
    rated = ~np.isnan(sample.ratings)
    scores = abs(find_skewness(sample.scores, sample.clusters))
    human = abs(find_skewness(sample.ratings[rated], sample.clusters[rated])) + SKEWNESS_ALLOWANCE
    return ceil(PER_SQUARED_SKEWNESS * min(scores, human) ** 2)


def find_skewness(values: Floats, clusters: Integers) -> float:
    """Skewness of the clusters' means; 0 without a spread."""
    place = group(clusters)[1]
    means = np.bincount(place, values) / np.bincount(place)
    centred = means - means.mean()
    spread = float(np.mean(centred**2))
    return float(np.mean(centred**3)) / spread**1.5 if spread > 1e-18 * float(np.max(means**2)) else 0.0


def tell_other_scale(scores: Floats, extent: Bounds) -> Message | None:
    """That the scores' scale seems to be another than the ratings', of which only the values tell."""
    low, high = float(scores.min()), float(scores.max())
    slack = MOST_OVERSHOOT * (extent[1] - extent[0])
    near = extent[0] - slack <= low and high <= extent[1] + slack and low <= extent[1] and high >= extent[0]
    if near:
        return None
    return Message("different-scales", low=low, high=high, least=extent[0], most=extent[1])


def split_width(estimate: Estimate, alpha: float, freedom: float, *, normal: bool) -> tuple[float, float]:
    """The square of half the interval in two parts: what lasts however many more items the same raters rate, and what
    shrinks in proportion to these. `freedom` is that of the items."""
    alone = (-float(ndtri(alpha / 2)) if normal else find_quantile(max(1.0, freedom), alpha)) ** 2
    lasting, shrinking = alone * estimate.judged_error**2, alone * estimate.rated_error**2
    found = estimate.severity
    if found is not None and found.lasting:
        raters = (-float(ndtri(alpha / 2)) if normal else find_quantile(found.freedom, alpha)) ** 2
        lasting += raters * found.lasting
        noise = min(found.noise, found.variance)
        shrinking = raters * noise + alone * max(0.0, estimate.rated_error**2 - found.counted)
    return lasting, shrinking


def count_more(sample: CorrectedSample, estimate: Estimate, options: CorrectionOptions) -> int | None:
    """How many more ratings by the same raters would halve the interval; None where not even ratings of all judged
    items would."""
    normal = options.quantile == "normal"
    lasting, shrinking = split_width(estimate, options.alpha, estimate.clustered.freedom, normal=normal)
    left = (estimate.find_margin(options.alpha, normal=normal) / 2) ** 2 - lasting
    rated = sample.rated
    if left <= 0 or not shrinking:
        return None
    needed = ceil(rated * shrinking / left)
    return needed - rated if needed <= len(sample.scores) else None


def count_raters(estimate: Estimate, options: CorrectionOptions) -> int | None:
    """How many raters in all would halve the interval, if each rated as many items as each does now; None where their
    severity is not in it, or a thousand would not."""
    found, alpha = estimate.severity, options.alpha
    if found is None or options.quantile == "normal":
        return None
    wanted = (estimate.find_margin(alpha, normal=False) / 2) ** 2
    for raters in range(found.raters + 1, MOST_RATERS + 1):
        share = found.raters / raters
        one = replace(
            estimate,
            severity=found._replace(
                variance=found.variance * share,
                noise=found.noise * share,
                counted=found.counted * share,
                freedom=found.freedom / share,
            ),
            rated_error=estimate.rated_error * sqrt(share),
        )
        freedom = estimate.clustered.freedom / share
        if sum(split_width(one, alpha, freedom, normal=False)) <= wanted:
            return raters
    return None


def count_for_margin(
    sample: CorrectedSample, estimate: Estimate, options: CorrectionOptions, margin: float
) -> int | None:
    """How many more ratings by the same raters would bring the interval to ± `margin`; None where not even ratings of
    all judged items would."""
    rated, clusters, freedom = sample.rated, sample.rated_clusters, estimate.clustered.freedom
    needed, normal = rated, options.quantile == "normal"
    for _ in range(PLANNING_STEPS):
        growth = needed / rated
        level = options.alpha if options.looks == "once" else find_level(options.alpha, ceil(clusters * growth))
        lasting, shrinking = split_width(estimate, level, freedom * growth, normal=normal)
        left = margin**2 - lasting
        if left <= 0 or not shrinking:
            return None
        before, needed = needed, ceil(min(1e15, rated * shrinking / left))
        if needed == before:
            break
    return max(0, needed - rated) if needed <= len(sample.scores) else None


@dataclass(frozen=True)
class Corrected:
    """A `sample`'s three means. `corrected` is None where `refused` says why; `needed` is how many ratings it needs."""

    sample: CorrectedSample
    judge: Estimate
    human: Estimate | None
    corrected: Estimate | None
    refused: Message | None = None
    needed: int | None = None
    seen: Bounds | None = None


def correct(sample: CorrectedSample, options: CorrectionOptions) -> Corrected:
    """The judge's, people's and the corrected mean. The sample has at least one item."""
    plain = options.quantile == "normal"
    judge = estimate_plain(sample.scores, sample.clusters, sample.shares, plain=plain)
    rated = ~np.isnan(sample.ratings)
    if not rated.any():
        return Corrected(sample, judge, None, None, NO_RATINGS, FEWEST_RATED)
    if uneven := tell_uneven(sample):
        return Corrected(sample, judge, None, None, uneven)
    weights = None if sample.weights is None else sample.weights[rated]
    human = estimate_plain(sample.ratings[rated], sample.clusters[rated], weights, plain=plain)
    human = trust_error(add_severity(human, sample), options)
    extent = float(sample.ratings[rated].min()), float(sample.ratings[rated].max())
    refusal = find_refusal(sample, options)
    if refusal is not None:
        return Corrected(sample, judge, human, None, *refusal, extent)
    found = trust_error(add_severity(estimate_corrected(sample, plain=plain), sample), options)
    if not found.clustered.error:
        return Corrected(sample, judge, human, None, Message("no-corrected-spread"), None, extent)
    return Corrected(sample, judge, human, found, seen=extent)


def add_severity(estimate: Estimate, sample: CorrectedSample) -> Estimate:
    """The estimate of the sample with what its raters add to the error, where two or more are known."""
    said = sample.said
    if said is None or len(np.unique(np.maximum(said.rater, -1))) < 2 or not len(said.raters):
        return estimate
    found = measure_severity(said, sample.scores, sample.clusters, sample.weights, estimate.weight)
    return replace(estimate, severity=found)


@dataclass(frozen=True)
class Differing:
    """The difference of two estimates, candidate minus baseline; `p` is two-sided, by t."""

    difference: float
    error: float
    freedom: float
    interval: Bounds | None
    p: float | None


def differ(baseline: Estimate, candidate: Estimate, options: CorrectionOptions) -> Differing:
    """The difference of two estimates whose clusters may be shared: what they share is taken out of the error."""
    ours, theirs = candidate.clustered, baseline.clustered
    difference = ours.mean - theirs.mean
    _, left, right = np.intersect1d(candidate.clusters, baseline.clusters, assume_unique=True, return_indices=True)
    covariance = float(ours.parts[left] @ theirs.parts[right])
    variance = ours.error**2 + theirs.error**2 - 2 * covariance
    if not (ours.error or theirs.error) or variance <= 1e-12 * (ours.error**2 + theirs.error**2):
        return Differing(difference, 0.0, 1.0, None, None)
    error = sqrt(variance)
    # Independent errors have Welch's degrees of freedom, pairs those of one run.
    independent = join_freedom(theirs, ours)
    paired = min(side.freedom for side in (ours, theirs))
    shared = abs(2 * covariance) / join_errors(theirs, ours) ** 2
    freedom = independent + (paired - independent) * min(1.0, shared)
    if options.quantile == "normal":
        quantile, p = -float(ndtri(options.alpha / 2)), find_t_p(difference / error, inf)
        return Differing(difference, error, freedom, (difference - quantile * error, difference + quantile * error), p)
    quantile, p = find_quantile(freedom, options.alpha), find_t_p(difference / error, freedom)
    low, high = difference - quantile * error, difference + quantile * error
    bounds = options.bounds
    if bounds is not None:
        inside = all(bounds[0] < side.mean < bounds[1] for side in (ours, theirs))
        if inside and ours.error and theirs.error:
            correlation = float(np.clip(covariance / (ours.error * theirs.error), -1, 1))
            low, high = combine((ours, theirs), bounds, (quantile, quantile), correlation)
        width = bounds[1] - bounds[0]
        low, high = clip_interval(low, high, (-width, width))
    return Differing(difference, error, freedom, (low, high), p)


@dataclass(frozen=True)
class Shared:
    """Two samples by what their difference is estimated from: ratings by those who rated both, where it is known who
    did. `raters` is how many these are, 0 where that is not known, and `even` their contrast. `refused` says why there
    is no difference, and `needed` how many ratings of each sample by raters of both there would have to be."""

    baseline: CorrectedSample
    candidate: CorrectedSample
    raters: int = 0
    refused: Message | None = None
    needed: int | None = None
    even: Contrast | None = None


def share_raters(baseline: CorrectedSample, candidate: CorrectedSample, options: CorrectionOptions) -> Shared:
    """The samples with the ratings of those who rated both; as they are where no rater of either is known."""
    if not len(baseline.raters) and not len(candidate.raters):
        return Shared(baseline, candidate)
    raters = np.intersect1d(baseline.raters, candidate.raters)
    if not len(raters):
        return Shared(baseline, candidate, refused=NO_SHARED_RATER, needed=FEWEST_RATED)
    sides = baseline.by(raters), candidate.by(raters)
    for side in sides:
        refusal = find_refusal(side, options)
        if refusal is not None:
            return Shared(*sides, len(raters), Message("of-shared-raters", why=refusal[0]), refusal[1])
    found = contrast(*sides)
    if len(raters) > 1:
        effective = 0.0 if found is None else min(found.effective)
        if effective < FEWEST_EVEN:
            ratings = tell_count(min(side.rated for side in sides), "rating")
            why = Message("uneven-shared-raters", ratings=ratings, effective=effective, needed=FEWEST_EVEN)
            return Shared(*sides, len(raters), why, FEWEST_RATED)
    return Shared(*sides, len(raters), even=found)


def contrast(baseline: CorrectedSample, candidate: CorrectedSample) -> Contrast | None:
    """The two by the raters of both; None where it is not known who rated, or one rater did: that one's ratings need no
    weights."""
    if baseline.said is None or candidate.said is None:
        return None
    if len(np.union1d(baseline.raters, candidate.raters)) < 2:
        return None
    return contrast_raters(
        [
            SideRatings(said, one.scores, one.clusters, one.weights)
            for one, said in ((baseline, baseline.said), (candidate, candidate.said))
        ]
    )


def differ_shared(shared: Shared, options: CorrectionOptions) -> Differing:
    """The difference on people's scale by the raters of both."""
    return differ_corrected(shared.baseline, shared.candidate, options, shared.even)


def differ_corrected(
    baseline: CorrectedSample, candidate: CorrectedSample, options: CorrectionOptions, even: Contrast | None = None
) -> Differing:
    """The difference on people's scale of two samples that both have a corrected mean, and with `even` weights of their
    raters. λ is one for both, and makes the variance of the *difference* least: where people rated both answers to an
    item, most of what makes it easy or hard cancels, and another λ is best than for the means."""
    plain = options.quantile == "normal"
    samples = baseline, candidate
    if even is None:
        weight = find_shared_weight(baseline, candidate)
        found = [estimate_corrected(sample, plain=plain, weight=weight) for sample in samples]
    else:
        found = estimate_even(even, samples, plain=plain)
    found = [trust_error(one, options) for one in found]
    made = differ(found[0], found[1], options.settle(baseline, candidate))
    if options.looks == "once" or made.p is None:
        return made
    return replace(made, p=find_sequential_p(made.p, min(baseline.rated_clusters, candidate.rated_clusters)))


def estimate_even(even: Contrast, samples: Sequence[CorrectedSample], *, plain: bool) -> list[Estimate]:
    """Both estimates with each rater's weight the same in both, and one λ."""
    judged = [
        weigh_part(
            sample.scores[sample.others], sample.clusters[sample.others], sample.shares_of(sample.others), plain=plain
        )
        for sample in samples
        if sample.others.any()
    ]
    if len(judged) < len(samples):
        weight, judged = 0.0, []
    else:
        names = unite(even.clusters, *(one.clusters for one in judged))
        people, ours = (spread_out(even.parts[1, own] - even.parts[0, own], even.clusters, names) for own in (0, 1))
        before, after = (spread_out(one.clustered.parts, one.clusters, names) for one in judged)
        weight = find_least(people, ours - (after - before))
    found = []
    for side, freedom in enumerate(even.freedom):
        mean = float(even.means[side, 0] - weight * even.means[side, 1])
        parts = even.parts[side, 0] - weight * even.parts[side, 1]
        own = Estimate(Clustered(mean, float(np.sqrt(parts @ parts)), freedom, parts), even.clusters)
        found.append(join_terms(own, judged[side], weight, plain=plain) if weight else own)
    return found


def find_least(people: Floats, moved: Floats) -> float:
    """λ in [0, 1] that makes the variance of people's term less λ times the judge's least; shapes (clusters,)."""
    variance = float(moved @ moved)
    return float(np.clip(people @ moved / variance, 0, 1)) if variance > 0 else 0.0


def find_shared_weight(baseline: CorrectedSample, candidate: CorrectedSample) -> float:
    """λ in [0, 1] that makes the variance of the difference least."""
    sides = [split_terms(sample, sample.others) for sample in (baseline, candidate) if sample.others.any()]
    if len(sides) < 2:
        return 0.0
    names = unite(sides[0][0], sides[1][0])
    before, after = (np.stack([spread_out(column, side[0], names) for column in side[1:]]) for side in sides)
    people, ours, theirs = after - before
    return find_least(people, ours - theirs)


def report_corrected(
    observations: Observations,
    *,
    alpha: float = 0.05,
    units: str = "clusters",
    quantile: Quantile = "t",
    ranges: Mapping[str, Bounds] | None = None,
    aspects: Sequence[str] | None = None,
    looks: Looks = "once",
    margin: float | None = None,
) -> CorrectedReport:
    """Every system's means on the judge's and on people's scale, and the differences of each two systems. `aspects`
    restricts them, `looks` says how often anyone looks while people go on rating, and `margin` asks how many more
    ratings would bring each mean to ± so much. Raises InvalidRequest where no record has scores, or there are too
    many systems."""
    wanted = [name for name in observations.scores if aspects is None or name in aspects]
    refuse_large(observations, len(wanted))
    shares = len(observations.systems) * len(wanted) * MOST_RATED_LEVELS
    sharing = observations.units * len(wanted) <= MOST_SHARED and shares <= MOST_SHARES

    def options_of(aspect: str) -> CorrectionOptions:
        return CorrectionOptions(alpha, quantile, (ranges or {}).get(aspect), looks, aspect == FAULTY_TURNS)

    cluster = number_keys(observations.unit_cluster) if units == "clusters" else np.arange(observations.units)
    found: dict[str, dict[str, tuple[Corrected, CorrectedAspect]]] = {name: {} for name in observations.systems}
    for aspect in wanted:
        options = options_of(aspect)
        for name, (sample, left_out, raw) in split_systems(observations, aspect, cluster).items():
            corrected = correct(sample, options)
            figures = describe_system(corrected, sample, options, left_out, margin)
            levelled = sharing and aspect != FAULTY_TURNS
            levels = share_levels(sample, raw, replace(options, bounds=(0.0, 1.0))) if levelled else {}
            found[name][aspect] = corrected, figures.model_copy(update={"levels": levels})
    if not any(found.values()):
        raise InvalidRequest(Message("no-item-scored"), pointer="/data")
    differences = [
        SystemsDifference(baseline=one, candidate=other, aspects=compare_aspects(found[one], found[other], options_of))
        for one, other in combinations(observations.systems, 2)
    ]
    return CorrectedReport(
        alpha=alpha,
        looks=looks,
        margin=margin,
        systems={
            name: CorrectedSystem(aspects={aspect: figures for aspect, (_, figures) in aspects.items()})
            for name, aspects in found.items()
        },
        differences=tuple(differences),
        unmatched={
            name: Message("no-score-of-name")
            for name in observations.ratings
            if name not in observations.scores and name in (aspects or observations.ratings)
        },
    )


def refuse_large(observations: Observations, aspects: int) -> None:
    """Raises InvalidRequest where no record has scores, or so many aspects of all systems are too many."""
    if not observations.scores:
        raise InvalidRequest(Message("no-record-has-scores"), pointer="/scores_field")
    systems = len(observations.systems)
    refuse_many(systems, aspects, most=MOST_PAIRS)
    if observations.units * aspects * max(1, systems // 2) > MOST_CORRECTED_VALUES:
        raise InvalidRequest(
            Message(
                "corrected-most",
                items=observations.units,
                systems=tell_count(systems, "counted-system"),
                aspects=tell_count(aspects, "counted-aspect"),
            ),
        )


Levels = Mapping[float, Floats]
"""By level, the share of raters who gave it, of each rated item in order."""


def split_systems(
    observations: Observations, aspect: str, cluster: Integers
) -> dict[str, tuple[CorrectedSample, int, dict[float, Floats]]]:
    """By system its sample of the aspect, how many rated items are left out for want of a score, and the shares of the
    levels; without systems that have no score. `cluster` has shape (units,). Raises InvalidRequest where only some of
    the rated items say with which probability they were chosen."""
    scores = observations.means(observations.scores[aspect])
    column = observations.ratings.get(aspect)
    nothing = np.full(observations.units, np.nan)
    ratings = nothing if column is None else settled_means(observations, column)
    said = None if column is None else list_individual(observations, column)
    chosen = observations.probability
    probability = nothing if chosen is None else observations.means(chosen)
    sampled = None if observations.sampled is None else observations.means(observations.sampled)
    judged, rated = ~np.isnan(scores), ~np.isnan(ratings)
    shares = {} if column is None else share_by_level(observations, column, rated)
    found = {}
    for number, name in enumerate(observations.systems):
        own = observations.unit_system == number
        here = own & judged
        if not here.any():
            continue
        known = ~np.isnan(probability[here & rated])
        if known.any() and not known.all():
            raise InvalidRequest(
                Message("probability-incomplete"),
                pointer="/data",
            )
        uneven = known.any() and bool(np.ptp(probability[here & rated]))
        weights = 1 / probability[here] if uneven else None
        counted = None if sampled is None else weigh_inversely(sampled[here])
        if counted is not None:
            weights = counted if weights is None else weights * counted
        own_said = None if said is None else said.within(here)
        sample = CorrectedSample(scores[here], ratings[here], cluster[here], weights, own_said, counted)
        found[name] = sample, int(np.sum(own & rated & ~judged)), pick_shares(shares, rated, here)
    return found


def list_individual(observations: Observations, column: Floats) -> IndividualRatings | None:
    """The ratings of the column one by one, by unit; None where no rater is named."""
    rows = np.flatnonzero(~np.isnan(column))
    if not np.any(observations.rater[rows] >= 0):
        return None
    return IndividualRatings(observations.unit[rows], observations.rater[rows], column[rows])


def list_levels(column: Floats) -> list[float]:
    """The levels that people gave, where these are a few whole numbers."""
    levels = np.unique(column[~np.isnan(column)])
    few = 1 < len(levels) <= MOST_RATED_LEVELS and bool(np.all(levels == np.round(levels)))
    return levels.tolist() if few else []


def share_by_level(observations: Observations, column: Floats, rated: Mask) -> dict[float, Floats]:
    """By level the share of raters who gave it, of each unit that is rated; shape (rated units,)."""
    rows = np.flatnonzero(~np.isnan(column))
    place = (np.cumsum(rated) - 1)[observations.unit[rows]]
    units = int(rated.sum())
    return {lvl: average_groups((column[rows] == lvl).astype(np.float64), place, units) for lvl in list_levels(column)}


def pick_shares(shares: Mapping[float, Floats], rated: Mask, here: Mask) -> dict[float, Floats]:
    """The shares of the rated units that are here."""
    return {level: share[here[rated]] for level, share in shares.items()}


def share_levels(sample: CorrectedSample, levels: Levels, options: CorrectionOptions) -> dict[str, LevelShare]:
    """The share of items at each level, as the judge says (its scores rounded to the nearest level) and corrected."""
    if not levels or not sample.rated:
        return {}
    known = np.array(sorted(levels))
    nearest = known[np.searchsorted((known[1:] + known[:-1]) / 2, sample.scores)]
    return {
        f"{level:g}": share_level(sample, level, nearest == level, levels[level], options) for level in known.tolist()
    }


def share_level(
    sample: CorrectedSample, level: float, judged: Mask, rated: Floats, options: CorrectionOptions
) -> LevelShare:
    """The share of one `level`: `judged`, of shape (items,), where the judge gives it, `rated` the share of raters who
    do, of each rated item."""
    ratings = np.full(len(judged), np.nan)
    ratings[~np.isnan(sample.ratings)] = rated
    said = sample.said
    if said is not None:
        said = replace(said, value=(said.value == level).astype(np.float64))
    corrected = correct(replace(sample, scores=judged.astype(np.float64), ratings=ratings, said=said), options)
    return LevelShare(
        judge=corrected.judge.clustered.mean,
        human=None if corrected.human is None else corrected.human.clustered.mean,
        corrected=report_corrected_mean(corrected, options),
        refused=corrected.refused,
    )


REVERSED_P = 0.01
"""Of the correlation between scores and ratings, below which it is said that they go against each other."""


def tell_reversed(sample: CorrectedSample) -> Message | None:
    """That the judge's scores fall where people's ratings rise, beyond chance by Fisher's z over the clusters; else
    None. λ is 0 then, and a scale that is turned round more likely than a judge that is always wrong."""
    rated = ~np.isnan(sample.ratings)
    human, scores, units = sample.ratings[rated], sample.scores[rated], sample.rated_clusters
    if units < FEWEST_RATED or not np.ptp(human) or not np.ptp(scores):
        return None
    r = float(np.corrcoef(human, scores)[0, 1])
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1)) * sqrt(units - 3) if r < 0 else 0.0
    if 2 * ndtr(z) >= REVERSED_P:
        return None
    return Message("reversed", r=write_figure(r, 2), ratings=tell_count(len(human), "rating"))


def report_corrected_mean(found: Corrected, options: CorrectionOptions) -> CorrectedFigure | None:
    """The corrected mean; None where it was refused."""
    if found.corrected is None:
        return None
    one, settled = found.corrected, options.settle(found.sample)
    severe = one.severity is not None
    return CorrectedFigure(
        mean=one.clustered.mean,
        interval=find_mean_interval(one, settled, found.seen),
        weight=one.weight,
        standard_error=one.error,
        severity=severe,
        interval_by_these_raters=find_mean_interval(replace(one, severity=None), settled, found.seen)
        if severe
        else None,
    )


def describe_system(
    found: Corrected, sample: CorrectedSample, options: CorrectionOptions, left_out: int, margin: float | None = None
) -> CorrectedAspect:
    """One system's figures of one aspect."""
    rated = ~np.isnan(sample.ratings)
    judged = find_mean_interval(found.judge, options, (float(sample.scores.min()), float(sample.scores.max())))
    human = None
    if found.human is not None:
        human = MeanFigure(
            mean=found.human.clustered.mean,
            interval=find_mean_interval(found.human, options.settle(sample), found.seen),
        )
    notes = []
    if left_out:
        notes.append(Message("rated-left-out", items=tell_count(left_out, "rated-item")))
    if told := tell_reversed(sample):
        notes.append(told)
    if not np.ptp(sample.scores):
        notes.append(Message("scores-add-nothing"))
    settled = options.settle(sample)
    if found.corrected is not None:
        notes += tell_raters(sample, found.corrected, settled)
    if options.bounds is None and options.quantile == "t" and found.corrected is not None:
        notes.append(Message("no-scale-known"))
    return CorrectedAspect(
        judged=len(sample.scores),
        rated=sample.rated,
        clusters=len(group(sample.clusters)[0]),
        rated_clusters=len(group(sample.clusters[rated])[0]),
        raters=len(sample.raters),
        judge=MeanFigure(mean=found.judge.clustered.mean, interval=judged),
        human=human,
        corrected=report_corrected_mean(found, options),
        refused=found.refused,
        ratings_needed=found.needed,
        ratings_for_half_width=None if found.corrected is None else count_more(sample, found.corrected, settled),
        raters_for_half_width=None if found.corrected is None else count_raters(found.corrected, settled),
        ratings_for_margin=None
        if found.corrected is None or margin is None
        else count_for_margin(sample, found.corrected, options, margin),
        left_out=left_out,
        notes=tuple(notes),
    )


def tell_raters(sample: CorrectedSample, estimate: Estimate, options: CorrectionOptions) -> list[Message]:
    """Whom the interval speaks of: these raters, or people like them."""
    known = len(sample.raters)
    if not known:
        return [Message("unnamed-raters")]
    if estimate.severity is None:
        return [Message("one-person-rated")]
    told = [Message("severity-in-interval", raters=tell_count(known, "rater"))]
    if count_more(sample, estimate, options) is None and (enough := count_raters(estimate, options)):
        told.append(Message("more-raters-would-halve", raters=enough))
    return told


def tell_shared(shared: Shared) -> SharedRaters | None:
    """Who rated both, as reports have it; None where no rater is named."""
    if not len(shared.baseline.raters) and not len(shared.candidate.raters):
        return None
    known = shared.raters > 0
    return SharedRaters(
        raters=shared.raters,
        baseline=shared.baseline.rated if known else 0,
        candidate=shared.candidate.rated if known else 0,
        needed=shared.needed,
    )


def tell_difference(found: Differing) -> CorrectedDifference:
    """The difference as reports have it."""
    return CorrectedDifference(
        difference=found.difference,
        interval=found.interval,
        p=found.p,
        standard_error=found.error or None,
        freedom=found.freedom if found.error else None,
    )


def compare_aspects(
    baseline: Mapping[str, tuple[Corrected, CorrectedAspect]],
    candidate: Mapping[str, tuple[Corrected, CorrectedAspect]],
    options_of: Callable[[str], CorrectionOptions],
) -> dict[str, AspectDifference]:
    """The differences of two systems in the aspects that both have."""
    found = {}
    for aspect in baseline:
        if aspect not in candidate:
            continue
        before, after, options = baseline[aspect][0], candidate[aspect][0], options_of(aspect)
        judge = differ(before.judge, after.judge, options)
        corrected, refused, shared = None, before.refused or after.refused, None
        if before.sample.rated and after.sample.rated:
            shared = share_raters(before.sample, after.sample, options)
            refused = refused or shared.refused
            if refused is None:
                corrected = tell_difference(differ_shared(shared, options))
        found[aspect] = AspectDifference(
            judge=tell_difference(judge),
            corrected=corrected,
            refused=refused,
            shared=None if shared is None else tell_shared(shared),
        )
    return found

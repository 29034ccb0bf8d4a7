"""Estimates of clustered samples: intervals in closed form, bootstrap intervals, and permutation tests.

The unit is the cluster: a dialogue with its turns, or an item of its own. Only sums over clusters are needed.

Intervals of means and differences (`benchmarks/verdicts.py` measures their coverage):

- Standard errors are cluster-robust with the CR2 correction for few clusters, and t has the matching degrees of freedom
  (Bell & McCaffrey 2002). With clusters of one size this is the t interval of the clusters' means.
- On a scale, a mean's variance vanishes towards the ends, and a mean near an end is skewed. There the interval is
  Wilson's (1927) score interval on the mean as a share of the scale, with the effective number of values that the
  clustered variance implies (Korn & Graubard 1998) and a t quantile. In the middle of a scale it hardly differs from
  the t interval, near the ends it keeps its coverage, and it never leaves the scale.
- Differences combine two such intervals (MOVER: Newcombe 1998, Zou & Donner 2008).

Bootstrap intervals: what several systems answered to one context is not independent, nor are the turns of a dialogue.
So clusters are drawn, each with all of its pairs (Davison & Hinkley 1997, section 3.8), and intervals use expanded
percentiles. A resample is represented by the count of each distinct pair, since ratings have few values.

Tests of the difference of two means compare the studentised difference with its distribution under sign flips (paired)
or permutations (unpaired) of clusters. Studentised, they are also valid if only the means are equal and not the
distributions (Janssen 1997, Chung & Romano 2013), unlike a signed-rank test. Time and memory are bounded: flips are
made in blocks, and with very many clusters several are flipped together, which is a subgroup of all flips, so that the
test keeps its level.

Sign flips and permutations of few clusters see neither skewness nor changes that have not occurred yet. Flips of signs
take the changes for symmetric. If nine dialogues in ten fall a little and one in ten rises by far, the mean stays as it
is, and yet all of ten dialogues fall in a third of all samples: the flips give p = 0.002. Two checks give a p of their
own, and the largest p counts.

- A skewed sample: the t statistic is corrected by the sample's third moment (Hall 1992), where that matters.
- A sample that hardly varies: of n dialogues that all changed by d, others that change by r the other way may be
  missing. If the true mean change is 0, n such dialogues miss them with a probability of at most (r / (r + d))^n. What
  r can be, the scale says. Where dialogues vary enough that one of them hardly moves the mean, their spread tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, inf, isfinite, sqrt

import numpy as np
from scipy.special import betaincinv, gammainccinv, ndtr, stdtr, stdtrit

from saiten.core.messages import Message
from saiten_server.stats.observations import Floats, Integers, number_keys
from saiten_server.stats.phrases import NO_VALUES
from saiten_server.stats.statistics import level

MEAN_ROUNDING = 1e-9
"""Means that differ by less, relative to the largest, are equal but for rounding."""

ONE_CLUSTER = Message("one-cluster")
NO_SPREAD = Message("no-spread-of-means")
NO_WEIGHTY_SPREAD = Message("no-spread-of-weighty")


@dataclass(frozen=True)
class IntervalEstimate:
    """A mean, or a difference of two. `interval` is never outside the scale; None where `reason` says why."""

    mean: float | None
    interval: tuple[float, float] | None
    clusters: int
    reason: Message | None


@dataclass(frozen=True)
class Clustered:
    """A mean over the values of all clusters, with what its clusters contribute to its error. `parts` has shape
    (clusters,): the root of its sum of squares is `error`, the standard error. `freedom` is that of t, at least 1 where
    there are two clusters."""

    mean: float
    error: float
    freedom: float
    parts: Floats

    @property
    def clusters(self) -> int:
        return len(self.parts)

    def effective(self, share: float, width: float) -> float:
        """How many independent values of 0 and 1 would give a mean of `share` the same error on a scale of `width`."""
        return share * (1 - share) * (width / self.error) ** 2 if self.error else inf


def add_up(values: Floats, codes: Integers, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Sums and counts by cluster of values and their clusters' numbers, all of shape (n,); by `weights`, values count
    for so many."""
    places = number_keys(codes)
    counts = np.bincount(places, weights=weights).astype(np.float64)
    values = values if weights is None else weights * values
    sums: Floats = np.bincount(places, weights=values, minlength=len(counts)).astype(np.float64)
    return sums, counts


def add_up_moves(moves: Floats, codes: Integers, weights: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Sums of rises, sums of falls, both ≥ 0, and counts by cluster of differences, which count as in `add_up`."""
    rises, counts = add_up(np.maximum(moves, 0.0), codes, weights)
    falls, _ = add_up(np.maximum(-moves, 0.0), codes, weights)
    return rises, falls, counts


def describe_clusters(sums: Floats, counts: Floats) -> Clustered:
    """The mean of all values with its cluster-robust error, from sums and numbers by cluster, shape (clusters,). Every
    count is at least 1; there is at least one cluster. One cluster has no error."""
    total = float(counts.sum())
    mean = float(sums.sum()) / total
    means = sums / counts
    if len(sums) == 1 or float(np.ptp(means)) <= MEAN_ROUNDING * float(np.abs(means).max()):
        return Clustered(mean, 0.0, max(1.0, len(sums) - 1.0), np.zeros(len(sums)))
    shares = counts / total
    parts = (sums - counts * mean) / np.sqrt(1 - shares) / total
    # Whether turns of a dialogue are independent or all alike is not known: the fewer degrees of freedom are taken.
    freedom = min(count_freedom(shares, counts), count_freedom(shares, counts**2))
    return Clustered(mean, float(np.sqrt(parts @ parts)), max(1.0, freedom), parts)


def count_freedom(shares: Floats, variances: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of the CR2 variance of a mean, shapes (clusters,). `shares` are the
    clusters' of all values, `variances` those of their sums, but for a factor. With M the covariance of the corrected
    residuals it is tr(M)² / tr(M²), M being diagonal but for a matrix of rank 2."""
    scale = 1 / np.sqrt(1 - shares)
    x, y, total = scale * shares, scale * variances, float(variances.sum())
    diagonal = scale * y
    low_rank = total * x * x - 2 * x * y
    xx, xy, yy = float(x @ x), float(x @ y), float(y @ y)
    squares = 2 * xx * yy + 2 * xy * xy + (total * xx) ** 2 - 4 * total * xx * xy
    trace = float(np.sum(diagonal + low_rank))
    return trace**2 / (float(diagonal @ diagonal) + 2 * float(diagonal @ low_rank) + squares)


def find_quantile(freedom: float, alpha: float) -> float:
    """The two-sided quantile of Student's t at 1 − alpha."""
    # From the lower tail: 1 − alpha / 2 would be 1 for a small alpha, and the quantile infinite.
    return -float(stdtrit(freedom, alpha / 2))


def find_effective(counts: Floats) -> float:
    """How many clusters of one size these are worth (Kish)."""
    return float(counts.sum() ** 2 / (counts @ counts))


def estimate_mean(
    sums: Floats, counts: Floats, *, bounds: tuple[float, float] | None, alpha: float = 0.05, weighted: bool = False
) -> IntervalEstimate:
    """The mean of all values and its interval at 1 − alpha, from sums and numbers of values by cluster. Both have shape
    (clusters,); clusters without values do not count. `bounds` are the ends of the scale, None if there are none, as
    for blended values: the interval is then that of t."""
    held = counts > 0
    if not held.any():
        return IntervalEstimate(None, None, 0, NO_VALUES)
    found = describe_clusters(sums[held], counts[held])
    if not found.error:
        return IntervalEstimate(found.mean, None, found.clusters, ONE_CLUSTER if found.clusters == 1 else NO_SPREAD)
    if weighted and are_weighty_alike(sums[held], counts[held]):
        return IntervalEstimate(found.mean, None, found.clusters, NO_WEIGHTY_SPREAD)
    quantile = find_quantile(found.freedom, alpha)
    if bounds is None or not bounds[0] < bounds[1]:
        margin = quantile * found.error
        return IntervalEstimate(found.mean, (found.mean - margin, found.mean + margin), found.clusters, None)
    low, width = bounds[0], bounds[1] - bounds[0]
    share = find_share(found.mean, bounds)
    lower, upper = find_wilson(share, found.effective(share, width), quantile)
    return IntervalEstimate(
        found.mean, clip_interval(low + width * lower, low + width * upper, bounds), found.clusters, None
    )


def are_weighty_alike(sums: Floats, counts: Floats) -> bool:
    """Whether clusters whose mean is not the most frequent one count together for less than one of those that make the
    mean; shapes (clusters,)."""
    held = np.bincount(np.unique(level(sums / counts), return_inverse=True)[1], weights=counts)
    total = float(counts.sum())
    return total - float(held.max()) < total / find_effective(counts)


RARE = 20
"""Clusters with an event below which a rate's interval allows for one that is unlike them."""


def estimate_rate(
    sums: Floats, counts: Floats, *, bounds: tuple[float, float], alpha: float = 0.05, weighted: bool = False
) -> IntervalEstimate:
    """The rate of events that most clusters lack, or all have, and its interval; arguments as of `estimate_mean`.

    Of clusters that all lack it, n let a share of 1 − alpha^(1/n) have it. Where few have it they show little of how
    differently others would: the interval is then that of `estimate_mean`, and at least the t interval with one more
    cluster of the usual size, all of whose values are at the other end.

    `weighted` says that clusters were sampled with different probabilities. Those that count little and have the event
    say little of those that count for much and lack it: they are as many as they are worth of these, and it is one of
    these that is added.
    """
    held = counts > 0
    found = estimate_mean(sums, counts, bounds=bounds, alpha=alpha)
    if found.mean is None or found.clusters < 2:
        return found
    sums, counts = sums[held], counts[held]
    effective = find_effective(counts)
    size = float(counts.sum()) / effective if weighted else float(counts.mean())
    low, high = found.interval or (found.mean, found.mean)
    for end, other in (bounds, bounds[::-1]):
        away = np.abs(sums - end * counts) > MEAN_ROUNDING * (bounds[1] - bounds[0])
        if (float(counts[away].sum()) / size if weighted else np.count_nonzero(away)) >= RARE:
            continue
        reached = end + (1 - alpha ** (1 / effective)) * (other - end)
        if away.any():
            widened = describe_clusters(np.append(sums, other * size), np.append(counts, size))
            side = 1 if other > end else -1
            reached = widened.mean + side * find_quantile(widened.freedom, alpha) * widened.error
        low, high = min(low, reached), max(high, reached)
    if low == high:
        return found
    return IntervalEstimate(found.mean, clip_interval(low, high, bounds), found.clusters, None)


def find_share(mean: float, bounds: tuple[float, float]) -> float:
    """The mean as a share of the scale."""
    return float(np.clip((mean - bounds[0]) / (bounds[1] - bounds[0]), 0.0, 1.0))


def find_wilson(share: float, effective: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval of a share of so many effective values."""
    if not isfinite(effective) or effective <= 0:
        return share, share
    squared = quantile**2 / effective
    middle = (share + squared / 2) / (1 + squared)
    margin = sqrt(squared * share * (1 - share) + squared**2 / 4) / (1 + squared)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def clip_interval(low: float, high: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """The interval without what rounding adds to the scale; −0 is 0."""
    return max(low, bounds[0]) + 0.0, min(high, bounds[1]) + 0.0


def estimate_paired(
    rises: Floats, falls: Floats, counts: Floats, *, width: float | None, alpha: float = 0.05, weighted: bool = False
) -> IntervalEstimate:
    """The mean difference of pairs and its interval, from the clusters' sums of rises, of falls, both ≥ 0, and numbers
    of pairs, shapes (clusters,). `width` is that of the scale, None where there is none.

    Most ratings of two runs are often equal, so that a few rises and falls decide, and their mean is skewed: each of
    the two is a mean near the lower end of what it may be, and the difference is theirs.

    `weighted` says that clusters were sampled with different probabilities: few rises of clusters that count little
    are then as good as none.
    """
    if not len(counts):
        return IntervalEstimate(None, None, 0, NO_VALUES)
    found = describe_clusters(rises - falls, counts)
    if not found.error:
        return IntervalEstimate(found.mean, None, found.clusters, ONE_CLUSTER if found.clusters == 1 else NO_SPREAD)
    quantile = find_quantile(found.freedom, alpha)
    if width is None:
        margin = quantile * found.error
        return IntervalEstimate(found.mean, (found.mean - margin, found.mean + margin), found.clusters, None)
    sides = describe_clusters(rises, counts), describe_clusters(falls, counts)
    product = sides[0].error * sides[1].error
    correlation = float(sides[0].parts @ sides[1].parts) / product if product else 0.0
    low, high = combine(sides, (0.0, width), (quantile, quantile), max(-1.0, min(1.0, correlation)))
    # If no pair has risen or fallen, the end on that side is at least that of the t interval.
    if weighted or not falls.any():
        low = min(low, found.mean - quantile * found.error)
    if weighted or not rises.any():
        high = max(high, found.mean + quantile * found.error)
    return IntervalEstimate(found.mean, clip_interval(low, high, (-width, width)), found.clusters, None)


def estimate_unpaired(
    baseline: Clustered,
    candidate: Clustered,
    *,
    bounds: tuple[float, float] | None,
    alpha: float = 0.05,
    weighted: bool = False,
) -> IntervalEstimate:
    """The difference of two independent means, candidate minus baseline, with its interval. `weighted` says that
    clusters were sampled with different probabilities: what varies in those that count little is as good as nothing."""
    clusters, difference = min(baseline.clusters, candidate.clusters), candidate.mean - baseline.mean
    if clusters == 1 or not (baseline.error or candidate.error):
        return IntervalEstimate(difference, None, clusters, ONE_CLUSTER if clusters == 1 else NO_SPREAD)
    margin = find_quantile(join_freedom(baseline, candidate), alpha) * join_errors(baseline, candidate)
    low, high = difference - margin, difference + margin
    if bounds is None:
        return IntervalEstimate(difference, (low, high), clusters, None)
    quantiles = find_quantile(candidate.freedom, alpha), find_quantile(baseline.freedom, alpha)
    ends = combine((candidate, baseline), bounds, quantiles, 0.0)
    # If one side does not vary, the interval is at least the t interval.
    varies = baseline.error and candidate.error and not weighted
    low, high = ends if varies else (min(low, ends[0]), max(high, ends[1]))
    width = bounds[1] - bounds[0]
    return IntervalEstimate(difference, clip_interval(low, high, (-width, width)), clusters, None)


def combine(
    sides: tuple[Clustered, Clustered],
    bounds: tuple[float, float],
    quantiles: tuple[float, float],
    correlation: float,
) -> tuple[float, float]:
    """The interval of the first mean minus the second from their own (Newcombe 1998, method 10)."""
    width = bounds[1] - bounds[0]
    shares = [find_share(side.mean, bounds) for side in sides]
    (low, high), (least, most) = (
        find_wilson(share, side.effective(share, width), quantile)
        for share, side, quantile in zip(shares, sides, quantiles, strict=True)
    )
    below = join_margins(shares[0] - low, most - shares[1], correlation)
    above = join_margins(high - shares[0], shares[1] - least, correlation)
    difference = sides[0].mean - sides[1].mean
    return difference - width * below, difference + width * above


def join_margins(one: float, other: float, correlation: float) -> float:
    """The margin of a difference of correlated means on one side."""
    return sqrt(max(0.0, one**2 + other**2 - 2 * correlation * one * other))


def join_errors(*sides: Clustered) -> float:
    """The standard error of the difference of independent means."""
    return sqrt(sum(side.error**2 for side in sides))


def join_freedom(*sides: Clustered) -> float:
    """Welch and Satterthwaite's degrees of freedom of the difference of independent means; one of them has an error."""
    squares = [side.error**2 for side in sides]
    return sum(squares) ** 2 / sum(square**2 / side.freedom for square, side in zip(squares, sides, strict=True))


CELLS = 2_000_000
"""Resamples by pairs, or flips by clusters, that are in memory at once."""

FEWEST_RESAMPLES = 200
"""With fewer, percentiles are too uncertain and there is no interval."""

LEAST_DEFINED = 0.95
"""Share of resamples in which the figure must be defined: otherwise the percentiles would be too narrow."""

FEWEST_TO_DRAW_FROM = 8
"""Of fewer clusters the intervals of close correlations are too narrow: of 4 they held a Spearman's ρ of .95 in half of
300 runs, of 6 in 77%, of 8 in 90%."""

Counts = Integers
"""How often each pair is in each resample, shape (resamples, n)."""

Figure = Callable[[Counts], Floats]
"""A figure of each resample, shape (resamples,), NaN where it has none; or a column in it, shape (resamples, n)."""


def draw_clusters(cluster: Integers, resamples: int, seed: int | tuple[int, int]) -> Iterator[Counts]:
    """How often each pair is in each resample of the clusters, in parts of shapes (resamples at once, n). `cluster`, of
    shape (n,), is each pair's, numbered from 0 without gaps; as many are drawn as there are, with replacement. The same
    seed (and stream) gives the same."""
    generator = np.random.default_rng(seed)
    clusters = count_clusters(cluster)
    at_once = max(1, CELLS // max(1, len(cluster)))
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, clusters, size=(rows, clusters)) + np.arange(rows)[:, None] * clusters
        counts = np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)
        # As many clusters as pairs: each is its own.
        yield counts if clusters == len(cluster) else counts[:, cluster]


def count_clusters(cluster: Integers) -> int:
    """How many there are."""
    return int(cluster.max()) + 1 if len(cluster) else 0


class Groups:
    """Which rows are of one group, so that counts of rows become counts of groups."""

    def __init__(self, group: Integers) -> None:
        """`group`, of shape (n,), is each row's, numbered from 0 without gaps."""
        self._order = np.argsort(group, kind="stable")
        held = np.bincount(group)
        self._starts = np.cumsum(held) - held

    def sum(self, counts: Counts) -> Counts:
        """Shape (resamples, n) to (resamples, groups)."""
        return np.add.reduceat(counts[:, self._order], self._starts, axis=1)


def interval_of(figures: Floats, clusters: int) -> tuple[float, float] | Message:
    """The 95% interval of a figure's resamples, NaN where it has none; or why there is no interval.

    The percentiles are expanded for the number of clusters that were drawn: Φ(±√(n / (n − 1)) · t) in place of 2.5 and
    97.5%, t being Student's with n − 1 degrees of freedom. Of few items a resample varies too little, by just that
    factor where the figure is a mean of normal values (Hesterberg 2015, section 5.3).
    """
    known = figures[~np.isnan(figures)]
    if clusters < FEWEST_TO_DRAW_FROM:
        return Message("too-few-to-draw-from", least=FEWEST_TO_DRAW_FROM)
    if not len(figures):
        return Message("no-resamples")
    if len(known) < LEAST_DEFINED * len(figures):
        return Message("resamples-without-figure", missing=len(figures) - len(known), resamples=len(figures))
    tail = float(ndtr(-sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, 0.975)))
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


class ResampledRanks:
    """The mid-ranks of a column, shape (n,), in its resamples. The column is sorted once, and no resample is."""

    def __init__(self, values: Floats) -> None:
        self._place = np.unique(values, return_inverse=True)[1]
        self._groups = Groups(self._place)

    def count(self, counts: Counts) -> Counts:
        """How often each distinct value is in each resample, shape (resamples, distinct)."""
        return self._groups.sum(counts)

    def of(self, counts: Counts) -> Floats:
        """The rank from 1 that each pair has in a resample that holds it, shape (resamples, n)."""
        held = self.count(counts)
        # Ties take the places from the end of what is smaller to their own end, and share their mean.
        middle = np.cumsum(held, axis=1) - (held - 1) / 2
        return middle[:, self._place]


def deviations(counts: Counts, values: Floats) -> Floats:
    """Deviations from each resample's mean, in units of its largest, of a column of shape (n,) or (resamples, n). Shape
    (resamples, n). They are 0 where the resample is constant or a pair is not in it."""
    held = counts > 0
    rows = np.broadcast_to(values, counts.shape)
    low = np.where(held, rows, np.inf).min(axis=1, keepdims=True)
    high = np.where(held, rows, -np.inf).max(axis=1, keepdims=True)
    mean = np.einsum("ri,ri->r", counts, rows)[:, None] / counts.sum(axis=1, keepdims=True)
    largest = np.where(high > low, np.maximum(high - mean, mean - low), np.inf)
    return np.where(held, rows - mean, 0.0) / largest


def correlate_deviations(counts: Counts, x: Floats, y: Floats) -> Floats:
    """Pearson's r in each resample, shape (resamples,), of `deviations`; NaN where one side is constant."""
    weighted = counts * x
    products = np.einsum("ri,ri->r", weighted, y)
    squares = np.einsum("ri,ri->r", weighted, x) * np.einsum("ri,ri->r", counts * y, y)
    r = np.divide(products, np.sqrt(squares), out=np.full(len(counts), np.nan), where=squares > 0)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped


FEWEST_TEST_CLUSTERS = 6
"""Of five clusters with one sign 2 of 2^5 flips are as far out: p = 0.0625 is the least that there can be."""

FLIPS = 10_000
MOST_FLIPS = 100_000
PER_LEVEL = 20
"""Flips that are expected below the level of a test, so that chance in drawing them hardly matters."""

MOST_MOVED = 2_000
"""Clusters that are flipped one by one; more are merged into blocks."""

MANY = 60
"""Clusters beyond which flips or permutations can never all be listed."""


TIES = 1e-9
"""Statistics that differ by less, relative to themselves, are equal but for rounding. Of values up to 1, sums that are
smaller are nothing but rounding."""


def count_flips(significance: float) -> int:
    """How many flips or permutations are drawn for a test at this level, where there are too many to list."""
    return int(min(MOST_FLIPS, max(FLIPS, ceil(PER_LEVEL / significance))))


def find_least_p(flips: int, left: int, right: int | None = None) -> float:
    """The smallest two-sided p that there can be: of so many clusters that differ, or of two runs of so many."""
    left, right = min(left, MANY), None if right is None else min(right, MANY)
    ways = 2**left if right is None else comb(left + right, left)
    return min(1.0, 2 / ways if can_list(ways, flips, halved=right is None) else 1 / (flips + 1))


COUNT_STEPS = 50
"""Halvings after which a count is exact but for rounding."""


def bound_share(differing: int, clusters: float, alpha: float) -> float:
    """The share of clusters that may differ where so many of these do, with 1 − alpha confidence (Clopper and Pearson).
    Of none that differs in n it is 1 − alpha^(1/n)."""
    return float(betaincinv(differing + 1, clusters - differing, 1 - alpha)) if differing < clusters else 1.0


def count_to_bound(share: float, differing: int, alpha: float) -> float:
    """Of how many clusters `bound_share` is this share, if no more of them differ; the share is above 0."""
    low, high = float(differing), differing + 1.0
    while bound_share(differing, high, alpha) > share:
        low, high = high, 2 * high
    for _ in range(COUNT_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if bound_share(differing, middle, alpha) > share else (low, middle)
    return high


def explain_unreachable(level: float) -> Message | None:
    """Why no test by flips or permutations is significant at this level, however many clusters there are; None where
    one may be."""
    flips = count_flips(level)
    return Message("flips-too-few", flips=flips, level=level) if find_least_p(flips, MANY) >= level else None


def can_list(ways: int, flips: int, *, halved: bool) -> bool:
    """Whether all ways can be listed. Sign flips come in mirrored pairs with one statistic, so half are enough."""
    return ways // (1 + halved) <= flips


def flip_signs(sums: Floats, counts: Floats, generator: np.random.Generator, *, flips: int = FLIPS) -> float:
    """The two-sided p of a mean difference of pairs, from sums of differences and numbers of pairs by cluster. Both
    have shape (clusters,). A flip changes the sign of whole clusters. All are listed where they are few enough, else
    `flips` are drawn. Clusters without a difference have no say in which of them are as far out."""
    scale = float(np.abs(sums).max(initial=0.0))
    moved = level(sums / scale) != 0 if scale else np.zeros(len(sums), dtype=bool)
    if not moved.any():
        return 1.0
    features = np.stack([sums[moved] / scale, counts[moved]], axis=1)
    still = float(counts[~moved] @ counts[~moved])
    if len(features) > MOST_MOVED:
        features = merge_clusters(features, MOST_MOVED, generator)
    own, sizes = features.T
    weights = np.stack([own, own * sizes], axis=1)
    total, sizes_squared, squares = float(counts.sum()), still + float(sizes @ sizes), float(own @ own)

    def weigh(shifts: Floats) -> Floats:
        """T² / (1 + T² / k), of shape (flips,), which is finite where all differences are equal; T is the mean by its
        cluster-robust error, k the number of clusters that differ."""
        sum_flipped, weighted = shifts.T
        mean = sum_flipped / total
        found = squares - 2 * mean * weighted + mean**2 * sizes_squared
        statistic: Floats = sum_flipped**2 / (np.maximum(found, 0) + sum_flipped**2 / len(own))
        return statistic

    # A sign that is flipped takes its cluster's weight off twice.
    least = float(weigh(weights.sum(axis=0)[None])[0]) * (1 - TIES) - TIES**2
    exact = can_list(2 ** len(own), flips, halved=True)
    signs = list_signs(len(own)) if exact else draw_signs(len(own), flips, generator)
    beyond = tried = 0
    for flipped in signs:
        beyond += int(np.sum(weigh(weights.sum(axis=0) - 2 * flipped @ weights) >= least))
        tried += len(flipped)
    return beyond / tried if exact else (1 + beyond) / (1 + tried)


def merge_clusters(features: Floats, blocks: int, generator: np.random.Generator) -> Floats:
    """Sums of clusters drawn into so many blocks, shape (clusters, k) to (blocks, k)."""
    starts = np.linspace(0, len(features), blocks, endpoint=False).astype(np.int64)
    return np.add.reduceat(features[generator.permutation(len(features))], starts, axis=0)


def list_signs(clusters: int) -> Iterator[Floats]:
    """Every choice of clusters to flip, the last left out, whose flips mirror the others; of shape (rows, clusters)."""
    rows = max(1, CELLS // clusters)
    for start in range(0, 2 ** (clusters - 1), rows):
        numbers = np.arange(start, min(start + rows, 2 ** (clusters - 1)))
        yield ((numbers[:, None] >> np.arange(clusters)) & 1).astype(np.float64)


def draw_signs(clusters: int, flips: int, generator: np.random.Generator) -> Iterator[Floats]:
    """So many random choices of clusters to flip, in blocks of shape (rows, clusters)."""
    rows, width = max(1, CELLS // clusters), -(-clusters // 8)
    for start in range(0, flips, rows):
        size = min(rows, flips - start)
        packed = np.frombuffer(generator.bytes(size * width), dtype=np.uint8).reshape(size, width)
        yield np.unpackbits(packed, axis=1, count=clusters).astype(np.float64)


def permute_runs(
    baseline: tuple[Floats, Floats],
    candidate: tuple[Floats, Floats],
    generator: np.random.Generator,
    *,
    flips: int = FLIPS,
) -> float:
    """The two-sided p of the difference of two runs' means, each from its sums and numbers of values by cluster. A
    permutation gives each run as many clusters as it has. All are listed where they are few enough, else `flips` are
    drawn."""
    runs = [np.stack(run, axis=1) for run in (baseline, candidate)]
    sums, counts = np.concatenate(runs).T
    mean = float(sums.sum() / counts.sum())
    scale = float(np.abs(sums - mean * counts).max())
    if scale <= TIES * float(np.abs(sums).max()):
        return 1.0
    together = -(-(len(runs[0]) + len(runs[1])) // MOST_MOVED)
    parts = []
    for run in runs:
        centred = np.stack([(run[:, 0] - mean * run[:, 1]) / scale, run[:, 1]], axis=1)
        parts.append(merge_clusters(centred, -(-len(run) // together), generator) if together > 1 else centred)
    first, pooled = len(parts[0]), np.concatenate(parts)
    own, sizes = pooled.T
    features = np.stack([own, sizes, own**2, own * sizes, sizes**2], axis=1)
    everything = features.sum(axis=0)

    def weigh(chosen: Floats) -> tuple[Floats, Floats]:
        """Squared difference of the means and its variance, both of shape (splits,)."""
        found = [describe_sums(chosen, first), describe_sums(everything - chosen, len(pooled) - first)]
        return (found[0][0] - found[1][0]) ** 2, found[0][1] + found[1][1]

    ((squared,), (variance,)) = weigh(features[:first].sum(axis=0)[None])
    least = squared * (1 - TIES) - TIES**2
    exact = can_list(comb(len(pooled), first), flips, halved=False)
    splits = list_splits(len(pooled), first) if exact else draw_splits(len(pooled), first, flips, generator)
    beyond = tried = 0
    for labels in splits:
        others, variances = weigh(labels @ features)
        beyond += int(np.sum(others * variance >= least * variances))
        tried += len(labels)
    return beyond / tried if exact else (1 + beyond) / (1 + tried)


def describe_sums(sums: Floats, clusters: int) -> tuple[Floats, Floats]:
    """Means and their cluster-robust variances, from sums over `clusters` clusters of S, m, S², Sm and m², S being a
    cluster's sum and m its number of values; shape (splits, 5) to twice (splits,)."""
    own, sizes, squares, products, sizes_squared = sums.T
    mean = own / sizes
    found = (squares - 2 * mean * products + mean**2 * sizes_squared) / sizes**2
    # A remainder of rounding is not a variance.
    found = np.where(found > TIES * squares / sizes**2, found, 0.0)
    return mean, found * clusters / max(1, clusters - 1)


def list_splits(clusters: int, first: int) -> Iterator[Floats]:
    """Every choice of the first run's clusters as ones among zeros, shape (splits, clusters)."""
    chosen = np.array(list(combinations(range(clusters), first)), dtype=np.int64).reshape(-1, first)
    yield label(chosen, clusters)


def draw_splits(clusters: int, first: int, flips: int, generator: np.random.Generator) -> Iterator[Floats]:
    """So many random choices, in blocks of shape (rows, clusters)."""
    rows = max(1, CELLS // clusters)
    for start in range(0, flips, rows):
        keys = generator.random((min(rows, flips - start), clusters), dtype=np.float32)
        yield label(np.argpartition(keys, first - 1, axis=1)[:, :first], clusters)


def label(chosen: Integers, clusters: int) -> Floats:
    """Ones where a cluster is chosen; shape (rows, first) to (rows, clusters)."""
    labels = np.zeros((len(chosen), clusters))
    np.put_along_axis(labels, chosen, 1.0, axis=1)
    return labels


SKEWED = 0.2
"""Third moment of a mean, in standard errors, below which the t test's error rate moves by less than 0.02."""

BEYOND = 5.0
"""Standard errors from which a mean change is not put down to skewness that the sample shows, at the level of a plain
gate with one rule: with one cluster that is far from n others, this takes events that six are expected of."""

FAR = 1.25
"""By how many standard errors one more cluster, at the scale's end, must move the mean to count."""


def find_beyond(level: float) -> float:
    """The same for tests at this two-sided level. Where m events are expected and one is seen, the mean is m − 1
    standard errors away; one or none is seen with half the level's probability (Poisson)."""
    return max(BEYOND, float(gammainccinv(2, level / 2)) - 1)


def find_skewed_p(mean: float, parts: Floats, freedom: float, *, noise: float = 0.0, beyond: float = BEYOND) -> float:
    """The two-sided p of a mean change by Hall's transformation of t; 0 where the sample is not skewed against the
    finding. `parts`, shape (clusters,), are what clusters contribute to the error (`Clustered`), and `noise` is a
    variance that comes from elsewhere. `beyond` is for levels below that of one rule (`find_beyond`)."""
    error = float(np.sqrt(parts @ parts + noise))
    if not error:
        return 0.0
    skewness, t = float(np.sum((parts / error) ** 3)), mean / error
    if skewness * t >= 0 or abs(skewness) < SKEWED or abs(t) > beyond:
        return 0.0
    # Hall's cubic, ((1 + s t / 3)³ − 1) / s + s / 6, which beyond its turning point would take t for clearer again.
    corrected = (max(0.0, 1 + skewness * t / 3) ** 3 - 1) / skewness + skewness / 6
    return min(1.0, 2 * float(stdtr(freedom, -corrected * np.sign(t))))


def find_unseen_p(mean: float, error: float, room: float, clusters: int) -> float:
    """The p of a mean change of so many clusters if those are missing that change the other way by `room`, at least 0;
    0 where the clusters' spread tells enough of others. It is one-sided, for only one side of the scale is far."""
    if not mean or is_told_by_spread(error, room, clusters):
        return 0.0
    return float((room / (room + abs(mean))) ** clusters)


def find_unseen_shift(mean: float, error: float, room: float, clusters: int, alpha: float) -> float:
    """How far clusters that change by `room`, and that so many miss altogether with a probability of alpha, would
    move the mean; 0 where the clusters' spread tells enough of others. It is where `find_unseen_p` is alpha."""
    if is_told_by_spread(error, room, clusters):
        return 0.0
    return (1 - float(alpha ** (1 / clusters))) * (room + abs(mean))


def is_told_by_spread(error: float, room: float, clusters: int) -> bool:
    """Whether one more cluster, which changes by `room`, would hardly move the mean."""
    return room <= FAR * error * clusters


def find_least_mean(level: float, error: float, room: float, clusters: int) -> float:
    """The mean change from which `find_unseen_p` is below the level."""
    if is_told_by_spread(error, room, clusters):
        return 0.0
    return room * float((1 / level) ** (1 / clusters) - 1)

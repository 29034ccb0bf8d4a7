"""Means and differences with intervals that take dialogues, not their turns, as independent.

The unit is the cluster: a dialogue with its turns, or an item that stands alone. Only sums over clusters are needed.

- Standard errors are cluster-robust with the CR2 correction for few clusters, and t has the degrees of freedom that go
  with it (Bell & McCaffrey 2002). Clusters of one size make it the t interval of the clusters' means.
- On a scale, a mean's variance vanishes towards the ends, and a mean near an end is skewed. There the interval is
  Wilson's (1927) score interval on the mean as a share of the scale, with the effective number of values that the
  clustered variance implies (Korn & Graubard 1998) and a t quantile. In the middle of a scale it hardly differs from
  the t interval, near the ends it keeps its coverage, and it never leaves the scale.
- Differences combine two such intervals (MOVER: Newcombe 1998, Zou & Donner 2008).

`benchmarks/verdicts.py` measures their coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from scipy.special import stdtrit

from app.analysis.observations import Floats, Integers

ROUNDING = 1e-9
"""Means that differ by less, relative to the largest, are equal but for rounding."""

NO_VALUES = "there are no values"
ONE_CLUSTER = "all values are of one dialogue, which shows nothing of how others vary"
NO_SPREAD = "the dialogues' means are all equal, which shows nothing of how far the mean may be off"


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of two. `interval` is never outside the scale; None where `reason` says why."""

    mean: float | None
    interval: tuple[float, float] | None
    clusters: int
    reason: str | None


@dataclass(frozen=True)
class Clustered:
    """A mean over the values of all clusters, with what its clusters contribute to its error.

    `parts` has shape (clusters,): the root of its sum of squares is `error`, the standard error. `freedom` is that of
    t, at least 1 where there are two clusters.
    """

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


def add_up(values: Floats, codes: Integers) -> tuple[Floats, Floats]:
    """Sums and counts by cluster of values and their clusters' numbers, both of shape (n,)."""
    _, places = np.unique(codes, return_inverse=True)
    counts = np.bincount(places).astype(np.float64)
    sums: Floats = np.bincount(places, weights=values, minlength=len(counts)).astype(np.float64)
    return sums, counts


def describe_clusters(sums: Floats, counts: Floats) -> Clustered:
    """The mean of all values with its cluster-robust error, from sums and numbers by cluster, shape (clusters,).

    Every count is at least 1; there is at least one cluster. One cluster has no error.
    """
    total = float(counts.sum())
    mean = float(sums.sum()) / total
    means = sums / counts
    if len(sums) == 1 or float(np.ptp(means)) <= ROUNDING * float(np.abs(means).max()):
        return Clustered(mean, 0.0, max(1.0, len(sums) - 1.0), np.zeros(len(sums)))
    shares = counts / total
    parts = (sums - counts * mean) / np.sqrt(1 - shares) / total
    # Whether turns of a dialogue are independent or all alike is not known: the fewer degrees of freedom are taken.
    freedom = min(count_freedom(shares, counts), count_freedom(shares, counts**2))
    return Clustered(mean, float(np.sqrt(parts @ parts)), max(1.0, freedom), parts)


def count_freedom(shares: Floats, variances: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of the CR2 variance of a mean, shapes (clusters,).

    `shares` are the clusters' of all values, `variances` those of their sums, but for a factor. With M the covariance
    of the corrected residuals it is tr(M)² / tr(M²), M being diagonal but for a matrix of rank 2.
    """
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
    return float(stdtrit(freedom, 1 - alpha / 2))


def estimate_mean(sums: Floats, counts: Floats, *, bounds: tuple[float, float] | None, alpha: float = 0.05) -> Estimate:
    """The mean of all values and its interval at 1 − alpha, from sums and numbers of values by cluster.

    Both have shape (clusters,); clusters without values do not count. `bounds` are the ends of the scale, None where
    values know none, as blended ones do: the interval is that of t then.
    """
    held = counts > 0
    if not held.any():
        return Estimate(None, None, 0, NO_VALUES)
    found = describe_clusters(sums[held], counts[held])
    if not found.error:
        return Estimate(found.mean, None, found.clusters, ONE_CLUSTER if found.clusters == 1 else NO_SPREAD)
    quantile = find_quantile(found.freedom, alpha)
    if bounds is None or not bounds[0] < bounds[1]:
        margin = quantile * found.error
        return Estimate(found.mean, (found.mean - margin, found.mean + margin), found.clusters, None)
    low, width = bounds[0], bounds[1] - bounds[0]
    share = find_share(found.mean, bounds)
    lower, upper = find_wilson(share, found.effective(share, width), quantile)
    return Estimate(found.mean, clip(low + width * lower, low + width * upper, bounds), found.clusters, None)


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


def clip(low: float, high: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """The interval without what rounding adds to the scale; −0 is 0."""
    return max(low, bounds[0]) + 0.0, min(high, bounds[1]) + 0.0


def estimate_paired(
    rises: Floats, falls: Floats, counts: Floats, *, width: float | None, alpha: float = 0.05
) -> Estimate:
    """The mean difference of pairs and its interval, from the clusters' sums of rises, of falls, both ≥ 0, and numbers
    of pairs, shapes (clusters,). `width` is that of the scale, None where there is none.

    Most ratings of two runs are often equal, so that a few rises and falls decide, and their mean is skewed: each of
    the two is a mean near the lower end of what it may be, and the difference is theirs.
    """
    if not len(counts):
        return Estimate(None, None, 0, NO_VALUES)
    found = describe_clusters(rises - falls, counts)
    if not found.error:
        return Estimate(found.mean, None, found.clusters, ONE_CLUSTER if found.clusters == 1 else NO_SPREAD)
    quantile = find_quantile(found.freedom, alpha)
    if width is None:
        margin = quantile * found.error
        return Estimate(found.mean, (found.mean - margin, found.mean + margin), found.clusters, None)
    sides = describe_clusters(rises, counts), describe_clusters(falls, counts)
    product = sides[0].error * sides[1].error
    correlation = float(sides[0].parts @ sides[1].parts) / product if product else 0.0
    low, high = combine(sides, (0.0, width), (quantile, quantile), max(-1.0, min(1.0, correlation)))
    # Where no pair has risen yet, that says nothing of how far one might: the end on that side is at least that of t.
    if not falls.any():
        low = min(low, found.mean - quantile * found.error)
    if not rises.any():
        high = max(high, found.mean + quantile * found.error)
    return Estimate(found.mean, clip(low, high, (-width, width)), found.clusters, None)


def estimate_unpaired(
    baseline: Clustered, candidate: Clustered, *, bounds: tuple[float, float] | None, alpha: float = 0.05
) -> Estimate:
    """The difference of two independent means, candidate minus baseline, with its interval."""
    clusters, difference = min(baseline.clusters, candidate.clusters), candidate.mean - baseline.mean
    if clusters == 1 or not (baseline.error or candidate.error):
        return Estimate(difference, None, clusters, ONE_CLUSTER if clusters == 1 else NO_SPREAD)
    margin = find_quantile(join_freedom(baseline, candidate), alpha) * join_errors(baseline, candidate)
    low, high = difference - margin, difference + margin
    if bounds is None:
        return Estimate(difference, (low, high), clusters, None)
    quantiles = find_quantile(candidate.freedom, alpha), find_quantile(baseline.freedom, alpha)
    ends = combine((candidate, baseline), bounds, quantiles, 0.0)
    # A side that is all alike may yet vary: then the interval is at least that of t.
    low, high = ends if baseline.error and candidate.error else (min(low, ends[0]), max(high, ends[1]))
    width = bounds[1] - bounds[0]
    return Estimate(difference, clip(low, high, (-width, width)), clusters, None)


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

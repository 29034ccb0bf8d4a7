"""Is a difference of two samples real, how large is it, and how small a one would have been seen.

Values are in scale points, differences are candidate minus baseline. Ratings are discrete, so ties and zeros are the
rule: they are dealt with exactly where samples are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt
from statistics import NormalDist

import numpy as np
from scipy import stats

from app.analysis.observations import Floats

MOST_SIGNS = 13
"""Non-zero differences up to which all 2^n signs count where ties forbid the plain exact test, as in scipy."""

MOST_SPLITS = 2**MOST_SIGNS
"""Ways to split a pooled sample in two up to which all count."""

POWER = 0.8
DECIMALS = 9
"""Values equal to so many decimals are equal: 7/3 − 2 and 1/3 are one difference and must share a rank."""

RESAMPLES = 5_000
FEWEST_RESAMPLES = 500
MOST_DRAWS = 50_000_000
DRAWS_AT_ONCE = 2_000_000


def level(values: Floats) -> Floats:
    """The values with rounding noise taken off."""
    rounded: Floats = np.round(values, DECIMALS) + 0.0
    return rounded


def test_paired(differences: Floats) -> float:
    """The two-sided p of Wilcoxon's signed-rank test of paired differences, shape (n,).

    Zeros are dropped before anything else, so that scipy decides between its exact and its asymptotic test by the
    differences that count (Wilcoxon 1945). Where none is left p is 1.
    """
    kept = drop_zeros(differences)
    if not kept.size:
        return 1.0
    if kept.size <= MOST_SIGNS and np.unique(np.abs(kept)).size < kept.size:
        ranks = stats.rankdata(np.abs(kept))
        return find_exact(ranks, ranks[kept > 0])
    return bound(float(stats.wilcoxon(kept, zero_method="wilcox").pvalue))


def lean_paired(differences: Floats) -> float:
    """The rank sum of the positive differences minus that of the negative: which way Wilcoxon's test points."""
    kept = drop_zeros(differences)
    return float(np.sum(np.sign(kept) * stats.rankdata(np.abs(kept))))


def drop_zeros(differences: Floats) -> Floats:
    """The differences that are not zero, without rounding noise."""
    levelled = level(differences)
    kept: Floats = levelled[levelled != 0]
    return kept


def test_unpaired(baseline: Floats, candidate: Floats) -> float:
    """The two-sided p of Mann and Whitney's U. Both sides have at least one value.

    With ties in small samples every split of the pooled values is tried, since the normal approximation is too sure
    there: three against three clearly apart would be significant at 0.05, where 2 of 20 splits are as far apart.
    Where all values are equal p is 1.
    """
    left, right = level(baseline), level(candidate)
    pooled = np.concatenate([left, right])
    distinct = np.unique(pooled).size
    if distinct == 1:
        return 1.0
    if distinct < pooled.size and comb(pooled.size, left.size) <= MOST_SPLITS:
        ranks = stats.rankdata(pooled)
        return find_exact(ranks, ranks[: left.size], size=left.size)
    return bound(float(stats.mannwhitneyu(right, left, alternative="two-sided").pvalue))


def find_exact(ranks: Floats, chosen: Floats, *, size: int | None = None) -> float:
    """The two-sided p of a rank sum among all choices of `ranks`, or among all of `size` of them.

    Doubled mid-ranks are whole numbers, so that the choices can be counted by their sum, one rank after the other
    (Streitberg & Röhmel 1986). Equal to scipy's PermutationMethod, which takes a tenth of a second for it.
    """
    doubled = np.round(2 * ranks).astype(np.int64)
    ways = np.zeros((len(ranks) + 1, int(doubled.sum()) + 1))  # by how many are chosen, and their sum
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    counts = ways.sum(axis=0) if size is None else ways[size]
    at = round(2 * float(chosen.sum()))
    return bound(2 * min(counts[: at + 1].sum(), counts[at:].sum()) / counts.sum())


def bound(p: float) -> float:
    """A probability: a continuity correction may take it a little above 1."""
    return min(1.0, max(0.0, p))


def find_cliffs_delta(baseline: Floats, candidate: Floats) -> float:
    """P(candidate > baseline) − P(candidate < baseline) over all pairs of values, in [−1, 1] (Cliff 1993).

    That is 2U / (n·m) − 1, with U from mid-ranks. Both sides have at least one value.
    """
    left, right = level(baseline), level(candidate)
    ranks = stats.rankdata(np.concatenate([right, left]))[: right.size]
    u = float(ranks.sum()) - right.size * (right.size + 1) / 2
    return 2 * u / (left.size * right.size) - 1


def adjust_holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down adjustment, in the order given: reject where the result is below alpha.

    None is a test that could not be made: it stays None and does not count among the tests.
    """
    made = [(p, index) for index, p in enumerate(probabilities) if p is not None]
    adjusted: list[float | None] = [None] * len(probabilities)
    highest = 0.0
    for step, (p, index) in enumerate(sorted(made)):
        highest = max(highest, min(1.0, (len(made) - step) * p))
        adjusted[index] = highest
    return adjusted


def resample_mean(values: Floats, generator: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """Means of samples drawn with replacement, shape (resamples,).

    Where few values are distinct, how often each is drawn is multinomial: that is all that has to be drawn. Memory is
    bounded by drawing a part at a time.
    """
    distinct, counts = np.unique(level(values), return_counts=True)
    shares, n = counts / values.size, values.size
    few = distinct.size * 8 <= n
    rows = max(1, DRAWS_AT_ONCE // (distinct.size if few else n))
    parts = []
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        if few:
            parts.append(generator.multinomial(n, shares, size=size) @ distinct / n)
        else:
            parts.append(values[generator.integers(0, n, size=(size, n))].mean(axis=1))
    return np.concatenate(parts)


def limit_resamples(resamples: int, n: int) -> int:
    """Fewer resamples for many values, so that an interval takes at most about a second."""
    return max(FEWEST_RESAMPLES, min(resamples, MOST_DRAWS // max(1, n)))


def find_interval(means: Floats, alpha: float, *samples: Floats) -> tuple[float, float]:
    """The expanded percentile interval at 1 − alpha of the resampled means of these samples (Hesterberg 2015).

    Plain percentiles are too narrow for few values: a resample's spread has n for n − 1, and they know no t. They are
    taken at Φ(∓ √(n / (n − 1)) · t) instead; two samples have Welch's degrees of freedom.
    """
    sizes = [sample.size for sample in samples]
    errors = [square_error(sample) for sample in samples]
    tail = alpha / 2
    if sum(errors):
        freedom = sum(errors) ** 2 / sum(error**2 / (n - 1) for error, n in zip(errors, sizes, strict=True))
        narrower = sum(error * (n - 1) / n for error, n in zip(errors, sizes, strict=True))
        tail = NormalDist().cdf(-sqrt(sum(errors) / narrower) * float(stats.t.ppf(1 - tail, freedom)))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low) + 0.0, float(high) + 0.0


def find_standard_error(*samples: Floats) -> float:
    """Of a mean, or of the difference of two: √Σ s²/n, each with n − 1. Each sample has at least two values."""
    return sqrt(sum(map(square_error, samples)))


def square_error(sample: Floats) -> float:
    """s²/n of at least two values, 0 exactly where all are equal."""
    levelled = level(sample)
    return float(np.var(levelled, ddof=1)) / sample.size if np.ptp(levelled) else 0.0


def reach(alpha: float) -> float:
    """How many standard errors a difference must have to be significant, two-sided at alpha, with 80 % power."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(POWER)


def find_least_p(left: int, right: int | None = None) -> float:
    """The smallest two-sided p that there can be: of so many non-zero differences, or of two samples of these sizes."""
    return min(1.0, 2.0 ** (1 - left) if right is None else 2 / comb(left + right, left))

"""Intervals of correlations, also of ratings that take few values, most of them at one end of the scale.

An interval holds every correlation under which a figure as far out as the observed one is not too rare: a test is
inverted (Cox and Hinkley 1974, section 7.2). A bootstrap interval is too narrow there: of forty items of which 10%
have a low score and 10% a low rating, most samples hold none with both, and then no resample does.

- For each correlation that is tried, scores and ratings keep the shares of their values, and Plackett's copula (1965)
  joins them. Its parameter is the odds ratio wherever both are cut in two, so that of two binary columns it reaches
  every table there is. A column of many values is grouped for this.
- The variance and the skewness of the figure are those of its influence function, which says how far each item moves it
  (Hampel 1974). Its distribution is a shifted gamma distribution, which is as skewed as a rare count is.
- Clusters, and data that the copula does not fit, make the variance larger: as the cluster-robust variance of the data
  says, or the intra-class correlations of both columns, whichever is more. Data may make it smaller too.
- The quantile is that of Student's t for the number of clusters. Clusters of unequal size count for fewer, and so do
  clusters of which a few decide.

The difference of two correlations with one column combines two such intervals (Zou 2007). `benchmarks/correlations.py`
measures how often these intervals hold the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt, tanh
from typing import Literal

import numpy as np
from scipy.special import gammainc, gammaincc, ndtri, stdtrit

from saiten.core.messages import Message
from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.statistics import deviations, find_t_p, rank_values

Coefficient = Literal["spearman", "pearson", "kendall"]
COEFFICIENTS: Sequence[Coefficient] = ("spearman", "pearson", "kendall")

FEWEST_CLUSTERS = 8
"""Fewer say too little of how clusters vary."""

FEWEST_RARE = 3
"""Clusters that must hold a value other than the most frequent one. With fewer, chance decides what is seen at all."""

MOST_COPULA_LEVELS = 12
"""Values of a column up to which the copula takes each by itself."""

MOST_RANKED = 200
"""Values of a column up to which Kendall's τ takes each by itself where it says how far an item moves it."""

ODDS: Floats = np.logspace(-5, 5, 81)
TRIED = 201
REACH = 12.0
"""Correlations that are tried, and how many standard errors away the farthest may be."""

FIGURE_STEP = 0.25
"""The part of the smallest step of the figure that is given to either side: a figure of counts moves in steps."""

LEAST_SKEW = 1e-3

LEAST_DESIGN = 0.5
"""A sample that varies still less, as one that agrees throughout, says nothing of how it varies."""

LEAST_VARIANCE = 1e-6
"""Where every item must agree, a figure still varies by rounding."""

LARGE = 1e9
LARGEST_CORRELATION = 0.9999
"""The largest correlation that has a place on Fisher's scale; that of 1 is infinitely far away."""

LEAST_APART = 1e-18
"""Relative to their size, the square of the difference of two influences that only rounding parts."""

FEW_CLUSTERS = Message("few-clusters", least=FEWEST_CLUSTERS)
TOO_ALIKE = Message("too-alike", others=FEWEST_RARE - 1)


@dataclass(frozen=True)
class GradedColumn:
    """A column of shape (n,): the level of each value, from 0 in ascending order, and each level's share."""

    values: Floats
    code: Integers
    share: Floats

    def score(self, kind: Coefficient) -> Floats:
        """The levels' mean values, or their mid-ranks as a share, with mean 0 and variance 1; shape (levels,)."""
        if kind == "pearson":
            scores = np.bincount(self.code, weights=self.values) / np.bincount(self.code)
        else:
            scores = find_grades(self.share)
        centred: Floats = scores - scores @ self.share
        return centred / sqrt(float(centred**2 @ self.share))


def find_levels(values: Floats, most: int | None = None) -> GradedColumn:
    """The levels of a column of shape (n,). Of more than `most` different values neighbours are joined, rare ones
    rather than frequent ones."""
    _, code, held = np.unique(values, return_inverse=True, return_counts=True)
    if most is not None and len(held) > most:
        weight = np.sqrt(held)
        middle = (np.cumsum(weight) - weight / 2) / weight.sum()
        code = np.unique(np.floor(middle * most), return_inverse=True)[1][code]
    return GradedColumn(values, code, np.bincount(code) / len(code))


def find_grades(share: Floats) -> Floats:
    """The mid-rank of each level as a share of all, less a half."""
    grades: Floats = np.cumsum(share) - share / 2 - 0.5
    return grades


def sum_above(values: Floats, axis: int = -1) -> Floats:
    """Half of each value and all that follow it along the axis."""
    found: Floats = values.sum(axis=axis, keepdims=True) - np.cumsum(values, axis=axis) + values / 2
    return found


def join_margins(p: Floats, q: Floats) -> Floats:
    """Tables with the margins p and q, shapes (k,) and (l,), for each of ODDS; shape (odds, k, l)."""
    u, v = (np.append(0.0, np.cumsum(one)) for one in (p, q))
    u[-1] = v[-1] = 1.0
    u, v, odds = u[None, :, None], v[None, None, :], ODDS[:, None, None]
    total = 1 + (u + v) * (odds - 1)
    root = np.sqrt(np.maximum(total * total - 4 * u * v * odds * (odds - 1), 0.0))
    # The textbook's form, (total − root) / 2 / (odds − 1), loses digits, and has no value for odds of 1.
    joint = 2 * u * v * odds / (total + root)
    joint[:, -1, :], joint[:, :, -1] = v[:, 0, :], u[:, :, 0]
    tables: Floats = np.maximum(np.diff(np.diff(joint, axis=1), axis=2), 0.0)
    return tables


def describe_tables(kind: Coefficient, tables: Floats, x: GradedColumn, y: GradedColumn) -> tuple[Floats, Floats]:
    """The coefficient of each table, shape (tables,), and how far each of its cells moves it, shape (tables, k, l)."""
    p, q = x.share, y.share
    if kind == "pearson":
        u, v = x.score(kind), y.score(kind)
        value: Floats = np.einsum("gkl,k,l->g", tables, u, v)
        return value, u[:, None] * v - value[:, None, None] / 2 * (u[:, None] ** 2 + v**2)
    if kind == "spearman":
        # Σ π F G and (1 − Σ p³) / 12, F and G the grades; a cell also moves the grades of what lies above it.
        f, g = find_grades(p), find_grades(q)
        product = np.einsum("gkl,k,l->g", tables, f, g)
        above = sum_above(tables @ g)[:, :, None] + sum_above(np.einsum("gkl,k->gl", tables, f))[:, None, :]
        moved = f[:, None] * g + above
        spread, moves = [(1 - float((one**3).sum())) / 12 for one in (p, q)], [-(one**2) / 4 for one in (p, q)]
    else:
        # The signs' mean product over all pairs of items, and 1 − Σ p².
        signs = -2 * sum_above(tables, axis=1) + tables.sum(axis=1, keepdims=True)
        signs = -2 * sum_above(signs, axis=2) + signs.sum(axis=2, keepdims=True)
        product = np.einsum("gkl,gkl->g", tables, signs)
        moved = 2 * signs
        spread, moves = [1 - float((one**2).sum()) for one in (p, q)], [-2 * one for one in (p, q)]
    value = product / sqrt(spread[0] * spread[1])
    moved = moved / sqrt(spread[0] * spread[1])
    moved = moved - value[:, None, None] / 2 * (moves[0][:, None] / spread[0] + moves[1] / spread[1])
    return value, moved - np.einsum("gkl,gkl->g", tables, moved)[:, None, None]


def move_pearson(x: Floats, y: Floats, r: float) -> Floats:
    """How far each item moves Pearson's r, shapes (n,)."""
    u, v = (one / np.sqrt((one**2).mean()) for one in (deviations(x)[0], deviations(y)[0]))
    moved: Floats = u * v - r / 2 * (u * u + v * v)
    return moved


def move_kendall(x: Floats, y: Floats) -> Floats:
    """How far each item moves τ-b, shapes (n,)."""
    a, b = find_levels(x, MOST_RANKED), find_levels(y, MOST_RANKED)
    k, columns = len(a.share), len(b.share)
    table = np.bincount(a.code * columns + b.code, minlength=k * columns).reshape(1, k, columns) / len(x)
    moved: Floats = describe_tables("kendall", table, a, b)[1][0][a.code, b.code]
    return moved


def move_spearman(x: Floats, y: Floats, stratum: Integers) -> tuple[float, Floats, Floats, Floats]:
    """Spearman's ρ within strata, how far each item moves it, and both columns' grades within their strata; shapes
    (n,). The strata's covariances and variances of grades are pooled."""
    n = len(x)
    grades, spreads, spread_moves = np.zeros((2, n)), np.zeros(2), np.zeros((2, n))
    moved, covariance = np.zeros(n), 0.0
    for number in range(int(stratum.max()) + 1):
        rows = np.flatnonzero(stratum == number)
        sides = [find_levels(column[rows]) for column in (x, y)]
        own = [find_grades(side.share)[side.code] for side in sides]
        product = own[0] * own[1]
        covariance += float(product.sum()) / n
        for side, other in ((0, 1), (1, 0)):
            levels = sides[side]
            means = np.bincount(levels.code, weights=own[other]) / len(rows)
            product = product + sum_above(means)[levels.code]
            share = levels.share
            spreads[side] += (1 - float((share**3).sum())) / 12 * len(rows) / n
            moves = -(share[levels.code] ** 2) / 4
            grades[side, rows], spread_moves[side, rows] = own[side], moves - moves.mean()
        moved[rows] = product - product.mean()
    scale = sqrt(float(spreads.prod()))
    value = covariance / scale
    influence = moved / scale - value / 2 * (spread_moves / spreads[:, None]).sum(axis=0)
    return float(np.clip(value, -1.0, 1.0)), influence, grades[0], grades[1]


@dataclass(frozen=True)
class CorrelationEstimate:
    """A correlation of n items in clusters, with what its intervals are computed from. `influence`, of shape (n,), says
    how far each item moves the value. `x` and `y` are the columns, or their grades within strata; `kind` is what it is
    of these. `cluster` numbers from 0 without gaps. `rare` is how many clusters hold another value than the most
    frequent one of its stratum, in the column where these are fewer, and `strata` is how many strata there are."""

    kind: Coefficient
    value: float
    influence: Floats
    x: Floats
    y: Floats
    cluster: Integers
    rare: int
    strata: int = 1

    @property
    def obstacle(self) -> Message | None:
        """Why there is no interval; None where there is one."""
        if len(self.sizes) < FEWEST_CLUSTERS:
            return FEW_CLUSTERS
        return TOO_ALIKE if self.rare < FEWEST_RARE else None

    @cached_property
    def sizes(self) -> Integers:
        """The number of items of each cluster."""
        return np.bincount(self.cluster)

    @cached_property
    def model(self) -> tuple[Floats, Floats, Floats, float]:
        """Correlations that the copula reaches, in ascending order, with the variance and the third moment that one
        item's influence has under each, shapes (odds,); and the smallest step of the figure."""
        sides = [find_levels(column, MOST_COPULA_LEVELS) for column in (self.x, self.y)]
        tables = join_margins(sides[0].share, sides[1].share)
        value, moved = describe_tables(self.kind, tables, *sides)
        squares = tables * moved * moved
        steps = [float(np.diff(side.score(self.kind)).max()) for side in sides]
        return value, squares.sum(axis=(1, 2)), (squares * moved).sum(axis=(1, 2)), steps[0] * steps[1] / len(self.x)

    @cached_property
    def sums(self) -> Floats:
        """What each cluster's items move the figure by, times n; shape (clusters,)."""
        return np.bincount(self.cluster, weights=self.influence).astype(np.float64)

    @cached_property
    def expected(self) -> float:
        """The variance of independent items of the copula at the figure's value, times n; above 0."""
        value, variance, _, _ = self.model
        return max(float(np.interp(self.value, value, variance)), LEAST_VARIANCE)

    @cached_property
    def excess(self) -> float:
        """The cluster-robust variance of the data, as a multiple of the expected one."""
        n, clusters = len(self.x), len(self.sizes)
        observed = clusters / (clusters - 1) * n / max(1, n - self.strata + 1) * float(self.sums @ self.sums) / n
        return observed / self.expected

    @cached_property
    def design(self) -> float:
        """How many times as large as the expected one the variance is taken to be. It may be less than 1 where that of
        independent items is less by more than its own standard error."""
        n = len(self.x)
        columns = [column if self.kind == "pearson" else rank_values(column) for column in (self.x, self.y)]
        within = [correlate_within(column, self.cluster, self.sizes) for column in columns]
        alike = 1 + float((self.sizes * (self.sizes - 1)).sum()) / n * within[0] * within[1]
        single = float(self.influence @ self.influence) / n / self.expected
        less = min(1.0, max(LEAST_DESIGN, single * (1 + sqrt(2 / count_alike(self.sums)))))
        return max(self.excess, alike * less)

    @cached_property
    def freedom(self) -> float:
        """The degrees of freedom of Student's t. Where the variance is that of the data, and few clusters make up most
        of it, they are those of the variance of a sample of such kurtosis."""
        n, clusters = len(self.x), len(self.sizes)
        found = min(float(clusters), n * n / float((self.sizes**2).sum())) - self.strata
        if self.excess >= self.design:
            found = min(found, count_alike(self.sums))
        return max(1.0, found)

    def interval(self, tail: float = 0.025) -> tuple[float, float] | Message:
        """The interval that leaves `tail` to either side, or why there is none."""
        if (reason := self.obstacle) is not None:
            return reason
        values, variances, thirds, step = self.model
        factor = self.design / len(self.x)
        reached = REACH * sqrt(factor * float(variances.max()))
        tried = np.linspace(max(values[0], self.value - reached), min(values[-1], self.value + reached), TRIED)
        variance = np.maximum(np.interp(tried, values, variances), LEAST_VARIANCE)
        skew = np.interp(tried, values, thirds) / variance**1.5 * sqrt(factor)
        error = np.sqrt(factor * variance)
        moves, quantile = FIGURE_STEP * step * self.design, float(stdtrit(self.freedom, 1 - tail))
        below = score_tail((self.value + moves - tried) / error, skew) + quantile
        above = score_tail((tried - self.value + moves) / error, -skew) + quantile
        low = find_end(tried[::-1], above[::-1], -1.0 if tried[0] == values[0] else float(tried[0]))
        high = find_end(tried, below, 1.0 if tried[-1] == values[-1] else float(tried[-1]))
        return max(-1.0, min(low, self.value)), min(1.0, max(high, self.value))


def count_alike(moves: Floats) -> float:
    """Of how many normal values a variance is as certain as that of these, whose mean is 0: 2 k m₂² / (m₄ − m₂²), at
    least 2; shape (k,)."""
    total = float(moves @ moves)
    if not total:
        return 2.0
    squares = moves**2 / total
    uneven = float(squares @ squares) - 1 / len(moves)
    return max(2.0, 2 / uneven) if uneven > 2 / LARGE else LARGE


def estimate_coefficient(
    kind: Coefficient, x: Floats, y: Floats, cluster: Integers, value: float
) -> CorrelationEstimate:
    """The coefficient, which is `value`, of two columns that vary; shapes (n,)."""
    whole = np.zeros(len(x), dtype=np.int64)
    if kind == "pearson":
        influence = move_pearson(x, y, value)
    elif kind == "kendall":
        influence = move_kendall(x, y)
    else:
        influence = move_spearman(x, y, whole)[1]
    return CorrelationEstimate(kind, value, influence, x, y, cluster, count_rare(x, y, cluster, whole))


def estimate_within(x: Floats, y: Floats, cluster: Integers, stratum: Integers) -> CorrelationEstimate:
    """Spearman's ρ of two columns of which one stratum at least has both varying; `stratum`, of shape (n,), numbers
    from 0 without gaps. Items are ranked within their strata, and all are correlated together."""
    strata, rare = int(stratum.max()) + 1, count_rare(x, y, cluster, stratum)
    value, influence, u, v = move_spearman(x, y, stratum)
    if strata == 1:
        return CorrelationEstimate("spearman", value, influence, x, y, cluster, rare)
    return CorrelationEstimate("pearson", value, influence, u, v, cluster, rare, strata)


def count_rare(x: Floats, y: Floats, cluster: Integers, stratum: Integers) -> int:
    """How many clusters hold another value than the most frequent one of its stratum, in the column where these are
    fewer; shapes (n,)."""
    counts = []
    for column in (x, y):
        other = np.zeros(len(column), dtype=np.bool_)
        for number in range(int(stratum.max()) + 1):
            rows = np.flatnonzero(stratum == number)
            _, code, held = np.unique(column[rows], return_inverse=True, return_counts=True)
            other[rows] = code != held.argmax()
        counts.append(len(np.unique(cluster[other])))
    return min(counts)


def correlate_within(values: Floats, cluster: Integers, sizes: Integers) -> float:
    """The intra-class correlation of a column that varies, at least 0, over all pairs of a cluster."""
    pairs = float((sizes * (sizes - 1)).sum())
    if not pairs:
        return 0.0
    centred = deviations(values)[0]
    squares = float(centred @ centred)
    sums = np.bincount(cluster, weights=centred)
    # Deviations from the sample's mean correlate by −1 / (n − 1) where nothing else does.
    return max(0.0, (float(sums @ sums) - squares) / pairs * len(values) / squares + 1 / max(1, len(values) - 1))


def score_tail(z: Floats, skew: Floats) -> Floats:
    """The normal quantile of the probability of a value up to z, of a gamma distribution that is shifted and scaled to
    mean 0, variance 1 and this skewness; shapes (n,)."""
    skew = np.where(np.abs(skew) < LEAST_SKEW, LEAST_SKEW, skew)
    shape = 4 / skew**2
    place = np.maximum(shape + 2 * z / skew, 0.0)
    found: Floats = ndtri(np.where(skew > 0, gammainc(shape, place), gammaincc(shape, place)))
    return found


def find_end(tried: Floats, scores: Floats, beyond: float) -> float:
    """The last value, in the order given, whose score is not below 0, moved to where the score is 0 between it and the
    next; `beyond` where none follows."""
    held = np.flatnonzero(scores >= 0)
    if not len(held):
        return float(tried[0])
    last = int(held[-1])
    if last + 1 == len(tried):
        return beyond
    inside, outside = float(scores[last]), float(scores[last + 1])
    part = inside / (inside - outside) if np.isfinite(outside) and np.isfinite(inside) else 0.5
    return float(tried[last] + part * (tried[last + 1] - tried[last]))


@dataclass(frozen=True)
class Difference:
    """The difference of two correlations, its 95% interval, and the two-sided p."""

    value: float
    interval: tuple[float, float]
    p: float


def compare_estimates(one: CorrelationEstimate, other: CorrelationEstimate) -> Difference | Message:
    """How far two correlations of the same items lie apart (Zou 2007), or why that is not known. p is the least level
    whose interval leaves out 0, where margins grow with the quantile.

    Margins are joined on Fisher's scale, on which both sides of an interval are about as long: two correlations near 1
    that move together would else seem far less certain than they are.
    """
    ends, others = one.interval(), other.interval()
    if isinstance(ends, Message):
        return ends
    if isinstance(others, Message):
        return others
    sums = [np.bincount(each.cluster, weights=each.influence) for each in (one, other)]
    apart = sums[0] - sums[1]
    scale = float(np.sqrt((sums[0] @ sums[0]) * (sums[1] @ sums[1])))
    difference = one.value - other.value
    if float(apart @ apart) <= LEAST_APART * scale:
        return Difference(difference, (difference, difference), 1.0)
    shared = float(sums[0] @ sums[1]) / scale if scale else 0.0
    (low, value, high), (least, against, most) = (
        np.arctanh(np.clip([found[0], each.value, found[1]], -LARGEST_CORRELATION, LARGEST_CORRELATION)).tolist()
        for each, found in ((one, ends), (other, others))
    )
    below = join_errors(value - low, most - against, shared)
    above = join_errors(high - value, against - least, shared)
    margin = below if value > against else above
    freedom = min(one.freedom, other.freedom)
    quantile = float(stdtrit(freedom, 0.975))
    p = find_t_p((value - against) / margin * quantile, freedom) if margin else 1.0
    middle = (value + against) / 2
    interval = part(middle, value - against - below), part(middle, value - against + above)
    return Difference(difference, interval, min(1.0, p))


def join_errors(one: float, other: float, shared: float) -> float:
    """The margin of a difference of two figures whose errors correlate by `shared`, on one side."""
    return sqrt(max(0.0, one**2 + other**2 - 2 * shared * one * other))


def part(middle: float, apart: float) -> float:
    """The difference of two correlations that lie so far apart on Fisher's scale, around this middle."""
    return tanh(middle + apart / 2) - tanh(middle - apart / 2)

"""Ranks and correlations, Mann and Whitney's test of all pairs of systems at once, effect sizes and Holm's adjustment.

U, p and the choice between the exact and the asymptotic distribution are those of `scipy.stats.mannwhitneyu` with its
defaults. Counting the values of each system instead of ranking each pair of samples makes the tests of all pairs cost
about as much as one of SciPy's. Values are in scale points, and differences are candidate minus baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, isqrt
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import SignificantPair
from saiten_server.stats.observations import Floats, Integers, Mask, Observations

Statistic = Literal["spearman", "pearson"]

FEWEST_CORRELATED = 3
"""Values of which a correlation says something: that of any two pairs is 1 or −1."""

LEAST_P = 2.0**-1022
"""The smallest number with all its digits: what is smaller would be written as 0, which no p is."""

FREQUENT = 4
"""So often each value must be there on average for counting to be faster than sorting."""

MOST_SQUARE = 400_000_000
"""Items by the square of the number of aspects, up to which all aspects are compared with each other."""


SCORES_EQUAL = Message("scores-equal")
RATINGS_EQUAL = Message("ratings-equal")


def obstacle(x: Floats, y: Floats, x_equal: Message = SCORES_EQUAL, y_equal: Message = RATINGS_EQUAL) -> Message | None:
    """Why two columns of shape (n,) without NaN have no correlation; None where they have one. `x_equal` and `y_equal`
    say that all values of a column are equal."""
    if len(x) < FEWEST_CORRELATED:
        return Message("few-items-have-both", least=FEWEST_CORRELATED)
    for column, equal in ((x, x_equal), (y, y_equal)):
        if column.min() == column.max():
            return equal
    return None


def count(n: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def refuse_wide(aspects: int, items: int) -> None:
    """Raises InvalidRequest if comparing all pairs of aspects on so many items would take a minute."""
    if aspects * aspects * items > MOST_SQUARE:
        raise InvalidRequest(
            Message("aspects-compared-most", aspects=aspects, items=items, most=isqrt(MOST_SQUARE // items))
        )


def equalize(values: Floats, size: Floats | None = None) -> Floats:
    """The values, shape (n,), with those set equal that only rounding parts: what is equal in arithmetic is equal here.
    Ranks and ties hang on it. `size`, of shape (n,), is the sum of the absolute numbers that each value was added up
    from, by default its own: one absurd value has no say in how far others are equal. NaN stays."""
    return join_ties(values, np.abs(values) if size is None else size)


def settled_means(observations: Observations, column: Floats) -> Floats:
    """The column's means by unit, shape (units,), settled."""
    return equalize(observations.means(column), observations.means(np.abs(column)))


def pearson(x: Floats, y: Floats) -> Floats:
    """Pearson's r along the last axis, shape (…, n) to (…); NaN where one side is constant."""
    (x, x_moves), (y, y_moves) = deviations(x), deviations(y)
    products = np.einsum("...i,...i->...", x, y)
    squares = np.einsum("...i,...i->...", x, x) * np.einsum("...i,...i->...", y, y)
    r = np.divide(products, np.sqrt(squares), out=np.full(products.shape, np.nan), where=x_moves & y_moves)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped


def deviations(values: Floats) -> tuple[Floats, Mask]:
    """Deviations from the mean along the last axis, in units of the largest, so that no square is lost to underflow;
    and whether there are any."""
    moves = values.max(axis=-1) > values.min(axis=-1)
    centred = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    scaled: Floats = np.divide(centred, largest, out=np.zeros_like(centred), where=largest > 0)
    return scaled, moves


def rank_weighted(values: Floats, weights: Floats) -> Floats:
    """The mid-rank, from 1, that each row's results share, shape (n,); each row counts for its weight."""
    distinct, place = np.unique(values, return_inverse=True)
    held = np.bincount(place, weights=weights, minlength=len(distinct))
    # Ties take the places from the end of what is smaller to their own end, and share their mean.
    middle: Floats = np.cumsum(held) - (held - 1) / 2
    return middle[place]


def pearson_weighted(x: Floats, y: Floats, weights: Floats) -> float:
    """Pearson's r of columns that are not constant, each row counted for its weight."""
    (x, _), (y, _) = deviations(x), deviations(y)
    x, y = (column - np.average(column, weights=weights) for column in (x, y))
    r = np.sum(weights * x * y) / np.sqrt(np.sum(weights * x * x) * np.sum(weights * y * y))
    return float(np.clip(r, -1.0, 1.0))


def rank_values(values: Floats) -> Floats:
    """Mid-ranks from 1 along the last axis."""
    if values.ndim == 1:
        distinct = np.unique(values)
        if FREQUENT * len(distinct) <= len(values):
            return rank_places(np.searchsorted(distinct, values))
    # scipy.stats takes 45 MB and a second to load, which many analyses do without.
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values, axis=-1)
    return ranks


def rank_places(places: Integers) -> Floats:
    """The mid-ranks, from 1, of values of which each one's place among the different ones is given; shapes (n,)."""
    counts = np.bincount(places)
    # Ties take the places from the end of what is smaller to their own end, and share their mean.
    middle: Floats = np.cumsum(counts) - (counts - 1) / 2
    return middle[places]


def spearman(x: Floats, y: Floats) -> Floats:
    """Spearman's ρ along the last axis; NaN where one side is constant."""
    return pearson(rank_values(x), rank_values(y))


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's τ-b of two columns of which `obstacle` says that they have one."""
    from scipy.stats import kendalltau

    return float(kendalltau(x, y).statistic)


STATISTICS: dict[Statistic, Callable[[Floats, Floats], Floats]] = {"spearman": spearman, "pearson": pearson}


def rank_within(group: Integers, values: Floats) -> Floats:
    """Each value's mid-rank, from 1, among those of its group; shapes (n,)."""
    distinct = np.unique(values)
    groups, width = int(group.max(initial=-1)) + 1, len(distinct)
    if FREQUENT * groups * width <= len(values):  # counting is faster than sorting
        place = np.searchsorted(distinct, values) + group * width
        counts = np.bincount(place, minlength=groups * width).reshape(groups, width)
        middle = np.cumsum(counts, axis=1) - (counts - 1) / 2
        counted: Floats = middle.reshape(-1)[place]
        return counted
    order = np.lexsort((values, group))
    grouped, ordered = group[order], values[order]
    new_group = np.concatenate([[True], grouped[1:] != grouped[:-1]])
    new_value = new_group | np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(new_value)
    lengths = np.diff(np.append(starts, len(order)))
    # Ties share the mean of the places that they take together, counted from where their group begins.
    middle = starts + (lengths + 1) / 2
    run = np.cumsum(new_value) - 1
    begins = np.flatnonzero(new_group)[np.cumsum(new_group) - 1]
    ranks = np.empty(len(order))
    ranks[order] = middle[run] - begins
    return ranks


def pearson_within(group: Integers, groups: int, x: Floats, y: Floats) -> Floats:
    """Pearson's r in each of the groups 0 … groups − 1, shape (groups,); NaN where a side is constant or too few."""
    count = np.bincount(group, minlength=groups)
    enough = count >= FEWEST_CORRELATED
    centred = []
    for column in (x, y):
        low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
        np.minimum.at(low, group, column)
        np.maximum.at(high, group, column)
        enough &= high > low
        mean = np.bincount(group, weights=column, minlength=groups) / np.maximum(count, 1)
        deviation = column - mean[group]
        largest = np.zeros(groups)
        np.maximum.at(largest, group, np.abs(deviation))
        centred.append(deviation / np.where(largest > 0, largest, 1)[group])
    a, b = centred
    products = np.bincount(group, weights=a * b, minlength=groups)
    squares = np.bincount(group, weights=a * a, minlength=groups) * np.bincount(group, weights=b * b, minlength=groups)
    r = np.divide(products, np.sqrt(squares), out=np.full(groups, np.nan), where=enough)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped


EXACT_BELOW = 9
"""SciPy takes the exact distribution where one of two samples without ties is smaller than this."""

SUM_ROUNDING = 2.0**-42
"""Sums that differ by less, relative to what went into them, are equal but for rounding."""

COUNTS_AT_ONCE = 2_000_000
"""How many counts, systems × distinct values, are in memory at once."""

SPARSE_ABOVE = 32
"""Systems above which products of their counts are taken as of sparse matrices."""

MOST_COMPARED_SYSTEMS = 300
MOST_PAIRS = 200_000
"""Pairs of systems by aspects: each is a row of the report."""


@dataclass(frozen=True)
class PairTests:
    """One column's tests of k systems, each against each. `n` has shape (k,): the values of each system. `u` has shape
    (k, k): how many pairs of values the row's system wins against the column's, ties counting half. `p` has shape (k,
    k), is two-sided and symmetric, in [0, 1]; NaN on the diagonal and where a system has no value."""

    n: Integers
    u: Floats
    p: Floats

    @property
    def tested(self) -> int:
        """How many pairs of systems there was a test for."""
        present = int(np.count_nonzero(self.n))
        return present * (present - 1) // 2

    def better(self, alpha: float) -> Mask:
        """D: where the row's system is better than the column's with p < `alpha`, direction by U; shape (k, k). Raises
        InvalidRequest for an `alpha` that is not between 0 and 1."""
        if not 0 < alpha < 1:
            raise InvalidRequest(Message("alpha-range"), pointer="/alpha")
        return (self.p < alpha) & (self.u > self.u.T)

    def list_pairs(self, alpha: float, systems: Sequence[str]) -> tuple[SignificantPair, ...]:
        """D by name, in the systems' order."""
        return tuple(
            SignificantPair(better=systems[row], worse=systems[column], p=float(self.p[row, column]))
            for row, column in np.argwhere(self.better(alpha))
        )

    def smallest_p(self) -> float | None:
        """The smallest p that any pair could reach with as many items, whatever their values. None without a pair. The
        asymptotic z is √(N − 1) · r · (1 − 1 / 2|U − mean|), r the correlation of rank and system: it is largest where
        each system has one value only. The exact p is smallest where every value of one lies above the other's."""
        from scipy.special import ndtr

        if not self.tested:
            return None
        # More items never make the smallest p larger: the two systems with most items have it.
        few, many = sorted(self.n.tolist())[-2:]
        asymptotic = min(1.0, 2 * float(ndtr(-np.sqrt(few + many - 1) * (1 - 1 / (few * many)))))
        return min(asymptotic, 2 / comb(few + many, few)) if few < EXACT_BELOW else asymptotic


def refuse_many(systems: int, aspects: int, *, most: int = MOST_PAIRS) -> None:
    """Raises InvalidRequest where so many systems, or pairs of them by so many aspects, are beyond a report."""
    if systems > MOST_COMPARED_SYSTEMS:
        raise InvalidRequest(Message("systems-compared-most", systems=systems, maximum=MOST_COMPARED_SYSTEMS))
    pairs = systems * (systems - 1) // 2 * aspects
    if pairs > most:
        raise InvalidRequest(Message("pairs-compared-most", systems=systems, aspects=aspects, pairs=pairs, most=most))


def compare_systems(values: Floats, system: Integers, systems: int) -> PairTests:
    """Tests every pair of `systems` systems on `values`, of shape (n,), of which `system`, of shape (n,), owns each.
    NaN means no value. Equal values tie; nothing is rounded here (`join_ties`)."""
    rated = ~np.isnan(values)
    n = np.bincount(system[rated], minlength=systems).astype(np.int64)
    u, ties = count_wins(values[rated], system[rated], systems)
    rows, columns = np.triu_indices(systems, 1)
    held = (n[rows] > 0) & (n[columns] > 0)
    rows, columns = rows[held], columns[held]
    p = np.full((systems, systems), np.nan)
    p[rows, columns] = p[columns, rows] = find_p(
        np.maximum(u[rows, columns], u[columns, rows]), n[rows], n[columns], ties[rows, columns]
    )
    return PairTests(n=n, u=u, p=p)


def count_wins(values: Floats, system: Integers, systems: int, *, cells: int = COUNTS_AT_ONCE) -> tuple[Floats, Floats]:
    """U, and Σ t³ − t over the values that t items of the two systems share; both of shape (systems, systems). Off the
    diagonal, that is: on it the ties are not a system's with itself. About `cells` counts are held at a time."""
    from scipy.sparse import csr_array

    order = np.argsort(values)
    values, system = values[order], system[order]
    code = np.cumsum(np.diff(values, prepend=values[:1]) != 0)
    distinct = int(code[-1]) + 1 if len(code) else 0
    seen, own = np.zeros(systems), np.zeros(systems)
    wins, squares = np.zeros((systems, systems)), np.zeros((systems, systems))
    width = max(1, min(distinct, cells // max(1, systems)))
    for start in range(0, distinct, width):
        first, last = np.searchsorted(code, (start, start + width))
        places = (code[first:last] - start) * systems + system[first:last]
        counts = np.bincount(places, minlength=width * systems).reshape(width, systems).astype(np.float64)
        upto = seen + np.cumsum(counts, axis=0)
        seen = upto[-1]
        # Of many systems few share a value: a product over what is there, not over all that might be.
        held = csr_array(counts.T) if systems > SPARSE_ABOVE else counts.T
        # Wins over all that lies below, and half of what ties.
        wins += held @ (upto - counts / 2)
        # (a + b)³ = a³ + 3a²b + 3ab² + b³: the ties of all pairs without a pass for each.
        tied = counts[counts.sum(axis=1) > 1]
        square = tied * tied
        squares += (csr_array(square.T) if systems > SPARSE_ABOVE else square.T) @ tied
        own += (square * tied - tied).sum(axis=0)
    return wins, own[:, None] + own + 3 * (squares + squares.T)


def find_p(u: Floats, n: Integers, m: Integers, ties: Floats) -> Floats:
    """Two-sided p of the larger `u` of each pair of samples of sizes `n` and `m`, all of shape (pairs,)."""
    from scipy.special import ndtr

    both = n + m
    spread = np.sqrt(np.maximum(0.0, n * m / 12 * ((both + 1) - ties / (both * (both - 1)))))
    # All values equal: no spread, and U is its mean, from which the continuity correction takes a half.
    z = np.divide(u - n * m / 2 - 0.5, spread, out=np.full(len(u), -np.inf), where=spread > 0)
    p: Floats = np.clip(2 * ndtr(-z), LEAST_P, 1.0)
    few, many = np.minimum(n, m), np.maximum(n, m)
    exact = (few < EXACT_BELOW) & (ties == 0)
    sizes, group = np.unique(np.stack([few[exact], many[exact]], axis=1), axis=0, return_inverse=True)
    places, lower = np.flatnonzero(exact), (n * m - u)[exact].astype(np.int64)
    for number, (small, large) in enumerate(sizes.tolist()):
        here = group.reshape(-1) == number
        p[places[here]] = np.minimum(1.0, 2 * cumulate_u(small, large)[lower[here]])
    return p


def cumulate_u(small: int, large: int) -> Floats:
    """P(U ≤ u) for u = 0 … small · large // 2 of two samples without ties; shape (small · large // 2 + 1,). The ways to
    reach u are the coefficients of the Gaussian binomial Π (1 − x^(large + i)) / (1 − x^i), i = 1 … small. Multiplied
    and divided in turn, every step's result is again such a binomial, so that rounding does not build up."""
    ways = np.zeros(small * large // 2 + 1)
    ways[0] = 1
    for part in range(1, small + 1):
        step = large + part
        if step < len(ways):
            ways[step:] -= ways[:-step]
        for offset in range(min(part, len(ways))):
            ways[offset::part] = np.cumsum(ways[offset::part])
    return np.cumsum(ways) / comb(small + large, small)


def join_ties(values: Floats, size: Floats) -> Floats:
    """`values` with each run of neighbours that only rounding parts set to its smallest; NaN stays. Shape (n,). `size`,
    of shape (n,), is the sum of the absolute numbers that each value was added up from. What is equal but for rounding
    must tie: a test by ranks takes a difference of 1e-16 for as good as one of 1."""
    joined = values.copy()
    if are_far_apart(values, size):
        return joined
    rated = np.flatnonzero(~np.isnan(values))
    order = rated[np.argsort(values[rated], kind="stable")]
    if len(order) == 0:
        return joined
    ascending, allowed = values[order], SUM_ROUNDING * size[order]
    apart = np.diff(ascending) > np.maximum(allowed[1:], allowed[:-1])
    begins = np.concatenate([[True], apart])
    joined[order] = ascending[begins][np.cumsum(begins) - 1]
    return joined


def are_far_apart(values: Floats, size: Floats) -> bool:
    """Whether no rounding of anything as large as the largest `size` could part two different values; NaN is none.
    Sorted alone the values take a fifth of the time that it takes to sort them with what belongs to each."""
    gaps = np.diff(np.sort(values))
    gaps = gaps[gaps > 0]  # NaN, which comes last, is none
    return bool(len(gaps) == 0 or gaps.min() > SUM_ROUNDING * np.nanmax(size))


POWER = 0.8
DECIMALS = 9
"""Values equal to so many decimals are equal: 7/3 − 2 and 1/3 are one difference and must share a rank."""


def level(values: Floats) -> Floats:
    """The values with rounding noise taken off."""
    return np.round(values, DECIMALS) + 0.0


def find_cliffs_delta(baseline: Floats, candidate: Floats) -> float:
    """P(candidate > baseline) − P(candidate < baseline) over all pairs of values, in [−1, 1] (Cliff 1993). That is 2U /
    (n·m) − 1, with U counted by value: ratings have few. Both sides have at least one value."""
    (left, n), (right, m) = (np.unique(level(own), return_counts=True) for own in (baseline, candidate))
    below = np.concatenate([[0], np.cumsum(n)])
    less, not_more = (below[np.searchsorted(left, right, side)] for side in ("left", "right"))
    u = float(m @ (less + not_more)) / 2
    return 2 * u / (baseline.size * candidate.size) - 1


def adjust_holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down adjustment, in the order given: reject where the result is below alpha. None is a test
    that could not be made: it stays None and does not count among the tests."""
    made = [(p, index) for index, p in enumerate(probabilities) if p is not None]
    adjusted: list[float | None] = [None] * len(probabilities)
    highest = 0.0
    for step, (p, index) in enumerate(sorted(made)):
        highest = max(highest, min(1.0, (len(made) - step) * p))
        adjusted[index] = highest
    return adjusted


def reach(alpha: float, freedom: float) -> float:
    """How many standard errors a difference must have to be significant, two-sided at alpha, with 80% power. Both
    quantiles are those of t, whose degrees of freedom the error has."""
    return find_power_quantile(freedom) - float(stdtrit(freedom, alpha / 2))


def find_t_p(t: float, freedom: float) -> float:
    """The two-sided p of Student's t, which is never 0."""
    return max(LEAST_P, 2 * float(stdtr(freedom, -abs(t))))


def find_power_quantile(freedom: float) -> float:
    """How many standard errors lie between what is just significant and a difference that is found with 80% power."""
    return float(stdtrit(freedom, POWER))

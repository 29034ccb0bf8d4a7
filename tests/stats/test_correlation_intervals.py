"""Intervals of correlations: influence against differences, copulas against their margins, and rare values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.correlation_intervals import (
    COEFFICIENTS,
    FEW_CLUSTERS,
    ODDS,
    TOO_ALIKE,
    Coefficient,
    CorrelationEstimate,
    Difference,
    GradedColumn,
    compare_estimates,
    describe_tables,
    estimate_coefficient,
    estimate_within,
    find_levels,
    join_margins,
    score_tail,
)

FUNCTIONS: dict[Coefficient, Callable[..., Any]] = {
    "spearman": stats.spearmanr,
    "pearson": stats.pearsonr,
    "kendall": stats.kendalltau,
}
TABLE = np.array([[6, 2, 0], [1, 9, 3], [0, 4, 8], [1, 0, 5]])
LEVELS = np.array([1.0, 2.0, 4.0, 5.0]), np.array([1.0, 3.0, 4.0])


def unfold(table):
    """The pairs of values of a table of counts."""
    row, column = np.indices(table.shape).reshape(2, -1)
    return LEVELS[0][np.repeat(row, table.ravel())], LEVELS[1][np.repeat(column, table.ravel())]


def value_of(kind: Coefficient, x, y) -> float:
    return float(FUNCTIONS[kind](x, y).statistic)


def levels_of(table):
    x, y = unfold(table)
    return find_levels(x), find_levels(y)


@pytest.mark.parametrize("kind", COEFFICIENTS)
def test_the_figure_of_a_table_is_scipys_and_its_influence_is_its_derivative(kind: Coefficient) -> None:
    value, moved = describe_tables(kind, TABLE[None] / TABLE.sum(), *levels_of(TABLE))
    x, y = unfold(TABLE)
    assert value[0] == pytest.approx(value_of(kind, x, y))
    for cell in ((0, 0), (1, 2), (3, 0), (2, 1)):
        # Of a hundred thousand copies of the table, one item more moves the figure by its influence over their number.
        more = TABLE * 100_000
        more[cell] += 1
        shifted = describe_tables(kind, more[None] / more.sum(), *shared(more))[0][0]
        assert (shifted - value[0]) * more.sum() == pytest.approx(moved[0][cell], rel=1e-3, abs=1e-3)


def shared(table) -> list[GradedColumn]:
    """The levels of a table without a value for each of its items."""
    shares = table.sum(axis=1) / table.sum(), table.sum(axis=0) / table.sum()
    return [GradedColumn(values, np.arange(len(values)), one) for values, one in zip(LEVELS, shares, strict=True)]


@pytest.mark.parametrize("kind", COEFFICIENTS)
def test_each_items_influence_is_that_of_its_cell(kind: Coefficient) -> None:
    x, y = unfold(TABLE)
    moved = describe_tables(kind, TABLE[None] / TABLE.sum(), *levels_of(TABLE))[1][0]
    found = estimate_coefficient(kind, x, y, np.arange(len(x)), value_of(kind, x, y)).influence
    assert found == pytest.approx(moved[np.searchsorted(LEVELS[0], x), np.searchsorted(LEVELS[1], y)], abs=1e-9)
    assert found.sum() == pytest.approx(0, abs=1e-9)


def test_tables_keep_their_margins_and_the_odds_ratio_of_every_split() -> None:
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.05, 0.95])
    tables = join_margins(p, q)
    assert tables.sum(axis=2) == pytest.approx(np.tile(p, (len(ODDS), 1)))
    assert tables.sum(axis=1) == pytest.approx(np.tile(q, (len(ODDS), 1)))
    below = tables[:, 0, 0]
    odds = below * (1 - 0.1 - 0.05 + below) / ((0.1 - below) * (0.05 - below))
    assert odds[20:60] == pytest.approx(ODDS[20:60], rel=1e-6)


def test_the_tail_is_that_of_a_shifted_gamma() -> None:
    z = np.array([-1.0, 0.0, 2.5])
    for skew in (0.8, -0.8):
        expected = stats.norm.ppf(stats.pearson3.cdf(z, skew))
        assert score_tail(z, np.full(3, skew)) == pytest.approx(expected, abs=1e-6)
    assert score_tail(z, np.zeros(3)) == pytest.approx(z, abs=1e-3)


def binary(n: int, zeros: int, others: int, shared: int):
    """Two columns with so many zeros, and so many items with both."""
    x, y = np.ones(n), np.ones(n)
    x[:zeros] = 0
    y[zeros - shared : zeros - shared + others] = 0
    return x, y


def find_ends(found: CorrelationEstimate, tail: float = 0.025) -> tuple[float, float]:
    """The interval, which there is."""
    interval = found.interval(tail)
    assert not isinstance(interval, Message)
    return interval


def test_two_unrelated_columns_with_few_zeros_are_not_shown_to_be_opposed() -> None:
    x, y = binary(40, 4, 4, 0)
    found = find_ends(estimate_coefficient("spearman", x, y, np.arange(40), value_of("spearman", x, y)))
    assert found[0] < 0 < found[1]


def test_the_interval_of_rare_values_leaves_out_the_truth_as_seldom_as_it_says() -> None:
    # Every table of forty items, each with a zero in either column by 10%, that matters, by its probability.
    n, share, missed, known = 40, 0.1, 0.0, 0.0
    for zeros in range(3, 9):
        for others in range(zeros, 9):
            for both in range(zeros + 1):
                weight = stats.binom.pmf(zeros, n, share) * stats.binom.pmf(others, n, share)
                weight *= stats.hypergeom.pmf(both, n, zeros, others) * (2 if zeros < others else 1)
                if weight < 1e-4:
                    continue
                x, y = binary(n, zeros, others, both)
                found = find_ends(estimate_coefficient("pearson", x, y, np.arange(n), value_of("pearson", x, y)))
                known += weight
                missed += 0.0 if found[0] <= 0 <= found[1] else weight
    assert known > 0.55
    assert missed / known <= 0.05


def test_too_few_clusters_or_values_have_no_interval_and_say_why() -> None:
    x, y = binary(40, 4, 4, 2)
    value = value_of("pearson", x, y)
    assert estimate_coefficient("pearson", x, y, np.arange(40) // 6, value).interval() == FEW_CLUSTERS
    assert estimate_coefficient("pearson", x, y, np.arange(40) // 4, value).interval() == TOO_ALIKE
    x, y = binary(40, 2, 20, 2)
    assert estimate_coefficient("pearson", x, y, np.arange(40), value_of("pearson", x, y)).interval() == TOO_ALIKE


def make_systems(seed: int, within: float):
    """Scores and ratings of two systems that lie far apart in both."""
    generator = np.random.default_rng(seed)
    system = np.arange(80) % 2
    x = generator.normal(size=80) + 3 * system
    y = within * (x - 3 * system) + np.sqrt(1 - within**2) * generator.normal(size=80) + 3 * system
    return x, y, system


def test_within_systems_what_parts_the_systems_is_no_correlation() -> None:
    x, y, system = make_systems(1, 0.0)
    assert value_of("spearman", x, y) > 0.5
    apart = estimate_within(x, y, np.arange(80), system)
    grades = []
    for column in (x, y):
        ranks = np.empty(80)
        for number in (0, 1):
            ranks[system == number] = stats.rankdata(column[system == number]) - 20.5
        grades.append(ranks)
    assert apart.value == pytest.approx(stats.pearsonr(*grades).statistic)
    found = find_ends(apart)
    assert found[0] < 0 < found[1]
    x, y, system = make_systems(1, 0.8)
    assert find_ends(estimate_within(x, y, np.arange(80), system))[0] > 0.4


def test_one_system_is_as_without_systems() -> None:
    x, y = unfold(TABLE)
    plain = estimate_coefficient("spearman", x, y, np.arange(len(x)), value_of("spearman", x, y))
    within = estimate_within(x, y, np.arange(len(x)), np.zeros(len(x), dtype=np.int64))
    assert within.value == pytest.approx(plain.value)
    assert within.interval() == pytest.approx(plain.interval())


def test_a_wider_interval_is_left_by_less() -> None:
    x, y = unfold(TABLE)
    found = estimate_coefficient("kendall", x, y, np.arange(len(x)), value_of("kendall", x, y))
    wide, narrow = find_ends(found, 0.001), find_ends(found, 0.05)
    assert wide[0] < narrow[0] < found.value < narrow[1] < wide[1]


def test_a_difference_is_shown_exactly_where_its_interval_leaves_out_0() -> None:
    generator = np.random.default_rng(4)
    y = generator.normal(size=60)
    shown = set()
    for noise in (0.3, 0.8, 1.0, 1.5, 3.0):
        one, other = (y + scale * generator.normal(size=60) for scale in (0.8, noise))
        pair = [estimate_coefficient("spearman", x, y, np.arange(60), value_of("spearman", x, y)) for x in (one, other)]
        found, back = compare_estimates(*pair), compare_estimates(*pair[::-1])
        assert isinstance(found, Difference)
        assert isinstance(back, Difference)
        assert (found.p < 0.05) == (not found.interval[0] <= 0 <= found.interval[1])
        assert (back.p, -back.interval[1]) == pytest.approx((found.p, found.interval[0]))
        shown.add(found.p < 0.05)
        same = compare_estimates(pair[0], pair[0])
        assert isinstance(same, Difference)
        assert (same.interval, same.p) == ((0.0, 0.0), 1.0)
    assert shown == {True, False}

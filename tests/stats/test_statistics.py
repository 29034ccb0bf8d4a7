"""Correlations against scipy, on data with ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.statistics import (
    equalize,
    kendall,
    obstacle,
    pearson,
    pearson_within,
    rank_values,
    rank_within,
    spearman,
)

TIED = st.integers(3, 30).flatmap(lambda n: arrays(np.float64, (2, n), elements=st.sampled_from([1, 1.5, 2, 3, -4])))
FREE = st.integers(3, 30).flatmap(lambda n: arrays(np.float64, (2, n), elements=st.floats(-100, 100, width=16)))


@settings(deadline=None)
@given(TIED | FREE)
def test_coefficients_are_scipys(pair):
    x, y = pair
    if obstacle(x, y) is None:
        assert float(pearson(x, y)) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
        assert float(spearman(x, y)) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
        assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
    else:
        assert np.isnan(pearson(x, y)) or len(x) < 3
        assert np.isnan(spearman(x, y)) or len(x) < 3


@settings(deadline=None)
@given(arrays(np.float64, (4, 2, 7), elements=st.sampled_from([1, 2, 3, 4.5])))
def test_rows_are_taken_one_by_one(rows):
    x, y = rows[:, 0], rows[:, 1]
    for found, function in ((pearson(x, y), pearson), (spearman(x, y), spearman)):
        one_by_one = [float(function(a, b)) for a, b in zip(x, y, strict=True)]
        assert found == pytest.approx(one_by_one, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2], [1, 2], Message("few-items-have-both", least=3)),
        ([], [], Message("few-items-have-both", least=3)),
        ([1, 1, 1], [1, 2, 3], Message("scores-equal")),
        ([1, 2, 3], [5, 5, 5], Message("ratings-equal")),
        ([1, 2, 3], [5, 5, 4], None),
    ],
)
def test_what_stands_in_the_way_is_said(x, y, reason):
    assert obstacle(np.array(x, dtype=float), np.array(y, dtype=float)) == reason


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e15])
def test_very_small_and_large_values_lose_nothing(scale):
    x, y = np.array([1.0, 2, 3, 5]), np.array([2.0, 1, 4, 3])
    assert float(pearson(x * scale, y * scale)) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)


def test_a_constant_has_no_correlation_though_its_mean_is_off_by_a_bit():
    tenth = np.full(3, 0.1)
    assert tenth.mean() != 0.1  # 0.30000000000000004 / 3
    assert np.isnan(pearson(tenth, np.arange(3.0)))


def test_equal_means_by_another_order_of_sums_are_settled_to_ties():
    one, other = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    assert one != other
    settled = equalize(np.array([one, other, np.nan]))
    assert settled[0] == settled[1]
    assert np.isnan(settled[2])


def test_sums_that_cancel_are_settled_by_what_was_summed():
    left_over = np.array([0.1 + 0.2 - 0.3, 0.0, -0.3 + 0.1 + 0.2])
    assert len(set(left_over)) == 3
    assert len(set(equalize(left_over, np.array([0.6, 0.0, 0.6])).tolist())) == 1


@settings(deadline=None)
@given(arrays(np.float64, 9, elements=st.integers(-4000, 4000).map(lambda number: number / 64)))
def test_short_binary_fractions_settle_to_themselves(values):
    assert equalize(values).tolist() == values.tolist()


@pytest.mark.parametrize("absurd", [1e13, 1e15, -1e15])
def test_one_absurd_value_does_not_make_the_others_tie(absurd):
    values = np.append(np.random.default_rng(0).normal(size=30), absurd)
    assert equalize(values).tolist() == values.tolist()


def test_nothing_settles_to_nothing():
    assert equalize(np.empty(0)).size == 0
    assert np.isnan(equalize(np.full(2, np.nan))).all()


GROUPED = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        arrays(np.int64, n, elements=st.integers(0, 3)),
        arrays(np.float64, (2, n), elements=st.sampled_from([1, 1.5, 2, 7])),
    )
)


@settings(deadline=None)
@given(GROUPED)
def test_ranks_within_groups_are_each_groups_own(case):
    group, (values, _) = case
    found = rank_within(group, values)
    for number in range(4):
        assert found[group == number].tolist() == stats.rankdata(values[group == number]).tolist()


@settings(deadline=None)
@given(GROUPED)
def test_correlations_within_groups_are_each_groups_own(case):
    group, (x, y) = case
    found = pearson_within(group, 4, x, y)
    for number in range(4):
        a, b = x[group == number], y[group == number]
        expected = np.nan if obstacle(a, b) else stats.pearsonr(a, b).statistic
        assert found[number] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_ranks_are_scipys_along_the_last_axis():
    assert rank_values(np.array([[3.0, 1, 1], [1, 2, 3]])).tolist() == [[3, 1.5, 1.5], [1, 2, 3]]

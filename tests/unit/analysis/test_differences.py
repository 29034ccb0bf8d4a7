"""Tests, effects and intervals against the published packages, with ties and zeros as ratings have them."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from app.analysis import differences

RATINGS = st.integers(1, 5).map(float)
EVERY_CHOICE = stats.PermutationMethod(n_resamples=2**13)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 3).map(float), max_size=8))
def test_few_tied_differences_are_tested_over_all_signs(values):
    kept = np.array([value for value in values if value])
    expected = stats.wilcoxon(kept, method=EVERY_CHOICE).pvalue if kept.size > 1 else 1.0
    assert differences.test_paired(np.array(values)) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5, width=16), min_size=14, max_size=80))
def test_many_differences_are_tested_as_scipy_does(values):
    kept = np.round(values, 9)
    kept = kept[kept != 0]
    if kept.size > 13:
        assert differences.test_paired(np.array(values)) == pytest.approx(stats.wilcoxon(kept).pvalue, rel=1e-9)


def test_zeros_do_not_turn_a_small_sample_into_a_large_one():
    # Five differences of one sign and forty-five zeros: 2 of 2^5 signs are as far out. The normal approximation, which
    # scipy takes for the fifty of them, says 0.025.
    values = np.array([-1.0] * 5 + [0.0] * 45)
    assert differences.test_paired(values) == pytest.approx(2 / 32)
    assert stats.wilcoxon(values).pvalue == pytest.approx(0.0253, abs=1e-4)


def test_differences_that_differ_by_rounding_alone_share_a_rank():
    third = np.array([7 / 3 - 2, 1 / 3, 4 / 3 - 1, -(1 / 3), 0.1 + 0.2 - 0.3])
    assert differences.test_paired(third) == differences.test_paired(np.array([1.0, 1.0, 1.0, -1.0]))
    assert differences.test_paired(np.zeros(7)) == 1.0


def test_the_ranks_say_which_way_a_paired_test_points():
    # Ranks of 1, 1, 1, 9 are 2, 2, 2, 4: 6 against 4, though the mean is below 0.
    assert differences.lean_paired(np.array([1.0, 1.0, 1.0, -9.0, 0.0])) == 2.0


@settings(max_examples=30, deadline=None)
@given(st.lists(RATINGS, min_size=2, max_size=5), st.lists(RATINGS, min_size=2, max_size=5))
def test_few_tied_values_are_tested_over_all_splits(baseline, candidate):
    left, right = np.array(baseline), np.array(candidate)
    pooled = np.unique(np.concatenate([left, right])).size
    if pooled == 1:
        expected = 1.0
    else:
        method = EVERY_CHOICE if pooled < left.size + right.size else "auto"
        expected = stats.mannwhitneyu(right, left, method=method).pvalue
    assert differences.test_unpaired(left, right) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(st.lists(RATINGS, min_size=20, max_size=60), st.lists(RATINGS, min_size=20, max_size=60))
def test_many_values_are_tested_as_scipy_does(baseline, candidate):
    left, right = np.array(baseline), np.array(candidate)
    if np.unique(np.concatenate([left, right])).size > 1:
        expected = stats.mannwhitneyu(right, left).pvalue
        assert differences.test_unpaired(left, right) == pytest.approx(expected, rel=1e-9)


def test_three_against_three_are_not_significant_however_tied():
    # 2 of the 20 splits are as far apart.
    assert differences.test_unpaired(np.array([1.0, 1.0, 1.0]), np.array([2.0, 2.0, 2.0])) == pytest.approx(0.1)


@settings(deadline=None)
@given(st.lists(RATINGS, min_size=1, max_size=9), st.lists(RATINGS, min_size=1, max_size=9))
def test_cliffs_delta_is_the_share_of_pairs_won_minus_lost(baseline, candidate):
    pairs = [np.sign(right - left) for left in baseline for right in candidate]
    found = differences.find_cliffs_delta(np.array(baseline), np.array(candidate))
    assert found == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 11])
def test_holm_is_that_of_statsmodels(count):
    generator = np.random.default_rng(count)
    # Rounded, so that some are equal; squared, so that some are small.
    for probabilities in np.round(generator.random((4, count)) ** 2, 1 + count % 3).tolist():
        expected = multipletests(probabilities, method="holm")[1]
        assert differences.adjust_holm(probabilities) == pytest.approx(list(expected), abs=1e-12)


def test_holm_does_not_count_what_was_not_tested():
    # 3 · 0.01 = 0.03; 2 · 0.04 = 0.08; then max(0.08, 1 · 0.05) = 0.08
    assert differences.adjust_holm([0.04, None, 0.01, 0.05]) == [pytest.approx(0.08), None, pytest.approx(0.03), 0.08]
    assert differences.adjust_holm([]) == []


@pytest.mark.parametrize("values", [[1.0, 2.0] * 100, np.linspace(1, 5, 150).tolist()], ids=["multinomial", "drawn"])
def test_resampled_means_have_the_spread_of_a_mean(values):
    sample = np.array(values)
    means = differences.resample_mean(sample, np.random.default_rng(0), 20_000)
    assert means.shape == (20_000,)
    error = sample.std() / sqrt(sample.size)
    assert means.mean() == pytest.approx(sample.mean(), abs=5 * error / sqrt(20_000))
    assert means.std() == pytest.approx(error, rel=0.03)


def test_resampled_means_come_in_parts_and_repeat_by_seed():
    sample = np.random.default_rng(1).normal(size=3 * 10**5)
    first, again = (differences.resample_mean(sample, np.random.default_rng(2), 15) for _ in range(2))
    assert first.shape == (15,)
    assert np.array_equal(first, again)
    assert len(set(first)) == 15


@pytest.mark.parametrize(("n", "plain", "expanded"), [(5, 0.87, 0.91), (10, 0.92, 0.925), (20, 0.945, 0.93)])
def test_intervals_of_few_values_are_wide_enough(n, plain, expanded):
    """Of 1,500 samples of normal values how many intervals hold the true mean, 0. At n = 5 no resample goes beyond the
    values themselves, so that even the expanded interval ends too soon."""
    generator = np.random.default_rng(n)
    held = {"plain": 0, "expanded": 0}
    for _ in range(1500):
        sample = generator.normal(size=n)
        means = differences.resample_mean(sample, generator, 1000)
        low, high = np.quantile(means, [0.025, 0.975])
        held["plain"] += low <= 0 <= high
        low, high = differences.find_interval(means, 0.05, sample)
        held["expanded"] += low <= 0 <= high
    assert held["plain"] / 1500 < plain
    assert expanded < held["expanded"] / 1500 < 0.97


def test_the_interval_is_expanded_as_hesterberg_says():
    # n = 10: √(10/9) · t(0.975; 9) = 1.0541 · 2.2622 = 2.3845, and Φ(−2.3845) = 0.00855.
    means = np.arange(100_001) / 100_000
    sample = np.arange(10.0)
    assert differences.find_interval(means, 0.05, sample) == pytest.approx((0.00855, 0.99145), abs=1e-5)
    # Two such samples have 18 degrees of freedom: 1.0541 · 2.1009 = 2.2145, Φ(−2.2145) = 0.01340.
    assert differences.find_interval(means, 0.05, sample, sample) == pytest.approx((0.0134, 0.9866), abs=1e-5)


def test_many_values_are_resampled_less_often():
    assert differences.limit_resamples(5000, 200) == 5000
    assert differences.limit_resamples(5000, 20_000) == 2500
    assert differences.limit_resamples(5000, 10**7) == 500


def test_the_standard_error_adds_both_samples():
    # s² of 1, 2, 3 is 1, of 0, 4 is 8: √(1/3 + 8/2)
    assert differences.find_standard_error(np.array([1.0, 2.0, 3.0])) == pytest.approx(sqrt(1 / 3))
    found = differences.find_standard_error(np.array([1.0, 2.0, 3.0]), np.array([0.0, 4.0]))
    assert found == pytest.approx(sqrt(1 / 3 + 4))
    assert differences.find_standard_error(np.full(10, 0.1)) == 0
    # 1.959964 + 0.841621
    assert differences.reach(0.05) == pytest.approx(2.801585, abs=1e-6)


def test_the_least_p_is_that_of_all_on_one_side():
    assert differences.find_least_p(0) == 1.0
    assert differences.find_least_p(5) == differences.test_paired(np.arange(1.0, 6.0)) == 2 / 32
    assert differences.find_least_p(3, 3) == differences.test_unpaired(np.arange(3.0), np.arange(3.0, 6.0)) == 0.1

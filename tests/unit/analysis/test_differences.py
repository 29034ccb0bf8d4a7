"""Effects, corrections and the signed-rank test against the published packages, with ties and zeros as ratings have them."""

from __future__ import annotations

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


def test_a_detectable_difference_is_that_of_two_quantiles_of_t():
    assert differences.reach(0.05, 19) == pytest.approx(2.093024 + 0.860951, abs=1e-6)
    assert differences.reach(0.05, 1e9) == pytest.approx(1.959964 + 0.841621, abs=1e-6)

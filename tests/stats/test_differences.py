"""Effects and corrections against the published packages, with ties and zeros as ratings have them."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.stats import statistics

RATINGS = st.integers(1, 5).map(float)


@settings(deadline=None)
@given(st.lists(RATINGS, min_size=1, max_size=9), st.lists(RATINGS, min_size=1, max_size=9))
def test_cliffs_delta_is_the_share_of_pairs_won_minus_lost(baseline, candidate):
    pairs = [np.sign(right - left) for left in baseline for right in candidate]
    found = statistics.find_cliffs_delta(np.array(baseline), np.array(candidate))
    assert found == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 11])
def test_holm_is_that_of_statsmodels(count, monkeypatch):
    from statsmodels.stats.multitest import multipletests  # here: it brings pandas, which no other test needs

    # statsmodels collects garbage at each call, which takes half a second among all that the tests have imported.
    monkeypatch.setattr(gc, "collect", lambda: 0)
    generator = np.random.default_rng(count)
    # Rounded, so that some are equal; squared, so that some are small.
    for probabilities in np.round(generator.random((4, count)) ** 2, 1 + count % 3).tolist():
        expected = multipletests(probabilities, method="holm")[1]
        assert statistics.adjust_holm(probabilities) == pytest.approx(list(expected), abs=1e-12)


def test_holm_does_not_count_what_was_not_tested():
    # 3 · 0.01 = 0.03; 2 · 0.04 = 0.08; then max(0.08, 1 · 0.05) = 0.08
    assert statistics.adjust_holm([0.04, None, 0.01, 0.05]) == [pytest.approx(0.08), None, pytest.approx(0.03), 0.08]
    assert statistics.adjust_holm([]) == []


def test_a_detectable_difference_is_that_of_two_quantiles_of_t():
    assert statistics.reach(0.05, 19) == pytest.approx(2.093024 + 0.860951, abs=1e-6)
    assert statistics.reach(0.05, 1e9) == pytest.approx(1.959964 + 0.841621, abs=1e-6)

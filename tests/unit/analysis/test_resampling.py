"""What is computed for all resamples at once is what scipy says of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from app.analysis import resampling
from app.analysis.resampling import (
    MOST_DRAWS,
    MOST_PAIRED,
    ResampledRanks,
    affordable,
    draw,
    interval_of,
    resampled_kendall,
    resampled_mean,
    resampled_pearson,
    resampled_spearman,
)

PAIRS = st.integers(3, 15).flatmap(lambda n: arrays(np.float64, (2, n), elements=st.sampled_from([1, 2, 2.5, 9])))
RESAMPLES = 20


def one_by_one(function, x, y):
    found = []
    (rows,) = draw(len(x), RESAMPLES, 5)
    for drawn in rows:
        varies = np.ptp(x[drawn]) and np.ptp(y[drawn])
        found.append(function(x[drawn], y[drawn]).statistic if varies else np.nan)
    return found


@settings(max_examples=30, deadline=None)
@given(PAIRS)
def test_resampled_coefficients_are_scipys(pair):
    x, y = pair
    for found, function in (
        (resampled_spearman(x, y, RESAMPLES, 5), stats.spearmanr),
        (resampled_pearson(x, y, RESAMPLES, 5), stats.pearsonr),
        (resampled_kendall(x, y, RESAMPLES, 5), stats.kendalltau),
    ):
        assert found == pytest.approx(one_by_one(function, x, y), abs=1e-9, nan_ok=True)


def test_among_many_items_kendall_is_the_same(monkeypatch):
    x, y = np.random.default_rng(0).integers(0, 9, (2, 50)).astype(float)
    x[:48], y[:48] = 1, 1  # so that some resamples are constant
    by_pairs = resampled_kendall(x, y, 200, 1)
    monkeypatch.setattr(resampling, "MOST_PAIRED", 49)
    assert np.isnan(by_pairs).any()
    assert resampled_kendall(x, y, 200, 1) == pytest.approx(by_pairs, abs=1e-9, nan_ok=True)


def test_resamples_are_fewer_only_where_they_would_take_minutes():
    assert affordable(MOST_PAIRED, 10_000) == 10_000
    assert affordable(20_000, 10_000) == MOST_DRAWS // 20_000
    assert affordable(10**6, 10_000) == 200
    assert affordable(10**6, 50) == 50


def test_the_same_seed_draws_the_same_and_in_parts_no_other_number(monkeypatch):
    monkeypatch.setattr(resampling, "CELLS", 30)
    parts = list(draw(10, 7, 3))
    assert [part.shape for part in parts] == [(3, 10), (3, 10), (1, 10)]
    again = list(draw(10, 7, 3))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0], next(draw(10, 7, 4)))
    assert not np.array_equal(next(draw(10, 7, (3, 0))), next(draw(10, 7, (3, 1))))


@settings(deadline=None)
@given(arrays(np.float64, 8, elements=st.sampled_from([1, 2, 3])))
def test_ranks_of_resamples_need_no_sorting(values):
    (drawn,) = draw(8, 5, 0)
    expected = np.array([stats.rankdata(values[row]) for row in drawn])
    assert ResampledRanks(values).of(drawn).tolist() == expected.tolist()


def test_means_of_resamples():
    values = np.array([1.0, 2, 4])
    (drawn,) = draw(3, 4, 9)
    assert resampled_mean(values, 4, 9).tolist() == [values[row].mean() for row in drawn]


def test_an_interval_is_the_middle_95_percent():
    assert interval_of(np.arange(1001.0)) == (25.0, 975.0)


def test_few_undefined_resamples_are_passed_over_and_many_are_not():
    figures = np.arange(100.0)
    figures[:5] = np.nan
    assert interval_of(figures) == pytest.approx((5 + 94 * 0.025, 5 + 94 * 0.975))
    figures[5] = np.nan
    assert interval_of(figures) == "6 of 100 resamples have no figure: too few different items"


def test_without_resamples_there_is_no_interval():
    assert interval_of(np.empty(0)) == "no resamples were asked for"
    assert resampled_pearson(np.arange(3.0), np.arange(3.0), 0, 0).size == 0

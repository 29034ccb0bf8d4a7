"""The t quantile and the interval of a mean, against SciPy."""

from __future__ import annotations

import statistics

import pytest
from scipy.stats import t, ttest_1samp

from app.domain.intervals import T_975, interval_of_mean, quantile_t


@pytest.mark.parametrize("freedom", [*range(1, 40), 50, 100, 1000, 99_999])
def test_quantiles_are_scipys(freedom):
    assert quantile_t(freedom) == pytest.approx(float(t.ppf(0.975, freedom)), abs=1e-6)


def test_quantiles_fall_where_the_table_ends_too():
    found = [quantile_t(freedom) for freedom in range(1, len(T_975) + 20)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("values", [[1.0, 2.0], [3.0, 1.0, 2.0, 2.0, 5.0], [0.0, 1.0] * 40])
def test_an_interval_is_that_of_the_t_test(values):
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    found = interval_of_mean(len(values), statistics.fmean(values), statistics.stdev(values))
    assert found == pytest.approx((float(expected.low), float(expected.high)), abs=1e-5)


@pytest.mark.parametrize(("n", "mean", "sd"), [(0, None, None), (1, 3.0, None), (2, 3.0, 0.0), (1000, 3.0, 0.0)])
def test_too_few_or_equal_values_have_no_interval(n, mean, sd):
    assert interval_of_mean(n, mean, sd) is None

"""What is computed for all resamples at once is what scipy says of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from app.stats import resampling
from app.stats.observations import number_first
from app.stats.resampling import (
    COEFFICIENTS,
    MOST_PAIRED,
    NANOSECONDS,
    ResampledRanks,
    afford,
    count_cells,
    draw,
    estimate_nanoseconds,
    interval_of,
    resample,
)

RESAMPLES = 20
VALUES = st.sampled_from([1, 2, 2.5, 9])
PAIRS = st.integers(3, 15).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (2, n), elements=VALUES),
        arrays(np.int64, n, elements=st.integers(0, 4)).map(lambda keys: number_first(np.sort(keys))),
    )
)
FUNCTIONS = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}


def rows_of(cluster, resamples, seed):
    """The rows of each resample, one after the other."""
    return [np.repeat(np.arange(len(cluster)), row) for part in draw(cluster, resamples, seed) for row in part]


def one_by_one(function, x, y, cluster):
    found = []
    for rows in rows_of(cluster, RESAMPLES, 5):
        varies = np.ptp(x[rows]) and np.ptp(y[rows])
        found.append(function(x[rows], y[rows]).statistic if varies and len(rows) > 1 else np.nan)
    return found


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_resampled_coefficients_are_scipys(drawn):
    (x, y), cluster = drawn
    found = resample(x, y, cluster, RESAMPLES, 5)
    for name, function in FUNCTIONS.items():
        assert found[name] == pytest.approx(one_by_one(function, x, y, cluster), abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(("name", "value"), [("MOST_PAIRED", 3), ("EXACT_IN_SINGLE", 1)])
def test_kendall_is_the_same_where_there_are_many_pairs(name, value, monkeypatch):
    x, y = np.random.default_rng(0).integers(0, 9, (2, 50)).astype(float)
    x[:48], y[:48] = 1, 1  # so that some resamples are constant
    expected = resample(x, y, np.arange(50), 200, 1)["kendall"]
    monkeypatch.setattr(resampling, name, value)
    assert np.isnan(expected).any()
    assert resample(x, y, np.arange(50), 200, 1)["kendall"] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_resamples_are_as_many_as_there_is_time_for_and_without_tau_where_that_takes_too_long():
    x, y = np.random.default_rng(0).random((2, 5000))
    with_tau, without = (estimate_nanoseconds(5000, 5000, with_kendall=kendall) for kendall in (True, False))
    assert afford(x, y, 2000, 2000 * with_tau) == (2000, COEFFICIENTS)
    assert afford(x, y, 2000, 300.5 * with_tau) == (300, COEFFICIENTS)
    assert afford(x, y, 2000, 300.5 * without) == (300, ("spearman", "pearson"))
    assert afford(x, y, 2000, 150 * without) == (0, ())
    assert afford(x, y, 100, 150 * with_tau) == (100, COEFFICIENTS)  # no more were asked for


def test_what_is_equal_is_reckoned_once():
    values = np.tile(np.arange(5.0), 12_000)
    assert count_cells(values, -values) == 5
    assert count_cells(values, np.zeros(60_000)) == 5
    assert count_cells(np.empty(0), np.empty(0)) == 0
    assert (
        estimate_nanoseconds(60_000, 5, with_kendall=True) < estimate_nanoseconds(60_000, 60_000, with_kendall=True) / 5
    )


def test_four_thousand_items_have_all_resamples_that_may_be_asked_for():
    x, y = np.random.default_rng(0).random((2, MOST_PAIRED))
    assert afford(x, y, 20_000, NANOSECONDS) == (20_000, COEFFICIENTS)


def test_only_what_is_named_is_resampled():
    x = np.arange(5.0)
    assert list(resample(x, x, np.arange(5), 3, 0, names=("pearson",))) == ["pearson"]


def test_a_context_is_drawn_with_all_that_systems_answered_to_it():
    cluster = number_first(np.array([7, 7, 7, 4, 9, 9]))
    assert cluster.tolist() == [0, 0, 0, 1, 2, 2]
    (counts,) = draw(cluster, 200, 0)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 0] == counts[:, 2]).all()
    assert (counts[:, 4] == counts[:, 5]).all()
    assert (counts[:, 0] + counts[:, 3] + counts[:, 4] == 3).all()
    assert len({tuple(row) for row in counts.tolist()}) == 10  # multisets of three out of three


def test_the_same_seed_draws_the_same_also_in_parts(monkeypatch):
    items = np.arange(10)
    (whole,) = draw(items, 7, 3)
    monkeypatch.setattr(resampling, "CELLS", 30)
    parts = list(draw(items, 7, 3))
    assert [part.shape for part in parts] == [(3, 10), (3, 10), (1, 10)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(parts[0], next(draw(items, 7, 4)))
    assert not np.array_equal(next(draw(items, 7, (3, 0))), next(draw(items, 7, (3, 1))))


@settings(deadline=None)
@given(arrays(np.float64, 8, elements=st.sampled_from([1, 2, 3])))
def test_ranks_of_resamples_need_no_sorting(values):
    (counts,) = draw(np.arange(8), 5, 0)
    for row, ranks in zip(counts, ResampledRanks(values).of(counts), strict=True):
        assert np.repeat(ranks, row).tolist() == stats.rankdata(np.repeat(values, row)).tolist()


def test_an_interval_of_very_many_items_is_the_middle_95_percent():
    assert interval_of(np.arange(1001.0), 10**9) == pytest.approx((25.0, 975.0), abs=1e-3)


@pytest.mark.parametrize("clusters", [8, 15, 60])
def test_percentiles_are_expanded_for_few_items(clusters):
    # Hesterberg (2015), section 5.3: Φ(−√(n / (n − 1)) · t).
    tail = stats.norm.cdf(-np.sqrt(clusters / (clusters - 1)) * stats.t.ppf(0.975, clusters - 1))
    assert tail < 0.025
    figures = np.random.default_rng(0).permutation(np.arange(10_001.0))
    assert interval_of(figures, clusters) == pytest.approx((10_000 * tail, 10_000 * (1 - tail)), abs=1e-3)


def test_few_undefined_resamples_are_passed_over_and_many_are_not():
    figures = np.arange(100.0)
    figures[:5] = np.nan
    assert interval_of(figures, 10**9) == pytest.approx((5 + 94 * 0.025, 5 + 94 * 0.975), abs=1e-3)
    figures[5] = np.nan
    assert interval_of(figures, 10**9) == "6 of 100 resamples have no figure: too few independent items or dialogues"


def test_without_resamples_or_items_there_is_no_interval():
    assert interval_of(np.empty(0), 9) == "no resamples were asked for"
    assert interval_of(np.arange(9.0), 7) == "fewer than 8 independent items or dialogues to draw from"
    x = np.arange(3.0)
    assert [figures.size for figures in resample(x, x, np.arange(3), 0, 0).values()] == [0, 0, 0]

"""What is computed for all resamples at once is what scipy says of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats import resampling
from saiten_server.stats.observations import number_first
from saiten_server.stats.resampling import ResampledRanks, draw_clusters, interval_of
from saiten_server.stats.statistics import reach


def test_a_context_is_drawn_with_all_that_systems_answered_to_it():
    cluster = number_first(np.array([7, 7, 7, 4, 9, 9]))
    assert cluster.tolist() == [0, 0, 0, 1, 2, 2]
    (counts,) = draw_clusters(cluster, 200, 0)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 0] == counts[:, 2]).all()
    assert (counts[:, 4] == counts[:, 5]).all()
    assert (counts[:, 0] + counts[:, 3] + counts[:, 4] == 3).all()
    assert len({tuple(row) for row in counts.tolist()}) == 10  # multisets of three out of three


def test_the_same_seed_draws_the_same_also_in_parts(monkeypatch):
    items = np.arange(10)
    (whole,) = draw_clusters(items, 7, 3)
    monkeypatch.setattr(resampling, "CELLS", 30)
    parts = list(draw_clusters(items, 7, 3))
    assert [part.shape for part in parts] == [(3, 10), (3, 10), (1, 10)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(parts[0], next(draw_clusters(items, 7, 4)))
    assert not np.array_equal(next(draw_clusters(items, 7, (3, 0))), next(draw_clusters(items, 7, (3, 1))))


@settings(deadline=None)
@given(arrays(np.float64, 8, elements=st.sampled_from([1, 2, 3])))
def test_ranks_of_resamples_need_no_sorting(values):
    (counts,) = draw_clusters(np.arange(8), 5, 0)
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
    assert interval_of(figures, 10**9) == Message("resamples-without-figure", missing=6, resamples=100)


def test_without_resamples_or_items_there_is_no_interval():
    assert interval_of(np.empty(0), 9) == Message("no-resamples")
    assert interval_of(np.arange(9.0), 7) == Message("too-few-to-draw-from", least=8)


@pytest.mark.parametrize("freedom", [1.5, 8.0, 300.0])
def test_a_quantile_is_finite_however_small_alpha_is(freedom):
    found = [resampling.find_quantile(freedom, alpha) for alpha in (0.05, 1e-9, 1e-18, 1e-25)]
    assert found == pytest.approx([-stats.t.ppf(alpha / 2, freedom) for alpha in (0.05, 1e-9, 1e-18, 1e-25)], rel=1e-6)
    assert np.isfinite(reach(1e-25, freedom))

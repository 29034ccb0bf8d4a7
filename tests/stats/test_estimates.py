"""Means and differences of clustered values, against other packages, brute force, and simulated coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats import resampling
from saiten_server.stats.resampling import Clustered, add_up, describe_clusters, estimate_mean

SCALE = (1.0, 5.0)


def test_clusters_of_one_value_make_the_t_interval():
    values = np.array([1.0, 2.0, 2.0, 4.0, 5.0, 3.0])
    found = estimate_mean(values, np.ones(6), bounds=None)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.mean == pytest.approx(17 / 6)
    assert (found.clusters, found.reason) == (6, None)
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_equal_clusters_have_the_error_of_a_clustered_regression():
    import statsmodels.api as sm  # here: it brings pandas, which no other test needs

    generator = np.random.default_rng(2)
    codes = np.repeat(np.arange(20), 10)
    values = generator.normal(size=20)[codes] + generator.normal(size=200)
    found = describe_clusters(*add_up(values, codes))
    fitted = sm.OLS(values, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": codes})
    assert found.mean == pytest.approx(fitted.params[0])
    assert found.error == pytest.approx(fitted.bse[0])
    assert found.freedom == pytest.approx(19)


def test_unequal_clusters_have_the_error_and_freedom_of_bell_and_mccaffrey():
    """By the matrices: the residuals of each cluster by (I − H)^-1/2, and tr(M)² / tr(M²) of what they sum up to."""
    generator = np.random.default_rng(3)
    sizes = np.array([1, 2, 3, 9, 5, 20, 1])
    codes = np.repeat(np.arange(7), sizes)
    n = len(codes)
    values = generator.normal(size=n)
    hat = np.full((n, n), 1 / n)
    residuals = values - values.mean()
    rows = []
    for code, size in enumerate(sizes):
        own = codes == code
        roots, vectors = np.linalg.eigh(np.eye(size) - hat[np.ix_(own, own)])
        weight = np.zeros(n)
        weight[own] = np.ones(size) @ (vectors / np.sqrt(roots)) @ vectors.T / n
        rows.append(weight)
    parts = np.array(rows)
    found = describe_clusters(*add_up(values, codes))
    assert found.error == pytest.approx(np.sqrt(np.sum((parts @ residuals) ** 2)))
    degrees = []
    for working in (np.eye(n), (codes[:, None] == codes).astype(float)):  # turns independent, or all alike
        spread = parts @ (np.eye(n) - hat) @ working @ (np.eye(n) - hat) @ parts.T
        degrees.append(np.trace(spread) ** 2 / np.trace(spread @ spread))
    assert found.freedom == pytest.approx(max(1, min(degrees)))


@pytest.mark.parametrize(("count", "n"), [(0, 20), (1, 15), (9, 10), (50, 100)])
def test_wilson_is_that_of_statsmodels(count, n):
    from statsmodels.stats.proportion import proportion_confint  # here: it brings pandas, which no other test needs

    expected = proportion_confint(count, n, 0.05, method="wilson")
    assert resampling.find_wilson(count / n, n, 1.959963985) == pytest.approx(expected)


def test_a_difference_of_shares_is_newcombes():
    # Newcombe (1998), method 10, table II (a): 56/70 − 48/80 = 0.2 (0.0524 to 0.3339).
    def side(share: float, n: int) -> Clustered:
        return Clustered(share, float(np.sqrt(share * (1 - share) / n)), n - 1.0, np.zeros(n))

    found = resampling.combine((side(56 / 70, 70), side(48 / 80, 80)), (0.0, 1.0), (1.959964, 1.959964), 0.0)
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_without_a_scale_differences_are_students_and_welchs():
    generator = np.random.default_rng(4)
    before, after, ones = generator.normal(size=12), generator.normal(size=12), np.ones(12)
    moved = after - before
    paired = resampling.estimate_paired(np.maximum(moved, 0), np.maximum(-moved, 0), ones, width=None)
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert paired.interval == pytest.approx((expected.low, expected.high))
    sides = describe_clusters(before, ones), describe_clusters(after[:7], np.ones(7))
    unpaired = resampling.estimate_unpaired(*sides, bounds=None)
    expected = stats.ttest_ind(after[:7], before, equal_var=False).confidence_interval(0.95)
    assert unpaired.interval == pytest.approx((expected.low, expected.high))


def test_what_shows_no_spread_has_no_interval_and_a_reason():
    assert estimate_mean(np.zeros(2), np.zeros(2), bounds=SCALE) == resampling.IntervalEstimate(
        None, None, 0, Message("no-values")
    )
    one = estimate_mean(np.array([9.0]), np.array([3.0]), bounds=SCALE)
    assert (one.mean, one.interval, one.reason) == (3.0, None, resampling.ONE_CLUSTER)
    alike = estimate_mean(np.array([0.3, 0.1 + 0.2]), np.array([3.0, 3.0]), bounds=(0.0, 1.0))
    assert (alike.interval, alike.reason) == (None, resampling.NO_SPREAD)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(1, 5).map(float), min_size=1, max_size=6)), min_size=2, max_size=12),
    st.sampled_from([0.001, 0.05, 0.4]),
)
def test_no_interval_leaves_its_scale(clusters, alpha):
    sums, counts = (np.array([figure(one) for (one,) in clusters], dtype=float) for figure in (sum, len))
    found = estimate_mean(sums, counts, bounds=SCALE, alpha=alpha)
    moved = sums - 3 * counts
    rises, falls = np.maximum(moved, 0), np.maximum(-moved, 0)
    paired = resampling.estimate_paired(rises, falls, counts, width=4.0, alpha=alpha)
    for mean, interval, low, high in (
        (found.mean, found.interval, *SCALE),
        (paired.mean, paired.interval, -4.0, 4.0),
    ):
        if interval is not None and mean is not None:
            assert low <= interval[0] <= mean <= interval[1] <= high


@pytest.mark.parametrize(
    ("shares", "clusters", "turns"),
    [
        ([0.08, 0.2, 0.36, 0.26, 0.1], 15, 10),
        ([0.01, 0.01, 0.02, 0.06, 0.9], 15, 10),
        ([0.01, 0.01, 0.02, 0.06, 0.9], 60, 1),
    ],
    ids=["middle", "end, in dialogues", "end, independent"],
)
def test_intervals_cover_the_mean(shares, clusters, turns):
    """Of 400 samples: at least .91 in the middle and .87 at an end, that is .95 and .90 less chance."""
    generator = np.random.default_rng(6)
    levels, held = np.arange(1.0, 6.0), 0
    cuts = stats.norm.ppf(np.cumsum(shares)[:-1])
    for _ in range(400):
        values = np.sqrt(0.3) * generator.normal(size=(clusters, 1)) + np.sqrt(0.7) * generator.normal(
            size=(clusters, turns)
        )
        sums = levels[np.searchsorted(cuts, values)].sum(axis=1)
        found = estimate_mean(sums, np.full(clusters, float(turns)), bounds=SCALE).interval
        held += found is None or found[0] <= levels @ shares <= found[1]
    assert held / 400 >= (0.91 if shares[-1] < 0.5 else 0.87)

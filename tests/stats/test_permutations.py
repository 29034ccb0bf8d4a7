"""Tests of means over clusters, against every flip written out and against scipy."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from saiten_server.stats import resampling
from saiten_server.stats.resampling import FLIPS, find_least_p, flip_signs, permute_runs

SUMS = st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4)), min_size=1, max_size=8)


def draw() -> np.random.Generator:
    return np.random.default_rng(0)


def studentise(sums: np.ndarray, counts: np.ndarray) -> float:
    """|T| of a mean by its cluster-robust error."""
    mean = sums.sum() / counts.sum()
    spread = float(np.sum((sums - counts * mean) ** 2))
    return np.inf if spread < 1e-12 and mean else abs(mean) / np.sqrt(max(spread, 1e-300)) if mean else 0.0


@settings(deadline=None, max_examples=60)
@given(SUMS)
def test_few_clusters_are_tested_over_all_flips(clusters):
    sums, counts = (np.array(column, dtype=float) for column in zip(*clusters, strict=True))
    least = studentise(sums, counts) * (1 - 1e-9)
    found = [studentise(sums * signs, counts) >= least for signs in product((1, -1), repeat=len(sums))]
    expected = np.mean(found) if sums.any() else 1.0
    assert flip_signs(sums, counts, draw()) == pytest.approx(expected, abs=1e-12)


def test_many_pairs_have_the_p_of_scipy():
    sums = np.random.default_rng(1).integers(-2, 3, 60).astype(np.float64) + 0.3
    expected = stats.permutation_test(
        (sums,),
        lambda x, axis: np.abs(x.mean(axis=axis)),
        permutation_type="samples",
        n_resamples=40_000,
        rng=2,
        alternative="greater",
        vectorized=True,
    )
    found = flip_signs(sums, np.ones(60), draw(), flips=40_000)
    assert found == pytest.approx(expected.pvalue, abs=4 * np.sqrt(expected.pvalue / 40_000))


def test_clusters_without_a_difference_have_no_say():
    # Five drops among fifty pairs: 2 of 2^5 flips are as far out.
    sums = np.array([-1.0] * 5 + [0.0] * 45)
    assert flip_signs(sums, np.ones(50), draw()) == 2 / 32
    assert flip_signs(np.zeros(7), np.ones(7), draw()) == 1.0
    assert flip_signs(np.full(6, -2.0), np.full(6, 2.0), draw()) == 2 / 64


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=2, max_size=5),
)
def test_few_clusters_are_tested_over_all_splits(baseline, candidate):
    pooled = np.array([*baseline, *candidate], dtype=float)
    first = len(baseline)

    def distance(rows: list[int]) -> tuple[float, float]:
        """Squared difference of the means, and its variance."""
        others = [row for row in range(len(pooled)) if row not in rows]
        means, variance = [], 0.0
        for side in (pooled[rows], pooled[others]):
            mean = side[:, 0].sum() / side[:, 1].sum()
            spread = np.sum((side[:, 0] - mean * side[:, 1]) ** 2) / side[:, 1].sum() ** 2
            variance += 0.0 if spread < 1e-12 else spread * len(side) / (len(side) - 1)
            means.append(mean)
        return (means[0] - means[1]) ** 2, variance

    squared, variance = distance(list(range(first)))
    found = []
    for rows in combinations(range(len(pooled)), first):
        other, spread = distance(list(rows))
        found.append(other * variance >= squared * spread * (1 - 1e-9) - 1e-15)
    sides = [np.array(side, dtype=float).T for side in (baseline, candidate)]
    p = permute_runs((sides[0][0], sides[0][1]), (sides[1][0], sides[1][1]), draw())
    assert p == pytest.approx(np.mean(found), abs=1e-12)


def test_many_values_have_the_p_of_scipys_studentised_permutations():
    generator = np.random.default_rng(3)
    left, right = generator.integers(1, 6, 30).astype(float), generator.integers(1, 6, 24).astype(float) + 0.4

    def welch(x, y, axis):
        return np.abs(stats.ttest_ind(x, y, axis=axis, equal_var=False).statistic)

    expected = stats.permutation_test((left, right), welch, n_resamples=20_000, rng=4, alternative="greater").pvalue
    found = permute_runs((left, np.ones(30)), (right, np.ones(24)), draw(), flips=20_000)
    assert found == pytest.approx(expected, abs=6 * np.sqrt(expected / 20_000))


def test_very_many_clusters_are_moved_together_and_cost_no_more():
    generator = np.random.default_rng(5)
    values = generator.choice([-1.0, 0.0, 1.0], size=400_000, p=[0.302, 0.4, 0.298])
    ones = np.ones(len(values))
    expected = stats.ttest_1samp(values, 0).pvalue
    assert flip_signs(values, ones, draw()) == pytest.approx(expected, abs=0.01)
    sides = (values[:300_000], ones[:300_000]), (values[300_000:] + 0.005, ones[300_000:])
    expected = stats.ttest_ind(sides[0][0], sides[1][0], equal_var=False).pvalue
    assert permute_runs(*sides, draw()) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_drawn_is_drawn_by_its_seed(seed):
    sums = np.random.default_rng(9).normal(size=300)
    first, again = (flip_signs(sums, np.ones(300), np.random.default_rng(seed)) for _ in range(2))
    assert first == again > 0


def test_the_smallest_p_is_that_of_all_on_one_side():
    assert find_least_p(FLIPS, 5) == flip_signs(np.ones(5), np.ones(5), draw()) == 2 / 32
    assert find_least_p(FLIPS, 4, 4) == 2 / 70
    assert find_least_p(FLIPS, 10**6) == find_least_p(FLIPS, 10**6, 10**6) == 1 / 10_001
    assert resampling.count_flips(0.05) == FLIPS
    assert resampling.count_flips(0.0005) == 40_000
    assert resampling.count_flips(1e-9) == resampling.MOST_FLIPS


def test_equal_means_with_skewed_changes_are_seldom_called_different():
    """−1 with 0.3 and +3 with 0.1: a signed-rank test finds a difference in a fifth of such samples."""
    generator = np.random.default_rng(6)
    moved = generator.choice([-1.0, 0.0, 3.0], size=(300, 100), p=[0.3, 0.6, 0.1])
    found = [flip_signs(row, np.ones(100), generator, flips=400) < 0.05 for row in moved]
    ranks = [stats.wilcoxon(row[row != 0]).pvalue < 0.05 for row in moved]
    assert np.mean(found) < 0.09 < np.mean(ranks)

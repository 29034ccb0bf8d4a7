"""All pairs at once, against SciPy one pair after the other."""

from itertools import combinations, product
from math import comb, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from saiten_server.core.errors import InvalidRequest
from saiten_server.stats.statistics import compare_systems, count_wins, cumulate_u, join_ties

LIKERT = st.sampled_from([1.0, 2.0, 3.0, nan])
THIRDS = st.integers(0, 12).map(lambda third: third / 3)
ANY = st.floats(-1e6, 1e6, allow_nan=False) | st.just(nan)
SAMPLES = st.sampled_from([LIKERT, THIRDS, ANY]).flatmap(
    lambda values: st.lists(st.lists(values, max_size=14), min_size=1, max_size=5)
)


def lay_out(samples):
    """The samples as a column of values and one of systems, in mixed order."""
    values = np.array([value for sample in samples for value in sample], dtype=np.float64)
    system = np.array([number for number, sample in enumerate(samples) for _ in sample], dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(values))
    return values[order], system[order]


def compare(samples):
    values, system = lay_out(samples)
    return compare_systems(values, system, len(samples))


def assert_scipys(samples):
    found = compare(samples)
    held = [np.array([value for value in sample if not np.isnan(value)]) for sample in samples]
    assert found.n.tolist() == [len(sample) for sample in held]
    for a, b in combinations(range(len(samples)), 2):
        if len(held[a]) == 0 or len(held[b]) == 0:
            assert np.isnan([found.p[a, b], found.p[b, a]]).all()
            continue
        expected = mannwhitneyu(held[a], held[b])
        assert found.p[a, b] == found.p[b, a] == pytest.approx(float(expected.pvalue), abs=1e-12, rel=1e-9)
        assert found.u[a, b] == float(expected.statistic)
        assert found.u[b, a] == len(held[a]) * len(held[b]) - float(expected.statistic)


@given(SAMPLES)
@settings(deadline=None, max_examples=300)
def test_every_pair_is_scipys(samples):
    assert_scipys(samples)


@pytest.mark.parametrize("step", [1, 1 / 3, 1e-3, 0])
def test_large_samples_are_scipys(step):
    random = np.random.default_rng(1)
    samples = [random.normal(shift, 1, size) for shift, size in [(0, 400), (0.1, 300), (0.4, 9), (-2, 8), (0, 1)]]
    assert_scipys([np.round(sample / step) * step if step else sample for sample in samples])


@pytest.mark.parametrize("small", range(1, 9))
@pytest.mark.parametrize("large", [8, 9, 40, 150])
def test_small_samples_without_ties_are_exact(small, large):
    random = np.random.default_rng(small * 1000 + large)
    for shift in (0, 20, 200):
        values = random.permutation(small + large).astype(np.float64)
        values[:small] += shift + 0.5
        assert_scipys([values[:small], values[small:]])


@pytest.mark.parametrize(("small", "large"), [(1, 1), (2, 3), (4, 7), (8, 12)])
def test_the_exact_distribution_is_a_count_of_arrangements(small, large):
    """Of the C(small + large, small) ranks that the smaller sample may have, those whose U is at most u."""
    reached = np.zeros(small * large + 1)
    for ranks in combinations(range(small + large), small):
        reached[sum(ranks) - small * (small - 1) // 2] += 1
    expected = np.cumsum(reached) / comb(small + large, small)
    assert cumulate_u(small, large) == pytest.approx(expected[: small * large // 2 + 1], abs=1e-15)


def test_the_exact_distribution_of_many_items_is_accurate():
    """8 and 5,000 items have 4.8e24 arrangements, beyond the integers that a float holds; U is symmetric about 20,000,
    so that half of what is not exactly 20,000 lies below it."""
    found = cumulate_u(8, 5000)
    assert len(found) == 20_001
    assert 2 * found[-1] - (found[-1] - found[-2]) == pytest.approx(1, abs=1e-12)
    assert found[0] == pytest.approx(1 / comb(5008, 8), rel=1e-12)
    assert (np.diff(found) >= 0).all()


def test_blocks_change_nothing():
    random = np.random.default_rng(2)
    values, system = random.integers(0, 40, 500) / 3, random.integers(0, 4, 500)
    whole = count_wins(values, system, 4)
    for cells in (1, 4, 12, 40, 159):
        for expected, found in zip(whole, count_wins(values, system, 4, cells=cells), strict=True):
            assert (expected == found).all()


def test_direction_is_by_u():
    """9 against 9, all above: U = 81 of 81, mean 40.5, variance 81/12 · 19, z = 40/√128.25 = 3.53, p = 0.0004."""
    low, high = [float(value) for value in range(9)], [value + 20.0 for value in range(9)]
    tests = compare([low, high])
    assert tests.p[0, 1] == pytest.approx(0.000412, abs=1e-6)
    assert tests.better(0.01).tolist() == [[False, False], [True, False]]
    (pair,) = tests.list_pairs(0.01, ("low", "high"))
    assert (pair.better, pair.worse, pair.p) == ("high", "low", tests.p[0, 1])
    assert not tests.better(0.0004).any()


def test_pairs_are_ordered_and_each_stands_once():
    found = compare([[1.0] * 20, [3.0] * 20, [2.0] * 20]).list_pairs(0.01, "abc")
    assert [(pair.better, pair.worse) for pair in found] == [("b", "a"), ("b", "c"), ("c", "a")]


def test_p_is_compared_strictly():
    tests = compare([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert tests.p[0, 1] == pytest.approx(0.1)
    assert not tests.better(float(tests.p[0, 1])).any()
    assert tests.better(float(np.nextafter(tests.p[0, 1], 1))).sum() == 1


def test_equal_values_have_p_one():
    tests = compare([[2.0] * 30, [2.0] * 30])
    assert tests.p[0, 1] == 1
    assert not tests.better(0.99).any()


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 5, nan])
def test_alpha_is_a_probability(alpha):
    with pytest.raises(InvalidRequest, match="alpha"):
        compare([[1.0], [2.0]]).better(alpha)


@pytest.mark.parametrize("samples", [[], [[]], [[1.0, 2.0]], [[], [1.0], [nan]]])
def test_without_two_systems_nothing_is_tested(samples):
    tests = compare(samples)
    assert tests.tested == 0
    assert tests.smallest_p() is None
    assert not tests.better(0.5).any()


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (2, 2), (2, 3), (1, 2, 2)])
def test_the_smallest_p_is_that_of_all_possible_ratings(sizes):
    n = sum(sizes)
    system = np.repeat(np.arange(len(sizes)), sizes)
    every = [compare_systems(np.array(values), system, len(sizes)) for values in product(range(min(n, 5)), repeat=n)]
    smallest = min(np.nanmin(tests.p) for tests in every)
    assert every[0].smallest_p() == pytest.approx(smallest, abs=1e-15)


class TestTies:
    def test_what_rounding_parted_ties_again(self):
        assert 0.1 + 0.2 != 0.3
        values = np.array([0.3, 0.1 + 0.2, 0.3 + 1e-6, nan])
        joined = join_ties(values, np.abs(values))
        assert joined[0] == joined[1] == 0.3
        assert joined[2] == 0.3 + 1e-6
        assert np.isnan(joined[3])

    def test_what_counts_is_the_size_of_what_was_added(self):
        """-0.3 + 0.1 + 0.2 is 3e-17 and must tie with 0, although no part of it is 0; 1e15 beside them joins nothing."""
        values = np.array([-0.3 + 0.1 + 0.2, 0.0, 1e-9, 1e15])
        assert values[0] != 0
        assert join_ties(values, np.array([0.6, 0.0, 0.0, 1e15])).tolist() == [0, 0, 1e-9, 1e15]

    @given(st.lists(st.integers(-50, 50), max_size=30))
    def test_distant_values_stay(self, values):
        column = np.array(values, dtype=np.float64) / 7
        assert (join_ties(column, np.abs(column)) == column).all()

    @pytest.mark.parametrize("values", [[], [nan, nan], [1.0]])
    def test_little_stays_as_it_is(self, values):
        column = np.array(values, dtype=np.float64)
        assert np.array_equal(join_ties(column, np.abs(column)), column, equal_nan=True)

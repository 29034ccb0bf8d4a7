"""No p is 0, however clear a difference is: a test excludes nothing, and a logarithm of p has a value."""

import numpy as np

from saiten_server.stats.corrected import CorrectionOptions, differ, estimate_plain, find_sequential_p
from saiten_server.stats.rank_sets import rank_systems
from saiten_server.stats.shown_pairs import FIRST
from saiten_server.stats.statistics import LEAST_P, compare_systems, find_t_p
from tests.support.preferences import make_pairs

N = 3_000


def test_a_difference_of_means_beyond_all_doubt_has_a_p():
    values = np.random.default_rng(1).normal(0, 0.3, (2, N))
    before, after = (estimate_plain(own, np.arange(N), plain=False) for own in (values[0] + 4, values[1] + 2))
    for quantile in ("t", "normal"):
        p = differ(before, after, CorrectionOptions(quantile=quantile)).p
        assert p is not None
        assert 0 < p <= find_sequential_p(p, N) < 1e-200
    assert find_t_p(-50, 1e6) == find_t_p(50, 1e6) == LEAST_P
    assert find_t_p(0, 5) == 1


def test_systems_that_differ_beyond_all_doubt_have_a_p():
    values = np.random.default_rng(2).normal(np.repeat([0, 9], N), 1)
    found = compare_systems(values, np.repeat([0, 1], N), 2)
    assert 0 < found.p[0, 1] < 1e-200
    assert found.better(0.01).tolist() == [[False, False], [True, False]]
    pairs = make_pairs(2, np.zeros(N, int), np.ones(N, int), np.full(N, FIRST), np.arange(N))
    assert 0 < rank_systems(pairs).p[0, 1] < 1e-200

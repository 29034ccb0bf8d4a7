"""What drop would be found, and what few skewed clusters cannot show."""

import numpy as np
import pytest
from scipy import special, stats

from saiten_server.comparison.differences import Sides, estimate_difference
from saiten_server.stats import resampling
from saiten_server.stats.power import find_detectable
from saiten_server.stats.resampling import find_beyond, find_least_mean, find_skewed_p, find_unseen_p
from saiten_server.stats.statistics import reach

POWER = 0.8


def detect(sums: np.ndarray, counts: np.ndarray | None = None, level: float = 0.05) -> float:
    sizes = np.ones(len(sums)) if counts is None else counts
    found = resampling.describe_clusters(sums, sizes)
    return find_detectable(sums, sizes, level=level, freedom=found.freedom, error=found.error)


@pytest.mark.parametrize(("n", "fell"), [(20, 8), (40, 6), (40, 10), (1000, 100)])
@pytest.mark.parametrize(("level", "fewest"), [(0.05, 6), (0.05 / 6, 8)])
def test_collapses_are_found_where_enough_fall(n, fell, level, fewest):
    """How many have fallen in the sample says nothing of how many must: the test finds a drop from `fewest` on."""
    sums = np.where(np.arange(n) < fell, -40.0, 0.0)
    share = next(one for one in np.linspace(0, 1, 10_001) if stats.binom.sf(fewest - 1, n, one) >= POWER)
    assert detect(sums, np.full(n, 10.0), level) == pytest.approx(4 * share, rel=0.05)


def test_a_drop_is_like_a_rise_where_nothing_fell():
    rises = np.where(np.arange(40) < 8, 4.0, 0.0)
    assert detect(rises) == pytest.approx(detect(-rises))


@pytest.mark.parametrize("n", [60, 200, 3000])
def test_normal_changes_are_found_by_their_spread(n):
    sums = stats.norm.ppf((np.arange(n) + 0.5) / n)
    error = sums.std(ddof=1) / np.sqrt(n)
    assert detect(sums) == pytest.approx(reach(0.05, n - 1) * error, rel=0.07)
    assert detect(sums, np.full(n, 5.0)) == pytest.approx(reach(0.05, n - 1) * error / 5, rel=0.07)


def test_rises_stay_where_most_have_not_changed():
    """At the end of a scale other clusters fall, and those that rise go on to: a drop must outweigh them."""
    sums = np.repeat([0.0, 1.0, -1.0], [180, 10, 10])
    # If the 10 rises stay, three standard errors take some 13 falls more: (f − 10) = 2.8 √(f + 10).
    falls = next(f for f in range(10, 60) if f - 10 >= reach(0.05, 199) * np.sqrt(f + 10 - (f - 10) ** 2 / 200))
    assert detect(sums) == pytest.approx((falls - 10) / 200, rel=0.07)


def test_the_correction_for_skewness_is_the_one_of_hall():
    values = np.array([-0.2] * 39 + [1.8])
    found = resampling.describe_clusters(values, np.ones(40))
    skewness, t = stats.skew(values) / np.sqrt(40), found.mean / found.error
    # The parts of the error are those of n − 1: √(39/40) cubed makes up for it in the third moment.
    corrected = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    assert find_skewed_p(found.mean, found.parts, 39) == pytest.approx(2 * stats.t.cdf(corrected, 39), rel=0.02)
    # Skewed towards what was found, or hardly: no correction.
    assert find_skewed_p(-found.mean, found.parts, 39) == 0
    even = resampling.describe_clusters(np.arange(40.0), np.ones(40))
    assert find_skewed_p(even.mean, even.parts, 39) == 0


@pytest.mark.parametrize("level", [0.2, 0.05, 0.01, 1e-3, 1e-4, 1e-7])
def test_what_one_rare_dialogue_can_do_counts_as_skewness_at_every_level(level):
    """Of n dialogues one rises by far, where so many were expected that no more than one comes with half the level."""
    expected = float(special.gammainccinv(2, level / 2))
    beyond = find_beyond(level)
    assert beyond == pytest.approx(max(5.0, expected - 1))
    values = np.array([-expected] * 9_999 + [1e4 - expected])
    found = resampling.describe_clusters(values, np.ones(10_000))
    assert found.mean / found.error == pytest.approx(1 - expected, abs=0.05)
    assert find_skewed_p(found.mean, found.parts, 9_999, beyond=beyond * 1.01) > level


def test_what_may_be_missing_is_as_likely_as_the_scale_lets_it_be():
    assert find_unseen_p(-0.2, 0.0, 1.8, 10) == pytest.approx(0.9**10)
    assert find_unseen_p(0.2, 0.05, 1.8, 10) == pytest.approx(0.9**10)
    assert find_unseen_p(-0.2, 0.2, 1.8, 10) == 0  # one more moves the mean by less than its error
    assert find_unseen_p(0.0, 0.0, 1.8, 10) == 0
    least = find_least_mean(0.05, 0.0, 1.8, 10)
    assert find_unseen_p(-least, 0.0, 1.8, 10) == pytest.approx(0.05)
    assert find_least_mean(0.05, 0.2, 1.8, 10) == 0


@pytest.mark.parametrize("paired", [True, False])
def test_values_that_count_little_do_not_narrow_the_interval_of_those_that_count_for_much(paired):
    """Of 220 pairs 20 count for a hundred each, and one in twenty ratings is a 1. The others' rises and falls left
    intervals that held the true difference, 0, in half of the samples."""
    generator, held, given = np.random.default_rng(6), 0, 0
    weights = np.repeat([1.0, 100.0], [200, 20])
    weights /= weights.mean()
    ours, theirs = np.arange(220), np.arange(220) + (0 if paired else 220)
    for _ in range(200):
        before, after = np.where(generator.random((2, 220)) < 0.05, 1.0, 5.0)
        sides = Sides(before, after, paired, (ours, theirs), (before, after), (1.0, 5.0), weights=(weights, weights))
        interval = estimate_difference(sides, 0.05).interval
        given += interval is not None
        held += interval is not None and interval[0] <= 0 <= interval[1]
    assert given >= 190
    assert held >= 0.93 * given - 2 * np.sqrt(given * 0.93 * 0.07)

"""A least mean: shown to be missed, shown to be reached, or neither."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.comparison.gate import Minimum, judge_minimum

SCALE = (1.0, 5.0)


def ask(values: Any, least: float, *, alpha: float = 0.05, shortfall: float = 1.0) -> Minimum:
    return Minimum(np.asarray(values, dtype=np.float64), least, SCALE, alpha, shortfall)


def test_the_interval_is_that_of_t_with_a_value_at_the_end_of_the_scale():
    values = [2.0, 3.0] * 15
    mean, error = np.mean([*values, 5.0]), stats.sem([*values, 5.0])
    assert ask(values, 3).bound(5.0) == pytest.approx(mean + stats.t.ppf(0.975, 30) * error)
    mean, error = np.mean([*values, 1.0]), stats.sem([*values, 1.0])
    assert ask(values, 3).bound(1.0) == pytest.approx(mean - stats.t.ppf(0.975, 30) * error)
    # z²/4 values: 1.96² / 4 = 0.96, and 2.64² / 4 = 1.74 for a sixth of 0.05
    assert [ask(values, 3, alpha=alpha).added for alpha in (0.4, 0.05, 0.05 / 6)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("values", "least", "verdict", "told"),
    [
        ([3, 3], 4, "inconclusive", "reaches 5.000"),
        ([5], 4, "inconclusive", "the mean is 5.000 (1 item), at least 4 is asked for, but a shortfall of 1 need not"),
        ([3] * 10, 3.1, "inconclusive", "would show so small a shortfall"),
        ([3] * 40, 3.5, "fail", "95% interval, with 1 value added at the scale's upper end, reaches 3."),
        ([4] * 40, 3.9, "pass", Message("shortfall-seen", size=1)),
        ([4, 5] * 40, 4, "pass", "ends at 4."),
        ([3, 3, 4] * 20, 10 / 3, "pass", "would have been seen"),
        ([1, 2] * 5, 1, "pass", "ends at 1.104"),
    ],
)
def test_little_data_shows_nothing(values, least, verdict, told):
    found = judge_minimum(ask(values, least))
    assert found.verdict == verdict
    assert str(told) in str(found.detail)


def test_the_end_of_the_interval_has_the_digits_that_tell_it_from_the_minimum():
    values = [2.0, 3.0] * 15
    end = ask(values, 3).bound(5.0)
    for least, verdict in ((end + 1e-5, "fail"), (end - 1e-5, "inconclusive")):
        found = judge_minimum(ask(values, least))
        told = float(str(found.detail).partition("reaches ")[2].split(":")[0])
        assert (found.verdict, told < least) == (verdict, verdict == "fail"), str(found.detail)


def test_it_says_how_many_values_would_do():
    # Eight 4s and a 1: s = 1. Then n D ≥ (t + 0.842) s √(n + 1) + (5 − 4), with t(0.975; 8) = 2.306 and D = 1:
    # √(n + 1) = (3.148 + √(3.148² + 4 · 2)) / 2 = 3.690, n = 12.6.
    few = ask([4] * 8, 4)
    assert few.find_needed(1.0) == 13
    assert "about 13 items would do" in str(judge_minimum(few).detail)
    assert judge_minimum(ask([4] * 13, 4)).verdict == "pass"


def test_it_counts_for_no_smaller_shortfall_than_can_be_told():
    few = ask([4] * 8, 4)
    assert few.find_needed(5e-324) == few.find_needed(1e-9) > 1e17


def test_from_very_few_values_it_does_not_say_how_many_would_do():
    detail = judge_minimum(ask([1, 3, 2], 2.5)).detail
    assert "more items (from 3 it cannot be told how many) would show so small a shortfall" in str(detail)


@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05, 0.05 / 6, 0.05 / 64])
@pytest.mark.parametrize("n", [1, 2, 5, 20, 100, 400])
def test_a_bot_exactly_at_its_minimum_fails_at_most_alpha_of_the_time(alpha, n):
    """Exactly, for the worst of all shares of fives among ones: one at which one five fewer would still fail."""
    reached = np.array([ask([1.0] * (n - fives) + [5.0] * fives, 3, alpha=alpha).bound(5.0) for fives in range(n + 1)])
    shares = np.clip((reached - 1) / 4 + 1e-9, 0, 1)
    failing = np.array([np.sum(reached < 1 + 4 * share) - 1 for share in shares])
    assert np.all(stats.binom.cdf(failing, n, shares)[shares < 1] <= alpha)


@pytest.mark.parametrize("shares", [[0.0, 0.0, 0.9, 0.1, 0.0], [0.8, 0.1, 0.05, 0.03, 0.02], [0.2] * 5])
def test_so_does_one_with_other_ratings(shares):
    generator = np.random.default_rng(5)
    levels = np.arange(1.0, 6.0)
    least = float(levels @ shares)
    for n in (10, 40):
        drawn = generator.choice(levels, size=(400, n), p=shares)
        failed = sum(judge_minimum(ask(values, least)).verdict == "fail" for values in drawn)
        assert failed / 400 <= 0.05


def test_a_bot_that_falls_short_by_what_must_be_seen_seldom_passes():
    generator = np.random.default_rng(6)
    drawn = generator.choice(np.arange(1.0, 6.0), size=(400, 60), p=[0.1, 0.2, 0.4, 0.2, 0.1])
    verdicts = [judge_minimum(ask(values, 3.5, shortfall=0.5)).verdict for values in drawn]
    assert verdicts.count("fail") >= 0.8 * 400
    assert verdicts.count("pass") <= 0.001 * 400


def test_what_is_added_counts_as_much_as_what_makes_the_mean():
    """Of 540 values 40 count for a hundred each. One that counts for the mean of all left the lower end above the mean
    where none or one of the 40 is low, which are of one in ten."""
    weights = np.repeat([1.0, 100.0], [500, 40])
    weights /= weights.mean()
    values = np.array([1.0, 5.0] * 250 + [1.0] + [5.0] * 39)
    true = (500 * 3 + 4_000 * 4.6) / 4_500
    asked = Minimum(values, true, SCALE, 0.05, 1.0, weights=weights)
    assert asked.bound(1.0) < true < asked.mean
    assert asked.added == 1
    # All alike it is as without weights.
    even = Minimum(values, true, SCALE, 0.05, 1.0, weights=np.ones(540))
    assert even.bound(1.0) == pytest.approx(ask(values, true).bound(1.0))


def test_what_is_left_of_alpha_after_many_nights_still_has_a_quantile():
    found = ask([2.0, 3.0] * 15, 2, alpha=1e-18)
    assert found.added == 20
    assert np.isfinite(found.widen(1.0).error)
    assert judge_minimum(found).verdict == "inconclusive"

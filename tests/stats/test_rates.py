"""Intervals of how often turns have a finding."""

import numpy as np
import pytest

from saiten_server.stats.resampling import estimate_mean, estimate_rate

PERCENT = (0.0, 100.0)


def estimate(faulty: list[int]) -> tuple[float, float] | None:
    return estimate_rate(100.0 * np.array(faulty), np.full(len(faulty), 10.0), bounds=PERCENT).interval


def test_conversations_without_a_finding_allow_a_share_of_others():
    assert estimate([0] * 50) == pytest.approx((0, 100 * (1 - 0.05 ** (1 / 50))))
    assert estimate([10] * 50) == pytest.approx((100 * 0.05 ** (1 / 50), 100))
    assert estimate([0]) is None


def test_few_conversations_with_a_finding_allow_one_that_is_unlike_them():
    """Of 50 conversations one has one finding. What 4% with half their turns make, 2 per 100, was outside."""
    few = [1] + [0] * 49
    plain = estimate_mean(100.0 * np.array(few), np.full(50, 10.0), bounds=PERCENT).interval
    found = estimate(few)
    assert plain is not None
    assert found is not None
    assert plain[1] < 2 < found[1]
    assert found[0] == pytest.approx(plain[0])
    many = [1] * 25 + [0] * 25
    assert estimate(many) == estimate_mean(100.0 * np.array(many), np.full(50, 10.0), bounds=PERCENT).interval


def test_findings_that_few_conversations_have_are_within_the_interval():
    generator, held = np.random.default_rng(1), 0
    for _ in range(400):
        turns = generator.integers(4, 17, 50)
        faulty = generator.binomial(turns, 0.5 * (generator.random(50) < 0.04))
        interval = estimate_rate(
            np.asarray(100 * faulty, np.float64), turns.astype(np.float64), bounds=PERCENT
        ).interval
        held += interval is not None and interval[0] <= 2 <= interval[1]
    assert held >= 0.93 * 400 - 2 * np.sqrt(400 * 0.93 * 0.07)


def test_conversations_that_count_little_say_nothing_of_those_that_count_for_much():
    """Of 500 all were scored, and 40 stand for a hundred each: the rate is that of the latter. Where none of them has a
    finding, those of the others' 10 left an interval that held the rate of 2% in half of the samples."""
    generator, held, runs = np.random.default_rng(3), 0, 300
    weights = np.repeat([1.0, 100.0], [500, 40])
    for _ in range(runs):
        found = generator.random(540) < 0.02
        interval = estimate_rate(100.0 * weights * found, weights, bounds=PERCENT, weighted=True).interval
        held += interval is not None and interval[0] <= 2 <= interval[1]
    assert held >= 0.93 * runs - 2 * np.sqrt(runs * 0.93 * 0.07)
    # Of equal ones it is as without weights.
    few = 10.0 * np.eye(1, 50)[0]
    assert estimate_rate(few, np.full(50, 10.0), bounds=PERCENT, weighted=True) == estimate_rate(
        few, np.full(50, 10.0), bounds=PERCENT
    )


def test_a_mean_whose_weighty_values_are_all_alike_has_no_interval():
    """Ten of 500 values that count little are off, and none of 40 that count for a hundred each: the interval was
    0.1 points wide, and held the mean of one value in fifty that is off in half of the samples."""
    weights = np.repeat([1.0, 100.0], [500, 40])
    values = np.array([1.0] * 10 + [5.0] * 530)
    found = estimate_mean(weights * values, weights, bounds=(1, 5), weighted=True)
    assert found.interval is None
    assert str(found.reason).startswith("those that count for much are all alike")
    values[-1] = 1.0
    assert estimate_mean(weights * values, weights, bounds=(1, 5), weighted=True).interval is not None
    # Where all count the same it takes no value more than without weights.
    assert estimate_mean(values[9:], np.ones(531), bounds=(1, 5), weighted=True) == estimate_mean(
        values[9:], np.ones(531), bounds=(1, 5)
    )

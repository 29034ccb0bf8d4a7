"""Faults over turns: the survival curve against scipy's, its interval in simulation, rates and change by hand."""

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from saiten_server.stats.turns import ConversationTurns, estimate_survival, read_turns, weigh_survival


@pytest.mark.filterwarnings("ignore:The confidence interval is undefined:RuntimeWarning")
def test_the_survival_curve_is_that_of_scipy() -> None:
    draw = np.random.default_rng(7)
    for _ in range(20):
        size = int(draw.integers(2, 60))
        fault, end = draw.geometric(0.15, size), draw.integers(1, 25, size)
        ends, failed = np.minimum(fault, end), fault <= end
        steps = {step.turn: step for step in estimate_survival(ends, failed)}
        expected = ecdf(CensoredData(ends[failed], right=ends[~failed])).sf
        interval = expected.confidence_interval(0.95, method="log-log")
        rows = zip(expected.quantiles, expected.probabilities, strict=True)
        for place, (turn, share) in enumerate(rows):
            step = steps[int(turn)]
            assert step.share == pytest.approx(share, abs=1e-12)
            if step.interval is None:
                assert share in (0.0, 1.0) or share == pytest.approx(0.0, abs=1e-12)
            else:
                ends_of = (interval.low.probabilities[place], interval.high.probabilities[place])
                assert step.interval == pytest.approx(ends_of, abs=1e-9)


def test_the_interval_holds_the_truth_in_simulation() -> None:
    draw = np.random.default_rng(19)
    held = total = 0
    for _ in range(800):
        fault, end = draw.geometric(0.08, 60), draw.integers(6, 16, 60)
        ends, failed = np.minimum(fault, end), fault <= end
        step = estimate_survival(ends, failed)[5]
        assert step.interval is not None
        total += 1
        held += step.interval[0] <= 0.92**6 <= step.interval[1]
    assert 0.93 <= held / total <= 0.98


def test_half_of_the_conversations_are_a_half_and_not_a_binary_fraction_more() -> None:
    # 8/10 · 7/8 · 5/7 is 1/2, and as binary fractions 0.5000000000000001.
    faults, ends = [1, 1, 2, 3, 3], [3, 4, 5, 5, 5]
    talks = [ConversationTurns(at, [at - 1]) for at in faults] + [ConversationTurns(at, []) for at in ends]
    found = read_turns(talks)
    assert (found.survival[2].share, found.median) == (0.5, 3)


def test_rates_first_faults_and_change() -> None:
    found = read_turns(
        [
            ConversationTurns(4, [2, 3]),
            ConversationTurns(4, []),
            ConversationTurns(2, [1]),
            ConversationTurns(3, [0]),
            ConversationTurns(1, []),
        ]
    )
    assert (found.conversations, found.faultless, found.median) == (5, 2, 3)
    assert [(one.turns, one.faulty, one.rate) for one in found.rates] == [
        (5, 1, 20.0),
        (4, 1, 25.0),
        (3, 1, pytest.approx(100 / 3)),
        (2, 1, 50.0),
    ]
    # By hand: +100, 0, +100 and −100 in conversations of at least two turns.
    assert found.change.mean == 25.0
    assert found.change.interval is not None
    assert found.change.interval[0] < 0 < found.change.interval[1]
    assert [(step.at_risk, step.faults) for step in found.survival] == [(5, 1), (3, 1), (2, 1), (1, 0)]
    assert [step.share for step in found.survival] == pytest.approx([0.8, 0.8 * 2 / 3, 0.8 / 3, 0.8 / 3])
    long = read_turns([ConversationTurns(400, range(0, 400, 10)), ConversationTurns(60, [])])
    assert [(one.first, one.last, one.turns) for one in long.rates][:4] == [
        (1, 20, 40),
        (21, 40, 40),
        (41, 60, 40),
        (61, 80, 20),
    ]
    assert sum(one.faulty for one in long.rates) == 40
    # Without conversations, and without faults, nothing is claimed.
    assert read_turns([]).survival == ()
    clean = read_turns([ConversationTurns(3, [])] * 4)
    assert {step.interval for step in clean.survival} == {None}
    assert (clean.median, clean.change.interval) == (None, None)


def test_equal_weights_are_none() -> None:
    draw = np.random.default_rng(5)
    talks = [ConversationTurns(int(draw.integers(2, 9)), [1] if draw.random() < 0.4 else []) for _ in range(50)]
    assert read_turns([talk._replace(probability=0.3) for talk in talks]) == read_turns(talks)


def test_weighted_turns_are_those_of_so_many_conversations() -> None:
    """A conversation of weight 3 counts as three in every figure; how many there are stays."""
    draw = np.random.default_rng(6)
    talks = [ConversationTurns(int(draw.integers(2, 9)), [1] if draw.random() < 0.4 else []) for _ in range(60)]
    weights = draw.integers(1, 5, 60)
    found = read_turns([talk._replace(probability=1 / int(w)) for talk, w in zip(talks, weights, strict=True)])
    whole = read_turns([talk for talk, w in zip(talks, weights, strict=True) for _ in range(w)])
    assert [one.rate for one in found.rates] == pytest.approx([one.rate for one in whole.rates])
    assert [one.share for one in found.survival] == pytest.approx([one.share for one in whole.survival])
    assert found.change.mean == pytest.approx(whole.change.mean)
    assert found.conversations == 60
    assert found.survival[0].at_risk == 60


def test_the_weighted_interval_is_greenwoods_where_weights_are_equal_and_covers_where_they_are_not() -> None:
    draw = np.random.default_rng(8)
    fault, end = draw.geometric(0.1, 400), draw.integers(1, 20, 400)
    ends, failed = np.minimum(fault, end), fault <= end
    plain, weighed = estimate_survival(ends, failed)[5], weigh_survival(ends, failed, np.ones(400))[5]
    assert weighed.share == pytest.approx(plain.share)
    assert weighed.interval == pytest.approx(plain.interval, abs=1e-3)
    rates, weights = np.repeat([0.2, 0.05], 40), np.repeat([1.0, 10.0], 40)
    truth = (0.8**6 + 10 * 0.95**6) / 11
    held = 0
    for _ in range(400):
        fault, end = draw.geometric(rates), draw.integers(6, 16, 80)
        step = weigh_survival(np.minimum(fault, end), fault <= end, weights)[5]
        assert step.interval is not None
        held += step.interval[0] <= truth <= step.interval[1]
    assert held / 400 >= 0.92

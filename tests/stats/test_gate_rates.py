"""How often the gate is wrong, by simulated CI runs: what `python -m benchmarks.gate` shows at full size."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import verdicts
from benchmarks.gate import ALL_DROP, AT_THEIR_MEAN, OVERALL, SHARES, Scenario, cut, draw, lower, simulate
from benchmarks.verdicts import World
from saiten_server.stats import resampling

RUNS = 24
FLIPS = 1_000
"""Of each test, for speed; verdicts hardly depend on it."""
CERTAINTY = 0.999


@pytest.fixture(autouse=True)
def draw_few_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "FLIPS", FLIPS)


def most(rate: float) -> float:
    """The share of RUNS that a gate with this rate exceeds once in a thousand times."""
    return float(stats.binom.ppf(CERTAINTY, RUNS, rate)) / RUNS


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("paired"),
        Scenario("aspects independent", context=0.0, response=0.0),
        Scenario("one rule", rules=OVERALL),
        Scenario("few items", items=20),
        Scenario("unpaired", test="unpaired", items=40, rules=OVERALL),
        Scenario("responses share a context", items=25, responses=8, context=0.4, own=0.3, rules=OVERALL),
        Scenario("so, unpaired", items=25, responses=8, context=0.4, own=0.3, rules=OVERALL, test="unpaired"),
        Scenario("exactly at its minima", rules=AT_THEIR_MEAN, items=40),
    ],
    ids=lambda scenario: scenario.name,
)
def test_without_a_difference_the_gate_seldom_fails(scenario):
    found = simulate(scenario, RUNS, seed=11)
    assert sum(found.verdicts.values()) == RUNS
    assert found.failed <= most(0.05)


def test_turns_of_dialogues_do_not_make_the_gate_fail():
    """20 dialogues × 10 turns, correlated by 0.5: as 200 independent items they failed in 18% of runs."""
    assert verdicts.count_failures(World(verdicts.MIDDLE["1–5"], 20, 10, 0.5, pairs=0.3), RUNS) <= most(0.05)


def test_the_rows_of_the_simulations_say_whether_they_hold():
    rows = list(verdicts.judge_skewed(20))
    assert [row.case.partition(":")[0] for row in rows] == ["equal means, skewed change", "the same"] * 2
    row = verdicts.Row("a", "1–5", "b", 0.2, 100, high=0.06)
    # 0.06 + 2 √(0.06 · 0.94 / 100) = 0.107
    assert (row.holds, verdicts.Row("a", "1–5", "b", 0.1, 100, high=0.06).holds) == (False, True)
    assert verdicts.write_row(row) == "| a | 1–5 | b | 0.200 **no** | ≤ 0.06 |  |"


@pytest.mark.parametrize(
    ("scenario", "power"),
    [
        (Scenario("one rule", drops={"overall": 0.3}, rules=OVERALL), 0.95),
        (Scenario("six rules", drops={"overall": 0.3}), 0.9),
        (Scenario("everything drops", drops=ALL_DROP), 0.95),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_drop_of_three_tenths_of_a_point_is_seen(scenario, power):
    found = simulate(scenario, RUNS, seed=12)
    assert found.sd == pytest.approx(1, abs=0.05)
    assert found.failed >= 1 - most(1 - power)


def test_the_same_seed_gives_the_same_runs():
    first, again = (simulate(Scenario("few", items=30), 5, seed=3) for _ in range(2))
    assert first.verdicts == again.verdicts
    assert first.sd == again.sd


def test_ratings_have_the_shares_and_the_drop_that_were_asked_for():
    generator = np.random.default_rng(0)
    before, after = draw(Scenario("drop", items=40_000, drops={"overall": 0.3}), generator)
    for aspect, shares in SHARES.items():
        for level, share in shares.items():
            assert np.mean(before[aspect] == level) == pytest.approx(share, abs=0.02)
    assert before["overall"].mean() - after["overall"].mean() == pytest.approx(0.3, abs=0.03)
    assert after["overall"].min() == 1
    assert cut(np.array([-9.0, 0.0, 9.0]), {1: 0.4, 2: 0.2, 3: 0.4}).tolist() == [1, 2, 3]
    assert lower(np.array([1, 2, 3]), 0.5, {1: 0.5, 2: 0.3, 3: 0.2}, generator).tolist() == [1, 1, 2]

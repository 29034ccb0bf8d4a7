"""Whether a judge moved: figures by hand and by scipy, what is found, and how often nothing is taken for something."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from app.analysis.drift import (
    LEAST_NOISE,
    compare_anchors,
    exceed,
    exchange_changes,
    exchange_shift,
    measure_drift,
    share_changed,
    usual,
)

ASPECTS = {
    "naturalness": (1, 3),
    "coherence": (0, 1),
    "interestingness": (1, 3),
    "relevance": (1, 3),
    "consistency": (0, 1),
    "overall": (1, 5),
}
ANCHORS = 36
Runs = dict[str, tuple[int | None, ...]]


def number(columns: Any) -> Runs:
    """Runs by anchor, from shape (anchors, runs)."""
    return {
        str(at): tuple(None if rating is None else int(rating) for rating in runs) for at, runs in enumerate(columns)
    }


def test_by_hand() -> None:
    then = number([(3, 3, 3), (3, 3, 2), (1, 1, 1), (2, 2, 2)])
    now = number([(3,), (3,), (2,), (3,)])
    drift = measure_drift(then, now, {"0": 3, "1": 3, "2": 1, "3": 3})
    assert drift.n == 4
    # 0, 3 − 8/3, 1 and 1: (1/3 + 2)/4
    assert drift.shift == pytest.approx((1 / 3 + 2) / 4)
    assert drift.changed == 2
    # One of twelve stored ratings is not its anchor's median.
    assert drift.noise == pytest.approx(1 / 12)
    # Of the three differences that are not zero all are positive: 2·(1/2)³ by Wilcoxon's exact test. By exchange the
    # four ratings of now, 11, have the chance 1·(3/4)·(1/4)·(1/4) = 3/64, and no sum is farther from the expected 9.25:
    # that is less.
    assert drift.p == pytest.approx(0.25)
    # P(X ≥ 2), X binomial(4, 1/12): 1 − (11/12)⁴ − 4·(1/12)·(11/12)³ = 0.0372. By exchange three anchors have one odd
    # rating among four: P(Y ≥ 2), Y binomial(3, 1/4) = 3·(1/16)·(3/4) + 1/64 = 10/64, which is more.
    assert drift.p_changed == pytest.approx(10 / 64)
    assert drift.intended == 3 / 4
    assert (drift.moved, drift.p_adjusted, drift.undefined) == (False, None, {})


def test_a_single_stored_run_leaves_wilcoxon_and_the_binomial_test() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        before, after = rng.integers(1, 6, 25), rng.integers(1, 6, 25)
        drift = measure_drift(number(before[:, None]), number(after[:, None]), {})
        differences = (after - before)[after != before]
        assert drift.p == pytest.approx(stats.wilcoxon(differences, zero_method="wilcox").pvalue)
        expected = stats.binomtest(int((after != before).sum()), 25, LEAST_NOISE, alternative="greater").pvalue
        assert drift.p_changed == pytest.approx(expected)
        assert drift.undefined == {"intended": "the anchors carry no ratings of this aspect"}


def test_the_binomial_tail_is_the_sum_of_its_terms() -> None:
    assert exceed(3, 36, 0.02) == pytest.approx(stats.binom.sf(2, 36, 0.02))
    assert exceed(0, 36, 0.02) == 1


def test_the_exchange_is_over_every_choice_of_the_run_of_now() -> None:
    """Against all choices counted one by one."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        pooled = [[int(one) for one in rng.integers(1, 4, rng.integers(3, 5))] for _ in range(5)]
        before, after = [runs[1:] for runs in pooled], [runs[0] for runs in pooled]
        expected = sum(float(np.mean(runs)) for runs in pooled)
        away = [abs(sum(chosen) - expected) for chosen in product(*pooled)]
        found = exchange_shift(list(zip(before, after, strict=True)))
        assert found == pytest.approx(np.mean(np.array(away) >= abs(sum(after) - expected) - 1e-9))
        odd = [[usual([*runs[:at], *runs[at + 1 :]]) != run for at, run in enumerate(runs)] for runs in pooled]
        counts = np.array([sum(flags) for flags in product(*odd)])
        assert exchange_changes(before, after) == pytest.approx(np.mean(counts >= sum(flags[0] for flags in odd)))


def test_noise_has_a_floor_and_counts_ratings_that_failed() -> None:
    assert share_changed([(3, 3, 3), (1, 1, 2)]) == pytest.approx(1 / 6)
    assert share_changed([(3, 3, None), (1, 1, 1)]) == pytest.approx(1 / 6)
    assert share_changed([(None, None, None), (None, None, 1)]) == pytest.approx(1 / 6)
    assert share_changed([(3,), (1,)]) == share_changed([]) == 0
    still = measure_drift(number([(3, 3)]), number([(3,)]), {})
    assert still.noise == LEAST_NOISE


@pytest.mark.parametrize(
    ("runs", "expected"),
    [((3, 1, 3), 3), ((1, 2), 1), ((1, 2, None), 1), ((1, None), None), ((None, None, 3), None), ((None,), None)],
)
def test_what_is_usual(runs: tuple[int | None, ...], expected: int | None) -> None:
    assert usual(runs) == expected


def test_a_rating_that_is_gone_is_a_change_and_no_shift() -> None:
    drift = measure_drift(number([(3, 3, 3)] * 8), number([(None,)] * 5 + [(3,)] * 3), {"0": 3, "7": 3})
    assert (drift.n, drift.lost, drift.changed, drift.shift, drift.p) == (8, 5, 5, 0.0, 1.0)
    assert drift.p_changed == pytest.approx((1 / 4) ** 5)
    assert drift.intended == 0.5


def test_what_cannot_be_told_says_so() -> None:
    asked_never = measure_drift(number([(3,)]), {}, {})
    assert (asked_never.n, asked_never.shift, asked_never.p_changed, asked_never.moved) == (0, None, None, False)
    assert set(asked_never.undefined) == {"shift", "p", "p_changed", "intended"}
    rated_never = measure_drift(number([(None,)]), number([(None,)]), {})
    assert (rated_never.n, rated_never.shift, rated_never.p) == (1, None, None)
    assert rated_never.undefined["p"] == "no anchor was rated both then and now"


def test_anchors_that_only_one_side_has_are_left_out() -> None:
    drift = measure_drift(number([(3,), (1,)]), {"0": (3,), "9": (1,)}, {})
    assert (drift.n, drift.changed) == (1, 0)


def test_holm_is_over_both_questions_of_all_aspects() -> None:
    then = {"a": number([(1, 1, 1)] * 20), "b": number([(1, 1, 1)] * 20)}
    now = {"a": number([(2,)] * 6 + [(1,)] * 14), "b": number([(1,)] * 20)}
    found = compare_anchors(then, now, {}, alpha=0.01)
    raw = {name: measure_drift(then[name], now[name], {}) for name in then}
    assert raw["a"].p_changed == pytest.approx((1 / 4) ** 6)
    assert raw["a"].p == pytest.approx(2 / 2**6)  # six signs alike, by Wilcoxon
    assert (raw["b"].p, raw["b"].p_changed) == (1, 1)
    # Of four p-values the smallest counts four times, the next three times.
    assert found["a"].p_changed == pytest.approx(4 * (1 / 4) ** 6)
    assert found["a"].p_adjusted == pytest.approx(3 * 2 / 2**6)
    assert [name for name, drift in found.items() if drift.moved] == ["a"]
    assert [name for name, drift in compare_anchors(then, now, {}, alpha=0.0005).items() if drift.moved] == []


class Judge:
    """Rates anchors of its own by a level each, off it by one with probability `noise`; `low` always downwards."""

    def __init__(self, seed: int, noise: float, *, low: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise = noise
        self.low = low
        self.levels = {
            name: self.rng.integers(bottom + low, top + 1, ANCHORS) for name, (bottom, top) in ASPECTS.items()
        }

    def run(self) -> dict[str, Any]:
        return {name: self._rate(name, levels) for name, levels in self.levels.items()}

    def runs(self, count: int) -> dict[str, Runs]:
        found = [self.run() for _ in range(count)]
        return {name: number(np.stack([run[name] for run in found], axis=1)) for name in ASPECTS}

    def shift(self, name: str, share: float) -> None:
        """Moves a share of one aspect's levels by one, upwards where there is room."""
        top = ASPECTS[name][1]
        chosen = self.rng.permutation(ANCHORS)[: round(share * ANCHORS)]
        levels = self.levels[name]
        levels[chosen] += np.where(levels[chosen] < top, 1, -1)

    def _rate(self, name: str, levels: Any) -> Any:
        bottom, top = ASPECTS[name]
        step = np.full(ANCHORS, -1) if self.low else self.rng.choice([-1, 1], ANCHORS)
        moved = np.where((levels + step < bottom) | (levels + step > top), levels - step, levels + step)
        return np.where(self.rng.random(ANCHORS) < self.noise, moved, levels)


@pytest.mark.parametrize("name", ["naturalness", "coherence", "overall"])
def test_a_judge_that_shifts_by_one_on_a_fifth_of_the_anchors_is_found(name: str) -> None:
    judge = Judge(1, 0.0)
    then = judge.runs(3)
    judge.shift(name, 0.2)
    found = compare_anchors(then, judge.runs(1), {}, alpha=0.01)
    assert [aspect for aspect, drift in found.items() if drift.moved] == [name]
    assert found[name].changed == 7


def test_it_is_found_through_noise_as_well() -> None:
    found = 0
    for seed in range(100):
        judge = Judge(seed, 0.02)
        then = judge.runs(3)
        judge.shift("overall", 0.3)
        found += compare_anchors(then, judge.runs(1), {}, alpha=0.01)["overall"].moved
    assert found >= 95


@pytest.mark.parametrize(("noise", "low"), [(0.02, False), (0.1, True), (0.2, True)])
def test_a_judge_that_did_not_move_is_found_in_at_most_alpha_of_all_checks(noise: float, low: bool) -> None:
    """300 checks at 0.05, so that there is something to count: 15 at most are expected."""
    alpha, checks = 0.05, 300
    found = 0
    for seed in range(checks):
        judge = Judge(seed, noise, low=low)
        found += any(drift.moved for drift in compare_anchors(judge.runs(3), judge.runs(1), {}, alpha=alpha).values())
    assert found / checks <= alpha


def test_one_with_little_noise_is_found_in_at_most_alpha_of_300_checks_at_the_default() -> None:
    found = 0
    for seed in range(300):
        judge = Judge(seed, 0.02)
        found += any(drift.moved for drift in compare_anchors(judge.runs(3), judge.runs(1), {}, alpha=0.01).values())
    assert found <= 3

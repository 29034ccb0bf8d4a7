"""Whether a judge moved: figures by hand and by counting, what is found, and how often nothing is taken for something."""

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.comparison.judge_checks import drift as drifts
from saiten_server.comparison.judge_checks.drift import (
    LEAST_NOISE,
    compare_anchors,
    could_find,
    count_worth,
    list_splits,
    share_changed,
    usual,
)
from saiten_server.comparison.judge_checks.values import AspectDrift, PooledDrift

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


def measure(then: Runs, now: Runs, intended: dict[str, int] | None = None, *, alpha: float = 0.05) -> AspectDrift:
    """The drift of the only aspect there is."""
    return compare_anchors({"a": then}, {"a": now}, {"a": intended or {}}, alpha=alpha)[0]["a"]


def has_moved(found: tuple[dict[str, AspectDrift], PooledDrift]) -> bool:
    return found[1].moved or any(drift.moved for drift in found[0].values())


def test_by_hand() -> None:
    then = number([(3, 3, 3), (3, 3, 2), (1, 1, 1), (2, 2, 2)])
    now = number([(3,), (3,), (2,), (3,)])
    drift = measure(then, now, {"0": 3, "1": 3, "2": 1, "3": 3})
    assert drift.n == 4
    # 0, 3 − 8/3, 1 and 1: (1/3 + 2)/4
    assert drift.shift == pytest.approx((1 / 3 + 2) / 4)
    assert drift.changed == 2
    # One of twelve stored ratings is not its anchor's median.
    assert drift.noise == pytest.approx(1 / 12)
    assert drift.intended == 3 / 4
    assert (drift.moved, drift.undefined) == (False, {})


def test_the_p_of_a_shift_is_that_of_every_exchange_counted_one_by_one() -> None:
    rng = np.random.default_rng(7)
    for _ in range(5):
        pooled = rng.integers(1, 4, (4, 4))
        then, now = number(pooled[:, 2:]), number(pooled[:, :2])

        def lean(at: int, chosen: tuple[int, ...], pooled: Any = pooled) -> float:
            rest = [run for run in range(4) if run not in chosen]
            return sum(float(np.sign(pooled[at, q] - pooled[at, r])) for q in chosen for r in rest) / 4

        ways = list(combinations(range(4), 2))
        sums = [abs(sum(lean(at, way) for at, way in enumerate(each))) for each in product(ways, repeat=4)]
        seen = abs(sum(lean(at, (0, 1)) for at in range(4)))
        assert measure(then, now).p == pytest.approx(np.mean(np.array(sums) >= seen - 1e-9), abs=0.02)


def test_runs_are_divided_in_every_way_or_in_many() -> None:
    rng = np.random.default_rng(1)
    every = list_splits(8, 4, rng)
    assert every.shape == (comb(8, 4), 8)
    assert len({tuple(row) for row in every}) == comb(8, 4)
    many = list_splits(104, 4, rng)
    assert many.shape == (500, 104)
    for splits in (every, many):
        assert list(np.flatnonzero(splits[0])) == [0, 1, 2, 3]
        assert set(splits.sum(axis=1)) == {4}


def test_what_is_worth_telling_is_more_than_the_least_noise_explains() -> None:
    for ratings in (8, 32, 36, 216):
        least = count_worth(ratings)
        assert stats.binom.sf(least - 1, ratings, LEAST_NOISE) < 0.05 <= stats.binom.sf(least - 2, ratings, LEAST_NOISE)


def test_a_single_rating_that_changed_for_good_is_no_finding() -> None:
    """The exchange alone would find it: four stored runs agree, and four of now."""
    then, now = number([(2, 2, 2, 2)] * 36), number([(1, 1, 1, 1)] + [(2, 2, 2, 2)] * 35)
    drift = measure(then, now)
    assert drift.p is not None
    assert drift.p < 0.05
    assert not drift.moved
    assert measure(then, number([(1, 1, 1, 1)] * 3 + [(2, 2, 2, 2)] * 33)).moved


def test_several_runs_of_now_that_waver_are_not_taken_for_a_change() -> None:
    then, now = number([(2, 2, 2, 2)] * 36), number([(1, 2, 2, 2)] * 2 + [(2, 2, 2, 2)] * 34)
    assert not has_moved(compare_anchors({"a": then}, {"a": now}, {}, alpha=0.05))


def test_all_aspects_together_are_found_where_no_single_one_is() -> None:
    """Two anchors of each of six aspects are worth less than is told of one, and more than is told of all."""
    aspects = list(ASPECTS)
    then = {name: number([(2, 2, 2, 2)] * 36) for name in aspects}
    now = {
        name: number([(1, 1, 1, 1) if at // 2 == place else (2, 2, 2, 2) for at in range(36)])
        for place, name in enumerate(aspects)
    }
    found, pooled = compare_anchors(then, now, {}, alpha=0.05)
    assert not any(drift.moved for drift in found.values())
    assert pooled.moved


def test_the_smallest_shift_that_is_seen_grows_with_the_noise_and_shrinks_with_the_runs() -> None:
    def sight(noise: float, runs: int) -> float:
        judge = Judge(5, noise)
        found, _ = compare_anchors(judge.runs(4), judge.runs(runs), {}, alpha=0.05)
        return max(drift.detectable or 0 for drift in found.values())

    assert sight(0.02, 4) < sight(0.15, 4) < sight(0.15, 1)
    assert measure(number([(2,)] * 9), number([(2,)] * 9)).detectable is None


def test_the_same_runs_give_the_same_figures() -> None:
    judge = Judge(9, 0.1)
    then, now = judge.runs(3), judge.runs(2)
    assert compare_anchors(then, now, {}, alpha=0.05) == compare_anchors(then, now, {}, alpha=0.05)


def test_noise_has_a_floor_and_counts_ratings_that_failed() -> None:
    assert share_changed([(3, 3, 3), (1, 1, 2)]) == pytest.approx(1 / 6)
    assert share_changed([(3, 3, None), (1, 1, 1)]) == pytest.approx(1 / 6)
    assert share_changed([(None, None, None), (None, None, 1)]) == pytest.approx(1 / 6)
    assert share_changed([(3,), (1,)]) == share_changed([]) == 0
    assert measure(number([(3, 3)]), number([(3,)])).noise == LEAST_NOISE


@pytest.mark.parametrize(
    ("runs", "expected"),
    [((3, 1, 3), 3), ((1, 2), 1), ((1, 2, None), 1), ((1, None), None), ((None, None, 3), None), ((None,), None)],
)
def test_what_is_usual(runs: tuple[int | None, ...], expected: int | None) -> None:
    assert usual(runs) == expected


def test_a_rating_that_is_gone_is_a_change_and_no_shift() -> None:
    drift = measure(number([(3, 3, 3)] * 8), number([(None,)] * 5 + [(3,)] * 3), {"0": 3, "7": 3})
    assert (drift.n, drift.lost, drift.changed, drift.shift, drift.p) == (8, 5, 5, 0.0, 1.0)
    assert drift.p_changed is not None
    assert drift.p_changed < 0.01
    assert drift.moved
    assert drift.intended == 0.5


def test_what_cannot_be_told_says_so() -> None:
    asked_never = measure(number([(3,)]), {})
    assert (asked_never.n, asked_never.shift, asked_never.p_changed, asked_never.moved) == (0, None, None, False)
    assert set(asked_never.undefined) == {"shift", "p", "p_changed", "intended"}
    rated_never = measure(number([(None,)]), number([(None,)]))
    assert (rated_never.n, rated_never.shift, rated_never.p) == (1, None, None)
    assert rated_never.undefined["p"] == Message("no-anchor-rated-twice")


def test_anchors_that_only_one_side_has_are_left_out() -> None:
    drift = measure(number([(3,), (1,)]), {"0": (3,), "9": (1,)})
    assert (drift.n, drift.changed) == (1, 0)


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
    then = judge.runs(4)
    judge.shift(name, 0.2)
    found, _ = compare_anchors(then, judge.runs(4), {}, alpha=0.05)
    assert [aspect for aspect, drift in found.items() if drift.moved] == [name]
    assert found[name].changed == 7


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks.judge_checks` has the whole table, with all exchanges."""
    monkeypatch.setattr(drifts, "DRAWS", 1000)


@pytest.mark.usefixtures("few_draws")
def test_it_is_found_through_noise_as_well() -> None:
    found = 0
    for seed in range(40):
        judge = Judge(seed, 0.08)
        then = judge.runs(4)
        judge.shift("overall", 0.3)
        found += has_moved(compare_anchors(then, judge.runs(4), {}, alpha=0.05))
    assert found >= 36


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("noise", "low"), [(0.02, False), (0.2, True)])
def test_a_judge_that_did_not_move_is_found_in_few_checks(noise: float, low: bool) -> None:
    """60 checks at 0.05: 3 are expected at most, and 8 or more come once in 100 times by chance."""
    found = 0
    for seed in range(60):
        judge = Judge(seed, noise, low=low)
        found += has_moved(compare_anchors(judge.runs(4), judge.runs(2), {}, alpha=0.05))
    assert found < 8


def test_what_would_be_seen_goes_by_alpha_and_nothing_is_where_nothing_can_be() -> None:
    then = {"a": {f"x{at}": (3, 3, 2, 3) for at in range(30)}}
    now = {"a": {f"x{at}": (3, 3) for at in range(30)}}
    seen = [compare_anchors(then, now, {}, alpha=alpha)[0]["a"].detectable for alpha in (0.2, 0.05, 0.005)]
    assert all(one is not None for one in seen)
    assert seen == sorted(seen, key=lambda one: one or 0)
    assert seen[0] != seen[2]
    assert could_find(then, now, 0.001)
    # One draw of ten thousand is the smallest p; one anchor has few ways to be exchanged.
    moved = {"a": {f"x{at}": (1, 1) for at in range(30)}}
    found, _ = compare_anchors(then, moved, {}, alpha=0.0001)
    assert (found["a"].moved, found["a"].detectable) == (False, None)
    assert not could_find(then, moved, 0.0001)
    assert not could_find({"a": {"x1": (3, 3)}}, {"a": {"x1": (1, 1)}}, 0.05)

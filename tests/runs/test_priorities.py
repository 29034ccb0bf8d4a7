"""What to mend first, against a regression with standard errors of statsmodels, and against itself in simulation."""

import numpy as np
import pytest

from saiten.core.messages import Message
from saiten_server.core.conversation import KINDS_KNOWN, FaultyTurns
from saiten_server.runs.summaries import rank_kinds, rank_kinds_by_build, rank_kinds_by_system
from saiten_server.runs.summary import ResultFigures
from saiten_server.stats.resampling import find_quantile
from saiten_server.stats.severity import FEW_WITH, NO_SPREAD, NONE_WITHOUT, TOO_FEW, weigh_fault
from tests.support.figures import make_figures, place_figures

RNG = np.random.default_rng(11)


def draw(n: int, share: float, effect: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    has = rng.random(n) < share
    return 6 - effect * has + rng.normal(0, 1, n), has


def test_the_weight_is_the_share_times_the_slope_of_a_regression_with_its_delta_error() -> None:
    import statsmodels.api as sm

    clusters = np.repeat(np.arange(150), 4)
    ratings, has = draw(600, 0.3, 1.5, RNG)
    ratings += RNG.normal(0, 1, 150)[clusters]
    found = weigh_fault(ratings, has, clusters)
    fitted = sm.OLS(ratings, sm.add_constant(has.astype(float))).fit()
    assert found.effect == pytest.approx(-fitted.params[1])
    assert found.weight == pytest.approx(has.mean() * -fitted.params[1])
    assert found.weight == pytest.approx(ratings[~has].mean() - ratings.mean())
    # The error: over resamples of whole clusters.
    weights = []
    for _ in range(400):
        rows = (RNG.integers(0, 150, 150)[:, None] * 4 + np.arange(4)).ravel()
        some, chosen = ratings[rows], has[rows]
        weights.append(chosen.mean() * (some[~chosen].mean() - some[chosen].mean()))
    assert found.interval is not None
    groups = [len(np.unique(clusters[group])) for group in (has, ~has)]
    error = (found.interval[1] - found.interval[0]) / 2 / find_quantile(min(groups) - 1.0, 0.05)
    assert error == pytest.approx(float(np.std(weights)), rel=0.12)


@pytest.mark.parametrize(("n", "share", "effect"), [(12, 0.5, 1.0), (40, 0.1, 1.5), (60, 0.3, 0.0)])
def test_intervals_hold_where_conversations_are_few(n: int, share: float, effect: float) -> None:
    rng = np.random.default_rng([n])
    held = []
    for _ in range(300):
        ratings, has = draw(n, share, effect, rng)
        found = weigh_fault(ratings, has, np.arange(n)) if has.any() else None
        if found is not None and found.interval is not None:
            held.append(found.interval[0] <= share * effect <= found.interval[1])
    assert np.mean(held) >= 0.93


def test_there_is_no_interval_without_enough_dialogues() -> None:
    def explain(has: list[int], ratings: list[float] | None = None) -> Message | None:
        found = weigh_fault(np.array(ratings or range(len(has)), float), np.array(has) > 0, np.arange(len(has)))
        assert found.interval is None
        return found.reason

    assert explain([1, 0, 1, 0, 1, 0, 1]) == TOO_FEW
    assert explain([1, 1] + [0] * 20) == FEW_WITH
    assert explain([1] * 20) == NONE_WITHOUT
    assert weigh_fault(np.arange(20.0), np.arange(20) % 2 > 0, np.arange(20)).interval is not None
    # Turns of one dialogue are one unit.
    assert weigh_fault(np.arange(40.0), np.arange(40) % 2 > 0, np.arange(40) // 8).reason == TOO_FEW
    equal = weigh_fault(np.full(10, 5.0), np.arange(10) % 2 > 0, np.arange(10))
    assert (equal.weight, equal.reason) == (0.0, NO_SPREAD)


def make_result(
    overall: float | None, kinds: dict[str, list[int]], *, system: str | None, build: str | None = None
) -> ResultFigures:
    found = {"judge": sorted({turn for turns in kinds.values() for turn in turns}), KINDS_KNOWN: []}
    found |= {f"kind:{kind}": turns for kind, turns in kinds.items()}
    aspects = {"overall": (overall, None, None, None)}
    return make_figures("scored", aspects, {}, system=system, faulty=FaultyTurns(10, found), build=build)


def test_kinds_are_ranked_by_what_they_take_from_all_conversations() -> None:
    results = []
    for number in range(40):
        # Half of them repeat themselves and are 1 lower; one in ten is untrue and 3 lower.
        kinds = {"repetition": [0, 1]} if number % 2 else {}
        kinds |= {"wrong-information": [5]} if number % 10 == 0 else {}
        rating = 8.0 - (number % 2) - 3 * (number % 10 == 0) - 0.1 * (number % 3)
        results.append(make_result(rating, kinds, system="ab"[number // 20]))
    results.append(make_result(None, {"repetition": [0]}, system="a"))
    ranked = rank_kinds(place_figures(results))
    assert {one.kind for one in ranked} == {"repetition", "wrong-information"}
    by_kind = {one.kind: one for one in ranked}
    repetition = by_kind["repetition"]
    assert (repetition.conversations, repetition.of, repetition.rate) == (20, 40, 10.0)
    for one in ranked:
        assert one.effect is not None
        assert one.weight is not None
        assert one.weight == pytest.approx(one.conversations / one.of * one.effect)
        assert one.interval is not None
        assert one.interval[0] < one.weight < one.interval[1]
    weights = [one.weight or 0.0 for one in ranked]
    assert weights == sorted(weights, reverse=True)
    by_system = rank_kinds_by_system(place_figures(results), {})
    assert {name: {one.of for one in some} for name, some in by_system.items()} == {"a": {20}, "b": {20}}
    assert rank_kinds_by_system(place_figures(results[:20]), {}) == {}
    assert rank_kinds(place_figures([])) == ()


def test_kinds_are_ranked_by_build_where_there_are_several() -> None:
    """What a conversation's metadata do not name, the run's do."""
    builds = [("a", "1"), ("a", "2"), ("b", None), (None, None)]
    results = [
        make_result(5.0, {"repetition": [0]} if number % 8 > 3 else {}, system=system, build=build)
        for number in range(32)
        for system, build in [builds[number % 4]]
    ]
    found = rank_kinds_by_build(place_figures(results), {"build": "9"})
    assert [(one.system, one.build) for one in found] == [(None, "9"), ("a", "1"), ("a", "2"), ("b", "9")]
    assert {(one.kind, one.of, one.conversations) for group in found for one in group.fix_first} == {
        ("repetition", 8, 4)
    }
    assert len(rank_kinds_by_build(place_figures(results), {"build": "1", "system": "a"})) == 3
    assert (
        rank_kinds_by_build(place_figures(results[2::4]), {"build": "9"})
        == rank_kinds_by_build(place_figures(results[2::4]), {})
        == ()
    )
    assert rank_kinds_by_build(place_figures(results[2:]), {})[0].build is None


def test_conversations_that_count_little_do_not_narrow_the_interval_of_a_weight():
    """Of 540 conversations 40 count for a hundred each. The fault is in one in ten, and lowers the rating by 1."""
    generator, held, given = np.random.default_rng(4), 0, 0
    weights = np.repeat([1.0, 100.0], [500, 40])
    weights /= weights.mean()
    for _ in range(400):
        has = generator.random(540) < 0.1
        found = weigh_fault(4 - has + generator.normal(0, 0.7, 540), has, np.arange(540), weights)
        given += found.interval is not None
        held += found.interval is not None and found.interval[0] <= 0.1 <= found.interval[1]
    assert given >= 390
    assert held >= 0.93 * given - np.sqrt(given * 0.93 * 0.07)

"""What a judge's badge rests on: items that two people rated, ranked within systems, looked at again and again."""

import numpy as np
import pytest
from scipy import stats

from saiten_server.core.reliability import FEWEST_ITEMS
from saiten_server.core.reports import WithinSystems
from saiten_server.stats.correlation import CONSTANT, ONE_RATER, TOO_FEW, correlate_scores, find_tail
from tests.support.observed import observe


def records(n: int = 60, *, seed: int = 0, gap: float = 0.0, noise: float = 0.5, twice: int | None = None):
    """Items of two systems, `gap` apart, each scored once and rated by r1, the first `twice` by r2 too. A `noise` of
    infinity leaves nothing of what the judge follows."""
    generator = np.random.default_rng(seed)
    for number in range(n):
        shift, quality = gap * (number % 2), generator.normal()
        score = shift + (generator.normal() if np.isinf(noise) else quality + noise * generator.normal())
        for rater in ("r1", "r2") if twice is None or number < twice else ("r1",):
            yield {
                "system": f"s{number % 2}",
                "item": f"{number:03}",
                "rater": rater,
                "ratings": {"a": shift + quality + 0.5 * generator.normal()},
                "scores": {"a": score},
            }


def within(*given, **changes) -> WithinSystems:
    found = correlate_scores(observe(records(*given, **changes))).aspects["a"].within_systems
    assert found is not None
    return found


def test_only_items_that_two_people_rated_count() -> None:
    found = within(twice=21)
    assert (found.n, found.raters, found.systems) == (21, 2, 2)
    assert found.interval is not None
    few = within(twice=19)
    assert (few.n, few.interval, few.undefined["interval"]) == (19, None, TOO_FEW)
    none = within(twice=1)
    assert (none.n, none.spearman, none.undefined["spearman"]) == (1, None, ONE_RATER)


def test_a_judge_that_only_tells_systems_apart_follows_no_one() -> None:
    found = correlate_scores(observe(records(gap=4.0, noise=np.inf))).aspects["a"]
    assert found.spearman is not None
    assert found.spearman > 0.6
    assert found.within_systems is not None
    assert found.within_systems.interval is not None
    assert found.within_systems.interval[0] < 0 < found.within_systems.interval[1]


def test_raters_agree_within_systems_too() -> None:
    # r1 and r2 share a quality of variance 1, and each adds a variance of 0.25.
    near, far = within(200, seed=3).agreement, within(200, seed=3, gap=8.0).agreement
    assert near == pytest.approx(0.8, abs=0.08)
    assert far == pytest.approx(near, abs=0.05)


def test_systems_of_one_item_have_no_figure() -> None:
    alone = [{**record, "system": record["item"]} for record in records(30)]
    found = correlate_scores(observe(alone)).aspects["a"].within_systems
    assert found is not None
    assert found.undefined["spearman"] == CONSTANT


def test_the_interval_allows_for_aspects_and_for_looks() -> None:
    once = 0.025
    assert find_tail(FEWEST_ITEMS, 6) < find_tail(FEWEST_ITEMS, 1) < once
    assert find_tail(500, 1) < find_tail(100, 1) < find_tail(FEWEST_ITEMS, 1)
    # Sums of normal values, looked at from 20 to 200 of them: whether they ever pass.
    sums = np.random.default_rng(1).standard_normal((4000, 200)).cumsum(axis=1)
    n = np.arange(FEWEST_ITEMS, 201)
    bounds = np.array([-stats.norm.ppf(find_tail(int(one), 1)) for one in n]) * np.sqrt(n)
    passed = (np.abs(sums[:, FEWEST_ITEMS - 1 :]) > bounds).any(axis=1).mean()
    assert 0.01 < passed <= 0.05

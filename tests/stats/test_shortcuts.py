"""Figures that are counted rather than sorted, where that is faster: the same to the last bit."""

import numpy as np
import pytest
from scipy.stats import rankdata

from saiten_server.stats import observations, statistics
from saiten_server.stats.agreement import NamedRatings, compare_raters
from saiten_server.stats.observations import agree_within, are_different, list_distinct, number_keys
from saiten_server.stats.statistics import are_far_apart, join_ties, rank_values, rank_within

SEEDS = range(20)


def draw_values(random: np.random.Generator, size: int) -> np.ndarray:
    """Few levels, means of some, or no two alike."""
    kind = random.integers(3)
    if kind == 0:
        return random.integers(-2, 3, size).astype(float)
    return random.integers(1, 6, (size, 3)).mean(axis=1) if kind == 1 else random.normal(size=size)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_are_those_of_sorting(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    values, group = draw_values(random, 300), random.integers(0, 4, 300)
    assert np.array_equal(rank_values(values), rankdata(values))
    found = rank_within(group, values)
    assert np.array_equal(
        found, np.select([group == g for g in range(4)], [ranks_of(values, group == g) for g in range(4)])
    )
    monkeypatch.setattr(statistics, "FREQUENT", 10_000)
    assert np.array_equal(found, rank_within(group, values))


def ranks_of(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The ranks among the chosen, at their places."""
    found = np.zeros(len(values))
    found[chosen] = rankdata(values[chosen])
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_are_numbered_in_order_whether_there_are_gaps_or_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 10 ** random.integers(1, 5), 200)
    expected = np.unique(keys, return_inverse=True)[1]
    assert np.array_equal(number_keys(keys), expected)
    monkeypatch.setattr(observations, "SPARSE", 0)
    assert np.array_equal(number_keys(keys), expected)
    assert len(number_keys(keys[:0])) == 0


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("size", [0, 1, 2, 200])
def test_different_keys_are_listed_in_order(size: int, kind: type[np.integer]) -> None:
    random = np.random.default_rng(size)
    keys = random.integers(-50, 50, size).astype(kind)
    keys[:1] = np.iinfo(kind).min
    found = list_distinct(keys)
    assert found.dtype == kind
    assert found.tolist() == sorted({*keys.tolist()})


@pytest.mark.parametrize("seed", SEEDS)
def test_values_that_lie_far_apart_have_no_ties_to_join(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = draw_values(random, 200)
    values[random.integers(0, 200, 5)] = np.nan
    assert are_far_apart(values, np.abs(values))
    assert np.array_equal(join_ties(values, np.abs(values)), values, equal_nan=True)
    near = np.concatenate([values, values * (1 + 2.0**-50)])
    size = np.abs(near)
    assert are_far_apart(near, size) == (
        len(np.unique(near[~np.isnan(near)])) == len(np.unique(values[~np.isnan(values)]))
    )
    joined = join_ties(near, size)
    assert np.array_equal(joined[:200], joined[200:], equal_nan=True)
    assert are_far_apart(np.full(3, np.nan), np.ones(3))


def test_what_one_rater_gave_again_is_seen_among_sorted_keys() -> None:
    assert are_different(np.array([3, 1, 2]))
    assert not are_different(np.array([3, 1, 2, 3]))


def test_values_of_a_group_agree_or_not() -> None:
    group = np.array([0, 1, 0, 1])
    assert agree_within(group, 2, np.array([1.0, np.nan, 1.0, 2.0]))
    assert not agree_within(group, 2, np.array([1.0, 3.0, 1.0, 2.0]))
    assert agree_within(group, 3, np.full(4, np.nan))


def test_a_rating_that_nobody_else_shares_changes_no_other() -> None:
    unit, rater = np.repeat(np.arange(6), 2), np.tile([0, 1], 6)
    values = np.array([-3, -2.5, 1, 2, 2, 2, 3, 1, 0, 1e-17, 5, 4.0])
    alone = NamedRatings(np.append(unit, 6), np.append(rater, 2), np.append(values, 0.0))
    found, plain = compare_raters(alone), compare_raters(NamedRatings(unit, rater, values))
    assert (found.spearman, found.pearson, found.compared) == (plain.spearman, plain.pearson, 2)
    assert (found.raters, found.few) == (3, 1)

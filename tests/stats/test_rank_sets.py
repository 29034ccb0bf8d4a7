"""Rank sets: what all pairs together leave open, and what has no finite strength."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saiten_server.stats.rank_sets import adjust_holm, compare_orders, estimate_share, list_resolved, rank_systems
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE
from saiten_server.stats.strengths import Ties
from tests.support.preferences import PreferenceWorld, draw_pairs, list_wins, make_pairs

WORLD = PreferenceWorld((-1.2, -0.1, 0.0, 1.3), position=0.2, nu=0.4, alike=0.3)


def test_ranks_are_sets() -> None:
    sets = rank_systems(draw_pairs(WORLD, 150, np.random.default_rng(11)))
    assert (sets.lowest.tolist(), sets.highest.tolist()) == ([4, 2, 2, 1], [4, 3, 3, 1])
    assert sets.tied_with_best.tolist() == [False, False, False, True]
    assert {(better, worse) for better, worse, _ in list_resolved(sets)} == {(3, 0), (3, 1), (3, 2), (1, 0), (2, 0)}
    assert sets.rank[3] == 1
    assert sets.rank[0] == 4


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(2)
    p = np.ones((6, 6))
    rows, columns = np.triu_indices(6, 1)
    p[rows, columns] = p[columns, rows] = rng.random(15) ** 4
    assert adjust_holm(p)[rows, columns] == pytest.approx(multipletests(p[rows, columns], method="holm")[1])


def test_a_system_that_never_wins_has_no_strength_and_the_last_rank() -> None:
    pairs = draw_pairs(replace(WORLD, nu=0.0), 60, np.random.default_rng(3))
    choice = np.where(pairs.first == 1, SECOND, np.where(pairs.second == 1, FIRST, pairs.choice))
    sets = rank_systems(replace(pairs, choice=choice))
    assert np.isnan(sets.strengths).tolist() == [False, True, False, False]
    assert sets.never_wins.tolist() == [False, True, False, False]
    assert (int(sets.rank[1]), int(sets.lowest[1]), int(sets.highest[1])) == (4, 4, 4)
    assert np.nanmean(sets.strengths) == pytest.approx(0)
    assert np.isfinite(rank_systems(replace(pairs, choice=choice), penalty=0.5).strengths).all()


@pytest.mark.parametrize("ties", ["davidson", "ordinal"])
def test_ties_alone_do_not_bound_a_system_that_never_wins(ties: Ties) -> None:
    # The likelihood of 20 wins and 10 ties grows without end with the strength and the ties together.
    choice = np.array([FIRST] * 20 + [TIE] * 10)
    sets = rank_systems(make_pairs(2, np.zeros(30, int), np.ones(30, int), choice, np.arange(30)), ties=ties)
    assert np.isnan(sets.strengths).all()
    assert (sets.never_loses.tolist(), sets.never_wins.tolist()) == ([True, False], [False, True])
    assert (sets.rank.tolist(), sets.highest.tolist()) == ([1, 2], [1, 2])
    assert list_resolved(sets) == [(0, 1, 2 * 0.5**20)]


@pytest.mark.parametrize("ties", ["davidson", "ordinal"])
def test_a_cycle_with_more_wins_than_ties_bounds_strengths(ties: Ties) -> None:
    # 0 beats 1, 1 beats 2, and 0 ties with 2.
    first, second, choice = np.tile([[0, 1, 0], [1, 2, 2], [FIRST, FIRST, TIE]], 10)
    sets = rank_systems(make_pairs(3, first, second, choice, np.arange(30)), ties=ties)
    assert np.isfinite(sets.strengths).all()
    assert np.abs(sets.strengths).max() < 5
    # 0 beats 1, and 1 and 2 tie with both.
    first, second, choice = np.tile([[0, 1, 0], [1, 2, 2], [FIRST, TIE, TIE]], 10)
    endless = rank_systems(make_pairs(3, first, second, choice, np.arange(30)), ties=ties)
    assert np.isnan(endless.strengths).all()


def test_disconnected_systems_are_ranked_apart() -> None:
    pairs = draw_pairs(WORLD, 60, np.random.default_rng(4))
    sets = rank_systems(pairs.within(pairs.first // 2 == pairs.second // 2))
    assert sets.components == ((0, 1), (2, 3))
    assert sets.rank.tolist() == [2, 1, 2, 1]
    assert sets.strengths[0] == -sets.strengths[1]
    assert not sets.better[np.ix_([0, 1], [2, 3])].any()
    assert not sets.better[np.ix_([2, 3], [0, 1])].any()
    assert sets.highest.max() == 2


def test_fewer_than_eight_clusters_resolve_nothing() -> None:
    apart = replace(WORLD, strengths=(-3.0, -1.0, 1.0, 3.0))
    assert not rank_systems(draw_pairs(apart, 7, np.random.default_rng(5))).better.any()
    assert rank_systems(draw_pairs(apart, 40, np.random.default_rng(5))).better.any()


def test_only_ties_give_no_strengths() -> None:
    pairs = draw_pairs(WORLD, 10, np.random.default_rng(6))
    sets = rank_systems(replace(pairs, choice=np.full(pairs.n, TIE)))
    assert np.isnan(sets.strengths).all()
    assert not sets.fits
    assert sets.tied_with_best.all()


def test_winning_groups_of_one_item_prove_nothing() -> None:
    sets = rank_systems(list_wins({(0, 1): 4, (1, 0): 3, (0, 2): 1, (1, 2): 1}, 3))
    assert sets.never_wins.tolist() == [False, False, True]
    assert sets.rank.tolist() == [1, 2, 3]
    assert not sets.better[:, 2].any()


def test_orders_are_compared_by_rater_and_item() -> None:
    first, second = [0, 1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0, 1]
    choice = [FIRST, SECOND, FIRST, FIRST, TIE, TIE, FIRST]  # agreed, opposed, tied, seen once
    found = compare_orders(
        make_pairs(2, np.array(first), np.array(second), np.array(choice), np.array([0, 0, 1, 1, 2, 2, 3]))
    )
    assert found.counts.tolist() == [1, 1, 1, 0]
    assert found.agreed.tolist() == [1, 0, 1, 0]
    assert (found.ties, found.opposed) == (1, 1)


@pytest.mark.parametrize("better", [FIRST, SECOND])
def test_the_share_of_two_that_mostly_tie_is_not_surer_than_its_few_wins(better: int) -> None:
    """Of 60 items each is a win of one system with a chance of .1, in both orders, and else a tie. The interval of a
    mean in the middle of its scale excluded the true share of .55 or .45 on that side in .07 of the samples."""
    draw, samples, items = np.random.default_rng(6), 400, 60
    true = 0.55 if better == FIRST else 0.45
    missed = 0
    for _ in range(samples):
        won = np.tile(draw.random(items) < 0.1, 2)
        ahead = np.repeat([0, 1], items)
        choice = np.where(won, np.where(ahead == 0, better, 1 - better), TIE)
        pairs = make_pairs(2, ahead, 1 - ahead, choice, np.tile(np.arange(items), 2))
        found = estimate_share(pairs, 0).interval
        missed += found is not None and not found[0] <= true <= found[1]
    assert missed <= 0.05 * samples


def test_of_many_ties_a_few_looks_resolve_nothing() -> None:
    """s0 beat s2 once, and s2 beat s1 once: by sandwich s0 was better than s1 with a p of next to 0."""
    items, systems = 60, [(0, 1), (0, 2), (1, 2)]
    rows = [(a, b, item) for item in range(items) for one in systems for a, b in (one, one[::-1])]
    first, second, item = np.array(rows).T
    choice = np.full(len(rows), TIE)
    for winner, loser, where in ((0, 2, 3), (2, 1, 5)):
        choice[(first == winner) & (second == loser) & (item == where)] = FIRST
    sets = rank_systems(make_pairs(3, first, second, choice, item))
    assert not sets.better.any()
    assert sets.p.min() == 1
    known = sets.freedom[~np.isnan(sets.freedom)]
    assert len(known) == 3
    assert known.max() < 15

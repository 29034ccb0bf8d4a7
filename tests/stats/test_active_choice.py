"""What to judge next, and when to stop; `benchmarks.rankings` measures what it saves."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from saiten_server.core.evaluation import Choice
from saiten_server.preferences.rankings.choice import begin_choice, choose_next, is_resolved, list_resolved, take_stock
from saiten_server.preferences.values import ShownPair
from saiten_server.stats import active_choice
from tests.support.preferences import PreferenceWorld, draw_pairs

NAMES = ("a", "b", "c", "d")
CHOICES: tuple[Choice, ...] = ("first", "second", "tie")
WORLD = PreferenceWorld((-2.0, 0.0, 0.1, 2.0))


def judge_all(world: PreferenceWorld, chosen, rng) -> list[ShownPair]:
    """Both orders of each, by chance."""
    shown: list[ShownPair] = []
    for one, other, item in chosen:
        for first, second in ((one, other), (other, one)):
            chances = world.chances(np.array([NAMES.index(first)]), np.array([NAMES.index(second)]))[:, 0]
            choice = CHOICES[rng.choice(3, p=chances)]
            shown.append(ShownPair(item, item, first, second, choice))
    return shown


def test_a_run_begins_with_all_pairs_and_ends_resolved() -> None:
    rng, world = np.random.default_rng(1), PreferenceWorld((-2.0, -0.7, 0.7, 2.0))
    items = {pair: [f"i{number}" for number in range(400)] for pair in combinations(NAMES, 2)}
    shown: list[ShownPair] = []
    standing, counts = begin_choice(NAMES), []
    while not is_resolved(standing):
        chosen = choose_next(shown, NAMES, items, standing=standing)
        assert chosen
        counts.append({pair: sum(one[:2] == pair for one in chosen) for pair in items})
        for one, other, item in chosen:
            items[one, other].remove(item)
        shown += judge_all(world, chosen, rng)
        standing = take_stock(shown, NAMES, before=standing)
    assert min(counts[0].values()) >= 8
    assert list_resolved(standing, NAMES) == [("b", "a"), ("c", "a"), ("c", "b"), ("d", "a"), ("d", "b"), ("d", "c")]
    assert choose_next(shown, NAMES, items, standing=standing) == []


def test_the_next_pairs_are_those_that_are_still_open() -> None:
    pairs = draw_pairs(WORLD, 60, np.random.default_rng(2))
    standing = active_choice.take_stock(pairs, number=1)
    assert standing.unresolved == ((1, 2),)
    counts = active_choice.allocate(pairs, standing.unresolved, dict.fromkeys(combinations(range(4), 2), 500), size=100)
    assert counts == {(1, 2): 100}
    # Where that pair has no items left, others tell of it.
    assert (1, 2) not in active_choice.allocate(pairs, standing.unresolved, {(0, 1): 5, (1, 2): 0, (0, 2): 5}, size=100)


def test_no_more_than_there_is() -> None:
    pairs = draw_pairs(WORLD, 20, np.random.default_rng(3))
    counts = active_choice.allocate(pairs, ((1, 2),), {(1, 2): 3, (0, 1): 2}, size=100)
    assert counts == {(1, 2): 3, (0, 1): 2}
    assert active_choice.allocate(pairs, (), {(1, 2): 3}, size=5) == {}


def test_what_was_resolved_stays_and_rounds_share_alpha() -> None:
    pairs = draw_pairs(WORLD, 20, np.random.default_rng(4))
    kept = active_choice.take_stock(pairs, number=50, before=frozenset({(2, 1)}))
    assert (2, 1) in kept.resolved
    assert (1, 2) not in kept.unresolved
    early, late = (len(active_choice.take_stock(pairs, alpha=1e-3, number=one).resolved) for one in (1, 1000))
    assert late <= early

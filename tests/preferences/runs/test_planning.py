"""Which pairs a preference run compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from saiten_server.core.batch import Batch
from saiten_server.preferences.runs.planning import Responses, list_pairs, plan_pairs
from saiten_server.preferences.runs.service import name_systems


def run(*items: int, contexts: dict[int, int | None] | None = None) -> Responses:
    """A run with these items in this order; a context of an item is as its number where none is told."""
    rows = [(place, item, None, (contexts or {}).get(item, item)) for place, item in enumerate(items)]
    return Responses.make(rows, whole=False)


def test_pairs_are_of_common_items_with_one_context() -> None:
    plan = plan_pairs([run(5, 7, 9), run(9, 5, 8), run(7, 9, contexts={9: 1})], None)
    pairs = [
        (*places, *positions) for places, positions in zip(plan.runs.tolist(), plan.positions.tolist(), strict=True)
    ]
    assert pairs == [(0, 1, 0, 1), (0, 2, 1, 0), (0, 1, 2, 0)]
    # Item 9 of the last run has another context: in two pairs; items 8 and that one stand alone.
    assert plan.left_out == {"contexts": 2, "alone": 2}
    assert plan.items == 3


def test_all_pairs_of_an_item_follow_each_other_and_have_one_owner() -> None:
    runs = [run(*np.random.default_rng(seed).permutation(50).tolist()) for seed in range(4)]
    plan = plan_pairs(runs, None)
    assert len(plan) == 6 * 50
    for start in range(0, len(plan), 6):
        mine = plan.owners[start : start + 6]
        assert len(np.unique(mine, axis=0)) == 1
        assert mine[0, 0] == 0
    assert plan_pairs(runs, None, 12).left_out == {"budget_calls": 288}
    assert plan_pairs(runs, None, 12).items == 2


def test_a_baseline_is_the_first_of_each_pair() -> None:
    assert list(list_pairs(4, 2)) == [(2, 0), (2, 1), (2, 3)]
    plan = plan_pairs([run(1, 2), run(2, 3), run(2)], 1)
    assert plan.runs.tolist() == [[1, 0], [1, 2]]


def test_candidates_of_an_item_are_paired_by_their_numbers() -> None:
    rows = [(0, 4, 0, 9), (1, 4, 1, 9), (2, 4, 0, 9)]
    found = Responses.make(rows, whole=False)
    assert found.positions.tolist() == [0, 1]
    plan = plan_pairs([found, Responses.make([(0, 4, 1, 9)], whole=False)], None)
    assert plan.positions.tolist() == [[1, 0]]


def test_what_was_judged_is_not_listed_again() -> None:
    plan = plan_pairs([run(1, 2, 3), run(1, 2, 3)], None)
    assert plan.list_rows() == {(0, 1): [0, 1, 2]}
    assert plan.list_rows({(0, 1, 1, 1)}) == {(0, 1): [0, 2]}
    assert plan.count_items({(0, 1, 1, 1)}, [0]) == 2
    assert plan.take([2, 0]).positions.tolist() == [[0, 0], [2, 2]]


def test_runs_of_one_system_are_called_by_their_builds() -> None:
    def name(*runs: tuple[str, str, str]) -> tuple[str, ...]:
        kinds = [SimpleNamespace(id=at, name="nightly", metadata={"system": of, "build": by}) for at, of, by in runs]
        return name_systems(cast("list[Batch]", kinds))

    assert name(("ba_1", "a", "1"), ("ba_2", "b", "1")) == ("a", "b")
    assert name(("ba_1", "a", "1"), ("ba_2", "a", "2"), ("ba_3", "b", "2")) == ("a 1", "a 2", "b")
    assert name(("ba_1", "a", "1"), ("ba_2", "a", "1")) == ("a (ba_1)", "a (ba_2)")
    assert name(("ba_1", "a", ""), ("ba_2", "a", "2"), ("ba_3", "a 2", "")) == ("a (ba_1)", "a (ba_2)", "a 2 (ba_3)")

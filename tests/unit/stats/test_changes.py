"""The items that changed most: the comparison's own pairs, in the right order, found again in their batches."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.comparison import Changes, ComparedRun, ItemChange, ResponsePlace, RunItem
from app.domain.errors import UnknownAspect
from app.stats.changes import MOST_RESPONSES, NO_VALUES, find_changes
from app.stats.comparison import compare
from tests.support.runs import make_run

RATINGS = st.one_of(st.none(), st.integers(1, 5).map(float))


def items_of(changes: tuple[ItemChange, ...]) -> list[str]:
    return [change.item for change in changes]


def place(run: ComparedRun) -> ComparedRun:
    """The run with positions, as that of a batch has them."""
    return dataclasses.replace(run, items=[dataclasses.replace(item, position=at) for at, item in enumerate(run.items)])


def respond(*responses: tuple[str, str, float | None]) -> ComparedRun:
    """A run of (item, context, warmth), each a candidate of its item."""
    items = [RunItem(item, at, None, context, {"warmth": value}) for at, (item, context, value) in enumerate(responses)]
    return place(make_run("run", {"warmth": []}, items=items, expected=len(items)))


def test_the_largest_drops_and_gains_of_one_aspect_come_first():
    before = make_run("before", {"warmth": [3, 3, 3, 3, 3], "clarity": [1, 1, 1, 1, 1]})
    after = make_run("after", {"warmth": [3, 1, 5, 2, 4], "clarity": [5, 5, 5, 5, None]})
    found = find_changes(place(before), place(after), "warmth")
    assert (found.unit, found.pairs, found.dropped, found.gained) == ("points", 5, 2, 2)
    assert [(change.item, change.difference) for change in found.drops] == [("1", -2.0), ("3", -1.0)]
    assert [(change.item, change.difference) for change in found.gains] == [("2", 2.0), ("4", 1.0)]
    last = found.gains[-1]
    assert (last.baseline.values, last.candidate.values) == (
        {"warmth": 3.0, "clarity": 1.0},
        {"warmth": 4.0, "clarity": None},
    )
    assert last.differences == {"warmth": 1.0}
    assert last.candidate.responses == (ResponsePlace(position=4, candidate=None),)
    assert Changes.model_validate_json(found.model_dump_json()) == found


def test_at_most_so_many_and_of_equal_ones_the_first():
    before, after = make_run("b", {"warmth": [3.0] * 9}), make_run("a", {"warmth": [2.0] * 8 + [1.0]})
    found = find_changes(before, after, "warmth", most=3)
    assert (items_of(found.drops), found.dropped, found.gains) == (["8", "0", "1"], 9, ())


def test_all_aspects_together_count_as_shares_of_their_scales():
    scales = {"warmth": (0.0, 1.0), "clarity": (1.0, 5.0)}
    before = make_run("b", {"warmth": [1, 0, 1], "clarity": [3, 5, None]}, scales=scales)
    after = make_run("a", {"warmth": [0, 0, 0], "clarity": [5, 1, 5]}, scales=scales)
    found = find_changes(before, after)
    assert (found.measure, found.unit) == (None, "share")
    # (−1/1 + 2/4)/2 and (0 − 4/4)/2; the third has no clarity on one side: −1/1.
    assert [(change.item, change.difference) for change in found.drops] == [("2", -1.0), ("1", -0.5), ("0", -0.25)]
    assert found.drops[2].differences == {"warmth": -1.0, "clarity": 2.0}


def test_an_aspect_that_is_best_inside_its_scale_changes_by_its_distance_from_there():
    scales, best = {"tone": (-2.0, 2.0)}, {"tone": 0.0}
    before = make_run("b", {"tone": [2, 0, -2]}, scales=scales, best=best)
    after = make_run("a", {"tone": [0, 1, 2]}, scales=scales, best=best)
    found = find_changes(before, after)
    assert found.best == best
    # 2 points nearer of the 2 that the distance can have; from −2 to 2 nothing is won or lost.
    assert [(change.item, change.difference) for change in found.gains] == [("0", 1.0)]
    assert [(change.item, change.difference) for change in found.drops] == [("1", -0.5)]
    assert (found.gains[0].baseline.values, found.gains[0].differences) == ({"tone": 2.0}, {"tone": 2.0})
    assert find_changes(before, after, "tone").drops[0].difference == -1.0


def test_a_composite_and_a_blended_aspect_may_be_the_measure():
    def run(name: str, composite: float, blended: float) -> ComparedRun:
        items = [RunItem("i", None, None, "c", {"warmth": 3.0}, {"both": composite}, {"warmth": blended})]
        return make_run(name, {"warmth": [3.0]}, items=items)

    before, after = run("b", 2.0, 3.5), run("a", 1.0, 4.5)
    by_composite, by_blend = (find_changes(before, after, name) for name in ("both", "warmth.blended"))
    assert by_composite.drops[0].candidate.values == {"warmth": 3.0, "both": 1.0}
    assert by_blend.gains[0].differences == {"warmth": 0.0, "warmth.blended": 1.0}


def test_an_item_counts_with_the_mean_of_its_responses_and_all_of_them_are_named():
    before = respond(("a", "x", 4), ("a", "x", 2), ("b", "y", 1))
    after = respond(("b", "y", 3), ("a", "x", 1))
    found = find_changes(before, after, "warmth")
    assert (found.pairs, found.drops[0].item, found.drops[0].difference) == (2, "a", -2.0)
    assert found.drops[0].baseline.responses == (
        ResponsePlace(position=0, candidate=0),
        ResponsePlace(position=1, candidate=1),
    )
    assert [place.position for place in found.gains[0].candidate.responses] == [0]


def test_of_very_many_responses_the_first_are_named_and_all_counted():
    before, after = respond(*[("a", "x", 4)] * 50), respond(("a", "x", 1))
    side = find_changes(before, after).drops[0].baseline
    assert (len(side.responses), side.count) == (MOST_RESPONSES, 50)


def test_an_id_of_several_contexts_is_several_items():
    before, after = respond(("a", "x", 4), ("a", "y", 1)), respond(("a", "y", 5), ("a", "x", 2))
    found = find_changes(before, after, "warmth")
    assert [(change.difference, change.baseline.responses[0].position) for change in found.drops] == [(-2.0, 0)]
    assert [change.candidate.responses[0].position for change in found.gains] == [0]


def test_without_pairs_there_is_nothing_and_a_reason():
    before, after = respond(("a", "x", 4)), respond(("b", "x", 4))
    found = find_changes(before, after)
    assert (found.drops, found.gains, found.pairs, found.code) == ((), (), 0, "unpaired")
    assert found.reason == compare(before, after).pairing.reason
    # Numbers that nobody gave make no pair where contexts differ.
    other = dataclasses.replace(respond(("a", "z", 1)), numbered=True)
    assert find_changes(before, other).code == "unpaired"


def test_without_values_on_both_sides_there_is_nothing_and_a_reason():
    found = find_changes(respond(("a", "x", 4)), respond(("a", "x", None)))
    assert (found.pairs, found.code, found.reason) == (0, "no-values", NO_VALUES)
    declared = make_run("r", {"warmth": [1, 2]}, scales={"warmth": (1.0, 5.0), "warmth.blended": (1.0, 5.0)})
    assert find_changes(declared, declared, "warmth.blended").code == "no-values"


def test_a_measure_that_neither_run_has_is_refused():
    run = make_run("r", {"warmth": [1, 2]})
    with pytest.raises(UnknownAspect, match="did you mean 'warmth'") as refused:
        find_changes(run, run, "warmht")
    assert refused.value.pointer == "/measure"


@given(st.lists(st.tuples(RATINGS, RATINGS), min_size=1, max_size=12))
def test_differences_are_those_that_the_comparison_averages(values):
    before = make_run("before", {"warmth": [left for left, _ in values]})
    after = make_run("after", {"warmth": [right for _, right in values]})
    found = find_changes(before, after, "warmth", most=100)
    measure = compare(before, after, allow_signature_mismatch=True).aspects["warmth"]
    assert found.pairs == measure.n
    if measure.difference is not None:
        total = sum(change.difference for change in (*found.drops, *found.gains))
        assert math.isclose(total / measure.n, measure.difference, abs_tol=1e-9)

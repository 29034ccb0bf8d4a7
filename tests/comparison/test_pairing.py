"""Which items belong together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest

from saiten.core.messages import Message
from saiten_server.comparison.corrected_runs import correct_pairs
from saiten_server.comparison.differences import compare
from saiten_server.comparison.pairing import (
    ItemMeans,
    are_comparable,
    average_items,
    find_shared_ids,
    name_clusters,
    pair_items,
)
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import key_of
from saiten_server.runs.frame import key_all, make_frame
from saiten_server.runs.summary import MeasureKey
from tests.support.runs import Row, make_run, rows_of, with_rows


def means(keys, contexts=None, clusters=None) -> ItemMeans:
    """Items without values."""
    size, items = len(keys), key_all([*keys])
    contexts, clusters = (key_all(each or [None] * size) for each in (contexts, clusters))
    frame = make_frame(size, {}, items=items, contexts=contexts, clusters=clusters)
    return ItemMeans(frame, np.zeros(size, dtype=np.int64))


def key_items(names: Iterable[tuple[str, str | None]]):
    """The keys of items by their ids, and by their contexts where those tell them apart."""
    return np.array([key_all(name) for name in names], dtype=np.int64).reshape(-1, 2)


def test_items_pair_by_id_in_any_order():
    found = pair_items(means("abcd"), means("dbx"), asked="auto", numbered=False)
    pairing, (left, right) = found.pairing, found.rows
    assert (left.tolist(), right.tolist()) == ([1, 3], [1, 0])
    assert (pairing.test, pairing.pairs, pairing.only_baseline, pairing.only_candidate) == ("paired", 2, 2, 1)
    assert pairing.reason == (
        Message(
            "clauses",
            clauses=[
                Message("paired", found=Message("are-in-both", pairs=2, items=Message("items", n=3))),
                Message("items-are-units"),
            ],
        )
    )
    assert (pairing.unit, pairing.clusters) == ("item", 2)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        ("abcd", "awxy", Message("paired", found=Message("one-is-in-both", pairs=1, items=Message("items", n=4)))),
        ("ab", "xy", "not compared: 0 of the smaller run's 2 items are in the other run too; `unpaired` compares"),
        ("", "ab", Message("empty-run")),
    ],
)
def test_runs_are_compared_by_what_they_share_and_never_as_two_heaps_unasked(left, right, reason):
    pairing = pair_items(means(left), means(right), asked="auto", numbered=False).pairing
    assert pairing.test == "paired"
    assert str(pairing.reason).startswith(str(reason))


@pytest.mark.parametrize(
    ("before", "after", "units", "told"),
    [
        ("xxy.", "uuuu", Message("one-dialogue", n=1), ", as the candidate run has them"),
        ("xxy.", "xxy.", Message("dialogues", n=3), ", as the candidate run has them"),
        ("xxy.", "....", Message("dialogues", n=3), ", as the baseline run has them"),
        # One pair that the candidate knows does not make its other items independent of each other.
        ("xxxx", "uu..", Message("one-dialogue", n=1), ", as the baseline run has them"),
        ("xxyy", ".uu.", Message("one-dialogue", n=1), ": those of both runs, joined where they share an item"),
        ("xx..", "..uu", Message("dialogues", n=2), ": those of both runs, joined where they share an item"),
        # A dialogue's name means the same in both runs.
        ("xx..", "..xx", Message("one-dialogue", n=1), ": those of both runs, joined where they share an item"),
    ],
)
def test_pairs_that_share_a_dialogue_in_either_run_are_of_one_unit(before, after, units, told):
    ours, theirs = (means("abcd", clusters=[None if one == "." else one for one in names]) for names in (before, after))
    pairing = pair_items(ours, theirs, asked="auto", numbered=False).pairing
    assert (pairing.unit, pairing.clusters) == ("dialogue", units.values["n"])
    assert str(pairing.reason).endswith(f"; the units are {units}{told}")


def test_unpaired_items_are_in_the_dialogues_of_what_either_run_has_of_them():
    ours, theirs = (
        means(keys, clusters=[None if one == "." else one for one in names])
        for keys, names in (("abcd", "xxyy"), ("abefg", "..vv."))
    )
    unpaired = pair_items(ours, theirs, asked="unpaired", numbered=False).pairing
    assert str(unpaired.reason).endswith("; the units are 2 and 3 dialogues")


def count_units(before: list[str | None], after: list[str | None]) -> tuple[int, int, int]:
    """The clusters of a measure, paired and unpaired, and of its corrected difference."""
    draw = np.random.default_rng(0)

    def make(name: str, clusters: list[str | None]) -> ComparedRun:
        values = draw.integers(1, 6, len(clusters)).tolist()
        items = [
            Row(str(n), None, {"warmth": float(value)}, cluster=cluster, people={"warmth": float(value)})
            for n, (value, cluster) in enumerate(zip(values, clusters, strict=True))
        ]
        return make_run(name, {"warmth": []}, rows=items)

    baseline, candidate = make("b", before), make("a", after)
    key: MeasureKey = ("aspect", "warmth")
    pair = correct_pairs(baseline, candidate, [key], alpha=0.05, paired=True)[key]
    paired = compare(baseline, candidate).aspects["warmth"]
    unpaired = compare(baseline, candidate, test="unpaired").aspects["warmth"]
    return paired.clusters, unpaired.clusters, len(np.unique(pair.after.sample.clusters)) if pair.after else 0


def test_two_items_of_the_candidate_that_share_a_context_leave_the_baselines_dialogues_as_they_are():
    named: list[str | None] = [f"d{number // 10}" for number in range(200)]
    found: list[str | None] = ["found", "found", *[None] * 198]
    assert count_units(named, found) == count_units(found, named) == (20, 20, 20)


def test_an_item_is_in_the_dialogue_of_its_responses():
    items = [
        Row("a"),
        Row("a", cluster="d"),
        Row("b"),
    ]
    assert average_items(make_run("run", {"warmth": []}, rows=items)).frame.clusters.tolist() == [key_of("d"), 0]
    assert average_items(make_run("run", {"warmth": [1.0]})).frame.clusters.tolist() == [0]
    # Four items, of which the second is in two dialogues: they are one.
    row, clusters = np.array([0, 1, 1, 2, 3]), key_all(("d", "d", "e", "e", None))
    assert name_clusters(clusters, row, 4).tolist() == [*[key_of("d")] * 3, 0]


def test_the_caller_may_say_which_test():
    assert pair_items(means("abcd"), means("awxy"), asked="paired", numbered=False).pairing.test == "paired"
    unpaired = pair_items(means("ab"), means("ab"), asked="unpaired", numbered=False).pairing
    assert (unpaired.test, unpaired.pairs) == ("unpaired", 2)
    with pytest.raises(InvalidRequest, match="cannot be paired") as refused:
        pair_items(means("ab"), means("xy"), asked="paired", numbered=False)
    assert refused.value.pointer == "/test"


def test_other_contexts_under_one_id_are_counted_where_known():
    left, right = means("abc", ["1", "2", None]), means("abc", ["1", "9", "3"])
    pairing = pair_items(left, right, asked="auto", numbered=False).pairing
    assert (pairing.pairs, pairing.contexts_differ) == (3, 1)


def test_numbers_alone_make_no_pair_where_contexts_differ_or_are_not_known():
    left, right = means("0123", ["1", "2", None, "4"]), means("0123", ["1", "9", None, "4"])
    found = pair_items(left, right, asked="auto", numbered=True)
    pairing, rows = found.pairing, found.rows[0]
    assert rows.tolist() == [0, 3]
    assert (pairing.pairs, pairing.only_baseline, pairing.contexts_differ) == (2, 2, 0)
    assert "by number and context" in str(pairing.reason)


def test_contexts_of_which_some_are_gone_pair_nothing_by_number_and_differ_in_nothing():
    left, right = means("01", ["1", "2"]), means("01", ["hmac:1", "hmac:2"])
    found = pair_items(left, right, asked="auto", numbered=True, comparable=False)
    numbered, rows = found.pairing, found.rows[0]
    assert (numbered.test, rows.tolist()) == ("paired", [])
    named = pair_items(left, right, asked="auto", numbered=False, comparable=False).pairing
    assert (named.test, named.pairs, named.contexts_differ) == ("paired", 2, 0)
    assert all("for texts of a run were hashed or dropped; " in str(one.reason) for one in (numbered, named))


@pytest.mark.parametrize(
    ("texts", "comparable"),
    [
        (("keep", "keep"), True),
        (("hash", "hash"), True),
        (("keep", "hash"), False),
        (("drop", "keep"), False),
        (("drop", "drop"), False),
    ],
)
def test_contexts_are_comparable_where_both_runs_have_them_in_one_form(texts, comparable):
    before, after = (make_run("a", {"warmth": [1.0]}, texts=each) for each in texts)
    assert are_comparable(before, after) == comparable


def response(item: str, value: float | None, context: str | None = None) -> Row:
    return Row(item, context, {"warmth": value})


def test_an_item_has_the_mean_of_its_candidates_and_repetitions():
    values = [("a", 1.0), ("a", 5.0), ("a", 3.0), ("b", None), ("b", 4.0), ("c", None)]
    found = average_items(make_run("run", {"warmth": []}, rows=[response(*value) for value in values]))
    assert found.keys.tolist() == key_items([("a", None), ("b", None), ("c", None)]).tolist()
    assert found.column(("aspect", "warmth")).tolist()[:2] == [3.0, 4.0]
    assert np.isnan(found.column(("aspect", "warmth"))[2])
    assert np.isnan(found.column(("composite", "none"))).all()
    assert np.bincount(found.row).tolist() == [3, 2, 1]


def test_contexts_that_share_an_id_are_items_of_their_own():
    many = make_run("old", {"warmth": []}, rows=[response("d", float(n), f"c{n}") for n in range(10)])
    found = average_items(many)
    assert found.keys.tolist() == key_items(("d", f"c{number}") for number in range(10)).tolist()
    assert found.column(("aspect", "warmth")).tolist() == list(range(10))
    # Across runs they pair by their contexts, also with a run that has but one of them …
    one = make_run("new", {"warmth": []}, rows=[response("d", 1.0, "c3"), response("e", 1.0, "y")])
    apart = find_shared_ids(many.frame, one.frame)
    assert apart.tolist() == [key_of("d")]
    matched = pair_items(average_items(many, apart), average_items(one, apart), asked="auto", numbered=False)
    pairing, rows = matched.pairing, matched.rows[0]
    assert (rows.tolist(), pairing.contexts_differ) == ([3], 0)
    # … while an id with one context on both sides pairs by itself, and a context that is not known tells nothing.
    other = make_run("x", {}, rows=[response("e", 1.0, "z"), response("e", 1.0)])
    assert find_shared_ids(one.frame, other.frame).tolist() == []


def test_an_aspect_whose_best_lies_inside_counts_by_its_distance():
    run = make_run("run", {"formality": [-1, 0, 1, None]}, best={"formality": 0.0})
    assert average_items(run).rating_column(("aspect", "formality")).tolist()[:3] == [-1.0, 0.0, 1.0]
    first, *others = rows_of(run)
    found = average_items(with_rows(run, [dataclasses.replace(first, composites={"formality": -3.0}), *others]))
    assert found.column(("aspect", "formality")).tolist()[:3] == [-1.0, 0.0, -1.0]
    assert found.column(("composite", "formality")).tolist()[0] == -3.0

"""Dependencies between aspects: published figures, a plain reading of the definition, and the edges."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import linregress, mannwhitneyu

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.stats.hierarchy import find_hierarchy
from tests.support.small_observations import Row, observe

TOPICAL_CHAT = "data/topical_chat_usr.jsonl"


def read_topical_chat(shared: Path) -> list[Row]:
    path = shared / TOPICAL_CHAT
    if not path.exists():
        pytest.skip(f"../shared/{TOPICAL_CHAT} is not here")
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(row["system"], row["item"], row["ratings"]) for row in rows]


@pytest.fixture(scope="module")
def topical_chat(shared):
    return read_topical_chat(shared)


def test_the_dependencies_of_topical_chat(topical_chat):
    report = find_hierarchy(observe(topical_chat))
    found = {(one.lower, one.higher): (one.common, one.higher_only) for one in report.dependencies}
    assert found == {
        ("understandable", "natural"): (8, 1),
        ("understandable", "maintains_context"): (8, 1),
        ("understandable", "engaging"): (8, 1),
        ("understandable", "uses_knowledge"): (8, 1),
        ("understandable", "overall"): (8, 2),
        ("natural", "overall"): (9, 1),
        ("maintains_context", "overall"): (9, 1),
        ("engaging", "overall"): (9, 1),
        ("uses_knowledge", "overall"): (9, 1),
    }
    for one in report.dependencies:
        after = one.decorrelated
        assert (after.method, after.common_change, after.higher_only_change, after.new) == ("principal-axis", 0, 0, 0)
        assert (after.n, after.left_out, after.undefined) == (360, 0, {})


def test_the_json_has_the_names_of_the_contract(topical_chat):
    found = json.loads(find_hierarchy(observe(topical_chat)).model_dump_json())
    assert (found["alpha"], found["systems"], found["items"]) == (0.01, 6, 360)
    assert {name: aspect["pairs"] for name, aspect in found["aspects"].items()}["overall"] == 10
    assert {"lower", "higher", "common", "higher_only", "decorrelated"} == set(found["dependencies"][0])
    assert {"method", "common_change", "higher_only_change", "new"} <= set(found["dependencies"][0]["decorrelated"])


def test_raters_and_the_order_of_rows_change_nothing(topical_chat):
    """Three raters whose mean is the value, shuffled: the same dependencies and p."""
    random = np.random.default_rng(5)
    rows = [
        (system, item, {name: value + shift for name, value in ratings.items()})
        for system, item, ratings in topical_chat
        for shift in (-0.3, 0.1, 0.2)
    ]
    shuffled = [rows[place] for place in random.permutation(len(rows))]
    plain, found = find_hierarchy(observe(topical_chat)), find_hierarchy(observe(shuffled))

    def gather(report):
        pairs = {
            (name, pair.better, pair.worse, round(pair.p, 9))
            for name, aspect in report.aspects.items()
            for pair in aspect.significant
        }
        return pairs, {(one.lower, one.higher, one.common, one.higher_only) for one in report.dependencies}

    assert gather(plain) == gather(found)
    assert found.items == 360


def find_pairs(values, system, alpha):
    """D by the definition: SciPy on every pair of systems."""
    found = set()
    for a, b in permutations(sorted(set(system)), 2):
        first, second = (
            [value for value, own in zip(values, system, strict=True) if own == side and not np.isnan(value)]
            for side in (a, b)
        )
        if first and second:
            u, p = mannwhitneyu(first, second)
            if p < alpha and u > len(first) * len(second) / 2:
                found.add((a, b))
    return found


def take_out(x, y, method):
    if method == "residual":
        line = linregress(x, y)
        return np.round(y - line.slope * x, 9)
    _, axes = np.linalg.eigh(np.cov(x, y))
    axis = axes[:, np.argmax(np.abs(axes[1]))]
    return np.round((axis if axis[1] > 0 else -axis) @ np.array([x, y]), 9)


def make_rows(seed: int, missing: float) -> list[Row]:
    """Four systems apart by steps; fluency counts up to its ceiling only, and nobody is relevant who is not fluent."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for place, system in enumerate("pqrs"):
        for item in range(int(random.integers(20, 60))):
            fluent = float(random.integers(1, 4) if place == 0 else random.integers(2, 4))
            relevant = min(fluent, float(random.integers(1, 4))) + 0.5 * place
            ratings = {"fluent": fluent, "relevant": relevant, "overall": fluent + relevant + random.integers(0, 2)}
            kept = {name: value for name, value in ratings.items() if random.random() >= missing}
            rows.append((system, f"i{item}", kept))
    return rows


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.15]), st.sampled_from(["principal-axis", "residual"]))
@settings(deadline=None, max_examples=40)
def test_any_data_give_what_the_definition_says(seed, missing, method):
    observed = observe(make_rows(seed, missing))
    alpha = 0.05
    report = find_hierarchy(observed, alpha=alpha, method=method)
    system = [observed.systems[number] for number in observed.system]
    pairs = {name: find_pairs(values, system, alpha) for name, values in observed.ratings.items()}
    assert {name: {(one.better, one.worse) for one in report.aspects[name].significant} for name in pairs} == pairs
    expected = {(x, y) for x, y in permutations(pairs, 2) if pairs[x] and pairs[x] < pairs[y]}
    assert {(one.lower, one.higher) for one in report.dependencies} == expected
    for one in report.dependencies:
        low, high = observed.ratings[one.lower], observed.ratings[one.higher]
        held = ~np.isnan(low) & ~np.isnan(high)
        left = take_out(low[held], high[held], method)
        after = find_pairs(left, [own for own, keep in zip(system, held, strict=True) if keep], alpha)
        common, only = pairs[one.lower] & pairs[one.higher], pairs[one.higher] - pairs[one.lower]
        assert (one.common, one.higher_only) == (len(common), len(only))
        assert one.decorrelated.common_change == len(common & after) - len(common)
        assert one.decorrelated.higher_only_change == len(only & after) - len(only)
        assert one.decorrelated.new == len(after - pairs[one.higher])
        assert (one.decorrelated.n, one.decorrelated.left_out) == (int(held.sum()), int((~held).sum()))


def test_the_definition_is_met_by_the_made_data():
    """The property test above would show little if its data had no dependency."""
    found = [find_hierarchy(observe(make_rows(seed, 0.15)), alpha=0.05).dependencies for seed in range(20)]
    assert sum(map(len, found)) > 10


def test_the_same_ratings_tie_in_whatever_order_they_were_added():
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 in floats: one system had all wins, and there is no difference at all."""
    orders = {"p": (0.1, 0.2, 0.3), "q": (0.3, 0.2, 0.1)}
    assert sum(orders["p"]) > sum(orders["q"])
    rows = [
        (system, f"i{item}", {"a": value})
        for system, values in orders.items()
        for item in range(30)
        for value in values
    ]
    assert find_hierarchy(observe(rows)).aspects["a"].pairs == 0


def test_one_absurd_rating_counts_as_the_highest_and_no_more():
    plain = [*spread("p", [item % 4 for item in range(40)]), *spread("q", [item % 4 + 1 for item in range(39)])]
    usual, absurd = [*plain, ("q", "last", {"a": 9.0})], [*plain, ("q", "last", {"a": 1e15})]
    before, after = (find_hierarchy(observe(rows)).aspects["a"] for rows in (usual, absurd))
    assert before.significant == after.significant
    assert [(one.better, one.worse) for one in after.significant] == [("q", "p")]


def spread(system, values, name="a"):
    return [(system, f"i{number}", {name: float(value)}) for number, value in enumerate(values)]


def test_equal_sets_do_not_depend():
    rows = [
        (system, f"i{number}", {"a": float(number % 3 + shift), "b": float(number % 3 + shift)})
        for system, shift in (("p", 0), ("q", 3))
        for number in range(30)
    ]
    report = find_hierarchy(observe(rows))
    assert [aspect.pairs for aspect in report.aspects.values()] == [1, 1]
    assert report.dependencies == ()
    assert report.undefined == {}


def test_sets_of_opposite_direction_do_not_depend():
    """D(a) is q > p alone, as r has no a. D(b) is p > q, r > p, r > q: the same pair of systems the other way round."""
    shifts = {"p": {"a": 0, "b": 3}, "q": {"a": 3, "b": 0}, "r": {"b": 9}}
    rows = [
        (system, f"i{number}", {name: float(number % 2 + shift) for name, shift in aspects.items()})
        for system, aspects in shifts.items()
        for number in range(40)
    ]
    report = find_hierarchy(observe(rows))
    found = {name: {(one.better, one.worse) for one in report.aspects[name].significant} for name in "ab"}
    assert found == {"a": {("q", "p")}, "b": {("p", "q"), ("r", "p"), ("r", "q")}}
    assert report.dependencies == ()


@pytest.mark.parametrize("alpha", [0.0, 1.0, float("nan")])
def test_alpha_is_refused_outside_its_range(alpha):
    with pytest.raises(InvalidRequest):
        find_hierarchy(observe(spread("p", [1, 2]) + spread("q", [1, 2])), alpha=alpha)


@pytest.mark.parametrize(
    ("rows", "aspect", "whole"),
    [
        (spread("p", range(50)), "one system has values", "1 system"),
        (spread("p", [2] * 40) + spread("q", [2] * 40), Message("same-value"), "1 aspect"),
        (spread("p", range(3)) + spread("q", range(3, 6)), "so few items cannot give a p below 0.047", "1 aspect"),
        ([*spread("p", range(40)), ("q", "i0", {})], "one system has values", "1 aspect"),
        (spread("p", [float("nan")] * 3) + spread("q", [float("nan")]), Message("no-item-has-value"), "1 aspect"),
    ],
)
def test_data_that_can_show_nothing_say_so(rows, aspect, whole):
    report = find_hierarchy(observe(rows))
    assert report.aspects["a"].pairs == 0
    assert str(aspect) in str(report.aspects["a"].undefined["pairs"])
    assert whole in str(report.undefined["dependencies"])
    assert "NaN" not in report.model_dump_json()


def test_no_rows_say_so():
    report = find_hierarchy(observe([]))
    assert (report.systems, report.items, report.aspects) == (0, 0, {})
    assert "no system" in str(report.undefined["dependencies"])


def test_aspects_that_tell_nothing_apart_say_so():
    rows = [
        (system, f"i{number}", {"a": float(number), "b": float(-number)}) for system in "pq" for number in range(30)
    ]
    assert find_hierarchy(observe(rows)).undefined == {"dependencies": Message("nothing-told-apart")}


def test_values_that_lack_are_counted():
    rows = [*spread("p", range(20)), *spread("q", range(15)), ("q", "i15", {}), ("q", "i16", {"b": 1.0})]
    report = find_hierarchy(observe(rows))
    assert (report.items, report.aspects["a"].n, report.aspects["a"].left_out) == (37, 35, 2)
    assert (report.aspects["b"].n, report.aspects["b"].left_out, report.aspects["b"].tested) == (1, 36, 0)
    assert report.aspects["a"].tested == 1

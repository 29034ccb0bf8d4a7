from graphlib import CycleError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.analyses.charts.dependencies import DependencyLabels, arrange, build_dependencies, reduce
from saiten_server.core.reports import AspectPairs, Decorrelated, Dependency, HierarchyReport
from tests.support.drawing import Drawing, draw, place

LABELS = DependencyLabels(title="Dependencies", description="d", alone="without a dependency", nothing="no aspects")
DECORRELATED = Decorrelated(
    method="residual", n=9, left_out=0, common_change=None, higher_only_change=None, new=None, undefined={}
)


def report(names: list[str], *edges: tuple[str, str, int, int]) -> HierarchyReport:
    return HierarchyReport(
        alpha=0.05,
        systems=6,
        items=60,
        aspects={
            name: AspectPairs(
                pairs=number, tested=15, n=60, left_out=0, significant=(), undefined={} if number else {"pairs": "few"}
            )
            for number, name in enumerate(names)
        },
        dependencies=tuple(
            Dependency(lower=lower, higher=higher, common=common, higher_only=only, decorrelated=DECORRELATED)
            for lower, higher, common, only in edges
        ),
    )


def heights(drawn: Drawing) -> dict[str, float]:
    return {mark.text or "": place(mark)[1] for mark in drawn.marks("names")}


def test_higher_aspects_stand_above_lower_ones() -> None:
    drawn = draw(
        build_dependencies(report(["a", "b", "c"], ("a", "b", 3, 1), ("b", "c", 4, 2), ("a", "c", 3, 3)), LABELS)
    )
    at = heights(drawn)
    assert at["c"] < at["b"] < at["a"]
    assert sorted(drawn.texts("counts")) == ["3 / +1", "4 / +2"]
    assert len(drawn.marks("arrows")) == len(drawn.marks("edges")) == 2
    assert len(drawn.marks("boxes")) == 3
    assert not drawn.marks("alone")


def test_aspects_without_a_dependency_stand_below() -> None:
    drawn = draw(build_dependencies(report(["a", "b", "c"], ("a", "b", 3, 1)), LABELS))
    at = heights(drawn)
    assert at["c"] > at["a"] > at["b"]
    assert drawn.texts("alone-text") == ["without a dependency"]
    (alone,) = drawn.marks("alone")
    assert alone.get("stroke-dasharray")


def test_a_long_edge_goes_around_the_boxes_between() -> None:
    found = report(["a", "b", "c", "d", "e"], ("a", "b", 1, 1), ("b", "c", 1, 1), ("a", "d", 1, 1), ("d", "c", 1, 1),
                   ("c", "e", 1, 1))  # fmt: skip
    assert len(draw(build_dependencies(found, LABELS)).marks("arrows")) == 5
    found = report(
        list("abcdx"), ("a", "b", 1, 1), ("b", "c", 1, 1), ("c", "d", 1, 1), ("a", "x", 1, 1), ("x", "d", 1, 1)
    )
    drawn = draw(build_dependencies(found, LABELS))
    assert len(drawn.marks("arrows")) == 5
    assert len(drawn.marks("edges")) == 7  # one edge has three pieces


def test_figures_are_pairs_of_those_tested_or_a_dash() -> None:
    assert draw(build_dependencies(report(["a", "b"]), LABELS)).texts("figures") == ["–", "1 / 15"]


def test_names_are_the_readers_where_there_are_some() -> None:
    drawn = draw(build_dependencies(report(["a", "b"]), LABELS, names={"a": "関連性"}))
    assert drawn.texts("names") == ["関連性", "b"]


def test_texts_of_edges_do_not_lie_on_each_other() -> None:
    lower = [f"l{number}" for number in range(5)]
    drawn = draw(build_dependencies(report([*lower, "top"], *((name, "top", 10, 10) for name in lower)), LABELS))
    spots = sorted(map(place, drawn.marks("counts")))
    assert len(spots) == 5
    for (x, y), (other_x, other_y) in pairwise(spots):
        assert abs(x - other_x) > 40 or abs(y - other_y) > 12


def test_one_aspect_and_none() -> None:
    one = draw(build_dependencies(report(["a"]), LABELS))
    assert one.texts("names") == ["a"]
    assert one.size[0] == 328
    assert draw(build_dependencies(report([]), LABELS)).all_texts() == ["no aspects"]


NAMES = tuple("abcdefgh")
DAGS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1]), max_size=20
).map(lambda pairs: [(NAMES[one], NAMES[other]) for one, other in pairs])


def reach(edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


@given(DAGS)
def test_reduction_says_the_same_with_least_edges(edges: list[tuple[str, str]]) -> None:
    kept = list(reduce(edges))
    assert reach(kept) == reach(edges)
    assert all(edge not in reach([one for one in kept if one != edge]) for edge in kept)


@given(DAGS)
def test_every_edge_leads_up_and_every_aspect_stands_once(edges: list[tuple[str, str]]) -> None:
    layers = arrange(NAMES, edges)
    depth = {place: number for number, row in enumerate(layers.rows) for place in row}
    boxes = [place for row in layers.rows for place in row if isinstance(place, str)]
    assert sorted([*boxes, *layers.alone]) == sorted(NAMES)
    for lower, higher in layers.edges:
        assert depth[lower] < depth[higher]
        assert all((lower, higher, between) in depth for between in range(depth[lower] + 1, depth[higher]))
    assert all(row for row in layers.rows)


def test_an_order_without_crossings_is_found() -> None:
    layers = arrange("abcd", [("a", "d"), ("b", "c")])
    lower, higher = layers.rows
    assert (lower.index("a") < lower.index("b")) == (higher.index("d") < higher.index("c"))


def test_a_circle_is_refused() -> None:
    with pytest.raises(CycleError):
        arrange("ab", [("a", "b"), ("b", "a")])

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.charts.layers import arrange, reduce

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

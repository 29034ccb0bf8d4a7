"""The drawing of dependencies: its layers, arrows and figures, and the systems' values below it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")

from matplotlib.axes import Axes

from app.analysis.hierarchy import find_hierarchy
from app.analysis.reading import ObservationReader, read_ndjson
from app.plots.graph import NODE_HEIGHT, arrange
from app.plots.hierarchy import build_hierarchy
from app.plots.lettering import letter
from tests.unit.cli.test_plots import LATIN, arrows, depends, dots, hierarchy, observe, texts


def test_the_graph_of_topical_chat(shared: Path):
    with (shared / "data" / "topical_chat_usr.jsonl").open("rb") as lines:
        observations = read_ndjson(lines, ObservationReader())
    figure, notes = build_hierarchy(find_hierarchy(observations), observations)
    labels = [text for text in texts(figure) if " / +" in text and "common" not in text]
    # method.md, section 6: four up to the middle layer, four from there, and the one that follows, which is dashed.
    assert sorted(labels) == ["8 / +1"] * 4 + ["8 / +2"] + ["9 / +1"] * 4
    assert [arrow.get_linestyle() for arrow in arrows(figure)].count("solid") == 8
    assert "10 of 15 pairs" in texts(figure)
    assert notes == []


def test_what_follows_is_dashed_and_decorrelation_is_told_where_it_changes_anything():
    chain = hierarchy("abc", [depends("a", "b", 5, 2, -1), depends("b", "c"), depends("a", "c", change=None)])
    figure, notes = build_hierarchy(chain, None)
    said = texts(figure)
    assert "5 / +2" in said
    assert "(−1 / −1, 1 new)" in said
    assert said.count("(–)") == 1
    brackets = "in brackets: their change by decorrelation (residual), and pairs new after it; –: undefined"
    assert any(text.endswith(brackets) for text in said)
    calm = texts(build_hierarchy(hierarchy("ab", [depends("a", "b")]), None)[0])
    assert any(text.endswith("decorrelation (residual) changes none of them") for text in calm)
    assert not any("in brackets" in text for text in calm)
    assert [arrow.get_linestyle() == "solid" for arrow in arrows(figure)] == [True, True, False]
    assert notes == []


def test_layers_follow_the_dependencies_and_the_rest_stands_below():
    report = hierarchy("abcd", [depends("a", "b"), depends("b", "c"), depends("a", "c")])
    places = arrange(report, letter("abcd", faces=[LATIN])).places
    assert places["a"][0] < places["b"][0] < places["c"][0]
    assert places["d"][1] < min(places[name][1] for name in "abc")


def test_no_dependency_is_said_with_its_reason():
    figure, _ = build_hierarchy(hierarchy("ab", undefined={"dependencies": "no aspect tells any two apart"}), None)
    assert "No aspect depends on another: no aspect tells any two apart" in texts(figure)
    assert arrows(figure) == []


def test_a_graph_too_dense_for_counts_says_so():
    lower, higher = [f"l{number}" for number in range(5)], [f"h{number}" for number in range(4)]
    dense = hierarchy([*lower, *higher], [depends(one, other) for one in lower for other in higher])
    figure, notes = build_hierarchy(dense, None)
    assert len(arrows(figure)) == 20
    assert not [text for text in texts(figure) if text.startswith("1 / +1")]
    assert notes == ["the graph has no counts: 20 edges leave no room for them"]


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda edge: edge[0] < edge[1]), max_size=14))
@settings(deadline=None)
def test_boxes_never_lie_on_each_other_and_edges_pass_between_them(edges: set[tuple[int, int]]):
    names = [f"aspect {number}" for number in range(10)]
    report = hierarchy(names, [depends(names[lower], names[higher]) for lower, higher in sorted(edges)])
    layout = arrange(report, letter(names, faces=[LATIN]))
    boxes = list(layout.places.values())
    assert len(boxes) == 10
    for number, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:number]:
            assert abs(x - other_x) >= layout.node_width or abs(y - other_y) >= NODE_HEIGHT
        for stop_x, stop_y in (stop for stops in layout.detours.values() for stop in stops):
            # An edge goes through a stop along its layer's depth, as deep as a box.
            width, height = (0.5, 1.0) if layout.upward else (1.0, 0.5)
            aside = abs(x - stop_x) >= width * layout.node_width
            assert aside or abs(y - stop_y) >= height * NODE_HEIGHT


def test_a_deep_graph_grows_upwards():
    names = [f"aspect {number}" for number in range(12)]
    layout = arrange(hierarchy(names, [depends(*pair) for pair in pairwise(names)]), letter(names, faces=[LATIN]))
    assert layout.upward
    assert layout.places["aspect 0"][1] < layout.places["aspect 11"][1]


def test_systems_stand_in_one_order_the_best_first():
    observations = observe(["natural", "overall"], systems=4, items=80)
    figure, _ = build_hierarchy(find_hierarchy(observations), observations)
    panels = [
        axes
        for axes in figure.findobj()
        if hasattr(axes, "get_yticklabels") and "system 3" in [label.get_text() for label in axes.get_yticklabels()]
    ]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [
        f"system {number}" for number in (3, 2, 1, 0)
    ]
    means = observations.means(observations.ratings["natural"])
    wanted = [means[observations.unit_system == system].mean() for system in (3, 2, 1, 0)]
    assert [x for x, _ in dots(panels[0], "o")] == pytest.approx(wanted)


def test_value_axes_are_named_and_reach_over_all_ratings():
    observations = observe(["natural", "amount"], systems=3)
    folded = replace(
        observations,
        ratings={**observations.ratings, "amount": -np.abs(observations.ratings["amount"] - 3)},
        folded={"amount": 3.0},
    )
    figure, _ = build_hierarchy(find_hierarchy(folded), folded)
    panels = {axes.get_xlabel(): axes for axes in figure.findobj(Axes) if "rating" in axes.get_xlabel()}
    assert set(panels) == {"rating", "−|rating − 3|"}
    low, high = panels["rating"].get_xlim()
    assert (low < 1, high > 5) == (True, True)
    assert any(text.endswith("systems sorted by mean") for text in texts(figure))

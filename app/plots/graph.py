"""The graph of dependencies: aspects in layers, the lower ones first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import networkx as nx
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from app.domain.reports import AspectPairs, Dependency, HierarchyReport
from app.plots.canvas import BLUE, DASH, GREY, INK, PALE, SMALL, TEXT, TINY, head, plain, say
from app.plots.lettering import Lettering, columns

CHARACTER_INCHES = 0.085
NODE_HEIGHT, SLOT, LAYER_GAP = 0.5, 0.85, 1.3
STOP_SLOT = 0.3
GAP_PER_EDGE, WIDEST_GAP = 0.03, 2.6
WIDEST = 14.0
"""Inches; a deeper graph grows upwards instead of to the right."""

MOST_TRANSITIVE = 6
"""More arcs around the others would only hide them; the reduced graph says the same."""

ARC_INCHES = 0.38
MOST_LABELLED = 16
"""Edges; with more, counts would lie on each other."""

UNDEFINED = f"({DASH})"
SWEEPS = 3

Place = tuple[float, float]
Edge = tuple[str, str]


@dataclass(frozen=True)
class Layout:
    """Where each aspect's box has its centre, in inches; `upward` where layers stand one above the other.

    `detours` are the places between the boxes through which an edge goes that spans several layers.
    """

    places: Mapping[str, Place]
    detours: Mapping[Edge, Sequence[Place]]
    node_width: float
    upward: bool

    @property
    def size(self) -> tuple[float, float]:
        """Width and height with a margin, in inches."""
        left, right, low, high = extent(self)
        return right - left + self.node_width + 0.9, high - low + 0.8


def reduce(report: HierarchyReport) -> Any:
    """The dependencies as a graph without those that follow from others; every aspect is a node."""
    graph = nx.DiGraph()
    graph.add_nodes_from(report.aspects)
    graph.add_edges_from((one.lower, one.higher) for one in report.dependencies)
    return nx.transitive_reduction(graph)


def arrange(report: HierarchyReport, letters: Lettering) -> Layout:
    """Layers by the longest way to each aspect, each ordered by its neighbours; aspects without any stand below."""
    graph = reduce(report)
    alone = [name for name in report.aspects if graph.degree(name) == 0]
    layers, steps = spread(graph.subgraph(set(graph) - set(alone)), list(report.aspects))
    width = max((columns(letters.show(name)) for name in report.aspects), default=0) * CHARACTER_INCHES + 0.35
    width = max(width, 1.25)
    upward = len(layers) * (width + LAYER_GAP) > WIDEST
    gap = min(WIDEST_GAP, LAYER_GAP + GAP_PER_EDGE * graph.number_of_edges())
    step, slot = (NODE_HEIGHT + gap / 2, width + 0.3) if upward else (width + gap, SLOT)
    places: dict[Any, Place] = {}
    for depth, layer in enumerate(order(steps, layers)):
        for name, across in zip(layer, line_up(layer, slot), strict=True):
            places[name] = (across, depth * step) if upward else (depth * step, -across)
    detours: dict[Edge, list[Place]] = {}
    for stop in [name for name in places if isinstance(name, tuple)]:
        detours.setdefault(stop[:2], []).append(places.pop(stop))
    stand_below(places, alone, width)
    return Layout(places, detours, width, upward)


def line_up(layer: Sequence[Any], slot: float) -> list[float]:
    """The places of a layer's boxes and stops along it, in inches, about its middle; a stop needs less room."""
    rooms = [STOP_SLOT if isinstance(name, tuple) else slot for name in layer]
    ends = list(accumulate(rooms))
    return [end - room / 2 - ends[-1] / 2 for end, room in zip(ends, rooms, strict=True)]


def spread(graph: Any, names: Sequence[str]) -> tuple[list[list[Any]], Any]:
    """The layers with a stop (lower, higher, layer) wherever an edge passes one by, and the graph of single steps."""
    # networkx keeps sets, whose order differs from run to run; a drawing must not.
    layers: list[list[Any]] = [sorted(layer, key=names.index) for layer in nx.topological_generations(graph)]
    depth = {name: number for number, layer in enumerate(layers) for name in layer}
    steps = nx.DiGraph()
    steps.add_nodes_from(graph)
    for lower, higher in sorted(graph.edges, key=lambda edge: (names.index(edge[0]), names.index(edge[1]))):
        stops = [(lower, higher, between) for between in range(depth[lower] + 1, depth[higher])]
        for stop in stops:
            layers[stop[2]].append(stop)
        nx.add_path(steps, [lower, *stops, higher])
    return layers, steps


def stand_below(places: dict[str, Place], alone: Sequence[str], width: float) -> None:
    """Puts the aspects without a dependency into rows under the graph."""
    left = min((x for x, _ in places.values()), default=0.0)
    right = max((x for x, _ in places.values()), default=4 * (width + 0.3))
    fit = max(4, int((right - left) / (width + 0.3)) + 1)
    floor = min((y for _, y in places.values()), default=SLOT) - 1.1 * SLOT
    for position, name in enumerate(alone):
        places[name] = (left + position % fit * (width + 0.3), floor - position // fit * 0.8 * SLOT)


def order(steps: Any, layers: list[list[Any]]) -> list[list[Any]]:
    """Each layer by the mean position of its neighbours, forth and back (Sugiyama 1981), so that few edges cross."""
    ordered = [list(layer) for layer in layers]
    for forward in (True, False) * SWEEPS:
        neighbours = steps.predecessors if forward else steps.successors
        numbered = range(1, len(ordered)) if forward else range(len(ordered) - 2, -1, -1)
        for number in numbered:
            beside = ordered[number - 1 if forward else number + 1]
            at = {name: position - (len(beside) - 1) / 2 for position, name in enumerate(beside)}
            ordered[number].sort(key=lambda name: centre(neighbours(name), at))
    return ordered


def centre(names: Iterable[Any], at: Mapping[Any, float]) -> float:
    """The mean position of those that have one; the middle where none has."""
    found = [at[name] for name in names if name in at]
    return sum(found) / len(found) if found else 0.0


def arcs_height(report: HierarchyReport, layout: Layout) -> float:
    """How much room the arcs take beyond the layout, in inches."""
    arcs = len(find_arcs(report, layout))
    return (arcs + 1) * ARC_INCHES if arcs else 0.0


def find_arcs(report: HierarchyReport, layout: Layout) -> list[Dependency]:
    """The dependencies that follow from others and are drawn, as arcs around them: between boxes that stand outermost
    in their layers, where they are not too many."""
    kept, outer = set(reduce(report).edges), find_outer(layout)
    follow = [
        one for one in report.dependencies if (one.lower, one.higher) not in kept and {one.lower, one.higher} <= outer
    ]
    return follow if len(follow) <= MOST_TRANSITIVE else []


def find_outer(layout: Layout) -> set[str]:
    """The aspects with no box between them and the side on which arcs run."""
    outer: dict[float, tuple[float, str]] = {}
    for name, (x, y) in layout.places.items():
        along, across = (y, x) if layout.upward else (x, y)
        outer[along] = max(outer.get(along, (across, name)), (across, name))
    return {name for _, name in outer.values()}


def draw_graph(
    axes: Any, report: HierarchyReport, layout: Layout, letters: Lettering, room: tuple[float, float]
) -> list[str]:
    """Draws it into a panel of so many inches, and returns what was left out of it."""
    if not report.aspects:
        say(axes, "no aspect has a rating")
        return []
    axes.set_axis_off()
    axes.set_aspect("equal")
    head(axes, letters.write(title_of(report)))
    for name, found in report.aspects.items():
        draw_node(axes, name, found, layout, letters)
    kept, shown = set(reduce(report).edges), find_arcs(report, layout)
    labelled = len(kept) <= MOST_LABELLED
    for one in report.dependencies:
        if (one.lower, one.higher) in kept:
            draw_edge(axes, one, layout, fan_of(one, kept) if labelled else None)
    reach = extent(layout)[1 if layout.upward else 3]
    for number, one in enumerate(shown, start=1):
        draw_arc(axes, one, layout, reach + ARC_INCHES * number + NODE_HEIGHT / 2)
    frame(axes, layout, len(shown), room)
    told = [one for one in report.dependencies if labelled and (one.lower, one.higher) in kept] + shown
    axes.figure.supxlabel("\n".join(describe_signs(told)), fontsize=SMALL, color=GREY)
    left_out = len(report.dependencies) - len(kept) - len(shown)
    follow = [f"{left_out} dependencies that follow from those drawn are left out of the graph"] if left_out else []
    return follow + ([] if labelled else [f"the graph has no counts: {len(kept)} edges leave no room for them"])


def extent(layout: Layout) -> tuple[float, float, float, float]:
    """The least and the greatest x, then y, of the boxes' centres and the detours."""
    taken = [*layout.places.values(), *(stop for stops in layout.detours.values() for stop in stops)] or [(0.0, 0.0)]
    xs, ys = [x for x, _ in taken], [y for _, y in taken]
    return min(xs), max(xs), min(ys), max(ys)


def title_of(report: HierarchyReport) -> str:
    """What the arrows are, or why there are none."""
    if report.dependencies:
        return "Dependencies, from the lower aspect to the higher (dashed: follows from others)"
    reason = next(iter(report.undefined.values()), "")
    return "No aspect depends on another" + (f": {reason}" if reason else "")


def describe_signs(told: Sequence[Dependency]) -> list[str]:
    """What the figures in the boxes and on the arrows are; `told` are the arrows that have figures."""
    lines = ["in a box: pairs of systems that the aspect tells apart, of those tested"]
    if not told:
        return lines
    lines.append("on an arrow: common pairs, which both aspects tell apart / + those that only the higher one does")
    methods = "; ".join(dict.fromkeys(one.decorrelated.method for one in told))
    if not any(map(describe_change, told)):
        return [*lines, f"decorrelation ({methods}) changes none of them"]
    undefined = f"; {DASH}: undefined" if any(describe_change(one) == UNDEFINED for one in told) else ""
    return [*lines, f"in brackets: their change by decorrelation ({methods}), and pairs new after it{undefined}"]


def frame(axes: Any, layout: Layout, arcs: int, room: tuple[float, float]) -> None:
    """Sets the limits to inches, with room for the arcs on their side, so that a box is as large in every drawing."""
    left, right, low, high = extent(layout)
    extra = (arcs + 1) * ARC_INCHES if arcs else 0.0
    side, top = (extra, 0.0) if layout.upward else (0.0, extra)
    width, height = layout.node_width / 2 + 0.15, NODE_HEIGHT / 2 + 0.15
    axes.set_xlim(*widen(left - width, right + width + side, room[0]))
    axes.set_ylim(*widen(low - height, high + height + top, room[1]))


def widen(low: float, high: float, least: float) -> tuple[float, float]:
    """The range about its middle, at least so long."""
    more = max(0.0, least - (high - low)) / 2
    return low - more, high + more


def draw_node(axes: Any, name: str, found: AspectPairs, layout: Layout, letters: Lettering) -> None:
    """A box with the name and how many pairs of systems the aspect tells apart; the more, the darker."""
    x, y = layout.places[name]
    share = found.pairs / found.tested if found.tested else 0.0
    corner = (x - layout.node_width / 2, y - NODE_HEIGHT / 2)
    fill = blend(share) if found.pairs else PALE
    box = FancyBboxPatch(
        corner,
        layout.node_width,
        NODE_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.1",
        facecolor=fill,
        edgecolor=BLUE if found.pairs else GREY,
        linewidth=1,
        zorder=3,
    )
    axes.add_patch(box)
    pairs = DASH if "pairs" in found.undefined else f"{found.pairs} of {found.tested} pairs"
    axes.text(
        x, y + 0.09, letters.show(name), ha="center", va="center", fontsize=TEXT, weight="bold", color=INK, zorder=4
    )
    axes.text(x, y - 0.12, pairs, ha="center", va="center", fontsize=SMALL - 1, color=INK, zorder=4)


def blend(share: float) -> tuple[float, float, float]:
    """A blue on which black is read, from almost white to light."""
    weight = 0.12 + 0.38 * share
    return tuple(1 - weight * (1 - part) for part in (0.0, 0.447, 0.698))  # type: ignore[return-value]


def fan_of(one: Dependency, kept: set[tuple[str, str]]) -> float:
    """Where along the edge its label stands: nearer to the end at which fewer edges meet."""
    out = sum(lower == one.lower for lower, _ in kept)
    into = sum(higher == one.higher for _, higher in kept)
    return 0.5 if out == into else 0.64 if out > into else 0.36


def draw_edge(axes: Any, one: Dependency, layout: Layout, fan: float | None) -> None:
    """An arrow between two boxes, around those between, with its counts unless `fan` is None."""
    start, end = ports(one, layout)
    points = [start]
    half = (0.0, NODE_HEIGHT / 2) if layout.upward else (layout.node_width / 2, 0.0)
    for x, y in layout.detours.get((one.lower, one.higher), ()):
        points += [(x - half[0], y - half[1]), (x + half[0], y + half[1])]
    points.append(end)
    arrow = FancyArrowPatch(path=Path(points), arrowstyle="-|>", mutation_scale=11, color=INK, linewidth=1.1, zorder=2)
    axes.add_patch(arrow)
    if fan is not None:
        (x, y), (to_x, to_y) = points[-2:] if fan > 0.5 else points[:2]
        draw_label(axes, (x + fan * (to_x - x), y + fan * (to_y - y)), one)


def ports(one: Dependency, layout: Layout) -> tuple[Place, Place]:
    """Where the edge leaves the lower aspect's box and meets the higher one's."""
    (x, y), (to_x, to_y) = layout.places[one.lower], layout.places[one.higher]
    if layout.upward:
        return (x, y + NODE_HEIGHT / 2), (to_x, to_y - NODE_HEIGHT / 2)
    return (x + layout.node_width / 2, y), (to_x - layout.node_width / 2, to_y)


def draw_arc(axes: Any, one: Dependency, layout: Layout, reach: float) -> None:
    """A dashed arrow around the layers between, at that distance from the middle."""
    (x, y), (to_x, to_y) = layout.places[one.lower], layout.places[one.higher]
    half = NODE_HEIGHT / 2
    if layout.upward:
        edge = layout.node_width / 2
        start, end, apex = (x + edge, y), (to_x + edge, to_y), (reach + edge - half, (y + to_y) / 2)
    else:
        start, end, apex = (x, y + half), (to_x, to_y + half), ((x + to_x) / 2, reach)
    # A quadratic curve passes half-way between its chord and its control point.
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    across = (apex[1] - middle[1], apex[0] - middle[0])[layout.upward]
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    bend = (1 if layout.upward else -1) * 2 * across / length
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            connectionstyle=f"arc3,rad={bend:.4f}",
            arrowstyle="-|>",
            mutation_scale=9,
            color=GREY,
            linewidth=0.9,
            linestyle=(0, (4, 3)),
            zorder=1,
        )
    )
    draw_label(axes, apex, one)


def draw_label(axes: Any, spot: Place, one: Dependency) -> None:
    """`8 / +1`, and below it what decorrelation changes, where it changes anything."""
    axes.text(
        *spot,
        f"{one.common} / +{one.higher_only}",
        ha="center",
        va="center",
        fontsize=SMALL,
        color=INK,
        zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    if change := describe_change(one):
        axes.annotate(
            change,
            spot,
            xytext=(0, -9),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=TINY,
            style="italic",
            color=GREY,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )


def describe_change(one: Dependency) -> str:
    """`(−2 / −1, 3 new)`; empty where nothing changes."""
    found = one.decorrelated
    if found.common_change is None or found.higher_only_change is None or found.new is None:
        return UNDEFINED
    if not (found.common_change or found.higher_only_change or found.new):
        return ""
    return f"({plain(found.common_change, 0)} / {plain(found.higher_only_change, 0)}, {found.new} new)"

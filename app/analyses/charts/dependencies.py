"""The graph of dependencies between aspects, the lower aspects below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

from saiten.core.figures import DASH
from saiten_server.core.reports import Dependency, HierarchyReport
from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    SMALL,
    SURFACE,
    ChartLabels,
    ChartRow,
    Spec,
    fit_text,
    layer,
    letters,
    measure_width,
    pixels,
    small,
)

BOX_HEIGHT, ROW_GAP, BETWEEN, STOP, FIGURE_MARGIN = 40, 66, 14, 26, 4
LEAST_BOX, CROWDED_BOX, WIDEST_BOX = 84.0, 104.0, 150.0
ARROW = 7
BOLD = 1.1
"""Times as wide as plain text."""

PORT = 30

Point = tuple[float, float]

Edge = tuple[str, str]
"""The lower aspect and the higher."""

Stop = tuple[str, str, int]
"""The point where an edge passes a layer between its ends."""

NodeName = str | Stop
SWEEPS = 4


@dataclass(frozen=True)
class DependencyLabels(ChartLabels):
    """`alone` stands above the aspects that have no dependency; what the figures mean is the page's to say."""

    alone: str


@dataclass(frozen=True)
class Layout:
    """Middles of boxes and stops, in pixels from the left and the top."""

    places: Mapping[NodeName, Point]
    box: float
    width: float
    height: float
    alone_at: float | None


def build_dependencies(
    report: HierarchyReport,
    labels: DependencyLabels,
    *,
    names: Mapping[str, str] | None = None,
    width: int = canvas.PHONE_WIDTH,
) -> Spec:
    """Boxes with arrows from the lower aspect to the higher; arrows that follow from others are left out. `names` are
    the aspects' in the reader's language, where they have one."""
    if not report.aspects:
        return canvas.say_nothing(labels, width)
    shown = {name: (names or {}).get(name, name) for name in report.aspects}
    layers = arrange(tuple(report.aspects), [(one.lower, one.higher) for one in report.dependencies])
    layout = place_layers(layers, choose_box(shown.values(), layers, width), width)
    found = {(one.lower, one.higher): one for one in report.dependencies}
    drawn = [*draw_edges(layers.edges, found, layout), *draw_boxes(report, shown, layers, layout)]
    if layout.alone_at is not None:
        heading = [{"text": fit_text(labels.alone, layout.width - 2 * FIGURE_MARGIN, SMALL)}]
        drawn.append(small("alone-text", heading, {"value": FIGURE_MARGIN}, {"value": layout.alone_at}))
    return canvas.frame(drawn, labels, width=layout.width, height=layout.height)


def choose_box(names: Iterable[str], layers: Layers, width: int) -> float:
    """The width of boxes: that of the longest name, but narrower where many are side by side."""
    most = max(map(len, layers.rows), default=1)
    room = min(WIDEST_BOX, max(CROWDED_BOX, width / most - BETWEEN))
    return max(LEAST_BOX, *(min(room, BOLD * measure_width(fit_text(name, WIDEST_BOX)) + 18) for name in names))


def place_layers(layers: Layers, box: float, width: int) -> Layout:
    """The layers one above the other about the middle, the aspects without a dependency in rows below."""
    rooms = [[STOP if isinstance(place, tuple) else box + BETWEEN for place in row] for row in layers.rows]
    total = max([width, *(sum(room) - BETWEEN + 2 * FIGURE_MARGIN for room in rooms)])
    places: dict[NodeName, Point] = {}
    for depth, (row, room) in enumerate(zip(layers.rows, rooms, strict=True)):
        left = (total - sum(room)) / 2
        y = FIGURE_MARGIN + BOX_HEIGHT / 2 + (len(layers.rows) - 1 - depth) * (BOX_HEIGHT + ROW_GAP)
        for place, taken in zip(row, room, strict=True):
            places[place] = (left + taken / 2, y)
            left += taken
    bottom = len(layers.rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + 2 * FIGURE_MARGIN if layers.rows else 0.0
    if not layers.alone:
        return Layout(places, box, total, bottom, None)
    fitting = max(1, int((total - 2 * FIGURE_MARGIN + BETWEEN) / (box + BETWEEN)))
    heading = bottom + (22 if layers.rows else 12)
    for number, name in enumerate(layers.alone):
        x = FIGURE_MARGIN + box / 2 + number % fitting * (box + BETWEEN)
        places[name] = (x, heading + 14 + BOX_HEIGHT / 2 + number // fitting * (BOX_HEIGHT + BETWEEN))
    return Layout(places, box, total, max(y for _, y in places.values()) + BOX_HEIGHT / 2 + FIGURE_MARGIN, heading)


def draw_boxes(report: HierarchyReport, shown: Mapping[str, str], layers: Layers, layout: Layout) -> list[Spec]:
    """A box per aspect: its name, and the pairs of systems that it tells apart of those tested."""
    rows = [
        {
            "x": x,
            "left": x - layout.box / 2,
            "right": x + layout.box / 2,
            "y": y,
            "top": y - BOX_HEIGHT / 2,
            "bottom": y + BOX_HEIGHT / 2,
            "name_y": y - 8,
            "figure_y": y + 9,
            "text": fit_text(shown[name], (layout.box - 12) / BOLD),
            "figure": DASH if "pairs" in found.undefined else f"{found.pairs:,} / {found.tested:,}",
            "alone": name in layers.alone,
        }
        for name, found in report.aspects.items()
        for x, y in [layout.places[name]]
    ]
    across, down = pixels(0, layout.width), pixels(layout.height, 0)
    sides = canvas.span(across, down)
    box = {"type": "rect", "fill": SURFACE, "cornerRadius": 6, "strokeWidth": 1.5}
    figures = [{**row, "text": row["figure"]} for row in rows]
    return [
        layer("boxes", box | {"stroke": canvas.SERIES[0]}, [row for row in rows if not row["alone"]], **sides),
        layer(
            "alone", box | {"stroke": canvas.LINE, "strokeDash": [4, 3]}, [row for row in rows if row["alone"]], **sides
        ),
        letters("names", rows, across.at("x"), down.at("name_y"), align="center", fontWeight="bold"),
        small("figures", figures, across.at("x"), down.at("figure_y"), align="center"),
    ]


def draw_edges(edges: Sequence[Edge], found: Mapping[Edge, Dependency], layout: Layout) -> list[Spec]:
    """Lines from box to box around those between, arrowheads, and the counts of pairs on the surface's colour."""
    ways = {edge: trace(edge, edges, layout) for edge in edges}
    lines, heads = list[ChartRow](), list[ChartRow]()
    for way in ways.values():
        lines += [{"x": x, "y": y, "x2": to_x, "y2": to_y} for (x, y), (to_x, to_y) in pairwise(way)]
        (x, y), (to_x, to_y) = way[-2:]
        turn = math.atan2(to_x - x, y - to_y)
        x, y = to_x - ARROW / 2 * math.sin(turn), to_y + ARROW / 2 * math.cos(turn)
        heads.append({"x": x, "y": y, "angle": math.degrees(turn)})
    across, down = pixels(0, layout.width), pixels(layout.height, 0)
    texts = place_texts(ways, found)
    at, angle = {"x": across.at("x"), "y": down.at("y")}, {"field": "angle", "type": "quantitative", "scale": None}
    head = {"type": "point", "shape": "triangle", "fill": canvas.INK_SOFT, "size": 70}
    return [
        layer("edges", {"type": "rule", "color": canvas.INK_SOFT}, lines, **at, x2={"field": "x2"}, y2={"field": "y2"}),
        layer("arrows", head, heads, **at, angle=angle),
        layer("cushions", {"type": "rect", "fill": SURFACE}, texts, **canvas.span(across, down)),
        letters("counts", texts, **at, align="center", fontSize=SMALL),
    ]


def trace(edge: Edge, edges: Sequence[Edge], layout: Layout) -> list[Point]:
    """The edge's corners from the lower box's top to the higher box's bottom."""
    lower, higher = edge
    stops = sorted(
        (place for place in layout.places if isinstance(place, tuple) and place[:2] == edge), key=lambda stop: stop[2]
    )
    half = BOX_HEIGHT / 2
    passed = [(layout.places[stop][0], layout.places[stop][1] + step) for stop in stops for step in (half, -half)]
    start = (find_port(edge, lower, edges, layout), layout.places[lower][1] - half)
    end = (find_port(edge, higher, edges, layout), layout.places[higher][1] + half)
    return [start, *passed, end]


def find_port(edge: Edge, name: str, edges: Sequence[Edge], layout: Layout) -> float:
    """Where along the box the edge begins or ends: edges on one side are spread, ordered by their other ends."""
    side = 0 if edge[0] == name else 1
    mine = [one for one in edges if one[side] == name]
    stops = [place for place in layout.places if isinstance(place, tuple)]

    def lead(one: Edge) -> float:
        between = sorted((stop for stop in stops if stop[:2] == one), key=lambda stop: stop[2])
        towards: NodeName = one[1 - side] if not between else between[0 if side == 0 else -1]
        return layout.places[towards][0]

    position = sorted(mine, key=lead).index(edge) - (len(mine) - 1) / 2
    return layout.places[name][0] + position * min(PORT, (layout.box - 24) / len(mine))


def place_texts(ways: Mapping[Edge, Sequence[Point]], found: Mapping[Edge, Dependency]) -> list[ChartRow]:
    """The counts halfway up the last stretch of the edge, moved where they would overlap others."""
    rows: list[ChartRow] = []
    for edge, way in sorted(ways.items(), key=lambda one: one[1][-1]):
        text = f"{found[edge].common:,} / +{found[edge].higher_only:,}"
        half = measure_width(text, SMALL) / 2 + 2
        (x, y), (to_x, to_y) = way[-2:]
        for share in (0.48, 0.26, 0.68, 0.48):
            at, up = x + share * (to_x - x), y + share * (to_y - y)
            row = {"x": at, "y": up, "left": at - half, "right": at + half, "top": up - 8, "bottom": up + 8}
            if not any(overlap(row, other) for other in rows):
                break
        rows.append({**row, "text": text})
    return rows


def overlap(one: ChartRow, other: ChartRow) -> bool:
    """Whether two texts overlap."""
    beside = one["right"] <= other["left"] or other["right"] <= one["left"]
    return not (beside or one["bottom"] <= other["top"] or other["bottom"] <= one["top"])


@dataclass(frozen=True)
class Layers:
    """`rows` from the lowest layer, left to right; `edges` that follow from no others; `alone` aspects without any."""

    rows: tuple[tuple[NodeName, ...], ...]
    edges: tuple[Edge, ...]
    alone: tuple[str, ...]


def arrange(names: Sequence[str], edges: Sequence[Edge]) -> Layers:
    """Layers by the longest way to each aspect. Raises graphlib's CycleError, a ValueError, for a cycle of edges."""
    kept = reduce(edges)
    joined = [name for name in names if any(name in edge for edge in kept)]
    depths = find_depths(joined, kept)
    rows: list[list[NodeName]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for name in joined:
        rows[depths[name]].append(name)
    for lower, higher in kept:
        for depth in range(depths[lower] + 1, depths[higher]):
            rows[depth].append((lower, higher, depth))
    alone = tuple(name for name in names if name not in depths)
    return Layers(tuple(map(tuple, order(rows, kept, depths))), kept, alone)


def reduce(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """The edges without those that follow from two others or more."""
    higher: dict[str, set[str]] = {}
    for lower, one in edges:
        higher.setdefault(lower, set()).add(one)
    above: dict[str, set[str]] = {}
    for name in TopologicalSorter(higher).static_order():
        above[name] = higher.get(name, set()).union(*(above[one] for one in higher.get(name, ())))
    return tuple(edge for edge in dict.fromkeys(edges) if not any(edge[1] in above[one] for one in higher[edge[0]]))


def find_depths(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each aspect. An aspect without lower ones is right under the lowest of those above it."""
    lower = {name: [one for one, other in edges if other == name] for name in names}
    depths: dict[str, int] = {}
    for name in TopologicalSorter(lower).static_order():
        depths[name] = max((depths[one] + 1 for one in lower[name]), default=0)
    lifted = {name: min(depths[other] for one, other in edges if one == name) - 1 for name in names if not lower[name]}
    return depths | lifted


def trace_edge(edge: Edge, depths: Mapping[str, int]) -> list[NodeName]:
    """All places of an edge, from its lower end to its higher."""
    lower, higher = edge
    return [lower, *((lower, higher, depth) for depth in range(depths[lower] + 1, depths[higher])), higher]


def order(rows: list[list[NodeName]], edges: Sequence[Edge], depths: Mapping[str, int]) -> list[list[NodeName]]:
    """Each layer by the mean position of its neighbours, up and down (Sugiyama 1981), so that few edges cross."""
    beside: dict[NodeName, list[NodeName]] = {place: [] for row in rows for place in row}
    for edge in edges:
        way = trace_edge(edge, depths)
        for one, other in pairwise(way):
            beside[one].append(other)
            beside[other].append(one)
    for sweep in range(SWEEPS):
        numbers = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for number in numbers:
            next_row = rows[number - 1 if sweep % 2 == 0 else number + 1]
            at = {place: position - (len(next_row) - 1) / 2 for position, place in enumerate(next_row)}
            means = {place: centre_of([at[one] for one in beside[place] if one in at]) for place in rows[number]}
            rows[number].sort(key=means.__getitem__)
    return rows


def centre_of(positions: Sequence[float]) -> float:
    """The mean; the middle without values."""
    return sum(positions) / len(positions) if positions else 0.0

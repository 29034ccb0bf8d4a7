"""The mean of one aspect, build after build: a lane per system, on the whole scale, over the builds or over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    SERIES,
    SMALL,
    SURFACE,
    ChartLabels,
    ChartRow,
    Spec,
    fit_text,
    layer,
    measure_width,
    small,
)

MOST_BUILDS, MOST_LANES = 200, 6
LANE, PADDING, LINE_HEIGHT, BETWEEN, TREND_MARGIN = 92, 6, 16, 14, 10
"""Pixels: a lane, room in it above and below the scale, a line of text, room between lanes, and right of them."""

LONGEST_LABEL, LABEL_GAP = 120, 12
"""Pixels: of a build's name, and between two of them."""

CLOSE_PIXELS = 5.0
"""Pixels from build to build below which only lines and bands are drawn."""

SIGN, LARGE, TINY, NARROWEST = 30, 30, 14, 3.0
"""Pixels of a sign in the key, areas of points, and pixels of an interval of one place."""

Axis = Literal["build", "time"]
Direction = Literal["better", "worse", "changed"]
COLOURS: dict[Direction, str] = {"better": canvas.GOOD, "worse": canvas.BAD, "changed": canvas.NEUTRAL}
DIRECTION_SIGNS: dict[Direction, str] = {"better": "▲", "worse": "▼", "changed": "◆"}


@dataclass(frozen=True)
class TrendPoint:
    """A mean with its 95% interval; `linked` if it was shown on another judge's scale."""

    mean: float
    interval: tuple[float, float] | None
    linked: bool = False


@dataclass(frozen=True)
class TrendChange:
    """A change of the level. `at` is the number of the first build after it, which with 95% probability is one from
    `earliest` to `latest`."""

    at: int
    earliest: int
    latest: int
    difference: float
    direction: Direction


@dataclass(frozen=True)
class TrendLane:
    """A system with its point of each build, None where it has none; `breaks` are the builds before which its line is
    broken, since it was scored in another way."""

    name: str
    points: Sequence[TrendPoint | None]
    breaks: Sequence[int] = ()
    changes: Sequence[TrendChange] = ()


@dataclass(frozen=True)
class TrendBuild:
    name: str
    at: datetime


@dataclass(frozen=True)
class TrendLabels(ChartLabels):
    """`axis` names what is drawn and its scale; `current` is the name of the current build, and the others are the
    key's."""

    axis: str
    current: str
    change: str
    broken: str
    linked: str


@dataclass(frozen=True)
class Plot:
    """Where things stand in pixels: the builds, and the lanes' upper ends."""

    places: Sequence[float]
    width: float
    scale: tuple[float, float]
    tops: Sequence[float]

    def height_of(self, value: float, top: float) -> float:
        """The height of a value in the lane that begins at `top`."""
        low, high = self.scale
        share = (high - min(max(value, low), high)) / (high - low) if high > low else 0.5
        return top + PADDING + share * (LANE - 2 * PADDING)

    def before(self, build: int, points: Sequence[TrendPoint | None]) -> float:
        """The middle between a build and the lane's point before it."""
        earlier = next((one for one in range(build - 1, -1, -1) if points[one] is not None), build)
        return (self.places[earlier] + self.places[build]) / 2


def build_trend(
    builds: Sequence[TrendBuild],
    lanes: Sequence[TrendLane],
    labels: TrendLabels,
    *,
    scale: tuple[float, float],
    current: int | None = None,
    axis: Axis = "build",
    width: int = canvas.PHONE_WIDTH,
) -> Spec:
    """Means with their intervals as a band, oldest first, with the build number `current` filled and named.

    Drawn are the first MOST_LANES systems; there are at most MOST_BUILDS builds. Change points are bands of where they
    may be with a line where they are most likely.
    """
    shown = [lane for lane in lanes[:MOST_LANES] if any(lane.points)]
    if not shown:
        return canvas.say_nothing(labels, width)
    ticks = canvas.choose_ticks(*scale)
    left = max(measure_width(write_tick(tick), SMALL) for tick in ticks) + 10
    inner = float(width - left - TREND_MARGIN)
    plot = Plot(place_builds(builds, axis, inner), inner, scale, list(stack(len(shown))))
    height = plot.tops[-1] + LANE
    key, key_height = draw_key(shown, labels, width, left)
    head = key_height + LINE_HEIGHT * (2 if current is not None else 1) + 4
    title = small("axis", [{"text": fit_text(labels.axis, width - 4, SMALL)}], at(-left), at(LINE_HEIGHT / 2 - head))
    named = label_times(builds, plot) if axis == "time" else label_builds(builds, plot, current)
    layers = [
        title,
        *draw_frame(shown, plot, ticks),
        *draw_marks(shown, plot),
        *draw_current(shown, labels, current, plot),
        *draw_names(named, height),
        *move(key, key_height + 2 - head + LINE_HEIGHT - key_height),
    ]
    margins = canvas.Margins(left=left, right=TREND_MARGIN, top=head, bottom=LINE_HEIGHT + 10)
    return canvas.frame(layers, labels, width=inner, height=height, margins=margins)


def at(pixels: float) -> Spec:
    """A fixed place."""
    return {"value": round(pixels, 2)}


def write_tick(value: float) -> str:
    """The value with no more digits than it needs."""
    return f"{value:g}".replace("-", "−")


def by(field: str) -> Spec:
    """The channel of a field that holds pixels."""
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def stack(lanes: int) -> Iterator[float]:
    """Where each lane begins; where there are several, each has its name above."""
    step = LANE + (BETWEEN + LINE_HEIGHT if lanes > 1 else 0)
    first = LINE_HEIGHT if lanes > 1 else 0
    return (first + number * step for number in range(lanes))


def place_builds(builds: Sequence[TrendBuild], axis: Axis, width: float) -> list[float]:
    """The builds' places from left to right, at equal distances or by time."""
    if axis == "time":
        times = [build.at.timestamp() for build in builds]
        first, reach = min(times), max(times) - min(times)
        return [2 + (width - 4) * ((time - first) / reach if reach else 0.5) for time in times]
    return [width * (number + 0.5) / len(builds) for number in range(len(builds))]


def draw_frame(lanes: Sequence[TrendLane], plot: Plot, ticks: Sequence[float]) -> list[Spec]:
    """Lines at the ticks with their values, and the systems' names."""
    rows = [{"y": plot.height_of(tick, top), "text": write_tick(tick)} for top in plot.tops for tick in ticks]
    names = [
        {"y": top - LINE_HEIGHT / 2, "text": fit_text(lane.name, plot.width, SMALL)}
        for lane, top in zip(lanes, plot.tops, strict=True)
        if len(lanes) > 1
    ]
    rule = {"type": "rule", "color": canvas.LINE, "strokeWidth": 1}
    return [
        layer("grid", rule, rows, x=at(0), x2=at(plot.width), y=by("y")),
        small("ticks", rows, at(-6), by("y"), align="right"),
        small("lanes", names, at(0), by("y"), color=canvas.INK, fontWeight="bold"),
    ]


def cut_pieces(lane: TrendLane) -> Iterator[list[int]]:
    """The builds with a point between two breaks."""
    ends = [0, *sorted({one for one in lane.breaks if 0 < one < len(lane.points)}), len(lane.points)]
    for start, end in pairwise(ends):
        piece = [build for build in range(start, end) if lane.points[build] is not None]
        if piece:
            yield piece


def draw_marks(lanes: Sequence[TrendLane], plot: Plot) -> list[Spec]:
    """Each lane's change points, breaks, bands, lines and points."""
    rows, spans, breaks = list[ChartRow](), list[ChartRow](), list[ChartRow]()
    for number, (lane, top) in enumerate(zip(lanes, plot.tops, strict=True)):
        spans += [span_change(change, lane, plot, top) for change in lane.changes]
        breaks += [
            {"x": plot.before(build, lane.points), "top": top, "bottom": top + LANE}
            for build in lane.breaks
            if any(lane.points[:build]) and any(lane.points[build:])
        ]
        rows += place_points(number, lane, plot, top)
    bands = [row for row in rows if row["low"] is not None]
    sides, ends = {"x": by("x"), "y": by("y")}, {"x": by("x"), "y": by("low"), "y2": {"field": "high"}}
    detail: Spec = {"detail": {"field": "piece", "type": "nominal"}}
    area, rule = {"type": "area", "fill": SERIES[0], "fillOpacity": 0.2}, {"type": "rule", "color": SERIES[0]}
    # An area of a single point would not be seen.
    return [
        layer("band", area, [row for row in bands if not row["alone"]], **ends, **detail),
        layer("intervals", rule | {"strokeWidth": 1}, [row for row in bands if row["alone"]], **ends),
        *draw_changes(spans),
        layer("breaks", DASHED, breaks, x=by("x"), y=by("top"), y2={"field": "bottom"}),
        *draw_lines(rows, sides, detail, plot.width / max(1, len(plot.places))),
    ]


DASHED: Spec = {"type": "rule", "color": canvas.INK_SOFT, "strokeDash": [4, 3], "strokeWidth": 1.5}


def place_points(number: int, lane: TrendLane, plot: Plot, top: float) -> Iterator[ChartRow]:
    """A row per point, with the piece of the line that it belongs to."""
    for piece in cut_pieces(lane):
        for build in piece:
            point = lane.points[build]
            if point is None:
                continue
            low, high = (plot.height_of(end, top) for end in point.interval) if point.interval else (None, None)
            yield {
                "x": plot.places[build],
                "y": plot.height_of(point.mean, top),
                "low": low,
                "high": high,
                "piece": f"{number}.{piece[0]}",
                "alone": len(piece) == 1,
                "linked": point.linked,
            }


def draw_changes(spans: Sequence[ChartRow]) -> Iterator[Spec]:
    """Change points: where they may be, where they are most likely, and how large they are."""
    ends: dict[str, Spec] = {"y": by("top"), "y2": {"field": "bottom"}}
    for name, colour in COLOURS.items():
        rows = [row for row in spans if row["direction"] == name]
        area, rule = {"type": "rect", "fill": colour, "fillOpacity": 0.16}, {"type": "rule", "color": colour}
        bold = {"color": colour, "fontWeight": "bold"}
        yield layer(f"span-{name}", area, rows, x=by("from"), x2={"field": "to"}, **ends)
        yield layer(f"change-{name}", rule, rows, x=by("x"), **ends)
        yield small(f"size-{name}", keep_apart(rows), by("x"), by("bottom"), dx=4, dy=-6, **bold)


def draw_lines(rows: Sequence[ChartRow], sides: Mapping[str, Spec], detail: Spec, step: float) -> Iterator[Spec]:
    """Lines, dashed where values are linked, with points where there is room for them."""
    point = {
        "type": "point",
        "stroke": SERIES[0],
        "strokeWidth": 1,
        "size": LARGE if step >= 2 * CLOSE_PIXELS else TINY,
    }
    line = {"type": "line", "color": SERIES[0]}
    for linked, name, look, dash in (
        (False, "", {"fill": SERIES[0]}, [1, 0]),
        (True, "linked-", {"shape": "square", "fill": SURFACE}, [3, 2]),
    ):
        mine = [row for row in rows if row["linked"] is linked]
        visible = [row for row in mine if step >= CLOSE_PIXELS or row["alone"]]
        yield layer(f"{name}line", line | {"strokeDash": dash}, mine, **sides, **detail)
        yield layer(f"{name}points", point | look, visible, **sides)


def span_change(change: TrendChange, lane: TrendLane, plot: Plot, top: float) -> ChartRow:
    """Where a change is and may be, and how large it is."""
    start, end = (plot.before(build, lane.points) for build in (change.earliest, change.latest))
    spare = max(0.0, NARROWEST - (end - start)) / 2
    size = canvas.write_number(change.difference, signed=True)
    return {
        "x": plot.before(change.at, lane.points),
        "from": start - spare,
        "to": end + spare,
        "top": top,
        "bottom": top + LANE,
        "direction": change.direction,
        "text": f"{DIRECTION_SIGNS[change.direction]} {size}",
    }


def keep_apart(rows: Sequence[ChartRow]) -> list[ChartRow]:
    """The texts that do not stand on one another."""
    found: list[ChartRow] = []
    for row in rows:
        last = found[-1] if found else None
        if last is None or last["top"] != row["top"] or row["x"] - last["x"] > measure_width(row["text"], SMALL) + 6:
            found.append(row)
    return found


def draw_current(lanes: Sequence[TrendLane], labels: TrendLabels, current: int | None, plot: Plot) -> list[Spec]:
    """A dotted line at the current build with its name above, and its mean where there is only one."""
    if current is None:
        return []
    x = plot.places[current]
    points = [
        (point, top) for lane, top in zip(lanes, plot.tops, strict=True) if (point := lane.points[current]) is not None
    ]
    text = labels.current + (f" {canvas.write_number(points[0][0].mean)}" if len(points) == 1 else "")
    text = fit_text(text, plot.width, SMALL)
    rule = {"type": "rule", "color": canvas.INK_SOFT, "strokeDash": [1, 3], "strokeWidth": 1}
    mark = {"type": "point", "fill": SERIES[0], "stroke": SURFACE, "strokeWidth": 1, "size": 70}
    rows = [{"y": plot.height_of(point.mean, top)} for point, top in points]
    bold = {"align": "center", "color": canvas.INK, "fontWeight": "bold"}
    return [
        layer("current-build", rule, [{}], x=at(x), y=at(-2), y2=at(plot.tops[-1] + LANE)),
        layer("current", mark, rows, x=at(x), y=by("y")),
        small("current-text", [{"text": text}], at(centre(x, text, plot.width)), at(-10), **bold),
    ]


def centre(x: float, text: str, width: float) -> float:
    """The middle of a text at x that stays within the plot."""
    half = measure_width(text, SMALL) / 2
    return min(max(x, half), max(half, width - half))


def draw_key(lanes: Sequence[TrendLane], labels: TrendLabels, width: float, left: float) -> tuple[list[Spec], float]:
    """What the marks mean that there are, and the height that it takes; its first line is at 0."""
    drawn = [
        ("change", labels.change, any(lane.changes for lane in lanes)),
        ("break", labels.broken, any(lane.breaks for lane in lanes)),
        ("linked", labels.linked, any(point.linked for lane in lanes for point in lane.points if point)),
    ]
    kinds = [(name, text) for name, text, present in drawn if present]
    rows, height = canvas.flow([text for _, text in kinds], width - 2, SIGN)
    parts: list[Spec] = []
    for (name, _), row in zip(kinds, rows, strict=True):
        x, y = row["x"] - left, row["y"]
        middle, rule = at(x + SIGN / 2 - 6), {"type": "rule"}
        if name == "change":
            area = {"type": "rect", "fill": canvas.NEUTRAL, "fillOpacity": 0.16}
            parts.append(layer("key-span", area, [{}], x=at(x), x2=at(x + SIGN - 12), y=at(y - 6), y2=at(y + 6)))
        if name == "linked":
            dashed = rule | {"color": SERIES[0], "strokeDash": [3, 2]}
            parts.append(layer("key-linked", dashed, [{}], x=at(x), x2=at(x + SIGN - 12), y=at(y)))
            square = {"type": "point", "shape": "square", "stroke": SERIES[0], "fill": SURFACE, "size": LARGE}
            parts.append(layer("key-square", square, [{}], x=middle, y=at(y)))
        else:
            look = DASHED if name == "break" else rule | {"color": canvas.NEUTRAL}
            parts.append(layer(f"key-{name}", look, [{}], x=middle, y=at(y - 6), y2=at(y + 6)))
        parts.append(small(f"key-text-{name}", [row], at(row["from"] - left - 6), at(y)))
    return parts, height


def move(parts: Sequence[Spec], up: float) -> list[Spec]:
    """The parts with all their fixed heights that much farther down."""
    moved = []
    for part in parts:
        encoding = {
            name: at(channel["value"] + up) if name in {"y", "y2"} else channel
            for name, channel in part["encoding"].items()
        }
        moved.append({**part, "encoding": encoding})
    return moved


def shorten_names(names: Sequence[str]) -> list[str]:
    """The names without what all begin with, and without what follows a plus sign where they differ without it:
    `release-2026.11.09+553e0b6` among others becomes `2026.11.09`."""
    known = list(dict.fromkeys(names))
    start = 0
    if len(known) > 1:
        for number, letters in enumerate(zip(*known, strict=False)):
            if len(set(letters)) > 1:
                break
            # Cut after a word only, and not within a number.
            start = number + 1 if letters[0] in "-_/ " else start
    tails = {name: name[start:] or name for name in known}
    plain = Counter(tail.partition("+")[0] for tail in tails.values())
    return [short if plain[short := tails[name].partition("+")[0]] == 1 and short else tails[name] for name in names]


def label_builds(builds: Sequence[TrendBuild], plot: Plot, current: int | None) -> list[ChartRow]:
    """The names that fit beside each other: first that of the current build, then the newest and those at equal
    distances from it."""
    names = [canvas.fit_ends(name, LONGEST_LABEL, SMALL) for name in shorten_names([one.name for one in builds])]
    every = max(1, math.ceil((max(measure_width(name, SMALL) for name in names) + LABEL_GAP) * len(names) / plot.width))
    rows: list[ChartRow] = []
    wanted = [*([] if current is None else [current]), *range(len(names) - 1, -1, -every)]
    for build in dict.fromkeys(wanted):
        middle, half = centre(plot.places[build], names[build], plot.width), measure_width(names[build], SMALL) / 2
        if all(abs(middle - row["middle"]) >= half + row["half"] + LABEL_GAP for row in rows):
            place = {"x": plot.places[build], "middle": middle, "half": half}
            rows.append({**place, "text": names[build], "current": build == current})
    return sorted(rows, key=lambda row: float(row["x"]))


TICK_STEPS = (*(timedelta(hours=hours) for hours in (1, 3, 6, 12)), *(timedelta(days=days) for days in (1, 2, 7, 14)))
MONTHS = (1, 3, 6, 12, 60)


def label_times(builds: Sequence[TrendBuild], plot: Plot) -> list[ChartRow]:
    """Round times in UTC between the first build and the last: hours, days or the first days of months."""
    times = [build.at.astimezone(UTC) for build in builds]
    first, last = min(times), max(times)
    reach = (last - first).total_seconds()
    if not reach:
        return [{"x": plot.places[0], "middle": plot.width / 2, "text": f"{first:%Y-%m-%d %H:%M}", "current": False}]
    most = max(1, int(plot.width / (measure_width("2026-10-10", SMALL) + LABEL_GAP)))
    step = next((one for one in TICK_STEPS if reach / one.total_seconds() <= most), None)
    form = "%Y-%m-%d" if step is None or step.days else "%m-%d %H:%M"
    rows: list[ChartRow] = []
    for time in list_months(first, last, most) if step is None else list_steps(first, last, step):
        x = 2 + (plot.width - 4) * (time - first).total_seconds() / reach
        rows.append({"x": x, "middle": centre(x, f"{time:{form}}", plot.width), "text": f"{time:{form}}"})
    return [{**row, "current": False} for row in rows]


def list_steps(first: datetime, last: datetime, step: timedelta) -> Iterator[datetime]:
    """Multiples of the step, counted from a Monday."""
    origin = datetime(2024, 1, 1, tzinfo=UTC)
    time = origin + math.ceil((first - origin) / step) * step
    while time <= last:
        yield time
        time += step


def list_months(first: datetime, last: datetime, most: int) -> Iterator[datetime]:
    """First days of months, with as many months between them as leave at most so many."""
    span = 12 * (last.year - first.year) + last.month - first.month
    every = next((one for one in MONTHS if span / one <= most), MONTHS[-1] * (1 + span // (MONTHS[-1] * most)))
    for number in range(12 * first.year + first.month - 1, 12 * last.year + last.month):
        time = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if number % every == 0 and time >= first:
            yield time


def draw_names(rows: Sequence[ChartRow], height: float) -> list[Spec]:
    """The builds' names or times under the lanes with a tick each, that of the current build bold."""
    others, current = ([row for row in rows if row["current"] is wanted] for wanted in (False, True))
    bold: ChartRow = {"color": canvas.INK, "fontWeight": "bold"}
    tick = {"type": "rule", "color": canvas.INK_SOFT, "strokeWidth": 1}
    return [
        layer("name-ticks", tick, rows, x=by("x"), y=at(height), y2=at(height + 5)),
        small("builds", others, by("middle"), at(height + 15), align="center"),
        small("build", current, by("middle"), at(height + 15), align="center", **bold),
    ]

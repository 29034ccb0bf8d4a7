"""The mean of one aspect, build after build: a panel of the small multiples that a page sets side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.charts import canvas
from app.charts.canvas import SERIES, SMALL, SURFACE, ChartLabels, Row, Ruler, Spec, fit, layer, measure, small

MOST_BUILDS, MOST_LINES = 50, len(SERIES)
HEIGHT, LINE_HEIGHT, EDGE = 120, 16, 8
LEAST_STEP, LEAST_STEP_ALONE = 9.0, 5.2
"""Pixels from build to build; fifty builds of one system fit on a phone."""

SIGN = 34
LARGE, TINY = 44, 22
"""Areas of points, the second where builds stand close."""

LEAST_REACH = 0.2
"""Of the scale: on a shorter axis, chance differences would look large."""

LEVEL_HEIGHT, LEAST_LABEL_STEP = 22, 15.0
"""Pixels: of a line of level names, and from one slanted name to the next."""

LONGEST_LABEL, SLANT = 92, 60
BOLD = 1.1
"""Times as wide as plain text."""

LETTERS = "abcdef"
"""The lines' letters in class names."""


@dataclass(frozen=True)
class TrendPoint:
    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class TrendLine:
    """A system with its point of each build; None where it has none."""

    name: str
    points: Sequence[TrendPoint | None]


@dataclass(frozen=True)
class TrendLabels(ChartLabels):
    """`axis` names what is drawn and its scale; `current` is the name of the current build."""

    axis: str
    current: str


@dataclass(frozen=True)
class Plot:
    """The panel's rulers and sizes; `step` is the distance between builds in pixels."""

    x: Ruler
    y: Ruler
    width: float
    step: float


def build_trend(
    builds: Sequence[str],
    lines: Sequence[TrendLine],
    labels: TrendLabels,
    *,
    scale: tuple[float, float],
    current: int | None = None,
    width: int = canvas.PHONE_WIDTH,
) -> Spec:
    """Means with their intervals over the builds, oldest first, with the build number `current` filled and named.

    Drawn are the first MOST_LINES systems and the last MOST_BUILDS builds. The axis covers the data, and at least a
    fifth of the scale; it need not begin at the scale's end.
    """
    skipped = max(0, len(builds) - MOST_BUILDS)
    shown = [TrendLine(line.name, line.points[skipped:]) for line in lines[:MOST_LINES]]
    current = None if current is None or current < skipped else current - skipped
    rows = [row for number, line in enumerate(shown) for row in make_rows(number, line, current)]
    if not rows:
        return canvas.say_nothing(labels, width)
    plot, left = lay_out(builds[skipped:], rows, scale, width)
    spread_out(rows, plot.step)
    key, key_height = canvas.flow([line.name for line in shown], width - 2, SIGN) if len(shown) > 1 else ([], 0.0)
    texts, slant, bottom = label_builds(builds[skipped:], current, plot.step)
    top = key_height + LINE_HEIGHT * (2 if current is not None else 1) + 4
    axis, axis_at = [{"text": fit(labels.axis, width - 4, SMALL)}], key_height + LINE_HEIGHT / 2
    layers = [
        small("axis", axis, {"value": -left}, {"value": axis_at - top}),
        *draw_current(rows, labels, current, plot),
        *(part for number in range(len(shown)) for part in draw_line(number, rows, plot)),
        *(part for row in key for part in draw_key(row, left, top)),
        *draw_builds(texts, slant, plot.x),
    ]
    margins = canvas.Margins(left=left, right=EDGE, top=top, bottom=bottom)
    return canvas.frame(layers, labels, width=plot.width, height=HEIGHT, margins=margins)


def make_rows(number: int, line: TrendLine, current: int | None) -> list[Row]:
    """A row per point that there is."""
    return [
        {
            "line": number,
            "build": build,
            "x": float(build),
            "mean": point.mean,
            "current": build == current,
            "low": point.interval[0] if point.interval else None,
            "high": point.interval[1] if point.interval else None,
        }
        for build, point in enumerate(line.points)
        if point is not None
    ]


def lay_out(builds: Sequence[str], rows: Sequence[Row], scale: tuple[float, float], width: int) -> tuple[Plot, float]:
    """The rulers, and the margin that labels need on the left."""
    values = [row[name] for row in rows for name in ("mean", "low", "high") if row[name] is not None]
    low, high = min(values), max(values)
    reach = max(1.16 * (high - low), LEAST_REACH * (scale[1] - scale[0])) or 1.0
    middle = (low + high) / 2
    low, high = middle - reach / 2, middle + reach / 2
    rounded = canvas.choose_ticks(low, high)
    ticks = tuple(tick for tick in rounded if scale[0] <= tick <= scale[1]) or rounded
    left = max(measure(canvas.write_number(tick), SMALL) for tick in ticks) + 10
    least = LEAST_STEP if any(row["line"] for row in rows) else LEAST_STEP_ALONE
    # A slanted name of the first build begins left of its point: where builds stand close, left of the plot.
    widest = max(measure(canvas.fit_ends(name, LONGEST_LABEL, SMALL), SMALL) for name in builds)
    left = max(left, BOLD * widest * math.cos(math.radians(SLANT)) + 8 - (width - left - EDGE) / len(builds) / 2)
    inner = max(width - left - EDGE, least * len(builds))
    y = Ruler(low, high, ticks, canvas.choose_form(ticks), grid=True)
    return Plot(Ruler(-0.5, len(builds) - 0.5), y, inner, inner / len(builds)), left


def spread_out(rows: Sequence[Row], step: float) -> None:
    """Sets points of one build a little apart where several systems have one."""
    for build in {row["build"] for row in rows}:
        together = [row for row in rows if row["build"] == build]
        for number, row in enumerate(together):
            row["x"] = build + (number - (len(together) - 1) / 2) * min(6 / step, 0.8 / len(together))


def draw_line(number: int, rows: Sequence[Row], plot: Plot) -> list[Spec]:
    """A system's intervals, its line, and its points: filled is the current build."""
    mine = [row for row in rows if row["line"] == number]
    colour, dash, shape = SERIES[number], list(canvas.DASHES[number]), canvas.SHAPES[number]
    x, mean = plot.x.at("x"), plot.y.at("mean")
    bars = [row for row in mine if row["low"] is not None]
    current, others = ([row for row in mine if row["current"] is wanted] for wanted in (True, False))
    rule = {"type": "rule", "color": colour, "strokeWidth": 1}
    point = {"type": "point", "shape": shape, "stroke": colour, "size": LARGE if plot.step >= LEAST_STEP else TINY}
    name = LETTERS[number]
    return [
        layer(f"intervals-{name}", rule, bars, x=x, y=plot.y.at("low"), y2={"field": "high"}),
        layer(f"line-{name}", {"type": "line", "color": colour, "strokeDash": dash}, mine, x=x, y=mean),
        layer(f"points-{name}", point | {"fill": SURFACE}, others, x=x, y=mean),
        layer(f"current-{name}", point | {"fill": colour, "size": 80}, current, x=x, y=mean),
    ]


def draw_current(rows: Sequence[Row], labels: TrendLabels, current: int | None, plot: Plot) -> list[Spec]:
    """A dotted line at the current build with its name above, and its mean where there is only one."""
    if current is None:
        return []
    means = [row["mean"] for row in rows if row["build"] == current]
    text = labels.current + (f" {canvas.write_number(means[0])}" if len(means) == 1 else "")
    text = fit(text, plot.width, SMALL)
    half, at = measure(text, SMALL) / 2, (current + 0.5) * plot.step
    middle = min(max(at, half), max(half, plot.width - half))
    rule = {"type": "rule", "color": canvas.INK_SOFT, "strokeDash": [1, 3], "strokeWidth": 1}
    bold = {"align": "center", "color": canvas.INK, "fontWeight": "bold"}
    return [
        layer("current-build", rule, [{"x": current}], x=plot.x.at("x"), y={"value": -2}, y2={"value": HEIGHT}),
        small("current-text", [{"text": text}], {"value": middle}, {"value": -10}, **bold),
    ]


def draw_key(row: Row, left: float, top: float) -> list[Spec]:
    """A system's dash and shape beside its name."""
    number, start, up = row["number"], row["x"] - left, {"value": row["y"] - top}
    colour, name = SERIES[number], LETTERS[number]
    rule = {"type": "rule", "color": colour, "strokeDash": list(canvas.DASHES[number])}
    point = {"type": "point", "shape": canvas.SHAPES[number], "stroke": colour, "fill": SURFACE, "size": 44}
    return [
        layer(f"key-line-{name}", rule, [row], x={"value": start}, x2={"value": start + SIGN - 8}, y=up),
        layer(f"key-point-{name}", point, [row], x={"value": start + SIGN / 2 - 4}, y=up),
        small(f"key-text-{name}", [row], {"value": row["from"] - left}, up, color=canvas.INK),
    ]


def label_builds(builds: Sequence[str], current: int | None, step: float) -> tuple[list[Row], int, float]:
    """The labels that fit, their slant in degrees, and the height that they need."""
    names = [canvas.fit_ends(name, LONGEST_LABEL, SMALL) for name in builds]
    widest = max(measure(name, SMALL) for name in names)
    level = widest + 8 <= step
    every = 1 if level else math.ceil(LEAST_LABEL_STEP / step)
    chosen: list[int] = []
    for build in (*([] if current is None else [current]), len(names) - 1, *range(len(names))):
        if all(abs(build - other) >= every for other in chosen):
            chosen.append(build)
    rows = [{"x": build, "text": names[build], "current": build == current} for build in sorted(chosen)]
    height = LEVEL_HEIGHT if level else BOLD * widest * math.sin(math.radians(SLANT)) + 18
    return rows, 0 if level else -SLANT, height


def draw_builds(texts: Sequence[Row], slant: int, x: Ruler) -> list[Spec]:
    """The builds' names under the plot, that of the current one bold."""
    look: Row = {"x": x.at("x"), "y": {"value": HEIGHT + 10}, "align": "right" if slant else "center", "angle": slant}
    others, current = ([row for row in texts if row["current"] is wanted] for wanted in (False, True))
    bold: Row = {"color": canvas.INK, "fontWeight": "bold"}
    return [small("builds", others, **look), small("build", current, **look, **bold)]

"""Panels of an analysis: correlations of aspects, scores against ratings, values by system, shares of wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from saiten.core.figures import DASH
from saiten_server.core.reports import Matrix
from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    SERIES,
    SMALL,
    ChartLabels,
    ChartRow,
    Margins,
    Ruler,
    Spec,
    fit_text,
    frame,
    layer,
    letters,
)
from saiten_server.platform.charts.histogram import HistogramLabels, build_histogram
from saiten_server.stats.observations import Floats

Range = tuple[float, float]

CELL, LONGEST_NAME = 44, 190
DARK = 0.62
"""The figure of a cell with a greater |r| is written in the surface's colour."""

SCATTER, MOST_DOTS, DENSITY_BINS = 240, 2000, 28
"""The sides of a scatter plot in pixels; with more items their density is drawn, in so many fields per side."""

FEW_VALUES, BINS = 25, 12
MOVED_PART = 0.25
"""Of the least gap between values: how far a point may be moved, so that none hides another."""

LINE_STEP, BAR_STEP = 20, 34
LEAST_LABELLED = 0.08
"""Of a bar: a smaller share has no room for its figure."""


class SharePart(NamedTuple):
    """A piece of a bar, in a colour that the text is read on."""

    name: str
    share: float
    colour: str
    ink: str = canvas.SURFACE


def build_matrix(
    names: Sequence[str], lower: Matrix, upper: Matrix, shown: Mapping[str, str], labels: ChartLabels
) -> Spec:
    """Correlations of aspects, `lower` below the diagonal, `upper` above it. `shown` are the labels of the names."""
    if len(names) < 2:
        return canvas.say_nothing(labels, 320)
    cells: list[ChartRow] = []
    for (row, one), (column, other) in product(enumerate(names), repeat=2):
        if row != column:
            value = (lower if row > column else upper).get(one, {}).get(other)
            cells.append(
                {
                    "x": (column + 0.5) * CELL,
                    "left": column * CELL + 1,
                    "right": (column + 1) * CELL - 1,
                    "y": (row + 0.5) * CELL,
                    "top": row * CELL + 1,
                    "bottom": (row + 1) * CELL - 1,
                    "value": value,
                    "shade": 0.0 if value is None else abs(value),
                    "text": DASH if value is None else canvas.write_number(value),
                }
            )
    side = CELL * len(names)
    across, down = canvas.pixels(0, side), canvas.pixels(side, 0)
    sides = canvas.span(across, down)
    shade = {"field": "shade", "type": "quantitative", "scale": None}
    named: list[ChartRow] = [
        {"at": (number + 0.5) * CELL, "text": fit_text(shown.get(name, name), LONGEST_NAME)}
        for number, name in enumerate(names)
    ]
    unknown = [cell for cell in cells if cell["value"] is None]
    positive = [cell for cell in cells if cell["value"] is not None and cell["value"] >= 0]
    negative = [cell for cell in cells if cell["value"] is not None and cell["value"] < 0]
    dark, light = ([cell for cell in cells if (cell["shade"] > DARK) is wanted] for wanted in (True, False))
    centred: Spec = {"x": across.at("x"), "y": down.at("y"), "align": "center", "fontSize": SMALL}
    layers = [
        layer("undefined", {"type": "rect", "fill": canvas.LINE}, unknown, **sides),
        layer("positive", {"type": "rect", "fill": SERIES[1]}, positive, **sides, fillOpacity=shade),
        layer("negative", {"type": "rect", "fill": SERIES[0]}, negative, **sides, fillOpacity=shade),
        letters("values", light, **centred),
        letters("dark-values", dark, **centred, color=canvas.SURFACE),
        letters("rows", named, {"value": -6}, down.at("at"), align="right"),
        letters("columns", named, across.at("at"), {"value": side + 8}, align="right", angle=-40),
    ]
    longest = max(canvas.measure_width(row["text"]) for row in named) + 8
    margins = Margins(left=longest, right=4, top=4, bottom=0.65 * longest + 14)
    return frame(layers, labels, width=side, height=side, margins=margins)


def build_value_histogram(values: Floats, reach: Range, labels: HistogramLabels, *, width: int) -> Spec:
    """How often each value occurs, shape (n,), in equal steps over the range `reach`: one per value where the values
    lie on a grid of few steps, else BINS of them."""
    distinct = np.unique(values)
    gap = float(np.diff(distinct).min()) if len(distinct) > 1 else max(1.0, reach[1] - reach[0])
    steps = (distinct - reach[0]) / gap
    count = round((reach[1] - reach[0]) / gap) + 1
    if not len(values):
        levels = []
    elif count <= FEW_VALUES and np.allclose(steps, np.round(steps), atol=1e-6):
        places = np.round((values - reach[0]) / gap).astype(int)
        counts = np.bincount(places, minlength=count)
        levels = [(write_short(reach[0] + number * gap), int(found)) for number, found in enumerate(counts)]
    else:
        found, edges = np.histogram(values, BINS, reach)
        levels = [
            (f"{canvas.write_number(low)} to {canvas.write_number(high)}", int(number))
            for number, low, high in zip(found, edges[:-1], edges[1:], strict=True)
        ]
    return build_histogram(levels, 0, labels, width=width)


def write_short(value: float) -> str:
    """The number without zeros at its end."""
    text = canvas.write_number(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def build_scatter(x: Floats, y: Floats, reach: tuple[Range, Range], axes: tuple[str, str], labels: ChartLabels) -> Spec:
    """A dot per item, moved a little where few values would hide dots behind each other; a density of many items.

    `x` and `y` have shape (n,), without NaN. `reach` holds the least and the greatest value of each: no dot is moved
    beyond them. `axes` are the titles.
    """
    if not len(x):
        return canvas.say_nothing(labels, SCATTER)
    across, up = (rule(ends, title) for ends, title in zip(reach, axes, strict=True))
    if len(x) > MOST_DOTS:
        layers = [draw_density(x, y, across, up)]
    else:
        generator = np.random.default_rng(0)
        moved = [jitter(values, ends, generator) for values, ends in zip((x, y), reach, strict=True)]
        rows = [{"x": float(one), "y": float(other)} for one, other in zip(*moved, strict=True)]
        opacity = float(np.clip(60 / len(x), 0.15, 0.8))
        dot = {"type": "point", "fill": SERIES[1], "strokeWidth": 0, "size": 22, "fillOpacity": opacity}
        layers = [layer("dots", dot, rows, x=across.at("x"), y=up.at("y"))]
    margins = Margins(left=52, right=8, top=4, bottom=40)
    return frame(layers, labels, width=SCATTER - 60, height=SCATTER - 60, margins=margins)


def rule(ends: Range, title: str, *, grid: bool = True) -> Ruler:
    """An axis over the range, with room for whole dots at its ends and with ticks at round values."""
    ends = widen(ends)
    ticks = canvas.choose_ticks(*ends)
    return Ruler(*ends, ticks, canvas.choose_form(ticks), title, grid=grid)


def draw_density(x: Floats, y: Floats, across: Ruler, up: Ruler) -> Spec:
    """Fields whose darkness is the logarithm of the number of their items."""
    counts, lefts, lows = np.histogram2d(x, y, DENSITY_BINS, [(across.low, across.high), (up.low, up.high)])
    most = np.log1p(counts.max())
    rows = [
        {
            "left": float(lefts[column]),
            "right": float(lefts[column + 1]),
            "bottom": float(lows[line]),
            "top": float(lows[line + 1]),
            "shade": float(0.1 + 0.9 * np.log1p(counts[column, line]) / most),
        }
        for column, line in np.argwhere(counts).tolist()
    ]
    shade = {"field": "shade", "type": "quantitative", "scale": None}
    return layer("density", {"type": "rect", "fill": SERIES[1]}, rows, **canvas.span(across, up), fillOpacity=shade)


def describe_dots(x: Floats, y: Floats) -> str:
    """A note on the dots of a scatter plot; empty where they are at their exact values."""
    if len(x) > MOST_DOTS:
        return "the darker, the more items (log scale)"
    what = {(True, True): "points", (True, False): "scores", (False, True): "ratings"}.get((is_coarse(x), is_coarse(y)))
    return f"{what} spread by up to ¼ step" if what else ""


def widen(ends: Range) -> Range:
    """The range with room for whole dots at its ends."""
    margin = 0.06 * (ends[1] - ends[0]) or 0.5
    return ends[0] - margin, ends[1] + margin


def is_coarse(values: Floats) -> bool:
    """Whether the values are so few that points would hide each other."""
    return 1 < len(np.unique(values)) <= FEW_VALUES


def jitter(values: Floats, ends: Range, generator: np.random.Generator) -> Floats:
    """The values, shape (n,), moved by up to MOVED_PART of their least gap where they are few, and reflected at
    the ends."""
    if not is_coarse(values):
        return values
    moved = values + generator.uniform(-MOVED_PART, MOVED_PART, len(values)) * np.diff(np.unique(values)).min()
    low, high = ends
    inward: Floats = np.where(moved < low, 2 * low - moved, np.where(moved > high, 2 * high - moved, moved))
    return inward


def build_spreads(
    values: Sequence[tuple[str, Floats]], reach: Range, axis: str, labels: ChartLabels, *, width: int
) -> Spec:
    """A row per label and values (n,) without NaN: 5 to 95% thin, the middle half thick, the mean a dot."""
    rows: list[ChartRow] = []
    for number, (name, held) in enumerate(values):
        row: ChartRow = {"text": fit_text(name, LONGEST_NAME, SMALL), "y": LINE_STEP * (number + 0.5), "mean": None}
        if len(held):
            low, lower, upper, high = map(float, np.quantile(held, [0.05, 0.25, 0.75, 0.95]))
            row |= {"low": low, "lower": lower, "upper": upper, "high": high, "mean": float(held.mean())}
        rows.append(row)
    height = LINE_STEP * len(rows)
    left = max([0.0, *(canvas.measure_width(row["text"], SMALL) for row in rows)]) + 8
    x, y = rule(reach, axis), canvas.pixels(height, 0).at("y")
    known = [row for row in rows if row["mean"] is not None]
    empty = [{**row, "text": DASH} for row in rows if row["mean"] is None]
    inner = max(80.0, width - left - 10)
    thin, thick = ({"type": "rule", "color": SERIES[1], "strokeWidth": size, "opacity": 0.5} for size in (1.5, 5))
    layers = [
        layer("tails", thin, known, x=x.at("low"), x2={"field": "high"}, y=y),
        layer("halves", thick, known, x=x.at("lower"), x2={"field": "upper"}, y=y),
        layer("means", {"type": "point", "fill": SERIES[1], "size": 26}, known, x=x.at("mean"), y=y),
        letters("names", rows, {"value": -6}, y, align="right", fontSize=SMALL),
        letters("empty", empty, {"value": inner / 2}, y, color=canvas.INK_SOFT),
    ]
    return frame(layers, labels, width=inner, height=height, margins=Margins(left=left, right=10, top=4, bottom=40))


def build_shares(bars: Sequence[tuple[str, Sequence[SharePart] | str]], labels: ChartLabels, *, width: int) -> Spec:
    """A bar per pair of label and parts that add up to the whole; a text instead of parts replaces the bar."""
    if not bars:
        return canvas.say_nothing(labels, width)
    left = max(canvas.measure_width(fit_text(name, LONGEST_NAME)) for name, _ in bars) + 8
    inner = width - left - 14
    rows, reasons = list[ChartRow](), list[ChartRow]()
    pieces: dict[tuple[str, str, str], list[ChartRow]] = {}
    for number, (name, parts) in enumerate(bars):
        middle = BAR_STEP * (number + 0.5)
        row = {"y": middle, "top": middle - 11, "bottom": middle + 11}
        rows.append({**row, "text": fit_text(name, LONGEST_NAME)})
        if isinstance(parts, str):
            reasons.append({**row, "text": fit_text(parts, inner - 6, SMALL)})
            continue
        start = 0.0
        for part in parts:
            end = start + part.share
            text = f"{part.share:.0%}" if part.share >= LEAST_LABELLED else ""
            piece = {**row, "left": start, "right": end, "x": (start + end) / 2, "text": text}
            pieces.setdefault((part.name, part.colour, part.ink), []).append(piece)
            start = end
    key, key_height = canvas.flow([name for name, _, _ in pieces], width - 2)
    height = BAR_STEP * len(rows)
    margins = Margins(left=left, right=14, top=key_height + 8, bottom=24)
    x, y = Ruler(0, 1, (0, 0.25, 0.5, 0.75, 1), ".0%"), canvas.pixels(height, 0)
    layers = [
        letters("names", rows, {"value": -6}, y.at("y"), align="right"),
        canvas.small("reasons", reasons, {"value": 4}, y.at("y")),
    ]
    for number, ((_, colour, ink), mine) in enumerate(pieces.items()):
        entry, box, labelled = key[number], {"type": "rect", "fill": colour}, [row for row in mine if row["text"]]
        up = entry["y"] - margins.top
        ends = {"x": {"value": entry["x"] - left}, "x2": {"value": entry["x"] - left + 11}}
        layers += [
            layer(f"part-{number}", box | {"stroke": canvas.SURFACE, "strokeWidth": 1}, mine, **canvas.span(x, y)),
            canvas.small(f"share-{number}", labelled, x.at("x"), y.at("y"), align="center", color=ink),
            layer(f"key-{number}", box, [{}], **ends, y={"value": up - 5}, y2={"value": up + 6}),
            canvas.small(f"key-text-{number}", [entry], {"value": entry["from"] - left}, {"value": up}),
        ]
    return frame(layers, labels, width=inner, height=height, margins=margins)

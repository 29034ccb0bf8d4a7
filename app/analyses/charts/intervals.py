"""Figures with their intervals, one per row: a judge against humans, fitted weights, differences of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saiten.core.figures import DASH
from saiten_server.core.reports import AspectCorrelation, CorrelationReport
from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    PHONE_WIDTH,
    SMALL,
    ChartLabels,
    ChartRow,
    Ruler,
    Spec,
    fit_text,
    layer,
    small,
    write_number,
)

if TYPE_CHECKING:
    from saiten_server.comparison.values import ComparisonVerdict

ROW_STEP, NAME_LINE, BAR_LINE, TICK = 44, 13, 31, 9
INTERVALS_MARGIN = 14
POINT = {"type": "point", "fill": canvas.SERIES[0], "size": 56}
REFERENCE = {"type": "rule", "color": canvas.INK, "strokeWidth": 3}
LOOKS: dict[ComparisonVerdict, dict[str, Any]] = {
    "better": {"type": "point", "shape": "triangle-up", "stroke": canvas.GOOD, "fill": canvas.GOOD, "size": 64},
    "worse": {"type": "point", "shape": "triangle-down", "stroke": canvas.BAD, "fill": canvas.BAD, "size": 64},
    "inconclusive": {"type": "point", "shape": "circle", "stroke": canvas.NEUTRAL, "fill": canvas.SURFACE, "size": 64},
}


@dataclass(frozen=True)
class IntervalRow:
    """A figure is drawn as a point with a bar, its `reference` as a tick; `figure` is its text."""

    name: str
    figure: str
    value: float | None
    interval: tuple[float, float] | None = None
    reference: float | None = None


@dataclass(frozen=True)
class IntervalLabels(ChartLabels):
    """`value` and `reference` are the legend of the point and the tick, or empty; `axis` names the figure."""

    value: str = ""
    reference: str = ""
    axis: str = ""


@dataclass(frozen=True)
class ForestRow:
    """`reach` is highest minus lowest value of the measure's scale, in points, as `difference` and its interval are."""

    name: str
    difference: float | None
    interval: tuple[float, float] | None
    verdict: ComparisonVerdict
    reach: float


@dataclass(frozen=True)
class ForestLabels(ChartLabels):
    """`points` is the axis's title where all scales are equally long, `share` otherwise; the others are the legend."""

    points: str
    share: str
    better: str
    worse: str
    inconclusive: str


def build_intervals(rows: Sequence[IntervalRow], labels: IntervalLabels, x: Ruler, *, width: int = PHONE_WIDTH) -> Spec:
    """All rows on the axis `x`; without rows a chart that says `nothing`."""
    if not rows:
        return canvas.say_nothing(labels, width)
    marks = [place(row, number, width) for number, row in enumerate(rows)]
    y = canvas.pixels(ROW_STEP * len(rows), 0)
    references = [mark for mark in marks if mark["reference"] is not None]
    ends = {"x": x.at("reference"), "y": y.at("top"), "y2": {"field": "bottom"}}
    drawn = [*draw_values(marks, POINT, x, y), layer("references", REFERENCE, references, **ends)]
    key = {"value": (labels.value, POINT), "reference": (labels.reference, REFERENCE)}
    key = {name: entry for name, entry in key.items() if entry[0]}
    return frame_rows(marks, drawn, key, x=x, labels=labels, width=width)


def build_correlation(
    report: CorrelationReport,
    labels: IntervalLabels,
    *,
    describe: Callable[[AspectCorrelation], str],
    names: Mapping[str, str] | None = None,
    width: int = PHONE_WIDTH,
) -> Spec:
    """Spearman's ρ by aspect, the human ceiling as its reference. `names` are the aspects' in the reader's language,
    where they have one; `describe` writes the text after ρ, which is a dash where it is undefined."""
    rows = [
        IntervalRow(
            name=(names or {}).get(aspect, aspect),
            figure=f"{DASH if found.spearman is None else write_number(found.spearman)}{describe(found)}",
            value=found.spearman,
            interval=found.spearman_interval,
            reference=found.ceiling.spearman if found.ceiling else None,
        )
        for aspect, found in report.aspects.items()
    ]
    return build_intervals(rows, labels, rule_correlations(rows, fit_text(labels.axis, width, SMALL)), width=width)


def rule_correlations(rows: Sequence[IntervalRow], title: str) -> Ruler:
    """An axis to 1, from 0 or from the half below the least value."""
    ends = [end for row in rows for end in (row.value, row.reference, *(row.interval or ())) if end is not None]
    lowest = max(-1.0, min(0.0, math.floor(2 * min(ends, default=0.0)) / 2))
    step = 0.25 if lowest == 0 else 0.5
    ticks = tuple(lowest + number * step for number in range(5) if lowest + number * step <= 1)
    return Ruler(lowest, 1, ticks, ".2~f", title)


def build_forest(rows: Sequence[ForestRow], labels: ForestLabels, *, width: int = PHONE_WIDTH) -> Spec:
    """All measures on one axis: in points where their scales are equally long, else as shares of their scales, since
    half a point of five differs from half a point of a hundred. Figures are in points either way."""
    if not rows:
        return canvas.say_nothing(labels, width)
    shares = len({row.reach for row in rows}) > 1
    scaled = [scale(row, row.reach if shares and row.reach > 0 else 1.0) for row in rows]
    marks = [place(row, number, width, half=TICK + 1) for number, row in enumerate(scaled)]
    farthest = max(
        (abs(mark[end]) for mark in marks for end in ("low", "at", "high") if mark[end] is not None), default=0
    )
    farthest = (farthest or (0.1 if shares else 1.0)) * 1.04
    ticks = canvas.choose_ticks(-farthest, farthest)
    form = "+.0%" if shares and all(abs(100 * t - round(100 * t)) < 1e-6 for t in ticks) else ""
    form = form or ("+.1%" if shares else canvas.choose_form(ticks, signed=True))
    x = Ruler(-farthest, farthest, ticks, form, fit_text(labels.share if shares else labels.points, width, SMALL))
    drawn = []
    for verdict, look in LOOKS.items():
        mine = [mark for mark, row in zip(marks, rows, strict=True) if row.verdict == verdict]
        drawn += draw_values(mine, look, x, canvas.pixels(ROW_STEP * len(rows), 0), f"{verdict}-")
    texts = (labels.better, labels.worse, labels.inconclusive)
    key = zip(texts, LOOKS.items(), strict=True)
    legend = {str(verdict): (text, look) for text, (verdict, look) in key}
    return frame_rows(marks, drawn, legend, x=x, labels=labels, width=width)


def scale(row: ForestRow, unit: float) -> IntervalRow:
    """The difference with its interval in units of the axis, and its text in points."""
    if row.difference is None:
        return IntervalRow(row.name, DASH, None)
    figure = write_number(row.difference, signed=True)
    if row.interval is None:
        return IntervalRow(row.name, figure, row.difference / unit)
    low, high = row.interval
    figure += f" {canvas.write_interval(low, high)}"
    return IntervalRow(row.name, figure, row.difference / unit, (low / unit, high / unit))


def place(row: IntervalRow, number: int, width: int, *, half: int = TICK) -> ChartRow:
    """The position of the row's marks, and its text. Ticks reach `half` pixels up and down."""
    low, high = row.interval or (None, None)
    middle = number * ROW_STEP + BAR_LINE
    return {
        "text": fit_text(row.name, max(width / 4, width - canvas.measure_width(row.figure, SMALL) - 12)),
        "figure": fit_text(row.figure, 3 * width / 4 - 12, SMALL),
        "at": row.value,
        "low": low,
        "high": high,
        "reference": row.reference,
        "y": middle,
        "top": middle - half,
        "bottom": middle + half,
        "name_y": number * ROW_STEP + NAME_LINE,
    }


def draw_values(
    marks: Sequence[ChartRow], point: Mapping[str, Any], x: Ruler, y: Ruler, prefix: str = ""
) -> list[Spec]:
    """Bars and points of one look; `prefix` begins the layers' names."""
    rule = {"type": "rule", "color": point.get("stroke", point["fill"]), "strokeWidth": 2}
    bars = [mark for mark in marks if mark["low"] is not None]
    known = [mark for mark in marks if mark["at"] is not None]
    return [
        layer(f"{prefix}intervals", rule, bars, x=x.at("low"), x2={"field": "high"}, y=y.at("y")),
        layer(f"{prefix}points", point, known, x=x.at("at"), y=y.at("y")),
    ]


def frame_rows(
    marks: Sequence[ChartRow],
    drawn: Sequence[Spec],
    key: Mapping[str, tuple[str, Mapping[str, Any]]],
    *,
    x: Ruler,
    labels: ChartLabels,
    width: int,
) -> Spec:
    """The chart: names and figures above what is drawn of each row. `key` is the legend, a text and a mark each."""
    height = ROW_STEP * len(marks)
    y = canvas.pixels(height, 0)
    entries, key_height = canvas.flow([text for text, _ in key.values()], width - 2)
    margins = canvas.Margins(left=INTERVALS_MARGIN, right=INTERVALS_MARGIN, top=key_height + 8, bottom=40)
    figures = [{**mark, "text": mark["figure"]} for mark in marks]
    layers = [
        *canvas.draw_grid(marks, x, y),
        canvas.letters("names", marks, {"value": -INTERVALS_MARGIN}, y.at("name_y")),
        small("figures", figures, {"value": width - INTERVALS_MARGIN}, y.at("name_y"), align="right"),
        *drawn,
    ]
    for (name, (_, mark)), entry in zip(key.items(), entries, strict=True):
        up = entry["y"] - margins.top
        sign, ends = {**mark, "size": 50}, {"y": {"value": up}}
        if mark is REFERENCE:
            sign, ends = REFERENCE, {"y": {"value": up - 6}, "y2": {"value": up + 6}}
        layers += [
            layer(f"key-{name}", sign, [entry], x={"value": entry["x"] + 6 - INTERVALS_MARGIN}, **ends),
            small(f"key-text-{name}", [entry], {"value": entry["from"] - INTERVALS_MARGIN}, {"value": up}),
        ]
    return canvas.frame(layers, labels, width=width - 2 * INTERVALS_MARGIN, height=height, margins=margins)

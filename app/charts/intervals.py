"""Figures with their intervals, one per row: a judge against humans, shares of wins, fitted weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.charts.canvas import (
    DASH,
    INK,
    INK_SOFT,
    PHONE_WIDTH,
    SERIES,
    SMALL,
    Margins,
    Row,
    Ruler,
    Spec,
    draw_grid,
    fit,
    flow,
    frame,
    layer,
    letters,
    measure,
    pixels,
    say,
    write_number,
)
from app.domain.reports import AspectCorrelation, CorrelationReport

STEP, NAME_LINE, BAR_LINE, TICK = 44, 13, 31, 9
EDGE = 14


@dataclass(frozen=True)
class IntervalRow:
    """A figure is drawn as a point with a bar, its `reference` as a tick; `figure` is its text."""

    name: str
    figure: str
    value: float | None
    interval: tuple[float, float] | None = None
    reference: float | None = None


@dataclass(frozen=True)
class IntervalLabels:
    """`value` and `reference` are the legend of the point and the tick, or empty; `axis` names the figure."""

    title: str
    description: str
    value: str
    reference: str
    axis: str
    nothing: str


def build_intervals(rows: Sequence[IntervalRow], labels: IntervalLabels, x: Ruler, *, width: int = PHONE_WIDTH) -> Spec:
    """All rows on the axis `x`; without rows a chart that says `nothing`."""
    if not rows:
        return say(labels.nothing, width=width, title=labels.title, description=labels.description)
    marks = [place(row, number, width) for number, row in enumerate(rows)]
    height = STEP * len(marks)
    meanings = {"value": labels.value, "reference": labels.reference}
    named = [name for name, meaning in meanings.items() if meaning]
    key, key_height = flow([meanings[name] for name in named], width - 2)
    margins = Margins(left=EDGE, right=EDGE, top=key_height + 8, bottom=40)
    layers = [*draw_rows(marks, x, pixels(height, 0), width), *draw_key(dict(zip(named, key, strict=True)), margins)]
    return frame(
        layers,
        width=width - 2 * EDGE,
        height=height,
        margins=margins,
        title=labels.title,
        description=labels.description,
    )


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
    return build_intervals(rows, labels, rule_correlations(rows, fit(labels.axis, width, SMALL)), width=width)


def rule_correlations(rows: Sequence[IntervalRow], title: str) -> Ruler:
    """An axis to 1, from 0 or from the half below the least value."""
    ends = [end for row in rows for end in (row.value, row.reference, *(row.interval or ())) if end is not None]
    lowest = max(-1.0, min(0.0, math.floor(2 * min(ends, default=0.0)) / 2))
    step = 0.25 if lowest == 0 else 0.5
    ticks = tuple(lowest + number * step for number in range(5) if lowest + number * step <= 1)
    return Ruler(lowest, 1, ticks, ".2~f", title)


def place(row: IntervalRow, number: int, width: int) -> Row:
    """The position of the row's marks, and its text."""
    low, high = row.interval or (None, None)
    middle = number * STEP + BAR_LINE
    return {
        "text": fit(row.name, max(width / 4, width - measure(row.figure, SMALL) - 12)),
        "figure": fit(row.figure, 3 * width / 4 - 12, SMALL),
        "at": row.value,
        "low": low,
        "high": high,
        "reference": row.reference,
        "y": middle,
        "top": middle - TICK,
        "bottom": middle + TICK,
        "name_y": number * STEP + NAME_LINE,
    }


def draw_rows(marks: Sequence[Row], x: Ruler, y: Ruler, width: int) -> list[Spec]:
    """Names and figures above their bars, the bars, points and ticks."""
    known = [mark for mark in marks if mark["at"] is not None]
    bars = [mark for mark in marks if mark["low"] is not None]
    references = [mark for mark in marks if mark["reference"] is not None]
    figures = [{**mark, "text": mark["figure"]} for mark in marks]
    return [
        *draw_grid(marks, x, y),
        letters("names", marks, {"value": -EDGE}, y.at("name_y"), color=INK),
        letters(
            "figures", figures, {"value": width - EDGE}, y.at("name_y"), align="right", fontSize=SMALL, color=INK_SOFT
        ),
        layer(
            "intervals",
            {"type": "rule", "color": SERIES[0], "strokeWidth": 2},
            bars,
            x=x.at("low"),
            x2={"field": "high"},
            y=y.at("y"),
        ),
        layer("points", {"type": "point", "fill": SERIES[0], "size": 56}, known, x=x.at("at"), y=y.at("y")),
        layer(
            "references",
            {"type": "rule", "color": INK, "strokeWidth": 3},
            references,
            x=x.at("reference"),
            y=y.at("top"),
            y2={"field": "bottom"},
        ),
    ]


def draw_key(key: Mapping[str, Row], margins: Margins) -> list[Spec]:
    """The legend of point and tick, above the plot."""
    layers: list[Spec] = []
    for name, row in key.items():
        middle, x = row["y"] - margins.top, {"value": row["x"] + 6 - EDGE}
        if name == "value":
            point = {"type": "point", "fill": SERIES[0], "size": 50}
            layers.append(layer("key-value", point, [row], x=x, y={"value": middle}))
        else:
            tick = {"type": "rule", "color": INK, "strokeWidth": 3}
            layers.append(layer("key-reference", tick, [row], x=x, y={"value": middle - 6}, y2={"value": middle + 6}))
        layers.append(
            letters(
                f"key-text-{name}",
                [row],
                {"value": row["from"] - EDGE},
                {"value": middle},
                fontSize=SMALL,
                color=INK_SOFT,
            )
        )
    return layers

"""Differences of a comparison with their intervals, one measure per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.charts.canvas import (
    BAD,
    DASH,
    GOOD,
    INK,
    INK_SOFT,
    NEUTRAL,
    PHONE_WIDTH,
    SMALL,
    SURFACE,
    Margins,
    Row,
    Ruler,
    Spec,
    choose_form,
    choose_ticks,
    draw_grid,
    fit,
    flow,
    frame,
    layer,
    letters,
    measure,
    pixels,
    say,
    write_interval,
    write_number,
)
from app.domain.comparison import Verdict

STEP, NAME_LINE, BAR_LINE = 44, 13, 31
EDGE = 14
LOOKS: dict[Verdict, tuple[str, str, str]] = {
    "better": ("triangle-up", GOOD, GOOD),
    "worse": ("triangle-down", BAD, BAD),
    "inconclusive": ("circle", NEUTRAL, SURFACE),
}
"""Shape, stroke and fill."""


@dataclass(frozen=True)
class ForestRow:
    """`reach` is highest minus lowest value of the measure's scale, in points, as `difference` and its interval are."""

    name: str
    difference: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    reach: float


@dataclass(frozen=True)
class ForestLabels:
    """`points` is the axis's title where all scales are equally long; `share` where they are not: it should say that
    the axis is a share of the scale and the figures are points."""

    title: str
    description: str
    points: str
    share: str
    better: str
    worse: str
    inconclusive: str
    nothing: str


def build_forest(rows: Sequence[ForestRow], labels: ForestLabels, *, width: int = PHONE_WIDTH) -> Spec:
    """All measures on one axis: in points where their scales are equally long, else as shares of their scales, since
    half a point of five differs from half a point of a hundred. Figures are in points either way."""
    if not rows:
        return say(labels.nothing, width=width, title=labels.title, description=labels.description)
    shares = len({row.reach for row in rows}) > 1
    marks = [place(row, number, width, shares=shares) for number, row in enumerate(rows)]
    farthest = max((abs(mark[end]) for mark in marks if mark["known"] for end in ("low", "at", "high")), default=0.0)
    farthest = (farthest or (0.1 if shares else 1.0)) * 1.04
    ticks = choose_ticks(-farthest, farthest)
    form = "+.0%" if shares and all(abs(100 * t - round(100 * t)) < 1e-6 for t in ticks) else ""
    form = form or ("+.1%" if shares else choose_form(ticks, signed=True))
    height = STEP * len(rows)
    x = Ruler(-farthest, farthest, ticks, form, fit(labels.share if shares else labels.points, width, SMALL))
    key, key_height = flow([labels.better, labels.worse, labels.inconclusive], width - 2)
    key = [{**row, "verdict": verdict} for row, verdict in zip(key, LOOKS, strict=True)]
    margins = Margins(left=EDGE, right=EDGE, top=key_height + 8, bottom=40)
    layers = [*draw_rows(marks, x, pixels(height, 0), width), *draw_key(key, pixels(height, 0), margins)]
    return frame(
        layers,
        width=width - 2 * EDGE,
        height=height,
        margins=margins,
        title=labels.title,
        description=labels.description,
    )


def place(row: ForestRow, number: int, width: int, *, shares: bool) -> Row:
    """A measure with its position on the axis and its text."""
    unit = row.reach if shares and row.reach > 0 else 1.0
    difference = row.difference
    low, high = row.interval or (difference or 0.0, difference or 0.0)
    figure = DASH if difference is None else write_number(difference, signed=True)
    if difference is not None and row.interval:
        figure += f" {write_interval(low, high)}"
    return {
        "known": difference is not None,
        "verdict": row.verdict,
        "figure": figure,
        "text": fit(row.name, width - measure(figure, SMALL) - 12),
        "has_interval": row.interval is not None,
        "at": (difference or 0.0) / unit,
        "low": low / unit,
        "high": high / unit,
        "top": number * STEP + 21,
        "y": number * STEP + BAR_LINE,
        "bottom": number * STEP + 41,
        "name_y": number * STEP + NAME_LINE,
    }


def draw_rows(marks: Sequence[Row], x: Ruler, y: Ruler, width: int) -> list[Spec]:
    """The zero line, the names and figures above their bars, the bars and the points."""
    known = [mark for mark in marks if mark["known"]]
    figures = [{**mark, "text": mark["figure"]} for mark in marks]
    layers = [
        *draw_grid(marks, x, y),
        letters("names", marks, {"value": -EDGE}, y.at("name_y"), color=INK),
        letters(
            "figures", figures, {"value": width - EDGE}, y.at("name_y"), align="right", fontSize=SMALL, color=INK_SOFT
        ),
    ]
    for verdict, (shape, stroke, fill) in LOOKS.items():
        mine = [mark for mark in known if mark["verdict"] == verdict]
        bars = [mark for mark in mine if mark["has_interval"]]
        point = {"type": "point", "shape": shape, "fill": fill, "stroke": stroke, "size": 64}
        layers += [
            layer(
                f"{verdict}-intervals",
                {"type": "rule", "color": stroke, "strokeWidth": 2},
                bars,
                x=x.at("low"),
                x2={"field": "high"},
                y=y.at("y"),
            ),
            layer(f"{verdict}-points", point, mine, x=x.at("at"), y=y.at("y")),
        ]
    return layers


def draw_key(key: Sequence[Row], y: Ruler, margins: Margins) -> list[Spec]:
    """The legend of the shapes, above the plot."""
    layers = []
    for row in key:
        shape, stroke, fill = LOOKS[row["verdict"]]
        point = {"type": "point", "shape": shape, "fill": fill, "stroke": stroke, "size": 50}
        up = {"value": row["y"] - margins.top}
        layers += [
            layer(f"key-{row['verdict']}", point, [row], x={"value": row["x"] + 6 - EDGE}, y=up),
            letters(
                f"key-text-{row['verdict']}", [row], {"value": row["from"] - EDGE}, up, fontSize=SMALL, color=INK_SOFT
            ),
        ]
    return layers

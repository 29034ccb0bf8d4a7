"""How often each level of an aspect was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.charts.canvas import (
    INK,
    INK_SOFT,
    NEUTRAL,
    SERIES,
    SMALL,
    Margins,
    Row,
    Ruler,
    Spec,
    fit,
    frame,
    layer,
    letters,
    measure,
    pixels,
    say,
)

WIDTH, STEP, BAR, APART = 260, 22, 14, 6
WIDEST_LABEL = 0.38
"""Of the width."""


@dataclass(frozen=True)
class HistogramLevel:
    """A level of the scale as the chart calls it, and how many ratings have it."""

    label: str
    count: int


@dataclass(frozen=True)
class HistogramLabels:
    """`nothing` is shown where there is neither a level nor an unrated one."""

    title: str
    description: str
    unrated: str
    nothing: str


def build_histogram(
    levels: Sequence[HistogramLevel], unrated: int, labels: HistogramLabels, *, width: int = WIDTH
) -> Spec:
    """A bar per level in the order given, the unrated apart as a dashed outline.

    Percentages are of the rated. The unrated has its count only: it is none of them.
    """
    if not levels and not unrated:
        return say(labels.nothing, width=width, title=labels.title, description=labels.description)
    rows = make_rows(levels, unrated, labels.unrated, width)
    left = max(measure(row["text"]) for row in rows) + 8
    right = max(measure(row["figure"], SMALL) for row in rows) + 8
    height = rows[-1]["y"] + STEP / 2
    x, y = Ruler(0, max(1, *(row["count"] for row in rows))), pixels(height, 0)
    inner = max(40.0, width - left - right)
    sides = {"x": x.at("zero"), "x2": {"field": "count"}, "y": y.at("top"), "y2": {"field": "bottom"}}
    outline = {"type": "rect", "fill": "none", "stroke": NEUTRAL, "strokeDash": [3, 2], "strokeWidth": 1.5}
    layers = [
        layer("bars", {"type": "rect", "fill": SERIES[0]}, [row for row in rows if row["rated"]], **sides),
        layer("unrated", outline, [row for row in rows if not row["rated"] and row["count"]], **sides),
        layer(
            "base",
            {"type": "rule", "color": INK_SOFT, "strokeWidth": 1},
            rows,
            x=x.at("zero"),
            y=y.at("top"),
            y2={"field": "bottom"},
        ),
        letters("labels", rows, {"value": -6}, y.at("y"), align="right", color=INK),
        letters(
            "figures",
            [{**row, "text": row["figure"]} for row in rows],
            x.at("count"),
            y.at("y"),
            dx=5,
            fontSize=SMALL,
            color=INK_SOFT,
        ),
    ]
    margins = Margins(left=left, right=right)
    return frame(
        layers, width=inner, height=height, margins=margins, title=labels.title, description=labels.description
    )


def make_rows(levels: Sequence[HistogramLevel], unrated: int, unrated_label: str, width: int) -> list[Row]:
    """A row per bar, with its position and text."""
    rated = sum(level.count for level in levels)
    figures = [f"{level.count:,}" + (f" ({level.count / rated:.0%})" if rated else "") for level in levels]
    named = [(level.label, level.count, figure, True) for level, figure in zip(levels, figures, strict=True)]
    if unrated:
        named.append((unrated_label, unrated, f"{unrated:,}", False))
    rows: list[Row] = []
    for number, (label, count, figure, is_rated) in enumerate(named):
        middle = STEP * (number + 0.5) + (0 if is_rated or not levels else APART)
        rows.append(
            {
                "text": fit(label, WIDEST_LABEL * width),
                "count": count,
                "figure": figure,
                "rated": is_rated,
                "zero": 0,
                "y": middle,
                "top": middle - BAR / 2,
                "bottom": middle + BAR / 2,
            }
        )
    return rows

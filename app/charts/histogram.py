"""How often each level of an aspect was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.charts import canvas
from app.charts.canvas import INK_SOFT, NEUTRAL, SERIES, SMALL, ChartLabels, Row, Ruler, Spec, layer, measure

WIDTH, STEP, BAR, APART = 260, 22, 14, 6
WIDEST_LABEL = 0.38
"""Of the width."""


@dataclass(frozen=True)
class HistogramLabels(ChartLabels):
    """`unrated` names the bar of the unrated."""

    unrated: str = ""


def build_histogram(
    levels: Sequence[tuple[str, int]], unrated: int, labels: HistogramLabels, *, width: int = WIDTH
) -> Spec:
    """A bar per level, which is a name and a count, in the order given; the unrated apart as a dashed outline.

    Percentages are of the rated. The unrated has its count only: it is none of them.
    """
    if not levels and not unrated:
        return canvas.say_nothing(labels, width)
    rows = make_rows(levels, unrated, labels.unrated, width)
    left = max(measure(row["text"]) for row in rows) + 8
    right = max(measure(row["figure"], SMALL) for row in rows) + 8
    height = rows[-1]["y"] + STEP / 2
    x, y = Ruler(0, max(1, *(row["count"] for row in rows))), canvas.pixels(height, 0)
    sides = canvas.span(x, y, "zero", "count")
    outline = {"type": "rect", "fill": "none", "stroke": NEUTRAL, "strokeDash": [3, 2], "strokeWidth": 1.5}
    base = {"type": "rule", "color": INK_SOFT, "strokeWidth": 1}
    layers = [
        layer("bars", {"type": "rect", "fill": SERIES[0]}, [row for row in rows if row["rated"]], **sides),
        layer("unrated", outline, [row for row in rows if not row["rated"] and row["count"]], **sides),
        layer("base", base, rows, x=x.at("zero"), y=y.at("top"), y2={"field": "bottom"}),
        canvas.letters("labels", rows, {"value": -6}, y.at("y"), align="right"),
        canvas.small("figures", [{**row, "text": row["figure"]} for row in rows], x.at("count"), y.at("y"), dx=5),
    ]
    margins = canvas.Margins(left=left, right=right)
    return canvas.frame(layers, labels, width=max(40.0, width - left - right), height=height, margins=margins)


def make_rows(levels: Sequence[tuple[str, int]], unrated: int, unrated_label: str, width: int) -> list[Row]:
    """A row per bar, with its position and text."""
    rated = sum(count for _, count in levels)
    named = [(name, count, f"{count:,}" + (f" ({count / rated:.0%})" if rated else ""), True) for name, count in levels]
    if unrated:
        named.append((unrated_label, unrated, f"{unrated:,}", False))
    rows: list[Row] = []
    for number, (label, count, figure, is_rated) in enumerate(named):
        middle = STEP * (number + 0.5) + (0 if is_rated or not levels else APART)
        rows.append(
            {
                "text": canvas.fit(label, WIDEST_LABEL * width),
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

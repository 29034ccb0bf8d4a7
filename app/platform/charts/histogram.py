"""How often each level of an aspect was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    INK_SOFT,
    LEVEL_COLOURS,
    NEUTRAL,
    SERIES,
    SMALL,
    ChartLabels,
    ChartRow,
    Ruler,
    Spec,
    layer,
    measure_width,
)

WIDTH, BAR_STEP, BAR, LINE, PANEL_GAP = 260, 22, 14, 14, 6
LABEL_SHARE, MOST_LINES = 0.38, 2
"""Of the width, where several charts stand on one axis, and at most otherwise; and lines of a label."""


@dataclass(frozen=True)
class HistogramLabels(ChartLabels):
    """`unrated` names the bar of the unrated."""

    unrated: str = ""


@dataclass(frozen=True)
class HistogramAxis:
    """What charts beside each other share: the count at the axis's end. Their bars begin at one place too."""

    most: int


def build_histogram(
    levels: Sequence[tuple[str, int]],
    unrated: int,
    labels: HistogramLabels,
    *,
    tones: Sequence[float] = (),
    axis: HistogramAxis | None = None,
    width: int = WIDTH,
) -> Spec:
    """A bar per level, which is a name and a count, in the order given; the unrated apart as a dashed outline.

    Percentages are of the rated. The unrated has its count only: it is none of them. `tones` say how good each level
    is, from 0 to 1, and give it a colour between orange and blue, which colour-blind readers can tell apart.
    """
    if not levels and not unrated:
        return canvas.say_nothing(labels, width)
    rows = make_rows(levels, unrated, labels.unrated, width)
    texts = [{**row, "text": line, "y": y} for row in rows for line, y in zip(row["lines"], row["ys"], strict=True)]
    left = LABEL_SHARE * width if axis else max(measure_width(text["text"]) for text in texts)
    right = (
        max(measure_width(row["figure"], SMALL) for row in rows) + 8
        if axis is None
        else measure_width("8,888 (88%)", SMALL)
    )
    height = rows[-1]["end"]
    most = max(1, *(row["count"] for row in rows)) if axis is None else max(1, axis.most)
    x, y = Ruler(0, most), canvas.pixels(height, 0)
    sides = canvas.span(x, y, "zero", "count")
    outline = {"type": "rect", "fill": "none", "stroke": NEUTRAL, "strokeDash": [3, 2], "strokeWidth": 1.5}
    base = {"type": "rule", "color": INK_SOFT, "strokeWidth": 1}
    colours = [LEVEL_COLOURS[round(tone * (len(LEVEL_COLOURS) - 1))] for tone in tones] or [SERIES[0]] * len(levels)
    bars = [{**row, "fill": colour} for row, colour in zip(rows, colours, strict=False)]
    fill: Spec = {"field": "fill", "type": "nominal", "scale": None, "legend": None}
    layers = [
        layer("bars", {"type": "rect"}, bars, **sides, fill=fill),
        layer("unrated", outline, [row for row in rows if not row["rated"] and row["count"]], **sides),
        layer("base", base, rows, x=x.at("zero"), y=y.at("top"), y2={"field": "bottom"}),
        canvas.letters("labels", texts, {"value": -6}, y.at("y"), align="right"),
        canvas.small("figures", [{**row, "text": row["figure"]} for row in rows], x.at("count"), y.at("y"), dx=5),
    ]
    margins = canvas.Margins(left=left + 8, right=right)
    return canvas.frame(layers, labels, width=max(40.0, width - left - 8 - right), height=height, margins=margins)


def make_rows(levels: Sequence[tuple[str, int]], unrated: int, unrated_label: str, width: int) -> list[ChartRow]:
    """A row per bar, with its position, and the lines of its label with theirs."""
    rated = sum(count for _, count in levels)
    named = [(name, count, f"{count:,}" + (f" ({count / rated:.0%})" if rated else ""), True) for name, count in levels]
    if unrated:
        named.append((unrated_label, unrated, f"{unrated:,}", False))
    rows: list[ChartRow] = []
    start = 0.0
    for label, count, figure, is_rated in named:
        lines = canvas.wrap(label, LABEL_SHARE * width, MOST_LINES)
        start += 0 if is_rated or not levels else PANEL_GAP
        room = BAR_STEP + LINE * (len(lines) - 1)
        middle = start + room / 2
        rows.append(
            {
                "lines": lines,
                "ys": [middle + LINE * (number - (len(lines) - 1) / 2) for number in range(len(lines))],
                "count": count,
                "figure": figure,
                "rated": is_rated,
                "zero": 0,
                "y": middle,
                "top": middle - BAR / 2,
                "bottom": middle + BAR / 2,
                "end": start + room,
            }
        )
        start += room
    return rows

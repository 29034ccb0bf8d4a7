"""A judge against humans: the correlation of each aspect, and what a human reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.charts.canvas import Margins, Row, Ruler, Spec, draw_grid, flow, frame, layer, letters, pixels, say
from app.charts.lettering import DASH, fit, measure, write_number
from app.charts.theme import INK, INK_SOFT, PHONE_WIDTH, SERIES, SMALL
from app.domain.reports import AspectCorrelation, CorrelationReport

STEP, NAME_LINE, BAR_LINE, TICK = 44, 13, 31, 9
EDGE = 14


@dataclass(frozen=True)
class AgreementLabels:
    """`judge` and `human` are what the point and the tick mean, `axis` names the coefficient, `items` stands before
    the number of items, as `n` does."""

    title: str
    description: str
    judge: str
    human: str
    axis: str
    items: str
    nothing: str


def build_agreement(
    report: CorrelationReport,
    labels: AgreementLabels,
    *,
    names: Mapping[str, str] | None = None,
    width: int = PHONE_WIDTH,
) -> Spec:
    """Spearman's ρ with its interval as a point with a bar, the human ceiling as a tick. `names` are the aspects' in
    the reader's language, where they have one; a figure that the data cannot give is a dash."""
    if not report.aspects:
        return say(labels.nothing, width=width, title=labels.title, description=labels.description)
    marks = [
        place((names or {}).get(aspect, aspect), found, number, labels.items, width)
        for number, (aspect, found) in enumerate(report.aspects.items())
    ]
    least = min((mark[end] for mark in marks for end in ("low", "at", "ceiling") if mark[end] is not None), default=0.0)
    lowest = max(-1.0, min(0.0, math.floor(2 * least) / 2))
    ticks = tuple(lowest + number * (0.25 if lowest == 0 else 0.5) for number in range(5) if lowest + number / 4 <= 1)
    height = STEP * len(marks)
    x = Ruler(lowest, 1, tuple(tick for tick in ticks if tick <= 1), ".2~f", fit(labels.axis, width, SMALL))
    key, key_height = flow([labels.judge, labels.human], width - 2)
    margins = Margins(left=EDGE, right=EDGE, top=key_height + 8, bottom=40)
    y = pixels(height, 0)
    layers = [*draw_rows(marks, x, y, width), *draw_key(key, margins)]
    return frame(
        layers,
        width=width - 2 * EDGE,
        height=height,
        margins=margins,
        title=labels.title,
        description=labels.description,
    )


def place(name: str, found: AspectCorrelation, number: int, items: str, width: int) -> Row:
    """An aspect with where its marks stand, and what it says."""
    low, high = found.spearman_interval or (None, None)
    value = DASH if found.spearman is None else write_number(found.spearman)
    figure = f"{value} · {items} {found.n:,}"
    middle = number * STEP + BAR_LINE
    return {
        "text": fit(name, width - measure(figure, SMALL) - 12),
        "figure": figure,
        "at": found.spearman,
        "low": low,
        "high": high,
        "ceiling": found.ceiling.spearman if found.ceiling else None,
        "y": middle,
        "top": middle - TICK,
        "bottom": middle + TICK,
        "name_y": number * STEP + NAME_LINE,
    }


def draw_rows(marks: Sequence[Row], x: Ruler, y: Ruler, width: int) -> list[Spec]:
    """Names and figures above their bars, the bars, points and ticks."""
    known = [mark for mark in marks if mark["at"] is not None]
    bars = [mark for mark in known if mark["low"] is not None]
    ceilings = [mark for mark in marks if mark["ceiling"] is not None]
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
            "ceilings",
            {"type": "rule", "color": INK, "strokeWidth": 3},
            ceilings,
            x=x.at("ceiling"),
            y=y.at("top"),
            y2={"field": "bottom"},
        ),
    ]


def draw_key(key: Sequence[Row], margins: Margins) -> list[Spec]:
    """What point and tick mean, above the plot."""
    judge, human = ({"value": row["y"] - margins.top} for row in key)
    ends = [{"value": key[1]["y"] - margins.top + step} for step in (-6, 6)]
    texts = [
        letters(f"key-text-{name}", [row], {"value": row["from"] - EDGE}, up, fontSize=SMALL, color=INK_SOFT)
        for name, row, up in zip(("judge", "human"), key, (judge, human), strict=True)
    ]
    tick = {"type": "rule", "color": INK, "strokeWidth": 3}
    return [
        layer(
            "key-judge",
            {"type": "point", "fill": SERIES[0], "size": 50},
            key[:1],
            x={"value": key[0]["x"] + 6 - EDGE},
            y=judge,
        ),
        layer("key-human", tick, key[1:], x={"value": key[1]["x"] + 6 - EDGE}, y=ends[0], y2=ends[1]),
        *texts,
    ]

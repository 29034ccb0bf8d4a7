"""Faults over the system's turns: their rate turn by turn, and the survival curve of faultless conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saiten_server.platform.charts import canvas
from saiten_server.platform.charts.canvas import (
    SERIES,
    SMALL,
    ChartLabels,
    ChartRow,
    Ruler,
    Spec,
    fit_text,
    layer,
    measure_width,
    small,
)
from saiten_server.stats.turns import SurvivalStep, TurnRate

HEIGHT, TOP, BOTTOM, TURNS_MARGIN = 130, 20, 40, 10
"""Pixels; `TOP` has the name of the upright axis, and `BOTTOM` the numbers and the name of the other."""

LEAST_REACH = 10.0
"""Faults per 100 turns: on a shorter axis, chance differences would look large."""


@dataclass(frozen=True)
class TurnLabels(ChartLabels):
    """`upright` names the axis of what is drawn, `across` that of the turns."""

    upright: str
    across: str


def build_turn_rates(rates: Sequence[TurnRate], labels: TurnLabels, *, width: int = canvas.PHONE_WIDTH) -> Spec:
    """The rates per 100 turns with their intervals, each in the middle of its turns."""
    if not rates:
        return canvas.say_nothing(labels, width)
    rows: list[ChartRow] = [
        {
            "turn": (one.first + one.last) / 2,
            "rate": one.rate,
            "low": one.interval[0] if one.interval else None,
            "high": one.interval[1] if one.interval else None,
        }
        for one in rates
    ]
    most = max(LEAST_REACH, *(max(row["rate"], row["high"] or 0.0) for row in rows))
    x, y = rule_turns(rates[-1].last, labels.across), rule_upright(min(100.0, 1.05 * most))
    at, bars = x.at("turn"), [row for row in rows if row["low"] is not None]
    look = {"color": SERIES[0], "strokeWidth": 1}
    layers = [
        layer("intervals", {"type": "rule", **look}, bars, x=at, y=y.at("low"), y2={"field": "high"}),
        layer("line", {"type": "line", "color": SERIES[0], "opacity": 0.5}, rows, x=at, y=y.at("rate")),
        layer("points", {"type": "point", "fill": SERIES[0], "stroke": SERIES[0]}, rows, x=at, y=y.at("rate")),
    ]
    return put_in_frame(layers, labels, y, width)


def build_survival(steps: Sequence[SurvivalStep], labels: TurnLabels, *, width: int = canvas.PHONE_WIDTH) -> Spec:
    """The share of conversations without a fault, in per cent, as steps in a band that is its pointwise interval."""
    if not steps:
        return canvas.say_nothing(labels, width)
    rows: list[ChartRow] = [{"turn": 0, "share": 100.0, "low": None, "high": None}]
    rows += (
        {
            "turn": step.turn,
            "share": 100 * step.share,
            "low": 100 * step.interval[0] if step.interval else None,
            "high": 100 * step.interval[1] if step.interval else None,
        }
        for step in steps
    )
    # The last step would have no width otherwise.
    rows.append({**rows[-1], "turn": steps[-1].turn + 0.5})
    x, y = rule_turns(steps[-1].turn, labels.across, low=0.0), rule_upright(100.0)
    band = [row for row in rows if row["low"] is not None]
    steps_of = {"interpolate": "step-after"}
    area = {"type": "area", "color": SERIES[0], "opacity": 0.18, **steps_of}
    layers = [
        layer("band", area, band, x=x.at("turn"), y=y.at("low"), y2={"field": "high"}),
        layer("line", {"type": "line", "color": SERIES[0], **steps_of}, rows, x=x.at("turn"), y=y.at("share")),
    ]
    return put_in_frame(layers, labels, y, width)


def rule_turns(last: int, title: str, *, low: float = 0.5) -> Ruler:
    """The scale of the turns, with whole numbers only."""
    ticks = tuple(tick for tick in canvas.choose_ticks(max(1.0, low), last) if tick == int(tick)) or (1.0,)
    return Ruler(low, last + 0.5, ticks, ",.0f", title=title)


def rule_upright(high: float) -> Ruler:
    """The scale of a rate or a share, from 0."""
    ticks = canvas.choose_ticks(0.0, high)
    return Ruler(0.0, high, ticks, canvas.choose_form(ticks), grid=True)


def put_in_frame(layers: Sequence[Spec], labels: TurnLabels, y: Ruler, width: int) -> Spec:
    """The chart with the name of its upright axis above."""
    left = max(measure_width(f"{tick:,.0f}", SMALL) for tick in y.ticks) + 12
    name = [{"text": fit_text(labels.upright, width - 4, SMALL)}]
    above = small("axis", name, {"value": -left}, {"value": -TOP / 2 - 1})
    margins = canvas.Margins(left=left, right=TURNS_MARGIN, top=TOP, bottom=BOTTOM)
    return canvas.frame([*layers, above], labels, width=width - left - TURNS_MARGIN, height=HEIGHT, margins=margins)

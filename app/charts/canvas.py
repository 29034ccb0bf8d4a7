"""What all specifications share: rulers for the two directions, layers, and the frame around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.charts.lettering import fit, measure
from app.charts.theme import INK_SOFT, LINE, SMALL, TEXT

Spec = dict[str, Any]
Row = dict[str, Any]

UNSIGNED_ZERO = "datum.value === 0 ? '0' : datum.label"


@dataclass(frozen=True)
class Margins:
    """Pixels around the plot, where labels stand."""

    left: float = 0
    right: float = 0
    top: float = 0
    bottom: float = 0


@dataclass(frozen=True)
class Ruler:
    """The scale of one direction with its ticks; without ticks it has no axis. All layers of a chart share it."""

    low: float
    high: float
    ticks: tuple[float, ...] = ()
    form: str = ""
    title: str | None = None
    grid: bool = False

    def at(self, field: str) -> Spec:
        """The channel of a field on this scale."""
        axis = None
        if self.ticks:
            axis = {"values": list(self.ticks), "format": self.form, "title": self.title, "grid": self.grid}
            axis |= {"labelExpr": UNSIGNED_ZERO} if self.form.startswith("+") else {}
        scale = {"domain": [self.low, self.high], "nice": False, "zero": False}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def layer(name: str, mark: Mapping[str, Any], rows: Sequence[Row], **channels: Spec) -> Spec:
    """Marks of one kind; `name` is their class in the SVG, as `chart-NAME`."""
    return {"name": name, "data": {"values": list(rows)}, "mark": dict(mark), "encoding": channels}


def letters(name: str, rows: Sequence[Row], x: Spec, y: Spec, **look: Any) -> Spec:
    """Texts, from the rows' field `text`."""
    return layer(name, {"type": "text", **look}, rows, x=x, y=y, text={"field": "text", "type": "nominal"})


def draw_grid(rows: Sequence[Row], x: Ruler, y: Ruler) -> list[Spec]:
    """Lines at the ticks and a darker one at zero, from `top` to `bottom` of each row: texts between stand free."""
    ends = [{"top": row["top"], "bottom": row["bottom"]} for row in rows]
    lines = [{**end, "at": tick} for end in ends for tick in x.ticks if tick]
    zeros = [{**end, "at": 0} for end in ends] if x.low <= 0 <= x.high else []
    look, sides = {"type": "rule", "strokeWidth": 1}, {"y": y.at("top"), "y2": {"field": "bottom"}}
    return [
        layer("grid", look | {"color": LINE}, lines, x=x.at("at"), **sides),
        layer("zero", look | {"color": INK_SOFT}, zeros, x=x.at("at"), **sides),
    ]


def pixels(low: float, high: float) -> Ruler:
    """A scale whose values are pixels from the left, or for (height, 0) from the top."""
    return Ruler(low, high)


def frame(
    layers: Sequence[Spec], *, width: float, height: float, margins: Margins, title: str, description: str
) -> Spec:
    """The chart. `width` and `height` are the plot's; the size depends on no font that the server may lack."""
    return {
        "usermeta": {"title": title},
        "description": description,
        "autosize": "none",
        "width": width,
        "height": height,
        "padding": {
            "left": margins.left,
            "right": margins.right,
            "top": margins.top,
            "bottom": margins.bottom,
        },
        "layer": list(layers),
    }


def say(text: str, *, width: float, title: str, description: str) -> Spec:
    """A chart that only says why there is nothing to draw."""
    rows = [{"x": width / 2, "y": 24, "text": fit(text, width - 8)}]
    shown = letters("nothing", rows, pixels(0, width).at("x"), pixels(48, 0).at("y"), align="center", color=INK_SOFT)
    return frame([shown], width=width, height=48, margins=Margins(), title=title, description=description)


def choose_ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """At most so many round values from low to high."""
    reach = high - low
    if not (math.isfinite(reach) and reach > 0):
        return (low,)
    power = 10.0 ** math.floor(math.log10(reach / most))
    step = next(step * power for step in (1, 2, 2.5, 5, 10, 20, 25) if count_steps(low, high, step * power) <= most)
    first = math.ceil(low / step - 1e-9)
    return tuple(round((first + number) * step, 10) for number in range(count_steps(low, high, step)))


def count_steps(low: float, high: float, step: float) -> int:
    """How many multiples of the step lie from low to high."""
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def choose_form(ticks: Sequence[float], *, signed: bool = False) -> str:
    """The d3 format with as many digits as the ticks need."""
    digits = next((digits for digits in range(4) if all(abs(t - round(t, digits)) < 1e-9 for t in ticks)), 4)
    return f"{'+' if signed else ''},.{digits}f"


def flow(texts: Sequence[str], width: float, sign: float = 18, line: float = 18) -> tuple[list[Row], float]:
    """Entries of a legend in lines: rows with x and y of the sign's left middle, and the height of all."""
    rows: list[Row] = []
    x, y = 0.0, line / 2
    for number, text in enumerate(texts):
        shown = fit(text, width - sign, SMALL)
        room = sign + measure(shown, SMALL)
        if x and x + room > width:
            x, y = 0.0, y + line
        rows.append({"number": number, "x": x, "y": y, "from": x + sign - TEXT / 3, "text": shown})
        x += room + 14
    return rows, (y + line / 2 if rows else 0.0)

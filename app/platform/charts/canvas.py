"""What all charts share: their look, texts of others made harmless and cut to the room, rulers, layers and the frame.

Widths of texts are estimates, on the wide side: the font is the reader's, and no font of the server tells it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saiten.core.figures import round_figure
from saiten.core.plain_text import printable

INK, INK_SOFT, LINE, SURFACE = "var(--ink)", "var(--ink-soft)", "var(--line)", "var(--surface)"
GOOD, BAD, NEUTRAL = "var(--good)", "var(--bad)", "var(--neutral)"
SERIES = tuple(f"var(--chart-{number})" for number in range(1, 7))
LEVEL_COLOURS = tuple(f"var(--level-{number})" for number in range(1, 6))
"""From the worst level to the best: orange, grey in the middle, blue."""

LIGHT = {
    "--ink": "#1d1c1a",
    "--ink-soft": "#5c5852",
    "--line": "#d9d5cd",
    "--surface": "#ffffff",
    "--good": "#1b6b3a",
    "--bad": "#a11d1d",
    "--neutral": "#5c5852",
    "--chart-1": "#37408f",
    "--chart-2": "#0b7285",
    "--chart-3": "#2e7d4f",
    "--chart-4": "#9a5b00",
    "--chart-5": "#9c36b5",
    "--chart-6": "#5f6b00",
    "--level-1": "#a85100",
    "--level-2": "#c4812f",
    "--level-3": "#8a857b",
    "--level-4": "#5b8bc9",
    "--level-5": "#1f5fbf",
}
"""The values of these properties on a light page, for files, which have no page around them."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""Each series also has a shape, so that it can be distinguished without its colour."""

TEXT, SMALL = 12, 11
"""Sizes in pixels. Charts are never scaled down, so these are the sizes on a phone too."""

PHONE_WIDTH = 328
"""Pixels: a page of 360 with margins of 16. Charts are wider only where their content needs it."""

CONFIG: dict[str, Any] = {
    "aria": False,  # the renderer adds one label; screen readers use the page's table
    "background": None,
    "font": "inherit",
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "gridColor": LINE,
        "labelBound": False,
        "labelColor": INK_SOFT,
        "labelFlush": False,
        "labelFontSize": SMALL,
        "labelLimit": 0,
        "labelOverlap": False,
        "tickColor": LINE,
        "tickSize": 4,
        "titleColor": INK_SOFT,
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "titleLimit": 0,
    },
    "line": {"strokeWidth": 1.5},
    "point": {"filled": True, "opacity": 1, "size": 52, "strokeWidth": 1.5},
    "rule": {"strokeWidth": 1.5},
    "text": {"align": "left", "baseline": "middle", "color": INK, "fontSize": TEXT},
}

MOST_LABEL_CHARACTERS = 1_000
"""The most characters of a text that are used: no chart has room for more."""

JOINERS = frozenset("\u200c\u200d")
"""Joiners control nothing, and hold emoji and the words of some scripts together."""

ELLIPSIS = "…"


def sanitize(text: str) -> str:
    """The text on one line, with characters that could affect the text around it made visible."""
    return "".join(character if character in JOINERS else printable(character) for character in text)


def measure_width(text: str, size: float = TEXT) -> float:
    """About how many pixels the text takes."""
    return size * sum(map(em, text))


def em(character: str) -> float:
    """How wide a character is, as a share of the font's size."""
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3 if ord(character) > 0x1F000 else 1.0
    if character in "MWmw@%…—":
        return 0.95
    if character in "iljtf.,:;|!'()[] ":
        return 0.38
    return 0.72 if character.isupper() else 0.6


def fit_text(text: str, room: float, size: float = TEXT) -> str:
    """The text, or as much of its beginning as fits into `room` pixels, with an ellipsis."""
    text = sanitize(text[:MOST_LABEL_CHARACTERS])
    if measure_width(text, size) <= room:
        return text
    left, kept = room / size - em(ELLIPSIS), ""
    for character in text:
        left -= em(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip("".join(JOINERS) + " ") + ELLIPSIS


def wrap(text: str, room: float, most: int, size: float = TEXT) -> list[str]:
    """The text in at most so many lines of so many pixels, broken at spaces where there are some, else anywhere; the
    last has an ellipsis where it does not fit."""
    rest, lines = sanitize(text[:MOST_LABEL_CHARACTERS]), list[str]()
    while len(lines) < most - 1 and measure_width(rest, size) > room:
        width, end = 0.0, 0
        for character in rest:
            width += size * em(character)
            if width > room:
                break
            end += 1
        # A number alone is no line, nor is the last character: it takes the one before it along.
        space = rest.rfind(" ", 1, end + 1)
        alone = len(rest) - end == 1
        end = space if space > 0 and not rest[:space].isdecimal() else max(1, end - alone)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, fit_text(rest, room, size)]


def fit_ends(text: str, room: float, size: float = TEXT) -> str:
    """The text, or its beginning and its end: builds of one series differ in the end."""
    text = sanitize(text[:MOST_LABEL_CHARACTERS])
    if measure_width(text, size) <= room:
        return text
    half = (room + size * em(ELLIPSIS)) / 2
    return fit_text(text, half, size) + fit_text(text[::-1], half, size)[-2::-1].lstrip()


def write_number(value: float, *, digits: int = 2, signed: bool = False) -> str:
    """The number with a real minus; what rounds to zero has no sign."""
    rounded = round_figure(value, digits)
    sign = "−" if rounded < 0 else "+" if signed and rounded else ""
    return f"{sign}{abs(rounded):,.{digits}f}"


def write_interval(low: float, high: float) -> str:
    """`[−0.10, 0.35]`."""
    return f"[{write_number(low)}, {write_number(high)}]"


Spec = dict[str, Any]
ChartRow = dict[str, Any]

UNSIGNED_ZERO = "datum.value === 0 ? '0' : datum.label"


@dataclass(frozen=True)
class ChartLabels:
    """What every chart is called; `nothing` is shown where there is nothing to draw."""

    title: str
    description: str
    nothing: str


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
    log: bool = False

    def at(self, field: str) -> Spec:
        """The channel of a field on this scale."""
        axis = None
        if self.ticks:
            axis = {"values": list(self.ticks), "format": self.form, "title": self.title, "grid": self.grid}
            axis |= {"labelExpr": UNSIGNED_ZERO} if self.form.startswith("+") else {}
        scale: Spec = {"domain": [self.low, self.high], "nice": False}
        scale |= {"type": "log"} if self.log else {"zero": False}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def layer(name: str, mark: Mapping[str, Any], rows: Sequence[ChartRow], **channels: Spec) -> Spec:
    """Marks of one kind; `name` is their class in the SVG, as `chart-NAME`."""
    return {"name": name, "data": {"values": list(rows)}, "mark": dict(mark), "encoding": channels}


def letters(name: str, rows: Sequence[ChartRow], x: Spec, y: Spec, **look: Any) -> Spec:
    """Texts, from the rows' field `text`."""
    return layer(name, {"type": "text", **look}, rows, x=x, y=y, text={"field": "text", "type": "nominal"})


def small(name: str, rows: Sequence[ChartRow], x: Spec, y: Spec, **look: Any) -> Spec:
    """Small, soft texts: figures, legends and notes."""
    return letters(name, rows, x, y, **{"fontSize": SMALL, "color": INK_SOFT} | look)


def span(x: Ruler, y: Ruler, start: str = "left", end: str = "right") -> dict[str, Spec]:
    """The channels of rectangles, from the rows' fields `start`, `end`, `top` and `bottom`."""
    return {"x": x.at(start), "x2": {"field": end}, "y": y.at("top"), "y2": {"field": "bottom"}}


def draw_grid(rows: Sequence[ChartRow], x: Ruler, y: Ruler) -> list[Spec]:
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
    layers: Sequence[Spec], labels: ChartLabels, *, width: float, height: float, margins: Margins = Margins()
) -> Spec:
    """The chart. `width` and `height` are the plot's; the size depends on no font that the server may lack."""
    return {
        "usermeta": {"title": labels.title},
        "description": labels.description,
        "autosize": "none",
        "width": width,
        "height": height,
        "padding": asdict(margins),
        "layer": list(layers),
    }


def say_nothing(labels: ChartLabels, width: float) -> Spec:
    """A chart that only says why there is nothing to draw."""
    rows = [{"x": width / 2, "y": 24, "text": fit_text(labels.nothing, width - 8)}]
    shown = letters("nothing", rows, pixels(0, width).at("x"), pixels(48, 0).at("y"), align="center", color=INK_SOFT)
    return frame([shown], labels, width=width, height=48)


def choose_ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """At most `most` round values from low to high."""
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


LEGEND_LINE = 18.0


def flow(texts: Sequence[str], width: float, sign: float = 18) -> tuple[list[ChartRow], float]:
    """Entries of a legend in lines: rows with x and y of the sign's left middle, and the height of all."""
    rows: list[ChartRow] = []
    x, y = 0.0, LEGEND_LINE / 2
    for number, text in enumerate(texts):
        shown = fit_text(text, width - sign, SMALL)
        room = sign + measure_width(shown, SMALL)
        if x and x + room > width:
            x, y = 0.0, y + LEGEND_LINE
        rows.append({"number": number, "x": x, "y": y, "from": x + sign - TEXT / 3, "text": shown})
        x += room + 14
    return rows, (y + LEGEND_LINE / 2 if rows else 0.0)

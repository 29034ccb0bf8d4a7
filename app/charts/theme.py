"""How all charts look. Colours are CSS custom properties of the page, so one drawing serves light and dark."""

from __future__ import annotations

from typing import Any

INK, INK_SOFT, LINE, SURFACE = "var(--ink)", "var(--ink-soft)", "var(--line)", "var(--surface)"
GOOD, BAD, NEUTRAL = "var(--good)", "var(--bad)", "var(--neutral)"
SERIES = tuple(f"var(--chart-{number})" for number in range(1, 7))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 2), (1, 3))
"""Beside its colour each series has a shape and a dash: nobody needs to see the colour."""

TEXT, SMALL = 12, 11
"""Sizes in pixels. Charts are never scaled down, so that these hold on a phone too."""

PHONE_WIDTH = 328
"""Pixels: a page of 360 with margins of 16. Charts are no wider unless their content needs it."""

CONFIG: dict[str, Any] = {
    "aria": False,  # the renderer says in one label what is drawn; a screen reader has the page's table
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

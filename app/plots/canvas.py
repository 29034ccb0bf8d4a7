"""What all drawings share: colours that colour-blind readers tell apart, plain axes, figures as texts."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

INK, GREY, PALE = "#222222", "#767676", "#ececec"
BLUE, ORANGE, LIGHT_BLUE = "#0072b2", "#d55e00", "#a9cfe6"
"""Of Okabe and Ito's palette (2008), as are those of SERIES."""

SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")

TITLE, TEXT, SMALL, TINY = 11, 9, 8, 6.5
"""Font sizes in points."""

DASH = "–"


def open_figure(width: float, height: float, title: str) -> Any:
    """A figure of that size in inches, laid out by constraints. No pyplot: nothing is shared with other figures."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=TITLE + 2, fontweight="bold", color=INK)
    return figure


def tidy(axes: Any, *, keep: tuple[str, ...] = ("bottom", "left")) -> None:
    """Leaves only the frame's sides in `keep`, in grey, with small numbers."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
        spine.set_color(GREY)
    axes.tick_params(labelsize=SMALL, color=GREY, labelcolor=INK, length=3)


def say(axes: Any, *lines: str) -> None:
    """An empty panel that says why it is empty."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "\n".join(lines), transform=axes.transAxes, ha="center", va="center", fontsize=TEXT, color=GREY)


def count_items(items: int) -> str:
    """`1 item`, `1,200 items`. One system's answer to a context is an item, as in the reports."""
    return f"{items:,} item{'' if items == 1 else 's'}"


def count_systems(systems: int) -> str:
    """`1 system`, `6 systems`."""
    return f"{systems:,} system{'' if systems == 1 else 's'}"


def count_raters(raters: int) -> str:
    """`3 raters`, or that none was named."""
    return f"{raters:,} rater{'' if raters == 1 else 's'}" if raters else "raters not named"


def head(axes: Any, text: str) -> None:
    """A panel's title, at its left."""
    axes.set_title(text, fontsize=TITLE, color=INK, loc="left")


def short(value: float | None) -> str:
    """A correlation: `.51`, `−.07`, `1`; a dash for none."""
    if value is None or math.isnan(value):
        return DASH
    text = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.0f}"
    return text.replace("-", "−").replace("−.00", ".00")


def plain(value: float | None, digits: int = 2, *, sign: bool = False) -> str:
    """A number in scale points; a dash for none."""
    return DASH if value is None else f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def span(interval: tuple[float, float] | None) -> str:
    """` [.43, .60]`; nothing for none."""
    return f" [{short(interval[0])}, {short(interval[1])}]" if interval else ""

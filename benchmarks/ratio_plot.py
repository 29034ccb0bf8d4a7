"""How far ahead of each peer and how near to each limit, in one drawing. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.ticker import FuncFormatter, NullFormatter

from app.plots.canvas import BLUE, GREY, INK, ORANGE, PALE, SMALL, open_figure, say, tidy
from benchmarks.record import Figure, show_ratio

ROW_INCHES = 0.3
LONGEST = 84
AXIS = "times as good as the other (log scale; right of 1 is ahead)"


def find_advantage(figure: Figure, of: Literal["peer", "limit"]) -> float | None:
    """How many times as good ours is: the ratio, turned where lower is better; None where nothing positive is."""
    ratio = figure.ratio(of)
    if ratio is None or ratio <= 0:
        return None
    return ratio if figure.better == "higher" else 1 / ratio


def find_goal(figure: Figure, of: Literal["peer", "limit"]) -> float | None:
    """The target's bound on the same axis; None where it is about something else."""
    if figure.target is None or figure.target.of != of or figure.target.bound <= 0:
        return None
    return figure.target.bound if figure.better == "higher" else 1 / figure.target.bound


def draw_ratios(figures: Sequence[Figure], path: Path) -> int:
    """Draws every figure with a ratio, in its order, into the file; how many those are."""
    shown = [one for one in figures if one.ratio("peer") is not None or one.ratio("limit") is not None]
    drawing = open_figure(12, 1.6 + ROW_INCHES * max(1, len(shown)), "Against peers and limits, in the same run")
    axes = drawing.subplots()
    if shown:
        draw_rows(axes, shown)
    else:
        say(axes, "no figure has a ratio")
    drawing.savefig(path)
    return len(shown)


def draw_rows(axes: Any, shown: Sequence[Figure]) -> None:
    """A row a figure, benchmarks told apart by a line."""
    axes.set_xscale("log")
    axes.axvline(1, color=GREY, linewidth=1)
    for row, figure in enumerate(shown):
        if row and figure.benchmark != shown[row - 1].benchmark:
            axes.axhline(row - 0.5, color=PALE, linewidth=1)
        draw_row(axes, row, figure)
    axes.set_yticks(range(len(shown)), [label(figure) for figure in shown], fontsize=SMALL)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(AXIS, fontsize=SMALL, color=GREY)
    axes.margins(x=0.12)
    for marker, colour, name in (("o", BLUE, "peer"), ("D", ORANGE, "limit"), ("|", INK, "target")):
        axes.plot([], [], marker, color=colour, label=name)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=SMALL, frameon=False)
    tidy(axes)


def draw_row(axes: Any, row: int, figure: Figure) -> None:
    """A mark for the peer and for the limit, the ratio beside it, and the target's bound."""
    sides: tuple[tuple[Literal["peer", "limit"], str, str, float], ...] = (
        ("peer", "o", BLUE, -0.12),
        ("limit", "D", ORANGE, 0.12),
    )
    for of, marker, colour, shift in sides:
        at, goal = find_advantage(figure, of), find_goal(figure, of)
        if at is None:
            continue
        axes.plot([1, at], [row + shift] * 2, color=colour, linewidth=1.5, alpha=0.5)
        axes.plot([at], [row + shift], marker, color=colour, markersize=5)
        axes.annotate(
            show_ratio(at),
            (at, row + shift),
            xytext=(6 if at >= 1 else -6, 0),
            textcoords="offset points",
            va="center",
            ha="left" if at >= 1 else "right",
            fontsize=SMALL - 1,
            color=INK,
        )
        if goal is not None:
            axes.plot([goal], [row + shift], "|", color=INK, markersize=11)


def label(figure: Figure) -> str:
    """Benchmark and figure with the peer, cut where it is long."""
    text = f"{figure.benchmark}: {figure.name.strip()}" + (f" / {figure.peer.name}" if figure.peer else "")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

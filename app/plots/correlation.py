"""How far scores follow people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from app.analysis.observations import Floats, Observations
from app.domain.reports import AspectCorrelation, CorrelationReport
from app.plots.canvas import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    SMALL,
    TEXT,
    TINY,
    count_items,
    count_raters,
    count_systems,
    head,
    open_figure,
    plain,
    say,
    short,
    span,
    tidy,
)
from app.plots.lettering import Lettering, letter
from app.plots.panels import FEW_VALUES, reach_of, unit_means

ROW_INCHES, PANEL_INCHES = 0.42, 2.6
FOREST_INCHES = 6.4
MANY = 2000
"""Beyond so many points single ones are not seen any more: then their density is drawn."""


Range = tuple[float, float]

STEP = 0.25
"""Of the least gap between values: how far a point may be moved, so that none hides another."""

AXIS = "Spearman's ρ of scores with the mean of the raters"
CEILING = "◇ ceiling: each rater against the mean of the others"


def build_correlation(report: CorrelationReport, observations: Observations | None) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it. Without observations the scatter is left out."""
    names = list(report.aspects)
    letters = letter(names, [why for found in report.aspects.values() for why in found.undefined.values()])
    shown = observations is not None and bool(names)
    across = min(5, math.ceil(math.sqrt(len(names)))) if shown else 0
    down = math.ceil(len(names) / across) if across else 0
    height = max(ROW_INCHES * len(names) + 1.9, PANEL_INCHES * down + 0.9, 3)
    figure = open_figure(FOREST_INCHES + PANEL_INCHES * across, height, title_of(report))
    if shown and observations is not None:
        left, right = figure.subfigures(1, 2, width_ratios=[FOREST_INCHES, PANEL_INCHES * across])
        draw_scatters(right, report, observations, letters, (down, across))
    else:
        left = figure
    draw_forest(left.subplots(), report, letters)
    letters.dress(figure)
    unmatched = [f"{name} is not drawn: {why}" for name, why in report.unmatched.items()]
    return figure, letters.notes + unmatched


def title_of(report: CorrelationReport) -> str:
    """What was looked at, with its size."""
    sizes = count_items(report.items), count_systems(report.systems), count_raters(report.raters)
    return f"Scores against people: {', '.join(sizes)}"


def draw_forest(axes: Any, report: CorrelationReport, letters: Lettering) -> None:
    """Spearman's ρ by aspect with its 95 % interval, and what a human reaches against the others."""
    if not report.aspects:
        say(axes, "ratings and scores have no aspect in common")
        return
    head(axes, "Spearman's ρ with 95 % interval")
    tidy(axes, keep=("bottom",))
    lows = [0.0]
    for place, found in enumerate(report.aspects.values()):
        axes.axhline(place, color=PALE, linewidth=1, zorder=0)
        lows += draw_row(axes, place, found, letters)
        bias = f"bias {plain(found.bias, sign=True)}" if found.bias is not None else ""
        text = f"{short(found.spearman)}{span(found.spearman_interval)}  n {found.n}\n{bias}"
        axes.annotate(text, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=SMALL, color=INK)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(max(-1.05, min(lows) - 0.05), 1.05)
    axes.set_ylim(len(report.aspects) - 0.4, -0.6)
    axes.set_yticks(range(len(report.aspects)), [letters.show(name) for name in report.aspects])
    axes.tick_params(axis="y", length=0, labelsize=TEXT)
    axes.set_xlabel("\n".join([AXIS, describe_signs(report)]), fontsize=SMALL, color=GREY)


def describe_signs(report: CorrelationReport) -> str:
    """What dot, diamond and bias are, of those that are drawn."""
    found = report.aspects.values()
    ceiling = any(one.ceiling is not None and one.ceiling.spearman is not None for one in found)
    bias = any(one.bias is not None for one in found)
    return "   ".join(["● scores", *[CEILING] * ceiling, *["bias: mean score less mean rating"] * bias])


def draw_row(axes: Any, place: int, found: AspectCorrelation, letters: Lettering) -> list[float]:
    """One aspect; the values that must lie in view."""
    if found.ceiling is not None and found.ceiling.spearman is not None:
        axes.plot(
            found.ceiling.spearman, place, "D", markersize=7, markerfacecolor="none", markeredgecolor=ORANGE, zorder=3
        )
    if found.spearman is None:
        reason = found.undefined.get("spearman", "undefined")
        axes.annotate(
            f"– {letters.write(reason)}",
            (0.02, place),
            va="bottom",
            xycoords=("axes fraction", "data"),
            fontsize=SMALL,
            color=GREY,
        )
        return []
    low, high = found.spearman_interval or (found.spearman, found.spearman)
    axes.hlines(place, low, high, color=BLUE, linewidth=1.8)
    axes.plot(found.spearman, place, "o", color=BLUE, markersize=6, zorder=4)
    return [low, found.spearman]


def draw_scatters(
    figure: Any,
    report: CorrelationReport,
    observations: Observations,
    letters: Lettering,
    shape: tuple[int, int],
) -> None:
    """Score against rater mean, a panel an aspect."""
    panels = figure.subplots(*shape, squeeze=False).flat
    for name, found in report.aspects.items():
        axes = next(panels)
        ceiling = found.ceiling.spearman if found.ceiling is not None else None
        under = f"  ceiling {short(ceiling)}" if ceiling is not None else ""
        axes.set_title(
            f"{letters.show(name)}\nρ {short(found.spearman)}{span(found.spearman_interval)}{under}",
            fontsize=SMALL,
            color=INK,
            loc="left",
        )
        reach = reach_of(observations, name, scores=True), reach_of(observations, name)
        draw_scatter(axes, unit_means(observations, name, scores=True), unit_means(observations, name), reach)
    for axes in panels:
        axes.set_axis_off()
    figure.supxlabel("score", fontsize=TEXT, color=GREY)
    figure.supylabel("mean of the raters", fontsize=TEXT, color=GREY)


def draw_scatter(axes: Any, x: Floats | None, y: Floats | None, reach: tuple[Range, Range]) -> None:
    """A dot an item, moved a little where few values would hide dots behind each other; a density where many are.

    `reach` holds the least and the greatest score and rating: no dot is moved beyond them.
    """
    both = None if x is None or y is None else ~(np.isnan(x) | np.isnan(y))
    if x is None or y is None or both is None or not both.any():
        say(axes, "no item has both")
        return
    x, y = x[both], y[both]
    tidy(axes)
    axes.set_xlim(*widen(reach[0]))
    axes.set_ylim(*widen(reach[1]))
    if len(x) > MANY:
        extent = (*widen(reach[0]), *widen(reach[1]))
        axes.hexbin(x, y, gridsize=28, cmap="Blues", bins="log", linewidths=0.1, mincnt=1, extent=extent)
        axes.set_xlabel("the darker, the more items (log scale)", fontsize=TINY, color=GREY)
        return
    alpha = float(np.clip(60 / len(x), 0.15, 0.8))
    generator = np.random.default_rng(0)
    moved = [jitter(values, ends, generator) for values, ends in zip((x, y), reach, strict=True)]
    axes.plot(*moved, "o", color=BLUE, markersize=4, alpha=alpha, markeredgewidth=0)
    axes.set_xlabel(describe_jitter(is_coarse(x), is_coarse(y)), fontsize=TINY, color=GREY)


def widen(ends: Range) -> Range:
    """The range with room for whole dots at its ends."""
    margin = 0.06 * (ends[1] - ends[0]) or 0.5
    return ends[0] - margin, ends[1] + margin


def describe_jitter(across: bool, up: bool) -> str:
    """Which of the axes have points that do not stand where they are."""
    what = {(True, True): "points", (True, False): "scores", (False, True): "ratings"}.get((across, up))
    return f"{what} spread by up to ¼ step" if what else ""


def is_coarse(values: Floats) -> bool:
    """Whether the values are so few that points would lie on each other."""
    return 1 < len(np.unique(values)) <= FEW_VALUES


def jitter(values: Floats, ends: Range, generator: np.random.Generator) -> Floats:
    """The values moved by up to STEP of the least gap between them, where they are few; shape (n,).

    What would leave the range is thrown back into it, by as much as it went beyond.
    """
    if not is_coarse(values):
        return values
    moved = values + generator.uniform(-STEP, STEP, len(values)) * np.diff(np.unique(values)).min()
    inward: Floats = np.where(
        moved < ends[0], 2 * ends[0] - moved, np.where(moved > ends[1], 2 * ends[1] - moved, moved)
    )
    return inward

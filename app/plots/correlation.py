"""How far scores follow people."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    count_raters,
    head,
    open_figure,
    plain,
    say,
    short,
    span,
    tidy,
)
from app.plots.lettering import Lettering, letter
from app.plots.panels import FEW_VALUES, unit_means

ROW_INCHES, PANEL_INCHES = 0.42, 2.5
FOREST_INCHES = 6.4
MANY = 2000
"""Beyond so many points single ones are not seen any more: then their density is drawn."""


def build_correlation(report: CorrelationReport, observations: Observations | None) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it. Without observations the scatter is left out."""
    names = list(report.aspects)
    letters = letter(names, [why for found in report.aspects.values() for why in found.undefined.values()])
    shown = observations is not None and bool(names)
    across = min(5, math.ceil(math.sqrt(len(names)))) if shown else 0
    down = math.ceil(len(names) / across) if across else 0
    height = max(ROW_INCHES * len(names) + 1.9, PANEL_INCHES * down + 0.9, 3)
    figure = open_figure(FOREST_INCHES + PANEL_INCHES * across, height, title_of(report))
    if shown:
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
    return f"Scores against people: {report.items} items, {report.systems} systems, {count_raters(report.raters)}"


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
    if any(found.ceiling is not None and found.ceiling.spearman is not None for found in report.aspects.values()):
        axes.set_xlabel("◇ ceiling: each rater against the mean of the others", fontsize=SMALL, color=ORANGE)


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
    observations: Observations | None,
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
        draw_scatter(axes, unit_means(observations, name, scores=True), unit_means(observations, name))
    for axes in panels:
        axes.set_axis_off()
    figure.supxlabel("score", fontsize=TEXT, color=GREY)
    figure.supylabel("mean of the raters", fontsize=TEXT, color=GREY)


def draw_scatter(axes: Any, x: Floats | None, y: Floats | None) -> None:
    """A dot an item, moved a little where few values would hide dots behind each other; a density where many are."""
    both = None if x is None or y is None else ~(np.isnan(x) | np.isnan(y))
    if x is None or y is None or both is None or not both.any():
        say(axes, "no item has both")
        return
    x, y = x[both], y[both]
    tidy(axes)
    if len(x) > MANY:
        axes.hexbin(x, y, gridsize=28, cmap="Blues", bins="log", linewidths=0.1, mincnt=1)
        return
    alpha = float(np.clip(60 / len(x), 0.15, 0.8))
    generator = np.random.default_rng(0)
    x, y = (jitter(values, generator) for values in (x, y))
    axes.plot(x, y, "o", color=BLUE, markersize=4, alpha=alpha, markeredgewidth=0)


def jitter(values: Floats, generator: np.random.Generator) -> Floats:
    """The values moved by up to a quarter of the least gap between them, where they are few; shape (n,)."""
    distinct: Sequence[float] | Floats = np.unique(values)
    if not 1 < len(distinct) <= FEW_VALUES:
        return values
    moved: Floats = values + generator.uniform(-0.25, 0.25, len(values)) * np.diff(distinct).min()
    return moved

"""Which aspect merely follows which, beside the correlations and the systems' values that it comes from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from app.analysis.agreement import correlate_aspects
from app.analysis.observations import Floats, Observations
from app.domain.reports import HierarchyReport
from app.plots.canvas import GREY, INK, PALE, SMALL, TEXT, count_items, count_systems, open_figure, tidy
from app.plots.graph import arcs_height, arrange, draw_graph
from app.plots.lettering import Lettering, letter
from app.plots.panels import draw_correlations, draw_spread, known, reach_of, side_of, unit_means

PANEL_INCHES, ROW_INCHES = 1.9, 0.2
CAPTION_INCHES = 0.6
LEGEND = "dot: mean; thick: middle half; thin: 5 to 95 %; systems sorted by mean"


def build_hierarchy(report: HierarchyReport, observations: Observations | None) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it. Without observations only the graph is drawn."""
    names = list(report.aspects)
    letters = letter([*names, *(observations.systems if observations else ())], report.undefined.values())
    layout = arrange(report, letters)
    values = {name: unit_means(observations, name) for name in names}
    columns = {name: column for name, column in values.items() if column is not None}
    sizes = count_items(report.items), count_systems(report.systems), f"α = {report.alpha:g}"
    title = f"Dependencies between aspects: {', '.join(sizes)}"
    width, height = layout.size
    top = max(1.2, height + arcs_height(report, layout)) + 0.5 + CAPTION_INCHES
    wide = max(7.5, width + (arcs_height(report, layout) if layout.upward else 0))
    if observations is None or not columns:
        figure = upper = open_figure(wide, top + 0.4, title)
    else:
        side, (down, across) = side_of(len(names)), grid_of(len(columns))
        bottom = max(side, (ROW_INCHES * len(observations.systems) + 0.95) * down + 0.6)
        wide = max(wide, side + PANEL_INCHES * across + 2.2)
        figure = open_figure(wide, top + bottom + 0.6, title)
        upper, lower = figure.subfigures(2, 1, height_ratios=[top, bottom])
        left, right = lower.subfigures(1, 2, width_ratios=[side, wide - side])
        draw_correlations(left.subplots(), list(columns), correlate_aspects(columns), letters)
        draw_systems(right, columns, observations, letters, (down, across))
    left_out = draw_graph(upper.subplots(), report, layout, letters, (wide - 0.3, top - 0.6 - CAPTION_INCHES))
    letters.dress(figure)
    return figure, letters.notes + left_out


def grid_of(panels: int) -> tuple[int, int]:
    """Rows and columns for so many panels."""
    across = min(5, max(1, math.ceil(math.sqrt(panels))))
    return math.ceil(panels / across), across


def draw_systems(
    figure: Any, columns: dict[str, Floats], observations: Observations, letters: Lettering, shape: tuple[int, int]
) -> None:
    """A panel an aspect, a row a system; the systems stand in the same order everywhere, the best on average first."""
    figure.suptitle("Rater means by system", fontsize=TEXT + 2, color=INK)
    best = rank_systems(columns, observations)
    panels = figure.subplots(*shape, squeeze=False, sharey=True)
    labels = [letters.show(observations.systems[system]) for system in best]
    flat = list(panels.flat)
    for axes, (name, column) in zip(flat, columns.items(), strict=False):
        axes.set_title(letters.show(name), fontsize=SMALL, color=INK, loc="left")
        tidy(axes, keep=("bottom",))
        axes.set_ylim(len(best) - 0.4, -0.6)
        axes.set_yticks(range(len(best)), labels)
        axes.tick_params(axis="y", length=0)
        for place, system in enumerate(best):
            axes.axhline(place, color=PALE, linewidth=0.8, zorder=0)
            draw_spread(axes, place, known(column[observations.unit_system == system]))
        axes.set_xlabel(name_values(observations, name), fontsize=SMALL, color=GREY)
        if not len(known(column)):
            axes.set_xticks([])
            continue
        low, high = reach_of(observations, name)
        margin = 0.04 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    for axes in flat[len(columns) :]:
        axes.set_axis_off()
    figure.supxlabel(LEGEND, fontsize=SMALL, color=GREY)


def name_values(observations: Observations, aspect: str) -> str:
    """What the axis counts: ratings, or where the best is a level in the middle, how far they are from it."""
    best = observations.folded.get(aspect)
    return "rating" if best is None else f"−|rating − {best:g}|" if best >= 0 else f"−|rating + {-best:g}|"


def rank_systems(columns: dict[str, Floats], observations: Observations) -> list[int]:
    """The systems by their mean over the aspects, each aspect in units of its own spread; without values last."""
    totals = np.full((len(observations.systems), len(columns)), np.nan)
    for place, column in enumerate(columns.values()):
        held = known(column)
        spread = float(held.std()) if len(held) else 0.0
        for system in range(len(observations.systems)):
            own = known(column[observations.unit_system == system])
            if len(own) and spread > 0:
                totals[system, place] = (own.mean() - held.mean()) / spread
    means = [float(row[~np.isnan(row)].mean()) if not np.isnan(row).all() else -math.inf for row in totals]
    return sorted(range(len(means)), key=lambda system: -means[system])

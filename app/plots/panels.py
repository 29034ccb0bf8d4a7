"""Panels that several drawings have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.ticker import MaxNLocator

from app.analysis.observations import Floats, Observations
from app.domain.reports import Correlations, Matrix
from app.plots.canvas import BLUE, GREY, INK, LIGHT_BLUE, ORANGE, PALE, SMALL, TEXT, TINY, head, say, short, tidy
from app.plots.lettering import Lettering

FEW_VALUES = 25
BINS = 30
DARK = 0.62
"""Beyond this |r| the cell is dark, and its figure white."""


def side_of(aspects: int) -> float:
    """How wide and high a matrix of so many aspects should be, in inches, its labels included."""
    return min(11.0, max(3.6, 0.46 * aspects + 2.2))


def draw_matrix(axes: Any, names: Sequence[str], lower: Matrix, upper: Matrix, letters: Lettering) -> None:
    """A heat map of correlations: `lower` below the diagonal, `upper` above it. What is undefined is a dash on grey."""
    shape = len(names), len(names)
    values = np.full(shape, np.nan)
    for row, column in np.ndindex(*shape):
        found = (lower if row > column else upper).get(names[row], {}).get(names[column])
        values[row, column] = np.nan if found is None or row == column else found
    palette = colormaps["RdBu_r"].with_extremes(bad=PALE)
    axes.set_anchor("N")
    image = axes.imshow(np.ma.masked_invalid(values), cmap=palette, vmin=-1, vmax=1, interpolation="nearest")
    size = TEXT if len(names) <= 8 else SMALL - 1 if len(names) <= 12 else TINY - 1
    for row, column in np.ndindex(*shape):
        if row != column:
            value = float(values[row, column])
            ink = GREY if np.isnan(value) else "white" if abs(value) > DARK else INK
            axes.text(column, row, short(value), ha="center", va="center", fontsize=size, color=ink)
    labels = [letters.show(name) for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_xticks(range(len(names)), labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    tidy(axes, keep=())
    axes.tick_params(which="both", length=0)
    # Beside the matrix, not beside the panel, which may be much higher.
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0.2, 0.03, 0.6)), ticks=[-1, 0, 1])
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=0)


def draw_correlations(axes: Any, names: Sequence[str], found: Correlations, letters: Lettering) -> None:
    """The matrix with its title and n; where there is no pair of aspects, that."""
    if len(names) < 2:
        say(axes, "no correlations: there is one aspect" if names else "no aspect has a rating")
        return
    head(axes, f"Correlation of aspects{size_of(found)}")
    draw_matrix(axes, names, found.spearman, found.pearson, letters)
    axes.set_xlabel("below the diagonal Spearman's ρ, above it Pearson's r", fontsize=SMALL, color=GREY)


def size_of(found: Correlations) -> str:
    """`, n 360`, or from the least to the greatest n of a pair of aspects."""
    counts = {n for one, row in found.n.items() for other, n in row.items() if one != other}
    if not counts:
        return ""
    return f", n {min(counts):,}" + (f" to {max(counts):,}" if len(counts) > 1 else "")


def draw_histogram(axes: Any, values: Floats, reach: tuple[float, float]) -> None:
    """How often each value occurs, over the range `reach`; a bar a value where there are few, a line at the mean."""
    tidy(axes)
    if not len(values):
        say(axes, "no item has a rating")
        return
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= FEW_VALUES:
        gap = float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0
        axes.bar(distinct, counts, width=0.8 * gap, color=LIGHT_BLUE)
        margin = max(0.6 * gap, 0.03 * (reach[1] - reach[0]))
    else:
        axes.hist(values, bins=BINS, color=LIGHT_BLUE)
        margin = 0.03 * (reach[1] - reach[0])
    axes.set_xlim(reach[0] - margin, reach[1] + margin)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True, min_n_ticks=2))
    axes.axvline(float(values.mean()), color=ORANGE, linewidth=1.6)


def draw_spread(axes: Any, place: int, values: Floats) -> None:
    """One row of a comparison of systems: 5 to 95 % thin, the middle half thick, the mean a dot."""
    if not len(values):
        axes.annotate("–", (0.5, place), xycoords=("axes fraction", "data"), color=GREY, ha="center", va="center")
        return
    low, lower, upper, high = np.quantile(values, [0.05, 0.25, 0.75, 0.95])
    axes.hlines(place, low, high, color=LIGHT_BLUE, linewidth=1.2)
    axes.hlines(place, lower, upper, color=LIGHT_BLUE, linewidth=5)
    axes.plot(values.mean(), place, "o", color=BLUE, markersize=4)


def unit_means(observations: Observations | None, aspect: str, *, scores: bool = False) -> Floats | None:
    """The rater mean (or the score) of each unit, shape (units,), NaN for none; None without such a column."""
    if observations is None:
        return None
    columns: Mapping[str, Floats] = observations.scores if scores else observations.ratings
    return observations.means(columns[aspect]) if aspect in columns else None


def reach_of(observations: Observations, aspect: str, *, scores: bool = False) -> tuple[float, float]:
    """The least and the greatest single rating (or score); where there is none, 0 and 1. Means lie within it."""
    columns: Mapping[str, Floats] = observations.scores if scores else observations.ratings
    held = known(columns.get(aspect))
    return (float(held.min()), float(held.max())) if len(held) else (0.0, 1.0)


def known(values: Floats | None) -> Floats:
    """The values that there are, shape (n,)."""
    return np.empty(0) if values is None else values[~np.isnan(values)]

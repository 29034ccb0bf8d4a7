"""Fitted weights beside those in use."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from app.domain.reports import BlendFit, CompositeFit
from app.plots.canvas import (
    BLUE,
    GREY,
    INK,
    LIGHT_BLUE,
    ORANGE,
    PALE,
    SMALL,
    TEXT,
    count_items,
    head,
    open_figure,
    plain,
    say,
    short,
    tidy,
)
from app.plots.lettering import Lettering, letter

ROW_INCHES, LINE_INCHES = 0.5, 0.16
LINE_COLUMNS = 140
"""Of a note across the whole figure."""

DEFAULT_WEIGHT = 10.0
"""The w of a blend that names none; BlendFit's `default` is the correlation with it."""


FOUND = ("fitted", "chosen")


def build_composite_fit(report: CompositeFit) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it."""
    letters = letter([*report.weights, report.composite, report.target], report.undefined.values())
    title = f"{letters.show(report.composite)} fitted to {letters.show(report.target)}: {count_items(report.n)}"
    figure = open_figure(9.5, max(3.2, ROW_INCHES * len(report.weights) + 2.0), title)
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    draw_weights(left, report, letters)
    bars = {"fitted": report.pearson, "in the rubric": report.declared_pearson}
    draw_bars(right, f"Held-out Pearson's r, n {report.test:,}", bars, report.undefined, letters)
    letters.dress(figure)
    return figure, letters.notes


def draw_weights(axes: Any, report: CompositeFit, letters: Lettering) -> None:
    """The weights with their intervals; hollow, those in the rubric."""
    if not report.weights:
        say(axes, "the composite has no aspect")
        return
    head(axes, f"Weights with 95 % interval, n {report.train:,}")
    tidy(axes, keep=("bottom",))
    for place, (name, weight) in enumerate(report.weights.items()):
        axes.axhline(place, color=PALE, linewidth=1, zorder=0)
        declared, interval = report.declared.get(name), report.intervals.get(name)
        if declared is not None:
            axes.plot(declared, place, "D", markersize=8, markerfacecolor="none", markeredgecolor=ORANGE, zorder=3)
        if interval is not None:
            axes.hlines(place, *interval, color=BLUE, linewidth=1.8)
        if weight is not None:
            axes.plot(weight, place, "o", color=BLUE, markersize=6, zorder=4)
        text = f"fitted {plain(weight, 3)}\nin the rubric {plain(declared, 3)}"
        axes.annotate(text, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=SMALL, color=INK)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_ylim(len(report.weights) - 0.4, -0.6)
    axes.set_yticks(range(len(report.weights)), [letters.show(name) for name in report.weights])
    axes.tick_params(axis="y", length=0, labelsize=TEXT)
    reasons = [letters.write(reason) for name, reason in report.undefined.items() if "pearson" not in name]
    below = (
        "; ".join(dict.fromkeys(reasons))
        if None in report.weights.values()
        else "weight      ● fitted   ◇ in the rubric"
    )
    axes.set_xlabel(below, fontsize=SMALL, color=GREY)


def build_blend_fit(report: BlendFit) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it."""
    letters = letter([report.aspect], [*report.undefined.values(), *report.notes])
    title = f"Weight of the blend for {letters.show(report.aspect)}: {count_items(report.n)}"
    told = [line for note in report.notes for line in wrap(letters.write(note), LINE_COLUMNS)]
    figure = open_figure(9.5, 3.6 + LINE_INCHES * len(told), title)
    left, right = figure.subplots(1, 2, width_ratios=[1.4, 1])
    draw_blend(left, report, letters)
    bars = {
        "none\nw = 0": report.unblended,
        f"default\nw = {DEFAULT_WEIGHT:g}": report.default,
        "chosen\nby the other folds": report.correlation,
    }
    name = "Spearman's ρ" if report.statistic == "spearman" else "Pearson's r"
    draw_bars(right, f"{name}, mean of {report.folds} folds", bars, report.undefined, letters)
    if told:
        figure.supxlabel("\n".join(told), fontsize=SMALL, color=INK)
    letters.dress(figure)
    return figure, letters.notes


def draw_blend(axes: Any, report: BlendFit, letters: Lettering) -> None:
    """The chosen w with its interval, on the range that was tried."""
    if report.weight is None:
        say(axes, "no weight could be chosen", letters.write(report.undefined.get("weight", "")))
        return
    head(axes, f"w = {plain(report.weight, 1)}, with 95 % interval")
    tidy(axes, keep=("bottom",))
    low, high = report.tried
    margin = 0.03 * (high - low)
    if report.interval is not None:
        axes.hlines(0, *report.interval, color=BLUE, linewidth=2.2)
    axes.plot(report.weight, 0, "o", color=BLUE, markersize=8, zorder=4)
    axes.plot(DEFAULT_WEIGHT, 0, "D", markersize=9, markerfacecolor="none", markeredgecolor=ORANGE, zorder=3)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.set_xlabel(f"w, tried from {low:g} to {high:g}      ● chosen   ◇ default", fontsize=SMALL, color=GREY)


def draw_bars(
    axes: Any, title: str, values: dict[str, float | None], undefined: dict[str, str], letters: Lettering
) -> None:
    """A correlation a bar, with its figure; what was fitted or chosen is dark."""
    head(axes, title)
    if all(value is None for value in values.values()):
        reasons = [letters.write(reason) for reason in dict.fromkeys(undefined.values())]
        say(axes, "no correlation", *reasons[:2])
        return
    tidy(axes, keep=("left",))
    for place, (name, value) in enumerate(values.items()):
        axes.bar(place, value or 0.0, width=0.6, color=BLUE if name.startswith(FOUND) else LIGHT_BLUE)
        above = max(value or 0.0, 0.0)
        axes.annotate(
            short(value) if value is None else plain(value, 3),
            (place, above),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=TEXT,
            color=GREY if value is None else INK,
        )
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(values)), list(values))
    axes.tick_params(axis="x", length=0, labelsize=TEXT)
    axes.set_ylim(min(0.0, *(value or 0.0 for value in values.values())) * 1.1, 1.05)

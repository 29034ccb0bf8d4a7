"""How far raters agree, and how aspects hang together."""

from __future__ import annotations

from typing import Any

from app.analysis.observations import Observations
from app.domain.reports import AgreementReport, AspectAgreement
from app.plots.canvas import (
    GREY,
    INK,
    SMALL,
    TEXT,
    count_items,
    count_raters,
    count_systems,
    open_figure,
    plain,
    say,
    short,
)
from app.plots.lettering import Lettering, letter
from app.plots.panels import draw_correlations, draw_histogram, known, reach_of, side_of, unit_means

ROW_INCHES = 0.66
MOST_REASONS = 3
AXIS = "an item's rating, the mean of its raters, over the range of the aspect's own ratings"
LEGEND = "line: mean; ρ: each rater against the mean of the others; α: Krippendorff's, ordinal"


def build_agreement(report: AgreementReport, observations: Observations | None) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it. Without observations the distributions are left out."""
    names = list(report.aspects)
    letters = letter(names, [why for found in report.aspects.values() for why in found.undefined.values()])
    side = side_of(len(names))
    height = max(side, ROW_INCHES * len(names) + 1.4 if observations else 0) + 0.5
    figure = open_figure(side + 6.2 if observations else side + 0.6, height, title_of(report))
    left, right = figure.subfigures(1, 2, width_ratios=[side, 6.2]) if observations else (figure, None)
    draw_correlations(left.subplots(), names, report.correlations, letters)
    if right is not None and observations is not None:
        draw_distributions(right, report, observations, letters)
    letters.dress(figure)
    return figure, letters.notes


def title_of(report: AgreementReport) -> str:
    """What was looked at, with its size."""
    sizes = count_items(report.items), count_systems(report.systems), count_raters(report.raters)
    return f"Agreement: {', '.join(sizes)}"


def draw_distributions(figure: Any, report: AgreementReport, observations: Observations, letters: Lettering) -> None:
    """A histogram of the rater means by aspect, each on its own scale, with how far raters agree beside it."""
    if not report.aspects:
        say(figure.subplots(), "no aspect has a rating")
        return
    rows = figure.subplots(len(report.aspects), 1, squeeze=False)[:, 0]
    figure.suptitle("Items by the mean of their raters", fontsize=TEXT + 2, color=INK)
    for axes, (name, found) in zip(rows, report.aspects.items(), strict=True):
        draw_histogram(axes, known(unit_means(observations, name)), reach_of(observations, name))
        axes.set_ylabel(letters.show(name), rotation=0, ha="right", va="center", fontsize=TEXT, color=INK)
        axes.text(
            1.02, 0.5, figures_of(found), transform=axes.transAxes, va="center", fontsize=SMALL, color=INK, ha="left"
        )
    figure.align_ylabels(rows)
    rows[0].set_title("items", fontsize=SMALL, color=GREY, loc="left")
    reasons = dict.fromkeys(letters.write(why) for found in report.aspects.values() for why in found.undefined.values())
    figure.supxlabel(
        "\n".join([AXIS, LEGEND, *(f"–: {why}" for why in [*reasons][:MOST_REASONS])]), fontsize=SMALL, color=GREY
    )


def figures_of(found: AspectAgreement) -> str:
    """Mean, deviation and agreement, in two lines."""
    mean = f"mean {plain(found.mean)}  sd {plain(found.sd)}"
    return f"{mean}\nρ {short(found.spearman)}  α {short(found.krippendorff_alpha)}  n {found.n}"

"""What the page of aspects shows, put together from an overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.charts.dependencies import DependencyLabels, build_dependencies
from app.charts.intervals import IntervalLabels, build_correlation
from app.domain.comparison_view import Outcome, SystemMatrix
from app.domain.reports import CorrelationReport, HierarchyReport
from app.meta.overview import Absence, Matrices
from app.web.dashboard.speech import Speech
from app.web.dashboard.texts import mark

WHY_NOT: Mapping[Absence, tuple[str, str]] = {
    "no-values": (
        mark("These runs have no ratings by the judge."),
        mark("Look at a run's page for what went wrong, or choose other runs."),
    ),
    "no-ratings": (
        mark("Nobody has rated responses of these runs yet."),
        mark("Open a round of ratings on the page Rate, or import ratings with the command below."),
    ),
    "few-systems": (
        mark("These values are of one system only: there is no other to tell it from."),
        mark("Choose runs of another system or build above; for human ratings, have responses of theirs rated too."),
    ),
    "many-systems": (
        mark("These are too many systems for a table."),
        mark("Choose fewer runs above."),
    ),
    "too-much": (
        mark("This is more than can be computed for a page."),
        mark("Choose fewer runs above."),
    ),
}
"""What is missing, and what to do about it."""


@dataclass(frozen=True)
class MatrixCell:
    """A system against another; `shade` is a class."""

    outcome: Outcome
    p: float | None
    shade: str


@dataclass(frozen=True)
class MatrixView:
    """Each system against each other on one aspect. `pairs` counts those that differ."""

    name: str
    pairs: int
    systems: tuple[str, ...]
    rows: tuple[tuple[MatrixCell | None, ...], ...]


def explain(code: Absence | None) -> tuple[str, str] | None:
    """Why there is no report, and what to do; None where there is one."""
    return WHY_NOT[code] if code is not None else None


def make_matrices(matrices: Matrices, names: Mapping[str, str], systems: Mapping[str, str]) -> list[MatrixView]:
    """One an aspect."""
    return [make_matrix(names.get(aspect, aspect), matrix, systems) for aspect, matrix in matrices.items()]


def make_matrix(name: str, matrix: SystemMatrix, systems: Mapping[str, str]) -> MatrixView:
    """One matrix with the systems' names as they are shown."""
    rows = tuple(
        tuple(None if cell is None else MatrixCell(cell.outcome, cell.p, SHADES[cell.outcome]) for cell in row)
        for row in matrix.rows
    )
    pairs = sum(cell.outcome == "better" for row in rows for cell in row if cell is not None)
    return MatrixView(name, pairs, tuple(systems.get(system, system) for system in matrix.systems), rows)


GRAPH_WIDTH = 420
"""Pixels: names are cut in what a phone leaves, and it can scroll."""

SHADES: Mapping[Outcome, str] = {"better": "cell-p3", "worse": "cell-n3", "none": ""}


def chart_dependencies(report: HierarchyReport, names: Mapping[str, str], speech: Speech) -> dict[str, object]:
    """The graph of which aspect depends on which."""
    _ = speech.say
    return build_dependencies(
        report,
        DependencyLabels(
            title=_("Dependencies between aspects"),
            description=_("Arrows from the lower aspect to the higher; the table has the figures"),
            alone=_("Without dependency"),
            nothing=_("There is no aspect to draw."),
        ),
        names=names,
        width=GRAPH_WIDTH,
    )


def chart_agreement(report: CorrelationReport, names: Mapping[str, str], speech: Speech) -> dict[str, object]:
    """The judge against people, with what people reach among themselves."""
    _ = speech.say
    n = _("n =")
    return build_correlation(
        report,
        IntervalLabels(
            title=_("The judge against people"),
            description=_("Correlation by aspect with its interval, and what a rater reaches against the others"),
            value=_("judge, 95 %% interval"),
            reference=_("a rater against the others"),
            axis=_("Spearman's ρ with the raters' mean"),
            nothing=_("There is no aspect to draw."),
        ),
        describe=lambda found: f" · {n} {found.n:,}",
        names=names,
    )


def list_reasons(undefined: Sequence[Mapping[str, str]]) -> list[str]:
    """Why figures are dashes, in English, each reason once."""
    return list(dict.fromkeys(reason for each in undefined for reason in each.values()))

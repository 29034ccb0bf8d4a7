"""A report on reference metrics, for eyes."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.output import DASH, LEFT
from app.domain.plain_text import printable
from app.domain.reference_metrics import FIGURES, Figure, FigureCorrelation, FigureMean, ReferenceReport

HEADS: dict[Figure, str] = {
    "len": "Len",
    "rouge1": "R-1",
    "rouge2": "R-2",
    "rougeL": "R-L",
    "bertscore": "BS F1",
    "perplexity_a": "PPL A",
    "perplexity_qa": "QA",
    "perplexity_rqa": "RQA",
}
SHARES = frozenset({"rouge1", "rouge2", "rougeL", "bertscore"})
LARGE = 1e6


def print_report(report: ReferenceReport, on: Console) -> None:
    """The means, the correlations with humans, what is missing and why, and what measured."""
    on.print(means_of(report))
    if report.correlations:
        on.print(correlations_of(report.correlations))
    for line in notes_of(report):
        on.print(Text(printable(line)), soft_wrap=True)


def means_of(report: ReferenceReport) -> Table:
    """A row a system, a column a figure; `(n=…)` where a mean rests on fewer items than the row has."""
    table = Table(title=f"means, {report.language}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **LEFT)
    table.add_column("system", max_width=24)
    table.add_column("items", justify="right")
    for figure in FIGURES:
        table.add_column(HEADS[figure], justify="right")
    rows = [(one.system or DASH, one.items, one.figures) for one in report.systems]
    if len(rows) > 1:
        rows.append(("all", report.items, report.overall))
    for name, items, figures in rows:
        cells = [mean_cell(figure, figures[figure], items) for figure in FIGURES]
        table.add_row(Text(printable(name)), str(items), *cells)
    return table


def mean_cell(figure: Figure, found: FigureMean, items: int) -> str:
    """`0.233`, `31.6`, or a dash."""
    if found.mean is None:
        return DASH
    shown = f"{found.mean:.3f}" if figure in SHARES else show_large(found.mean)
    return shown if found.n == items else f"{shown} (n={found.n})"


def show_large(value: float) -> str:
    """One decimal, or a power of ten where that would not fit."""
    return f"{value:.1f}" if value < LARGE else f"{value:.1e}"


def correlations_of(correlations: Mapping[str, Mapping[Figure, FigureCorrelation]]) -> Table:
    """A row an aspect; Pearson over Spearman in each cell."""
    table = Table(
        title="correlation with humans: Pearson, below it Spearman", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **LEFT
    )
    table.add_column("aspect", max_width=24)
    table.add_column("items", justify="right")
    for figure in FIGURES:
        table.add_column(HEADS[figure], justify="right")
    for aspect, figures in correlations.items():
        items = figures["len"].n  # every item has a length
        table.add_row(
            Text(printable(aspect)), str(items), *(correlation_cell(figures[name], items) for name in FIGURES)
        )
    return table


def correlation_cell(found: FigureCorrelation, items: int) -> str:
    """`-0.59`, with Spearman's below and `n=…` where fewer items have the figure than the aspect."""
    if found.pearson is None and found.spearman is None:
        return DASH
    lines = [DASH if value is None else f"{value:.2f}" for value in (found.pearson, found.spearman)]
    return "\n".join(lines if found.n == items else [*lines, f"n={found.n}"])


def notes_of(report: ReferenceReport) -> list[str]:
    """A line for everything that a dash stands for, for texts that were cut, and for what measured."""
    lacking: dict[tuple[str, int], list[str]] = {}
    for figure, reasons in report.unavailable.items():
        for reason, count in reasons.items():
            lacking.setdefault((reason, count), []).append(HEADS[figure])
    lines = [f"no {', '.join(names)} for {count} of {report.items}: {why}" for (why, count), names in lacking.items()]
    without: dict[tuple[str, str], list[str]] = {}
    for aspect, figures in report.correlations.items():
        for figure, found in figures.items():
            # Where nothing has the figure, that has been said.
            for why in set(found.undefined.values()) if report.overall[figure].n else ():
                without.setdefault((aspect, why), []).append(HEADS[figure])
    lines += [f"no correlation of {', '.join(names)} with {aspect}: {why}" for (aspect, why), names in without.items()]
    cut = {HEADS[figure]: found.truncated for figure, found in report.overall.items() if found.truncated}
    lines += [f"{name}: the text was cut for {count} of {report.items}" for name, count in cut.items()]
    return lines + [f"{family}: {identity}" for family, identity in report.tools.items()]

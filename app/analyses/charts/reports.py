"""The report of an analysis as a drawing in a file: what `saiten analyze --plot` writes.

A table of the papers is drawn in its layout.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from saiten.core.figures import DASH
from saiten.core.messages import Message
from saiten_server.analyses.charts.dependencies import DependencyLabels, build_dependencies, reduce
from saiten_server.analyses.charts.intervals import (
    IntervalLabels,
    IntervalRow,
    build_correlation,
    build_intervals,
    rule_correlations,
)
from saiten_server.core import reports
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import Value
from saiten_server.core.reports import (
    AgreementReport,
    BlendFit,
    CompositeFit,
    CorrectedReport,
    CorrelationReport,
    HierarchyReport,
    JudgesReport,
    WinReport,
)
from saiten_server.platform.charts import canvas, panels
from saiten_server.platform.charts.canvas import (
    INK,
    LINE,
    SERIES,
    ChartLabels,
    ChartRow,
    Margins,
    Ruler,
    Spec,
    fit_text,
    frame,
    layer,
    letters,
    measure_width,
    pixels,
    write_number,
)
from saiten_server.platform.charts.histogram import HistogramLabels
from saiten_server.platform.charts.panels import SharePart
from saiten_server.platform.charts.sheet import ChartSection, ChartSheet, label_names, require_drawing, write_sheet
from saiten_server.stats.agreement import correlate_aspects
from saiten_server.stats.observations import Floats, Observations
from saiten_server.stats.paper_tables import PaperTable
from saiten_server.stats.statistics import count

Labels = Mapping[str, str]

GRAPH_WIDTH, ROWS_WIDTH, HISTOGRAM_WIDTH, SPREADS_WIDTH, SHARES_WIDTH = 720, 460, 270, 300, 560
MOST_REASONS, MOST_CHANGES, MOST_DRAWN_ROWS = 6, 24, 150
DEFAULT_WEIGHT = 10.0
"""The w of a blend that names none; BlendFit's `default` is the correlation with it."""

TIES, OTHERS = "ties", "other systems"
INTERVAL = "95% interval"


def plot(report: Value, observations: Observations | None, path: Path | str) -> list[str]:
    """Draws the report into a PNG, SVG or PDF file and returns notes for the reader.

    `observations` are those that the report was made of; without them the panels of single items are left out. Raises
    InvalidRequest where the file type is another, the file cannot be written, or the report is of another kind.
    """
    require_drawing(path)
    labels, lost = label_names(names_of(report, observations), path)
    sheet, notes = build_sheet(report, observations, labels)
    write_sheet(sheet, path)
    return lost + notes


def names_of(  # noqa: PLR0911 (one per analysis)
    report: Value, observations: Observations | None
) -> list[str]:
    """All names of aspects and systems that a drawing of the report may show."""
    match report:
        case AgreementReport() | CorrelationReport():
            return list(report.aspects)
        case JudgesReport():
            return [*report.aspects, *(scorer for found in report.aspects.values() for scorer in found.scorers)]
        case CorrectedReport():
            return [*report.systems, *(aspect for found in report.systems.values() for aspect in found.aspects)]
        case HierarchyReport():
            return [*report.aspects, *(observations.systems if observations else ())]
        case WinReport():
            return [*report.aspects, *report.systems]
        case CompositeFit():
            return [*report.weights, report.composite, report.target]
        case BlendFit():
            return [report.aspect]
        case _:
            return []


def build_sheet(  # noqa: PLR0911 (one per analysis)
    report: Value, observations: Observations | None, labels: Labels
) -> tuple[ChartSheet, list[str]]:
    """The drawing, and notes on it. `labels` are those of all names."""
    match report:
        case AgreementReport():
            return draw_agreement(report, observations, labels), []
        case CorrelationReport():
            return draw_correlation(report, observations, labels)
        case JudgesReport():
            return draw_judges(report, labels)
        case CorrectedReport():
            return draw_corrected(report, labels)
        case HierarchyReport():
            return draw_hierarchy(report, observations, labels)
        case WinReport():
            return draw_wins(report, labels)
        case CompositeFit():
            return draw_composite_fit(report, labels), []
        case BlendFit():
            return draw_blend_fit(report, labels), []
        case _:
            raise InvalidRequest(Message("report-not-drawn"))


def draw_agreement(report: AgreementReport, observations: Observations | None, labels: Labels) -> ChartSheet:
    """Correlations between aspects, and each aspect's rater means with the raters' agreement."""
    sections = [ChartSection("", [draw_matrix(list(report.aspects), report.correlations, labels)])]
    if observations is not None and report.aspects:
        histograms = [
            panels.build_value_histogram(
                known(unit_means(observations, name)),
                reach_of(observations, name),
                HistogramLabels(labels[name], describe_agreement(found), "no item has a rating"),
                width=HISTOGRAM_WIDTH,
            )
            for name, found in report.aspects.items()
        ]
        legend = "ρ: each rater against the mean of the others; α: Krippendorff's, ordinal; sd: of the items' means"
        notes = [legend, *list_reasons(report.aspects.values())]
        sections.append(ChartSection("Items by the mean of their raters", histograms, notes))
    return ChartSheet(f"Agreement: {size_of(report)}", sections)


def describe_agreement(found: reports.AspectAgreement) -> str:
    """Mean, deviation and agreement, in two lines."""
    agreement = f"ρ {number(found.spearman)}  α {number(found.krippendorff_alpha)}  n {found.n:,}"
    return f"mean {number(found.mean)}  sd {number(found.sd)}\n{agreement}"


def draw_matrix(names: Sequence[str], found: reports.Correlations, labels: Labels) -> Spec:
    """The correlations of aspects, with the items that they are of."""
    counts = {n for one, row in found.n.items() for other, n in row.items() if one != other}
    size = f", n {min(counts):,}" + (f" to {max(counts):,}" if len(counts) > 1 else "") if counts else ""
    sides = "below the diagonal Spearman's ρ, above it Pearson's r" if len(names) > 1 else ""
    nothing = "no correlations: there is one aspect" if names else "no aspect has a rating"
    labelled = ChartLabels(f"Correlation of aspects{size}", sides, nothing)
    return panels.build_matrix(names, found.spearman, found.pearson, labels, labelled)


def draw_correlation(
    report: CorrelationReport, observations: Observations | None, labels: Labels
) -> tuple[ChartSheet, list[str]]:
    """Spearman's ρ by aspect with interval and ceiling, and scores against rater means."""
    found = report.aspects.values()
    ceiling = any(one.ceiling is not None and one.ceiling.spearman is not None for one in found)
    labelled = IntervalLabels(
        f"Spearman's ρ with {INTERVAL}",
        "",
        "ratings and scores have no aspect in common",
        value="scores",
        reference="ceiling: each rater against the mean of the others" if ceiling else "",
        axis="Spearman's ρ of scores with the mean of the raters",
    )
    forest = build_correlation(report, labelled, describe=describe_correlation, names=labels, width=ROWS_WIDTH)
    bias = ["bias: mean score less mean rating"] if any(one.bias is not None for one in found) else []
    sections = [ChartSection("", [forest], [*bias, *list_reasons(found, of={"spearman"})])]
    if observations is not None and report.aspects:
        scatters = [draw_scatter(observations, name, labels[name]) for name in report.aspects]
        sections.append(ChartSection("Score and mean of the raters by item", scatters))
    notes = [f"{name} is not drawn: {why}" for name, why in report.unmatched.items()]
    return ChartSheet(f"Scores against people: {size_of(report)}", sections), notes


def draw_judges(report: JudgesReport, labels: Labels) -> tuple[ChartSheet, list[str]]:
    """Spearman's ρ of each scorer by aspect, with interval and ceiling."""
    charts: list[Spec] = []
    drawn = 0
    for aspect, found in report.aspects.items():
        drawn += len(found.scorers)
        if charts and drawn > MOST_DRAWN_ROWS:
            break
        ceiling = found.ceiling.spearman if found.ceiling is not None else None
        rows = [
            IntervalRow(
                labels[scorer],
                f"{number(one.spearman)}{interval(one.spearman_interval)}",
                one.spearman,
                one.spearman_interval,
                ceiling,
            )
            for scorer, one in found.scorers.items()
        ]
        labelled = IntervalLabels(
            f"{labels[aspect]}, n {found.n:,}",
            "",
            "no scorer has values",
            value="scorer",
            reference="" if ceiling is None else "ceiling: each rater against the mean of the others",
        )
        ruler = rule_correlations(rows, f"Spearman's ρ with {INTERVAL}")
        charts.append(build_intervals(rows, labelled, ruler, width=ROWS_WIDTH))
    notes = [f"{name} is not drawn: {why}" for name, why in report.unmatched.items()]
    if len(charts) < len(report.aspects):
        notes.append(f"the first {len(charts)} aspects are drawn, of {len(report.aspects)}")
    return ChartSheet(f"Scorers against people: {size_of(report)}", [ChartSection("", charts)]), notes


def draw_corrected(report: CorrectedReport, labels: Labels) -> tuple[ChartSheet, list[str]]:
    """By aspect each system's corrected mean with its interval, and the judge's mean beside it."""
    level = f"{100 * (1 - report.alpha):g}% interval"
    aspects = dict.fromkeys(aspect for found in report.systems.values() for aspect in found.aspects)
    charts = []
    for aspect in aspects:
        found = {name: one.aspects[aspect] for name, one in report.systems.items() if aspect in one.aspects}
        shown = dict([*found.items()][: MOST_DRAWN_ROWS // len(aspects) + 1])
        rows = [
            IntervalRow(
                labels[name],
                describe_corrected(one),
                None if one.corrected is None else one.corrected.mean,
                None if one.corrected is None else one.corrected.interval,
                one.judge.mean,
            )
            for name, one in shown.items()
        ]
        labelled = IntervalLabels(
            labels[aspect],
            "",
            "nothing is judged",
            value="corrected by people's ratings",
            reference="the judge's mean",
        )
        ends = [end for row in rows for end in (row.value, row.reference, *(row.interval or ())) if end is not None]
        reach = (min(ends), max(ends)) if ends else (0.0, 1.0)
        ruler = panels.rule(reach, f"mean with {level}", grid=False)
        charts.append(build_intervals(rows, labelled, ruler, width=ROWS_WIDTH))
    reasons = [
        f"{labels[name]}, {labels[aspect]}: {one.refused}"
        for name, found in report.systems.items()
        for aspect, one in found.aspects.items()
        if one.refused is not None
    ]
    left_out = len(report.systems) * len(aspects) > MOST_DRAWN_ROWS
    notes = [f"only the first systems are drawn, of {len(report.systems):,}"] if left_out else []
    sections = [ChartSection("", charts, reasons[:MOST_REASONS])]
    return ChartSheet("Means on people's scale", sections), notes


def describe_corrected(found: reports.CorrectedAspect) -> str:
    """`3.12 [2.90, 3.34] · 30 of 80 rated`; a dash where it was refused."""
    size = f"{found.rated:,} of {found.judged:,} rated"
    if found.corrected is None:
        return f"{DASH} · judge {number(found.judge.mean)} · {size}"
    return f"{number(found.corrected.mean)}{interval(found.corrected.interval)} · {size}"


def describe_correlation(found: reports.AspectCorrelation) -> str:
    """What stands behind ρ: its interval, or why it is undefined, n and the bias."""
    if found.spearman is None:
        return f" {found.undefined.get('spearman', 'undefined')} · n {found.n:,}"
    bias = f" · bias {number(found.bias, signed=True)}" if found.bias is not None else ""
    return f"{interval(found.spearman_interval)} · n {found.n:,}{bias}"


def draw_scatter(observations: Observations, name: str, label: str) -> Spec:
    """Scores against rater means of the units that have both."""
    x, y = unit_means(observations, name, scores=True), unit_means(observations, name)
    if x is None or y is None:
        x = y = np.empty(0)
    both = ~(np.isnan(x) | np.isnan(y))
    reach = reach_of(observations, name, scores=True), reach_of(observations, name)
    labelled = ChartLabels(label, panels.describe_dots(x[both], y[both]), "no item has both")
    return panels.build_scatter(x[both], y[both], reach, ("score", "mean of the raters"), labelled)


def draw_hierarchy(
    report: HierarchyReport, observations: Observations | None, labels: Labels
) -> tuple[ChartSheet, list[str]]:
    """The graph of dependencies, with the aspects' correlations and the systems' distributions."""
    kept = set(reduce([(one.lower, one.higher) for one in report.dependencies]))
    follow = [one for one in report.dependencies if (one.lower, one.higher) not in kept]
    reason = next(iter(report.undefined.values()), "")
    title = "Dependencies, from the lower aspect to the higher"
    if not report.dependencies:
        title = "No aspect depends on another" + (f": {reason}" if reason else "")
    labelled = DependencyLabels(title, "", "no aspect has a rating", alone="without dependency")
    graph = build_dependencies(report, labelled, names=labels, width=GRAPH_WIDTH)
    columns = {name: column for name in report.aspects if (column := unit_means(observations, name)) is not None}
    matrix = [draw_matrix(list(columns), correlate_aspects(columns), labels)] if columns else []
    sections = [ChartSection("", [graph, *matrix], describe_graph(report, follow, labels))]
    if observations is not None and columns:
        legend = "dot: mean; thick: middle half; thin: 5 to 95%; systems sorted by mean"
        sections.append(ChartSection("Rater means by system", draw_systems(columns, observations, labels), [legend]))
    sizes = f"{count(report.items, 'item')}, {count(report.systems, 'system')}, α = {report.alpha:g}"
    left_out = "1 dependency that follows from those drawn is left out of the graph"
    if len(follow) > 1:
        left_out = f"{len(follow)} dependencies that follow from those drawn are left out of the graph"
    return ChartSheet(f"Dependencies between aspects: {sizes}", sections), [left_out] if follow else []


def describe_graph(report: HierarchyReport, follow: Sequence[reports.Dependency], labels: Labels) -> list[str]:
    """What the figures are, the dependencies that the graph leaves out, and the changes by decorrelation."""
    lines = ["in a box: pairs of systems that the aspect tells apart / those tested"]
    if not report.dependencies:
        return lines
    lines.append("on an arrow: common pairs, which both aspects tell apart / + those that only the higher one does")
    lines += [
        f"follows from others: {labels[one.lower]} → {labels[one.higher]}, {one.common:,} / +{one.higher_only:,}"
        for one in follow[:MOST_CHANGES]
    ]
    methods = "; ".join(dict.fromkeys(one.decorrelated.method for one in report.dependencies))
    changes = [
        f"{labels[one.lower]} → {labels[one.higher]} {change}"
        for one in report.dependencies
        if (change := describe_change(one))
    ]
    if not changes:
        return [*lines, f"decorrelation ({methods}) changes none of them"]
    lines.append(f"change of the pairs by decorrelation ({methods}), and pairs new after it; {DASH}: undefined")
    more = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return [*lines, "; ".join([*changes[:MOST_CHANGES], *more])]


def describe_change(one: reports.Dependency) -> str:
    """`(−2 / −1, 3 new)`; empty where nothing changes."""
    found = one.decorrelated
    if found.common_change is None or found.higher_only_change is None or found.new is None:
        return f"({DASH})"
    if not (found.common_change or found.higher_only_change or found.new):
        return ""
    return f"({number(found.common_change, 0)} / {number(found.higher_only_change, 0)}, {found.new} new)"


def draw_systems(columns: Mapping[str, Floats], observations: Observations, labels: Labels) -> list[Spec]:
    """A chart per aspect with a row per system, in the same order everywhere, the best on average first."""
    best = sort_systems(columns, observations)
    charts = []
    for name, column in columns.items():
        rows = [
            (labels[observations.systems[system]], known(column[observations.unit_system == system])) for system in best
        ]
        level = observations.folded.get(name)
        axis = "rating" if level is None else f"−|rating {'−' if level >= 0 else '+'} {abs(level):g}|"
        labelled = ChartLabels(labels[name], "", "no item has a rating")
        charts.append(panels.build_spreads(rows, reach_of(observations, name), axis, labelled, width=SPREADS_WIDTH))
    return charts


def sort_systems(columns: Mapping[str, Floats], observations: Observations) -> list[int]:
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


def draw_wins(report: WinReport, labels: Labels) -> tuple[ChartSheet, list[str]]:
    """Shares of wins and ties by aspect, as bars and with intervals."""
    systems = len(report.systems)
    title = f"Wins over {count(report.contexts, 'context')}, {count(systems, 'system')}"
    if not report.aspects or report.undefined:
        why = [str(one) for one in report.undefined.values()] or ["there is nothing to compare"]
        return ChartSheet(title, [ChartSection("", [], why)]), []
    colours = rank_colours(report)
    listed = report.systems if len(report.aspects) * systems <= MOST_DRAWN_ROWS else tuple(colours)
    labelled = ChartLabels("Share of contexts won", "", "there is nothing to compare")
    bars = [(labels[name], find_parts(found, colours, labels)) for name, found in report.aspects.items()]
    shares = [draw_shares(name, found, listed, labels) for name, found in report.aspects.items()]
    sections = [
        ChartSection("", [panels.build_shares(bars, labelled, width=SHARES_WIDTH)]),
        ChartSection(f"Shares with {INTERVAL} (Wilson)", shares),
    ]
    fewer = f"intervals are drawn for the {len(listed)} systems that win most, of {systems}"
    return ChartSheet(title, sections), [fewer] if len(listed) < systems else []


def rank_colours(report: WinReport) -> dict[str, str]:
    """The colour of each system that has one of its own: those that win most over all aspects."""
    wins = {name: sum(aspect.systems[name].wins for aspect in report.aspects.values()) for name in report.systems}
    ranked = sorted(wins, key=lambda name: -wins[name])[: len(SERIES)]
    colours = dict(zip(ranked, SERIES, strict=False))
    return {name: colours[name] for name in report.systems if name in colours}


def find_parts(found: reports.AspectWins, colours: Mapping[str, str], labels: Labels) -> list[SharePart] | str:
    """The pieces of a bar, systems without a colour of their own as one; or why there is none."""
    if not found.contexts:
        return f"{DASH} {explain_wins(found)}"
    parts = [SharePart(labels[name], found.systems[name].share or 0.0, colour) for name, colour in colours.items()]
    rest = sum(won.share or 0.0 for name, won in found.systems.items() if name not in colours)
    parts += [SharePart(OTHERS, rest, canvas.NEUTRAL)] if len(colours) < len(found.systems) else []
    return [*parts, SharePart(TIES, found.ties.share or 0.0, LINE, canvas.INK)]


def explain_wins(found: reports.AspectWins) -> str:
    """Why no system won."""
    return str(next(iter(found.undefined.values()), "no context was answered by every system"))


def draw_shares(name: str, found: reports.AspectWins, listed: Sequence[str], labels: Labels) -> Spec:
    """Each system's share with its interval, and that of ties."""
    won = [*((labels[system], found.systems[system]) for system in listed), (TIES, found.ties)]
    rows = [
        IntervalRow(label, f"{one.share:.0%}{shares(one.interval)}", one.share, one.interval)
        for label, one in won
        if one.share is not None and found.contexts
    ]
    labelled = IntervalLabels(f"{labels[name]} (n {found.contexts:,})", "", explain_wins(found))
    return build_intervals(rows, labelled, Ruler(0, 1, (0, 0.25, 0.5, 0.75, 1), ".0%"))


def draw_composite_fit(report: CompositeFit, labels: Labels) -> ChartSheet:
    """Fitted weights beside those in the rubric, and what both reach on the items held out."""
    rows = [
        IntervalRow(
            labels[name],
            f"fitted {number(weight, 3)} · in the rubric {number(report.declared.get(name), 3)}",
            weight,
            report.intervals.get(name),
            report.declared.get(name),
        )
        for name, weight in report.weights.items()
    ]
    title = f"Weights with {INTERVAL}, n {report.train:,}"
    labelled = IntervalLabels(title, "", "the composite has no aspect", "fitted", "in the rubric", "weight")
    ends = [0.0, *(end for row in rows for end in (row.value, row.reference, *(row.interval or ())) if end is not None)]
    reached = {"fitted": report.pearson, "in the rubric": report.declared_pearson}
    charts = [
        build_intervals(rows, labelled, panels.rule((min(ends), max(ends)), "weight", grid=False), width=ROWS_WIDTH),
        draw_reached(f"Held-out Pearson's r, n {report.test:,}", reached),
    ]
    title = f"{labels[report.composite]} fitted to {labels[report.target]}: {count(report.n, 'item')}"
    return ChartSheet(title, [ChartSection("", charts, list_reasons([report]))])


def draw_blend_fit(report: BlendFit, labels: Labels) -> ChartSheet:
    """The chosen weight of a blend with its interval, and the correlations with and without it."""
    title = f"w = {number(report.weight, 1)}, with {INTERVAL}"
    axis = f"w, tried from {report.tried[0]:g} to {report.tried[1]:g}"
    labelled = IntervalLabels(title, "", "no weight could be chosen", "chosen", "default", axis)
    figure = f"{number(report.weight, 1)}{interval(report.interval, 1)}"
    chosen = [IntervalRow("w", figure, report.weight, report.interval, DEFAULT_WEIGHT)]
    ticks = canvas.choose_ticks(*report.tried)
    ruler = Ruler(*panels.widen(report.tried), ticks, canvas.choose_form(ticks), axis)
    reached = {
        "none, w = 0": report.unblended,
        f"default, w = {DEFAULT_WEIGHT:g}": report.default,
        "chosen by the other folds": report.correlation,
    }
    name = "Spearman's ρ" if report.statistic == "spearman" else "Pearson's r"
    charts = [
        build_intervals(chosen if report.weight is not None else [], labelled, ruler, width=ROWS_WIDTH),
        draw_reached(f"{name}, mean of {report.folds} folds", reached),
    ]
    title = f"Weight of the blend for {labels[report.aspect]}: {count(report.n, 'item')}"
    return ChartSheet(title, [ChartSection("", charts, [*map(str, report.notes), *list_reasons([report])])])


def draw_reached(title: str, values: Mapping[str, float | None]) -> Spec:
    """Correlations, one per row."""
    rows = [IntervalRow(name, number(value, 3), value) for name, value in values.items()]
    rows = rows if any(row.value is not None for row in rows) else []
    labelled = IntervalLabels(title, "", "no correlation")
    return build_intervals(rows, labelled, rule_correlations(rows, ""))


def size_of(report: AgreementReport | CorrelationReport | JudgesReport) -> str:
    """How many items, systems and raters it is of. One system's answer to a context is an item."""
    raters = count(report.raters, "rater") if report.raters else "raters not named"
    return f"{count(report.items, 'item')}, {count(report.systems, 'system')}, {raters}"


def number(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """The number, or a dash for none."""
    return DASH if value is None else write_number(value, digits=digits, signed=signed)


def interval(ends: tuple[float, float] | None, digits: int = 2) -> str:
    """` [0.43, 0.60]`; empty for none."""
    return f" [{number(ends[0], digits)}, {number(ends[1], digits)}]" if ends else ""


def shares(ends: tuple[float, float] | None) -> str:
    """` [43%, 60%]`; empty for none."""
    return f" [{ends[0]:.0%}, {ends[1]:.0%}]" if ends else ""


def list_reasons(
    found: Iterable[reports.AspectAgreement | reports.AspectCorrelation | CompositeFit | BlendFit],
    *,
    of: Container[str] | None = None,
) -> list[str]:
    """Why figures are dashes, each reason once; `of` names the figures that are drawn where not all are."""
    reasons = dict.fromkeys(why for one in found for figure, why in one.undefined.items() if of is None or figure in of)
    return [f"{DASH}: {why}" for why in [*reasons][:MOST_REASONS]]


def unit_means(observations: Observations | None, aspect: str, *, scores: bool = False) -> Floats | None:
    """The rater mean (or the score) of each unit, shape (units,), NaN for none; None without such a column."""
    if observations is None:
        return None
    columns = observations.scores if scores else observations.ratings
    return observations.means(columns[aspect]) if aspect in columns else None


def reach_of(observations: Observations, aspect: str, *, scores: bool = False) -> tuple[float, float]:
    """The least and the greatest single rating (or score); where there is none, 0 and 1. Means lie within it."""
    held = known((observations.scores if scores else observations.ratings).get(aspect))
    return (float(held.min()), float(held.max())) if len(held) else (0.0, 1.0)


def known(values: Floats | None) -> Floats:
    """The values that there are, shape (n,)."""
    return np.empty(0) if values is None else values[~np.isnan(values)]


LINE_HEIGHT, COLUMN_GAP = 24, 22
WIDEST_NAME = 190


def draw_table(table: PaperTable, path: Path | str) -> list[str]:
    """Draws the table into a PNG, SVG or PDF file and returns notes for the reader. Raises InvalidRequest as
    `saiten_server.analyses.charts.reports.plot`."""
    require_drawing(path)
    names = [table.head, *(one.name for one in table.columns), *(row.name for row in table.rows)]
    labels, lost = label_names(names, path)
    write_sheet(ChartSheet(table.title, [ChartSection("", [build_table(table, labels)], table.notes)]), path)
    return lost


def build_table(table: PaperTable, labels: Mapping[str, str]) -> Spec:
    """Names on the left, figures aligned to the right, and rules as booktabs has them. `labels` are those of all
    names."""
    heads = [fit_text(labels[name], WIDEST_NAME) for name in (table.head, *(one.name for one in table.columns))]
    lines = [
        [
            fit_text(labels[row.name], WIDEST_NAME),
            *(
                "/".join(DASH if value is None else write_number(value, digits=column.digits) for value in cell)
                if any(value is not None for value in cell)
                else DASH
                for column, cell in zip(table.columns, row.cells, strict=True)
            ),
        ]
        for row in table.rows
    ]
    ends: list[float] = []
    for column in zip(heads, *lines, strict=True):
        ends.append((ends[-1] + COLUMN_GAP if ends else 0) + max(map(measure_width, column)) + 2)
    width, height = ends[-1], LINE_HEIGHT * (len(lines) + 1)
    texts: list[ChartRow] = [
        {"text": text, "x": 0 if place == 0 else ends[place], "y": LINE_HEIGHT * (number + 0.5), "first": place == 0}
        for number, line in enumerate([heads, *lines])
        for place, text in enumerate(line)
    ]
    rules = [0, LINE_HEIGHT, height, *([height - LINE_HEIGHT * table.footer] if table.footer else [])]
    x, y = pixels(0, width), pixels(height, 0)
    look = {"type": "rule", "color": INK, "strokeWidth": 1}
    drawn = [
        layer(
            "rules",
            look,
            [{"left": 0, "right": width, "y": at} for at in rules],
            x=x.at("left"),
            x2={"field": "right"},
            y=y.at("y"),
        ),
        letters("names", [one for one in texts if one["first"]], x.at("x"), y.at("y")),
        letters("figures", [one for one in texts if not one["first"]], x.at("x"), y.at("y"), align="right"),
    ]
    labelled = ChartLabels("", "", "there is nothing to tabulate")
    return frame(drawn, labelled, width=width, height=height, margins=Margins(left=2, right=2, top=2, bottom=2))

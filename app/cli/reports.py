"""Analyses as tables for eyes. What has no value is a dash, and the reason stands below the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from rich.console import Console
from rich.text import Text

from saiten.commands.output import TerminalTable, console, drop_zeros, figure, print_line, print_sheet, tabulate
from saiten.core.figures import DASH
from saiten.core.language import mark, tell, tell_all
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.cli.paper_tables import comment_latex, write_sheet_csv, write_sheet_latex
from saiten_server.cli.process import say
from saiten_server.core.model import Value
from saiten_server.core.reports import (
    AgreementReport,
    AspectCorrelation,
    AspectDifference,
    BlendFit,
    CompositeFit,
    Confusion,
    CorrectedAspect,
    CorrectedDifference,
    CorrectedReport,
    CorrelationReport,
    Correlations,
    HierarchyReport,
    Interval,
    JudgesReport,
    Matrix,
    RatingsUsed,
    WinReport,
    WinShare,
)

__all__ = ["figure", "notes", "print_report", "render", "spanned", "tabulate"]

Part = TerminalTable | Text

LEFT_OUT = mark("left out")
"""Head of a column that stands only where something was."""

UNNAMED = mark("(no name)")
MOST_PRINTED_PAIRS = 30
"""Rows of pairs of systems that are printed; more of them say less than the JSON does."""
MOST_IN_SQUARE = 40
"""Aspects up to which their correlations are printed."""
MOST_PLACES_LISTED = 12
"""The most names in one note; of further ones only the number is shown."""

MOST_CONFUSIONS = 12
"""Confusion matrices that are printed."""

PAIRED = {
    "pairwise_spearman": "ρ",
    "pairwise_pearson": "r",
    "cohen_kappa": "Cohen's κ",
    "fleiss_kappa": "Fleiss' κ",
    "icc": "ICC(2,1)",
}
"""Figures of raters in pairs, or all together, with their heads."""

SHOWN_AS = {
    "krippendorff_alpha": "krippendorff α",
    "kendall": "τ-b",
    "kendall_interval": "τ-b interval",
    "cohen_kappa": "Cohen's κ",
    "fleiss_kappa": "Fleiss' κ",
    "icc": "ICC(2,1)",
}


def print_report(report: Value, *, on: Console | None = None) -> None:
    """The report as tables, with notes."""
    target = on or console()
    for part in render(report):
        if isinstance(part, TerminalTable):
            print_sheet(part, target)
        else:
            target.print(part)
    used: RatingsUsed | None = getattr(report, "ratings_used", None)
    for note in used.notes() if used is not None else ():
        print_line(say(note), target)


def write_report(report: Value, form: str) -> str:
    """The report's tables as CSV or LaTeX. Notes are comments of LaTeX; CSV has the tables alone, with an empty line
    between two of them."""
    parts = render(report)
    if form == "csv":
        return "\n".join(write_sheet_csv(part) for part in parts if isinstance(part, TerminalTable))
    written = (
        write_sheet_latex(part) if isinstance(part, TerminalTable) else comment_latex(part.plain) for part in parts
    )
    return "".join(f"{one}\n" for one in written)


@singledispatch
def render(report: Value) -> list[Part]:
    """The parts of a report, in order."""
    raise NotImplementedError(type(report).__name__)


@render.register
def render_agreement(report: AgreementReport) -> list[Part]:
    title = tell(
        "agreement: {sizes}", sizes=f"{sizes(report.items, report.systems)}, {count(report.raters, 'named rater')}"
    )
    rows = [
        (
            name,
            f"{found.n:,}",
            f"{found.left_out:,}",
            f"{found.raters:,}",
            figure(found.mean),
            figure(found.sd),
            figure(found.spearman),
            figure(found.pearson),
            figure(found.krippendorff_alpha),
        )
        for name, found in report.aspects.items()
    ]
    heads = tell_all("aspect", "n", LEFT_OUT, "raters", "mean", "sd", "spearman", "pearson", "α")
    parts: list[Part] = [drop_zeros(TerminalTable(title, heads, rows), tell(LEFT_OUT))]
    if rows:
        parts.append(Text(tell("α: Krippendorff's")))
    parts += paired_of(report)
    parts += confusions_of({name: found.confusion for name, found in report.aspects.items()})
    parts += squares_of(report.correlations)
    parts += remarks({name: found.notes for name, found in report.aspects.items()})
    # What stands in the diagonal says nothing that the aspect's own notes do not.
    pairs = {
        f"{a}~{b}": why for a, found in report.correlations.undefined.items() for b, why in found.items() if a != b
    }
    # Where there are no raters to compare, it is said once, of each rater against the others. What has no matrix is
    # seen: most metrics have none.
    undefined = {
        name: {
            figure: why
            for figure, why in found.undefined.items()
            if figure != "confusion" and (figure not in PAIRED or found.undefined.get("spearman") is None)
        }
        for name, found in report.aspects.items()
    }
    return [*parts, *notes({**undefined, "": pairs})]


def paired_of(report: AgreementReport) -> list[Part]:
    """What raters have in common in pairs, where there are two of them for some aspect."""
    rows = [
        (name, *(figure(getattr(found, one)) for one in PAIRED))
        for name, found in report.aspects.items()
        if any(getattr(found, one) is not None for one in PAIRED)
    ]
    if not rows:
        return []
    return [
        TerminalTable(tell("raters in pairs"), (tell("aspect"), *PAIRED.values()), rows),
        Text(tell("ρ, r, Cohen's κ: means over all pairs of raters; ICC: of the items that every rater rated")),
    ]


def confusions_of(found: Mapping[str, Confusion | None]) -> list[Part]:
    """The confusion matrices by what they are of, where there are not too many."""
    held = {name: one for name, one in found.items() if one is not None}
    if len(held) > MOST_CONFUSIONS:
        return [Text(tell("{count} confusion matrices stand in the output of --json", count=len(held)))]
    return [
        TerminalTable(
            tell("{name}: median of people (rows) and judge (columns)", name=name),
            ("", *(f"{value:g}" for value in one.judge)),
            [(f"{value:g}", *row) for value, row in zip(one.people, one.counts, strict=True)],
        )
        for name, one in held.items()
    ]


@render.register
def render_correlation(report: CorrelationReport) -> list[Part]:
    unmatched = {name: {"": why} for name, why in report.unmatched.items()}
    title = tell("correlation with humans: {sizes}", sizes=sizes(report.items, report.systems, report.clusters))
    if not report.aspects:
        return [Text(title, style="bold"), Text(tell("no aspect has both ratings and scores")), *notes(unmatched)]
    rows = [
        (
            name,
            f"{found.n:,}",
            f"{found.left_out:,}",
            spanned(found.spearman, found.spearman_interval),
            spanned(found.pearson, found.pearson_interval),
            spanned(found.kendall, found.kendall_interval),
            figure(found.ceiling.spearman if found.ceiling else None),
        )
        for name, found in report.aspects.items()
    ]
    heads = tell_all("aspect", "n", LEFT_OUT, "spearman", "pearson", "τ-b", "ceiling")
    parts: list[Part] = [drop_zeros(TerminalTable(title, heads, rows), tell(LEFT_OUT))]
    if any(found.ceiling for found in report.aspects.values()):
        parts.append(Text(tell("ceiling: each rater against the mean of the others, Spearman")))
    undefined = {name: {**found.undefined, **deeper(found)} for name, found in report.aspects.items()}
    parts += [*tabulate_means(report), *remarks({name: found.notes for name, found in report.aspects.items()})]
    return [*parts, *notes({**undefined, **unmatched})]


@render.register
def render_judges(report: JudgesReport) -> list[Part]:
    title = tell("scorers against people: {sizes}", sizes=sizes(report.items, report.systems, report.clusters))
    parts: list[Part] = [Text(title, style="bold")]
    for name, found in report.aspects.items():
        rows = [
            (
                scorer,
                spanned(one.spearman, one.spearman_interval),
                spanned(one.pearson, one.pearson_interval),
                spanned(one.kendall, one.kendall_interval),
            )
            for scorer, one in found.scorers.items()
        ]
        if found.ceiling is not None:
            rows.append((tell("people"), figure(found.ceiling.spearman), figure(found.ceiling.pearson), DASH))
        left_out = tell(", {count:,} left out", count=found.left_out) if found.left_out else ""
        heads = tell_all("scorer", "spearman", "pearson", "τ-b")
        parts.append(TerminalTable(f"{name}: {count(found.n, 'item')}{left_out}", heads, rows))
        pairs = [
            (f"{each.better} > {each.worse}", spanned(each.difference, each.interval, "+.3f"), figure(each.p))
            for each in found.differences[:MOST_PRINTED_PAIRS]
        ]
        if pairs:
            parts.append(TerminalTable("", tell_all("spearman", "difference", "p (Holm)"), pairs))
    parts += confusions_of(
        {
            f"{scorer}, {name}": one.confusion
            for name, found in report.aspects.items()
            for scorer, one in found.scorers.items()
        }
    )
    if any(found.ceiling for found in report.aspects.values()):
        parts.append(Text(tell("people: each rater against the mean of the others")))
    undefined = {
        f"{name}, {scorer}": {figure: why for figure, why in one.undefined.items() if figure != "confusion"}
        for name, found in report.aspects.items()
        for scorer, one in found.scorers.items()
    }
    return [*parts, *notes({**undefined, **{name: {"": why} for name, why in report.unmatched.items()}})]


def tabulate_means(report: CorrelationReport) -> list[Part]:
    """The bias, and where there are systems enough the correlation of their means."""
    rows = [
        (name, figure(found.score_mean), figure(found.rating_mean), spanned(found.bias, found.bias_interval, "+.3f"))
        for name, found in report.aspects.items()
    ]
    parts: list[Part] = [
        TerminalTable(tell("bias: mean score less mean rating"), tell_all("aspect", "scores", "ratings", "bias"), rows)
    ]
    systems = [
        (name, level.n, *map(figure, (level.spearman, level.pearson, level.kendall)))
        for name, found in report.aspects.items()
        if (level := found.system_level) is not None
    ]
    if systems:
        heads = tell_all("aspect", "systems", "spearman", "pearson", "τ-b")
        parts.append(TerminalTable(tell("correlation of the systems' means"), heads, systems))
    return parts


def deeper(found: AspectCorrelation) -> dict[str, Message | str]:
    """Why figures of the ceiling and of the systems' means are missing."""
    reasons = {
        tell("ceiling {name}", name=name): why
        for name, why in (found.ceiling.undefined if found.ceiling else {}).items()
    }
    level = found.system_level.undefined if found.system_level else {}
    return {**reasons, **{tell("systems' means {name}", name=name): why for name, why in level.items()}}


@render.register
def render_hierarchy(report: HierarchyReport) -> list[Part]:
    title = tell(
        "significant pairs of systems at α = {alpha:g}: {sizes}",
        alpha=report.alpha,
        sizes=sizes(report.items, report.systems),
    )
    rows = [
        (
            name,
            f"{found.n:,}",
            f"{found.left_out:,}",
            tell("{pairs} of {tested}", pairs=found.pairs, tested=found.tested),
        )
        for name, found in report.aspects.items()
    ]
    reasons = {name: found.undefined for name, found in report.aspects.items()}
    for each in report.dependencies:
        reasons[f"{each.lower} → {each.higher}"] = each.decorrelated.undefined
    pairs = drop_zeros(TerminalTable(title, tell_all("aspect", "n", LEFT_OUT, "pairs"), rows), tell(LEFT_OUT))
    return [pairs, *dependencies_of(report), *folded(report.best), *notes(reasons)]


def dependencies_of(report: HierarchyReport) -> list[Part]:
    """What depends on what, or that nothing does and why that had to be so."""
    if not report.dependencies:
        why = report.undefined.get("dependencies")
        told = tell("no aspect depends on another") if why is None else tell("no dependencies: {why}", why=why)
        return [Text(printable(told))]
    rows = [
        (
            f"{each.lower} → {each.higher}",
            f"{each.decorrelated.left_out:,}",
            changed(each.common, each.decorrelated.common_change),
            changed(each.higher_only, each.decorrelated.higher_only_change),
            figure(each.decorrelated.new, "d"),
        )
        for each in report.dependencies
    ]
    method = report.dependencies[0].decorrelated.method
    title = tell("dependencies; in brackets, and new: the change by decorrelation ({method})", method=method)
    return [
        drop_zeros(
            TerminalTable(title, tell_all("lower → higher", LEFT_OUT, "common", "higher only", "new"), rows),
            tell(LEFT_OUT),
        ),
        Text(tell("common: pairs that both tell apart; higher only: those that the lower does not")),
    ]


@render.register
def render_composite_fit(report: CompositeFit) -> list[Part]:
    title = tell(
        "{composite} from {target}: {sizes} ({train:,} fitted, {test:,} held out, {left_out:,} left out)",
        composite=report.composite,
        target=report.target,
        sizes=clustered(report.n, report.clusters),
        train=report.train,
        test=report.test,
        left_out=report.left_out,
    )
    rows = [
        (name, spanned(weight, report.intervals.get(name)), figure(report.declared.get(name)))
        for name, weight in report.weights.items()
    ]
    held = tell(
        "held-out Pearson {found}; the rubric's own weights: {declared}",
        found=figure(report.pearson),
        declared=figure(report.declared_pearson),
    )
    return [
        TerminalTable(title, tell_all("aspect", "weight", "in the rubric"), rows),
        Text(held),
        *notes({"": report.undefined}),
    ]


@render.register
def render_blend_fit(report: BlendFit) -> list[Part]:
    title = tell(
        "weight of the blend of {aspect}: {sizes}, {folds} ({left_out:,} left out)",
        aspect=report.aspect,
        sizes=clustered(report.n, report.clusters),
        folds=count(report.folds, "fold"),
        left_out=report.left_out,
    )
    rows = [
        (tell("chosen"), spanned(report.weight, report.interval, ".1f"), figure(report.correlation)),
        (tell("none"), "0.0", figure(report.unblended)),
        (tell("default"), "10.0", figure(report.default)),
    ]
    parts: list[Part] = [TerminalTable(title, ("", tell("weight"), report.statistic), rows)]
    if report.weight is not None:
        parts.append(Text(tell("chosen: each fold is judged with the weight that the others chose")))
    return [*parts, *remarks({"": report.notes}), *notes({"": report.undefined})]


@render.register
def render_wins(report: WinReport) -> list[Part]:
    contexts = clustered(report.contexts, report.clusters, "context")
    title = tell("contexts won: {sizes}", sizes=f"{contexts}, {count(len(report.systems), 'system')}")
    parts: list[Part] = [Text(title, style="bold")]
    for name, found in report.aspects.items():
        if not found.contexts:
            continue
        shares = [(system or tell(UNNAMED), found.systems.get(system)) for system in report.systems]
        rows = [(system, *won(share)) for system, share in [*shares, (tell("(ties)"), found.ties)]]
        left_out = tell(" ({count:,} left out)", count=found.left_out) if found.left_out else ""
        title = tell(
            "{name}: {contexts} that every system answered{left_out}",
            name=name,
            contexts=count(found.contexts, "context"),
            left_out=left_out,
        )
        parts.append(TerminalTable(title, tell_all("system", "won", "share", "95%"), rows))
    # Where nothing was contested every aspect says so at length.
    reasons = {"": report.undefined} if report.undefined else {n: each.undefined for n, each in report.aspects.items()}
    return [*parts, *pairs_of(report), *folded(report.best), *notes(reasons)]


@render.register
def render_corrected(report: CorrectedReport) -> list[Part]:
    level = f"{100 * (1 - report.alpha):g}%"
    rows, reasons, about = [], {}, {}
    for system, found in report.systems.items():
        for aspect, each in found.aspects.items():
            name = f"{system or tell(UNNAMED)}, {aspect}"
            reasons[name] = {} if each.refused is None else {tell("corrected"): each.refused}
            about[name] = each.notes
            more = each.ratings_for_half_width if report.margin is None else each.ratings_for_margin
            if each.corrected is not None and more is None:
                reasons[name] = {tell("more"): tell_rest(each, report.margin)}
            rows.append((name, *list_corrected_cells(each), figure(more, ",d")))
    heads = tell_all("system, aspect", "judged", "rated", "judge", "people", "corrected", "λ", "more")
    parts: list[Part] = [TerminalTable(tell("means with {level} intervals", level=level), heads, rows)]
    legend = (
        tell("more: ratings that would halve the interval")
        if report.margin is None
        else tell("more: ratings that would bring the interval to ± {margin:g}", margin=report.margin)
    )
    parts.append(Text(tell("corrected: what people would say of all; λ: the judge's weight in it")))
    parts.append(Text(legend))
    if report.looks == "any":
        parts.append(Text(tell("intervals of people and of corrected hold however often they are looked at")))
    pairs = [
        (
            f"{pair.candidate or tell(UNNAMED)} - {pair.baseline or tell(UNNAMED)}, {aspect}",
            *changes(own.judge),
            *changes(own.corrected),
        )
        for pair in report.differences
        for aspect, own in pair.aspects.items()
    ]
    if len(pairs) > MOST_PRINTED_PAIRS:
        parts.append(Text(tell("{count:,} differences stand in the output of --json", count=len(pairs))))
    elif pairs:
        parts.append(
            TerminalTable(tell("differences"), tell_all("systems, aspect", "judge", "p", "corrected", "p"), pairs)
        )
        about |= {
            f"{pair.candidate or tell(UNNAMED)} - {pair.baseline or tell(UNNAMED)}, {aspect}": tell_shared(own)
            for pair in report.differences
            for aspect, own in pair.aspects.items()
            if own.shared is not None
        }
    return [
        *parts,
        *remarks(about),
        *remarks({name: (why,) for name, why in report.unmatched.items()}),
        *notes(reasons),
    ]


def list_corrected_cells(found: CorrectedAspect) -> tuple[str, ...]:
    """Counts, the means of the judge, of people and of both, and the judge's weight in the latter."""
    human, corrected = found.human, found.corrected
    return (
        f"{found.judged:,}",
        f"{found.rated:,}",
        spanned(found.judge.mean, found.judge.interval),
        DASH if human is None else spanned(human.mean, human.interval),
        DASH if corrected is None else spanned(corrected.mean, corrected.interval),
        figure(None if corrected is None else corrected.weight, ".2f"),
    )


def tell_rest(found: CorrectedAspect, margin: float | None) -> str:
    """Why no number of ratings by the same raters would do, and how many raters would."""
    if margin is not None or found.raters_for_half_width is None:
        return tell("not even ratings of all items would")
    return tell(
        "not even ratings of all items by the same raters would; {raters:,} raters in all would",
        raters=found.raters_for_half_width,
    )


def tell_shared(found: AspectDifference) -> tuple[Message | str, ...]:
    """By whose ratings the difference is, and why there is none."""
    shared = found.shared
    if shared is None or not shared.raters:
        return () if found.refused is None else (found.refused,)
    told = tell(
        "by raters of both: {raters:,}; their ratings: {baseline:,} and {candidate:,}",
        raters=shared.raters,
        baseline=shared.baseline,
        candidate=shared.candidate,
    )
    return (told,) if found.refused is None else (told, found.refused)


def changes(found: CorrectedDifference | None) -> tuple[str, str]:
    """`-0.120 [-0.20, -0.04]`, `0.004`."""
    if found is None:
        return DASH, DASH
    return spanned(found.difference, found.interval), figure(found.p, ".4f")


def pairs_of(report: WinReport) -> list[Part]:
    """Each pair of more than two systems, where there are not too many; for two the first table suffices."""
    if len(report.systems) < 3:
        return []
    rows: list[tuple[object, ...]] = []
    for name, found in report.aspects.items():
        for pair in found.pairs:
            shares = [won(share)[0] for share in (pair.a_wins, pair.b_wins, pair.ties)]
            names = f"{pair.a or tell(UNNAMED)} : {pair.b or tell(UNNAMED)}"
            span = percents(pair.preference_interval)
            rows.append((f"{name}, {names}", f"{pair.contexts:,}", *shares, percent(pair.preference), span))
    if len(rows) > MOST_PRINTED_PAIRS:
        return [Text(tell("{count:,} comparisons of two systems stand in the output of --json", count=len(rows)))]
    heads = tell_all("a : b", "n", "a won", "b won", "ties", "a %", "95%")
    note = Text(tell("n: contexts; a %: a's share of those that were decided"))
    return [TerminalTable(tell("systems in pairs"), heads, rows), note] if rows else []


def squares_of(correlations: Correlations) -> list[Part]:
    """The matrices between two aspects or more, where eyes can take them in."""
    aspects = len(correlations.spearman)
    if aspects > MOST_IN_SQUARE:
        return [Text(tell("correlations between {aspects} aspects stand in the output of --json", aspects=aspects))]
    by_name = {"Spearman": correlations.spearman, "Pearson": correlations.pearson}
    return [
        square(tell("aspect correlations, {name}", name=name), matrix)
        for name, matrix in by_name.items()
        if aspects > 1
    ]


def square(title: str, matrix: Matrix) -> TerminalTable:
    """A matrix by aspect. Where the names do not fit above it, numbers do."""
    cells = [[figure(found.get(other), ".2f") for other in matrix] for found in matrix.values()]
    numbers = range(1, len(matrix) + 1)
    rows = [(f"{number} {name}", *row) for number, name, row in zip(numbers, matrix, cells, strict=True)]
    narrow = TerminalTable(title, ("", *map(str, numbers)), rows)
    return TerminalTable(title, ("", *matrix), [(name, *row) for name, row in zip(matrix, cells, strict=True)], narrow)


def remarks(reasons: Mapping[str, Sequence[Message | str]]) -> list[Text]:
    """What to know before using the figures, by aspect (empty for the whole): each remark once."""
    places: dict[Message | str, list[str]] = {}
    for place, found in reasons.items():
        for remark in found:
            places.setdefault(remark, []).append(place)
    return [
        Text(printable(f"{listing(where)}: {say(remark)}" if where != [""] else say(remark)))
        for remark, where in places.items()
    ]


def folded(best: Mapping[str, float]) -> list[Text]:
    """Which aspects count by their distance from the best level."""
    by_level: dict[float, list[str]] = {}
    for name, level in best.items():
        by_level.setdefault(level, []).append(name)
    return [
        Text(
            printable(
                tell(
                    "{names}: counted by the distance from {level:g}, the best level", names=listing(names), level=level
                )
            )
        )
        for level, names in by_level.items()
    ]


def notes(undefined: Mapping[str, Mapping[str, Message | str]]) -> list[Text]:
    """Why figures are missing, by place (an aspect; empty for the whole) and name: each reason once.

    `– spearman, pearson of fluency: all ratings are equal`, or without the places where it is the same for all.
    """
    reasons: dict[Message | str, dict[str, list[str]]] = {}
    for place, found in undefined.items():
        for name, why in found.items():
            # An interval that lacks the figure itself needs no note of its own.
            if name.removesuffix("_interval") == name or name.removesuffix("_interval") not in found:
                reasons.setdefault(why, {}).setdefault(place, []).append(name)
    return [
        Text(printable(line))
        for why, places in reasons.items()
        for line in tell_missing(why, places, len(set(undefined) - {""}))
    ]


def tell_missing(why: Message | str, places: Mapping[str, Sequence[str]], of: int) -> list[str]:
    """A line for each set of names that lack a figure for that reason."""
    grouped: dict[str, list[str]] = {}
    for place, names in places.items():
        grouped.setdefault(listing([worded(name) for name in names if name]), []).append(place)
    lines = []
    for names, where in grouped.items():
        everywhere = len(where) == of > 1 or where == [""]
        lacking = tell("all") if everywhere and not names else listing([place for place in where if place])
        subject = names if everywhere and names else tell_of(names, lacking)
        lines.append(f"{DASH} {subject}: {say(why)}")
    return lines


def tell_of(names: str, places: str) -> str:
    """`spearman of fluency`; one of both where there is no other."""
    return tell("{names} of {places}", names=names, places=places) if names and places else names or places


def listing(names: Sequence[str]) -> str:
    """`a, b`; of many the first ones and how many more."""
    more = len(names) - MOST_PLACES_LISTED
    return ", ".join(names[:MOST_PLACES_LISTED]) + (tell(" and {more} more", more=more) if more > 0 else "")


def worded(name: str) -> str:
    """A field's name as the tables have it."""
    return SHOWN_AS.get(name, name.replace("_", " "))


def spanned(value: float | None, interval: Interval, form: str = ".3f") -> str:
    """`0.513 [0.44, 0.58]`."""
    if interval is None or value is None:
        return figure(value, form)
    low, high = interval
    return f"{figure(value, form)} [{figure(low, '.2f')}, {figure(high, '.2f')}]"


def changed(before: int, change: int | None) -> str:
    """`8 (±0)`, `8 (-2)`, `8 (–)`."""
    return f"{before} ({DASH if change is None else '±0' if change == 0 else f'{change:+d}'})"


def won(share: WinShare | None) -> tuple[str, str, str]:
    """`12`, `40%`, `[25, 58]`."""
    if share is None or share.share is None:
        return DASH, DASH, DASH
    return f"{share.wins:,}", percent(share.share), percents(share.interval)


def percent(share: float | None) -> str:
    """`40%`."""
    return DASH if share is None else f"{100 * share:.0f}%"


def percents(interval: Interval) -> str:
    """`[25, 58]`."""
    return DASH if interval is None else f"[{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"


def sizes(items: int, systems: int, clusters: int | None = None) -> str:
    """`36 items, 3 systems`; with clusters `200 items in 20 clusters, 1 system`."""
    return f"{clustered(items, clusters)}, {count(systems, 'system')}"


def clustered(items: int, clusters: int | None, noun: str = "item") -> str:
    """`36 items`, or `200 items in 20 clusters` where not all are independent. Reports of older services have 0."""
    size = count(items, noun)
    return (
        size
        if not clusters or clusters >= items
        else tell("{size} in {clusters}", size=size, clusters=count(clusters, "cluster"))
    )


COUNT_NAMES = {
    "item": (mark("{count:,} item"), mark("{count:,} items")),
    "system": (mark("{count:,} system"), mark("{count:,} systems")),
    "cluster": (mark("{count:,} cluster"), mark("{count:,} clusters")),
    "context": (mark("{count:,} context"), mark("{count:,} contexts")),
    "fold": (mark("{count:,} fold"), mark("{count:,} folds")),
    "judge": (mark("{count:,} judge"), mark("{count:,} judges")),
    "named rater": (mark("{count:,} named rater"), mark("{count:,} named raters")),
}
"""How one of them is counted, and several."""


def count(n: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return tell(COUNT_NAMES[noun][n != 1], count=n)

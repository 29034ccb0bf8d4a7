"""A gate's verdict for eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.analysis.gate import stands_still, tell_p
from app.analysis.markdown import VOID, has_moved, name_measure, show_size
from app.cli.output import DASH, LEFT, console
from app.cli.reports import figure
from app.domain.comparison import Comparison, GateReason, GateReport, Measure
from app.domain.plain_text import printable
from app.domain.reliability import remark

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
VERDICTS = {"better": "green", "worse": "red", "same": "dim", "no change shown": "dim"}
VOID_SIGN = "·"
"""Before what the rules found where that says nothing of the system."""

WIDE = 96
"""Columns from which on the table has one for the smallest detectable difference; below, that is a line of its own."""

NAME_WIDTH = 15
"""Columns that a measure's name has at least; a longer one is folded where there is no room."""

WHY = {"judge-moved": "the judge moved", "coverage": "not enough coverage", "no-values": "no values"}
WHY["not-enough-data"] = "not enough data"


def print_gate(report: GateReport, *, on: Console | None = None) -> None:
    """The verdict, its reasons, and what they rest on."""
    target = on or console()
    target.print(Text(headline(report), style=STYLES[report.verdict]))
    moved = has_moved(report)
    for reason in report.reasons:
        remarked = reason.model_copy(update={"detail": reason.detail + remark(report.reliability, reason.aspect)})
        print_reason(remarked, on=target, void=moved and reason.about == "rule")
    if moved:
        target.print(Text(VOID))
    if report.comparison is not None:
        print_comparison(report.comparison, on=target)


def headline(report: GateReport) -> str:
    """`gate: fail`; what made it inconclusive is said beside it."""
    why = next((WHY[reason.code] for reason in report.reasons if reason.code in WHY), "")
    return f"gate: {report.verdict}" + (f" ({why})" if report.verdict == "inconclusive" and why else "")


def print_reason(reason: GateReason, *, on: Console, void: bool) -> None:
    """One reason: on a terminal folded under its own beginning, else on one line, for those who search a log."""
    sign = VOID_SIGN if void else SIGNS[reason.verdict]
    told = printable(f"{reason.aspect or reason.about}: {reason.detail}")
    if not on.is_terminal:
        on.print(Text(f"  {sign} {told}"), soft_wrap=True)
        return
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row(Text(sign), Text(told, style="dim" if void else ""))
    on.print(Padding(row, (0, 0, 0, 2)))


def print_comparison(comparison: Comparison, *, on: Console) -> None:
    """Every measure of both runs."""
    measures = {**comparison.aspects, **comparison.composites}
    measures.update((f"{name}.blended", measure) for name, measure in comparison.blended.items())
    wide = on.width >= WIDE
    on.print()
    on.print(Text(printable(f"{comparison.candidate} against {comparison.baseline}"), style="bold"), soft_wrap=True)
    on.print(Text(printable(comparison.pairing.reason), style="dim"), soft_wrap=not on.is_terminal)
    on.print(tabulate(measures, comparison.alpha, wide=wide))
    for note in list_notes(comparison, measures, wide=wide):
        on.print(Text(printable(note)), soft_wrap=not on.is_terminal)


def tabulate(measures: Mapping[str, Measure], alpha: float, *, wide: bool) -> Table:
    """A row a measure: both means, the difference with its interval, p after Holm, and what would have been seen."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 2 if wide else 1, 0, 0), **LEFT)
    table.add_column("", overflow="fold", min_width=NAME_WIDTH)
    level = f"difference\n[{100 * (1 - alpha):g} %]"
    for head in ("n", "baseline\n→ candidate", level, "p\n(Holm)", *(["detect-\nable"] if wide else [])):
        table.add_column(Text(head), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, measure in measures.items():
        cells = [
            printable(name_measure(name, measure)),
            show_size(measure),
            f"{figure(measure.baseline_mean, '.2f')} → {figure(measure.candidate_mean, '.2f')}",
            tell_difference(measure),
            DASH
            if measure.p_adjusted is None
            else tell_p(measure.p_adjusted).removeprefix("p = ").replace("p < ", "<"),
            *([figure(measure.smallest_detectable, ".2f")] if wide else []),
        ]
        verdict = tell_verdict(measure)
        table.add_row(*map(Text, cells), Text(verdict, style=VERDICTS.get(verdict, "")))
    return table


def tell_verdict(measure: Measure) -> str:
    """`better`, `worse`, `same` where no value differs, else `no change shown`; a dash where nothing is compared."""
    if measure.difference is None:
        return DASH
    if measure.verdict != "inconclusive":
        return measure.verdict
    return "same" if stands_still(measure) else "no change shown"


def tell_difference(measure: Measure) -> str:
    """`-0.38 [-0.52, -0.27]`."""
    told = figure(measure.difference, "+.2f")
    if measure.difference is None or measure.interval is None:
        return told
    low, high = measure.interval
    return f"{told} [{low:+.2f}, {high:+.2f}]"


def list_notes(comparison: Comparison, measures: Mapping[str, Measure], *, wide: bool) -> Iterator[str]:
    """What the table has no room for, and why figures are missing: each reason once."""
    found = {name: one.smallest_detectable for name, one in measures.items() if one.smallest_detectable is not None}
    if found and not wide:
        yield "detectable: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    yield from comparison.notes
    reasons: dict[str, dict[str, None]] = {}
    for name, measure in measures.items():
        for why in measure.undefined.values():
            reasons.setdefault(why, {})[name] = None
    for why, names in reasons.items():
        yield f"{DASH} {', '.join(names)}: {why}"
    for piece, (baseline, candidate) in comparison.signature_differences.items():
        yield f"scored differently, {piece}: {baseline} → {candidate}"

"""A run of attacks for eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from app.cli.output import DASH, Sheet, console, drop_noughts, print_sheet
from app.domain.attack_report import AttackGroup, AttackReport, Count, Mean
from app.domain.plain_text import printable

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
MOST_NAMED = 8
"""Ids that are named in one line; the JSON has all."""

LEGEND = (
    "flagged, lift: with 95 % intervals; lift: attack less twin, of the scale; room: the most that it could have been",
    "won, fell: an aspect moved by half of its scale, or up to the bait; denied: only the twin was rated",
)
HEADS = ("n", "flagged", "lift", "won", "fell", "denied")


def print_attack(report: AttackReport, *, on: Console | None = None) -> None:
    """The verdict and its reasons, then the figures they rest on."""
    target = on or console()
    target.print(Text(f"attack: {report.verdict}", style=STYLES[report.verdict]))
    for reason in report.reasons:
        line = printable(f"  {SIGNS[reason.verdict]} {reason.about}: {reason.detail}")
        target.print(Text(line), soft_wrap=not target.is_terminal)
    target.print()
    target.print(Text(printable(name_run(report)), style="bold"), soft_wrap=not target.is_terminal)
    print_sheet(sheet_of("kind", {**report.kinds, "all": report.all}), target)
    if len(report.languages) > 1:
        print_sheet(sheet_of("language", report.languages), target)
    for sheet in aspect_sheets(report):
        print_sheet(sheet, target)
    for line in list_remarks(report):
        target.print(Text(printable(line)), soft_wrap=not target.is_terminal)


def name_run(report: AttackReport) -> str:
    """Corpus, judge, rubrics and path."""
    models = ", ".join(report.models) or "no model answered"
    rubrics = ", ".join(f"{language}: {rubric}" for language, rubric in report.rubrics.items())
    samples = f", {report.samples} samples" if report.samples > 1 else ""
    return f"corpus {report.corpus}, judge {report.judge} ({models}), {rubrics}, path {report.path}{samples}"


def sheet_of(head: str, groups: Mapping[str, AttackGroup]) -> Sheet:
    """A row a group."""
    rows = [
        (
            name,
            str(found.items),
            tell_share(found.flagged),
            tell_mean(found.lift),
            tell_count(found.won),
            tell_count(found.fell),
            str(found.denied.count),
        )
        for name, found in groups.items()
    ]
    return drop_noughts(Sheet(f"by {head}", (head, *HEADS), rows), "denied")


def aspect_sheets(report: AttackReport) -> Iterator[Sheet]:
    """A table a rubric: the lift of each aspect."""
    for rubric, aspects in report.aspects.items():
        rows = [
            (
                name,
                "{}..{}".format(*found.scale),
                str(found.points.n),
                tell_points(found.points),
                tell_mean(found.share),
                DASH if found.room is None else f"{found.room:.0%}",
            )
            for name, found in aspects.items()
        ]
        yield Sheet(f"lift by aspect, {rubric}", ("aspect", "scale", "n", "points", "of the scale", "room"), rows)


def tell_count(found: Count) -> str:
    """`3/12`."""
    return f"{found.count}/{found.of}" if found.of else DASH


def tell_share(found: Count) -> str:
    """`67% [54, 77]`."""
    if found.share is None or found.interval is None:
        return DASH
    low, high = found.interval
    return f"{found.share:.0%} [{100 * low:.0f}, {100 * high:.0f}]"


def tell_mean(found: Mean) -> str:
    """`+12.5% [+8, +17]`, of the scale."""
    if found.mean is None:
        return DASH
    told = f"{found.mean:+.1%}"
    return (
        told if found.interval is None else f"{told} [{100 * found.interval[0]:+.0f}, {100 * found.interval[1]:+.0f}]"
    )


def tell_points(found: Mean) -> str:
    """`+0.25 [+0.16, +0.34]`, scale points."""
    if found.mean is None:
        return DASH
    told = f"{found.mean:+.2f}"
    return told if found.interval is None else f"{told} [{found.interval[0]:+.2f}, {found.interval[1]:+.2f}]"


def list_remarks(report: AttackReport) -> Iterator[str]:
    """What no table holds."""
    yield f"look-alikes flagged: {tell_count(report.false_flags)}{name_some(report.flagged_benign)}"
    unseen = report.all.won_unseen
    yield (
        f"under the policy `refuse`: {tell_count(report.stopped)} attacks stopped before the judge; "
        f"{unseen.count} that won would have passed"
    )
    if report.missed:
        yield f"not flagged: {len(report.missed)}{name_some(report.missed)}"
    if report.won:
        yield f"won: {len(report.won)}{name_some(report.won)}"
    if report.accepted:
        yield f"taken although it must be refused: {len(report.accepted)}{name_some(report.accepted)}"
    if report.all.over_maximum.of:
        yield f"rated above what the item deserves: {tell_count(report.all.over_maximum)}"
    if report.all.unrated or report.all.refused or report.all.errors:
        codes = "".join(f", {code} {n}" for code, n in report.failures.items())
        whole = report.all
        yield f"no rating: {whole.unrated} unrated, {whole.refused} refused, {whole.errors} without an answer{codes}"
    if report.ratings_without_reply:
        yield f"{report.ratings_without_reply} ratings are of a judge that gives no reply to read again"
    usage = report.usage
    cost = "of unknown cost" if usage.cost_usd is None else f"USD {usage.cost_usd:.4f}"
    yield f"{usage.judge_calls} judge calls, {usage.prompt_tokens + usage.completion_tokens:,} tokens, {cost}"
    yield from LEGEND


def name_some(ids: tuple[str, ...]) -> str:
    """` (a, b, … and 3 more)`; nothing of none."""
    if not ids:
        return ""
    more = f", … and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return f" ({', '.join(ids[:MOST_NAMED])}{more})"

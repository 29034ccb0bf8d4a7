"""Comparisons and gates as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from saiten.answers import Comparison, CorrectedMeasure, Measure, SequenceMark
from saiten.commands.cases import ShownGateReason, ShownGateReport, list_lines
from saiten.core.figures import DASH, find_digits, write_figure
from saiten.core.language import mark, tell
from saiten.core.plain_text import printable
from saiten.core.wording import describe_rule, name_rule, rate_measures, read_signature, stands_still, tell_p

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&$:])")
"""What GitHub or GitLab could take for markup within a line; a backslash makes it plain (CommonMark 0.31, 2.4)."""

REFERENCE = re.compile(
    r"""[@#!%$~&:](?=[\w"/+.-])            # @name, #12, !3, %"a milestone", $4, ~label, &5, ://, :emoji:, *iteration:
    | (?i:www)(?=\.)                     # GFM 0.29, 6.9: no scheme is needed
    | (?<![A-Za-z0-9_])                  # GH-12, GL-12, and PROJECT-12 of another tracker
      (?:[A-Z][A-Z0-9_]*|(?i:g[hl]))-(?=[0-9])
    """,
    re.VERBOSE,
)
"""What makes a mention, a link or an emoji of what follows. Both sites look for it in what was rendered, where a
backslash before it is gone already."""

JOINER = "\u2060"
"""Shows nothing; within such a text it keeps a user of that name from being notified."""

VOID = mark("While the judge rates differently, its ratings say nothing about the system: record the baseline again.")


GATE_VERDICTS = {"pass": mark("pass"), "fail": mark("fail"), "inconclusive": mark("inconclusive")}
REASON_PARTS = (mark("coverage"), mark("judge"), mark("rule"))
"""What a reason may be about."""

LEXICAL = "lexical"
RUNS = {"baseline": mark("baseline"), "candidate": mark("candidate")}
LEXICAL_NOTE = mark(" (lexical judge: a baseline, not an LLM judge)")


def write_markdown(report: ShownGateReport) -> str:
    """Headline, what decided, the measures as a table, coverage, the worst cases, and the signature folded away."""
    parts = [
        "### " + tell("Saiten gate: {verdict}", verdict=name_verdict(report)),
        name_runs(report),
        *write_reasons(report),
    ]
    if report.sequence is not None:
        parts.append(f"{escape(tell_sequence(report.sequence))}.")
    parts += write_corrected(report)
    if report.comparison is not None:
        parts += write_measures(report.comparison)
        parts += [f"{escape(note)[:1].upper()}{escape(note)[1:]}." for note in report.comparison.notes]
    parts += list_cases(report)
    parts.append("\n".join(fold_signatures(report)))
    return "\n\n".join(part for part in parts if part) + "\n"


REMARKS = {
    "validated": mark(" (judge shown to follow people's ratings here)"),
    "follows": mark(" (judge shown to follow people's ratings here, perhaps only weakly)"),
    "not-shown": mark(" (judge not shown to follow people's ratings here)"),
    "unknown": mark(" (judge not known to follow people's ratings here)"),
}
"""What is known of the judge, by state."""


def remark(states: Mapping[str, str], aspect: str | None) -> str:
    """A remark on the judge after a finding on the aspect; empty without an aspect or states."""
    return tell(REMARKS[states.get(aspect, "unknown")]) if aspect is not None and states else ""


def has_moved(report: ShownGateReport) -> bool:
    """Whether the judge moved, so that what the rules found says nothing of the system."""
    return any(reason.code == "judge-moved" for reason in report.reasons)


def uses_lexical(report: ShownGateReport) -> bool:
    """Whether the lexical judge, which is a baseline, gave any of the ratings."""
    differing = report.comparison.signature_differences.get("judge", ()) if report.comparison is not None else ()
    judges = [read_signature(signature).get("judge", "") for signature in report.signatures]
    return any(map(names_lexical, (*judges, *differing)))


def names_lexical(judge: str) -> bool:
    """Whether the lexical judge is among those of a signature's piece."""
    return LEXICAL in judge.split(",")


def name_verdict(report: ShownGateReport) -> str:
    """The verdict, whether it is the judge's doing, and whether the judge was a baseline."""
    moved = tell(" (judge moved)") if has_moved(report) else ""
    return f"{tell(GATE_VERDICTS[report.verdict])}{moved}{tell(LEXICAL_NOTE) if uses_lexical(report) else ''}"


def name_runs(report: ShownGateReport) -> str:
    """Which run was judged, against which, and how."""
    candidate, alpha = escape(report.call(report.candidate)), f"{report.alpha:g}"
    if report.comparison is None:
        return tell("Candidate run **{candidate}**, alpha {alpha}.", candidate=candidate, alpha=alpha)
    return tell(
        "Candidate run **{candidate}** against **{baseline}**{link}, alpha {alpha}; {reason}.",
        candidate=candidate,
        baseline=escape(report.call(report.comparison.baseline)),
        link=tell_link(report.comparison),
        alpha=alpha,
        reason=escape(report.comparison.pairing.reason),
    )


def tell_sequence(sequence: SequenceMark) -> str:
    """Which build of which sequence was judged, with which error rate, and the noise between builds."""
    told = tell(
        "build {night} of the sequence {name}, alpha {alpha} for all of its builds together",
        night=f"{sequence.night:,}",
        name=sequence.name,
        alpha=f"{sequence.alpha:g}",
    )
    noise = ", ".join(f"{name} {value:.3f}" for name, value in sequence.noise.items())
    drops = ", ".join(f"{name} ({drop.night:,})" for name, drop in sequence.drops.items())
    told += tell("; noise between builds: {noise}", noise=noise) if noise else ""
    return printable(
        told + (tell("; not mended, by the build that it was found in: {drops}", drops=drops) if drops else "")
    )


def tell_link(comparison: Comparison) -> str:
    """That runs are on another judge's scale; empty where none is."""
    if comparison.link is None:
        return ""
    return tell(
        " ({runs} linked from another judge by {link}, with the linking error)",
        runs=", ".join(tell(RUNS.get(name, name)) for name in comparison.link.runs),
        link=escape(comparison.link.id),
    )


def write_reasons(report: ShownGateReport) -> Iterator[str]:
    """What decided, as a list; the coverage is in it, with its denominator. What does not count is listed apart."""
    rules = [reason for reason in report.reasons if reason.about == "rule"] if has_moved(report) else []
    decisive = [reason for reason in report.reasons if reason.about != "rule"] if rules else report.reasons
    yield "\n".join(f"- **{tell(GATE_VERDICTS[reason.verdict])}** {tell_reason(reason, report)}" for reason in decisive)
    if rules:
        yield f"{tell(VOID)} {tell('What the rules found is not decisive:')}"
        yield "\n".join(f"- {tell_reason(reason, report)}" for reason in rules)


def tell_reason(reason: ShownGateReason, report: ShownGateReport) -> str:
    """What was looked at, and what was found."""
    name = f"{tell('assertion')} ({reason.assertion})" if reason.assertion is not None else tell(reason.about)
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{name_rule(rule)} ({describe_rule(rule)})"
    return f"{escape(name)}: {escape(reason.detail + remark(report.reliability, reason.aspect))}"


def list_cases(report: ShownGateReport) -> Iterator[str]:
    """The worst cases with the judge's reasons, and where to see all."""
    if report.cases:
        yield f"**{tell('worst cases')}**"
        lines = []
        for number, case in enumerate(report.cases, start=1):
            lines.append(f"{number}. **{escape(case.item)}**")
            for line in list_lines(case):
                indent = 3 + len(line) - len(line.lstrip())
                lines.append(f"{' ' * indent}- {escape(line)}")
        yield "\n".join(lines)
    if report.unexplained is not None:
        yield escape(tell("not all reasons were asked for: {why}", why=report.unexplained))
    if report.address is not None:
        yield f"[{tell('All cases in Saiten')}](<{report.address}>)"


def write_measures(comparison: Comparison) -> list[str]:
    """A row a measure, of kinds of faults those that either run has; empty without measures."""
    rates = {
        code: measure
        for code, measure in rate_measures(comparison).items()
        if not code.startswith("kind:") or measure.baseline_mean or measure.candidate_mean
    }
    rows = [
        *((name, measure) for name, measure in comparison.aspects.items()),
        *((name, measure) for name, measure in comparison.composites.items()),
        *((f"{name}.blended", measure) for name, measure in comparison.blended.items()),
        *((code if code == "faulty_turns" else f"finding:{code}", measure) for code, measure in rates.items()),
    ]
    if not rows:
        return []
    level = f"{100 * (1 - comparison.alpha):g}"
    head = [
        tell(
            "| measure | baseline | candidate | difference [{level}%] | p adj. | n | detectable | won / tied / lost "
            "| verdict |",
            level=level,
        ),
        "|:--|--:|--:|:--|--:|--:|--:|--:|:--|",
    ]
    return ["\n".join([*head, *(write_row(name, measure) for name, measure in rows)])]


def write_corrected(report: ShownGateReport) -> Iterator[str]:
    """That people's ratings decided, and the measures on their scale; nothing where the judge decided."""
    if report.estimate != "corrected":
        return
    yield tell(
        "Decided by corrected figures: the judge's scores of all responses, corrected by people's ratings of some."
    )
    level = f"{100 * (1 - report.alpha):g}"
    rows = [
        tell("| corrected | baseline | candidate | difference [{level}%] | p adj. | rated |", level=level),
        "|:--|--:|--:|:--|--:|--:|",
    ]
    for name, found in report.corrected.items():
        cells = [
            escape(name),
            write_mean(None if found.baseline is None else found.baseline.mean),
            write_mean(None if found.candidate is None else found.candidate.mean),
            show_difference(found),
            DASH if found.p_adjusted is None else tell_p(found.p_adjusted).removeprefix("p ").removeprefix("= "),
            f"{found.rated_baseline:,} / {found.rated_candidate:,}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    yield "\n".join(rows)
    if report.comparison is not None:
        yield tell("By the judge alone:")


def write_row(name: str, measure: Measure) -> str:
    """One measure. A figure that there is not is a dash."""
    cells = [
        escape(name_measure(name, measure)),
        write_mean(measure.baseline_mean),
        write_mean(measure.candidate_mean),
        show_difference(measure),
        DASH if measure.p_adjusted is None else tell_p(measure.p_adjusted).removeprefix("p ").removeprefix("= "),
        show_size(measure),
        write_mean(measure.smallest_detectable),
        show_wins(measure),
        tell(tell_verdict(measure)),
    ]
    return f"| {' | '.join(cells)} |"


def tell_verdict(measure: Measure) -> str:
    """`better`, `worse`, `same` where no value differs, else `no change shown`; a dash where nothing is compared."""
    if measure.difference is None:
        return DASH
    if measure.verdict != "inconclusive":
        return measure.verdict
    return mark("same") if stands_still(measure) else mark("no change shown")


def name_measure(name: str, measure: Measure) -> str:
    """The measure's name; where its means are not of the ratings themselves, what they are of."""
    return name if measure.best is None else tell("{name} (minus distance from {best:g})", name=name, best=measure.best)


def write_mean(figure: float | None) -> str:
    """A mean in three decimals."""
    return DASH if figure is None else write_figure(figure)


def show_difference(measure: Measure | CorrectedMeasure) -> str:
    """The difference, with its interval where there is one."""
    if measure.difference is None:
        return DASH
    shown = write_figure(measure.difference, find_digits(measure.difference, 0.0, 3), signed=True)
    if measure.interval is None:
        return shown
    low, high = (write_figure(end, signed=True) for end in measure.interval)
    return f"{shown} [{low}, {high}]"


def show_size(measure: Measure) -> str:
    """`60` pairs, `200 in 20` where they are of 20 dialogues; of both runs where they are not paired."""
    sizes: tuple[tuple[int, int], ...] = ((measure.n, measure.clusters),)
    if measure.test == "permutation":
        sizes = (measure.n_baseline, measure.clusters_baseline), (measure.n_candidate, measure.clusters_candidate)
    return " / ".join(
        f"{n:,}" if n <= clusters else tell("{n:,} in {clusters:,}", n=n, clusters=clusters) for n, clusters in sizes
    )


def show_wins(measure: Measure) -> str:
    """How many pairs the candidate won, tied and lost."""
    wins = measure.wins
    if wins is None:
        return DASH
    return f"{wins.a_wins.wins:,} / {wins.ties.wins:,} / {wins.b_wins.wins:,}"


def fold_signatures(report: ShownGateReport) -> Iterator[str]:
    """How the scores were made, and where the runs differ in that."""
    differing = report.comparison.signature_differences if report.comparison is not None else {}
    lines = [*report.signatures, *(f"{piece}: {ours} -> {theirs}" for piece, (ours, theirs) in differing.items())]
    if not lines:
        return
    fence = "`" * max(3, 1 + max(len(run) for line in lines for run in re.findall("`*", line)))
    yield f"<details><summary>{tell('How this was scored')}</summary>"
    yield ""
    yield fence
    yield from (" ".join(line.split()) for line in lines)
    yield fence
    yield ""
    yield "</details>"


def escape(text: str) -> str:
    """A text that shows as it is, on one line, also in a table cell: no markup, no mentions, no links but those that
    both sites make of a known commit's hash."""
    apart = REFERENCE.sub(rf"\g<0>{JOINER}", " ".join(text.split()))
    return SPECIAL.sub(r"\\\1", apart)

"""Gates, comparisons and reports on attacks for people, as Markdown, and for CI systems, as JUnit XML.

In JUnit a failed rule is a `failure`; an inconclusive one is an `error`, since CI jobs ignore `skipped`. If the judge
moved, that is the error and the rules are skipped, since their findings say nothing about the system.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from app.domain.attack import AttackGroup, AttackReport, Count, Mean
from app.domain.comparison import Comparison, GateReason, GateReport, Measure
from app.domain.reliability import remark
from app.domain.signature import read_signature
from app.stats.gate import describe_rule, tell_p
from app.stats.statistics import count

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

VOID = "While the judge rates differently, its ratings say nothing about the system: record the baseline again."

DASH = "–"

ATTACK_HEAD = ("| attacks | n | flagged | lift of the scale | won | fell | denied |", "|:--|--:|:--|:--|--:|--:|--:|")

LEXICAL = "lexical"
LEXICAL_NOTE = " (lexical judge: a baseline, not an LLM judge)"


def write_markdown(report: GateReport) -> str:
    """Headline, what decided, the measures as a table, coverage, and the signature folded away."""
    moved = " (judge moved)" if has_moved(report) else ""
    headline = f"### Saiten gate: {report.verdict}{moved}{LEXICAL_NOTE if uses_lexical(report) else ''}"
    parts = [headline, name_runs(report), *list_reasons(report)]
    if report.comparison is not None:
        parts += write_table(report.comparison)
        parts += [f"{escape(note)[:1].upper()}{escape(note)[1:]}." for note in report.comparison.notes]
    parts.append("\n".join(fold_signatures(report)))
    return "\n\n".join(part for part in parts if part) + "\n"


def has_moved(report: GateReport) -> bool:
    """Whether the judge moved, so that what the rules found says nothing of the system."""
    return any(reason.code == "judge-moved" for reason in report.reasons)


def uses_lexical(report: GateReport) -> bool:
    """Whether the lexical judge, which is a baseline, gave any of the ratings."""
    differing = report.comparison.signature_differences.get("judge", ()) if report.comparison is not None else ()
    judges = [read_signature(signature).get("judge", "") for signature in report.signatures]
    return any(LEXICAL in judge.split(",") for judge in (*judges, *differing))


def name_runs(report: GateReport) -> str:
    """Which run was judged, against which, and how."""
    run = f"Candidate run **{escape(report.candidate)}**"
    if report.comparison is None:
        return f"{run}, alpha {report.alpha:g}."
    pairing = report.comparison.pairing
    return f"{run} against **{escape(report.comparison.baseline)}**, alpha {report.alpha:g}; {escape(pairing.reason)}."


def list_reasons(report: GateReport) -> Iterator[str]:
    """What decided, as a list; the coverage is in it, with its denominator. What does not count is listed apart."""
    rules = [reason for reason in report.reasons if reason.about == "rule"] if has_moved(report) else []
    decisive = [reason for reason in report.reasons if reason.about != "rule"] if rules else report.reasons
    yield "\n".join(f"- **{reason.verdict}** {tell_reason(reason, report)}" for reason in decisive)
    if rules:
        yield f"{VOID} What the rules found is not decisive:"
        yield "\n".join(f"- {tell_reason(reason, report)}" for reason in rules)


def tell_reason(reason: GateReason, report: GateReport) -> str:
    """What was looked at, and what was found."""
    name: str = reason.about
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{rule.aspect} ({describe_rule(rule)})"
    return f"{escape(name)}: {escape(reason.detail + remark(report.reliability, reason.aspect))}"


def write_table(comparison: Comparison) -> list[str]:
    """A row a measure; empty without measures."""
    blended = {f"{name}.blended": measure for name, measure in comparison.blended.items()}
    rows = [*comparison.aspects.items(), *comparison.composites.items(), *blended.items()]
    if not rows:
        return []
    level = f"{100 * (1 - comparison.alpha):g}"
    head = [
        f"| measure | baseline | candidate | difference [{level} %] | p adj. | n | detectable | won / tied / lost "
        "| verdict |",
        "|:--|--:|--:|:--|--:|--:|--:|--:|:--|",
    ]
    return ["\n".join([*head, *(write_row(name, measure) for name, measure in rows)])]


def write_row(name: str, measure: Measure) -> str:
    """One measure. A figure that there is not is a dash."""
    wins = measure.wins
    cells = [
        escape(name_measure(name, measure)),
        show(measure.baseline_mean),
        show(measure.candidate_mean),
        show_difference(measure),
        DASH if measure.p_adjusted is None else tell_p(measure.p_adjusted).removeprefix("p ").removeprefix("= "),
        show_size(measure),
        show(measure.smallest_detectable),
        DASH if wins is None else f"{wins.a_wins.wins:,} / {wins.ties.wins:,} / {wins.b_wins.wins:,}",
        measure.verdict,
    ]
    return f"| {' | '.join(cells)} |"


def name_measure(name: str, measure: Measure) -> str:
    """The measure's name; where its means are not of the ratings themselves, what they are of."""
    return name if measure.best is None else f"{name} (minus distance from {measure.best:g})"


def show(figure: float | None) -> str:
    """A mean in three decimals."""
    return DASH if figure is None else f"{figure:.3f}"


def show_difference(measure: Measure) -> str:
    """The difference, with its interval where there is one."""
    if measure.difference is None:
        return DASH
    span = "" if measure.interval is None else f" [{measure.interval[0]:+.3f}, {measure.interval[1]:+.3f}]"
    return f"{measure.difference:+.3f}{span}"


def show_size(measure: Measure) -> str:
    """`60` pairs, `200 in 20` where they are of 20 dialogues; of both runs where they are not paired."""
    sizes: tuple[tuple[int, int], ...] = ((measure.n, measure.clusters),)
    if measure.test == "permutation":
        sizes = (measure.n_baseline, measure.clusters_baseline), (measure.n_candidate, measure.clusters_candidate)
    return " / ".join(f"{n:,}" if n <= clusters else f"{n:,} in {clusters:,}" for n, clusters in sizes)


def fold_signatures(report: GateReport) -> Iterator[str]:
    """How the scores were made, and where the runs differ in that."""
    differing = report.comparison.signature_differences if report.comparison is not None else {}
    lines = [*report.signatures, *(f"{piece}: {ours} -> {theirs}" for piece, (ours, theirs) in differing.items())]
    if not lines:
        return
    fence = "`" * max(3, 1 + max(len(run) for line in lines for run in re.findall("`*", line)))
    plain = (" ".join(line.split()) for line in lines)
    yield from ("<details><summary>How this was scored</summary>", "", fence, *plain, fence, "", "</details>")


def escape(text: str) -> str:
    """A text that shows as it is, on one line, also in a table cell: no markup, no mentions, no links but those that
    both sites make of a known commit's hash."""
    apart = REFERENCE.sub(rf"\g<0>{JOINER}", " ".join(text.split()))
    return SPECIAL.sub(r"\\\1", apart)


def write_attack_markdown(report: AttackReport) -> str:
    """Headline, what decided, the figures by kind and language, and what was missed."""
    rubrics = ", ".join(f"{language}: {rubric}" for language, rubric in report.rubrics.items())
    models = ", ".join(report.models) or DASH
    groups = [*report.kinds.items(), *report.languages.items(), ("all", report.all)]
    parts = [
        f"### Saiten attack: {report.verdict}",
        f"Corpus {escape(report.corpus)}, judge {escape(report.judge)} ({escape(models)}), {escape(rubrics)}, "
        f"path {report.path}.",
        "\n".join(f"- **{reason.verdict}** {reason.about}: {escape(reason.detail)}" for reason in report.reasons),
        "\n".join([*ATTACK_HEAD, *(write_attack_row(name, found) for name, found in groups)]),
        *list_notes(report),
    ]
    return "\n\n".join(parts) + "\n"


def write_attack_row(name: str, found: AttackGroup) -> str:
    """One group. A figure that there is not is a dash."""
    cells = (
        escape(name),
        str(found.items),
        show_share(found.flagged),
        show_mean(found.lift),
        show_count(found.won),
        show_count(found.fell),
        show_count(found.denied),
    )
    return f"| {' | '.join(cells)} |"


def list_notes(report: AttackReport) -> Iterator[str]:
    """Look-alikes, what `refuse` would do, what was not seen, and the cost."""
    yield (
        f"Look-alikes flagged: {show_share(report.false_flags)}. The policy `refuse` would have stopped "
        f"{show_count(report.stopped)} attacks; {report.all.won_unseen.count} that won would have passed."
    )
    yield from (
        f"{title}: {', '.join(map(escape, ids))}"
        for title, ids in (("Not flagged", report.missed), ("Won", report.won), ("Taken", report.accepted))
        if ids
    )
    cost = "unknown" if report.usage.cost_usd is None else f"USD {report.usage.cost_usd:.4f}"
    yield f"{report.usage.judge_calls} judge calls, cost {cost}."


def show_count(found: Count) -> str:
    """`3 / 12`."""
    return f"{found.count} / {found.of}" if found.of else DASH


def show_share(found: Count) -> str:
    """`40 / 60 (67 %, 54 to 77)`."""
    if found.share is None or found.interval is None:
        return DASH
    low, high = found.interval
    return f"{found.count} / {found.of} ({100 * found.share:.0f} %, {100 * low:.0f} to {100 * high:.0f})"


def show_mean(found: Mean) -> str:
    """`+12.5 % [+8.0, +17.1]`."""
    if found.mean is None:
        return DASH
    span = "" if found.interval is None else f" [{100 * found.interval[0]:+.1f}, {100 * found.interval[1]:+.1f}]"
    return f"{100 * found.mean:+.1f} %{span}"


Outcome = Literal["passed", "failure", "error", "skipped"]

OUTCOMES: Mapping[Literal["pass", "fail", "inconclusive"], Outcome] = {
    "pass": "passed",
    "fail": "failure",
    "inconclusive": "error",
}
"""The outcome of a test case by verdict; an inconclusive one must not be ignored."""

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped (section 2.2)."""


@dataclass(frozen=True)
class JUnitCase:
    """One test case. `code` says of a failure or an error which it is."""

    name: str
    outcome: Outcome
    detail: str
    code: str


def write_suite(suite: str, properties: Iterable[tuple[str, str]], cases: Sequence[JUnitCase]) -> str:
    """The cases in their order; one that passed says so in its output."""
    outcomes = Counter(case.outcome for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(outcomes["failure"])}
    counts |= {"errors": str(outcomes["error"]), "skipped": str(outcomes["skipped"])}
    root = ET.Element("testsuites", {"name": clean(suite), **counts})
    group = ET.SubElement(root, "testsuite", {"name": clean(suite), **counts})
    listed = ET.SubElement(group, "properties")
    for name, value in properties:
        ET.SubElement(listed, "property", {"name": name, "value": clean(value)})
    for case in cases:
        element = ET.SubElement(group, "testcase", {"classname": clean(suite), "name": clean(case.name), "time": "0"})
        detail = clean(case.detail)
        if case.outcome == "passed":
            ET.SubElement(element, "system-out").text = detail
        elif case.outcome == "skipped":
            ET.SubElement(element, case.outcome, {"message": detail})
        else:
            ET.SubElement(element, case.outcome, {"message": detail, "type": case.code}).text = detail
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return ILLEGAL.sub("\ufffd", text)


def write_junit(report: GateReport, *, suite: str = "saiten gate") -> str:
    """One test case a rule in the rules' order, after one for the coverage and, where it was checked, the judge."""
    reasons = sorted(report.reasons, key=lambda reason: -1 if reason.rule is None else reason.rule)
    moved = has_moved(report)
    # Within the first line of the file: CI systems show the suite's name above everything else.
    suite += LEXICAL_NOTE if uses_lexical(report) else ""
    return write_suite(suite, list_properties(report), [make_case(reason, report, moved=moved) for reason in reasons])


def list_properties(report: GateReport) -> Iterator[tuple[str, str]]:
    """What the verdict is of."""
    yield "verdict", report.verdict
    yield "candidate", report.candidate
    if report.comparison is not None:
        yield "baseline", report.comparison.baseline
        pairing = report.comparison.pairing
        yield "test", pairing.test
        yield "units", count(pairing.clusters, pairing.unit)
    yield "alpha", f"{report.alpha:g}"
    yield "coverage", f"{report.coverage.rated}/{report.coverage.expected}"
    for name, state in report.reliability.items():
        yield f"reliability.{name}", state
    for signature in report.signatures:
        yield "signature", signature


def make_case(reason: GateReason, report: GateReport, *, moved: bool) -> JUnitCase:
    """What a CI should take the reason for."""
    name: str = reason.about
    detail = reason.detail + remark(report.reliability, reason.aspect)
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{rule.aspect}: {describe_rule(rule)}"
    if moved and reason.about == "rule":
        return JUnitCase(name, "skipped", f"the judge moved: {detail}", reason.code)
    return JUnitCase(name, OUTCOMES[reason.verdict], detail, reason.code)


def write_attack_junit(report: AttackReport, *, suite: str = "saiten attack") -> str:
    """The rules in their order."""
    about = (("corpus", report.corpus), ("judge", report.judge), ("models", ", ".join(report.models)))
    cases = [
        JUnitCase(reason.about, OUTCOMES[reason.verdict], reason.detail, code=reason.about) for reason in report.reasons
    ]
    return write_suite(suite, about, cases)

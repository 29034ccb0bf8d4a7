"""The gate's report as JUnit XML, which every CI shows.

A rule that failed is a `failure`; what could not be told is an `error`, since CI jobs pass over what is `skipped`.
Where the judge moved, that is the error, and the rules are skipped: what they found says nothing of the system.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.analysis.gate_rules import describe_rule
from app.analysis.junit_suite import OUTCOMES, Case, write_suite
from app.analysis.markdown import LEXICAL_NOTE, has_moved, uses_lexical
from app.analysis.statistics import count
from app.domain.comparison import GateReason, GateReport, Pairing
from app.domain.reliability import remark


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
        yield "test", report.comparison.pairing.test
        yield "units", tell_units(report.comparison.pairing)
    yield "alpha", f"{report.alpha:g}"
    yield "coverage", f"{report.coverage.rated}/{report.coverage.expected}"
    for name, state in report.reliability.items():
        yield f"reliability.{name}", state
    for signature in report.signatures:
        yield "signature", signature


def tell_units(pairing: Pairing) -> str:
    """What varies by chance: `20 dialogues`, or `60 items` where no dialogues are known."""
    return count(pairing.clusters, pairing.unit)


def make_case(reason: GateReason, report: GateReport, *, moved: bool) -> Case:
    """What a CI should take the reason for."""
    name: str = reason.about
    detail = reason.detail + remark(report.reliability, reason.aspect)
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{rule.aspect}: {describe_rule(rule)}"
    if moved and reason.about == "rule":
        return Case(name, "skipped", f"the judge moved: {detail}", reason.code)
    return Case(name, OUTCOMES[reason.verdict], detail, reason.code)

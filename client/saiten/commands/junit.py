"""Gates as JUnit XML for the test reports of CI systems.

A failed rule is a `failure`; an inconclusive one is an `error`, since CI jobs ignore `skipped`. If the judge moved,
that is the error and the rules are skipped, since their findings say nothing about the system.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from saiten.commands.cases import ShownGateReason, ShownGateReport, list_lines
from saiten.commands.markdown import LEXICAL_NOTE, has_moved, remark, uses_lexical
from saiten.core.language import tell
from saiten.core.wording import describe_rule, name_rule

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
    more: str = ""
    """Lines below the detail of what did not hold."""


def write_suite(suite: str, properties: Iterable[tuple[str, str]], cases: Sequence[JUnitCase]) -> str:
    """The cases in their order."""
    outcomes = Counter(case.outcome for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
        "skipped": str(outcomes["skipped"]),
    }
    root = ET.Element("testsuites", {"name": clean_xml(suite), **counts})
    group = ET.SubElement(root, "testsuite", {"name": clean_xml(suite), **counts})
    listed = ET.SubElement(group, "properties")
    for name, value in properties:
        ET.SubElement(listed, "property", {"name": name, "value": clean_xml(value)})
    for case in cases:
        add_case(group, clean_xml(suite), case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def add_case(group: ET.Element, suite: str, case: JUnitCase) -> None:
    """One test case; what held says so in its output."""
    element = ET.SubElement(group, "testcase", {"classname": suite, "name": clean_xml(case.name), "time": "0"})
    detail = clean_xml(case.detail)
    if case.outcome == "passed":
        ET.SubElement(element, "system-out").text = detail
    elif case.outcome == "skipped":
        ET.SubElement(element, case.outcome, {"message": detail})
    else:
        ET.SubElement(element, case.outcome, {"message": detail, "type": case.code}).text = detail + clean_xml(
            case.more
        )


def clean_xml(text: str) -> str:
    """The text without what XML cannot hold."""
    return ILLEGAL.sub("\ufffd", text)


def write_junit(report: ShownGateReport, *, suite: str = "saiten gate") -> str:
    """One test case a rule in the rules' order, after one for the coverage and, where it was checked, the judge."""
    reasons = sorted(report.reasons, key=lambda reason: -1 if reason.rule is None else reason.rule)
    moved = has_moved(report)
    # Within the first line of the file: CI systems show the suite's name above everything else.
    suite += tell(LEXICAL_NOTE) if uses_lexical(report) else ""
    properties = [*list_properties(report), *([("explorer", report.address)] if report.address else [])]
    return write_suite(suite, properties, [make_case(reason, report, moved=moved) for reason in reasons])


def list_properties(report: ShownGateReport) -> Iterator[tuple[str, str]]:
    """What the verdict is of."""
    yield "verdict", report.verdict
    yield "candidate", report.call(report.candidate)
    if report.comparison is not None:
        yield "baseline", report.call(report.comparison.baseline)
        pairing = report.comparison.pairing
        yield "test", pairing.test
        yield "units", f"{pairing.clusters:,} {pairing.unit}{'' if pairing.clusters == 1 else 's'}"
    if report.estimate != "judge":
        yield "estimate", report.estimate
    if report.comparison is not None and report.comparison.link is not None:
        yield "link", f"{report.comparison.link.id} ({', '.join(report.comparison.link.runs)})"
    if report.sequence is not None:
        yield "sequence", f"{report.sequence.name}, build {report.sequence.night}"
    yield "alpha", f"{report.alpha:g}"
    yield "coverage", f"{report.coverage.rated}/{report.coverage.expected}"
    for name, state in report.reliability.items():
        yield f"reliability.{name}", state
    for signature in report.signatures:
        yield "signature", signature


def make_case(reason: ShownGateReason, report: ShownGateReport, *, moved: bool) -> JUnitCase:
    """What a CI should take the reason for."""
    name: str = f"assertion: {reason.assertion}" if reason.assertion is not None else reason.about
    detail = reason.detail + remark(report.reliability, reason.aspect)
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{name_rule(rule)}: {describe_rule(rule)}"
    if moved and reason.about == "rule":
        return JUnitCase(name, "skipped", f"{tell('the judge moved')}: {detail}", reason.code)
    shown = [case for case in report.cases if reason.rule is not None and case.aspect == name_rule(reason)]
    more = "".join(f"\n{line}" for case in shown for line in (f"\n{case.item}", *list_lines(case)))
    return JUnitCase(name, OUTCOMES[reason.verdict], detail, reason.code, more)

"""The gate's report as JUnit XML, which every CI shows.

A rule that failed is a `failure`; what could not be told is an `error`, since CI jobs pass over what is `skipped`.
Where the judge moved, that is the error, and the rules are skipped: what they found says nothing of the system.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal
from xml.etree import ElementTree as ET

from app.analysis.gate_rules import describe_rule
from app.analysis.markdown import has_moved
from app.domain.comparison import GateReason, GateReport, GateVerdict

Outcome = Literal["passed", "failure", "error", "skipped"]

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped (section 2.2)."""


def write_junit(report: GateReport, *, suite: str = "saiten gate") -> str:
    """One test case a rule in the rules' order, after one for the coverage and, where it was checked, the judge."""
    reasons = sorted(report.reasons, key=lambda reason: -1 if reason.rule is None else reason.rule)
    moved = has_moved(report)
    outcomes = Counter(find_outcome(reason, moved=moved) for reason in reasons)
    counts = {
        "tests": str(len(reasons)),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
        "skipped": str(outcomes["skipped"]),
    }
    root = ET.Element("testsuites", {"name": clean(suite), **counts})
    group = ET.SubElement(root, "testsuite", {"name": clean(suite), **counts})
    properties = ET.SubElement(group, "properties")
    for name, value in list_properties(report):
        ET.SubElement(properties, "property", {"name": name, "value": clean(value)})
    for reason in reasons:
        add_case(group, reason, report, suite, find_outcome(reason, moved=moved))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def list_properties(report: GateReport) -> Iterator[tuple[str, str]]:
    """What the verdict is of."""
    yield "verdict", report.verdict
    yield "candidate", report.candidate
    if report.comparison is not None:
        yield "baseline", report.comparison.baseline
        yield "test", report.comparison.pairing.test
    yield "alpha", f"{report.alpha:g}"
    yield "coverage", f"{report.coverage.rated}/{report.coverage.expected}"
    for signature in report.signatures:
        yield "signature", signature


def find_outcome(reason: GateReason, *, moved: bool) -> Outcome:
    """What a CI should take this for."""
    if moved and reason.about == "rule":
        return "skipped"
    outcomes: dict[GateVerdict, Outcome] = {"pass": "passed", "fail": "failure", "inconclusive": "error"}
    return outcomes[reason.verdict]


def add_case(group: ET.Element, reason: GateReason, report: GateReport, suite: str, outcome: Outcome) -> None:
    """One test case; what held says so in its output."""
    name: str = reason.about
    if reason.rule is not None:
        rule = report.rules[reason.rule]
        name = f"{rule.aspect}: {describe_rule(rule)}"
    case = ET.SubElement(group, "testcase", {"classname": clean(suite), "name": clean(name), "time": "0"})
    detail = clean(reason.detail)
    if outcome == "passed":
        ET.SubElement(case, "system-out").text = detail
    elif outcome == "skipped":
        ET.SubElement(case, outcome, {"message": f"the judge moved: {detail}"})
    else:
        ET.SubElement(case, outcome, {"message": detail, "type": reason.code}).text = detail


def clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return ILLEGAL.sub("\ufffd", text)

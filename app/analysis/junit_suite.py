"""JUnit XML as CI systems read it: one suite with its properties and cases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

Outcome = Literal["passed", "failure", "error", "skipped"]

OUTCOMES: Mapping[Literal["pass", "fail", "inconclusive"], Outcome] = {
    "pass": "passed",
    "fail": "failure",
    "inconclusive": "error",
}
"""What a CI should take a verdict for: what could not be told must not be passed over."""

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped (section 2.2)."""


@dataclass(frozen=True)
class Case:
    """One test case. `code` says of a failure or an error which it is."""

    name: str
    outcome: Outcome
    detail: str
    code: str


def write_suite(suite: str, properties: Iterable[tuple[str, str]], cases: Sequence[Case]) -> str:
    """The cases in their order."""
    outcomes = Counter(case.outcome for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
        "skipped": str(outcomes["skipped"]),
    }
    root = ET.Element("testsuites", {"name": clean(suite), **counts})
    group = ET.SubElement(root, "testsuite", {"name": clean(suite), **counts})
    told = ET.SubElement(group, "properties")
    for name, value in properties:
        ET.SubElement(told, "property", {"name": name, "value": clean(value)})
    for case in cases:
        add_case(group, clean(suite), case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def add_case(group: ET.Element, suite: str, case: Case) -> None:
    """One test case; what held says so in its output."""
    element = ET.SubElement(group, "testcase", {"classname": suite, "name": clean(case.name), "time": "0"})
    detail = clean(case.detail)
    if case.outcome == "passed":
        ET.SubElement(element, "system-out").text = detail
    elif case.outcome == "skipped":
        ET.SubElement(element, case.outcome, {"message": detail})
    else:
        ET.SubElement(element, case.outcome, {"message": detail, "type": case.code}).text = detail


def clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return ILLEGAL.sub("\ufffd", text)

"""A run of attacks as JUnit XML: one test case a rule. What could not be decided is an `error`."""

from __future__ import annotations

from app.analysis.junit_suite import OUTCOMES, Case, write_suite
from app.domain.attack_report import AttackReport


def write_attack_junit(report: AttackReport, *, suite: str = "saiten attack") -> str:
    """The rules in their order."""
    about = (("corpus", report.corpus), ("judge", report.judge), ("models", ", ".join(report.models)))
    cases = [
        Case(reason.about, OUTCOMES[reason.verdict], reason.detail, code=reason.about) for reason in report.reasons
    ]
    return write_suite(suite, about, cases)

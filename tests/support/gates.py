"""Reports of the gate as small as they can be."""

from typing import Any

from rich.console import Console

from saiten.commands import cases, gating, junit, markdown
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import GateReport, GateRule
from tests.support.runs import Column, make_run

BEFORE = [5.0] * 12
FAILED: Column = [4.0] * 10 + [5.0] * 2
INCONCLUSIVE: Column = [*[3.0, 5.0] * 5, 5.0, None]
RULES = (GateRule(aspect="warmth", max_drop=0), GateRule(aspect="clarity", max_drop=0, min_mean=2))


def make_report(warmth: Column, *, baseline: str = "main", candidate: str = "pr-17", **settings: Any) -> GateReport:
    """Twelve items whose warmth was 5 throughout and now is this, while clarity stayed at 3."""
    clarity = [3.0] * 12
    return judge_gate(
        make_run(candidate, {"warmth": warmth, "clarity": clarity}),
        make_run(baseline, {"warmth": BEFORE, "clarity": clarity}),
        RULES,
        **settings,
    )


def answer(report: GateReport) -> cases.ShownGateReport:
    """The report as a caller reads it."""
    return cases.ShownGateReport.model_validate(report.model_dump())


def write_markdown(report: GateReport) -> str:
    return markdown.write_markdown(answer(report))


def write_junit(report: GateReport, **settings: Any) -> str:
    return junit.write_junit(answer(report), **settings)


def print_gate(report: GateReport, *, on: Console) -> None:
    gating.print_gate(answer(report), on=on)

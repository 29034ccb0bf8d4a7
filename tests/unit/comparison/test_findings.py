"""Rates of findings in comparisons and gates: synthetic runs of conversations."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from app.comparison.runs import FEWEST, rate_findings, scales_of
from app.domain.comparison import ComparedRun, GateReport, GateRule, GateVerdict
from app.domain.conversation import FaultyTurns
from app.domain.errors import InvalidRequest, UnknownAspect
from app.domain.summary import RunItem
from app.stats.gate import judge_gate
from app.storage.rubric_files import open_rubrics
from app.web.languages import tell_report
from tests.support.gates import print_gate, write_junit, write_markdown

RUBRIC = open_rubrics(None).get("ja-conversation")
INAPPLICABLE = frozenset({"persona", "goal"})


def make_run(name: str, faulty: list[int], *, judged: bool = True) -> ComparedRun:
    """Conversations of ten system turns; `faulty` counts the register shifts of each, all of which the judge saw too."""
    items = []
    for number, count in enumerate(faulty):
        turns = tuple(range(count))
        found = {"register-shift": turns, **({"judge": turns} if judged else {})}
        ratings = {aspect.id: float(aspect.scale[1]) for aspect in RUBRIC.aspects if aspect.id not in INAPPLICABLE}
        items.append(
            RunItem(
                item=f"talk-{number}",
                candidate=None,
                system=None,
                context=None,
                ratings=ratings,
                cluster=f"{number:016x}",
                findings=rate_findings(FaultyTurns(10, found)),
                inapplicable=INAPPLICABLE,
            )
        )
    aspects = tuple(aspect.id for aspect in RUBRIC.aspects)
    return ComparedRun(name, items, len(items), {}, scales_of(RUBRIC), aspects, best={**RUBRIC.best, **FEWEST})


BEFORE = [0, 1, 0, 0, 1, 0, 2, 0, 1, 0] * 12
RULE = GateRule(finding="register-shift", max_rise=5)


def gate(after: list[int], rule: GateRule = RULE) -> GateReport:
    return judge_gate(make_run("after", after), make_run("before", BEFORE), [rule])


@pytest.mark.parametrize(
    ("after", "verdict", "code"),
    [
        ([count + 1 for count in BEFORE], "fail", "rise"),
        ([max(0, count - 1) for count in BEFORE], "pass", "held"),
        (BEFORE, "pass", "held"),
        ([2, *BEFORE[1:]], "pass", "held"),
        ([3, 1, 0, 2], "inconclusive", "coverage"),
    ],
)
def test_a_rise_fails_only_beyond_chance_and_tolerance(after: list[int], verdict: GateVerdict, code: str) -> None:
    report = gate(after)
    assert (report.verdict, report.reasons[0].code if verdict != "pass" else "held") == (verdict, code)
    (reason,) = (one for one in report.reasons if one.about == "rule")
    assert (reason.aspect, reason.finding) == (None, "register-shift")
    assert "drop" not in reason.detail
    for language in ("ja", "ko"):
        told = tell_report({"detail": reason.detail}, language)["detail"]
        assert not any(word in told for word in ("rise", "rose", "rate")), told


def test_the_comparison_has_rates_whose_rise_is_worse() -> None:
    comparison = gate([count + 1 for count in BEFORE]).comparison
    assert comparison is not None
    measure = comparison.findings["register-shift"]
    assert measure.baseline_mean == pytest.approx(5.0)
    assert measure.difference == pytest.approx(10.0)
    assert (measure.verdict, measure.best) == ("worse", None)
    shift = gate([count + (number % 3) for number, count in enumerate(BEFORE)]).comparison
    assert shift is not None
    interval = shift.findings["judge"].interval
    assert interval is not None
    assert 0 < interval[0] < 10 < interval[1]


def test_aspects_that_apply_to_no_conversation_are_neither_ruled_nor_missed() -> None:
    report = judge_gate(make_run("after", BEFORE), make_run("before", BEFORE))
    assert (report.verdict, report.coverage.share) == ("pass", 1.0)
    assert not INAPPLICABLE & {rule.aspect for rule in report.rules}


def test_what_is_not_known_is_not_zero() -> None:
    unjudged = replace(make_run("after", BEFORE, judged=False))
    report = judge_gate(unjudged, make_run("before", BEFORE), [GateRule(finding="judge", max_rise=1)])
    assert report.verdict == "inconclusive"
    assert report.coverage.rated == 0


def test_rules_that_cannot_be_judged_are_refused() -> None:
    for written in (
        {"finding": "judge"},
        {"finding": "judge", "max_rise": 1, "aspect": "overall"},
        {"aspect": "overall", "max_rise": 1},
        {"max_rise": 1},
        {"max_drop": 1},
    ):
        with pytest.raises(ValueError, match=r"max_rise|finding"):
            GateRule.model_validate(written)
    with pytest.raises(UnknownAspect, match="finding:nothing"):
        gate(BEFORE, GateRule(finding="nothing", max_rise=1))
    with pytest.raises(InvalidRequest, match="baseline"):
        judge_gate(make_run("after", BEFORE), None, [RULE])
    with pytest.raises(InvalidRequest, match="people"):
        judge_gate(make_run("after", BEFORE), make_run("before", BEFORE), [RULE], estimate="corrected")


def test_markdown_and_junit_tell_of_findings() -> None:
    report = gate([count + (number % 3) for number, count in enumerate(BEFORE)])
    written = write_markdown(report).replace("\u2060", "")
    assert "**fail** finding\\:register-shift (max\\_rise 5): rose by 10.000 (from 5.000 to 15.000;" in written
    assert "| finding\\:register-shift | 5.000 | 15.000 | +10.000 [" in written
    assert 'name="finding:register-shift: max_rise 5"' in write_junit(report)


@pytest.mark.parametrize("width", [80, 100])
def test_the_gates_table_has_the_findings_that_either_run_has(width: int) -> None:
    report = gate([count + (number % 3) for number, count in enumerate(BEFORE)])
    out = io.StringIO()
    print_gate(report, on=Console(file=out, width=width))
    shown = out.getvalue()
    assert "\n register-shift " in shown
    assert "\n repetition " not in shown
    assert "\nper 100 system turns: any, judge, register-shift\n" in shown

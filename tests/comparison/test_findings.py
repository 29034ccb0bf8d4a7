"""Rates of findings in comparisons and gates: synthetic runs of conversations."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from saiten.commands.gate_settings import read_rules
from saiten_server.comparison.corrected_runs import compare_corrected
from saiten_server.comparison.differences import compare
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.ranking import rank_runs
from saiten_server.comparison.runs import BEST_FINDING_RATES, rate_findings, scales_of
from saiten_server.comparison.values import ComparedRun, GateReport, GateRule, GateVerdict
from saiten_server.core.conversation import FAULT_KINDS, KINDS_KNOWN, FaultyTurns
from saiten_server.core.errors import InvalidRequest, UnknownAspect
from saiten_server.core.sentences import tell_sentence
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.gates import print_gate, write_junit, write_markdown
from tests.support.runs import Row, make_frame, rows_of, with_rows

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
            Row(
                item=f"talk-{number}",
                ratings=ratings,
                cluster=f"{number:016x}",
                findings=rate_findings(FaultyTurns(10, found)),
                inapplicable=INAPPLICABLE,
            )
        )
    aspects = tuple(aspect.id for aspect in RUBRIC.aspects)
    return ComparedRun(
        name,
        make_frame(items, aspects),
        len(items),
        {},
        scales_of(RUBRIC),
        aspects,
        best={**RUBRIC.best, **BEST_FINDING_RATES},
    )


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
    assert "drop" not in str(reason.detail)
    for language in ("ja", "ko"):
        told = tell_sentence(reason.detail, language)
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
        {"measure": "faulty_turns"},
        {"measure": "faulty_turns", "finding": "judge", "max_rise": 1},
        {"measure": "faulty_turns", "aspect": "overall", "max_rise": 1},
        {"measure": "other", "max_rise": 1},
    ):
        with pytest.raises(ValueError, match=r"max_rise|finding|faulty_turns"):
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
    assert "\nper 100 system turns: faulty_turns, judge, register-shift\n" in shown


def make_kinds_run(name: str, faulty: list[int], *, kinds: bool = True) -> ComparedRun:
    """Conversations of ten system turns, with so many repetitions and one wrong information in every second one."""
    run = make_run(name, faulty)
    items = []
    for number, (item, count) in enumerate(zip(rows_of(run), faulty, strict=True)):
        found = {"judge": sorted({*range(count), *([9] if number % 2 else [])})}
        if kinds:
            wrong = {"kind:wrong-information": [9]} if number % 2 else {}
            found |= {KINDS_KNOWN: [], "kind:repetition": list(range(count)), **wrong}
        items.append(replace(item, findings=rate_findings(FaultyTurns(10, found))))
    return with_rows(run, items)


WORSE = [count + 2 + number % 3 for number, count in enumerate(BEFORE)]


def gate_kinds(*rules: dict[str, object]) -> GateReport:
    asked = [GateRule.model_validate(rule) for rule in rules]
    return judge_gate(make_kinds_run("after", WORSE), make_kinds_run("before", BEFORE), asked)


def test_kinds_are_compared_among_themselves() -> None:
    comparison = compare(make_kinds_run("before", BEFORE), make_kinds_run("after", WORSE))
    assert set(comparison.kinds) == {*FAULT_KINDS}
    repetition, wrong = comparison.kinds["repetition"], comparison.kinds["wrong-information"]
    assert (repetition.kind, repetition.verdict, wrong.verdict) == ("kind", "worse", "inconclusive")
    assert repetition.difference == pytest.approx(30.0)
    assert wrong.baseline_mean == pytest.approx(5.0)
    assert wrong.difference == 0.0
    # What stands still takes nothing of the family's alpha, and findings are another family.
    assert repetition.p_adjusted == repetition.p
    assert not any(code.startswith("kind:") for code in comparison.findings)
    assert comparison.faulty_turns == comparison.findings["any"]


def test_without_kinds_there_are_none_to_compare() -> None:
    runs = [make_kinds_run(name, BEFORE, kinds=False) for name in ("before", "after")]
    assert compare(*runs).kinds == {}
    known = make_kinds_run("after", BEFORE)
    report = judge_gate(known, runs[0], [GateRule(finding="kind:repetition", max_rise=1)])
    assert report.verdict == "inconclusive"
    version_1 = open_rubrics(None).get("ja-conversation@1")
    assert not any("kind:" in name for name in scales_of(version_1))


@pytest.mark.parametrize(
    ("rule", "name", "rise"),
    [
        ({"measure": "faulty_turns", "max_rise": 2}, "faulty_turns", 29.33),
        ({"finding": "kind:repetition", "max_rise": 2}, "finding:kind:repetition", 30.0),
    ],
)
def test_a_gate_fails_by_faulty_turns_or_a_kind(rule: dict[str, object], name: str, rise: float) -> None:
    report = gate_kinds(rule)
    assert (report.verdict, report.reasons[0].code) == ("fail", "rise")
    assert (report.reasons[0].measure, report.reasons[0].finding) == (rule.get("measure"), rule.get("finding"))
    assert report.rules[0].model_dump(exclude_defaults=True) == rule
    comparison = report.comparison
    assert comparison is not None
    assert comparison.faulty_turns == comparison.findings["any"]
    measure = comparison.faulty_turns if name == "faulty_turns" else comparison.kinds["repetition"]
    assert measure is not None
    assert measure.difference == pytest.approx(rise, abs=0.7)
    assert f'name="{name}: max_rise 2"' in write_junit(report)
    written = write_markdown(report).replace("\u2060", "").replace("\\", "")
    assert f"**fail** {name} (max_rise 2): rose by" in written
    assert f"| {name} |" in written
    out = io.StringIO()
    print_gate(report, on=Console(file=out, width=120))
    assert f"✗ {name}: rose by" in out.getvalue()
    assert "per 100 system turns: faulty_turns, judge, kind:wrong-information, kind:repetition" in out.getvalue()
    for language in ("ja", "ko"):
        told = tell_sentence(report.reasons[0].detail, language)
        assert not any(word in told for word in ("rise", "rose", "rate")), told


def mark_turns(run: ComparedRun, extra: int, apart: int = 0) -> ComparedRun:
    """The run in which two people mark the turns of half of the conversations: of each `extra` more than found, by
    turns `apart` more and fewer, and ben one more than anna."""
    items = rows_of(run)
    for at, item in enumerate(items[:60]):
        known = (item.findings["finding:any"] or 0.0) + 10 * (extra + (apart if at % 2 else -apart))
        said = {"anna": known, "ben": known + 10}
        people = {"finding:any": sum(said.values()) / 2}
        items[at] = replace(item, people=people, said={"finding:any": said})
    return with_rows(run, items)


@pytest.mark.parametrize(
    ("extra", "verdict", "said"),
    [(0, "pass", "changed by"), (3, "fail", "rose by"), (-1, "pass", "fell by")],
)
def test_people_who_mark_turns_decide_about_faulty_turns(extra: int, verdict: GateVerdict, said: str) -> None:
    before, after = mark_turns(make_run("before", BEFORE), 2), mark_turns(make_run("after", BEFORE), 2 + extra, 1)
    rule = GateRule(measure="faulty_turns", max_rise=2)
    assert judge_gate(after, before, [rule]).verdict == "pass"
    report = judge_gate(after, before, [rule], estimate="corrected")
    (reason,) = (one for one in report.reasons if one.about == "rule")
    assert (report.verdict, reason.measure) == (verdict, "faulty_turns")
    assert said in str(reason.detail)
    assert "drop" not in str(reason.detail)
    measure = report.corrected["faulty_turns"]
    assert measure.baseline is not None
    # 5 per 100 by the judge; people mark two turns in ten more, and one of them another.
    assert measure.baseline.mean == pytest.approx(30.0)
    assert measure.baseline.interval is not None
    assert 0.0 < measure.baseline.interval[0] < 30.0 < measure.baseline.interval[1] < 100.0
    assert measure.difference == pytest.approx(10.0 * extra)
    compared = compare_corrected(before, after, alpha=0.05, paired=True)
    assert compared["faulty_turns"].difference == measure.difference
    assert {name for name in compared if name.startswith("finding")} == set()
    places = [place.places for place in rank_runs([before, after]).corrected["faulty_turns"]]
    assert places == {0: [(1, 2), (1, 2)], 3: [(1, 1), (2, 2)], -1: [(2, 2), (1, 1)]}[extra]
    for language in ("ja", "ko"):
        told = tell_sentence(reason.detail, language)
        assert not any(word in told for word in ("rise", "rose", "people")), told


def test_faulty_turns_and_findings_of_any_code_are_one_measure() -> None:
    with pytest.raises(InvalidRequest, match="has a rule already") as refused:
        gate_kinds({"finding": "any", "max_rise": 1}, {"measure": "faulty_turns", "max_rise": 1})
    assert refused.value.pointer == "/rules/1/measure"


def test_the_command_takes_faulty_turns_and_kinds() -> None:
    rules = read_rules((), (), ("faulty_turns=2", "kind:repetition=1"))
    assert rules == [
        {"measure": "faulty_turns", "max_rise": 2.0},
        {"finding": "kind:repetition", "max_rise": 1.0},
    ]

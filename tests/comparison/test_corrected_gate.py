"""Comparisons and gates on people's scale."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from saiten.core.messages import Message
from saiten_server.comparison.corrected_runs import compare_corrected, tell_notes
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateReason, GateReport, GateRule
from saiten_server.core.sentences import tell_sentence
from saiten_server.stats.corrected import CorrectedSample, CorrectionOptions, correct, differ_corrected, tell_reversed
from tests.support.gates import write_junit, write_markdown
from tests.support.runs import make_run, rows_of, with_rows

ITEMS, RATED = 300, 80


def draw_run(name: str, *, judged: float, people: float, rated: int = RATED, seed: int = 1) -> ComparedRun:
    """A run of which the judge says `judged` more than of the first, and people `people` more."""
    base = np.random.default_rng(5).standard_normal(ITEMS)
    own = np.random.default_rng(seed).standard_normal((2, ITEMS))
    values = 0.6 * base + 0.8 * own[0]
    ratings = np.clip(np.round(3 + people + values), 1, 5)
    scores = np.clip(np.round(3.3 + judged + 0.8 * values + 0.5 * own[1]), 1, 5)
    run = make_run(name, {"overall": scores.tolist()})
    items = [
        replace(item, people={"overall": float(ratings[row])}) if row < rated else item
        for row, item in enumerate(rows_of(run))
    ]
    return with_rows(run, items)


def gate(before: ComparedRun, after: ComparedRun, rule: GateRule, **more: Any) -> tuple[GateReport, GateReason]:
    report = judge_gate(after, before, [rule], **{"estimate": "corrected", **more})
    (reason,) = (one for one in report.reasons if one.about == "rule")
    return report, reason


DROP = GateRule(aspect="overall", max_drop=0.0)
LENIENT = GateRule(aspect="overall", max_drop=0.1, must_detect=0.9)


def test_people_decide_where_the_judge_sees_a_drop_that_people_do_not() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=-0.5, people=0.0, seed=2)
    assert judge_gate(after, before, [DROP]).verdict == "fail"
    report, reason = gate(before, after, LENIENT)
    assert (report.verdict, report.estimate, reason.code) == ("pass", "corrected", "held")
    assert "corrected by 80 and 80 ratings by people (by the judge alone -0.560)" in str(reason.detail)
    assert report.comparison is not None
    assert report.comparison.aspects["overall"].verdict == "worse"
    assert report.corrected["overall"].verdict == "inconclusive"


def test_people_see_a_drop_that_the_judge_does_not() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=-0.9, seed=2)
    assert judge_gate(after, before, [LENIENT]).verdict == "pass"
    report, reason = gate(before, after, LENIENT)
    assert (report.verdict, reason.code) == ("fail", "drop")
    assert report.corrected["overall"].verdict == "worse"


def test_a_tolerated_drop_does_not_pass_where_the_interval_goes_far_beyond() -> None:
    """It fell by 0.46, and by up to 0.66: 0.6 is tolerated, and 0.05 more must be seen."""
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=-0.5, people=-0.5, seed=2)
    assert gate(before, after, GateRule(aspect="overall", max_drop=0.6, must_detect=0.1))[0].verdict == "pass"
    report, reason = gate(before, after, GateRule(aspect="overall", max_drop=0.6, must_detect=0.05))
    assert (report.verdict, reason.code) == ("inconclusive", "not-enough-data")
    assert "goes beyond the 0.6 tolerated by more than the 0.05 that must be seen" in str(reason.detail)


def test_a_drop_that_need_not_be_seen_is_inconclusive_with_the_ratings_that_would_do() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=0, seed=2)
    report, reason = gate(before, after, GateRule(aspect="overall", max_drop=0.0, must_detect=0.2))
    assert (report.verdict, reason.code) == ("inconclusive", "not-enough-data")
    assert "0.2 must be: some " in str(reason.detail)


@pytest.mark.parametrize(("rated", "why"), [(0, Message("no-ratings")), (9, "some 15 ratings are needed")])
def test_a_refused_figure_is_inconclusive_with_the_reason(rated: int, why: str) -> None:
    before = draw_run("main", judged=0, people=0)
    after = draw_run("pr", judged=-1, people=-1, rated=rated, seed=2)
    report, reason = gate(before, after, DROP)
    assert (report.verdict, reason.code) == ("inconclusive", "not-enough-data")
    assert f"candidate run: {why}" in str(reason.detail) or why in str(reason.detail)
    assert report.corrected["overall"].ratings_needed == 15


@pytest.mark.parametrize(
    ("least", "verdict", "code"), [(2.0, "pass", "held"), (4.0, "fail", "below-minimum"), (2.9, "inconclusive", "")]
)
def test_a_minimum_is_of_the_corrected_mean(least: float, verdict: str, code: str) -> None:
    run = draw_run("pr", judged=0.5, people=0)
    rule = GateRule(aspect="overall", min_mean=least, must_detect=0.05)
    report = judge_gate(run, None, [rule], estimate="corrected")
    assert report.verdict == verdict
    assert code in {"", report.reasons[0].code}
    assert "by the judge alone 3.673" in str(next(one.detail for one in report.reasons if one.rule == 0))


def test_too_little_coverage_overrides_people() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=-0.9, seed=2)
    report, _ = gate(before, replace(after, expected=400), DROP)
    assert report.verdict == "inconclusive"


def test_the_same_figures_as_from_the_samples_themselves() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0.2, people=0.1, seed=2)
    found = compare_corrected(before, after, alpha=0.05, paired=True)["overall"]

    def sample(run: ComparedRun) -> CorrectedSample:
        scores = [float(item.ratings["overall"] or 0) for item in rows_of(run)]
        ratings = [item.people.get("overall", np.nan) for item in rows_of(run)]
        return CorrectedSample(np.array(scores), np.array(ratings), np.arange(ITEMS))

    options = CorrectionOptions(bounds=(1, 5))
    expected = differ_corrected(sample(before), sample(after), options)
    assert (found.difference, found.standard_error, found.p) == (expected.difference, expected.error, expected.p)
    mean = correct(sample(after), options).corrected
    assert found.candidate is not None
    assert mean is not None
    assert found.candidate.mean == mean.clustered.mean


def test_pairs_are_of_items_that_both_runs_hold() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=0, seed=2)
    fewer = with_rows(after, rows_of(after)[20:])
    found = compare_corrected(before, fewer, alpha=0.05, paired=True)["overall"]
    assert (found.rated_baseline, found.rated_candidate) == (60, 60)
    apart = compare_corrected(before, fewer, alpha=0.05, paired=False)["overall"]
    assert (apart.rated_baseline, apart.rated_candidate) == (80, 60)


def test_an_aspect_that_is_best_inside_counts_by_its_distance() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=1.2, seed=2)
    best = {"overall": 3.0}
    found = compare_corrected(replace(before, best=best), replace(after, best=best), alpha=0.05, paired=True)["overall"]
    assert found.difference is not None
    assert found.difference < -0.2


def test_a_reversed_scale_is_told() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=0, people=0, seed=2)
    turned = with_rows(
        after, [replace(one, ratings={"overall": 6 - (one.ratings["overall"] or 0.0)}) for one in rows_of(after)]
    )
    told = "the judge's scores fall where people's ratings rise (r = -0.77 over 80 ratings)"
    _, reason = gate(before, turned, LENIENT)
    assert f"; candidate run: {told}" in str(reason.detail)
    (note,) = compare_corrected(before, turned, alpha=0.05, paired=True)["overall"].notes
    assert str(note).startswith(f"candidate run: {told}")
    assert "逆に" in tell_sentence(reason.detail, "ja")
    assert "뒤집혀" in tell_sentence(tell_notes(compare_corrected(before, turned, alpha=0.05, paired=True))[0], "ko")
    # A judge that goes with people, or without them, is not told so.
    _, reason = gate(before, after, LENIENT)
    assert "reversed" not in str(reason.detail)
    draw = np.random.default_rng(3)
    samples = [CorrectedSample(draw.standard_normal(40), draw.standard_normal(40), np.arange(40)) for _ in range(300)]
    assert sum(tell_reversed(sample) is not None for sample in samples) <= 6


@pytest.mark.parametrize("before", [[4.0] * 4, [3.1, 3.1, 3.2, 3.0]])
def test_a_change_that_is_told_can_be_seen(before: list[float]) -> None:
    old = make_run("old", {"overall": before * 10})
    new = make_run("new", {"overall": [value - 0.0004 for value in before * 10]})
    report = judge_gate(new, old, [GateRule(aspect="overall", max_drop=0.0)])
    (reason,) = (one for one in report.reasons if one.about == "rule")
    mean = np.mean(before)
    assert str(reason.detail).startswith(f"fell by 0.0004 (from {mean:.4f} to {mean - 0.0004:.4f}")


def test_reports_say_which_estimate_decided_and_show_both() -> None:
    before, after = draw_run("main", judged=0, people=0), draw_run("pr", judged=-0.5, people=0, seed=2)
    report, _ = gate(before, after, LENIENT)
    text = write_markdown(report)
    assert "Decided by corrected figures" in text
    assert text.index("| overall |") < text.index("By the judge alone:") < text.rindex("| overall |")
    properties = {one.get("name"): one.get("value") for one in ET.fromstring(write_junit(report)).iter("property")}
    assert properties["estimate"] == "corrected"
    assert "Decided by" not in write_markdown(judge_gate(after, before, [LENIENT]))

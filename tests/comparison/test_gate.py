"""The verdict of the gate, rule by rule."""

import dataclasses
import json
import random
from typing import Any

import pytest

from saiten.core.messages import Message
from saiten_server.comparison.differences import compare
from saiten_server.comparison.gate import judge_again, judge_gate
from saiten_server.comparison.gate_plan import plan_rules
from saiten_server.comparison.values import ComparedRun, GateReport, GateRule
from saiten_server.core.errors import InvalidRequest, SignatureMismatch, UnknownAspect
from tests.support.judge_checks import make_check
from tests.support.runs import make_run, rows_of, with_rows

choose = random.Random(7)
BEFORE = [choose.randint(2, 5) for _ in range(80)]
LOWER = [rating - (number % 2) for number, rating in enumerate(BEFORE)]
HIGHER = [rating + (number % 2) for number, rating in enumerate(BEFORE)]
SHUFFLED = [rating + (number % 7 == 0) - (number % 7 == 1) for number, rating in enumerate(BEFORE)]


def judge(before: Any, after: Any, *rules: dict[str, Any], **settings: Any) -> GateReport:
    """The gate on one aspect, `warmth`, on a scale of 1–5."""
    asked = [GateRule(**{"aspect": "warmth", **rule}) for rule in rules]
    baseline = None if before is None else make_run("old", {"warmth": before})
    return judge_gate(make_run("new", {"warmth": after}), baseline, asked, **settings)


def codes(report: GateReport) -> list[tuple[str, str]]:
    return [(reason.about, reason.code) for reason in report.reasons]


def reason_of(report: GateReport) -> Any:
    (found,) = [reason for reason in report.reasons if reason.rule == 0]
    return found


# Drops


def test_a_real_drop_fails_with_its_figures():
    report = judge(BEFORE, LOWER)
    assert report.verdict == "fail"
    assert codes(report) == [("rule", "drop"), ("coverage", "held")]
    assert report.rules == (GateRule(aspect="warmth", max_drop=0.0),)
    detail = report.reasons[0].detail
    assert str(detail).startswith("fell by 0.500 (from ")
    assert "p < 0.0001 after Holm over 1; 80 pairs): beyond chance, and as observed more than the 0 tolerated" in str(
        detail
    )


def test_a_real_drop_within_tolerance_holds_and_says_so():
    report = judge(BEFORE, LOWER, {"max_drop": 0.5})
    assert report.verdict == "pass"
    assert "beyond chance, but as observed no more than the 0.5 tolerated" in str(reason_of(report).detail)


def test_a_rise_holds_however_few_the_items():
    report = judge(BEFORE, HIGHER, {"max_drop": 0, "must_detect": 0.001})
    assert report.verdict == "pass"
    assert str(reason_of(report).detail).endswith(": better; a drop of 0.098 would be seen with 80% power")


@pytest.mark.parametrize(("count", "verdict"), [(1, "inconclusive"), (10, "inconclusive"), (11, "pass"), (80, "pass")])
def test_runs_without_any_difference_hold_where_the_drop_that_may_not_have_shown_is_allowed(count, verdict):
    # 4 · (1 − 0.05^(1/11)) = 0.954; of ten pairs 1.035, and 1 must be seen.
    report = judge(BEFORE[:count], BEFORE[:count])
    assert report.verdict == verdict
    detail = reason_of(report).detail
    assert str(detail).startswith(f"no value differs between the runs ({count} pair{'s' * (count > 1)})")
    assert ("about 11 items" in str(detail)) == (verdict != "pass")
    assert judge([4] * count, [4] * count, test="unpaired").verdict == verdict


def test_a_standstill_says_what_drop_it_allows():
    assert str(reason_of(judge(BEFORE[:11], BEFORE[:11])).detail).endswith("; a drop of up to 0.954 may not have shown")
    report = judge(BEFORE, BEFORE, {"max_drop": 0, "must_detect": 0.1})
    # 1 − 0.05^(1/80) = 0.0368; of 119 it is 0.02486, of 118 0.02507, and 0.1 / 4 is allowed.
    assert str(reason_of(report).detail).endswith(
        "; a drop of up to 0.147 may not have shown, and 0.1 must: about 119 items would do if no more differ"
    )
    assert judge(BEFORE, BEFORE, {"max_drop": 0.15, "must_detect": 0.1}).verdict == "pass"


def test_a_run_is_told_that_it_is_compared_with_itself():
    run = make_run("main", {"warmth": BEFORE})
    report = judge_gate(run, run)
    assert "differs between the run and itself: baseline and candidate are the same" in str(reason_of(report).detail)
    assert report.comparison is not None
    assert report.comparison.notes == (Message("same-run"),)


def test_no_significant_drop_holds_where_one_that_matters_would_have_been_seen():
    # 24 of 80 differences are ±1: s = √(24/79) = 0.551. t of 79: (1.9905 + 0.8461) · 0.551 / √80 = 0.175; where as many
    # fell as make up that drop, a little more differ. A quarter of 1–5 is 1.
    report = judge(BEFORE, SHUFFLED)
    assert report.verdict == "pass"
    assert "one of 0.192 would have been seen" in str(reason_of(report).detail)
    assert reason_of(report).detectable == pytest.approx(0.1921, abs=1e-4)


def test_no_significant_drop_tells_nothing_where_the_data_could_not_show_one():
    report = judge(BEFORE, SHUFFLED, {"max_drop": 0.05, "must_detect": 0.1})
    assert (report.verdict, reason_of(report).code) == ("inconclusive", "not-enough-data")
    # 80 · (0.1921 / 0.1)² = 295.3
    assert "and 0.1 must be: about 296 items would do" in str(reason_of(report).detail)


def test_what_must_be_detected_is_a_quarter_of_the_scale_or_the_tolerance():
    scales = {"warmth": (0.0, 0.4)}
    narrow, candidate = (make_run("run", {"warmth": column}, scales=scales) for column in (BEFORE, SHUFFLED))
    asked = [GateRule(aspect="warmth", max_drop=0)]
    assert "and 0.1 must be" in str(judge_gate(candidate, narrow, asked).reasons[0].detail)
    assert judge_gate(candidate, narrow, [GateRule(aspect="warmth", max_drop=0.2)]).verdict == "pass"
    # With the best value inside, the way from the worst to it is the scale: 0.1 of 0.4 becomes 0.05 of 0.2.
    assert plan_rules(asked, dataclasses.replace(candidate, best={"warmth": 0.2}), narrow)[0].must_detect == 0.05


@pytest.mark.parametrize("after", [BEFORE, SHUFFLED])
def test_a_size_too_small_for_any_count_of_items_is_answered(after):
    report = judge(BEFORE, after, {"max_drop": 0, "must_detect": 5e-324})
    assert report.verdict == "inconclusive"


def test_three_pairs_cannot_fail_nor_pass():
    report = judge([5, 5, 5], [1, 2, 1])
    assert (report.verdict, reason_of(report).code) == ("inconclusive", "not-enough-data")
    assert "not tested; a test needs at least 6 dialogues, or items without one; there are 3" in str(
        reason_of(report).detail
    )
    unpaired = judge([5, 5, 5], [1, 2, 1], test="unpaired")
    assert (unpaired.verdict, reason_of(unpaired).code) == ("inconclusive", "not-enough-data")
    assert judge([5] * 6, [4] * 6).verdict == "fail"


def test_runs_that_hardly_differ_do_not_show_that_a_drop_would_be_seen():
    # One of 20 binary ratings changed: its spread promises that a drop of 0.137 is seen. One of 0.25 would change five
    # pairs, of which all may fall: 2 / 2^5 = 0.0625. Six are needed: 6 / 0.25 = 24 items.
    before, after = [1.0] * 20, [0.0] + [1.0] * 19
    runs = [make_run("run", {"warmth": column}, scales={"warmth": (0.0, 1.0)}) for column in (before, after)]
    report = judge_gate(runs[1], runs[0])
    assert (report.verdict, report.reasons[0].code) == ("inconclusive", "not-enough-data")
    assert "about 24 items are the fewest" in str(report.reasons[0].detail)


def test_a_drop_of_the_mean_fails_though_most_items_rose():
    # Nine tenths rise a little, one tenth falls by far: the mean falls by 0.9 · 0.1 − 0.1 · 3.9 = −0.3.
    report = judge([4.9] * 500, [5.0] * 450 + [1.0] * 50, {"max_drop": 0, "must_detect": 0.3})
    assert (report.verdict, reason_of(report).code) == ("fail", "drop")


def test_a_large_drop_that_too_few_items_show_does_not_pass():
    # Five of 100 items fall by 4, all others stay: 2 / 2^5 = 0.0625, though a drop of 0.15 would be seen by its spread.
    report = judge([5.0] * 100, [1.0] * 5 + [5.0] * 95, {"max_drop": 0, "must_detect": 0.15})
    assert (report.verdict, reason_of(report).code) == ("inconclusive", "not-enough-data")


@pytest.mark.parametrize("must_detect", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("test", ["paired", "unpaired"])
@pytest.mark.parametrize("wobble", [0, 1])
def test_a_few_dialogues_that_collapse_never_pass(must_detect, test, wobble):
    """Five of forty dialogues fall from 5 to 1: by its spread a drop of 0.609 would be seen."""
    before = [5] * 400
    after = [5 - 4 * (number < 50) - wobble * (number % 10 == 3 and 50 < number < 130) for number in range(400)]
    runs = [split_dialogues(make_run(name, {"warmth": own}), 10) for name, own in (("new", after), ("old", before))]
    rule = GateRule(aspect="warmth", max_drop=0.1, must_detect=must_detect)
    report = judge_gate(runs[0], runs[1], [rule], test=test)
    assert report.verdict == "fail" if wobble and report.reasons[0].code == "drop" else report.verdict == "inconclusive"
    if not wobble:
        assert "5 of " in str(report.reasons[0].detail)
        assert "0 dialogues differ, and a test needs six" in str(report.reasons[0].detail)


def test_few_that_differ_hold_where_no_drop_that_matters_may_have_escaped():
    # Two of 200 fall by one. With 95% confidence no more than 3.11% differ, each by 4 at most.
    report = judge(BEFORE[:20] * 10, [rating - (number < 2) for number, rating in enumerate(BEFORE[:20] * 10)])
    assert report.verdict == "pass"
    assert str(reason_of(report).detail).endswith(
        ": not significant; 2 of 200 items differ, and a test needs six; a drop of up to 0.125 may not have shown"
    )


def test_an_interval_beyond_what_is_tolerated_does_not_pass():
    """The drop is beyond chance and within what is tolerated, but it may be twice that."""
    after = [rating - (number < 12) for number, rating in enumerate(BEFORE)]
    assert judge(BEFORE, after, {"max_drop": 0.15, "must_detect": 0.15}).verdict == "pass"
    report = judge(BEFORE, after, {"max_drop": 0.15, "must_detect": 0.05})
    assert report.verdict == "inconclusive"
    assert "goes beyond the 0.15 tolerated by more than the 0.05 that must be seen" in str(reason_of(report).detail)


def test_dialogues_that_all_fall_a_little_may_lack_those_that_rise_by_far():
    """Nine in ten fall by 0.2, one rises by 1.8: the mean stays, and ten dialogues lack the latter in a third of runs."""
    report = judge([3.0] * 10, [2.8] * 10)
    assert report.verdict == "inconclusive"
    assert "the data are too skewed for so few" in str(reason_of(report).detail)
    assert report.comparison is not None
    measure = report.comparison.aspects["warmth"]
    # The scale allows a rise of 2: (2 / 2.2)^10 = 0.386. Here it is 0.9^10 = 0.349.
    assert measure.p == pytest.approx((2 / 2.2) ** 10)
    assert measure.verdict == "inconclusive"
    assert str(report.comparison.notes[-1]) == f"warmth: {measure.doubt}"
    # At its ceiling nothing can rise. Forty that fall by a point do not lack as many that rise by one.
    assert judge([5.0] * 10, [4.8] * 10).verdict == "fail"
    assert judge([3.0] * 40, [2.0] * 40).verdict == "fail"
    assert judge([3.0] * 10, [2.8] * 10, test="unpaired").verdict == "inconclusive"


def test_a_skewed_sample_is_not_taken_for_a_drop():
    """One of 40 rises by 1.8 and 39 fall by 0.2. The flips give p = 0.003."""
    report = judge([3.0] * 40, [4.8] + [2.8] * 39)
    assert report.verdict == "inconclusive"
    assert "too skewed for so few" in str(reason_of(report).detail)
    assert judge([3.0] * 40, [1.2] + [2.8] * 39).verdict == "fail"


def test_a_skewed_sample_is_not_taken_for_a_drop_at_small_levels():
    """Where one in ten rises by 1.8, none or one does in 80 with p = 0.002, and in 65 with p = 0.009: too often for a
    gate at 0.001, and for one with twenty rules."""
    before, after = [3.0] * 80, [4.8] + [2.8] * 79
    assert judge(before, after).verdict == "fail"
    assert judge(before, after, alpha=0.001).verdict == "inconclusive"
    for rules, verdict in ((1, "fail"), (20, "inconclusive")):
        names = [f"aspect-{number}" for number in range(rules)]
        new, old = (make_run("a", dict.fromkeys(names, values[:65])) for values in (after, before))
        assert judge_gate(new, old).verdict == verdict


def test_a_tolerated_drop_of_all_alike_does_not_pass_where_others_may_drop_far():
    """Without a spread there is no interval. Ten dialogues miss a quarter of others altogether in one of twenty runs."""
    report = judge([5.0] * 10, [4.0] * 10, {"max_drop": 1, "must_detect": 0.5})
    assert report.verdict == "inconclusive"
    assert "a drop of up to 1.78 may not have shown" in str(reason_of(report).detail)
    assert judge([5.0] * 10, [4.0] * 10, {"max_drop": 1, "must_detect": 0.8}).verdict == "pass"


def test_turns_of_one_dialogue_are_not_taken_for_independent():
    """Three of four dialogues of 20 turns each fell as a whole: of 80 items that would be far beyond chance."""
    after = [4.0 - (number >= 20) for number in range(80)]
    both = make_run("old", {"warmth": [4.0] * 80}), make_run("new", {"warmth": after})
    assert judge_gate(split_dialogues(both[1], 1), split_dialogues(both[0], 1)).verdict == "fail"
    before, now = (split_dialogues(run, 20) for run in both)
    report = judge_gate(now, before)
    assert report.verdict == "inconclusive"
    assert "; 80 pairs in 4 dialogues)" in str(reason_of(report).detail)
    assert str(reason_of(report).detail).endswith("at least 6 dialogues, or items without one; there are 4")
    minimum = [GateRule(aspect="warmth", min_mean=3.5)]
    assert judge_gate(split_dialogues(now, 1), None, minimum).verdict == "fail"
    alone = judge_gate(now, None, minimum)
    assert alone.verdict == "inconclusive"
    assert "(80 items in 4 dialogues), at least 3.5 is asked for" in str(reason_of(alone).detail)


def split_dialogues(run: ComparedRun, size: int) -> ComparedRun:
    """The run with so many items to a dialogue."""
    items = [dataclasses.replace(item, cluster=f"d{number // size}") for number, item in enumerate(rows_of(run))]
    return with_rows(run, items)


def test_runs_without_common_items_are_inconclusive_and_not_a_failure():
    old, new = make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": [1.0] * 80})
    new = with_rows(new, [dataclasses.replace(item, item=f"new {item.item}") for item in rows_of(new)])
    report = judge_gate(new, old)
    assert report.verdict == "inconclusive"
    assert codes(report) == [("coverage", "coverage"), ("rule", "no-values")]
    assert "0 of 80 items in pairs (0.00%)" in str(report.reasons[0].detail)
    assert report.comparison is not None
    assert report.comparison.aspects["warmth"].verdict == "inconclusive"
    assert judge_gate(new, old, test="unpaired").verdict == "fail"


def test_holm_counts_the_measures_of_the_rules_alone():
    few = [rating - (number < 7) for number, rating in enumerate(BEFORE)]  # p = 2 / 2^7 = 0.0156
    one = [rating - (number < 1) for number, rating in enumerate(BEFORE)]
    old = make_run("old", {"warmth": BEFORE, **{f"a{number}": BEFORE for number in range(5)}})
    new = make_run("new", {"warmth": few, **{f"a{number}": one for number in range(5)}})
    alone = judge_gate(new, old, [GateRule(aspect="warmth", max_drop=0)])
    assert alone.verdict == "fail"
    # The table below says no other of what the rule names.
    assert alone.comparison is not None
    assert (alone.comparison.aspects["warmth"].verdict, alone.comparison.aspects["a0"].verdict) == (
        "worse",
        "inconclusive",
    )
    compared = compare(old, new).aspects["warmth"]
    assert compared.verdict == "inconclusive"
    told = alone.comparison.aspects["warmth"].smallest_detectable
    assert told == alone.reasons[0].detectable
    assert told is not None
    assert compared.smallest_detectable is not None
    assert told < compared.smallest_detectable
    # With all six Holm asks for 0.05 / 6 = 0.0083.
    assert judge_gate(new, old).verdict == "pass"


@pytest.mark.parametrize("test", ["paired", "unpaired"])
def test_holm_does_not_count_a_measure_of_which_no_value_differs(test):
    few = [rating - (number < 9) for number, rating in enumerate(BEFORE)]
    constant = {f"a{number}": [3.0] * len(BEFORE) for number in range(5)}
    old, new = make_run("old", {"warmth": BEFORE, **constant}), make_run("new", {"warmth": few, **constant})
    alone = compare(make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": few}), test=test)
    found = compare(old, new, test=test)
    assert found.aspects["warmth"] == alone.aspects["warmth"]
    assert {(one.p, one.p_adjusted, one.verdict) for name, one in found.aspects.items() if name != "warmth"} == {
        (1.0, 1.0, "inconclusive")
    }
    (reason,) = (one for one in judge_gate(new, old, test=test).reasons if one.aspect == "warmth")
    assert "after Holm over 1;" in str(reason.detail)


def test_a_report_survives_being_sent():
    other = make_run("old", {"Warmth, 暖かさ": BEFORE}, signatures={"model:two": 80})
    report = judge_gate(make_run("new", {"Warmth, 暖かさ": LOWER}), other, allow_signature_mismatch=True)
    assert report.verdict == "fail"
    assert GateReport.model_validate(json.loads(report.model_dump_json())) == report


# Minima


def test_minima_share_alpha():
    # 6 of 60 below 3: mean 2.9, and with a 5 added s = 0.406. The 95% interval ends at 2.934 + 2.000 · 0.0520 = 3.038.
    values = [2] * 6 + [3] * 54
    run = make_run("new", {"warmth": values, "clarity": values})
    one = judge_gate(run, None, [GateRule(aspect="warmth", min_mean=3.04)])
    assert reason_of(one).code == "below-minimum"
    both = judge_gate(run, None, [GateRule(aspect=name, min_mean=3.04) for name in ("warmth", "clarity")])
    assert "97.5% interval, with 2 values added" in str(reason_of(both).detail)
    assert reason_of(both).code == "not-enough-data"


def test_a_minimum_without_values_is_not_judged():
    assert reason_of(judge(None, [None, None], {"min_mean": 3}, min_coverage=0.0)).code == "no-values"


def test_a_rule_with_both_leaves_one_reason_by_the_worse():
    report = judge(BEFORE, BEFORE, {"max_drop": 0, "min_mean": 4.9})
    assert (report.verdict, reason_of(report).code) == ("fail", "below-minimum")
    assert "; no value differs between the runs" in str(reason_of(report).detail)


# Coverage


def test_too_little_coverage_comes_before_a_rule_that_fails():
    report = judge(BEFORE, [*LOWER[:-2], None, None])
    assert report.verdict == "inconclusive"
    assert codes(report) == [("coverage", "coverage"), ("rule", "drop")]
    assert "78 of 80 verdicts of the candidate run (97.50%)" in str(report.reasons[0].detail)
    assert report.coverage.model_dump() == {"candidates": 80, "rated": 78, "expected": 80, "share": 0.975}
    assert judge(BEFORE, [*LOWER[:-2], None, None], min_coverage=0.975).verdict == "fail"


def test_every_measure_must_be_covered_not_all_together():
    columns = {f"a{number}": BEFORE for number in range(5)}
    old = make_run("old", {"warmth": BEFORE, **columns})
    new = make_run("new", {"warmth": [*BEFORE[:-4], None, None, None, None], **columns})
    report = judge_gate(new, old)
    # 476 of 480 are 99.2%, but of warmth 76 of 80.
    assert (report.verdict, report.coverage.rated, report.coverage.expected) == ("inconclusive", 476, 480)
    detail = report.reasons[0].detail
    assert "476 of 480 verdicts of the candidate run (99.17%); 76 of 80 for warmth, the fewest (95.00%)" in str(detail)
    assert "80 of 80 items in pairs (100.00%); 76 of 80 with both values of warmth, the fewest (95.00%)" in str(detail)
    # The other way round it is the baseline that lacks its worst.
    assert "76 of 80 for warmth" in str(judge_gate(old, new).reasons[0].detail)


def test_pairs_of_other_contexts_are_told_with_the_coverage():
    old, new = make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": BEFORE})
    first, *others = rows_of(new)
    new = with_rows(new, [dataclasses.replace(first, context="x"), *others])
    (reason,) = [reason for reason in judge_gate(new, old).reasons if reason.about == "coverage"]
    assert str(reason.detail).endswith("; 1 pair of 80 has different dialogue contexts and so answers different things")


def test_candidates_without_a_result_are_expected_too():
    candidate = make_run("new", {"warmth": BEFORE}, expected=100)
    report = judge_gate(candidate, None, [GateRule(aspect="warmth", min_mean=1)])
    assert (report.verdict, report.coverage.share) == ("inconclusive", 0.8)


def test_items_without_a_partner_are_not_covered():
    report = judge(BEFORE, LOWER[:70])
    assert (report.verdict, report.reasons[0].code) == ("inconclusive", "coverage")
    assert "70 of 80 items in pairs (87.50%)" in str(report.reasons[0].detail)
    assert judge(BEFORE, LOWER[:70], test="unpaired").reasons[0].code != "coverage"


def test_the_baseline_must_be_covered_where_it_is_compared_with():
    before = [*BEFORE[:-4], None, None, None, None]
    assert judge(before, BEFORE).reasons[0].code == "coverage"
    assert judge(before, BEFORE, {"min_mean": 1}).verdict == "pass"


def test_only_what_rules_name_must_be_covered():
    candidate = make_run("new", {"warmth": BEFORE, "clarity": [None] * 80})
    assert judge_gate(candidate, None, [GateRule(aspect="warmth", min_mean=1)]).verdict == "pass"
    clarity = judge_gate(candidate, None, [GateRule(aspect="clarity", min_mean=1)])
    assert [reason.code for reason in clarity.reasons] == ["coverage", "no-values"]


def test_a_run_of_nothing_is_inconclusive():
    assert judge([], []).verdict == "inconclusive"
    assert "0 of 0 verdicts of the candidate run" in str(judge([], []).reasons[0].detail)


# What rules may name


def test_rules_name_composites_and_blended_aspects():
    run = make_run("new", {"warmth": BEFORE})
    items = [
        dataclasses.replace(item, composites={"sum": 1.0}, blended={"warmth": -3.0 + number % 2})
        for number, item in enumerate(rows_of(run))
    ]
    run = with_rows(run, items, scales={**run.scales, "sum": (0.0, 2.0)})
    rules = [GateRule(aspect="sum", min_mean=1), GateRule(aspect="warmth.blended", max_drop=0, min_mean=-2.5)]
    report = judge_gate(run, run, rules)
    assert report.verdict == "pass"
    assert report.coverage.expected == 160


def test_a_measure_that_is_declared_but_nowhere_there_has_no_values():
    run = make_run("new", {"warmth": BEFORE}, scales={"warmth": (1.0, 5.0), "warmth.blended": (1.0, 5.0)})
    report = judge_gate(run, run, [GateRule(aspect="warmth.blended", max_drop=0)])
    assert [reason.code for reason in report.reasons] == ["coverage", "no-values"]


@pytest.mark.parametrize(
    ("before", "rule", "error", "pointer"),
    [
        (None, {"max_drop": 0.1}, InvalidRequest, "/rules/0/max_drop"),
        (BEFORE, {"aspect": "wamrth", "max_drop": 0.1}, UnknownAspect, "/rules/0/aspect"),
        (None, {"aspect": "warmth.blended", "min_mean": 0.1}, UnknownAspect, "/rules/0/aspect"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_pointed_at(before, rule, error, pointer):
    with pytest.raises(error) as refused:
        judge(before, BEFORE, rule)
    assert refused.value.pointer == pointer


def test_a_measure_that_the_run_lacks_is_named_as_the_rule_names_it():
    run = make_run("new", {"warmth": BEFORE})
    with pytest.raises(UnknownAspect, match="the run has no faulty_turns; it has warmth") as refused:
        judge_gate(run, run, [GateRule(measure="faulty_turns", max_rise=1)])
    assert refused.value.pointer == "/rules/0/measure"


@pytest.mark.parametrize(
    ("rule", "pointer"),
    [
        ({"min_mean": 5.1}, "/rules/0/min_mean"),
        ({"min_mean": 0.9}, "/rules/0/min_mean"),
        ({"max_drop": 4.1}, "/rules/0/max_drop"),
        ({"max_drop": 0, "must_detect": 4.1}, "/rules/0/must_detect"),
    ],
)
def test_what_no_run_could_have_is_not_asked_for(rule, pointer):
    with pytest.raises(InvalidRequest) as refused:
        judge(BEFORE, BEFORE, rule)
    assert refused.value.pointer == pointer


def test_a_measure_has_one_rule():
    with pytest.raises(InvalidRequest, match="has a rule already") as refused:
        judge(BEFORE, BEFORE, {"max_drop": 0}, {"min_mean": 2})
    assert refused.value.pointer == "/rules/1/aspect"


def test_a_minimum_on_an_unknown_scale_cannot_be_judged():
    with pytest.raises(InvalidRequest) as refused:
        judge_gate(make_run("new", {"warmth": BEFORE}, scales={}), None, [GateRule(aspect="warmth", min_mean=2)])
    assert refused.value.pointer == "/rules/0/min_mean"


def test_an_aspect_best_inside_its_scale_is_judged_by_its_distance():
    scales, best = {"formality": (-1.0, 1.0)}, {"formality": 0.0}
    before, after = (make_run(n, {"formality": [v] * 30}, scales=scales, best=best) for n, v in (("a", 1), ("b", -1)))
    report = judge_gate(after, before, [GateRule(aspect="formality", max_drop=0, min_mean=-0.5)])
    assert (
        "no value's distance from 0 differs between the runs (30 pairs, minus the distance from 0; mean rating 1.000 to -1.000)"
        in str(report.reasons[0].detail)
    )
    assert "the mean of minus the distance from 0, with a mean rating of -1.000, is -1.000 (30 items)" in str(
        report.reasons[0].detail
    )
    assert report.verdict == "fail"
    with pytest.raises(InvalidRequest, match="between -1 and 0"):
        judge_gate(after, before, [GateRule(aspect="formality", min_mean=0.5)])


def test_a_drop_on_an_unknown_scale_needs_to_be_told_what_matters():
    run = make_run("new", {"warmth": BEFORE}, scales={})
    with pytest.raises(InvalidRequest) as refused:
        judge_gate(run, run, [GateRule(aspect="warmth", max_drop=0)])
    assert refused.value.pointer == "/rules/0/must_detect"
    assert judge_gate(run, run, [GateRule(aspect="warmth", max_drop=0, must_detect=1)]).verdict == "pass"


def test_there_must_be_something_to_judge_by():
    with pytest.raises(InvalidRequest) as refused:
        judge(None, BEFORE)
    assert refused.value.pointer == "/rules"


def test_runs_that_were_scored_differently_are_not_judged():
    other = make_run("old", {"warmth": BEFORE}, signatures={"model:two": 80})
    with pytest.raises(SignatureMismatch):
        judge_gate(make_run("new", {"warmth": BEFORE}), other)


# The judge


@pytest.mark.parametrize("verdict", ["moved", "steady", "recorded"])
def test_a_judge_that_moved_is_no_regression(verdict):
    check = make_check(verdict, "warmth shifted by -0.40")
    report = judge(BEFORE, LOWER, judge=check)
    if verdict == "moved":
        assert (report.verdict, report.reasons[0].code) == ("inconclusive", "judge-moved")
        assert str(report.reasons[0].detail) == "judge moved: warmth shifted by -0.40"
    else:
        assert (report.verdict, report.reasons[0].code) == ("fail", "drop")
        assert ("judge", "held") in codes(report)


@pytest.mark.parametrize("verdict", ["steady", "moved"])
@pytest.mark.parametrize("after", [LOWER, HIGHER, SHUFFLED, BEFORE])
def test_a_check_that_comes_later_makes_the_same_report(after: Any, verdict: Any) -> None:
    """Without judging the runs once more."""
    check = make_check(verdict)
    rules = ({"max_drop": 0.0, "min_mean": 3.4},)
    assert judge_again(judge(BEFORE, after, *rules), check) == judge(BEFORE, after, *rules, judge=check)


def test_a_drop_larger_than_the_scale_is_never_said_to_be_seen():
    before, after = (make_run(name, {"warmth": [rating] * 100}) for name, rating in (("old", 5), ("new", 1)))
    # One dialogue has nearly all items, and the six others have not changed.
    items = [
        dataclasses.replace(
            item, cluster="long" if number > 5 else f"d{number}", ratings={"warmth": 1 if number > 5 else 5}
        )
        for number, item in enumerate(rows_of(after))
    ]
    report = judge_gate(with_rows(after, items), before)
    assert (report.verdict, report.reasons[0].detectable) == ("inconclusive", None)
    assert "though more than the 1 that must be seen" in str(report.reasons[0].detail)
    assert report.comparison is not None
    measure = report.comparison.aspects["warmth"]
    assert measure.smallest_detectable is None
    assert str(measure.undefined["smallest_detectable"]).startswith("1 of 7 dialogues differ: ")


@pytest.mark.parametrize("fall", [0.0, 2.0])
def test_an_alpha_below_every_p_of_the_test_is_the_reason_and_not_the_number_of_items(fall: float) -> None:
    before = [4.0 + place % 2 for place in range(200)]
    after = [value - fall * (place % 3 > 0) for place, value in enumerate(before)]
    runs = [make_run(name, {"warmth": values}) for name, values in (("a", before), ("b", after))]
    rule = GateRule(aspect="warmth", max_drop=0.0, must_detect=1)
    report = judge_gate(runs[1], runs[0], [rule], alpha=1e-6)
    assert report.comparison is not None
    told = Message("flips-too-few", flips=100_000, level=1e-6)
    reason = next(one for one in report.reasons if one.about == "rule")
    assert (report.verdict, str(told) in str(reason.detail)) == ("inconclusive", True)
    if fall:
        assert report.comparison.aspects["warmth"].undefined["smallest_detectable"] == told
        assert judge_gate(runs[1], runs[0], [rule], alpha=1e-4).verdict == "fail"

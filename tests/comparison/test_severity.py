"""Raters who differ in severity, held against brute force and statsmodels; `benchmarks.corrected_gate` simulates more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from saiten.core.messages import Message
from saiten_server.comparison.corrected_runs import compare_corrected
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateReason, GateRule
from saiten_server.core.reports import AspectDifference
from saiten_server.stats.corrected import (
    FEWEST_RATED,
    CorrectedSample,
    CorrectionOptions,
    correct,
    count_raters,
    differ_corrected,
    differ_shared,
    find_mean_interval,
    report_corrected,
    share_raters,
)
from saiten_server.stats.observations import average_groups
from saiten_server.stats.reading import ObservationReader
from saiten_server.stats.severity import IndividualRatings, SideRatings, contrast_raters, measure_severity
from tests.support.runs import make_run, rows_of, with_rows

ITEMS, RATED = 200, 60
BOUNDED = CorrectionOptions(bounds=(1, 5))
Pairs = list[tuple[int, int]]


def draw(
    pairs: Pairs, severity: list[float], *, shift: float = 0.0, seed: int = 1, items: int = ITEMS
) -> CorrectedSample:
    """A system's sample, of which `pairs` says which rater rated which item. Systems share half of a value."""
    context = np.random.default_rng(7).standard_normal(items)
    own, judge = np.random.default_rng(seed).standard_normal((2, items))
    people = 3 + shift + 0.5 * context + 0.5 * own
    item, rater = np.array(pairs).T
    noise = np.random.default_rng(seed + 50).standard_normal(len(pairs))
    value = people[item] + np.array(severity)[rater] + 0.4 * noise
    scores = people + 0.5 * judge
    return CorrectedSample(
        scores, average_groups(value, item, items), np.arange(items), None, IndividualRatings(item, rater, value)
    )


def rate(*counts: int, first: int = 0) -> Pairs:
    """Rater after rater rates so many items, each another."""
    raters = np.repeat(np.arange(len(counts)), counts)
    return [(first + item, int(rater)) for item, rater in enumerate(raters)]


def differ(before: CorrectedSample, after: CorrectedSample) -> tuple[float, float]:
    shared = share_raters(before, after, BOUNDED)
    assert shared.refused is None
    found = differ_shared(shared, BOUNDED)
    return found.difference, found.error


def run(name: str, raters: dict[str, range], severity: dict[str, float], *, seed: int = 1) -> ComparedRun:
    context, (own, judge) = (
        np.random.default_rng(7).standard_normal(RATED),
        np.random.default_rng(seed).normal(size=(2, RATED)),
    )
    people = 3.2 + 0.5 * context + 0.5 * own
    found = make_run(name, {"overall": np.clip(np.round(people + 0.5 * judge), 1, 5).tolist()})
    items = []
    for row, item in enumerate(rows_of(found)):
        said = {
            who: float(np.clip(round(people[row] + severity[who]), 1, 5)) for who, rows in raters.items() if row in rows
        }
        items.append(
            replace(item, people={"overall": float(np.mean([*said.values()]))}, said={"overall": said})
            if said
            else item
        )
    return with_rows(found, items)


def gate(before: ComparedRun | None, after: ComparedRun, **rule: Any) -> GateReason:
    report = judge_gate(after, before, [GateRule(aspect="overall", **rule)], estimate="corrected")
    return next(one for one in report.reasons if one.about == "rule")


SEVERITY = {"anna": 0.0, "ben": -1.0}


def test_a_harsher_rater_is_no_worse_bot() -> None:
    before = run("main", {"anna": range(RATED)}, SEVERITY)
    reason = gate(before, run("pr", {"ben": range(RATED)}, SEVERITY, seed=2), max_drop=0.3)
    assert (reason.verdict, reason.code) == ("inconclusive", "not-enough-data")
    assert "no rater rated both sides" in str(reason.detail)
    both = {"anna": range(20), "ben": range(20, RATED)}
    reason = gate(before, run("pr", both, SEVERITY, seed=2), max_drop=0.3, must_detect=2)
    assert reason.verdict == "pass"
    assert "corrected by 60 and 20 ratings by 1 rater of both runs" in str(reason.detail)


def test_a_worse_bot_is_one_whoever_rates_it() -> None:
    severe = {"anna": 0.0, "ben": -1.0, "cleo": 0.5}
    before = run("main", {"anna": range(40), "ben": range(40, RATED)}, severe)
    worse = {who: value - 1 for who, value in severe.items()}
    after = run("pr", {"anna": range(20), "ben": range(20, 50), "cleo": range(50, RATED)}, worse, seed=2)
    reason = gate(before, after, max_drop=0.1)
    assert (reason.verdict, reason.code) == ("fail", "drop")
    assert "by 60 and 50 ratings by 2 raters of both runs" in str(reason.detail)
    found = compare_corrected(before, after, alpha=0.05, paired=True)["overall"]
    assert found.shared is not None
    assert (found.shared.raters, found.shared.baseline, found.shared.candidate, found.shared.needed) == (
        2,
        60,
        50,
        None,
    )
    assert found.difference == pytest.approx(-1, abs=0.3)


def test_one_item_of_the_other_run_is_no_overlap() -> None:
    before = run("main", {"anna": range(RATED)}, SEVERITY)
    after = run("pr", {"anna": range(1), "ben": range(1, RATED)}, SEVERITY, seed=2)
    found = compare_corrected(before, after, alpha=0.05, paired=True)["overall"]
    assert found.difference is None
    rated = Message("people-rated", items=Message("one-item", n=1))
    needed = Message("ratings-needed-of", ratings=15, units=15)
    assert found.refused == Message("of-shared-raters", why=Message("clauses", clauses=[rated, needed]))
    assert found.shared is not None
    assert (found.shared.candidate, found.shared.needed) == (1, FEWEST_RATED)
    mirrored = draw([*rate(59, 1)], [0, 0]), draw([*rate(1, 59)], [0, 0], seed=2)
    assert "60 ratings count as 3.9, and 10 are needed" in str(share_raters(*mirrored, BOUNDED).refused)


@pytest.mark.parametrize("severity", [[0.0, 0.0, 0.0], [5.0, -3.0, 1.0]])
def test_severity_cancels_exactly_in_differences(severity: list[float]) -> None:
    before, after = rate(30, 20, 10), rate(15, 25, 20)
    alike = differ(draw(before, [0, 0, 0]), draw(after, [0, 0, 0], seed=2))
    assert differ(draw(before, severity), draw(after, severity, seed=2)) == pytest.approx(alike)


def test_one_rater_of_all_is_the_same_as_no_names() -> None:
    before, after = draw(rate(RATED), [0.4]), draw(rate(RATED), [0.4], seed=2)
    nameless = [replace(one, said=None) for one in (before, after)]
    assert differ(before, after) == differ(*nameless)
    found, without = (correct(one, BOUNDED).corrected for one in (before, nameless[0]))
    assert found is not None
    assert without is not None
    assert find_mean_interval(found, BOUNDED) == find_mean_interval(without, BOUNDED)


def test_ratings_without_a_name_are_by_nobody_who_rated_both() -> None:
    def forget(sample: CorrectedSample) -> CorrectedSample:
        said = sample.said
        return replace(sample, said=said and replace(said, rater=np.where(said.rater == 1, -1, said.rater)))

    sides = draw(rate(40, 20), [0, 0]), draw(rate(40, 20), [0, 0], seed=2)
    named = share_raters(sides[0], sides[1], BOUNDED)
    partly = share_raters(forget(sides[0]), forget(sides[1]), BOUNDED)
    assert (named.raters, named.baseline.rated) == (2, 60)
    assert (partly.raters, partly.baseline.rated) == (1, 40)


def brute_force(before: CorrectedSample, after: CorrectedSample) -> tuple[float, float, float]:
    """Least squares by statsmodels; the CR2 variance of its coefficient by dense matrices; and the degrees of freedom of
    the variance of both sides together."""
    import statsmodels.api as sm

    sides = [one.said for one in (before, after) if one.said is not None]
    side = np.repeat([0.0, 1.0], [len(one.item) for one in sides])
    item = np.concatenate([one.item for one in sides])
    rater = np.concatenate([one.rater for one in sides])
    value = np.concatenate([one.value for one in sides])
    weights = np.concatenate([1 / np.bincount(one.item)[one.item] for one in sides])
    design = np.column_stack([side, *(rater == one for one in np.unique(rater))]).astype(float)
    fitted = sm.WLS(value, design, weights=weights).fit()
    root = np.sqrt(weights)
    scaled = design * root[:, None]
    hat = scaled @ np.linalg.pinv(scaled)
    maker = np.eye(len(side)) - hat
    residual, pull = maker @ (root * value), np.linalg.pinv(scaled)[0]
    columns, parts = [], []
    for one in np.unique(item):
        own = np.flatnonzero(item == one)
        block = maker[np.ix_(own, own)]
        size, axes = np.linalg.eigh(block)
        corrected = axes @ (np.where(size > 1e-9, 1 / np.sqrt(np.maximum(size, 1e-9)), 0) * (axes.T @ pull[own]))
        parts.append(corrected @ residual[own])
        columns.append(maker[:, own] @ corrected)
    gram = np.array(columns) @ np.array(columns).T
    return float(fitted.params[0]), float(np.sum(np.square(parts))), np.trace(gram) ** 2 / np.sum(gram * gram)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(rate(30, 20, 10), rate(15, 25, 20), id="unbalanced"),
        pytest.param(rate(30, 20, 10), rate(20, 20, 20, first=100), id="other items"),
        pytest.param([(row, rater) for row in range(25) for rater in (0, row % 2 + 1)], rate(10, 20, 10), id="several"),
        pytest.param([(row, row) for row in range(25)], [(row, row) for row in range(25)], id="a rater a pair"),
        pytest.param([(row, row) for row in range(25)], [(30 + row, row) for row in range(25)], id="two items a rater"),
    ],
)
def test_the_contrast_is_least_squares_with_cr2(before: Pairs, after: Pairs) -> None:
    severity = np.random.default_rng(3).normal(size=30).tolist()
    sides = draw(before, severity), draw(after, severity, seed=2)
    found = contrast_raters([SideRatings(one.said, one.scores, one.clusters, None) for one in sides if one.said])
    assert found is not None
    difference, variance, freedom = brute_force(*sides)
    assert found.means[1, 0] - found.means[0, 0] == pytest.approx(difference)
    together = found.parts[1, 0] - found.parts[0, 0]
    assert together @ together == pytest.approx(variance)
    assert min(found.freedom) <= freedom * 1.5


def test_a_mean_of_raters_with_items_of_their_own_has_the_interval_of_their_means() -> None:
    """A one-way analysis of variance: where each rates as many items, the raters' means are the sample."""
    sample = draw(rate(12, 12, 12, 12, 12), [0.5, -0.4, 0.1, -0.6, 0.4])
    assert sample.said is not None
    found = measure_severity(sample.said, sample.scores, sample.clusters, None, 0.0)
    means = average_groups(sample.said.value, sample.said.rater, 5)
    assert found.variance == pytest.approx(float(stats.sem(means)) ** 2)
    assert found.freedom == pytest.approx(4)
    within = np.mean([sample.said.value[sample.said.rater == one].var(ddof=1) for one in range(5)])
    assert found.noise == pytest.approx(within / 60)


def test_a_mean_of_raters_of_the_same_items_is_that_of_the_crossed_analysis_of_variance() -> None:
    pairs = [(item, rater) for item in range(40) for rater in range(4)]
    sample = draw(pairs, [0.5, -0.4, 0.1, -0.6])
    assert sample.said is not None
    table = sample.said.value.reshape(40, 4)
    by_rater = 40 * table.mean(axis=0).var(ddof=1)
    left = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()
    error = float(np.sum(left**2)) / (39 * 3)
    found = measure_severity(sample.said, sample.scores, sample.clusters, None, 0.0)
    assert found.variance == pytest.approx(by_rater / 160)
    assert found.noise == pytest.approx(error / 160)
    assert found.lasting == pytest.approx((by_rater - error) / 160)


def test_the_mean_of_many_raters_is_that_of_a_mixed_model() -> None:
    import statsmodels.api as sm

    severity = np.random.default_rng(5).normal(size=20) * 0.5
    sample = draw([(item, item % 20) for item in range(100)], severity.tolist())
    assert sample.said is not None
    fitted = sm.MixedLM(sample.said.value, np.ones(100), groups=sample.said.rater).fit(reml=True)
    whole = replace(sample, scores=np.zeros(ITEMS))
    found = correct(whole, CorrectionOptions(bounds=(-9, 9))).corrected
    assert found is not None
    assert found.error == pytest.approx(float(fitted.bse[0]), rel=0.01)
    assert found.clustered.mean == pytest.approx(float(fitted.params[0]))


def test_the_report_says_whom_an_interval_speaks_of_and_how_many_raters_it_takes() -> None:
    def report(raters: int, *, named: bool = True) -> dict[str, Any]:
        reader = ObservationReader(scales={"overall": (1.0, 5.0)}, scale_scores=True)
        sample = draw([(item, item % raters) for item in range(RATED)], [0.5, -0.5, 0.2][:raters], items=1000)
        for item, (score, rating) in enumerate(zip(np.clip(sample.scores, 1, 5), sample.ratings, strict=True)):
            record: dict[str, Any] = {"system": "a", "item": f"i{item}", "scores": {"overall": float(score)}}
            if item < RATED:
                record["ratings"] = {"overall": float(np.clip(rating, 1, 5))}
                record |= {"rater": f"r{item % raters}"} if named else {}
            reader.add(record, item + 1)
        found = report_corrected(reader.finish(), ranges={"overall": (1, 5)})
        return found.systems["a"].aspects["overall"].model_dump()

    one, three, nameless = report(1), report(3), report(3, named=False)
    assert [each["raters"] for each in (one, three, nameless)] == [1, 3, 0]
    figures = [each["corrected"] for each in (one, three, nameless)]
    assert [each["severity"] for each in figures] == [False, True, False]
    low, high = figures[1]["interval"]
    assert low < figures[1]["interval_by_these_raters"][0] < figures[1]["interval_by_these_raters"][1] < high
    assert figures[2]["interval"] == pytest.approx(figures[1]["interval_by_these_raters"])
    assert "one person rated" in one["notes"][0]
    assert "no rater is named" in nameless["notes"][0]
    assert three["ratings_for_half_width"] is None
    assert (
        three["notes"][1]
        == f"more ratings by the same raters would not halve it: {three['raters_for_half_width']} raters in all would"
    )
    assert one["ratings_for_half_width"] is not None


def test_systems_that_share_no_rater_are_not_compared_in_reports() -> None:
    def report(raters: tuple[str, str]) -> AspectDifference:
        reader = ObservationReader(scales={"overall": (1.0, 5.0)}, scale_scores=True)
        for line in range(80):
            item, system = line // 2, line % 2
            rating = 3 - system + (item + system * (item // 7)) % 3
            record = {"system": "ab"[system], "item": f"i{item}", "rater": raters[system]}
            reader.add({**record, "scores": {"overall": 1 + item % 5}, "ratings": {"overall": rating}}, line + 1)
        return report_corrected(reader.finish(), ranges={"overall": (1, 5)}).differences[0].aspects["overall"]

    apart, same = report(("anna", "ben")), report(("anna", "anna"))
    assert apart.corrected is None
    assert "no rater rated both sides" in str(apart.refused or "")
    assert apart.shared is not None
    assert (apart.shared.raters, apart.shared.needed) == (0, 15)
    assert same.corrected is not None
    assert same.corrected.difference == pytest.approx(-1, abs=0.3)


def test_as_many_raters_as_told_halve_the_interval() -> None:
    generator = np.random.default_rng(4)
    options = CorrectionOptions(bounds=(-20, 20))
    ratios = []
    for seed in range(12):
        severity = generator.normal(size=60).tolist()
        few = draw(rate(*[10] * 6), severity[:6], seed=seed, items=600)
        found = correct(few, options).corrected
        assert found is not None
        wanted = min(60, count_raters(found, options) or 60)
        more = correct(draw(rate(*[10] * wanted), severity[:wanted], seed=seed, items=600), options).corrected
        assert more is not None
        ratios.append(more.find_margin(0.05, normal=False) / found.find_margin(0.05, normal=False))
    assert np.median(ratios) == pytest.approx(0.5, abs=0.12)


def test_a_minimum_is_of_people_and_not_of_one_person() -> None:
    alone = run("pr", {"ben": range(RATED)}, SEVERITY)
    reason = gate(None, alone, min_mean=3.0)
    assert (reason.verdict, reason.code) == ("inconclusive", "not-enough-data")
    assert "one person rated" in str(reason.detail)
    two = run("pr", {"anna": range(30), "ben": range(30, RATED)}, SEVERITY)
    reason = gate(None, two, min_mean=3.5)
    assert reason.verdict == "inconclusive"
    assert "more ratings by the same raters would not tell: more raters are needed" in str(reason.detail)
    assert gate(None, two, min_mean=1.0).verdict == "pass"


def test_few_false_failures_with_other_raters_a_run() -> None:
    """A small version of the benchmark's table: two raters in each run, of whom one rates both."""
    generator, failed, missed = np.random.default_rng(8), 0, 0
    for seed in range(60):
        severity = (0.5 * generator.standard_normal(3)).tolist()
        before = draw(rate(30, 30), severity, seed=seed)
        after = draw([(item, rater and 2) for item, rater in rate(30, 30)], severity, seed=seed + 1000)
        shared = share_raters(before, after, BOUNDED)
        failed += (differ_shared(shared, BOUNDED).p or 1) < 0.05
        missed += (differ_corrected(replace(before, said=None), replace(after, said=None), BOUNDED).p or 1) < 0.05
    assert failed <= 7
    assert missed > 20
    assert_allclose([failed / 60], [0.05], atol=0.07)

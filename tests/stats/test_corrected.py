"""Means on people's scale. How often their intervals hold the truth is measured by `benchmarks.corrected`."""

import json
from dataclasses import replace
from io import BytesIO
from math import inf, nan, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from benchmarks.corrected import run_turns
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.core.reports import CorrectedAspect, Looks
from saiten_server.stats.corrected import (
    FEWEST_RATED,
    CorrectedSample,
    CorrectionOptions,
    correct,
    count_for_margin,
    differ,
    differ_corrected,
    estimate_corrected,
    find_level,
    find_mean_interval,
    find_sequential_p,
    report_corrected,
)
from saiten_server.stats.reading import ObservationReader, read_csv, read_ndjson

PPI_PYTHON = [
    (20, 400, 0.7, 1, 3.229883277190766, 2.9230101368032635, 3.5367564175782684),
    (60, 240, 0.3, 0.5, 3.2288095229832856, 3.0123611805309323, 3.445257865435639),
    (100, 900, 0.5, 1.0, 3.0537065711161624, 2.8941732762713097, 3.213239866061015),
    (30, 40, 0.9, 1.5, 3.0611938179834604, 2.86149493949911, 3.2608926964678107),
    (40, 300, -0.4, 1, 2.975, 2.7709826108475086, 3.1790173891524915),
]
"""Rated, unrated, correlation and spread of the data that `draw_all` draws, and what ppi-python 0.2.3 makes of them:
`ppi_mean_pointestimate(y, f, f_unrated)` and `ppi_mean_ci(y, f, f_unrated, alpha=0.1)`. They are recorded
because the package brings numba, LLVM, statsmodels and a downloader along for this one test."""


def draw_all() -> list[tuple[CorrectedSample, int]]:
    """The samples of PPI_PYTHON, in order: one generator draws all."""
    generator = np.random.default_rng(18)
    found = []
    for n, others, correlation, spread, *_ in PPI_PYTHON:
        people = generator.standard_normal(n + others)
        own = generator.standard_normal(n + others)
        scores = np.round(spread * (correlation * people + np.sqrt(1 - correlation**2) * own) + 3.2, 1)
        ratings = np.round(people + 3, 1)
        ratings[n:] = nan
        found.append((CorrectedSample(scores, ratings, np.arange(n + others)), n))
    return found


def draw(seed: int = 1, items: int = 400, rated: int = 80, shift: float = 0.5) -> CorrectedSample:
    """Ratings of 1 to 5 by people and by a judge who is too kind."""
    generator = np.random.default_rng(seed)
    people = generator.standard_normal(items)
    scores = np.clip(np.round(3 + shift + 0.8 * people + 0.6 * generator.standard_normal(items)), 1, 5)
    ratings = np.clip(np.round(3 + people), 1, 5)
    ratings[rated:] = nan
    return CorrectedSample(scores, ratings, np.arange(items))


def records(sample: CorrectedSample, system: str = "a", **more: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number, (score, rating) in enumerate(zip(sample.scores, sample.ratings, strict=True)):
        row: dict[str, object] = {"system": system, "item": f"i{number}", "scores": {"overall": float(score)}, **more}
        if not np.isnan(rating):
            row["ratings"] = {"overall": float(rating)}
        rows.append(row)
    return rows


def read(rows: list[dict[str, object]], **options: object) -> object:
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    return read_ndjson(lines, ObservationReader(**options))  # type: ignore[arg-type]


def test_equal_to_ppi_python() -> None:
    for (sample, _), (*_, mean, low, high) in zip(draw_all(), PPI_PYTHON, strict=True):
        found = estimate_corrected(sample, plain=True)
        assert found.clustered.mean == pytest.approx(mean, abs=1e-9)
        assert find_mean_interval(found, CorrectionOptions(0.1, "normal")) == pytest.approx((low, high), abs=1e-6)


def test_without_the_judge_it_is_the_mean_of_peoples_ratings_with_students_interval() -> None:
    sample = draw()
    rated = sample.ratings[:80]
    found = estimate_corrected(sample, weight=0.0)
    assert found.clustered.mean == pytest.approx(rated.mean())
    expected = stats.ttest_1samp(rated, 0).confidence_interval()
    margin = stats.t.ppf(0.975, found.clustered.freedom) * found.clustered.error
    assert_allclose([found.clustered.mean - margin, found.clustered.mean + margin], expected, rtol=1e-9)


def test_a_fixed_weight_gives_the_formula() -> None:
    sample = draw()
    scores, ratings = sample.scores, sample.ratings[:80]
    found = estimate_corrected(sample, weight=0.4)
    assert found.clustered.mean == pytest.approx(0.4 * scores[80:].mean() + (ratings - 0.4 * scores[:80]).mean())


def test_the_weight_makes_the_variance_least() -> None:
    sample = draw()

    def variance(weight: float) -> float:
        residual = sample.ratings[:80] - weight * sample.scores[:80]
        spread = weight**2 * sample.scores.var(ddof=1)
        # The spread of all scores stands in for that of the few rated ones.
        own = sample.ratings[:80].var() - 2 * weight * np.cov(sample.ratings[:80], sample.scores[:80], ddof=0)[0, 1]
        assert residual.var() >= 0
        return float((own + spread) / 80 + spread / 320)

    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmin([variance(weight) for weight in grid])]
    found = estimate_corrected(sample, plain=True)
    assert found.weight == pytest.approx(best, abs=1e-3)
    assert 0.3 < found.weight < 0.95


def test_a_judge_who_says_the_opposite_has_no_weight() -> None:
    sample = draw()
    assert estimate_corrected(CorrectedSample(6 - sample.scores, sample.ratings, sample.clusters)).weight == 0


def test_dialogues_of_equal_items_count_once() -> None:
    one = draw(items=120, rated=60)
    thrice = CorrectedSample(np.repeat(one.scores, 3), np.repeat(one.ratings, 3), np.repeat(one.clusters, 3))
    assert estimate_corrected(thrice, weight=0.6).clustered.error == pytest.approx(
        estimate_corrected(one, weight=0.6).clustered.error
    )
    apart = CorrectedSample(thrice.scores, thrice.ratings, np.arange(360))
    ratio = estimate_corrected(apart, weight=0.6).clustered.error / estimate_corrected(one, weight=0.6).clustered.error
    assert ratio == pytest.approx(1 / sqrt(3), rel=0.05)


def test_inverse_probabilities_undo_an_uneven_choice() -> None:
    generator = np.random.default_rng(4)
    people = generator.standard_normal(20_000)
    scores, ratings = np.round(3 + people), np.round(3 + people + 0.5 * generator.standard_normal(20_000))
    probability = np.where(people > 0, 0.4, 0.05)
    rated = np.where(generator.random(20_000) < probability, ratings, nan)
    weighted = CorrectedSample(scores, rated, np.arange(20_000), 1 / probability)
    plain = CorrectedSample(scores, rated, np.arange(20_000))
    for weight in (0.0, 0.5, None):
        assert estimate_corrected(weighted, weight=weight).clustered.mean == pytest.approx(ratings.mean(), abs=0.04)
    assert abs(estimate_corrected(plain, weight=0.0).clustered.mean - ratings.mean()) > 0.3


def test_equal_ratings_keep_their_mean_whatever_the_weights() -> None:
    sample = CorrectedSample(
        np.arange(6.0), np.array([4.0, 4, 4, nan, nan, nan]), np.arange(6), np.array([1.0, 9, 2, 1, 1, 1])
    )
    assert estimate_corrected(sample, weight=0.0).clustered.mean == 4


def test_what_two_systems_share_is_taken_out_of_the_difference() -> None:
    one = draw(1)
    shared = CorrectedSample(one.scores, one.ratings + np.where(np.arange(400) % 2, 0.5, 0.3), one.clusters)
    found = differ_corrected(one, shared, CorrectionOptions(bounds=(1, 6)))
    assert found.difference == pytest.approx(0.4)
    assert found.error == pytest.approx(0.1 / sqrt(79), rel=1e-6)
    strangers = CorrectedSample(shared.scores, shared.ratings, shared.clusters + 1_000)
    assert differ_corrected(one, strangers, CorrectionOptions(bounds=(1, 6))).error > 5 * found.error


def test_a_difference_without_the_judge_is_the_paired_t_test() -> None:
    one, other = draw(1, items=80), draw(2, items=80)
    other = CorrectedSample(other.scores, np.clip(other.ratings * 0.4 + one.ratings * 0.6, 1, 5), other.clusters)
    found = differ(estimate_corrected(one), estimate_corrected(other), CorrectionOptions())
    expected = stats.ttest_rel(other.ratings, one.ratings)
    assert found.difference / found.error == pytest.approx(expected.statistic)


def test_intervals_do_not_leave_the_scale() -> None:
    sample = draw()
    high = CorrectedSample(
        np.full(400, 5.0) - (np.arange(400) % 8 == 0), np.where(np.arange(400) < 80, 5.0, nan), sample.clusters
    )
    high.ratings[::16] = np.where(np.arange(25) < 5, 4.0, nan)
    found = correct(high, CorrectionOptions(bounds=(1, 5)))
    assert found.corrected is not None
    low, top = find_mean_interval(found.corrected, CorrectionOptions(bounds=(1, 5))) or (inf, inf)
    assert 4 < low < found.corrected.clustered.mean < top <= 5


def aspect_of(rows: list[dict[str, object]], **options: object) -> CorrectedAspect:
    report = report_corrected(read(rows), **options)  # type: ignore[arg-type]
    return report.systems["a"].aspects["overall"]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda one: one.ratings.__setitem__(slice(None), nan), "no ratings by people"),
        (lambda one: one.ratings.__setitem__(slice(5, None), nan), "people rated 5 items; some 15 ratings"),
        (lambda one: one.ratings.__setitem__(slice(0, 80), 4.0), "all 80 ratings are equal"),
        (lambda one: one.scores.__imul__(100), "different scales"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_reason(spoil: object, expected: str) -> None:
    sample = draw()
    spoil(sample)  # type: ignore[operator]
    found = aspect_of(records(sample))
    assert found.corrected is None
    assert expected in str(found.refused or "")


def test_skewed_values_are_refused_with_the_number_of_ratings() -> None:
    scores = np.where(np.arange(1_000) % 10 == 0, 1.0, 3.0)
    ratings = np.where(np.arange(1_000) < 20, scores, nan)
    found = correct(CorrectedSample(scores, ratings, np.arange(1_000)), CorrectionOptions(bounds=(1, 3)))
    assert found.corrected is None
    assert found.needed == 22  # three times the squared skewness, (1 - 0.2)² / 0.09
    more = np.where(np.arange(1_000) < 30, scores, nan)
    assert (
        correct(CorrectedSample(scores, more, np.arange(1_000)), CorrectionOptions(bounds=(1, 3))).corrected is not None
    )


def test_a_rating_that_outweighs_all_others_is_no_estimate() -> None:
    sample = draw()
    for least, refused in ((1e-12, "80 ratings count as 1.0"), (1e-300, "count as 1.0"), (0.02, None)):
        weights = np.where(np.arange(400) == 0, 1 / least, 4.0)
        found = correct(replace(sample, weights=weights), CorrectionOptions(bounds=(1, 5)))
        assert (found.human is None, found.corrected is None) == (refused is not None,) * 2
        assert (refused or "") in str(found.refused or "")


def test_all_ratings_of_one_dialogue_are_too_few_dialogues() -> None:
    found = aspect_of(records(draw(), dialogue="d1"), ranges={"overall": (1, 5)})
    assert found.corrected is None
    assert f"{FEWEST_RATED} dialogues" in str(found.refused or "")


def test_a_constant_judge_adds_nothing_and_the_report_says_so() -> None:
    sample = draw()
    found = aspect_of(
        records(CorrectedSample(np.full(400, 3.0), sample.ratings, sample.clusters)), ranges={"overall": (1, 5)}
    )
    assert found.corrected is not None
    assert found.corrected.weight == 0
    assert found.human is not None
    assert found.corrected.mean == found.human.mean
    assert "the judge adds nothing" in str(found.notes[0])


def test_ratings_of_unscored_items_are_left_out_and_counted() -> None:
    rows = records(draw())
    rows.append({"system": "a", "item": "nobody scored it", "ratings": {"overall": 1}})
    found = aspect_of(rows, ranges={"overall": (1, 5)})
    assert (found.left_out, found.rated) == (1, 80)
    assert "1 rated item left out" in str(found.notes[0])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ratings": {"overall": 7}}, "off its scale from 1 to 5"),
        ({"scores": {"overall": 70}}, "off its scale from 1 to 5"),
        ({"probability": 0}, "probability is 0"),
        ({"probability": 1.5}, "probability is 1.5"),
        ({"probability": "much"}, "probability"),
    ],
)
def test_values_off_their_range_are_refused(row: dict[str, object], expected: str) -> None:
    rows: list[dict[str, object]] = records(draw(items=30, rated=20))
    rows.append({"system": "a", "item": "x", "scores": {"overall": 3}, **row})
    with pytest.raises(InvalidLines) as caught:
        read(rows, scales={"overall": (1.0, 5.0)}, scale_scores=True)
    assert expected in str(caught.value.faults[0][1])
    assert caught.value.faults[0][0] == 31


def test_a_rater_who_rates_twice_is_refused() -> None:
    rows = records(draw(items=30, rated=20))
    rows.append({"system": "a", "item": "i0", "ratings": {"overall": 3}})
    with pytest.raises(InvalidLines, match="again"):
        read(rows)


def test_probabilities_are_for_all_rated_items_or_for_none() -> None:
    rows = records(draw())
    rows[0]["probability"] = 0.5
    with pytest.raises(InvalidRequest, match="some rated items"):
        report_corrected(read(rows))  # type: ignore[arg-type]


def test_a_table_has_probabilities_too() -> None:
    lines = [b"system,item,overall,score:overall,probability\n"]
    lines += [f"a,{number},{number % 5},{number % 4},{0.25 if number % 2 else 0.5}\n".encode() for number in range(40)]
    observations = read_csv(lines, ObservationReader())
    assert observations.probability is not None
    assert observations.probability[:3].tolist() == [0.5, 0.25, 0.5]


def test_levels_share_what_people_would_say() -> None:
    found = aspect_of(records(draw(items=1_000, rated=400)), ranges={"overall": (1, 5)})
    assert list(found.levels) == ["1", "2", "3", "4", "5"]
    assert sum(share.judge for share in found.levels.values()) == pytest.approx(1)
    middle = found.levels["3"].corrected
    assert middle is not None
    assert middle.interval is not None
    assert middle.interval[0] < 0.383 < middle.interval[1]  # Φ(0.5) − Φ(−0.5)


def test_more_ratings_halve_the_interval() -> None:
    sample = draw(items=4_000, rated=60)
    found = aspect_of(records(sample), ranges={"overall": (1, 5)})
    assert found.ratings_for_half_width is not None
    more = draw(items=4_000, rated=60 + found.ratings_for_half_width)
    wide, narrow = (
        estimate_corrected(one, weight=estimate_corrected(sample).weight).clustered.error for one in (sample, more)
    )
    assert narrow / wide == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("looks", ["once", "any"])
def test_as_many_more_ratings_as_told_bring_the_margin(looks: Looks) -> None:
    options = CorrectionOptions(bounds=(1, 5), looks=looks)
    first = draw(rated=60, items=2000)
    found = estimate_corrected(first)
    more = count_for_margin(first, found, options, 0.12)
    assert more is not None
    second = draw(rated=60 + more, items=2000)
    span = find_mean_interval(estimate_corrected(second), options.settle(second))
    assert span is not None
    assert (span[1] - span[0]) / 2 == pytest.approx(0.12, rel=0.12)
    assert count_for_margin(first, found, options, 0.5) == 0
    assert count_for_margin(first, found, options, 0.001) is None


def test_the_level_of_a_look_is_that_of_the_confidence_sequence() -> None:
    """By hand: with ρ²t = 8.78, √(2 · 9.78 / 8.78 · log(√9.78 / 0.05)) is 3.0354."""
    assert stats.norm.isf(find_level(0.05, 100) / 2) == pytest.approx(3.0354, abs=1e-4)
    assert find_level(0.05, 20) < 0.001
    for clusters in (20, 100, 1000):
        level = find_level(0.03, clusters)
        assert find_sequential_p(level, clusters) == pytest.approx(0.03)
    assert find_sequential_p(1.0, 50) == 1.0
    assert find_sequential_p(0.0, 50) == 0.0


def test_any_number_of_looks_widens_what_people_say_and_not_what_the_judge_says() -> None:
    rows = [{"system": "a", "item": f"{n}", "scores": {"x": 1 + n % 4}} for n in range(300)]
    for n in range(40):
        rows[n]["ratings"] = {"x": 1 + (n * 7) % 5}
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    once, every = (
        report_corrected(
            read_ndjson(BytesIO(lines), ObservationReader()), looks=looks, ranges={"x": (1, 5)}, margin=0.3
        )
        for looks in ("once", "any")
    )
    before, after = (one.systems["a"].aspects["x"] for one in (once, every))
    assert before.judge == after.judge
    for one, other in ((before.human, after.human), (before.corrected, after.corrected)):
        assert one is not None
        assert other is not None
        assert one.interval is not None
        assert other.interval is not None
        assert other.interval[0] < one.interval[0] < one.interval[1] < other.interval[1]
    assert (after.ratings_for_margin or 0) > (before.ratings_for_margin or 0) > 0


def test_the_report_holds_lambda_by_its_name() -> None:
    rows = [*records(draw(1), "a"), *records(draw(2, shift=0), "b")]
    told = json.loads(report_corrected(read(rows), ranges={"overall": (1, 5)}).model_dump_json())  # type: ignore[arg-type]
    assert 0 < told["systems"]["a"]["aspects"]["overall"]["corrected"]["lambda"] <= 1
    assert [(one["baseline"], one["candidate"]) for one in told["differences"]] == [("a", "b")]
    own = told["differences"][0]["aspects"]["overall"]
    assert own["judge"]["p"] < 0.01 < own["corrected"]["p"]


def test_what_would_take_minutes_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for name in "abc" for row in records(draw(items=30, rated=20), name)]
    monkeypatch.setattr("saiten_server.stats.corrected.MOST_PAIRS", 2)
    with pytest.raises(InvalidRequest, match="make 3 pairs; at most 2"):
        report_corrected(read(rows))  # type: ignore[arg-type]
    monkeypatch.setattr("saiten_server.stats.corrected.MOST_PAIRS", 3)
    monkeypatch.setattr("saiten_server.stats.corrected.MOST_CORRECTED_VALUES", 89)
    with pytest.raises(InvalidRequest, match="90 items of 3 systems by 1 aspect are too many"):
        report_corrected(read(rows))  # type: ignore[arg-type]
    monkeypatch.setattr("saiten_server.stats.corrected.MOST_CORRECTED_VALUES", 90)
    monkeypatch.setattr("saiten_server.stats.corrected.MOST_SHARED", 89)
    found = report_corrected(read(rows), ranges={"overall": (1, 5)})  # type: ignore[arg-type]
    assert found.systems["a"].aspects["overall"].levels == {}


@pytest.mark.parametrize(("talks", "rated", "together"), [(200, 30, 1), (200, 60, 3)])
def test_intervals_of_rare_faulty_turns_hold(talks: int, rated: int, together: int) -> None:
    row = run_turns(talks, rated, 0.05, together=together, runs=300)
    assert row.given > 0.85
    assert row.coverage is not None
    assert row.coverage >= 0.93


def test_few_large_rates_leave_few_degrees_of_freedom() -> None:
    people = np.array([0.0] * 20 + [-100.0, -40.0])
    sample = CorrectedSample(people, people, np.arange(22))
    found = [correct(sample, CorrectionOptions(bounds=(-100.0, 0.0), rates=rates)).human for rates in (False, True)]
    freedom = [one.clustered.freedom for one in found if one is not None]
    assert freedom[0] == 21
    assert 2 < freedom[1] < 6
    # What is spread evenly keeps nearly all.
    even = CorrectedSample(people, np.arange(-22.0, 0.0), np.arange(22))
    human = correct(even, CorrectionOptions(bounds=(-100.0, 0.0), rates=True)).human
    assert human is not None
    assert human.clustered.freedom > 20

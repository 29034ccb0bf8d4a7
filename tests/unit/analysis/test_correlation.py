"""Scores against humans: the published figures of UniEval, scipy, and data that give no figure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from app.analysis.correlation import correlate
from app.analysis.formats import read_ndjson
from app.analysis.reading import ObservationReader
from tests.support.observed import observe, observe_columns

UNIEVAL = {
    "natural": (0.444, 0.514),
    "maintains_context": (0.595, 0.613),
    "engaging": (0.557, 0.605),
    "uses_knowledge": (0.536, 0.575),
    "overall": (0.633, 0.663),
}
COLUMNS = st.integers(0, 15).flatmap(
    lambda n: arrays(np.float64, (2, n), elements=st.sampled_from([1, 2, 2.5, 7, math.nan]))
)


def correlated(scores, ratings, systems=None, **settings):
    observed = observe_columns({"a": np.array(ratings, float)}, {"a": np.array(scores, float)}, systems=systems)
    return correlate(observed, **{"resamples": 200, **settings}).aspects["a"]


def test_unieval_correlates_as_published(shared):
    with (shared / "data" / "topical_chat_usr.jsonl").open("rb") as file:
        report = correlate(read_ndjson(file, ObservationReader(scores_field="unieval")), resamples=200)
    found = {aspect: (report.aspects[aspect].pearson, report.aspects[aspect].spearman) for aspect in UNIEVAL}
    for aspect, figures in UNIEVAL.items():
        assert found[aspect] == pytest.approx(figures, abs=0.0005)
    overall = report.aspects["overall"]
    assert (report.systems, report.items, overall.n, overall.left_out) == (6, 360, 360, 0)
    assert overall.spearman_interval is not None
    assert overall.spearman_interval[0] < 0.663 < overall.spearman_interval[1]
    assert overall.ceiling is None
    assert overall.undefined == {"ceiling": "fewer than two raters are named"}


@settings(max_examples=50, deadline=None)
@given(COLUMNS)
def test_figures_are_scipys_and_none_is_null_without_a_word(columns):
    found = correlated(*columns, resamples=20)
    x, y = columns[:, ~np.isnan(columns).any(axis=0)]
    assert (found.n, found.left_out) == (len(x), columns.shape[1] - len(x))
    if len(x) >= 3 and np.ptp(x) and np.ptp(y):
        assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
        assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
        assert found.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
    else:
        assert found.spearman is found.pearson is found.kendall is None
    if len(x):
        assert found.bias == pytest.approx(x.mean() - y.mean(), abs=1e-12)
    null = {name for name, value in found.model_dump().items() if value is None}
    assert null == set(found.undefined)


@pytest.mark.parametrize(("statistic", "index"), [("spearman", 0), ("pearson", 1), ("kendall", 2)])
def test_intervals_are_near_scipys_bootstrap(statistic, index):
    generator = np.random.default_rng(3)
    x = generator.normal(size=120)
    y = np.round(x + generator.normal(size=120))
    function = (stats.spearmanr, stats.pearsonr, stats.kendalltau)[index]
    expected = stats.bootstrap(
        (x, y), lambda a, b: function(a, b).statistic, paired=True, vectorized=False, n_resamples=1000,
        method="percentile", random_state=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    found = getattr(correlated(x, y, resamples=2000), f"{statistic}_interval")
    assert found == pytest.approx((expected.low, expected.high), abs=0.03)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = {"spearman": 0, "pearson": 0, "kendall": 0, "bias": 0}
    truth = {"pearson": 0.6, "spearman": 6 / math.pi * math.asin(0.3), "kendall": 2 / math.pi * math.asin(0.6)}
    for seed in range(100):
        x, noise = np.random.default_rng(seed).normal(size=(2, 80))
        found = correlated(x + 0.25, 0.6 * x + 0.8 * noise, resamples=300, seed=seed)
        for name, value in {**truth, "bias": 0.25}.items():
            low, high = getattr(found, f"{name}_interval")
            held[name] += low <= value <= high
    assert min(held.values()) >= 88


def test_the_seed_makes_intervals_repeatable_and_aspects_do_not_move_each_other():
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    both = correlate(observe_columns({"b": y, "a": x}, {"b": x, "a": y}), resamples=100, seed=4)
    assert both.aspects["a"] == correlated(y, x, resamples=100, seed=4)
    assert both.aspects["a"].pearson_interval != correlated(y, x, resamples=100, seed=5).pearson_interval


def test_a_bias_has_an_interval_unless_it_is_the_same_everywhere():
    found = correlated([2, 3, 4], [1, 2, 3])
    assert (found.bias, found.bias_interval) == (1.0, None)
    assert found.undefined["bias_interval"] == "all differences are equal"
    moved = correlated([2, 3, 5], [1, 2, 3]).bias_interval
    assert moved is not None
    assert moved == pytest.approx((1, 2))


def test_raters_are_averaged_and_give_the_ceiling_on_the_same_items():
    records = []
    for item, (score, first, second) in enumerate([(1, 1, 2), (2, 2, 2), (3, 3, 4), (None, 9, 0)]):
        for rater, rating in (("r1", first), ("r2", second)):
            scores = {"a": score, "c": 1}
            records.append({"item": item, "rater": rater, "ratings": {"a": rating, "b": 1}, "scores": scores})
    report = correlate(observe(records), resamples=10)
    found = report.aspects["a"]
    # Rater means 1.5, 2, 3.5 against 1, 2, 3; the fourth item has no score.
    assert (found.n, found.left_out) == (3, 1)
    assert found.spearman == pytest.approx(1.0)
    assert found.pearson == pytest.approx(stats.pearsonr([1, 2, 3], [1.5, 2, 3.5])[0])
    assert found.ceiling is not None
    assert found.ceiling.raters == 2
    assert found.ceiling.spearman == pytest.approx(stats.spearmanr([1, 2, 3], [2, 2, 4])[0])
    assert report.unmatched == {"b": "only the ratings have it", "c": "only the scores have it"}


def test_a_ceiling_that_cannot_be_had_says_why():
    records = [
        {"item": item, "rater": rater, "ratings": {"a": item}, "scores": {"a": item}}
        for item, rater in [(1, "r1"), (2, "r2"), (3, "r1")]
    ]
    ceiling = correlate(observe(records), resamples=10).aspects["a"].ceiling
    assert ceiling is not None
    assert (ceiling.raters, ceiling.spearman) == (2, None)
    assert ceiling.undefined == dict.fromkeys(("spearman", "pearson"), "no two raters rated the same item")


def test_systems_are_compared_by_their_means():
    # Means of scores 2, 3, 10 and of ratings 1, 3, 2: ranks 1 2 3 and 1 3 2.
    found = correlated([1, 3, 3, 10, 10], [1, 1, 3, 2, 2], systems=[0, 0, 1, 2, 2]).system_level
    assert found is not None
    assert (found.n, found.spearman, found.kendall) == (3, pytest.approx(0.5), pytest.approx(1 / 3))
    assert found.pearson == pytest.approx(stats.pearsonr([2, 3, 10], [1, 3, 2])[0])


def test_two_systems_are_too_few_and_equal_means_have_no_correlation():
    assert correlated([1, 2, 3], [1, 2, 4], systems=[0, 1, 1]).undefined["system_level"]
    level = correlated([0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.2], [1, 2, 3, 1, 2, 3, 9], systems=[0, 0, 0, 1, 1, 1, 2])
    assert level.system_level is not None
    assert level.system_level.undefined["spearman"] == "all scores are equal"


def test_three_items_have_figures_but_no_interval():
    found = correlated([1, 2, 3], [1, 3, 2])
    assert found.spearman == pytest.approx(0.5)
    assert found.spearman_interval is None
    assert "resamples have no figure" in found.undefined["spearman_interval"]


def test_nothing_to_correlate_is_an_empty_report():
    report = correlate(observe([{"item": "1", "ratings": {"a": 1}}]))
    assert (report.aspects, report.unmatched) == ({}, {"a": "only the ratings have it"})

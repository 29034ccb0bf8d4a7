"""One absurd value among ordinary ones: every figure is still scipy's, and means that are equal in arithmetic tie."""

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.agreement import add_others, compare_raters, measure_agreement, named_ratings
from saiten_server.stats.correlation import correlate_scores
from tests.support.observed import observe, observe_columns, observe_table

ABSURD = [1e13, -1e15]


@pytest.mark.parametrize("absurd", ABSURD)
def test_correlations_are_scipys(absurd):
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + 0.3 * rng.normal(size=30)
    y[0] = absurd
    found = correlate_scores(observe_columns({"a": y}, {"a": x}), resamples=100).aspects["a"]
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert found.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    between = measure_agreement(observe_columns({"a": y, "b": x})).correlations
    assert between.spearman["a"]["b"] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert between.pearson["a"]["b"] == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)


@pytest.mark.parametrize("absurd", ABSURD)
def test_raters_are_held_against_the_others_as_scipy_does(absurd):
    table = np.random.default_rng(1).integers(1, 6, (4, 20)).astype(float)
    table[0, 7] = absurd
    found = compare_raters(named_ratings(observe_table(table), "natural"))
    # Means of three of the integers, as thirds: no rounding parts what is equal.
    others = [np.rint(np.delete(table, rater, axis=0).sum(axis=0)) for rater in range(4)]
    rhos = [stats.spearmanr(row, other).statistic for row, other in zip(table, others, strict=True)]
    rs = [stats.pearsonr(row, other).statistic for row, other in zip(table, others, strict=True)]
    assert found.spearman == pytest.approx(np.mean(rhos), abs=1e-12)
    assert found.pearson == pytest.approx(np.mean(rs), abs=1e-9)


def test_the_sum_of_the_others_loses_nothing_beside_a_large_one():
    unit = np.array([0, 1, 0, 1, 0, 2])
    values = np.array([1e15, 1.0, 0.25, 2.0, 0.5, 9.0])
    assert add_others(unit, values).tolist() == [0.75, 2.0, 1e15 + 0.5, 1.0, 1e15 + 0.25, 0.0]


def test_means_that_are_equal_in_arithmetic_tie_beside_an_absurd_value():
    assert (0.1 + 0.2 + 0.3) / 3 != (0.3 + 0.2 + 0.1) / 3
    rows = {"p": (0.1, 0.2, 0.3), "q": (0.3, 0.2, 0.1), "r": (1, 1, 1), "s": (1e13, 0, 0)}
    read = observe(
        [
            {"item": item, "rater": str(rater), "ratings": {"a": value}, "scores": {"a": place}}
            for place, (item, values) in enumerate(rows.items())
            for rater, value in enumerate(values)
        ]
    )
    found = correlate_scores(read, resamples=0).aspects["a"]
    # Ranks 1.5 1.5 3 4 against 1 2 3 4.
    assert found.spearman == pytest.approx(stats.spearmanr([1.5, 1.5, 3, 4], [1, 2, 3, 4]).statistic, abs=1e-12)


def test_aspects_without_a_correlation_are_told_by_both_names():
    constant = np.ones(3)
    varied = np.array([1.0, 2.0, 3.0])
    found = measure_agreement(observe_columns({"a~b": constant, "c": varied, "a": varied, "b~c": 2 * constant}))
    assert found.correlations.undefined == {
        "a~b": dict.fromkeys(("a~b", "c", "a", "b~c"), Message("ratings-of-equal", name="a~b")),
        "c": {"b~c": Message("ratings-of-equal", name="b~c")},
        "a": {"b~c": Message("ratings-of-equal", name="b~c")},
        "b~c": {"b~c": Message("ratings-of-equal", name="b~c")},
    }

"""Correlations from counted combinations: those of the results themselves."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from saiten.core.messages import Message
from saiten_server.core.reports import Correlations
from saiten_server.stats.agreement import correlate_aspects
from saiten_server.stats.correlation import Pattern, correlate_patterns
from saiten_server.stats.statistics import equalize

NAMES = ("warmth", "clarity", "tone")
VALUES = st.sampled_from([None, 1.0, 2.0, 2.0 + 1 / 3, 4.0, 5.0, -1.0])
RESULTS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=40)


def expand(results: list[tuple[float | None, ...]]) -> Correlations:
    """What the analysis of the results one by one answers."""
    table = np.array(results, dtype=np.float64).reshape(len(results), len(NAMES))
    return correlate_aspects({name: equalize(table[:, place]) for place, name in enumerate(NAMES)})


def count(results: list[tuple[float | None, ...]]) -> list[Pattern]:
    return [(values, count, None) for values, count in Counter(results).items()]


@given(RESULTS, st.integers(1, 4))
def test_the_matrices_are_those_of_the_results_one_by_one(results, times):
    found, expected = correlate_patterns(NAMES, count(results * times)), expand(results * times)
    assert (found.n, found.undefined) == (expected.n, expected.undefined)
    for a in NAMES:
        assert found.pearson[a] == pytest.approx(expected.pearson[a], abs=1e-9)
        assert found.spearman[a] == pytest.approx(expected.spearman[a], abs=1e-9)


def test_one_known_figure():
    # Ten results at (1, 1), ten at (2, 3) and one at (2, 1), by hand: r of the 21 pairs.
    patterns: list[Pattern] = [((1.0, 1.0), 10, None), ((2.0, 3.0), 10, None), ((2.0, 1.0), 1, None)]
    x, y = np.repeat([1, 2, 2], [10, 10, 1]), np.repeat([1, 3, 1], [10, 10, 1])
    found = correlate_patterns(("a", "b"), patterns)
    assert found.pearson["a"]["b"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.pearson["a"]["a"] == found.spearman["b"]["b"] == pytest.approx(1)


def test_what_cannot_be_had_says_why_and_rounding_is_no_difference():
    patterns: list[Pattern] = [
        ((0.1 + 0.2, 1.0, None), 3, None),
        ((0.3, 2.0, None), 3, None),
        ((0.3, None, 1.0), 2, None),
    ]
    found = correlate_patterns(NAMES, patterns)
    assert found.undefined["warmth"] == {
        "warmth": Message("ratings-of-equal", name="warmth"),
        "clarity": Message("ratings-of-equal", name="warmth"),
        "tone": Message("few-items-have-both", least=3),
    }
    assert found.undefined["clarity"] == {"tone": Message("few-items-have-both", least=3)}
    assert (found.n["tone"]["tone"], found.n["clarity"]["tone"]) == (2, 0)
    assert found.pearson["warmth"]["clarity"] is None
    assert found.pearson["clarity"]["clarity"] == pytest.approx(1)


def test_combinations_that_no_result_has_do_not_count():
    assert correlate_patterns(("a",), [((1.0,), 5, None), ((2.0,), 0, None)]).undefined == {
        "a": {"a": Message("ratings-of-equal", name="a")}
    }
    assert correlate_patterns(("a",), []).n == {"a": {"a": 0}}


def test_weights_are_as_so_many_results_each():
    """A result of weight 3 counts as three: the reference is scipy over the results repeated."""
    random = np.random.default_rng(3)
    x, y, weights = random.integers(1, 6, 40), random.integers(1, 6, 40), random.integers(1, 11, 40)
    y = np.where(random.random(40) < 0.6, x, y)
    patterns: list[Pattern] = [((a, b), 1, float(w)) for a, b, w in zip(x, y, weights, strict=True)]
    found = correlate_patterns(("a", "b"), patterns)
    whole = np.repeat(x, weights), np.repeat(y, weights)
    assert found.n["a"]["b"] == 40
    assert found.pearson["a"]["b"] == pytest.approx(pearsonr(*whole).statistic)
    assert found.spearman["a"]["b"] == pytest.approx(spearmanr(*whole).statistic)
    columns = {"a": x.astype(float), "b": y.astype(float)}
    again = correlate_aspects(columns, weights / weights.mean())
    assert again.spearman["a"]["b"] == pytest.approx(found.spearman["a"]["b"])
    assert again.pearson["a"]["b"] == pytest.approx(found.pearson["a"]["b"])

"""The agreement report: reference figures, matrices against scipy, and what cannot be had."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.reading import ObservationReader, read_ndjson
from tests.support.observed import observe, observe_columns, observe_table

COLUMNS = st.integers(0, 12).flatmap(
    lambda n: arrays(np.float64, (3, n), elements=st.sampled_from([1, 2, 2.5, 5, math.nan]))
)


IN_PAIRS = ("spearman", "pearson", "pairwise_spearman", "pairwise_pearson", "cohen_kappa", "icc")


def test_the_breakdown_labels_of_dbdc3_agree_as_published(shared):
    with (shared / "data" / "dbdc3_ja.jsonl").open("rb") as file:
        report = measure_agreement(read_ndjson(file, ObservationReader(labels={"O": 1, "T": 0.5, "X": 0})))
    found = report.aspects["label"]
    assert (report.systems, report.items, report.raters, report.ratings) == (2, 1000, 30, 30_000)
    assert (found.n, found.raters, found.compared, found.left_out) == (1000, 30, 30, 0)
    figures = (found.spearman, found.pearson, found.krippendorff_alpha, found.mean)
    assert figures == pytest.approx((0.551, 0.557, 0.317, 0.457), abs=0.0005)
    assert not found.undefined


def test_means_are_of_the_items_rater_means():
    # Items (1, 3) and (2): means 2 and 2; and (5, 5): mean 5. Mean 3, variance (1 + 1 + 4) / 2.
    report = measure_agreement(observe_table([[1, 2, 5], [3, math.nan, 5]]))
    found = report.aspects["natural"]
    assert (found.n, found.mean) == (3, 3.0)
    assert found.sd == pytest.approx(math.sqrt(3))
    assert statistics.stdev([2, 2, 5]) == pytest.approx(found.sd)
    assert report.ratings == 5


def test_an_item_of_two_systems_is_two():
    records = [{"system": system, "item": "1", "ratings": {"natural": 1}} for system in "AB"]
    assert measure_agreement(observe(records)).items == 2


@settings(deadline=None)
@given(COLUMNS)
def test_the_matrices_are_scipys_on_the_items_that_have_both(columns):
    means = dict(zip("abc", columns, strict=True))
    found = measure_agreement(observe_columns(means)).correlations
    for a, x in means.items():
        for b, y in means.items():
            both = ~np.isnan(x) & ~np.isnan(y)
            assert found.n[a][b] == both.sum()
            if both.sum() >= 3 and np.ptp(x[both]) and np.ptp(y[both]):
                assert found.spearman[a][b] == pytest.approx(stats.spearmanr(x[both], y[both])[0], abs=1e-9)
                assert found.pearson[a][b] == pytest.approx(stats.pearsonr(x[both], y[both])[0], abs=1e-9)
            else:
                assert found.spearman[a][b] is found.pearson[a][b] is None
                first, second = sorted((a, b))
                assert found.undefined[first][second]


@settings(deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.sampled_from([1, 2, math.nan])))
def test_no_figure_is_null_without_a_word(table):
    found = measure_agreement(observe_table(table)).aspects["natural"]
    null = {name for name, value in found.model_dump().items() if value is None}
    assert null == set(found.undefined)


def test_an_aspect_that_nobody_rated_has_no_figure():
    found = measure_agreement(observe([{"item": "1", "ratings": {"natural": None}}])).aspects["natural"]
    assert (found.n, found.left_out) == (0, 1)
    assert found.undefined == {
        "mean": Message("no-item-rated"),
        "sd": Message("one-item-rated"),
        "krippendorff_alpha": Message("no-rater"),
        "fleiss_kappa": Message("no-item-of-two-raters"),
        **dict.fromkeys(IN_PAIRS, Message("few-raters")),
    }


def test_what_the_figures_are_not_of_is_told():
    records = [{"item": n, "rater": r, "ratings": {"a": n % 3 if r in "AB" else 1}} for n in range(4) for r in "ABC"]
    records += [{"item": n, "rater": "D", "ratings": {"a": n}} for n in range(2)]
    records += [{"item": n, "ratings": {"a": n}} for n in range(3)]
    found = measure_agreement(observe(records)).aspects["a"]
    assert (found.n, found.raters, found.compared) == (4, 4, 2)
    assert found.notes == (
        Message("unnamed-ratings", ratings=Message("ratings", n=3)),
        Message("raters-share-few", left_out=1, raters=Message("raters", n=4), least=3),
        Message("raters-constant", left_out=1, raters=Message("raters", n=4)),
    )


def test_a_named_rater_beside_a_nameless_one_agrees_with_nobody():
    records = [{"item": n, "ratings": {"a": n}} for n in range(4)]
    records += [{"item": n, "rater": "A", "ratings": {"a": n}} for n in range(4)]
    found = measure_agreement(observe(records)).aspects["a"]
    assert found.undefined == {
        **dict.fromkeys(IN_PAIRS, Message("few-raters")),
        **dict.fromkeys(("krippendorff_alpha", "fleiss_kappa"), Message("no-item-of-two-raters")),
    }
    assert found.notes == (Message("unnamed-ratings", ratings=Message("ratings", n=4)),)


def test_without_ratings_the_report_is_empty():
    report = measure_agreement(observe([{"item": "1", "ratings": {}, "scores": {"natural": 1}}]))
    assert (report.aspects, report.ratings, report.items) == ({}, 0, 1)


def test_a_rater_who_rates_at_random_stands_out() -> None:
    levels = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    junk = [3, 1, 5, 2, 4, 5, 3, 1, 4, 2]
    observations = observe(
        {"item": str(item), "rater": rater, "ratings": {"x": column[item]}}
        for rater, column in (("hanako", levels), ("junk", junk), ("taro", levels))
        for item in range(10)
    )
    by_rater = measure_agreement(observations).aspects["x"].by_rater
    assert [*by_rater] == ["hanako", "junk", "taro"]
    assert by_rater["hanako"] == by_rater["taro"]
    assert (by_rater["hanako"] or 0.0) > 0.6
    assert abs(by_rater["junk"] or 0.0) < 0.4

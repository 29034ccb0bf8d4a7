"""Agreement between raters against the published package and plain loops, missing values and ties included."""

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.agreement import compare_raters, krippendorff_alpha, named_ratings
from tests.support.observed import observe_columns, observe_table

SCALES: list[list[float]] = [[1, 2, 3, np.nan], [0, 0.5, 1, np.nan], [0.1, 0.2, 0.3, 0.7, np.nan], [-1, 0, 1]]
TABLES = st.tuples(st.integers(1, 6), st.integers(1, 12), st.sampled_from(SCALES)).flatmap(
    lambda case: arrays(np.float64, case[:2], elements=st.sampled_from(case[2]))
)


def rated(table):
    return named_ratings(observe_table(table), "natural")


@settings(deadline=None)
@given(TABLES)
def test_alpha_is_the_published_packages(table):
    found = krippendorff_alpha(rated(table))
    pairable = table[:, (~np.isnan(table)).sum(axis=0) >= 2]
    values = np.unique(pairable[~np.isnan(pairable)])
    if len(values) < 2:
        assert isinstance(found, Message)
    else:
        expected = krippendorff.alpha(reliability_data=table, level_of_measurement="ordinal")
        assert found == pytest.approx(expected, abs=1e-9)


def test_alpha_by_hand():
    # Units (1, 1), (1, 2), (2, 2); value 1 three times, 2 three times: mid-ranks 2 and 5, so δ² = 9.
    # Observed: 2 ordered pairs of 9 in one unit of 2, over 6 values: 18 / 6 = 3.
    # Expected: 2 · 3 · 3 pairs of 9, over 6 · 5: 162 / 30 = 5.4. α = 1 − 3 / 5.4.
    assert krippendorff_alpha(rated([[1, 1, 2], [1, 2, 2]])) == pytest.approx(1 - 3 / 5.4, abs=1e-12)


def test_alpha_of_values_that_are_all_different():
    generator = np.random.default_rng(0)
    quality = generator.normal(size=2000)
    found = krippendorff_alpha(rated(quality + generator.normal(size=(3, 2000))))
    # On ranks, α is near the share of variance that raters have in common: 6/π · asin(½/2) = 0.483.
    assert found == pytest.approx(0.483, abs=0.03)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ([[1, np.nan], [np.nan, 2]], Message("no-item-of-two-raters")),
        ([[1, 1], [1, 1]], Message("shared-ratings-equal")),
        ([[1, 1, 2], [1, 1, np.nan]], Message("shared-ratings-equal")),
        ([[np.nan]], Message("no-rater")),
    ],
)
def test_alpha_says_why_there_is_none(table, reason):
    assert krippendorff_alpha(rated(table)) == reason


def compared_by_loops(table):
    """Each rater against the others, as method.md words it."""
    found = []
    for number, own in enumerate(table):
        others = np.delete(table, number, axis=0)
        shared = ~np.isnan(own) & (~np.isnan(others)).any(axis=0)
        mean = np.array([np.round(np.nanmean(column), 9) for column in others[:, shared].T])
        if shared.sum() >= 3 and np.ptp(own[shared]) and np.ptp(mean):
            found.append((stats.spearmanr(own[shared], mean)[0], stats.pearsonr(own[shared], mean)[0]))
    return found


@settings(deadline=None)
@given(TABLES)
def test_raters_are_compared_as_loops_over_scipy_do(table):
    found, expected = compare_raters(rated(table)), compared_by_loops(table)
    assert found.compared == len(expected)
    assert found.raters == (~np.isnan(table)).any(axis=1).sum()
    if expected:
        assert (found.spearman, found.pearson) == pytest.approx(np.mean(expected, axis=0), abs=1e-6)
        assert found.reason is None
    else:
        assert (found.spearman, found.pearson) == (None, None)
        assert found.reason


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ([[1, 2, 3]], Message("few-raters")),
        ([[1, 2, 3, np.nan], [np.nan] * 3 + [1]], Message("no-shared-item")),
        ([[2, 2, 2], [1, 2, 3]], Message("no-rater-shares-enough", least=3)),
        ([[1, 2], [1, 2]], Message("no-rater-shares-enough", least=3)),
    ],
)
def test_it_is_said_why_raters_cannot_be_compared(table, reason):
    assert compare_raters(rated(table)).reason == reason


def test_a_rater_who_never_varies_is_left_out_of_the_average():
    # The others of the first are (1+2)/2, (2+2)/2, (3+2)/2: in its own order. The third, always 2, says nothing.
    found = compare_raters(rated([[1, 2, 3], [1, 2, 3], [2, 2, 2]]))
    assert (found.raters, found.compared, found.few, found.constant) == (3, 2, 0, 1)
    assert found.spearman == pytest.approx(1.0)


def test_a_rater_who_shares_too_few_items_is_told_apart_from_one_who_never_varies():
    found = compare_raters(rated([[1, 2, 3, 4], [1, 2, 3, 4], [2, 2, 2, np.nan], [1, 4, np.nan, np.nan]]))
    assert (found.raters, found.compared, found.few, found.constant) == (4, 2, 1, 1)


def test_others_whose_ratings_cancel_do_not_vary():
    # The others of the first give 0.1, 0.2 and −0.3 in three orders: 0 each time, but for the last bits of the sums.
    table = [[1, 2, 3], [0.1, 0.2, -0.3], [0.2, -0.3, 0.1], [-0.3, 0.1, 0.2]]
    assert compare_raters(rated(table)).compared == 3


def test_ratings_without_a_rater_are_compared_with_none():
    found = named_ratings(observe_columns({"natural": np.array([1.0, 2, 3])}), "natural")
    assert len(found.values) == 0


def test_raters_may_be_compared_on_some_units_only():
    table = np.array([[1.0, 2, 3, 9], [1, 2, 3, 0]])
    some = named_ratings(observe_table(table), "natural", np.array([True, True, True, False]))
    assert compare_raters(some).spearman == pytest.approx(1.0)

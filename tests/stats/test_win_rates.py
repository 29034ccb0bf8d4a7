"""Who wins, ties apart; intervals against SciPy and statsmodels."""

from dataclasses import replace
from itertools import combinations
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from saiten.core.messages import Message
from saiten_server.stats.win_rates import compare_wins, find_wilson_interval, rate_wins
from tests.support.small_observations import observe


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(deadline=None)
def test_intervals_are_scipys_and_statsmodels(drawn):
    from statsmodels.stats.proportion import proportion_confint  # here: it brings pandas, which no other test needs

    wins, n = drawn
    found = find_wilson_interval(wins, n)
    plain = binomtest(wins, n).proportion_ci(0.95, method="wilson")
    assert found == pytest.approx((float(plain.low), float(plain.high)), abs=1e-12)
    assert found == pytest.approx(proportion_confint(wins, n, alpha=0.05, method="wilson"), abs=1e-12)
    assert 0 <= found[0] <= wins / n <= found[1] <= 1


def rows_of(table, aspect="overall"):
    """Rows of {system: values}, None where the system did not answer, NaN where its answer has no value."""
    return [
        (system, f"c{number}", {aspect: value})
        for system, values in table.items()
        for number, value in enumerate(values)
        if value is not None
    ]


def test_wins_and_ties_of_three_systems():
    """Contexts 0 and 1 go to p, 2 to q, 3 is a tie of p and r, 4 of all; in 5 r has no value, in 6 it did not answer.

    2 wins of 5 by Wilson: (2 + 1.92073) / (5 + 3.84146) = 0.44344 ± 1.95996 / 8.84146 · √(2 · 3 / 5 + 0.96036)
    = 0.44344 ± 0.32583.
    """
    table = {
        "p": [5, 4, 1, 3, 2, 5, 1],
        "q": [1, 1, 4, 1, 2, 1, 5],
        "r": [1, 3, 2, 3, 2, nan, None],
    }
    report = rate_wins(observe(rows_of(table)))
    found = report.aspects["overall"]
    assert (report.contexts, found.contexts, found.left_out, report.undefined) == (7, 5, 2, {})
    assert {name: one.wins for name, one in found.systems.items()} == {"p": 2, "q": 1, "r": 0}
    assert (found.ties.wins, found.ties.share) == (2, 0.4)
    assert found.systems["p"].share == 0.4
    assert found.systems["p"].interval == pytest.approx((0.11762, 0.76928), abs=1e-4)
    # p against q: contexts 0, 1, 3, 5 to 2, 6, one tie.
    pair = next(one for one in found.pairs if (one.a, one.b) == ("p", "q"))
    assert (pair.contexts, pair.left_out, pair.a_wins.wins, pair.b_wins.wins, pair.ties.wins) == (7, 0, 4, 2, 1)
    assert pair.preference == pytest.approx(4 / 6)
    assert pair.preference_interval == find_wilson_interval(4, 6)
    assert [(one.a, one.b, one.contexts, one.left_out) for one in found.pairs[1:]] == [
        ("p", "r", 5, 2),
        ("q", "r", 5, 2),
    ]


def test_two_systems_have_one_pair_with_the_same_figures():
    found = rate_wins(observe(rows_of({"p": [1, 2, 3], "q": [3, 2, 1]}))).aspects["overall"]
    (pair,) = found.pairs
    assert (pair.a_wins, pair.b_wins, pair.ties) == (found.systems["p"], found.systems["q"], found.ties)
    assert pair.preference == 0.5


def test_a_context_of_one_system_is_counted_as_left_out():
    report = rate_wins(observe([*rows_of({"p": [1, 2], "q": [2, 1]}), ("p", "alone", {"overall": 5.0})]))
    found = report.aspects["overall"]
    assert (report.contexts, found.contexts, found.left_out, found.pairs[0].left_out) == (3, 2, 1, 1)


def test_raters_are_averaged():
    """p's ratings 1 and 5 mean 3, q's 2 and 2.5 mean 2.25."""
    rows = [("p", "c", {"a": 1.0}), ("q", "c", {"a": 2.0}), ("p", "c", {"a": 5.0}), ("q", "c", {"a": 2.5})]
    found = rate_wins(observe(rows)).aspects["a"]
    assert (found.contexts, found.systems["p"].wins) == (1, 1)


def test_rounding_is_not_a_win():
    assert 0.1 + 0.2 > 0.3
    table = {"p": [0.1 + 0.2, 1.0], "q": [0.3, 1.0 + 1e-6]}
    found = rate_wins(observe(rows_of(table))).aspects["overall"]
    assert (found.ties.wins, found.systems["p"].wins, found.systems["q"].wins) == (1, 0, 1)
    for pair in (found.pairs[0], compare_wins("q", "p", *np.array([[0.3, 1.0 + 1e-6], [0.1 + 0.2, 1.0]]))):
        assert pair.ties.wins == pair.a_wins.wins + pair.b_wins.wins == 1


def test_scores_are_rated_where_there_are_no_ratings():
    rated = observe(rows_of({"p": [1, 2], "q": [2, 1]}))
    scored = replace(rated, ratings={}, scores=rated.ratings)
    assert rate_wins(scored) == rate_wins(rated)


CELL = st.sampled_from([1.0, 2.0, 3.0, nan, None])


@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.lists(CELL, min_size=k, max_size=k), max_size=12)))
@settings(deadline=None, max_examples=200)
def test_counts_are_those_of_a_plain_loop(contexts):
    rows = [
        ("wxyz"[place], f"c{number}", {"a": value})
        for number, context in enumerate(contexts)
        for place, value in enumerate(context)
        if value is not None
    ]
    observed = observe(rows)
    report = rate_wins(observed)
    assert "NaN" not in report.model_dump_json()
    if not rows:
        assert report.aspects == {}
        return
    found, systems = report.aspects["a"], observed.systems
    answered = {item: {s: r["a"] for s, i, r in rows if i == item and not isnan(r["a"])} for _, item, _ in rows}
    assert report.contexts == len(answered)
    complete = [values for values in answered.values() if len(values) == len(systems) > 1]
    won = [[name for name, value in values.items() if value == max(values.values())] for values in complete]
    assert (found.contexts, found.left_out) == (len(complete), len(answered) - len(complete))
    for name in systems:
        assert found.systems[name].wins == won.count([name])
    assert found.ties.wins == sum(len(names) > 1 for names in won)
    assert [(pair.a, pair.b) for pair in found.pairs] == list(combinations(systems, 2))
    for pair in found.pairs:
        both = [(v[pair.a], v[pair.b]) for v in answered.values() if pair.a in v and pair.b in v]
        assert (pair.contexts, pair.left_out) == (len(both), len(answered) - len(both))
        assert pair.a_wins.wins == sum(a > b for a, b in both)
        assert pair.b_wins.wins == sum(a < b for a, b in both)
        assert pair.ties.wins == sum(a == b for a, b in both)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"p": [1, 2, 3]}, Message("one-system-to-win")),
        ({"p": [1, None], "q": [None, 1]}, Message("no-context-of-all-systems")),
        ({"p": [1, nan], "q": [nan, 1]}, Message("no-context-of-all-systems")),
        ({"p": [nan], "q": [nan]}, Message("no-context-has-value")),
    ],
)
def test_what_cannot_be_rated_says_why(table, why):
    found = rate_wins(observe(rows_of(table))).aspects["overall"]
    assert (found.contexts, found.left_out) == (0, max(map(len, table.values())))
    assert all((one.wins, one.share, one.interval) == (0, None, None) for one in (*found.systems.values(), found.ties))
    assert set(found.undefined) == {"systems", "ties"}
    assert all(why == reason for reason in found.undefined.values())
    for pair in found.pairs:
        assert (pair.contexts, pair.preference, pair.preference_interval) == (0, None, None)
        assert set(pair.undefined) == {"a_wins", "b_wins", "ties", "preference", "preference_interval"}


def test_systems_that_share_no_context_say_so():
    report = rate_wins(observe(rows_of({"p": [1, None], "q": [None, 1]})))
    assert report.undefined == {"aspects": Message("no-shared-context")}


def test_only_ties_have_no_preference():
    found = compare_wins("p", "q", np.array([2.0, 2.0, nan]), np.array([2.0, 2.0, 1.0]))
    assert (found.contexts, found.left_out, found.ties.wins, found.ties.share) == (2, 1, 2, 1.0)
    assert found.preference is None
    assert found.undefined == dict.fromkeys(("preference", "preference_interval"), Message("all-ties"))


def test_no_context_at_all():
    found = compare_wins("p", "q", np.zeros(0), np.zeros(0))
    assert (found.contexts, found.left_out, found.a_wins.share) == (0, 0, None)

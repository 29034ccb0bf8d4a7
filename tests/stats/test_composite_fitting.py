"""Composite weights: known ones come back, statsmodels agrees, and what cannot be fitted says why."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten.core.messages import Message
from saiten_server.core.errors import UnknownAspect
from saiten_server.core.rubric import LinearComposite
from saiten_server.stats.fitting import fit_composite
from tests.support.observed import observe_columns

MATE = LinearComposite.model_validate(
    {
        "id": "mate",
        "kind": "linear",
        "intercept": 3,
        "terms": [
            {"aspect": "factuality", "weight": 2.048, "transform": {"subtract": 3, "divide": 3}},
            {"aspect": "amount_info", "weight": -0.739, "transform": {"absolute": True}},
            {"aspect": "formality", "weight": -0.335, "transform": {"absolute": True}},
        ],
    }
)
TRUTH = {"factuality": 2.048, "amount_info": 0.739, "formality": 0.335}


def answers(n, seed, noise=0.4):
    """Ratings as the paper's equation makes them, with noise of that standard deviation."""
    generator = np.random.default_rng(seed)
    factuality = generator.integers(0, 10, n) / 3
    amount, formality = generator.integers(-3, 4, (2, n)) / 3
    acceptability = 3 + 2.048 * (factuality - 3) / 3 - 0.739 * np.abs(amount) - 0.335 * np.abs(formality)
    acceptability = acceptability + generator.normal(0, noise, n)
    return {"factuality": factuality, "amount_info": amount, "formality": formality, "acceptability": acceptability}


def fit(ratings, **settings):
    return fit_composite(observe_columns(ratings), MATE, "acceptability", **settings)


def test_known_weights_come_back_within_their_intervals():
    held = dict.fromkeys(TRUTH, 0)
    for seed in range(200):
        found = fit(answers(150, seed), seed=seed)
        for name, weight in TRUTH.items():
            interval = found.intervals[name]
            assert interval is not None
            held[name] += interval[0] <= weight <= interval[1]
    assert min(held.values()) >= 180


def test_without_noise_they_come_back_exactly():
    found = fit(answers(50, 0, noise=0))
    assert found.weights == pytest.approx(TRUTH, abs=1e-9)
    assert found.declared == pytest.approx(TRUTH)
    assert (found.pearson, found.declared_pearson) == pytest.approx((1, 1))
    assert (found.composite, found.target, found.undefined) == ("mate", "acceptability", {})


def test_a_fifth_is_held_out_by_seed_and_items_with_gaps_are_left_out():
    ratings = answers(50, 1)
    ratings["formality"][:10] = np.nan
    ratings["acceptability"][5:12] = np.nan
    found = fit(ratings, seed=3)
    assert (found.n, found.left_out, found.train, found.test) == (38, 12, 30, 8)
    assert fit(ratings, seed=3) == found
    assert fit(ratings, seed=4).weights != found.weights


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(8, 60))
def test_weights_and_intervals_are_those_of_statsmodels(seed, n):
    import statsmodels.api as sm  # here: it brings pandas, which no other test needs

    ratings = answers(n, seed)
    found = fit(ratings, test_share=0.0)
    x = np.column_stack(
        [
            (ratings["factuality"] - 3) / 3,
            -np.abs(ratings["amount_info"]),
            -np.abs(ratings["formality"]),
        ]
    )
    expected = sm.OLS(ratings["acceptability"] - 3, x).fit()
    assert list(found.weights.values()) == pytest.approx(expected.params, abs=1e-9)
    for interval, (low, high) in zip(found.intervals.values(), expected.conf_int(), strict=True):
        assert interval == pytest.approx((low, high), abs=1e-6)


def test_raters_are_averaged():
    ratings = answers(40, 2, noise=0)
    observed = observe_columns({name: np.concatenate([column, column]) for name, column in ratings.items()})
    doubled = type(observed)(**{**vars(observed), "item": np.tile(np.arange(40), 2)})
    found = fit_composite(doubled, MATE, "acceptability")
    assert found.n == 40
    assert found.weights == pytest.approx(TRUTH, abs=1e-9)


def test_an_aspect_may_stand_in_two_terms():
    bent = LinearComposite.model_validate(
        {
            "id": "bent",
            "kind": "linear",
            "terms": [
                {"aspect": "a", "weight": -2, "transform": {"subtract": 2, "absolute": True}},
                {"aspect": "a", "weight": 1},
            ],
        }
    )
    a = np.arange(10.0)
    found = fit_composite(observe_columns({"a": a, "y": -2 * np.abs(a - 2) + a}), bent, "y")
    assert found.weights == pytest.approx({"a": 2, "a (2)": 1})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"formality": 0}, Message("term-is-zero", term="formality")),
        ({"formality": 5e-324}, Message("term-is-zero", term="formality")),
        ({"factuality": 0, "amount_info": 1}, Message("terms-depend")),
        (
            {"acceptability": np.nan},
            Message("fewer-items-than-weights", items=Message("items", n=0), weights=Message("weights", n=3)),
        ),
    ],
)
def test_what_cannot_be_fitted_says_why(change, reason):
    ratings = answers(20, 0)
    for name, value in change.items():
        ratings[name] = np.full(20, float(value))
    found = fit(ratings)
    assert set(found.weights.values()) == set(found.intervals.values()) == {None}
    assert found.pearson is None
    assert {found.undefined[name] for name in ("weights", "intervals", "pearson")} == {reason}


def test_as_many_items_as_weights_leave_no_interval():
    ratings = {
        "factuality": np.array([0.0, 1, 3]),
        "amount_info": np.array([0.0, 1, 1]),
        "formality": np.array([1.0, 0, -1]),
        "acceptability": np.array([1.0, 2, 3]),
    }
    found = fit(ratings, test_share=0.0)
    assert None not in found.weights.values()
    assert set(found.intervals.values()) == {None}
    assert found.undefined["intervals"] == Message("no-more-items-than-weights")
    assert found.undefined["pearson"] == Message("on-held-out-items", reason=Message("few-items-have-both", least=3))


def test_held_out_items_that_are_all_alike_have_no_correlation():
    ratings = answers(20, 0)
    ratings["acceptability"] = np.full(20, 2.0)
    found = fit(ratings)
    assert found.undefined["declared_pearson"] == Message("on-held-out-items", reason=Message("ratings-equal"))


def test_an_aspect_that_nobody_rated_is_named_with_the_nearest():
    with pytest.raises(UnknownAspect, match="'acceptable' has no ratings; did you mean 'acceptability'"):
        fit_composite(observe_columns(answers(5, 0)), MATE, "acceptable")
    with pytest.raises(UnknownAspect, match=r"the aspect 'factuality' has no ratings$"):
        fit_composite(observe_columns({"acceptability": np.ones(3)}), MATE, "acceptability")


def test_the_order_of_the_lines_moves_no_held_out_item():
    ratings = answers(30, 1)
    observed = observe_columns(ratings)
    order = np.random.default_rng(0).permutation(30)
    shuffled = replace(
        observed, item=observed.item[order], ratings={name: column[order] for name, column in ratings.items()}
    )
    found = fit_composite(observed, MATE, "acceptability", seed=4)
    again = fit_composite(shuffled, MATE, "acceptability", seed=4)
    assert again.weights == pytest.approx(found.weights)
    assert again.pearson == pytest.approx(found.pearson)

"""Composites over ratings, with the arithmetic shown."""

from pathlib import Path

import pytest

from saiten_server.core.rubric import compose, compose_runs, depends_on_runs
from saiten_server.scoring.rubrics.files import default_folder, read_rubric_file
from tests.support.fake_rubrics import small_rubric

SUPPORT = Path(__file__).parents[1] / "support" / "rubrics"
COMMENT = read_rubric_file(default_folder() / "ko-comment.yaml")
ANSWER = read_rubric_file(SUPPORT / "lfqa-like.yaml")


@pytest.mark.parametrize(("sensible", "specific", "ssa"), [(1, 1, 1.0), (1, 0, 0.5), (0, 1, 0.5), (0, 0, 0.0)])
def test_ssa_is_the_mean_of_sensibleness_and_specificity(sensible, specific, ssa):
    ratings = {"sensibleness": sensible, "specificity": specific, "sympathy": 1 - sensible}
    assert compose(COMMENT, ratings) == {"ssa": ssa}


@pytest.mark.parametrize(
    ("factuality", "amount_info", "formality", "mate"),
    [
        # 3 + 2.048·0 − 0.739·0 − 0.335·0
        (3, 0, 0, 3.0),
        # 3 + 2.048·(−1/3) − 0.739·1 = 3 − 0.682666… − 0.739
        (2, -1, 0, 1.578333333),
        # |1| costs what |−1| costs
        (2, 1, 0, 1.578333333),
        # 3 + 2.048·(−1) − 0.739·1 − 0.335·1 = 3 − 3.122: the worst answer
        (0, 1, -1, -0.122),
        # means of samples: 3 + 2.048·(−0.5/3) − 0.335·0.5 = 3 − 0.341333… − 0.1675
        (2.5, 0, -0.5, 2.491166667),
    ],
)
def test_mate_weighs_the_transformed_aspects(factuality, amount_info, formality, mate):
    ratings = {"factuality": factuality, "amount_info": amount_info, "formality": formality}
    assert compose(ANSWER, ratings)["mate"] == pytest.approx(mate, abs=1e-9)


def test_composites_of_several_runs_are_averaged():
    # One reply too casual, one too stiff: both lose 0.335, although their mean is neither.
    samples = {"factuality": (3, 3), "amount_info": (0, 0), "formality": (-1, 1)}
    assert compose_runs(ANSWER, samples)["mate"] == pytest.approx(3 - 0.335)
    means = {"factuality": 3.0, "amount_info": 0.0, "formality": 0.0}
    assert compose(ANSWER, means)["mate"] == pytest.approx(3)
    assert depends_on_runs(ANSWER)
    assert not depends_on_runs(COMMENT)


def test_runs_in_which_an_aspect_is_unrated_do_not_count():
    samples = {"factuality": (3, None, 0), "amount_info": (0, 0, None), "formality": (0, 0, 0)}
    assert compose_runs(ANSWER, samples)["mate"] == pytest.approx(3)
    assert compose_runs(ANSWER, {**samples, "formality": (None, 0, 0)})["mate"] is None
    assert compose_runs(ANSWER, {})["mate"] is None


@pytest.mark.parametrize("ratings", [{"sensibleness": None, "specificity": 1}, {"specificity": 1}, {}])
def test_a_composite_of_an_unrated_aspect_is_unrated(ratings):
    assert compose(COMMENT, ratings) == {"ssa": None}


def test_a_rating_of_zero_is_not_unrated():
    assert compose(ANSWER, {"factuality": 0, "amount_info": 0, "formality": 0})["mate"] == pytest.approx(0.952)


def test_an_unrated_aspect_spoils_only_the_composites_that_use_it():
    rubric = small_rubric(
        composites=[
            {"id": "both", "kind": "mean", "of": ["warmth", "clarity"]},
            {"id": "clear", "kind": "linear", "intercept": 1, "terms": [{"aspect": "clarity", "weight": 2}]},
        ]
    )
    # clear = 1 + 2 · 3
    assert compose(rubric, {"warmth": None, "clarity": 3}) == {"both": None, "clear": 7.0}


def test_an_aspect_may_stand_in_several_terms():
    terms = [
        {"aspect": "clarity", "weight": 1, "transform": {"subtract": 2, "absolute": True}},
        {"aspect": "clarity", "weight": 10},
    ]
    rubric = small_rubric(composites=[{"id": "bent", "kind": "linear", "terms": terms}])
    # |1 − 2| + 10 · 1
    assert compose(rubric, {"clarity": 1}) == {"bent": 11.0}


def test_a_rubric_without_composites_has_none():
    assert compose(small_rubric(), {"warmth": 1, "clarity": 2}) == {}

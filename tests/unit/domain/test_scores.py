"""Scores: taken from evaluations, packed and unpacked without loss."""

from __future__ import annotations

import pytest

from app.domain.batch import Failure
from app.domain.conversation import FaultyTurns
from app.domain.evaluation import AspectResult, PathResult, Paths, Unrated, Warned
from app.domain.summary import Scores, failed_scores, pack_scores, scores_of, unpack_scores
from tests.support.records import make_record

REFUSED = AspectResult(
    rating=None,
    scale=(0, 1),
    label=None,
    samples=(None,),
    mean=None,
    sd=None,
    unrated=Unrated(reason="refused", detail="it would not"),
)


def test_an_evaluation_gives_its_means_blends_reasons_and_ratings():
    evaluation = make_record(status="partial").evaluation
    evaluation = evaluation.model_copy(update={"aspects": {**evaluation.aspects, "coherence": REFUSED}})
    assert scores_of(evaluation, "c0") == Scores(
        status="partial",
        aspects={"naturalness": (3.0, 3.41, None, 3), "coherence": (None, None, "refused", None)},
        composites={"ssa": None},
        warnings=("baseline-judge",),
        system="甲",
        context="c0",
    )


def test_a_warning_given_in_two_places_counts_once():
    twice = tuple(Warned(code="suspected-injection", where=where, detail="…") for where in ("response", "context/0"))
    assert scores_of(make_record(warnings=twice).evaluation, None).warnings == ("suspected-injection",)


@pytest.mark.parametrize(("sensitive", "expected"), [(True, ("a", "translation-sensitive")), (False, ("a",))])
def test_ratings_that_hang_on_the_translation_are_warned_of(sensitive, expected):
    evaluation = make_record(warnings=(Warned(code="a", where="judge", detail="…"),)).evaluation
    result = PathResult(aspects=evaluation.aspects, composites={}, relevance=None, signature="s")
    paths = Paths(source=result, english=result, difference={}, translation_sensitive=sensitive)
    assert scores_of(evaluation.model_copy(update={"paths": paths}), None).warnings == expected


def test_a_failure_has_no_scores_but_its_code():
    scores = failed_scores(Failure(code="judge-reply-invalid", detail="nothing rated"))
    assert scores == Scores(status="failed", aspects={}, composites={}, failure="judge-reply-invalid")


@pytest.mark.parametrize(
    "scores",
    [
        Scores("scored", {"自然さ": (1 / 3, -0.1 + 0.7, None, -1)}, {"ssa": 0.5, "mate": None}, ("a", "b")),
        Scores("scored", {}, {}, similarity=-0.125, system="bot|a", context="0f"),
        Scores("partial", {"a": (None, None, "content-filter", None)}, {}),
        Scores("failed", {}, {}, failure="judge-reply-invalid"),
        Scores("scored", {}, {}, faulty=FaultyTurns(4, {"judge": [0, 3]}), spread=0.25, build="b2"),
    ],
)
def test_packing_loses_nothing(scores):
    text = pack_scores(scores)
    assert "\n" not in text
    assert unpack_scores(text) == scores
    assert all(isinstance(figures, tuple) for figures in unpack_scores(text).aspects.values())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"s":"scored","a":{"x":[1,2,3]}}', '{"s":"scored","a":[]}'])
def test_what_was_not_packed_here_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        unpack_scores(text)

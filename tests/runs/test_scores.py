"""Figures of a result: taken from evaluations, written as columns and read without loss."""

from types import SimpleNamespace

import pytest

from saiten_server.core.batch import Failure
from saiten_server.core.conversation import FaultyTurns
from saiten_server.core.evaluation import AspectResult, PathResult, Paths, Unrated, Warned
from saiten_server.runs.store.rows import describe_figures, extend_measures
from saiten_server.runs.summary import ResultFigures, measure_evaluation, measure_failure
from tests.support.figures import make_figures, read_figures
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
    assert measure_evaluation(evaluation, "c0") == make_figures(
        status="partial",
        aspects={"naturalness": (3.0, 3.41, None, 3), "coherence": (None, None, "refused", None)},
        composites={"ssa": None},
        warnings=("baseline-judge",),
        system="甲",
        context="c0",
    )


def test_a_warning_given_in_two_places_counts_once():
    twice = tuple(Warned(code="suspected-injection", where=where, detail="…") for where in ("response", "context/0"))
    assert measure_evaluation(make_record(warnings=twice).evaluation, None).warnings == ("suspected-injection",)


@pytest.mark.parametrize(("sensitive", "expected"), [(True, ("a", "translation-sensitive")), (False, ("a",))])
def test_ratings_that_hang_on_the_translation_are_warned_of(sensitive, expected):
    evaluation = make_record(warnings=(Warned(code="a", where="judge", detail="…"),)).evaluation
    result = PathResult(aspects=evaluation.aspects, composites={}, relevance=None, signature="s")
    paths = Paths(source=result, english=result, difference={}, translation_sensitive=sensitive)
    assert measure_evaluation(evaluation.model_copy(update={"paths": paths}), None).warnings == expected


def test_a_failure_has_no_scores_but_its_code():
    scores = measure_failure(Failure(code="judge-reply-invalid", detail="nothing rated"))
    assert scores == ResultFigures("failed", {}, failure="judge-reply-invalid")


@pytest.mark.parametrize(
    "figures",
    [
        make_figures("scored", {"自然さ": (1 / 3, -0.1 + 0.7, None, -1)}, {"ssa": 0.5}, warnings=("a", "b")),
        ResultFigures("scored", {}, similarity=-0.125, system="bot|a", context="0f"),
        make_figures("partial", {"a": (None, None, "content-filter", None), "b": (None, None, None, None)}, {}),
        make_figures("scored", {f"a{number}": (number / 7, None, None, 1) for number in range(50)}, {}),
        ResultFigures("failed", {}, failure="judge-reply-invalid"),
        ResultFigures("scored", {}, faulty=FaultyTurns(4, {"judge": [0, 3]}), spread=0.25, build="b2"),
    ],
)
def test_columns_lose_nothing(figures: ResultFigures) -> None:
    measures = extend_measures((), [figures])
    columns = describe_figures(figures, measures, 40)
    row = SimpleNamespace(**{f"figure_{name}": value for name, value in columns.items()})
    assert read_figures(row, measures) == figures

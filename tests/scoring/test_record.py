"""Ratings, blended values and paths, with the arithmetic shown."""

from dataclasses import replace
from typing import Any

import pytest

from saiten_server.core.evaluation import AspectResult, PathResult, RelevanceResult, Unrated
from saiten_server.providers.ports import Verdict
from saiten_server.scoring.record import (
    blend_aspect,
    compare_paths,
    rate_samples,
    status_of,
    warn_of_relevance,
    warn_of_samples,
)
from tests.support.small_rubrics import joint_rubric

MISSING = Unrated(reason="missing", detail="not there")
ASPECT = next(aspect for aspect in joint_rubric().aspects if aspect.scale == (1, 3))


def relevance(score: float | None = 0.731, baseline: float = 0.69, **more: object) -> RelevanceResult:
    fields = {"score": score, "baseline": baseline, "baseline_source": "calibration", "weight": 10.0, "encoder": "e"}
    return RelevanceResult.model_validate({**fields, **more})


def rated(rating: int | None, mean: float | None = None) -> AspectResult:
    unrated = MISSING if rating is None else None
    value = mean if mean is not None else rating
    return AspectResult(
        rating=rating,
        scale=(1, 3),
        label=None,
        samples=(rating,),
        mean=value,
        sd=0.0 if rating else None,
        unrated=unrated,
    )


def test_one_sample() -> None:
    result = rate_samples(ASPECT, Verdict(samples=(3,)), "ja")
    assert (result.rating, result.mean, result.sd, result.samples) == (3, 3.0, 0.0, (3,))
    assert result.label == ASPECT.level(3).label["ja"]


@pytest.mark.parametrize("rating", [1, 2, 3])
def test_a_bare_rating_is_reported_as_any_other(rating: int) -> None:
    verdict = Verdict(samples=(rating,))
    found = rate_samples(ASPECT, verdict, "ja")
    reasoned = rate_samples(ASPECT, replace(verdict, reason="so"), "ja")
    assert found == reasoned.model_copy(update={"reason": None})
    assert found.model_fields_set == reasoned.model_fields_set
    assert rate_samples(ASPECT, verdict, "ja") is found
    assert rate_samples(ASPECT, verdict, "en").label == ASPECT.level(rating).label["en"]


@pytest.mark.parametrize("more", [{"reason": "so"}, {"expected": 2.5, "off_scale_mass": 0.1}, {"off_scale_mass": 0.2}])
def test_what_is_said_beside_a_rating_is_reported(more: dict[str, Any]) -> None:
    result = rate_samples(ASPECT, Verdict(samples=(2,), **more), "ja")
    assert {name: getattr(result, name) for name in more} == more


def test_the_rating_of_several_samples_is_a_level_and_the_mean_stands_beside_it() -> None:
    result = rate_samples(ASPECT, Verdict(samples=(1, 3, 3, 2)), "ja")
    assert result.rating == 2  # lower median of 1 2 3 3
    assert result.mean == pytest.approx(9 / 4)
    # Deviations -1.25, 0.75, 0.75, -0.25: squares 1.5625 + 0.5625 + 0.5625 + 0.0625 = 2.75, over 4, root.
    assert result.sd == pytest.approx((2.75 / 4) ** 0.5)


def test_missing_samples_are_shown_and_not_counted() -> None:
    result = rate_samples(ASPECT, Verdict(samples=(MISSING, 3, 2)), "ja")
    assert result.samples == (None, 3, 2)
    assert (result.rating, result.mean, result.unrated) == (2, 2.5, None)


def test_no_sample_is_unrated() -> None:
    result = rate_samples(ASPECT, Verdict(samples=(MISSING, MISSING)), "ja")
    assert (result.rating, result.label, result.mean, result.sd, result.unrated) == (None, None, None, None, MISSING)


def test_blending() -> None:
    # 3 + 10 · (0.731 − 0.690) = 3.41, the contract's example.
    assert blend_aspect(rated(3), relevance()).blended == pytest.approx(3.41)
    # With samples c is their mean: 2.5 + 0.41.
    assert blend_aspect(rated(2, mean=2.5), relevance()).blended == pytest.approx(2.91)
    assert blend_aspect(rated(3), relevance()).rating == 3


def test_nothing_is_blended_without_both_terms() -> None:
    assert blend_aspect(rated(3), None).blended is None
    assert blend_aspect(rated(3), relevance(score=None)).blended is None
    assert blend_aspect(rated(None), relevance()).blended is None


def test_status() -> None:
    assert status_of([{"a": rated(1), "b": rated(2)}]) == "scored"
    assert status_of([{"a": rated(1), "b": rated(None)}]) == "partial"
    assert status_of([{"a": rated(None)}]) == "failed"


def test_both_paths_count_for_the_status() -> None:
    assert status_of([{"a": rated(1)}, {"a": rated(None)}]) == "partial"
    assert status_of([{"a": rated(1)}, {"a": rated(2)}]) == "scored"


def test_lost_samples_are_warned_of() -> None:
    four = rated(2).model_copy(update={"samples": (None, None, 2, None)})
    [warned] = warn_of_samples({"a": four, "b": rated(1), "c": rated(None)})
    assert (warned.code, warned.where) == ("samples-unrated", "aspects/a")
    assert warned.detail == "3 of 4 samples gave no valid rating"


@pytest.mark.parametrize(
    ("source", "english", "difference", "sensitive"),
    [(3, 2, -1.0, True), (2, 2, 0.0, False), (None, 2, None, False), (2, None, None, False)],
)
def test_paths(source: int | None, english: int | None, difference: float | None, sensitive: bool) -> None:
    def path(rating: int | None) -> PathResult:
        return PathResult(aspects={"a": rated(rating)}, composites={}, relevance=None, signature="s")

    paths = compare_paths(path(source), path(english))
    assert (paths.difference, paths.translation_sensitive) == ({"a": difference}, sensitive)


def test_a_cut_or_unknown_text_is_warned_of() -> None:
    codes = [warned.code for warned in warn_of_relevance(relevance(truncated=True, unknown_token_share=0.6))]
    assert codes == ["similarity-truncated", "similarity-unknown-tokens"]
    assert warn_of_relevance(relevance(unknown_token_share=0.5)) == ()
    assert warn_of_relevance(None) == ()

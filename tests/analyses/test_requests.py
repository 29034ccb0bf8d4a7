"""What callers may ask of the analyses."""

from typing import Any

import pytest

from saiten_server.analyses.requests import REQUESTS, CompositeFitRequest, HierarchyRequest, WinRatesRequest
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import InvalidDocument, validate
from tests.support.faults import said


def faults_of(name: str, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDocument) as caught:
        validate(REQUESTS[name], options, DEFAULT_LIMITS)
    return said(caught.value.faults)


@pytest.mark.parametrize("name", REQUESTS)
def test_options_have_defaults(name: str) -> None:
    request = validate(REQUESTS[name], {}, DEFAULT_LIMITS)
    assert (request.scores_field, request.label_aspect, request.batch_ids) == ("scores", "label", ())


def test_defaults_are_those_of_the_method() -> None:
    hierarchy = validate(HierarchyRequest, {}, DEFAULT_LIMITS)
    assert (hierarchy.alpha, hierarchy.method, hierarchy.values) == (0.01, "principal-axis", "ratings")
    assert validate(CompositeFitRequest, {}, DEFAULT_LIMITS).rubric == "lfqa"
    assert validate(WinRatesRequest, {}, DEFAULT_LIMITS).values is None


def test_batches_are_named_one_way_or_the_other() -> None:
    assert validate(REQUESTS["agreement"], {"batch": "ba_1"}, DEFAULT_LIMITS).batch_ids == ("ba_1",)
    assert validate(REQUESTS["agreement"], {"batches": ["ba_1", "ba_2"]}, DEFAULT_LIMITS).batch_ids == ("ba_1", "ba_2")


@pytest.mark.parametrize(
    ("options", "pointer", "first"),
    [
        ({"data": [1], "batch": "ba_1"}, "/batch", "data"),
        ({"data": [1], "batches": ["ba_1"]}, "/batches", "data"),
        ({"batch": "ba_1", "batches": ["ba_1"]}, "/batches", "batch"),
    ],
)
def test_there_is_one_source(options: dict[str, Any], pointer: str, first: str) -> None:
    assert faults_of("agreement", **options) == [(pointer, f"stands beside {first}; give one of them")]


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("agreement", "alpha", 0.01),
        ("agreement", "data", []),
        ("agreement", "aspects", []),
        ("agreement", "scores_field", ""),
        ("agreement", "labels", {"OX": 1.0}),
        ("agreement", "labels", {"O": "1"}),
        ("agreement", "rubric", "No/"),
        ("correlation", "resamples", 99),
        ("correlation", "resamples", 20_001),
        ("correlation", "seed", -1),
        ("correlation", "seed", 2**32),
        ("hierarchy", "alpha", 0),
        ("hierarchy", "alpha", 0.5),
        ("hierarchy", "alpha", 1e-17),
        ("corrected", "alpha", 1e-17),
        ("hierarchy", "alpha", "0.01"),
        ("hierarchy", "method", "axis"),
        ("hierarchy", "values", "both"),
        ("blend-fit", "folds", 1),
        ("blend-fit", "folds", 21),
        ("blend-fit", "statistic", "kendall"),
        ("win-rates", "values", 1),
    ],
)
def test_what_does_not_fit_is_named(name: str, option: str, value: object) -> None:
    (fault,) = faults_of(name, **{option: value})
    assert fault[0].startswith(f"/{option}")

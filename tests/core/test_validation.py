"""Pointers to what does not fit lead into the document that was sent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten.core.faults import find_ancestors
from saiten_server.analyses.requests import AgreementRequest
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import MOST_FAULTS
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.validation import InvalidDocument, validate
from tests.support.faults import said
from tests.support.records import BODY

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"callback_url": "http://127.0.0.1:9/x"}, "/callback_url"),
    "unknown field with odd characters": ({"a/b~c": 1}, "/a~1b~0c"),
    "unknown field with a long name": ({"長" * 1000: 1}, "/" + "長" * 23 + "…"),
    "baseline is an object": ({"relevance": {"baseline": {}}}, "/relevance/baseline"),
    "one reference is blank": ({"reference": ""}, "/reference"),
    "17 references": ({"reference": ["はい"] * 17}, "/reference"),
    "text of an utterance": ({"context": [{"speaker": "甲", "text": ""}]}, "/context/0/text"),
    "missing speaker": ({"context": [{"text": "やあ"}]}, "/context/0/speaker"),
    "context is a string": ({"context": "おはよう"}, "/context"),
    "response is null": ({"response": None}, "/response"),
    "weight is a boolean": ({"relevance": {"weight": True}}, "/relevance/weight"),
    "weight is a text": ({"relevance": {"weight": "10"}}, "/relevance/weight"),
    "negative weight": ({"relevance": {"weight": -1}}, "/relevance/weight"),
    "baseline is neither": ({"relevance": {"baseline": "mean"}}, "/relevance/baseline"),
    "aspects repeated in a union": ({"relevance": {"aspects": "relevance"}}, "/relevance/aspects"),
    "no samples": ({"judge": {"samples": 0}}, "/judge/samples"),
    "17 samples": ({"judge": {"samples": 17}}, "/judge/samples"),
    "samples is a float": ({"judge": {"samples": 1.0}}, "/judge/samples"),
    "explain is a number": ({"judge": {"explain": 1}}, "/judge/explain"),
    "model with a line break": ({"judge": {"model": "a\nb"}}, "/judge/model"),
    "rubric is a path": ({"rubric": "../../../../etc/passwd"}, "/rubric"),
    "path is unknown": ({"path": "sideways"}, "/path"),
    "reference is a number": ({"reference": 5}, "/reference"),
    "second reference is blank": ({"reference": ["はい", " "]}, "/reference/1"),
    "17 metadata entries": ({"metadata": {f"k{i}": "v" for i in range(17)}}, "/metadata"),
    "metadata value is a number": ({"metadata": {"build": 7}}, "/metadata/build"),
}


@pytest.mark.parametrize(("change", "pointer"), FAULTS.values(), ids=FAULTS.keys())
def test_each_fault_is_pointed_at(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, **change}, DEFAULT_LIMITS)
    assert {where for where, _ in caught.value.faults} == {pointer}


def test_a_list_is_not_an_object() -> None:
    with pytest.raises(InvalidDocument, match="the document:"):
        validate(EvaluationRequest, [BODY], DEFAULT_LIMITS)


def test_the_message_never_holds_the_value() -> None:
    secret = "秘密" * 5000
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, "response": secret, "path": secret}, DEFAULT_LIMITS)
    assert "秘密" not in str(caught.value.faults) + caught.value.detail


def test_what_may_be_left_out() -> None:
    request = validate(EvaluationRequest, {key: BODY[key] for key in ("context", "response")}, DEFAULT_LIMITS)
    assert request.rubric == "ja-dialogue"
    assert request.path == "source"
    assert request.relevance is not None
    assert (request.relevance.weight, request.relevance.baseline) == (10.0, "calibration")
    assert validate(EvaluationRequest, {**BODY, "relevance": None}, DEFAULT_LIMITS).relevance is None
    assert validate(EvaluationRequest, {**BODY, "relevance": {"weight": 3}}, DEFAULT_LIMITS).relevance


def test_many_unknown_fields_are_named_briefly() -> None:
    made_up = {f"{number}-{'秘' * 50}": 1 for number in range(50)}
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, **made_up}, DEFAULT_LIMITS)
    assert said(caught.value.faults)[-1] == ("", "holds 42 more fields that are not known here")
    assert str(said(caught.value.faults)).count("秘") < 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"context": "x"}, "must be a list"),
        ({"judge": []}, "must be an object"),
        ({"judge": {"samples": "3"}}, "must be an integer"),
        ({"judge": {"explain": 1}}, "must be true or false"),
        ({"path": "up"}, "must be one of 'source', 'english', 'both'"),
        ({"reference": ["はい"] * 17}, "at most 16 references may be given; this has 17"),
        ({"relevance": {"weight": -1}}, "should be greater than or equal to 0"),
    ],
)
def test_messages_are_in_the_words_of_json(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, **change}, DEFAULT_LIMITS)
    assert [str(what) for _, what in caught.value.faults] == [words]


def test_one_reference_is_a_list_of_one() -> None:
    assert validate(EvaluationRequest, {**BODY, "reference": "はい"}, DEFAULT_LIMITS).references == ("はい",)
    assert validate(EvaluationRequest, {**BODY, "reference": ["はい", "ええ"]}, DEFAULT_LIMITS).references == (
        "はい",
        "ええ",
    )
    assert validate(EvaluationRequest, BODY, DEFAULT_LIMITS).references == ()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"reference": [0] * 30_000}, "/reference"),
        ({"metadata": {str(number): 0 for number in range(30_000)}}, "/metadata"),
        ({str(number): 0 for number in range(30_000)}, ""),
        ({"context": [{"speaker": "A", "text": "b", **dict.fromkeys(map(str, range(100)))}] * 200}, "/context"),
    ],
)
def test_a_document_with_too_many_values_is_refused_before_they_are_read(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, **change}, DEFAULT_LIMITS)
    assert said(caught.value.faults) == [(where, "the document may hold at most 10,000 values, and this is one more")]


def test_of_many_faults_a_few_are_listed_and_all_are_counted() -> None:
    with pytest.raises(InvalidDocument) as caught:
        validate(EvaluationRequest, {**BODY, "reference": [0] * 9_000}, DEFAULT_LIMITS)
    assert said(caught.value.faults) == [(f"/reference/{number}", "must be a text") for number in range(MOST_FAULTS)]
    assert caught.value.total == 9_000
    assert caught.value.detail == "/reference/0: must be a text (and 8999 more)"


def test_an_operator_who_raises_limits_may_send_as_much() -> None:
    limits = DEFAULT_LIMITS.model_copy(update={"context_utterances": 6_000})
    long = {**BODY, "context": [{"speaker": "A", "text": "はい"}] * 6_000}
    assert len(validate(EvaluationRequest, long, limits).context) == 6_000


def test_members_without_a_limit_do_not_count() -> None:
    data = [{"item": "1", "ratings": {"a": 1}}] * 5_000
    assert len(validate(AgreementRequest, {"data": data}, DEFAULT_LIMITS, unlimited=("data",)).data or ()) == 5_000
    with pytest.raises(InvalidDocument, match="/data: the document may hold at most"):
        validate(AgreementRequest, {"data": data}, DEFAULT_LIMITS)


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=4).map(lambda parts: "".join("/" + part for part in parts))))
def test_what_something_lies_in_is_an_ancestor(pointers: list[str]) -> None:
    outer = find_ancestors(pointers)
    for where in pointers:
        assert (where in outer) == any(other.startswith(where + "/") for other in pointers)

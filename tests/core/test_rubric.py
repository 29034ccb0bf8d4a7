"""What a rubric may be, and what its digest is taken over."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from saiten_server.core.rubric import Rubric
from tests.support.fake_rubrics import aspect_data, rubric_data, small_rubric

Data = dict[str, Any]


def faults_of(data: Data) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(ValidationError) as caught:
        Rubric.model_validate(data)
    # Pydantic also calls a list too short where it counts only the items that passed.
    errors = [e for e in caught.value.errors() if e["type"] != "too_short" or len(e["input"]) < e["ctx"]["min_length"]]
    return {error["loc"]: error["msg"] for error in errors}


def bilingual() -> Data:
    data = rubric_data()
    for texts in (data["title"], data["task"]):
        texts["ja"] = "小さな評価表"
    for number, aspect in enumerate(data["aspects"]):
        aspect["name"]["ja"] = f"項目{number}"
        aspect["question"]["ja"] = "どうですか。"
        for level in aspect["levels"]:
            level["label"]["ja"] = level["description"]["ja"] = f"段階{level['value']}"
    return data


def test_a_scale_is_read_off_the_levels():
    clarity = small_rubric().aspect("clarity")
    assert (clarity.values, clarity.scale, clarity.level(2).label["en"]) == ((1, 2, 3), (1, 3), "level 2")


def test_a_scale_may_begin_below_zero():
    assert small_rubric(aspects=[aspect_data("tone", (-1, 0, 1))]).aspect("tone").scale == (-1, 1)


@pytest.mark.parametrize("value", [0, 4, -1])
def test_a_value_off_the_scale_has_no_level(value):
    with pytest.raises(KeyError):
        small_rubric().aspect("clarity").level(value)


def test_an_unknown_aspect_is_a_key_error():
    with pytest.raises(KeyError):
        small_rubric().aspect("Warmth")


def test_blended_aspects_are_those_that_say_so():
    rubric = small_rubric(aspects=[aspect_data("warmth"), aspect_data("topic", blended=True)])
    assert rubric.blended_aspects == ("topic",)


def test_languages_begin_with_the_source_whatever_the_order_in_the_file():
    data = bilingual()
    assert Rubric.model_validate({**data, "source_language": "ja"}).languages == ("ja", "en")
    assert Rubric.model_validate({**data, "source_language": "en"}).languages == ("en", "ja")


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ((1, 3), [1]),
        ((2, 1), [1]),
        ((0, 0), [1]),
        ((1, 2, 4, 5, 7), [2, 4]),
    ],
)
def test_levels_are_consecutive_and_ascending(values, places):
    found = faults_of(rubric_data(aspects=[aspect_data("warmth", values)]))
    assert list(found) == [("aspects", 0, "levels", index, "value") for index in places]


def test_a_scale_has_at_least_two_levels():
    assert list(faults_of(rubric_data(aspects=[aspect_data("warmth", (1,))]))) == [("aspects", 0, "levels")]


def test_a_worked_example_is_rated_on_the_scale():
    one_shot = {"en": {"context": [{"speaker": "A", "text": "Hi."}], "response": "Hi.", "rating": 2, "reason": "Fine."}}
    found = faults_of(rubric_data(aspects=[aspect_data("warmth", (0, 1), one_shot=one_shot)]))
    assert list(found) == [("aspects", 0, "one_shot", "en", "rating")]


def test_ids_are_distinct_among_aspects_and_composites():
    data = rubric_data(aspects=[aspect_data("warmth"), {**aspect_data("warmth"), "name": {"en": "Other"}}])
    assert list(faults_of(data)) == [("aspects", 1, "id")]
    composite = {"kind": "mean", "of": ["warmth"]}
    data = rubric_data(composites=[{"id": "clarity", **composite}, {"id": "c", **composite}, {"id": "c", **composite}])
    assert set(faults_of(data)) == {("composites", 0, "id"), ("composites", 2, "id")}


def test_aspect_names_are_distinct_within_a_language():
    data = bilingual()
    data["aspects"][1]["name"]["ja"] = data["aspects"][0]["name"]["ja"]
    assert list(faults_of(data)) == [("aspects", 1, "name", "ja")]


def test_composites_name_known_aspects_each_at_its_place():
    data = rubric_data(
        composites=[
            {"id": "m", "kind": "mean", "of": ["warmth", "wit"]},
            {"id": "l", "kind": "linear", "terms": [{"aspect": "warmth", "weight": 1}, {"aspect": "m", "weight": 1}]},
        ]
    )
    found = faults_of(data)
    assert set(found) == {("composites", 0, "of", 1), ("composites", 1, "terms", 1, "aspect")}
    assert "wit is not an aspect of this rubric (warmth, clarity)" in found.values()


def test_a_mean_takes_an_aspect_once():
    data = rubric_data(composites=[{"id": "m", "kind": "mean", "of": ["warmth", "clarity", "warmth"]}])
    assert list(faults_of(data)) == [("composites", 0, "of", 2)]


def test_a_transform_divides_by_something():
    term = {"aspect": "warmth", "weight": 1, "transform": {"divide": 0}}
    found = faults_of(rubric_data(composites=[{"id": "l", "kind": "linear", "terms": [term]}]))
    assert list(found) == [("composites", 0, "linear", "terms", 0, "transform", "divide")]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "1", True, None])
def test_weights_are_finite_numbers(weight):
    terms = [{"aspect": "warmth", "weight": weight}]
    found = faults_of(rubric_data(composites=[{"id": "l", "kind": "linear", "terms": terms}]))
    assert list(found) == [("composites", 0, "linear", "terms", 0, "weight")]


def test_every_text_exists_in_each_language_of_the_title():
    data = bilingual()
    del data["task"]["ja"]
    del data["aspects"][1]["levels"][2]["label"]["ja"]
    data["aspects"][0]["levels"][0]["description"]["ko"] = "설명"
    assert set(faults_of(data)) == {
        ("task",),
        ("aspects", 1, "levels", 2, "label"),
        ("aspects", 0, "levels", 0, "description", "ko"),
    }


def test_examples_exist_in_each_language_too():
    data = bilingual()
    data["aspects"][0]["levels"][0]["example"] = {
        "en": {"context": [{"speaker": "A", "text": "Hi."}], "response": "Hello."}
    }
    assert list(faults_of(data)) == [("aspects", 0, "levels", 0, "example")]


def test_the_title_is_in_the_source_language():
    assert list(faults_of(rubric_data(source_language="ko"))) == [("title",)]


@pytest.mark.parametrize("name", ["", "   ", "\u200b", "a\nb", " a", "a\u2028b", "a\x1b[2J", "\ud800", "x" * 201])
def test_a_name_is_one_visible_line(name):
    data = rubric_data()
    data["aspects"][0]["name"]["en"] = name
    assert list(faults_of(data)) == [("aspects", 0, "name", "en")]


@pytest.mark.parametrize("text", ["", " \n\t", "\u3164", "a\x00b", "x" * 4001])
def test_prose_can_be_seen(text):
    assert list(faults_of(rubric_data(task={"en": text}))) == [("task", "en")]


def test_prose_may_run_over_lines():
    assert small_rubric(task={"en": "One.\nTwo."}).task["en"] == "One.\nTwo."


@pytest.mark.parametrize("rubric_id", ["", "../up", "a/b", "Upper", ".hidden", "a" * 65, "a b", "日本"])
def test_an_id_is_safe_in_a_path(rubric_id):
    assert list(faults_of(rubric_data(rubric_id))) == [("id",)]


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None])
def test_a_version_is_a_positive_integer(version):
    assert list(faults_of(rubric_data(version=version))) == [("version",)]


def test_nothing_beside_the_format_is_taken():
    data = rubric_data(author="me")
    data["aspects"][0]["weight"] = 1
    assert set(faults_of(data)) == {("author",), ("aspects", 0, "weight")}


def backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


def test_the_digest_ignores_the_order_of_keys():
    data = bilingual()
    assert list(backwards(data)) != list(data)
    assert Rubric.model_validate(backwards(data)).digest == Rubric.model_validate(data).digest


def test_the_digest_ignores_whether_a_default_is_spelled_out():
    spelled = {**rubric_data(), "calls": "joint", "composites": []}
    spelled["aspects"][0] = {**spelled["aspects"][0], "blended": False, "one_shot": None}
    assert Rubric.model_validate(spelled).digest == small_rubric().digest


def test_the_digest_ignores_how_a_number_is_written():
    def digest_with(weight: float) -> str:
        terms = [{"aspect": "warmth", "weight": weight}]
        return small_rubric(composites=[{"id": "l", "kind": "linear", "terms": terms}]).digest

    assert digest_with(2) == digest_with(2.0)
    assert digest_with(2) != digest_with(2.0000001)


def set_title(data: Data) -> None:
    data["title"]["en"] += "!"


def set_question(data: Data) -> None:
    data["aspects"][0]["question"]["en"] = data["aspects"][0]["question"]["en"].replace("How", "Why")


def add_level(data: Data) -> None:
    data["aspects"][0]["levels"].append({"value": 2, "label": {"en": "top"}, "description": {"en": "Top."}})


def shift_scale(data: Data) -> None:
    for level in data["aspects"][0]["levels"]:
        level["value"] += 1


def swap_aspects(data: Data) -> None:
    data["aspects"].reverse()


def blend_one(data: Data) -> None:
    data["aspects"][0]["blended"] = True


def ask_independently(data: Data) -> None:
    data["calls"] = "independent"


def raise_version(data: Data) -> None:
    data["version"] = 2


def change_weight(data: Data) -> None:
    data["composites"][0]["terms"][0]["weight"] = 0.51


def change_transform(data: Data) -> None:
    data["composites"][0]["terms"][0]["transform"] = {"absolute": True}


CHANGES = [
    set_title,
    set_question,
    add_level,
    shift_scale,
    swap_aspects,
    blend_one,
    ask_independently,
    raise_version,
    change_weight,
    change_transform,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_digest_follows_the_meaning(change: Callable[[Data], None]):
    composites = [{"id": "l", "kind": "linear", "terms": [{"aspect": "warmth", "weight": 0.5}]}]
    data = rubric_data(composites=composites)
    changed = copy.deepcopy(data)
    change(changed)
    assert Rubric.model_validate(changed).digest != Rubric.model_validate(data).digest


def test_a_digest_is_sha256_and_stays():
    rubric = small_rubric()
    assert rubric.digest == rubric.digest == small_rubric().digest
    assert len(rubric.digest) == 64
    assert set(rubric.digest) <= set("0123456789abcdef")

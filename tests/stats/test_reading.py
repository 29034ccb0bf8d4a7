"""Records become columns, and what does not fit is told with its line."""

import math

import numpy as np
import pytest

from saiten_server.core.errors import MOST_FAULTS, InvalidLines
from saiten_server.stats import reading
from saiten_server.stats.observations import NO_RATER
from saiten_server.stats.reading import MOST_ASPECTS, ObservationReader
from tests.support.faults import said
from tests.support.observed import observe

GOOD = {"system": "A", "item": "1", "rater": "r1", "ratings": {"natural": 3, "engaging": 2.5}}


def faults_of(records, **settings):
    with pytest.raises(InvalidLines) as caught:
        observe(records, **settings)
    return said(caught.value.faults)


def same(column, expected):
    return np.array_equal(column, np.array(expected, dtype=float), equal_nan=True)


def test_rows_hold_what_the_records_say():
    read = observe(
        [
            GOOD,
            {"system": "B", "item": "1", "rater": "r2", "ratings": {"natural": None, "engaging": 1}, "similarity": 0.5},
            {"item": 7, "ratings": {"natural": 1}, "scores": {"natural": 0.25}, "response": "passed over"},
        ]
    )
    assert (read.systems, read.items, read.raters) == (("A", "B", ""), ("1", "7"), ("r1", "r2"))
    assert (read.system.tolist(), read.item.tolist()) == ([0, 1, 2], [0, 0, 1])
    assert read.rater.tolist() == [0, 1, NO_RATER]
    assert same(read.ratings["natural"], [3, math.nan, 1])
    assert same(read.ratings["engaging"], [2.5, 1, math.nan])
    assert same(read.scores["natural"], [math.nan, math.nan, 0.25])
    assert read.similarity is not None
    assert same(read.similarity, [math.nan, 0.5, math.nan])
    assert read.lines is not None
    assert read.lines.tolist() == [1, 2, 3]


def test_lines_may_rate_different_aspects_of_one_item():
    first, second = {"item": "1", "ratings": {"natural": 3}}, {"item": "1", "ratings": {"engaging": 1}}
    read = observe([first, second])
    assert read.units == 1
    assert read.means(read.ratings["engaging"]).tolist() == [1]


def test_each_letter_of_labels_is_a_rating_by_its_position():
    records = [{"item": "1", "labels": "OXT", "scores": {"label": 0.5}}, {"item": "2", "labels": "TT"}]
    read = observe(records, labels={"O": 1, "T": 0.5, "X": 0})
    assert read.raters == ("1", "2", "3")
    assert read.ratings["label"].tolist() == [1, 0, 0.5, 0.5, 0.5]
    assert read.rater.tolist() == [0, 1, 2, 0, 1]
    assert same(read.scores["label"], [0.5, 0.5, 0.5, math.nan, math.nan])


def test_labels_stand_beside_ratings_and_under_a_name_of_choice():
    records = [{"item": "1", "labels": "O", "ratings": {"natural": 2}}] * 1
    read = observe(records, labels={"O": 1}, label_aspect="breakdown")
    assert same(read.ratings["natural"], [2, math.nan])
    assert same(read.ratings["breakdown"], [math.nan, 1])


def test_another_field_may_hold_the_scores():
    read = observe([{"item": "1", "ratings": {"natural": 2}, "unieval": {"natural": 0.75}}], scores_field="unieval")
    assert read.scores["natural"].tolist() == [0.75]


def test_aspects_come_in_the_order_given():
    assert list(observe([GOOD], aspects=["engaging", "unused", "natural"]).ratings) == ["engaging", "natural"]


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ([1, 2], "is not an object"),
        ({"ratings": {"natural": 1}}, "has no item"),
        ({"item": "", "ratings": {"natural": 1}}, "its item is an empty text"),
        ({"item": True, "ratings": {"natural": 1}}, "its item is neither a text nor an integer"),
        ({"item": "1", "system": 1.5, "ratings": {"natural": 1}}, "its system is neither a text nor an integer"),
        ({"item": "1", "rater": ["r"], "ratings": {"natural": 1}}, "its rater is neither a text nor an integer"),
        ({"item": "\ud800", "ratings": {"natural": 1}}, "a text holds a lone surrogate"),
        ({"item": "1"}, "has no ratings"),
        ({"item": "1", "ratings": None}, "has no ratings"),
        ({"item": "1", "rating": {"natural": 1}}, "has no ratings; did you mean 'rating'?"),
        (
            {"item": "1", "rating": {"natural": 1}, "scores": {"natural": 1}},
            "has no ratings; did you mean 'rating'?",
        ),
        ({"item": "1", "ratings": [3]}, "its ratings are not an object"),
        (
            {"item": "1", "labels": "OX"},
            "has no ratings: its labels are read only where their values are given",
        ),
        ({"item": "1", "ratings": {"natural": "3"}}, "'natural' is not a number"),
        ({"item": "1", "ratings": {"natural": True}}, "'natural' is not a number"),
        ({"item": "1", "ratings": {"natural": math.nan}}, "'natural' is not a number within ±1e+15"),
        ({"item": "1", "ratings": {"natural": math.inf}}, "'natural' is not a number within ±1e+15"),
        ({"item": "1", "ratings": {"natural": 10**16}}, "'natural' is not a number within ±1e+15"),
        ({"item": "1", "ratings": {"natural": 1}, "scores": {"natural": "a"}}, "'natural' is not a number"),
        ({"item": "1", "ratings": {"natural": 1}, "scores": 3}, "its scores are not an object"),
        ({"item": "1", "ratings": {"natural": 1}, "similarity": "near"}, "'similarity' is not a number"),
        ({"item": "1", "ratings": {" natural": 1}}, "the aspect ' natural' has no name, or white space around it"),
        ({"item": "1", "ratings": {"": 1}}, "the aspect '' has no name, or white space around it"),
    ],
)
def test_a_record_that_does_not_fit_is_told_with_its_line(record, what):
    assert faults_of([GOOD, record]) == [(2, what)]


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (5, "its labels are not a text of 1 to 10000 letters"),
        ("", "its labels are not a text of 1 to 10000 letters"),
        ("O" * 10_001, "its labels are not a text of 1 to 10000 letters"),
        ("OOQ", "letter 3 of its labels is 'Q': known are O, X"),
    ],
)
def test_labels_that_say_nothing_are_told(labels, what):
    assert faults_of([{"item": "1", "labels": labels}], labels={"O": 1, "X": 0}) == [(1, what)]


def test_an_aspect_that_is_not_among_those_given_is_told_with_the_nearest():
    records = [{"item": "1", "ratings": {"natrual": 1}}, {"item": "2", "ratings": {"zzz": 1}}]
    assert faults_of(records, aspects=["natural", "engaging"]) == [
        (1, "unknown aspect 'natrual'; did you mean 'natural'?"),
        (2, "unknown aspect 'zzz'"),
    ]


def test_labels_need_a_known_aspect_too():
    found = faults_of([{"item": "1", "labels": "O"}], labels={"O": 1}, aspects=["natural"])
    assert found == [(1, "unknown aspect 'label'")]


def test_an_aspect_that_one_line_of_three_has_is_a_slip_of_the_pen():
    records = [{"item": str(number), "ratings": {"natural": 1}} for number in range(3)]
    records[1]["ratings"] = {"natrual": 1}
    assert faults_of(records) == [(2, "unknown aspect 'natrual': no other line has it; did you mean 'natural'?")]


def test_labels_of_one_line_are_one_line_however_many_letters_they_have():
    records = [{"item": str(number), "ratings": {"natural": 1}} for number in range(3)]
    found = faults_of([*records, {"item": "9", "labels": "OO"}], labels={"O": 1})
    assert found == [(4, "unknown aspect 'label': no other line has it")]


def test_a_misspelt_score_is_told_too():
    records = [{"item": str(n), "ratings": {"natural": 1}, "scores": {"natural": n}} for n in range(3)]
    records[2]["scores"] = {"natura": 1}
    assert faults_of(records) == [(3, "unknown aspect 'natura': no other line has it; did you mean 'natural'?")]


def test_among_two_lines_each_may_have_its_own_aspect():
    assert observe([{"item": "1", "ratings": {"a": 1}}, {"item": "2", "ratings": {"b": 1}}]).n == 2


def test_a_lone_aspect_is_not_held_against_a_file_with_lines_that_could_not_be_read():
    records = [GOOD, {"item": "2", "ratings": {"natural": 1, "engaging": 1, "other": 1}}, "broken", {**GOOD, "item": 3}]
    assert faults_of(records) == [(3, "is not an object")]


def test_a_value_off_the_scale_is_told():
    records = [{"item": "1", "ratings": {"natural": 3}}, {"item": "2", "ratings": {"natural": 7, "other": 99}}]
    assert faults_of(records, scales={"natural": (1, 3)}) == [
        (2, "'natural' is 7, which is off its scale from 1 to 3"),
    ]


@pytest.mark.parametrize(
    ("changes", "whose"),
    [({}, "item '1', system 'A', rater 'r1'"), ({"rater": None, "system": None}, "item '1'")],
)
def test_a_repeated_item_is_told_with_the_earlier_line(changes, whose):
    record = {**GOOD, **changes}
    other = {**record, "item": "2"}
    again = {**record, "ratings": {"engaging": 1}}
    assert faults_of([record, other, again]) == [(3, f"rates 'engaging' again after line 1 ({whose})")]


def test_null_repeats_nothing():
    record = {"item": "1", "ratings": {"natural": None}}
    assert observe([record, {"item": "1", "ratings": {"natural": 2}}]).n == 2


def test_rows_of_an_item_agree_on_its_score_and_similarity():
    first = {"item": "1", "rater": "a", "ratings": {"natural": 1}, "scores": {"natural": 0.5}, "similarity": 0.25}
    assert observe([first, {**first, "rater": "b"}]).n == 2
    other = {**first, "rater": "b", "scores": {"natural": 0.75}, "similarity": 0.5}
    assert faults_of([first, other]) == [
        (2, "its score 'natural' is another than on line 1 (item '1', rater 'b')"),
        (2, "its similarity is another than on line 1 (item '1', rater 'b')"),
    ]


def test_faults_of_all_kinds_come_together_in_order_and_are_counted():
    reader = ObservationReader()
    for line in range(1, 31):
        reader.add({"item": "1", "rater": "r", "ratings": {"natural": 1}} if line % 2 else {}, line)
    with pytest.raises(InvalidLines) as caught:
        reader.finish()
    assert caught.value.total == 15 + 14
    assert [line for line, _ in caught.value.faults] == list(range(2, MOST_FAULTS + 2))


def test_no_record_at_all_is_a_fault():
    assert faults_of([]) == [(1, "there is no record")]


def test_ratings_that_hold_nothing_are_as_good_as_ratings_that_are_null():
    one = {"item": "1", "ratings": {"natural": 1}}
    empty, null = (observe([one, {"item": "2", "ratings": ratings}]) for ratings in ({}, {"natural": None}))
    assert (empty.units, null.units) == (2, 2)
    assert np.array_equal(empty.ratings["natural"], null.ratings["natural"], equal_nan=True)


def test_records_that_all_hold_nothing_are_a_fault():
    records = [{"item": item, "ratings": {}} for item in "ab"]
    assert faults_of(records) == [(1, "neither this line nor any other has ratings or scores")]
    assert observe([{"item": "a", "ratings": {}, "scores": {"x": None}}]).units == 1


def test_callers_text_is_cut_in_what_is_said():
    long = "秘" * 1000
    record = {"system": long, "item": long, "rater": long, "ratings": {"natural": 1, long: 1}}
    for found in (
        faults_of([{**record, "ratings": {long: "x"}}]),
        faults_of([record], aspects=["natural"]),
        faults_of([record, record]),
        faults_of([GOOD, GOOD | {"item": 2}, record]),
    ):
        assert all("秘" * 25 not in what for _, what in found)
        assert all(len(what) < 200 for _, what in found)


def test_control_characters_do_not_reach_the_message():
    (fault,) = faults_of([{"item": "1", "ratings": {"a\x1b[2Jb": "x"}}])
    assert fault[1].isprintable()


def test_more_aspects_than_anybody_rates_are_refused():
    record = {"item": "1", "ratings": {f"a{number}": 1 for number in range(MOST_ASPECTS + 1)}}
    assert faults_of([record]) == [(1, f"aspect 'a{MOST_ASPECTS}' is one more than the {MOST_ASPECTS} that are taken")]


def test_a_few_bytes_do_not_become_gigabytes(monkeypatch):
    monkeypatch.setattr(reading, "MOST_CELLS", 60)
    # A row has a rating and 5 more: 10 rows are 60 values.
    assert observe([{"item": "1", "labels": "O" * 10}], labels={"O": 1}).n == 10
    found = faults_of([{"item": "1", "labels": "O" * 10}, {"item": "2", "labels": "O"}], labels={"O": 1})
    assert found == [(2, "makes more than 60 values of all that was read, a gap counting as one")]


@pytest.mark.parametrize("more", [{"scores": {"natural": 1}}, {"similarity": 0.5}])
@pytest.mark.parametrize("ratings", [{}, {"ratings": {}}, {"ratings": None}])
def test_a_record_may_have_scores_or_similarity_and_no_rating(more, ratings):
    read = observe([{"item": "1", **ratings, **more}])
    assert read.n == 1
    assert not read.ratings


def test_a_score_on_one_line_is_no_slip_of_the_pen_where_others_rate_the_aspect():
    records = [{"item": str(number), "ratings": {"natural": 1}} for number in range(3)]
    assert observe([{**records[0], "scores": {"natural": 1}}, *records[1:]]).n == 3

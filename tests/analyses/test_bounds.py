"""What no analysis takes in, and how it says so: each bound holds before the memory is asked for."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from saiten.core.wording import hint
from saiten_server.analyses.reports import make_reader
from saiten_server.analyses.requests import AgreementRequest
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import MOST_REFUSED, InvalidLines, InvalidRequest
from saiten_server.core.validation import MOST_NAME, InvalidDocument, validate
from saiten_server.stats import fitting, reading, statistics
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.fitting import fit_blend, thin
from saiten_server.stats.hierarchy import find_hierarchy
from saiten_server.stats.reading import ObservationReader, read_csv, read_ndjson
from saiten_server.stats.win_rates import rate_wins
from tests.support.fake_rubrics import FakeRubrics
from tests.support.observed import observe, observe_columns


def systems_by_aspects(systems, aspects):
    return observe_columns({f"a{n}": np.arange(float(systems)) for n in range(aspects)}, systems=range(systems))


@pytest.mark.parametrize("analyse", [find_hierarchy, rate_wins])
def test_no_more_systems_than_a_report_can_hold(analyse):
    with pytest.raises(InvalidRequest, match="3,000 systems; at most 300"):
        analyse(systems_by_aspects(3000, 1))
    with pytest.raises(InvalidRequest, match="300 systems on 5 aspects make 224,250 pairs"):
        analyse(systems_by_aspects(300, 5))


def test_three_hundred_systems_are_taken():
    assert len(rate_wins(systems_by_aspects(300, 1)).aspects["a0"].pairs) == 300 * 299 // 2


def test_where_dialogues_are_named_fewer_pairs_of_systems_are_taken():
    named = replace(systems_by_aspects(201, 1), dialogue=np.zeros(201, dtype=np.int64))
    with pytest.raises(InvalidRequest, match="201 systems on 1 aspects make 20,100 pairs; at most 20,000"):
        rate_wins(named)


@pytest.mark.parametrize("analyse", [find_hierarchy, measure_agreement])
def test_no_more_pairs_of_aspects_than_a_minute_is_enough_for(analyse, monkeypatch):
    monkeypatch.setattr(statistics, "MOST_SQUARE", 40)
    assert analyse(systems_by_aspects(10, 2)).items == 10
    with pytest.raises(InvalidRequest, match=r"3 aspects are too many .* on 10 items; on so many, at most 2 are taken"):
        analyse(systems_by_aspects(10, 3))


def test_products_of_sparse_counts_are_those_of_dense_ones(monkeypatch):
    values = np.random.default_rng(0).integers(0, 9, 200).astype(float)
    system = np.random.default_rng(1).integers(0, 5, 200)
    dense = statistics.count_wins(values, system, 5)
    monkeypatch.setattr(statistics, "SPARSE_ABOVE", 1)
    for expected, found in zip(dense, statistics.count_wins(values, system, 5), strict=True):
        assert np.array_equal(found, expected)


def read(records, **options):
    reader = make_reader(AgreementRequest(**options), FakeRubrics([]))
    for line, record in enumerate(records, start=1):
        reader.add(record, line)
    return reader.finish()


@pytest.mark.parametrize(
    ("what", "record"),
    [
        ("system", {"system": "x" * 129, "item": "1", "ratings": {"a": 1}}),
        ("item", {"item": 129 * "秘", "ratings": {"a": 1}}),
        ("rater", {"item": "1", "rater": "x" * 129, "ratings": {"a": 1}}),
        ("aspect", {"item": "1", "ratings": {"x" * 129: 1}}),
        ("aspect", {"item": "1", "scores": {"x" * 129: 1}}),
    ],
)
def test_a_callers_name_is_no_longer_than_a_name(what, record):
    with pytest.raises(InvalidLines, match=f"its {what} .* has more than 128 characters"):
        read([record])


def test_the_longest_name_is_taken():
    name = "秘" * MOST_NAME
    assert read([{"system": name, "item": name, "rater": name, "ratings": {name: 1}}]).systems == (name,)


def test_what_is_no_name_is_not_searched_for():
    assert hint("x" * 128, ["x" * 127 + "y"])
    assert hint("x" * 129, ["x" * 128]) == ""
    assert hint("x" * 128, ["x" * 129]) == ""


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"aspects": ["x" * 129]}, "/aspects/0"),
        ({"aspects": [""]}, "/aspects/0"),
        ({"labels": {"O": 1e308}}, "/labels/O"),
        ({"labels": {"O": -2e15}}, "/labels/O"),
        *(({"scores_field": name}, "/scores_field") for name in ("system", "item", "rater", "ratings")),
        *(({"scores_field": name}, "/scores_field") for name in ("labels", "similarity")),
    ],
)
def test_a_request_that_could_not_be_answered_is_refused_at_its_place(asked, where):
    with pytest.raises(InvalidDocument) as caught:
        validate(AgreementRequest, asked, DEFAULT_LIMITS)
    assert [place for place, _ in caught.value.faults] == [where]


def test_labels_are_held_against_the_scale():
    records = [{"item": "1", "labels": "OX"}]
    assert observe(records, labels={"O": 1, "X": 0}, scales={"label": (0, 3)}).n == 2
    with pytest.raises(InvalidLines, match="'label' is 99, which is off its scale from 0 to 3"):
        observe(records, labels={"O": 99, "X": 0}, scales={"label": (0, 3)})


def test_reading_stops_where_so_much_does_not_fit():
    lines = iter([b"1\n"] * 5000)
    with pytest.raises(InvalidLines) as caught:
        read_ndjson(lines, ObservationReader())
    assert len(list(lines)) == 5000 - MOST_REFUSED
    assert str(caught.value) == "line 1: is not an object (and at least 999 more: the rest was not read)"
    assert (caught.value.total, len(caught.value.faults)) == (MOST_REFUSED, 20)


@pytest.mark.parametrize("form", [read_ndjson, read_csv])
def test_a_line_is_one_record_and_no_file(form, monkeypatch):
    monkeypatch.setattr(reading, "MOST_LINE_BYTES", 40)
    good = {read_ndjson: b'{"item":"1","ratings":{"a":1}}\n', read_csv: b"item,a\n1,2\n"}[form]
    assert form(BytesIO(good), ObservationReader()).n == 1
    with pytest.raises(InvalidLines, match="has more than 1,048,576 bytes"):
        form(BytesIO(good + b"x" * 41), ObservationReader())


def test_no_more_rows_than_are_taken(monkeypatch):
    monkeypatch.setattr(reading, "MOST_READ_RATINGS", 10)
    assert observe([{"item": "1", "labels": "O" * 10}], labels={"O": 1}).n == 10
    lines = iter([{"item": str(n), "labels": "OOOO"} for n in range(9)])
    with pytest.raises(InvalidLines, match="record 3: is one more than the 10 ratings") as caught:
        observe(lines, labels={"O": 1}, noun="record")
    assert caught.value.total == 1
    assert len(list(lines)) == 6  # not read: no later record makes them fewer


@pytest.mark.parametrize(
    ("header", "settings"),
    [("score:a,scores.a", {}), ("scores.a,score:a", {}), ("score:a,unieval.a", {"scores_field": "unieval"})],
)
def test_two_spellings_of_one_column_are_one_column_twice(header, settings):
    first, second = header.split(",")
    with pytest.raises(InvalidLines, match=f"the header has '{first}' and '{second}', which are the same"):
        read_csv([f"item,{header}\n".encode(), b"1,2,3\n"], ObservationReader(**settings))
    assert read_csv([b"item,a,score:a\n", b"1,2,3\n"], ObservationReader()).n == 1


class TestBlend:
    def observed(self):
        c, b, noise = np.random.default_rng(3).random((3, 60))
        return observe_columns({"a": c + 5 * b + noise}, {"a": c}, b)

    def test_of_very_many_items_whole_contexts_are_drawn_and_a_note_says_so(self, monkeypatch):
        monkeypatch.setattr(fitting, "MOST_RESAMPLED_ITEMS", 40)
        found = fit_blend(self.observed(), "a", folds=2, seed=1)
        assert (found.n, found.left_out) == (40, 0)
        assert str(found.notes[0]).startswith("fitted on 40 of 60 items, in whole clusters drawn by the seed")
        assert found == fit_blend(self.observed(), "a", folds=2, seed=1)

    def test_contexts_stay_whole(self, monkeypatch):
        monkeypatch.setattr(fitting, "MOST_RESAMPLED_ITEMS", 30)
        context = np.repeat(np.arange(10), 7)
        kept = thin(np.arange(70), context, 0)
        assert np.bincount(context[kept], minlength=10).tolist().count(7) == 4
        assert len(kept) == 28

    def test_one_context_with_more_answers_than_are_taken_is_refused(self, monkeypatch):
        monkeypatch.setattr(fitting, "MOST_RESAMPLED_ITEMS", 5)
        with pytest.raises(InvalidRequest, match="one item or dialogue has 7 answers; at most 5"):
            thin(np.arange(7), np.zeros(7, dtype=np.int64), 0)

"""JSON lines, JSON arrays and CSV give the same observations, and the same care to faults."""

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten.core.strict_json import StrictJSONError
from saiten_server.core.errors import InvalidLines
from saiten_server.stats.reading import ObservationReader, read_array, read_csv, read_ndjson
from tests.support.faults import said

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=5)
VALUES = st.none() | st.floats(-1e15, 1e15) | st.integers(-5, 5)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "system": NAMES,
            "item": NAMES,
            "rater": st.none() | NAMES,
            "ratings": st.fixed_dictionaries({"自然さ": VALUES, "b": VALUES}),
            "scores": st.fixed_dictionaries({"自然さ": VALUES}),
        }
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda record: (record["system"], record["item"]),
)


def lines(text):
    return text.encode().splitlines(keepends=True)


def faults_of(read, data, **settings):
    with pytest.raises(InvalidLines) as caught:
        read(data, ObservationReader(**settings))
    return said(caught.value.faults)


def written_as_csv(records):
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["rater", "b", "item", "自然さ", "system", "score:自然さ"])
    for record in records:
        ratings = record["ratings"]
        cells = [record["rater"], ratings["b"], record["item"], ratings["自然さ"], record["system"]]
        writer.writerow([*cells, record["scores"]["自然さ"]])
    return file.getvalue()


@settings(deadline=None)
@given(RECORDS)
def test_all_forms_say_the_same(records):
    as_lines = read_ndjson([json.dumps(record).encode() for record in records], ObservationReader())
    as_array = read_array(json.dumps(records).encode(), ObservationReader())
    as_table = read_csv(io.BytesIO(written_as_csv(records).encode("utf-8-sig")), ObservationReader())
    for other in (as_array, as_table):
        assert (other.systems, other.items, other.raters) == (as_lines.systems, as_lines.items, as_lines.raters)
        for name in ("system", "item", "rater"):
            assert np.array_equal(getattr(other, name), getattr(as_lines, name))
        for aspect in ("自然さ", "b"):
            assert np.array_equal(other.ratings[aspect], as_lines.ratings[aspect], equal_nan=True)
        assert np.array_equal(other.scores["自然さ"], as_lines.scores["自然さ"], equal_nan=True)


def test_blank_lines_are_passed_over_and_counted():
    data = b'\n{"item": 1, "ratings": {"a": 1}}\r\n  \n{"item": 2, "ratings": {"a": 2}}'.splitlines(keepends=True)
    read = read_ndjson(data, ObservationReader())
    assert read.lines is not None
    assert read.lines.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"{", "is not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'{"item": 1} x', "is not valid JSON: Extra data at column 13"),
        (b'{"item": "\xff"}', "is not UTF-8 (byte 11)"),
        (b'\xef\xbb\xbf{"item": 1}', "the document starts with a byte order mark; send plain UTF-8"),
        (b'{"item": 1, "item": 2}', "is not valid JSON: an object holds the same key twice"),
        (b'{"item": 1, "ratings": {"a": NaN}}', "is not valid JSON: NaN is not a JSON number"),
        (b'{"item": 1, "ratings": {"a": 1e999}}', "is not valid JSON: a number is too large"),
        (rb'{"item": "\ud800", "ratings": {"a": 1}}', "is not valid JSON: a string holds a lone surrogate"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1, 2]", "is not an object"),
        (b'"item"', "is not an object"),
    ],
)
def test_a_broken_line_is_told_with_its_number_and_the_reason(line, what):
    good = b'{"item": 9, "ratings": {"a": 1}}'
    assert faults_of(read_ndjson, [good, line, b'{"item": 3}']) == [(2, what), (3, "has no ratings")]


def test_lines_may_come_one_by_one():
    assert read_ndjson(iter([b'{"item": 1, "ratings": {"a": 1}}\n']), ObservationReader()).n == 1


def test_an_array_numbers_its_elements():
    with pytest.raises(InvalidLines, match=r"^element 2: has no item$"):
        read_array(b'[{"item": 1, "ratings": {"a": 1}}, {"ratings": {"a": 1}}]', ObservationReader())


@pytest.mark.parametrize("body", [b'{"item": 1}', b"[", b"\xff"])
def test_what_is_no_array_is_refused(body):
    with pytest.raises(StrictJSONError):
        read_array(body, ObservationReader())


def test_a_table_has_scores_similarity_and_empty_cells():
    text = "item,rater,natural,score:natural,scores.engaging,unieval.overall,similarity\n"
    text += '"a, b",7,3,0.5,1,.25,-1e-1\n,,,,,,\n\nc,,,,,,\n'
    read = read_csv(lines(text), ObservationReader(scores_field="unieval"))
    assert (read.systems, read.items, read.raters) == (("",), ("a, b", "c"), ("7",))
    assert read.lines is not None
    assert read.lines.tolist() == [2, 5]
    assert list(read.ratings) == ["natural"]
    assert {name: column[0] for name, column in read.scores.items()} == {"natural": 0.5, "engaging": 1, "overall": 0.25}
    assert read.similarity is not None
    assert read.similarity[0] == -0.1
    assert np.isnan(read.similarity[1])


def test_a_table_may_hold_labels():
    read = read_csv(lines("item,labels\na,OX\nb,X\n"), ObservationReader(labels={"O": 1, "X": 0}))
    assert read.ratings["label"].tolist() == [1, 0, 0]


def test_a_table_with_an_empty_labels_cell_has_no_ratings_there():
    nothing = "neither this line nor any other has ratings or scores"
    assert faults_of(read_csv, lines("item,labels\na,\n"), labels={"O": 1}) == [(2, nothing)]
    found = read_csv(lines("item,labels\na,\nb,OO\n"), ObservationReader(labels={"O": 1}))
    assert (found.units, int((~np.isnan(found.ratings["label"])).sum())) == (2, 2)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "item,a\nx,1\ny\nz,1,2\n",
            [(3, "has 1 cells where the header has 2"), (4, "has 3 cells where the header has 2")],
        ),
        ("item,a\nx,three\n", [(2, "'a' is not a number; a cell without a value is left empty")]),
        ("item,a\nx,nan\n", [(2, "'a' is not a number; a cell without a value is left empty")]),
        ("item,a\nx,1_0\n", [(2, "'a' is not a number; a cell without a value is left empty")]),
        ("item,a\nx,３\n", [(2, "'a' is not a number; a cell without a value is left empty")]),
        ("item,a\nx,1e999\n", [(2, "'a' is not a number within ±1e+15")]),
        ("item,a,similarity\nx,1,far\n", [(2, "'similarity' is not a number; a cell without a value is left empty")]),
        ("item,a\n,1\n", [(2, "has no item")]),
        ("item,a,a\nx,1,2\n", [(1, "the header has 'a' more than once")]),
        ("item,a,\nx,1,\n", [(1, "column 3: the aspect '' has no name, or white space around it")]),
        ("a,b\n1,2\n", [(1, "the header has no column 'item'")]),
        ("item;a\nx;1\n", [(1, "the header has no column 'item': cells are to be separated by commas")]),
        ("item" + ",a" * 500 + "\n", [(1, "the header has 501 columns, and 500 may be")]),
        ("item,rater\nx,1\n", [(1, "the header names no aspect")]),
        ("item,a\nx,1\nx,1\n", [(3, "rates 'a' again after line 2 (item 'x')")]),
        ('item,a\n"two\nlines",1\nx\n', [(4, "has 1 cells where the header has 2")]),
        ('item,a\nx,1\n"x" y,1\n', [(3, "is not valid CSV: ',' expected after '\"'")]),
        ('item,a\nx,1\n"y,1\n', [(3, "is not valid CSV: unexpected end of data")]),
        ("", [(1, "there is no record")]),
        ("item,a\n", [(1, "there is no record")]),
    ],
)
def test_faults_of_a_table(text, faults):
    assert faults_of(read_csv, lines(text)) == faults


def test_a_table_of_scores_alone_is_read():
    assert read_csv(lines("item,score:a\nx,1\n"), ObservationReader()).scores["a"].tolist() == [1]


def test_an_unknown_column_is_told_once_and_with_the_nearest():
    found = faults_of(read_csv, lines("item,natrual\nx,1\ny,1\n"), aspects=["natural"])
    assert found == [(1, "column 2: unknown aspect 'natrual'; did you mean 'natural'?")]


def test_a_column_with_a_single_value_is_no_slip_of_the_pen():
    assert read_csv(lines("item,a,b\nx,1,1\ny,1,\nz,1,\n"), ObservationReader()).n == 3


def test_a_table_in_another_encoding_says_how_to_save_it():
    data = [b"item,a\n", b"x,1\n", "題,1\n".encode("cp932"), b"y,z\n"]
    assert faults_of(read_csv, data) == [(3, "is not UTF-8 (byte 1): save the table as “CSV UTF-8”")]


def test_a_column_of_a_scorer_names_an_aspect():
    what = "column 2: 'score:judge' names no aspect: a column is named score:SCORER:ASPECT"
    assert faults_of(read_csv, lines("item,score:judge,a\nx,1,2\n"), by_scorer=True) == [(1, what)]
    assert [*read_csv(lines("item,score:judge:a,a\nx,1,2\n"), ObservationReader(by_scorer=True)).scores] == ["judge:a"]

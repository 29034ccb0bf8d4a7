"""Records of preferences: what is taken in each form, and what is refused at its line."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from saiten_server.core.errors import InvalidLines
from saiten_server.preferences.rankings.reading import MOST_SYSTEMS, PreferenceReader, read_csv
from saiten_server.stats.reading import read_array, read_ndjson
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE

RECORD = {"item": "i1", "a": "x", "b": "y", "winner": "a"}


def lines(*records: Any) -> BytesIO:
    return BytesIO("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records).encode())


def faults(*records: Any) -> list[tuple[int, str]]:
    with pytest.raises(InvalidLines) as caught:
        read_ndjson(lines(*records), PreferenceReader())
    return [(number, what.id) for number, what in caught.value.faults]


def test_all_forms_say_the_same() -> None:
    records = [
        {"item": "i1", "dialogue": "d", "a": "x", "b": "y", "winner": "a", "length_a": 10, "length_b": 4},
        {"item": "i2", "dialogue": "d", "a": "y", "b": "x", "winner": "b", "length_a": 4, "length_b": 9},
        {"item": "i3", "a": "x", "b": "z", "winner": "tie", "rater": "r", "length_a": 7, "length_b": 7},
    ]
    table = b"item,dialogue,a,b,winner,rater,length_a,length_b\ni1,d,x,y,a,,10,4\ni2,d,y,x,b,,4,9\ni3,,x,z,tie,r,7,7\n"
    forms = [
        read_ndjson(lines(*records), PreferenceReader()),
        read_array(json.dumps(records).encode(), PreferenceReader()),
        read_csv(BytesIO(table), PreferenceReader()),
    ]
    for pairs, notes in forms:
        assert pairs.systems == ("x", "y", "z")
        assert pairs.choice.tolist() == [FIRST, SECOND, TIE]
        assert (pairs.first.tolist(), pairs.second.tolist()) == ([0, 1, 0], [1, 0, 2])
        assert pairs.cluster[0] == pairs.cluster[1] != pairs.cluster[2]
        assert pairs.rater.tolist() == [-1, -1, 0]
        assert np.sign(pairs.covariates["length"]).tolist() == [1, -1, 0]
        assert notes == []


def test_many_at_once_say_what_one_by_one_do() -> None:
    records = [
        {"item": f"i{n % 7}", "a": f"s{n % 3}", "b": f"s{n % 3 + 1}", "winner": ("a", "b", "tie")[n % 3]}
        for n in range(50)
    ]
    at_once, _ = read_ndjson(lines(*records), PreferenceReader())
    reader = PreferenceReader()
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    alone, _ = reader.finish()
    for name in ("first", "second", "choice", "item", "cluster", "rater"):
        assert getattr(at_once, name).tolist() == getattr(alone, name).tolist()
    assert at_once.systems == alone.systems


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({**RECORD, "winner": "x"}, "winner-not-in-pair"),
        ({**RECORD, "winner": None}, "winner-not-in-pair"),
        ({**RECORD, "winner": ["a"]}, "winner-not-in-pair"),
        ({**RECORD, "b": "x"}, "preference-of-itself"),
        ({**RECORD, "item": ""}, "preference-field-missing"),
        ({"item": "i1", "a": "x", "b": "y"}, "preference-field-absent"),
        ({**RECORD, "a": "長" * 129}, "name-characters-most"),
        ({**RECORD, "a": 1.5}, "name-not-text"),
        ({**RECORD, "length_a": -1, "length_b": 2}, "length-not-number"),
        ({**RECORD, "length_a": True, "length_b": 2}, "length-not-number"),
        ({**RECORD, "covariates": [1]}, "values-not-object"),
        ({**RECORD, "covariates": {"length": 1}}, "covariate-name"),
        ({**RECORD, "covariates": {"lists": "1"}}, "not-a-number"),
        ({**RECORD, "covariates": {"lists": 1e300}}, "number-range"),
        ({**RECORD, "covariates": {f"c{n}": 1 for n in range(9)}}, "ranking-covariates-most"),
        ("text", "not-an-object"),
    ],
)
def test_faults_are_refused_at_their_line(record: Any, code: str) -> None:
    assert faults(RECORD, record) == [(2, code)]


@pytest.mark.parametrize(("winner", "told"), [(None, "null"), ("x", '"x"'), (True, "true")])
def test_a_winner_is_told_as_it_was_sent(winner: Any, told: str) -> None:
    with pytest.raises(InvalidLines) as caught:
        read_ndjson(lines({**RECORD, "winner": winner}), PreferenceReader())
    ((_, fault),) = caught.value.faults
    assert str(fault).startswith(f"winner is {told};")


def test_a_rater_who_contradicts_himself_is_refused() -> None:
    said = {**RECORD, "rater": "r"}
    assert faults(said, {**said, "item": "i2"}, {**said, "winner": "b"}) == [(3, "preference-contradicted")]
    # In the other order it is the effect of the order, and of a judge it is a repeated look.
    pairs, notes = read_ndjson(lines(said, {**said, "a": "y", "b": "x", "winner": "a"}), PreferenceReader())
    assert (pairs.n, notes) == (2, [])
    pairs, notes = read_ndjson(lines(RECORD, {**RECORD, "winner": "b"}, RECORD), PreferenceReader())
    assert pairs.n == 3
    assert [note.id for note in notes] == ["preferences-repeated"]


def test_more_systems_than_are_taken_are_refused_where_they_come() -> None:
    many = [{**RECORD, "a": f"s{n}", "b": f"s{n + 1}"} for n in range(5_000)]
    assert faults(*many) == [(MOST_SYSTEMS, "ranking-systems-most")]


def test_nothing_is_refused_too() -> None:
    assert faults() == [(1, "no-record")]


def test_a_covariate_of_some_records_is_left_out_and_said() -> None:
    pairs, notes = read_ndjson(
        lines({**RECORD, "covariates": {"lists": 2}}, {**RECORD, "item": "i2"}), PreferenceReader()
    )
    assert pairs.covariates == {}
    assert [(note.id, note.values["records"]) for note in notes] == [("covariate-left-out", 1)]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("item,a,b\ni1,x,y\n", "preference-column-missing"),
        ("item,a,b,winner,a\n", "header-name-twice"),
        ("item,a,b,winner\ni1,x,y\n", "cells-unlike-header"),
        ("item,a,b,winner,length_a,length_b\ni1,x,y,a,long,2\n", "cell-not-a-number"),
    ],
)
def test_tables_are_refused_at_their_line(table: str, code: str) -> None:
    with pytest.raises(InvalidLines) as caught:
        read_csv(BytesIO(table.encode()), PreferenceReader())
    assert code in [what.id for _, what in caught.value.faults]

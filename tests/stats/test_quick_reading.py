"""Plain lines are read quickly, many at once: the same columns and the same faults as in the strict reading of each line,
whatever is in them."""

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from saiten_server.core.errors import InvalidLines
from saiten_server.core.validation import Unfit
from saiten_server.stats import reading
from saiten_server.stats.reading import (
    ObservationReader,
    ReadingLimits,
    read_array,
    read_ndjson,
    read_quickly,
    takes_at_once,
)
from tests.support.faults import said

ODD = (
    b'{"item":"1","item":"2","ratings":{"x":1}}',
    b'{"item":"1","ratings":{"x":1,"x":2}}',
    b'{"item":"1","ratings":{"x":1,"\\u0078":2}}',
    b'{"item":"1","note":"a:b","note":"c","ratings":{"x":1}}',
    b'{"item":"1","note":"\\u003a","note":1,"ratings":{"x":1}}',
    b'{"item":"1","note":[{"a":1,"a":2}],"ratings":{"x":1}}',
    b'{"item":"1","note":1e999,"ratings":{"x":1}}',
    b'{"item":"1","note":-12345678901234567890,"ratings":{"x":1}}',
    b'{"item":"1","note":{"k":[123456789012345678901]},"ratings":{"x":1}}',
    b'{"item":"1","note":' + b"[" * 500 + b"]" * 500 + b',"ratings":{"x":1}}',
    b'{"item":"1","ratings":{"x":NaN}}',
    b'{"item":"1","ratings":{"x":true}}',
    b'{"item":"1","ratings":{"x":"1"}}',
    b'{"item":"1","ratings":{"x":' + b"9" * 400 + b"}}",
    b'{"item":"\\ud800","ratings":{"x":1}}',
    b'{"item":123456789012345678901,"ratings":{"x":1}}',
    b'{"item":1.0,"ratings":{"x":1}}',
    b'{"item":true,"ratings":{"x":1}}',
    b'{"item":"","ratings":{"x":1}}',
    b'{"item":"1","system":["a"],"ratings":{"x":1}}',
    b'{"item":"1","ratings":null}',
    b'{"item":"1","ratings":[1]}',
    b'{"item":"1","scores":[1],"ratings":{"x":1}}',
    b'{"item":"1","similarity":"b","ratings":{"x":1}}',
    b'\xef\xbb\xbf{"item":"1","ratings":{"x":1}}',
    b'{"item":"1","ratings":{"x":1}} {}',
    b"  ",
    b"\xff",
    b"[1",
    b"null",
)
UNFIT = (
    b'{"item":"1","ratings":{"new":1}}',
    b'{"item":"1","ratings":{"":1}}',
    b'{"item":"1","ratings":{"x":1e16}}',
    b'{"item":"1","ratings":{"x":9}}',
    b'{"item":"1","similarity":1e16,"ratings":{"x":1}}',
    b'{"item":"' + b"n" * 130 + b'","ratings":{"x":1}}',
)
"""Plain, but not what every reader takes."""

PLAIN = (
    b'{"item":"1","ratings":{"x":1}}',
    b'{"item": "1", "rater" : null, "ratings": {"x": null, "y": -0.0}, "scores": null}',
    b'{"item":7,"ratings":{"x":1},"note":"c:d","comment":null}',
    b'{"item":"\\u9805\\"","system":"s","rater":"r","ratings":{},"scores":{"x":1},"similarity":0.5}\r\n',
    b'{"item":"8","scores":{"x":2},"response":"\\": [1]","turn":3,"said":[{"who":"a"}]}',
    b'{"item":"9","ratings":{"x":2},"seen":true}',
)


def read(lines: Sequence[bytes], settings: dict[str, Any], *, quickly: bool) -> tuple[Any, ...]:
    """Everything that is read, or every fault."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "ROWS_AT_ONCE", 7)
        if not quickly:
            patched.setattr(reading, "read_quickly", lambda _: None)
        try:
            found = read_ndjson(lines, ObservationReader(**settings))
        except InvalidLines as error:
            return type(error), error.noun, error.total, error.faults, str(error)
    return tuple(repr(value.tolist() if isinstance(value, np.ndarray) else value) for value in vars(found).values())


def make_record(draw: random.Random, number: int, *, scorers: bool) -> dict[str, Any]:
    item = draw.choice([str(number), number, f"項{number}:x", f"a\\b{number}"]) if draw.random() < 0.3 else f"i{number}"
    record: dict[str, Any] = {"item": item, "rater": draw.choice(["R1", "R2", None, ""])}
    if draw.random() < 0.8:
        record["system"] = draw.choice(["a", "b", ""])
    if draw.random() < 0.1:
        record["dialogue"] = draw.choice(["d1", "d2", 3, "", None])
    if draw.random() < 0.9:
        record["ratings"] = {name: draw.choice([1, 2.5, None, -0.0, 1e-7]) for name in "xyz" if draw.random() < 0.9}
    if draw.random() < 0.7:
        record["scores"] = {name: float(number % 3) for name in "xyz" if draw.random() < 0.8}
        if scorers:
            record["scores"] = {"judge": record["scores"], "draft:x": 1, "metric": {"x": None}}
    if draw.random() < 0.3:
        record["similarity"] = number * 37 % 100 / 100
    if draw.random() < 0.1:
        record["note"] = draw.choice(["a:b", "é\\", {"k": [1, {"q": 2}]}, 7, None, 1.5e10, '"q":1', 10**19, True])
    if draw.random() < 0.02:
        record[draw.choice(["rating", "probability", "k:v"])] = draw.choice([0.5, 1, 0, None])
    return record


def make_settings(draw: random.Random) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if draw.random() < 0.3:
        settings["aspects"] = ["z", "x", "y"]
    if draw.random() < 0.3:
        settings["scales"] = {"x": (0, 3), "y": (1, 3)}
    if draw.random() < 0.5:
        settings["name_characters"] = 128
    if draw.random() < 0.1:
        settings["scores_field"] = draw.choice(["ratings", "note"])
    if draw.random() < 0.1:
        settings["labels"] = {"O": 1}
    if draw.random() < 0.2:
        settings["by_scorer"] = True
    if draw.random() < 0.2:
        settings["bounds"] = ReadingLimits(draw.randint(1, 100), draw.randint(50, 900))
    return settings


@pytest.mark.parametrize("seeds", [range(75), range(75, 150)])
def test_lines_say_the_same_read_quickly_or_strictly(seeds: range) -> None:
    for seed in seeds:
        check_lines(random.Random(seed), f"the lines of seed {seed}")


def check_lines(draw: random.Random, which: str) -> None:
    settings = make_settings(draw)
    records = [make_record(draw, n, scorers="by_scorer" in settings) for n in range(60)]
    lines = [json.dumps(record, ensure_ascii=draw.random() < 0.5).encode() for record in records]
    for _ in range(draw.choice([0, 0, 1, 2, 40])):
        lines.insert(draw.randint(0, len(lines)), draw.choice(ODD + UNFIT))
    assert read(lines, settings, quickly=True) == read(lines, settings, quickly=False), which


def takes(line: bytes) -> bool:
    """Whether the line is taken without a strict reading."""
    reader = ObservationReader(scales={"x": (0, 3)}, name_characters=128, aspects=["x", "y"])
    records = read_quickly([line])
    return records is not None and takes_at_once(records, [1], reader)


def test_what_is_not_plain_is_left_to_the_strict_reading() -> None:
    assert [line for line in ODD + UNFIT if takes(line)] == []


def test_plain_lines_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "add_line", None)
    found = read_ndjson(PLAIN, ObservationReader(scales={"x": (0, 3)}, name_characters=128, aspects=["x", "y"]))
    assert found.items == ("1", "7", '項"', "8", "9")
    assert (found.systems, found.raters) == (("", "s"), ("r",))
    assert np.array_equal(found.ratings["x"], [1, np.nan, 1, np.nan, np.nan, 2], equal_nan=True)
    assert np.array_equal(found.scores["x"], [np.nan, np.nan, np.nan, 1, 2, np.nan], equal_nan=True)


def test_aspects_of_records_that_each_name_their_own_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.stats.record_columns.convert", None)  # records times aspects
    for field in ("ratings", "scores"):
        records = [{"item": str(number), field: {f"a{number}": 1}} for number in range(reading.MOST_ASPECTS + 1)]
        assert not takes_at_once(records, range(len(records)), ObservationReader())


def test_an_array_says_the_same_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 2)
    lines = [*PLAIN, UNFIT[3]]
    with pytest.raises(InvalidLines) as caught:
        read_array(b"[" + b",".join(lines) + b"]", ObservationReader(scales={"x": (0, 3)}))
    assert said(caught.value.faults) == [(7, "'x' is 9, which is off its scale from 0 to 3")]
    monkeypatch.setattr(ObservationReader, "add", None)
    found = read_array(b"[" + b",".join(PLAIN) + b"]", ObservationReader(aspects=["x", "y"]))
    assert repr(found) == repr(read_ndjson(PLAIN, ObservationReader(aspects=["x", "y"])))


CELLS = ("1", "2.5", "", " 3 ", "-0.0", "1e3", "x", "1e16", "1e999", "nan", "9")
NAME_CELLS = ("a", "b", "", " a ", "é", "1", "n" * 130)
COLUMNS = ("item", "system", "rater", "dialogue", "similarity", "labels", "x", "y", "scores.x", "score:z")


def make_table(draw: random.Random, rows: int) -> list[bytes]:
    """A table in which about one cell in a thousand is unusual."""
    further = [column for column in COLUMNS[1:] if column != "labels" or draw.random() < 0.2]
    header = ["item", *draw.sample(further, draw.randint(1, len(further)))]
    draw.shuffle(header)
    lines = [",".join(header)]
    odd = draw.choice([0, 0, 0, 0.002])
    for number in range(rows):
        cells = []
        for column in header:
            named = column in ("item", "system", "rater", "dialogue")
            choices = NAME_CELLS if named else CELLS
            usual = [f"i{number}"] if column == "item" else choices[:4]
            cells.append("O" if column == "labels" else draw.choice(choices if draw.random() < odd else usual))
        lines.append(",".join(cells[: -1 if draw.random() < odd else None]))
    if draw.random() < 0.2:
        lines.insert(draw.randint(1, rows), draw.choice(["", '"a', '"a"b,', "\x00", ",,,"]))
    return [f"{line}\n".encode() for line in lines]


def test_tables_say_the_same_read_by_columns_or_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 7)
    tables = []
    for seed in range(150):
        draw = random.Random(seed)
        tables.append((make_table(draw, draw.choice([1, 6, 20, 50])), make_settings(draw)))
    by_columns = [read_table(*table) for table in tables]
    monkeypatch.setattr(reading.ObservationReader, "take_columns", refuse)
    for seed, (table, expected) in enumerate(zip(tables, by_columns, strict=True)):
        assert read_table(*table) == expected, f"the table of seed {seed}"


def read_table(lines: Sequence[bytes], settings: dict[str, Any]) -> tuple[Any, ...]:
    """Everything that is read, or every fault."""
    try:
        found = reading.read_csv(lines, ObservationReader(**settings))
    except InvalidLines as error:
        return type(error), error.noun, error.total, error.faults, str(error)
    return tuple(repr(value) for value in vars(found).values())


def refuse(*_: object) -> None:
    raise Unfit(reading.ONE_BY_ONE)


def test_a_plain_table_is_taken_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "add_row", None)
    found = reading.read_csv([b"item,x,y\n", b"1,2,\n", b" 2 ,,3\n"], ObservationReader(scales={"x": (0, 3)}))
    assert found.items == ("1", "2")
    assert np.array_equal(found.ratings["x"], [2, np.nan], equal_nan=True)
    assert np.array_equal(found.ratings["y"], [np.nan, 3], equal_nan=True)

"""Records read many at a time: the same columns and the same faults as one by one, whatever is in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from app.analysis import blocks, formats
from app.analysis.blocks import Block, read_block
from app.analysis.formats import Numbers, read_csv, read_ndjson, read_rows
from app.analysis.observations import Observations
from app.analysis.reading import Bounds, ObservationReader
from app.domain.lines import InvalidLines

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
    b'{"item":7,"ratings":{"x":1},"note":{"a":[1,"c:d",null,1.5]}}',
    b'{"item":"\\u9805\\"","system":"s","rater":"r","ratings":{},"scores":{"x":1},"similarity":0.5}\r\n',
)
CELLS = ("nan", "1_0", "x", " 3 ", "1e9999", '"a', "é", '"a\nb"', ",", "1e16", "n" * 130)


def read(
    form: Callable[..., Observations], lines: Sequence[bytes], settings: dict[str, Any], *, blockwise: bool
) -> tuple[Any, ...]:
    """Everything that is read, or everything that is told."""
    with pytest.MonkeyPatch.context() as patched:
        if not blockwise:
            patched.setattr(formats, "read_block", lambda *_: None)
            patched.setattr(formats, "read_rows", lambda *_: None)
        try:
            found = form(lines, ObservationReader(**settings))
        except InvalidLines as error:
            return type(error), error.noun, error.total, error.faults, str(error)
    columns = {**{f"r {a}": c for a, c in found.ratings.items()}, **{f"s {a}": c for a, c in found.scores.items()}}
    places = [column.tolist() for column in (found.system, found.item, found.rater)]
    lines_read = None if found.lines is None else found.lines.tolist()
    b = None if found.similarity is None else repr(found.similarity.tolist())
    values = [(name, repr(column.tolist())) for name, column in columns.items()]
    return found.systems, found.items, found.raters, places, values, b, lines_read


def make_record(draw: random.Random, number: int) -> dict[str, Any]:
    item = draw.choice([str(number), number, f"項{number}:x", f"a\\b{number}"]) if draw.random() < 0.3 else f"i{number}"
    record: dict[str, Any] = {"item": item, "rater": draw.choice(["R1", "R2", None, ""])}
    if draw.random() < 0.8:
        record["system"] = draw.choice(["a", "b", ""])
    record["ratings"] = {name: draw.choice([1, 2.5, None, -0.0, 1e-7]) for name in "xyz" if draw.random() < 0.9}
    if draw.random() < 0.7:
        record["scores"] = {name: float(number % 3) for name in "xyz" if draw.random() < 0.8}
    if draw.random() < 0.3:
        record["similarity"] = number * 37 % 100 / 100
    if draw.random() < 0.1:
        record["note"] = draw.choice(["a:b", "é\\", {"k": [1, {"q": 2}]}, 7, None, 1.5e10, '"q":1'])
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
        settings["bounds"] = Bounds(draw.randint(1, 100), draw.randint(50, 900))
    return settings


def make_cell(draw: random.Random, column: str, number: int) -> str:
    if draw.random() < 0.003:
        return draw.choice(CELLS)
    return {
        "item": str(number),
        "system": draw.choice(["a", ""]),
        "rater": draw.choice(["r1", "r2", " r3 "]),
        "score:x": str(number % 3),
        "similarity": str(number * 37 % 100 / 100),
    }.get(column) or draw.choice(["1", "2.0", "", "3.", "+1", "-.5e1"])


@pytest.mark.parametrize("seed", range(150))
def test_lines_say_the_same_read_many_at_a_time_or_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(blocks, "MOST_LINES", draw.choice([1, 3, 10, 50]))
    lines = [json.dumps(make_record(draw, n), ensure_ascii=draw.random() < 0.5).encode() for n in range(100)]
    for _ in range(draw.choice([0, 0, 1, 2, 40])):
        lines.insert(draw.randint(0, len(lines)), draw.choice(ODD + UNFIT))
    settings = make_settings(draw)
    assert read(read_ndjson, lines, settings, blockwise=True) == read(read_ndjson, lines, settings, blockwise=False)


@pytest.mark.parametrize("seed", range(150))
def test_rows_say_the_same_read_many_at_a_time_or_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(formats, "MOST_LINES", draw.choice([1, 3, 10, 50]))
    columns = ["item", "system", "rater", "x", "y", "score:x", "similarity"][: draw.randint(4, 7)]
    draw.shuffle(columns)
    rows = [",".join(columns), *(",".join(make_cell(draw, name, n) for name in columns) for n in range(100))]
    lines = [f"{row}\n".encode() for row in rows]
    if draw.random() < 0.3:
        lines.insert(draw.randint(0, 100), draw.choice([b"\n", b",,,\n", b"\xff\n", b'"\n', b"1,2\n"]))
    settings = make_settings(draw)
    assert read(read_csv, lines, settings, blockwise=True) == read(read_csv, lines, settings, blockwise=False)


@pytest.mark.parametrize("line", ODD)
def test_what_is_not_plain_is_left_to_the_strict_reading(line: bytes) -> None:
    assert read_block([PLAIN[0], line], 1, "scores") is None


def test_plain_lines_are_a_block() -> None:
    block = read_block([PLAIN[0], PLAIN[1], PLAIN[3]], 5, "scores")
    assert block is not None
    assert (list(block.lines), block.items) == ([5, 6, 7], ["1", "1", '項"'])
    assert (block.systems, block.raters) == ([None, None, "s"], [None, None, "r"])
    assert (block.ratings.named, block.scores.named) == ({"x": 2, "y": 1}, {"x": 1})
    assert np.array_equal(block.ratings.columns["x"], [1, np.nan, np.nan], equal_nan=True)


def test_a_reader_takes_plain_lines_all_at_once_and_no_other() -> None:
    reader = ObservationReader(scales={"x": (0, 3)}, name_characters=128)
    reader.add({"item": "0", "ratings": {"x": 1, "y": 1}, "scores": {"x": 1}}, 1)
    for number, line in enumerate(PLAIN, start=2):
        assert reader.take(block_of(line, number))
    for line in UNFIT:
        assert not reader.take(block_of(line, 9))
    assert reader.finish().n == 1 + len(PLAIN)


def block_of(line: bytes, number: int) -> Block:
    block = read_block([line], number, "scores")
    assert block is not None
    return block


def test_plain_rows_are_a_block() -> None:
    places = [("item", None), ("ratings", "x"), ("scores", "x")]
    block = read_rows([(2, ["a", " 1 ", ""]), (3, ["b", "2.5", "-1e1"])], places, "scores", Numbers())
    assert block is not None
    assert (block.items, block.lines, block.ratings.columns["x"].tolist()) == (["a", "b"], [2, 3], [1, 2.5])
    for row in (["", "1", "1"], ["a", "one", "1"], ["a", "1"]):
        assert read_rows([(2, row)], places, "scores", Numbers()) is None

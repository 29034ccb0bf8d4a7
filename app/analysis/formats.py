"""The forms in which ratings come: one JSON object a line, a JSON array, CSV."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from app.analysis.blocks import MOST_LINES, Block, Values, cut_lines, read_block
from app.analysis.observations import Floats, Observations
from app.analysis.reading import ObservationReader, Unfit
from app.domain.lines import InvalidLines
from app.domain.strict_json import (
    BYTE_ORDER_MARK,
    StrictJSONError,
    parse_strict_json,
    refuse_surrogates,
    strict_decoder,
)
from app.domain.validation import clip

MARK = b"\xef\xbb\xbf"
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
NAMES = ("system", "item", "rater", "dialogue")
MOST_COLUMNS = 500

MOST_NUMBERS = 10_000
"""Spellings of numbers that are kept: ratings have few, measured scores as many as there are cells."""

MOST_LINE = 2**20
"""Bytes of a line, that is of one record: no rater says more of an item."""

LONG_LINE = f"has more than {MOST_LINE:,} bytes"

Place = tuple[str, str | None]
"""A record's field, and the aspect in it where the field has aspects."""

Set = Callable[[dict[str, Any], str], None]
"""Puts a cell that is not empty into a record; raises Unfit."""


class JSONLines:
    """Feeds a reader with lines of JSON, one record each; blank lines are passed over, but counted."""

    def __init__(self, reader: ObservationReader) -> None:
        self._reader = reader
        self._decoder = strict_decoder()
        self._number = 0

    def add(self, line: bytes) -> None:
        """Takes the next line, with or without its line break."""
        self._number += 1
        if len(line) > MOST_LINE:
            self._reader.refuse(self._number, LONG_LINE)
            return
        if not line.strip():
            return
        try:
            record = self._parse(line)
        except Unfit as unfit:
            self._reader.refuse(self._number, str(unfit))
            return
        self._reader.add(record, self._number)

    def add_all(self, lines: Sequence[bytes]) -> None:
        """Takes the next lines: all at once where they are plain, which takes a quarter of the time."""
        if max(map(len, lines)) <= MOST_LINE:
            block = read_block(lines, self._number + 1, self._reader.scores_field)
            if block is not None and self._reader.take(block):
                self._number += len(lines)
                return
        for line in lines:
            self.add(line)

    def _parse(self, line: bytes) -> Any:
        if line.startswith(MARK):
            raise Unfit(BYTE_ORDER_MARK)
        try:
            text = line.decode("utf-8")
            record = self._decoder.decode(text)
            refuse_surrogates(record, text, 0, len(text))
        except UnicodeDecodeError as error:
            raise Unfit(f"is not UTF-8 (byte {error.start + 1})") from None
        except json.JSONDecodeError as error:
            raise Unfit(f"is not valid JSON: {error.msg} at column {error.colno}") from None
        except StrictJSONError as error:
            raise Unfit(f"is not valid JSON: {error}") from None
        except RecursionError:
            raise Unfit("is nested too deeply") from None
        return record


def read_ndjson(lines: Iterable[bytes], reader: ObservationReader) -> Observations:
    """The observations of lines of JSON; raises InvalidLines."""
    feed = JSONLines(reader)
    for some in cut_lines(lines):
        feed.add_all(some)
    return reader.finish()


def read_array(body: bytes, reader: ObservationReader) -> Observations:
    """The observations of a JSON array of records, numbered from 1; raises StrictJSONError, InvalidLines."""
    records = parse_strict_json(body)
    reader.noun = "element"
    if not isinstance(records, list):
        raise StrictJSONError("the document is not a list of records")
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    return reader.finish()


def read_csv(lines: Iterable[bytes], reader: ObservationReader) -> Observations:
    """The observations of a table in UTF-8, with or without a byte order mark; raises InvalidLines.

    The first row names the columns: `item`; where wanted `system`, `rater`, `dialogue`, `similarity`, `labels` (where
    the reader has values for them); `score:NAME` or `scores.NAME` for a score; anything else is an aspect. An empty
    cell is no value, an empty row no record. A row is numbered by its first line.
    """
    text = Decoded(lines)
    table = Table(reader)
    broken = table.add_lines(text)
    for number, what in [*text.faults, *broken]:
        reader.refuse(number, what)
    return reader.finish()


class Decoded:
    """The lines as text, up to the first that is not UTF-8, where none after it will be either, or that is too long.

    `faults` holds what is wrong with that one, once it was come to.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.faults: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=1):
            if len(line) > MOST_LINE:
                self.faults.append((number, LONG_LINE))
                return
            try:
                yield (line.removeprefix(MARK) if number == 1 else line).decode("utf-8")
            except UnicodeDecodeError as error:
                told = f"is not UTF-8 (byte {error.start + 1}): save the table as “CSV UTF-8”"
                self.faults.append((number, told))
                return


class Table:
    """Feeds a reader with the rows of a table, the first of which names the columns."""

    def __init__(self, reader: ObservationReader) -> None:
        self._reader = reader
        self._places: list[Place] = []
        self._columns: list[Set] = []
        self._numbers = Numbers()

    def add_lines(self, lines: Iterable[str]) -> list[tuple[int, str]]:
        """Takes all lines in, or those before one that makes it no table any more, and says which that is and why."""
        rows = csv.reader(lines, strict=True)
        broken: list[tuple[int, str]] = []
        waiting: list[tuple[int, list[str]]] = []
        start = 1
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                # What follows a broken quotation cannot be told apart into cells.
                broken.append((start, f"is not valid CSV: {error}"))
                break
            if row is None:
                break
            if any(row):
                waiting.append((start, row))
            start = rows.line_num + 1
            if not self._columns or len(waiting) == MOST_LINES:
                self._add_all(waiting)
                waiting = []
        self._add_all(waiting)
        return broken

    def _add_all(self, rows: Sequence[tuple[int, list[str]]]) -> None:
        """Takes the rows in: all at once where they are plain, which takes a third of the time."""
        if not rows:
            return
        if not self._columns:
            self._places = header(rows[0][1], self._reader, rows[0][0])
            self._columns = [setter_of(*place) for place in self._places]
            return
        block = read_rows(rows, self._places, self._reader.scores_field, self._numbers)
        if block is None or not self._reader.take(block):
            for line, row in rows:
                add_row(row, self._columns, self._reader, line)


def header(row: list[str], reader: ObservationReader, line: int) -> list[Place]:
    """Where each cell of the rows below goes; raises InvalidLines, since no row can be read without it."""
    if len(row) > MOST_COLUMNS:
        raise InvalidLines([(line, f"the header has {len(row)} columns, and {MOST_COLUMNS} may be")], noun=reader.noun)
    names = [cell.strip() for cell in row]
    faults = list(header_faults(names, reader))
    seen: dict[Place, str] = {}
    columns: list[Place] = []
    for number, name in enumerate(names, start=1):
        try:
            place = place_of(name, reader)
        except Unfit as unfit:
            faults.append(f"column {number}: {unfit}")
            continue
        if seen.setdefault(place, name) != name:
            faults.append(f"the header has {clip(seen[place])!r} and {clip(name)!r}, which are the same")
        columns.append(place)
    if faults:
        raise InvalidLines([(line, what) for what in faults], noun=reader.noun)
    return columns


def header_faults(names: list[str], reader: ObservationReader) -> Iterator[str]:
    """Columns that are missing, or there twice."""
    if "item" not in names:
        alone = len(names) == 1 and any(mark in names[0] for mark in ";\t")
        yield "the header has no column 'item'" + (": cells are to be separated by commas" if alone else "")
    for name in dict.fromkeys(names):
        if name and names.count(name) > 1:
            yield f"the header has {clip(name)!r} more than once"
    if not set(names) - {*NAMES, "similarity"}:
        yield "the header names no aspect"


def place_of(name: str, reader: ObservationReader) -> Place:
    """Where a column's cells go in a record; raises Unfit for an aspect that is not known."""
    if name in (*NAMES, "similarity") or (name == "labels" and reader.labels is not None):
        return name, None
    for prefix in ("score:", "scores.", f"{reader.scores_field}."):
        if name.startswith(prefix):
            reader.check_aspect(name.removeprefix(prefix))
            return reader.scores_field, name.removeprefix(prefix)
    reader.check_aspect(name)
    return "ratings", name


def setter_of(field: str, aspect: str | None) -> Set:
    """How a column's cells enter a record."""
    if aspect is not None:
        return number_setter(field, aspect)
    return similarity_setter if field == "similarity" else text_setter(field)


def text_setter(field: str) -> Set:
    """A cell that stays text."""

    def put(record: dict[str, Any], cell: str) -> None:
        """An empty cell is none."""
        record[field] = cell or None

    return put


def number_setter(field: str, name: str) -> Set:
    """A cell that is a number of one of the record's maps."""

    def put(record: dict[str, Any], cell: str) -> None:
        """An empty cell is no value; raises Unfit for what is no number."""
        record[field][name] = number_of(cell, name) if cell else None

    return put


def similarity_setter(record: dict[str, Any], cell: str) -> None:
    """A cell that is the record's b."""
    record["similarity"] = number_of(cell, "similarity") if cell else None


def add_row(row: list[str], columns: list[Set], reader: ObservationReader, line: int) -> None:
    """Gives the reader one row as a record."""
    if len(row) != len(columns):
        reader.refuse(line, f"has {len(row)} cells where the header has {len(columns)}")
        return
    record: dict[str, Any] = {"ratings": {}, reader.scores_field: {}}
    try:
        for put, cell in zip(columns, row, strict=True):
            put(record, cell.strip())
    except Unfit as unfit:
        reader.refuse(line, str(unfit))
        return
    if record.get("labels") is None:
        record.pop("labels", None)
    elif not record["ratings"]:
        del record["ratings"]
    reader.add(record, line)


class Numbers(dict[str, float]):
    """Cells with their numbers, as far as they are kept; NaN for an empty one. Raises Unfit as `number_of` does."""

    def __init__(self) -> None:
        super().__init__({"": math.nan})

    def __missing__(self, cell: str) -> float:
        number = number_of(cell, "a cell")
        if len(self) < MOST_NUMBERS:
            self[cell] = number
        return number


def read_rows(
    rows: Sequence[tuple[int, list[str]]], places: Sequence[Place], scores_field: str, numbers: Numbers
) -> Block | None:
    """The rows, each with its line, as a block; None where they are not all plain."""
    if scores_field == "ratings" or any(len(row) != len(places) for _, row in rows):
        return None
    names: dict[str, list[str]] = {}
    values: dict[str, dict[str, Floats]] = {"ratings": {}, scores_field: {}}
    similarity = None
    try:
        for (field, aspect), cells in zip(places, zip(*(row for _, row in rows), strict=True), strict=True):
            texts = [*map(str.strip, cells)]
            if aspect is not None:
                values[field][aspect] = np.array([*map(numbers.__getitem__, texts)])
            elif field == "similarity":
                similarity = np.array([*map(numbers.__getitem__, texts)])
            else:
                names[field] = texts
    except Unfit:
        return None
    if not all(names["item"]):
        return None
    nobody = [None] * len(rows)
    return Block(
        lines=[line for line, _ in rows],
        items=names["item"],
        systems=names.get("system", nobody),
        raters=names.get("rater", nobody),
        dialogues=names.get("dialogue", nobody),
        ratings=Values(values["ratings"], dict.fromkeys(values["ratings"], len(rows))),
        scores=Values(values[scores_field], dict.fromkeys(values[scores_field], len(rows))),
        similarity=None if similarity is None or np.isnan(similarity).all() else similarity,
    )


def number_of(cell: str, name: str) -> float:
    """The number as JSON or a spreadsheet spells it; raises Unfit for anything else that Python would take."""
    if not NUMBER.fullmatch(cell):
        raise Unfit(f"{clip(name)!r} is not a number; a cell without a value is left empty")
    return float(cell)

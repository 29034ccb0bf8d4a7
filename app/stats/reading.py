"""Ratings in JSON lines, a JSON array or CSV become columns; every fault is reported with its line.

A million ratings need no more memory than their columns: lines are read one at a time.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic_core import from_json

from saiten.core.messages import Message
from saiten.core.strict_json import (
    BYTE_ORDER_MARK,
    DIGITS,
    SURROGATES,
    StrictJSONError,
    parse_strict_json,
    refuse_surrogates,
    strict_decoder,
)
from saiten.core.wording import hint
from saiten_server.core.errors import MOST_FAULTS, MOST_REFUSED, NOUNS, InvalidLines
from saiten_server.core.giving_up import checkpoint
from saiten_server.core.validation import LARGEST, MARK, Unfit, check_number, clip, number_of, suggest_name
from saiten_server.stats.observations import NO_RATER, Floats, NumberColumn, Observations, check_rows, integers
from saiten_server.stats.record_columns import (
    ITEM_NUMBERS,
    NAME_FIELDS,
    GivenScores,
    RecordColumns,
    RecordField,
    columns_of_cells,
    columns_of_records,
    name_by_scorer,
    read_name,
)

Scales = Mapping[str, tuple[float, float]]
Columns = dict[str, NumberColumn]
Read = TypeVar("Read")
"""What a reader makes of all records."""

NUMBER_TYPES = {float, int}
PLAIN_FIELDS = {*NAME_FIELDS, *ITEM_NUMBERS}

EXPORTED = {"evaluation", "batch", "candidate", "comment", "created_at", "simulated"}
"""What an export of ratings has beside names and aspects. `comment` is passed over in any table, the others where all
of them are there: alone each might be an aspect."""

MOST_LINE_BYTES = 2**20
"""Bytes of a line, that is of one record."""

LONG_LINE = Message("line-bytes-most", most=MOST_LINE_BYTES)
ONE_BY_ONE = Message("read-one-by-one")

MOST_LABELS = 10_000
MOST_TABLE_COLUMNS = 500
"""Of a table."""

ROWS_AT_ONCE = 1_000
"""Rows of a table that are read together; more are no faster."""

MOST_ASPECTS = 200
"""Each is a column as long as the data: a file whose records each name an aspect of their own would not fit into
memory."""

MOST_CELLS = 100_000_000
"""Rows by columns, gaps and labels among them: 800 MB, however few bytes they were written with."""

MOST_READ_RATINGS = 2_000_000
"""Ratings by one rater of one item, each letter of labels being one."""

ANY = (-LARGEST, LARGEST)
TINY = float(np.finfo(np.float64).smallest_subnormal)

MOST_PASSED = 10 ** (DIGITS - 1)
"""Below it a number has no more digits than may be, and is finite."""

COLON = re.compile(rb"\\u003[aA]")
"""A colon in a text that is not written as one."""

MOST_FIELDS = 64
"""Fields of a record without ratings that are searched for a misspelt name."""


class RecordReader(ABC, Generic[Read]):
    """Takes records one by one, or many at once, and makes columns of them; `noun` is what the numbers count. Notes the
    records that do not fit, for `finish` to raise."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._faults: list[tuple[int, Message]] = []
        self._total = 0

    def add(self, record: Any, line: int) -> None:
        """Takes the record of that line, or notes why it cannot. Lines come in ascending order. Raises InvalidLines as
        `refuse` does, and where there are more rows or values than are taken."""
        try:
            self.take(record, line)
        except Unfit as unfit:
            self.refuse(line, unfit.message)

    def refuse(self, line: int, what: Message) -> None:
        """Notes a fault, for `finish` to raise; raises InvalidLines at once where there are too many."""
        self._total += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append((line, what))
        if self._total == MOST_REFUSED:
            raise InvalidLines(self._faults, self._total, self.noun, stopped=True)

    @abstractmethod
    def take(self, record: Any, line: int) -> None:
        """Takes the record; raises Unfit where it does not fit, and then has taken nothing of it."""

    @abstractmethod
    def take_records(self, records: Sequence[Any], lines: Sequence[int]) -> None:
        """Takes the records of those lines at once. Raises Unfit if `take` might refuse one; then nothing is taken."""

    @abstractmethod
    def finish(self) -> Read:
        """What all records say. Raises InvalidLines where one does not fit, or where there is none."""


@dataclass(frozen=True)
class ReadingLimits:
    """How many rows may be read, and how many cells, that is rows by columns."""

    rows: int
    cells: int


FILE_BOUNDS = ReadingLimits(rows=20_000_000, cells=300_000_000)
"""Of a file that its owner reads on a machine of their own: 2.4 GB."""


class ObservationReader(RecordReader[Observations]):
    """Takes records one by one and makes Observations of them.

    A record is `{"system"?, "item", "dialogue"?, "rater"?, "ratings": {aspect: number | null}, "scores"?: {aspect:
    number | null}, "similarity"?: number, "probability"?: number, "labels"?: "OTX…"}`; other fields are passed over.
    `labels` says what each letter of a record's labels is worth: each letter is one rater's rating of `label_aspect`,
    and the rater's name its position from 1. `scores_field` names the field that holds the scores. Where `aspects` are
    given, a record may name no other; where not, an aspect that only one record of three or more names is taken for a
    misspelling. `scales` hold the lowest and the highest rating by aspect, with `scale_scores` the scores' too. `noun`
    is what the numbers count, in faults. Where `name_characters` is given, no name may be longer. `bounds` are
    MOST_READ_RATINGS and MOST_CELLS where none are given. `by_scorer`: the scores are `{scorer: {aspect: number |
    null}}`, and their columns are named `scorer:aspect`, as in a table.
    """

    def __init__(
        self,
        *,
        labels: Mapping[str, float] | None = None,
        label_aspect: str = "label",
        scores_field: str = "scores",
        aspects: Sequence[str] | None = None,
        scales: Scales | None = None,
        scale_scores: bool = False,
        noun: str = "line",
        name_characters: int | None = None,
        bounds: ReadingLimits | None = None,
        by_scorer: bool = False,
    ) -> None:
        super().__init__(noun)
        self.labels = labels
        self.scores_field = scores_field
        self._fields = {*PLAIN_FIELDS, "ratings", "labels", scores_field}
        self._name_characters = name_characters
        self._label_aspect = label_aspect
        self._aspects = aspects
        self._scales = scales or {}
        self._score_scales = self._scales if scale_scores else {}
        self._bounds = bounds or ReadingLimits(MOST_READ_RATINGS, MOST_CELLS)
        self.by_scorer = by_scorer
        self._known = {field: defaultdict[str, int](count().__next__) for field in NAME_FIELDS}
        self._numbers = {field: array("q") for field in NAME_FIELDS}
        self._line = array("q")
        self._ratings: Columns = {}
        self._scores: Columns = {}
        self._targets = {"ratings": (self._ratings, self._scales), scores_field: (self._scores, self._score_scales)}
        self._single = {field: NumberColumn() for field in ITEM_NUMBERS}
        self._records = 0
        self._first = 0

    def take(self, record: Any, line: int) -> None:
        """Takes the record; raises Unfit where it does not fit, and then has taken nothing of it."""
        if not isinstance(record, dict):
            raise Unfit(Message("not-an-object"))
        item = self._number(record, "item")
        if item == NO_RATER:
            raise Unfit(Message("item-missing") if record.get("item") is None else Message("item-empty"))
        system = self._number(record, "system")
        if system == NO_RATER:
            system = self._known["system"][""]
        dialogue = self._number(record, "dialogue")
        scores = self._scores_of(record)
        single = {field: value for field in ITEM_NUMBERS if (value := record.get(field)) is not None}
        for field, value in single.items():
            check_single(value, field)
        given = self._ratings_of(record, bool(single) or bool(scores))
        if self.labels is not None:
            given += self._labels_of(record, self.labels)
        self._refuse_more(len(given), line)
        self._records += 1
        self._first = self._first or line
        for row, (rater, ratings) in enumerate(given, start=len(self._line)):
            self._numbers["system"].append(system)
            self._numbers["item"].append(item)
            self._numbers["rater"].append(rater)
            self._numbers["dialogue"].append(dialogue)
            self._line.append(line)
            for aspect, value in ratings.items():
                self._ratings[aspect].put(row, value, line)
            for aspect, value in scores.items():
                self._scores[aspect].put(row, value, line)
            for field, value in single.items():
                self._single[field].put(row, value, line)

    def take_records(self, records: Sequence[Any], lines: Sequence[int]) -> None:
        """Takes the records of those lines, many times as fast as `take`. Raises Unfit if `take` might refuse one of
        them; then nothing is taken."""
        if self.labels is not None:
            raise Unfit(ONE_BY_ONE)
        fields = {*chain.from_iterable([record for record in records if record.get("ratings") is None])}
        if fields:
            # Records without ratings are to have scores, and no field whose name may be a misspelling of `ratings`.
            unknown = sorted(fields - self._fields)
            misspelt = len(unknown) > MOST_FIELDS or (unknown and hint("ratings", unknown, cutoff=0.8))
            if misspelt or not all(record.get(self.scores_field) or record.get("ratings") for record in records):
                raise Unfit(ONE_BY_ONE)
        by_scorer, most = self.by_scorer, MOST_ASPECTS
        self.take_columns(columns_of_records(records, lines, self.scores_field, by_scorer=by_scorer, most=most))

    def take_columns(self, read: RecordColumns) -> None:
        """Takes records as columns. Raises Unfit if `take` might refuse one of them; then nothing is taken."""
        if (
            self.labels is not None
            or self.scores_field in {*PLAIN_FIELDS, "ratings", "labels"}
            or not all(read.names.get("item", [""]))
        ):
            raise Unfit(ONE_BY_ONE)
        rows = len(read.lines)
        for field, given in read.names.items():
            self._check_name(max(given, key=len), field)
            check_text("".join(given))
        columns = self._columns_for(read)
        if find_excess(len(self._line) + rows, self._width + len(columns) + 1, self._bounds) is not None:
            raise Unfit(ONE_BY_ONE)
        for field, numbers in self._numbers.items():
            named = np.fromiter(self._number_names(field, read.names.get(field), rows), np.int64, rows)
            numbers.frombytes(named.tobytes())
        for (field, aspect), column in columns.items():
            if aspect is not None:
                self._targets[field][0][aspect] = column
            values = read.numbers[field, aspect]
            column.extend(len(self._line), values.values, values.lines)
        self._line.frombytes(np.array(read.lines, dtype=np.int64).tobytes())
        self._records += rows
        self._first = self._first or read.lines[0]

    def _number_names(self, field: str, names: Sequence[str] | None, rows: int) -> Iterable[int]:
        """The numbers of so many rows' names, None where the rows have no such field. Only a system may be empty."""
        known = self._known[field]
        if names is None:
            return [known[""] if field == "system" else NO_RATER] * rows
        if field == "system" or "" not in names:
            return map(known.__getitem__, names)
        return [known[name] if name else NO_RATER for name in names]

    def _columns_for(self, read: RecordColumns) -> dict[RecordField, NumberColumn]:
        """The column for each of the places, a new one where there is none; raises Unfit for a number or an aspect that
        may not fit."""
        found = dict[RecordField, NumberColumn]()
        for (field, aspect), numbers in read.numbers.items():
            if aspect is None:
                check_range(numbers.values, (TINY, 1.0) if field == "probability" else ANY)
                found[field, aspect] = self._single[field]
                continue
            columns, scales = self._targets[field]
            check_range(numbers.values, scales.get(aspect, ANY))
            check_range(numbers.values, ANY)
            if aspect not in columns:
                self.check_aspect(aspect)
            found[field, aspect] = columns.get(aspect) or NumberColumn()
        for field, (columns, _) in self._targets.items():
            if len(columns.keys() | {aspect for own, aspect in found if own == field}) > MOST_ASPECTS:
                raise Unfit(ONE_BY_ONE)
        return found

    def check_aspect(self, name: str) -> None:
        """Raises Unfit for an aspect that is none of those given, or that has no name."""
        if not name or name != name.strip():
            raise Unfit(Message("aspect-name-form", name=repr(clip(name))))
        self._check_name(name, "aspect")
        name = name.rpartition(":")[2] if self.by_scorer else name
        if self._aspects is not None and name not in self._aspects:
            near = suggest_name(name, self._aspects) if self._total < MOST_FAULTS else ""
            raise Unfit(Message("aspect-unknown", name=repr(clip(name)), near=near))

    def finish(self) -> Observations:
        """What all records say, the aspects given first and in their order. Raises InvalidLines where a record does not
        fit, or where there is none. No record can be added afterwards: the memory is shared."""
        if not self._total and not self._records:
            self.refuse(1, Message("no-record"))
        elif not self._total and not self._ratings and not self._scores and not self._single["similarity"].lines:
            self.refuse(self._first, Message("nothing-rated", noun=NOUNS[self.noun]))
        lonely = list(self._lonely())
        rows = len(self._line)
        place = {aspect: number for number, aspect in enumerate(self._aspects or ())}
        read = Observations(
            systems=tuple(self._known["system"]),
            items=tuple(self._known["item"]),
            raters=tuple(self._known["rater"]),
            system=integers(self._numbers["system"]),
            item=integers(self._numbers["item"]),
            rater=integers(self._numbers["rater"]),
            ratings={
                aspect: self._ratings[aspect].filled(rows)
                for aspect in sorted(self._ratings, key=lambda aspect: place.get(aspect, 0))
            },
            scores={aspect: column.filled(rows) for aspect, column in self._scores.items()},
            similarity=self._fill_single("similarity", rows),
            probability=self._fill_single("probability", rows),
            lines=integers(self._line),
            dialogue=integers(self._numbers["dialogue"]) if self._known["dialogue"] else None,
        )
        check_rows(read, self.noun, [*self._faults, *lonely], self._total + len(lonely))
        return read

    def _fill_single(self, field: str, rows: int) -> Floats | None:
        column = self._single[field]
        return column.filled(rows) if column.lines else None

    def _number(self, record: dict[str, Any], field: str) -> int:
        """The number of the name in that field, in the order in which names first come; −1 for an empty name, or none.
        A name that is known was checked when it first came."""
        name = record.get(field)
        if type(name) is not str:
            name = read_name(record, field)
        if not name:
            return NO_RATER
        known = self._known[field]
        return known[name] if name in known else known[self._check_name(name, field)]

    @property
    def _width(self) -> int:
        return len(self._ratings) + len(self._scores) + 5 + bool(self._known["dialogue"])

    def _refuse_more(self, rows: int, line: int) -> None:
        """Raises InvalidLines if so many more rows are too many, or too many values: no later line makes them fewer."""
        what = find_excess(len(self._line) + rows, self._width, self._bounds)
        if what is not None:
            raise InvalidLines([*self._faults, (line, what)], self._total + 1, self.noun)

    def _ratings_of(self, record: dict[str, Any], has_more: bool) -> list[tuple[int, GivenScores]]:
        """The rater's number with the ratings; nothing where labels stand in their place. A record without ratings says
        something only where it `has_more`: scores or a similarity. Ratings that are empty are the same as ratings that
        are all null."""
        rater = self._number(record, "rater")
        ratings = record.get("ratings")
        if ratings is None:
            if self.labels is not None and "labels" in record:
                return []
            # Most judged items have no ratings: the search takes longer than all else that is done with a line.
            plain = record.keys() <= self._fields
            unknown = [] if plain else [field for field in list(record)[:MOST_FIELDS] if field not in self._fields]
            near = suggest_name("ratings", unknown, cutoff=0.8) if unknown else ""
            if near or not has_more:
                if "labels" in record:
                    raise Unfit(Message("record-with-labels-only"))
                raise Unfit(Message("record-without-ratings", near=near))
            ratings = {}
        if not isinstance(ratings, dict):
            raise Unfit(Message("ratings-not-object"))
        self._check(ratings, self._ratings, self._scales)
        return [(rater, ratings)]

    def _labels_of(self, record: dict[str, Any], values: Mapping[str, float]) -> Iterator[tuple[int, GivenScores]]:
        """Rater and rating of each letter; the rater is named by the letter's position."""
        if "labels" not in record:
            return
        letters = record["labels"]
        if not isinstance(letters, str) or not 0 < len(letters) <= MOST_LABELS:
            raise Unfit(Message("labels-not-text", maximum=MOST_LABELS))
        for position, letter in enumerate(letters, start=1):
            if letter not in values:
                raise Unfit(Message("label-unknown", position=position, letter=repr(letter), names=", ".join(values)))
            rating = {self._label_aspect: values[letter]}
            self._check(rating, self._ratings, self._scales)
            yield self._known["rater"][str(position)], rating

    def _scores_of(self, record: dict[str, Any]) -> GivenScores:
        scores = record.get(self.scores_field)
        if scores is None:
            return {}
        if not isinstance(scores, dict):
            raise Unfit(Message("values-not-object", field=clip(self.scores_field)))
        if self.by_scorer:
            scores = dict(name_by_scorer(scores))
        self._check(scores, self._scores, self._score_scales)
        return scores

    def _check(self, values: Mapping[str, Any], columns: Columns, scales: Scales) -> None:
        """Raises Unfit for a value that is not a number or off its scale; adds missing columns."""
        for aspect, value in values.items():
            if aspect not in columns:
                self.check_aspect(aspect)
            if value is not None:
                if type(value) not in NUMBER_TYPES or not -LARGEST <= value <= LARGEST:
                    check_number(value, aspect)
                if aspect in scales and not scales[aspect][0] <= value <= scales[aspect][1]:
                    low, high = scales[aspect]
                    raise Unfit(Message("value-off-scale", aspect=repr(clip(aspect)), value=value, low=low, high=high))
        for aspect in values:
            if aspect not in columns:
                if len(columns) == MOST_ASPECTS:
                    raise Unfit(Message("aspect-one-too-many", name=repr(clip(aspect)), maximum=MOST_ASPECTS))
                columns[aspect] = NumberColumn()

    def _check_name(self, text: str, what: str) -> str:
        """The text; raises Unfit where it is too long for a name, or could not be written as UTF-8."""
        if self._name_characters is not None and len(text) > self._name_characters:
            raise Unfit(
                Message("name-characters-most", field=what, text=repr(clip(text)), maximum=self._name_characters)
            )
        return check_text(text)

    def _lonely(self) -> Iterator[tuple[int, Message]]:
        """Aspects that a single record names, where others could have named them too."""
        if self._aspects is not None or self._records < 3:
            return
        both = (self._ratings, self._scores)
        common = {name for columns in both for name, column in columns.items() if column.lines > 1}
        hinted = 0
        for columns in both:
            for aspect, column in columns.items():
                if column.lines == 1 and aspect not in common:
                    # Fewer are listed than are looked at here: the search takes longer than all else.
                    near = suggest_name(aspect, sorted(common)) if hinted < MOST_FAULTS else ""
                    hinted += 1
                    # A line that was refused may be another that has it, unless the name looks misspelt.
                    if near or not self._total:
                        yield (
                            column.first,
                            Message("aspect-of-one-record", name=repr(clip(aspect)), noun=NOUNS[self.noun], near=near),
                        )


def check_text(text: str) -> str:
    """The text; raises Unfit where it could not be written as UTF-8."""
    if not text.isascii() and SURROGATES.search(text):
        raise Unfit(Message("text-lone-surrogate"))
    return text


def check_single(value: Any, field: str) -> None:
    """Raises Unfit unless the value of an item's number is one, and a probability above 0 and at most 1."""
    check_number(value, field)
    if field == "probability" and not 0 < value <= 1:
        raise Unfit(Message("probability-range", value=value))


def check_range(values: Floats, ends: tuple[float, float]) -> None:
    """Raises Unfit where a value, NaN for none, lies outside."""
    if not all(np.isnan(end) or ends[0] <= end <= ends[1] for end in (np.fmin.reduce(values), np.fmax.reduce(values))):
        raise Unfit(ONE_BY_ONE)


def find_excess(rows: int, columns: int, bounds: ReadingLimits) -> Message | None:
    """What to say where so many rows of so many columns are too much; None where they are not."""
    if rows > bounds.rows:
        return Message("rows-most", most=bounds.rows)
    if rows * columns > bounds.cells:
        return Message("cells-most", most=bounds.cells)
    return None


def read_array(body: bytes, reader: RecordReader[Read]) -> Read:
    """What the reader makes of a JSON array of records, numbered from 1; raises StrictJSONError, InvalidLines."""
    records = parse_strict_json(body)
    reader.noun = "element"
    if not isinstance(records, list):
        raise StrictJSONError(Message("not-a-list-of-records"))
    for start in range(0, len(records), ROWS_AT_ONCE):
        checkpoint()
        some = records[start : start + ROWS_AT_ONCE]
        lines = range(start + 1, start + 1 + len(some))
        if not takes_at_once(some, lines, reader):
            for number, record in zip(lines, some, strict=True):
                reader.add(record, number)
    return reader.finish()


def takes_at_once(records: Sequence[Any], lines: Sequence[int], reader: RecordReader[Any]) -> bool:
    """Takes the records of those lines; False, and nothing is taken, where one may have a fault."""
    try:
        if all(type(record) is dict for record in records):
            reader.take_records(records, lines)
            return True
    except Unfit:
        pass
    return False


def read_ndjson(lines: Iterable[bytes], reader: RecordReader[Read]) -> Read:
    """What the reader makes of lines of JSON, one record each; blank lines are passed over, but counted. Raises
    InvalidLines."""
    first = 1
    for batch in split_lines(lines):
        checkpoint()
        numbers = range(first, first + len(batch))
        first += len(batch)
        records = read_quickly(batch)
        if records is None or not takes_at_once(records, numbers, reader):
            for number, line in zip(numbers, batch, strict=True):
                add_line(line, number, reader)
    return reader.finish()


def split_lines(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines, some at a time: fewer where they are long."""
    left, wanted = iter(lines), ROWS_AT_ONCE
    while batch := [*islice(left, wanted)]:
        yield batch
        wanted = min(ROWS_AT_ONCE, 1 + MOST_LINE_BYTES // max(map(len, batch), default=1))


def add_line(line: bytes, number: int, reader: RecordReader[Any]) -> None:
    """Takes a line, or notes why it cannot; a strict reading words every fault. Raises InvalidLines."""
    if len(line) > MOST_LINE_BYTES:
        reader.refuse(number, LONG_LINE)
        return
    for record in read_quickly([line]) or ():
        with suppress(Unfit):
            reader.take(record, number)
            return
    if line.strip():
        try:
            reader.take(parse_line(line), number)
        except Unfit as unfit:
            reader.refuse(number, unfit.message)


def read_quickly(lines: Sequence[bytes]) -> list[Any] | None:
    """The records of lines that have nothing unusual, in a fifth of the time of a strict reading; None for others."""
    if max(map(len, lines)) > MOST_LINE_BYTES:
        return None
    try:
        records = [from_json(line, allow_inf_nan=False) for line in lines]
    except ValueError:
        return None
    return records if are_plain(records, lines) else None


def are_plain(records: Sequence[Any], lines: Sequence[bytes]) -> bool:
    """Whether a strict reading of the lines gives these records too. Every member is written with a colon: where there
    are no more colons than members and colons in texts, no member was lost to another with the same key."""
    members, levels = 0, [records]
    for level in levels:
        types = {*map(type, level)}
        objects, lists = (find_all(level, types, {kind}) for kind in (dict, list))
        numbers = find_all(level, types, NUMBER_TYPES)
        if numbers and not -MOST_PASSED < min(numbers) <= max(numbers) < MOST_PASSED:
            return False
        members += sum(map(len, objects))
        further = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(lists)]
        levels += [further] if further else []
    written = b"".join(lines)
    colons = written.count(b":")
    if colons == members:
        return True
    in_texts = sum("".join([part for part in level if type(part) is str]).count(":") for level in levels)
    return colons == members + in_texts and not (b"\\" in written and COLON.search(written))


def find_all(parts: Sequence[Any], types: set[type], wanted: set[type]) -> Sequence[Any]:
    """The parts of the types that are wanted; `types` are those of all parts."""
    if types <= wanted:
        return parts
    return [part for part in parts if type(part) in wanted] if types & wanted else []


def parse_line(line: bytes) -> Any:
    """The value of a line of JSON; raises Unfit."""
    if line.startswith(MARK):
        raise Unfit(BYTE_ORDER_MARK)
    try:
        text = line.decode("utf-8")
        record = strict_decoder().decode(text)
        refuse_surrogates(record, text, 0, len(text))
    except UnicodeDecodeError as error:
        raise Unfit(Message("line-not-utf-8", place=error.start + 1)) from None
    except json.JSONDecodeError as error:
        raise Unfit(Message("line-json-invalid-at", reason=error.msg, column=error.colno)) from None
    except StrictJSONError as error:
        raise Unfit(Message("line-json-invalid", fault=error.message)) from None
    except RecursionError:
        raise Unfit(Message("line-too-deep")) from None
    return record


def read_csv(lines: Iterable[bytes], reader: ObservationReader) -> Observations:
    """The observations of a table in UTF-8, with or without a byte order mark; raises InvalidLines.

    The first row names the columns: `item`; where wanted `system`, `rater`, `dialogue`, `similarity`, `probability`,
    `labels` (where the reader has values for them); `score:NAME` or `scores.NAME` for a score; what an export of
    ratings has besides is passed over; anything else is an aspect. An empty cell means no value; empty rows are
    skipped. A row is numbered by its first line.
    """
    broken: list[tuple[int, Message]] = []
    places: list[RecordField] = []
    waiting: list[tuple[int, list[str]]] = []
    rows = csv.reader(decode_lines(lines, broken), strict=True)
    start = 1
    try:
        for row in rows:
            if not any(row):
                pass
            elif not places:
                places = read_header(row, reader, start)
            else:
                waiting.append((start, row))
                if len(waiting) == ROWS_AT_ONCE:
                    add_rows(waiting, places, reader)
                    waiting = []
            start = rows.line_num + 1
    except csv.Error as error:
        # What follows a broken quotation cannot be divided into cells.
        broken.append((start, Message("csv-invalid", reason=str(error))))
    if waiting:
        add_rows(waiting, places, reader)
    for number, what in broken:
        reader.refuse(number, what)
    return reader.finish()


def decode_lines(lines: Iterable[bytes], broken: list[tuple[int, Message]]) -> Iterator[str]:
    """The lines as text, up to the first that is too long or not UTF-8, since none after it will be either; what is
    wrong with it is added to `broken`."""
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_LINE_BYTES:
            broken.append((number, LONG_LINE))
            return
        try:
            yield (line.removeprefix(MARK) if number == 1 else line).decode("utf-8")
        except UnicodeDecodeError as error:
            broken.append((number, Message("table-not-utf-8", place=error.start + 1)))
            return


def read_header(row: list[str], reader: ObservationReader, line: int) -> list[RecordField]:
    """Where each cell of the rows below goes; raises InvalidLines, since no row can be read without it."""
    if len(row) > MOST_TABLE_COLUMNS:
        raise InvalidLines(
            [(line, Message("header-columns-most", count=len(row), maximum=MOST_TABLE_COLUMNS))], noun=reader.noun
        )
    names = [cell.strip() for cell in row]
    passed = EXPORTED if EXPORTED.issubset(names) else {"comment"}
    faults = list(header_faults(names, passed))
    places: dict[RecordField, str] = {}
    for number, name in enumerate(names, start=1):
        try:
            place = (name, None) if name in passed else place_of(name, reader)
        except Unfit as unfit:
            faults.append(Message("fault-at", where=Message("column", number=number), fault=unfit.message))
            continue
        if places.setdefault(place, name) != name:
            faults.append(Message("header-names-same", first=repr(clip(places[place])), second=repr(clip(name))))
    if faults:
        raise InvalidLines([(line, what) for what in faults], noun=reader.noun)
    return [*places]


def header_faults(names: list[str], passed: set[str]) -> Iterator[Message]:
    """Columns that are missing, or there twice."""
    if "item" not in names:
        alone = len(names) == 1 and any(mark in names[0] for mark in ";\t")
        yield Message("header-without-item-or-commas") if alone else Message("header-without-item")
    for name in dict.fromkeys(names):
        if name and names.count(name) > 1:
            yield Message("header-name-twice", name=repr(clip(name)))
    if not set(names) - PLAIN_FIELDS - passed:
        yield Message("header-without-aspect")


def place_of(name: str, reader: ObservationReader) -> RecordField:
    """Where a column's cells go in a record; raises Unfit for an aspect that is not known."""
    if name in PLAIN_FIELDS or (name == "labels" and reader.labels is not None):
        return name, None
    for prefix in ("score:", "scores.", f"{reader.scores_field}."):
        if name.startswith(prefix):
            score = name.removeprefix(prefix)
            if reader.by_scorer and ":" not in score:
                raise Unfit(Message("column-names-no-aspect", name=repr(clip(name))))
            reader.check_aspect(score)
            return reader.scores_field, score
    reader.check_aspect(name)
    return "ratings", name


def add_rows(rows: Sequence[tuple[int, list[str]]], places: Sequence[RecordField], reader: ObservationReader) -> None:
    """Passes rows with their lines to the reader: all at once, or else one by one, which words every fault."""
    with suppress(ValueError):  # Unfit, or rows that are too long or too short
        columns = zip(*(row for _, row in rows), strict=True)
        cells = {
            place: [*map(str.strip, column)]
            for place, column in zip(places, columns, strict=True)
            if place[1] is not None or place[0] not in EXPORTED
        }
        reader.take_columns(columns_of_cells(cells, [line for line, _ in rows]))
        return
    for line, row in rows:
        add_row(row, places, reader, line)


def add_row(row: list[str], places: Sequence[RecordField], reader: ObservationReader, line: int) -> None:
    """Passes one row to the reader as a record; an empty cell means no value."""
    if len(row) != len(places):
        reader.refuse(line, Message("cells-unlike-header", cells=len(row), columns=len(places)))
        return
    record: dict[str, Any] = {"ratings": {}, reader.scores_field: {}}
    try:
        for (field, aspect), cell in zip(places, map(str.strip, row), strict=True):
            if aspect is not None:
                record[field][aspect] = number_of(cell, aspect) if cell else None
            elif cell:
                record[field] = number_of(cell, field) if field in ITEM_NUMBERS else cell
    except Unfit as unfit:
        reader.refuse(line, unfit.message)
        return
    if "labels" in record and not record["ratings"]:
        del record["ratings"]
    reader.add(record, line)

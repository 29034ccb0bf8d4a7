"""Preferences in JSON lines, a JSON array or CSV become columns; every fault is reported with its line."""

from __future__ import annotations

import csv
import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import nan
from typing import Any

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import MOST_FAULTS, PLACES, InvalidLines
from saiten_server.core.validation import MOST_NAME, Unfit, check_number, clip, number_of, suggest_name
from saiten_server.preferences.rankings.columns import LENGTH, scale_lengths
from saiten_server.preferences.rankings.values import ClusterUnit
from saiten_server.stats.observations import NO_RATER, Floats, Integers, Mask, integers, join_shared
from saiten_server.stats.reading import RecordReader, check_text, decode_lines
from saiten_server.stats.record_columns import read_name
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs

WINNERS = {"a": FIRST, "b": SECOND, "tie": TIE}
PAIR_NAMES = ("item", "a", "b", "rater", "dialogue")
LENGTHS = ("length_a", "length_b")
FIELDS = (*PAIR_NAMES, "winner", *LENGTHS, "covariates")

MOST_SYSTEMS = 200
"""Every pair of systems is tested with all others: 19,900 of them."""

MOST_PREFERENCES = 2_000_000
MOST_COVARIATES = 8
MOST_LENGTH = 10**9
"""Characters of a response."""

COVARIATE = "covariate:"
"""How a table's column of a covariate begins."""


class PreferenceReader(RecordReader[tuple[ShownPairs, list[Message]]]):
    """Takes records one by one and makes ShownPairs of them; `a` was shown before `b`. `noun` is what the numbers count
    in faults. More than MOST_SYSTEMS systems, or MOST_PREFERENCES records, are refused where they come."""

    def __init__(self, *, noun: str = "line", clusters: ClusterUnit = "dialogue") -> None:
        super().__init__(noun)
        self._clusters = clusters
        self._known = {
            field: defaultdict[str, int](count().__next__) for field in ("system", "item", "rater", "dialogue")
        }
        self._columns = {field: array("q") for field in (*PAIR_NAMES, "winner", "line")}
        self._numbers: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def take(self, record: Any, line: int) -> None:
        """Takes the record; raises Unfit where it does not fit, and then has taken nothing of it."""
        if not isinstance(record, dict):
            raise Unfit(Message("not-an-object"))
        self._check_fields(record)
        names = {field: read_known(record, field) for field in PAIR_NAMES}
        for field in ("item", "a", "b"):
            if not names[field]:
                raise Unfit(Message("preference-field-missing", field=field))
        if names["a"] == names["b"]:
            raise Unfit(Message("preference-of-itself", system=repr(clip(names["a"]))))
        winner = record.get("winner")
        if type(winner) is not str or winner not in WINNERS:
            raise Unfit(Message("winner-not-in-pair", winner=clip(json.dumps(winner, ensure_ascii=False))))
        numbers = read_lengths(record) | read_covariates(record)
        self._check_room(names, numbers, line)
        for field in PAIR_NAMES:
            known = self._known["system" if field in {"a", "b"} else field]
            self._columns[field].append(known[names[field]] if names[field] else NO_RATER)
        row = len(self._columns["winner"])
        self._columns["winner"].append(WINNERS[winner])
        self._columns["line"].append(line)
        for name, value in numbers.items():
            column = self._numbers[name]
            column.extend([nan] * (row - len(column)))
            column.append(value)

    def _check_fields(self, record: Mapping[str, Any]) -> None:
        """Raises Unfit where a field that is needed seems to be misspelt."""
        for field in ("item", "a", "b", "winner"):
            if field not in record:
                near = suggest_name(field, [name for name in list(record)[:64] if name not in FIELDS])
                raise Unfit(Message("preference-field-absent", field=field, near=near))

    def _check_room(self, names: Mapping[str, str], numbers: Mapping[str, float], line: int) -> None:
        """Raises InvalidLines where there are more systems, records or covariates than are taken."""
        what = None
        systems = self._known["system"]
        if len(systems) + sum(names[field] not in systems for field in ("a", "b")) > MOST_SYSTEMS:
            what = Message("ranking-systems-most", most=MOST_SYSTEMS)
        elif len(self._columns["winner"]) >= MOST_PREFERENCES:
            what = Message("ranking-preferences-most", most=MOST_PREFERENCES)
        elif len(self._numbers.keys() | numbers.keys()) > MOST_COVARIATES:
            what = Message("ranking-covariates-most", most=MOST_COVARIATES)
        if what is not None:
            raise InvalidLines([*self._faults, (line, what)], self._total + 1, self.noun)

    def take_records(self, records: Sequence[Any], lines: Sequence[int]) -> None:
        """Takes the records of those lines at once, where none has anything but names, a winner and lengths. Raises
        Unfit where one has, or may have a fault; then nothing is taken."""
        plain = {"item", "dialogue", "a", "b", "winner", "rater"}
        columns = {field: [record.get(field) for record in records] for field in plain}
        if any(not record.keys() <= plain | {*LENGTHS} for record in records):
            raise Unfit(Message("read-one-by-one"))
        lengths = self._subtract_lengths(records)
        for field, values in columns.items():
            kinds = {*map(type, values)}
            if not kinds <= ({str} if field in {"item", "a", "b", "winner"} else {str, type(None)}):
                raise Unfit(Message("read-one-by-one"))
            if max((len(value) for value in {*values} if value), default=0) > MOST_NAME:
                raise Unfit(Message("read-one-by-one"))
            check_text("".join(value for value in {*values} if value))
        systems = {*columns["a"], *columns["b"], *self._known["system"]}
        full = len(systems) > MOST_SYSTEMS or len(self._columns["winner"]) + len(records) > MOST_PREFERENCES
        same = any(map(str.__eq__, columns["a"], columns["b"]))
        if full or same or "" in {*columns["item"], *systems} or not {*columns["winner"]} <= WINNERS.keys():
            raise Unfit(Message("read-one-by-one"))
        for field in PAIR_NAMES:
            known = self._known["system" if field in {"a", "b"} else field]
            self._columns[field].extend([known[value] if value else NO_RATER for value in columns[field]])
        if lengths is not None:
            column = self._numbers[LENGTH]
            column.extend([nan] * (len(self._columns["winner"]) - len(column)))
            column.extend(lengths)
        self._columns["winner"].extend(map(WINNERS.__getitem__, columns["winner"]))
        self._columns["line"].extend(lines)

    def _subtract_lengths(self, records: Sequence[Any]) -> list[float] | None:
        """The differences in length, NaN where a length is missing; None where all are. Raises Unfit where one is no
        length, or there may be too many covariates."""
        given = [[record.get(field) for record in records] for field in LENGTHS]
        kinds = {*map(type, given[0]), *map(type, given[1])}
        if kinds == {type(None)}:
            return None
        if not kinds <= {int, float, type(None)} or len(self._numbers) >= MOST_COVARIATES:
            raise Unfit(Message("read-one-by-one"))
        first, second = np.array(given, dtype=np.float64)
        if np.any((first < 0) | (first > MOST_LENGTH) | (second < 0) | (second > MOST_LENGTH)):
            raise Unfit(Message("read-one-by-one"))
        found: list[float] = (first - second).tolist()
        return found

    def finish(self) -> tuple[ShownPairs, list[Message]]:
        """What all records say, with what to know of it. Raises InvalidLines where a record does not fit, or where
        there is none. No record can be added afterwards."""
        if not self._total and not len(self._columns["winner"]):
            self.refuse(1, Message("no-record"))
        found = {field: integers(column) for field, column in self._columns.items()}
        pairs = ShownPairs(
            systems=tuple(self._known["system"]),
            first=found["a"],
            second=found["b"],
            choice=found["winner"],
            item=found["item"],
            cluster=self._cluster(found["item"], found["dialogue"]),
            rater=found["rater"],
        )
        notes = self._compare_repeats(pairs, found["line"])
        if self._total:
            raise InvalidLines(self._faults, self._total, self.noun)
        covariates, left_out = self._finish_numbers(pairs.n)
        notes += [Message("covariate-left-out", name=repr(clip(name)), records=rows) for name, rows in left_out]
        return replace(pairs, covariates=covariates), notes

    def _cluster(self, item: Integers, dialogue: Integers) -> Integers:
        """Each look's cluster: its dialogue, its item where none is named, or itself."""
        if self._clusters == "none":
            return np.arange(len(item))
        named = np.flatnonzero(dialogue >= 0)
        if self._clusters == "item" or not len(named):
            return item
        return join_shared(item[named], dialogue[named], len(self._known["item"]))[item]

    def _compare_repeats(self, pairs: ShownPairs, lines: Integers) -> list[Message]:
        """Refuses a rater who said two things of one pair in one order; tells of the judge's repeated looks."""
        size = len(pairs.systems)
        key = (pairs.item * size + pairs.first) * size + pairs.second
        key = key * (len(self._known["rater"]) + 1) + pairs.rater + 1
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
        opposed = pairs.choice[order[again]] != pairs.choice[order[again - 1]]
        named = pairs.rater[order[again]] >= 0
        for place in again[opposed & named][:MOST_FAULTS]:
            before = PLACES[self.noun](int(lines[order[place - 1]]))
            self.refuse(int(lines[order[place]]), Message("preference-contradicted", before=before))
        judged = int(np.sum(~named))
        if not judged:
            return []
        return [Message("preferences-repeated", looks=judged, opposed=int(np.sum(opposed & ~named)))]

    def _finish_numbers(self, rows: int) -> tuple[dict[str, Floats], list[tuple[str, int]]]:
        """The covariates that all records have, and the others with how many have them."""
        found, left_out = dict[str, Floats](), list[tuple[str, int]]()
        for name, column in self._numbers.items():
            column.extend([nan] * (rows - len(column)))
            values = np.frombuffer(column)
            held: Mask = ~np.isnan(values)
            if not held.all():
                left_out.append((name, int(held.sum())))
            elif np.any(values):
                found[name] = scale_lengths(values) if name == LENGTH else values.copy()
        return found, left_out


def read_known(record: Mapping[str, Any], field: str) -> str:
    """The name in the field, empty for none; raises Unfit."""
    name = read_name(dict(record), field) or ""
    if len(name) > MOST_NAME:
        raise Unfit(Message("name-characters-most", field=field, text=repr(clip(name)), maximum=MOST_NAME))
    return check_text(name)


def read_lengths(record: Mapping[str, Any]) -> dict[str, float]:
    """The difference in length, where both lengths are given; raises Unfit."""
    given = [record.get(field) for field in LENGTHS]
    for field, value in zip(LENGTHS, given, strict=True):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_LENGTH
        ):
            raise Unfit(Message("length-not-number", field=field, most=MOST_LENGTH))
    if None in given:
        return {}
    return {LENGTH: float(given[0]) - float(given[1])}  # type: ignore[arg-type]


def read_covariates(record: Mapping[str, Any]) -> dict[str, float]:
    """The covariates, differences of a's value minus b's; raises Unfit."""
    given = record.get("covariates")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Unfit(Message("values-not-object", field="covariates"))
    for name, value in given.items():
        check_text(name)
        if not name or len(name) > MOST_NAME or name == LENGTH:
            raise Unfit(Message("covariate-name", name=repr(clip(name)), maximum=MOST_NAME))
        check_number(value, name)
    return {name: float(value) for name, value in given.items()}


def read_csv(lines: Iterable[bytes], reader: PreferenceReader) -> tuple[ShownPairs, list[Message]]:
    """The preferences of a table in UTF-8, with the columns `item`, `a`, `b`, `winner`; where wanted `dialogue`,
    `rater`, `length_a`, `length_b` and `covariate:NAME`. Other columns are passed over. Raises InvalidLines."""
    broken: list[tuple[int, Message]] = []
    rows = csv.reader(decode_lines(lines, broken), strict=True)
    names: list[str] = []
    start = 1
    try:
        for row in rows:
            if not any(row):
                pass
            elif not names:
                names = read_header(row, reader, start)
            elif len(row) != len(names):
                reader.refuse(start, Message("cells-unlike-header", cells=len(row), columns=len(names)))
            else:
                add_row(dict(zip(names, map(str.strip, row), strict=True)), reader, start)
            start = rows.line_num + 1
    except csv.Error as error:
        broken.append((start, Message("csv-invalid", reason=str(error))))
    for number, what in broken:
        reader.refuse(number, what)
    return reader.finish()


def read_header(row: Sequence[str], reader: PreferenceReader, line: int) -> list[str]:
    """The names of the columns; raises InvalidLines where one is missing, or there twice."""
    names = [cell.strip() for cell in row]
    missing = [field for field in ("item", "a", "b", "winner") if field not in names]
    twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    faults = [Message("preference-column-missing", field=field) for field in missing]
    faults += [Message("header-name-twice", name=repr(clip(name))) for name in twice]
    if faults:
        raise InvalidLines([(line, what) for what in faults], noun=reader.noun)
    return names


def add_row(cells: Mapping[str, str], reader: PreferenceReader, line: int) -> None:
    """Passes one row to the reader as a record; an empty cell means no value."""
    record: dict[str, Any] = {field: cells[field] for field in (*PAIR_NAMES, "winner") if cells.get(field)}
    try:
        record |= {field: number_of(cells[field], field) for field in LENGTHS if cells.get(field)}
        covariates = {
            name.removeprefix(COVARIATE): number_of(cell, name)
            for name, cell in cells.items()
            if name.startswith(COVARIATE) and cell
        }
    except Unfit as unfit:
        reader.refuse(line, unfit.message)
        return
    reader.add({**record, **({"covariates": covariates} if covariates else {})}, line)

"""Columns that grow row by row, and what only whole columns show to be wrong."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from app.analysis.observations import NO_RATER, Floats, Integers, Observations
from app.domain.lines import MOST_FAULTS, InvalidLines
from app.domain.validation import clip

NOTHING = array("d", [float("nan")])


class Column:
    """Numbers by row, NaN where there is none. `lines` counts the lines that name the column, `first` is the first."""

    __slots__ = ("_last", "_values", "first", "lines")

    def __init__(self) -> None:
        self._values = array("d")
        self._last = 0
        self.first = 0
        self.lines = 0

    def put(self, row: int, value: float | None, line: int) -> None:
        """Sets the value of a row after all those that are set; None is no value."""
        if line != self._last:
            self._last = line
            self.lines += 1
            self.first = self.first or line
        if value is not None:
            if row > len(self._values):
                self._values.extend(NOTHING * (row - len(self._values)))
            self._values.append(value)

    def put_all(self, row: int, values: Floats, line: int, lines: int) -> None:
        """Sets the values, shape (n,), of the rows from that one on, NaN for none. `lines` of theirs name the column,
        at least one of them, and `line` is the last of all."""
        self._last = line
        self.lines += lines
        self._values.extend(NOTHING * (row - len(self._values)))
        self._values.frombytes(np.ascontiguousarray(values).tobytes())

    def filled(self, rows: int) -> Floats:
        """The values of that many rows, shape (rows,). The column must not grow afterwards: the memory is shared."""
        self._values.extend(NOTHING * (rows - len(self._values)))
        return np.frombuffer(self._values) if rows else np.empty(0)


def integers(values: array[int]) -> Integers:
    """The array, shape (n,), without a copy."""
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)


Pairs = tuple[str, str, Integers, Integers]
"""What is wrong, how the earlier line comes into it, and the rows with the earlier rows that they clash with."""


class Faults(NamedTuple):
    """How many there are, and those on the first lines as (line, what is wrong)."""

    total: int
    first: list[tuple[int, str]]


def repetitions(read: Observations, noun: str) -> Faults:
    """Lines that rate an aspect of an item for which the same rater, or again nobody in particular, did before."""
    key = read.unit * (len(read.raters) + 1)
    key += read.rater
    key += 1
    if are_different(key):
        return Faults(0, [])
    found: list[Pairs] = []
    for aspect, column in read.ratings.items():
        rows = np.flatnonzero(~np.isnan(column))
        if are_different(key[rows]):
            continue
        rows = rows[np.argsort(key[rows], kind="stable")]
        again = np.flatnonzero(key[rows][1:] == key[rows][:-1]) + 1
        found.append((f"rates {clip(aspect)!r} again", f"after {noun}", rows[again], rows[again - 1]))
    return described(read, found)


def contradictions(read: Observations, noun: str) -> Faults:
    """Lines whose score or similarity is another than an earlier line's of the same item."""
    columns = {f"its score {clip(aspect)!r}": column for aspect, column in read.scores.items()}
    if read.similarity is not None:
        columns["its similarity"] = read.similarity
    found: list[Pairs] = []
    for what, column in columns.items():
        if agree_within(read.unit, read.units, column):
            continue
        rows = np.flatnonzero(~np.isnan(column))
        first = np.zeros(read.units, dtype=np.int64)
        # The last of several values put in one place stays, so that from the back it is the first row.
        first[read.unit[rows[::-1]]] = rows[::-1]
        rows = rows[column[rows] != column[first[read.unit[rows]]]]
        found.append((f"{what} is another", f"than on {noun}", rows, first[read.unit[rows]]))
    return described(read, found)


def check_rows(read: Observations, noun: str, faults: Sequence[tuple[int, str]] = (), total: int = 0) -> None:
    """Raises InvalidLines for these faults, of `total`, and for what only whole columns show to be wrong."""
    late = [repetitions(read, noun), contradictions(read, noun)]
    total += sum(found.total for found in late)
    if total:
        raise InvalidLines([*faults, *(fault for found in late for fault in found.first)], total, noun)


def are_different(keys: Integers) -> bool:
    """Whether no two of the keys, shape (n,), are equal."""
    ascending = np.sort(keys)
    return not bool((ascending[1:] == ascending[:-1]).any())


def agree_within(group: Integers, groups: int, column: Floats) -> bool:
    """Whether all values of each group are equal; shapes (n,), `group` numbers from 0, and NaN is no value."""
    held = ~np.isnan(column)
    whole = bool(held.all())
    group, column = (group, column) if whole else (group[held], column[held])
    one = np.empty(groups)
    one[group] = column
    return bool((one[group] == column).all())


def described(read: Observations, found: list[Pairs]) -> Faults:
    """Puts into words the faults of the first lines."""
    lines = np.arange(1, read.n + 1) if read.lines is None else read.lines
    first = []
    for what, before, rows, earlier in found:
        for place in np.argsort(lines[rows], kind="stable")[:MOST_FAULTS]:
            whose = name(read, int(rows[place]))
            first.append((int(lines[rows[place]]), f"{what} {before} {lines[earlier[place]]} ({whose})"))
    return Faults(sum(len(rows) for _, _, rows, _ in found), sorted(first)[:MOST_FAULTS])


def name(read: Observations, row: int) -> str:
    """The row's item, system and rater, for a fault."""
    parts = [f"item {clip(read.items[read.item[row]])!r}"]
    if system := read.systems[read.system[row]]:
        parts.append(f"system {clip(system)!r}")
    if read.rater[row] != NO_RATER:
        parts.append(f"rater {clip(read.raters[read.rater[row]])!r}")
    return ", ".join(parts)

"""Many plain records at a time: read as columns where nothing about them is unusual, and not at all where something is.

Whoever is given None reads the same lines again, one by one and strictly: faults, and their words, are those of the
strict reading alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any, cast

import numpy as np
from pydantic_core import from_json

from app.analysis.observations import Floats
from app.domain.strict_json import DIGITS

MOST_LINES = 1000
MOST_BYTES = 2**20
"""Of a block: larger ones are no faster, and this is held beside the columns."""

MOST_NAMES = 200
"""Aspects that the records of a block name; each is looked for in every record."""

NAMED = ("item", "system", "rater", "dialogue")
TEXTS = {str, NoneType}
INTEGERS = {int, NoneType}
NUMBERS = {int, float, NoneType}


@dataclass(frozen=True)
class Values:
    """The values of a block by name, each of shape (n,) with NaN for none, and how many of the records name it."""

    columns: Mapping[str, Floats]
    named: Mapping[str, int]


@dataclass(frozen=True)
class Block:
    """`n` records, one a line. `items`, `systems`, `raters` and `dialogues` have that length, as have all columns.

    None, or an empty text, is no name.
    """

    lines: Sequence[int]
    items: Sequence[str]
    systems: Sequence[str | None]
    raters: Sequence[str | None]
    dialogues: Sequence[str | None]
    ratings: Values
    scores: Values
    similarity: Floats | None


def cut_lines(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines, some at a time; one alone may have more than MOST_BYTES."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= MOST_BYTES or len(found) == MOST_LINES:
            yield found
            found, size = [], 0
    if found:
        yield found


def read_block(lines: Sequence[bytes], first: int, scores_field: str) -> Block | None:
    """The records of lines of JSON, the first of which has the number `first`; None where they are not all plain.

    Plain is a record with a text or an integer for an item, with ratings, and with numbers or null for values.
    """
    try:
        records: list[Any] = [from_json(line, allow_inf_nan=False) for line in lines]
    except ValueError:
        return None
    if {*map(type, records)} != {dict}:
        return None
    ratings, scores = maps_of(records, "ratings", {dict}), maps_of(records, scores_field, {dict, NoneType})
    if ratings is None or scores is None:
        return None
    counted = chain(records, ratings, () if scores_field == "ratings" else scores)
    if not has_single_keys(records, b"".join(lines), sum(map(len, counted))):
        return None
    if holds_odd_numbers(records, {*NAMED, "ratings", scores_field, "similarity"}):
        return None
    return make_block(records, range(first, first + len(lines)), ratings, scores)


def make_block(
    records: Sequence[dict[str, Any]],
    lines: Sequence[int],
    ratings: Sequence[dict[str, Any]],
    scores: Sequence[dict[str, Any]],
) -> Block | None:
    """The block of parsed records, whose maps are given apart; None where a name or a value is not plain."""
    items, systems, raters, dialogues = (texts_of([record.get(field) for record in records]) for field in NAMED)
    if items is None or systems is None or raters is None or dialogues is None or not all(items):
        return None
    rated, scored = values_of(ratings), values_of(scores)
    similarity = column_of([record.get("similarity") for record in records])
    if rated is None or scored is None or similarity is None:
        return None
    return Block(
        lines=lines,
        items=cast(Sequence[str], items),
        systems=systems,
        raters=raters,
        dialogues=dialogues,
        ratings=rated,
        scores=scored,
        similarity=None if np.isnan(similarity).all() else similarity,
    )


def maps_of(records: Sequence[dict[str, Any]], field: str, kinds: set[type]) -> Sequence[dict[str, Any]] | None:
    """What each record has in that field, an empty object for null; None where one has what is not of these types."""
    found = [record.get(field) for record in records]
    if not {*map(type, found)} <= kinds:
        return None
    return [{} if one is None else one for one in found]


def has_single_keys(records: Sequence[dict[str, Any]], text: bytes, keys: int) -> bool:
    """Whether no object of the records, read from that text, was written with the same key twice.

    Each member was written with a colon, so that where there are no more colons than `keys`, none was lost. Others may
    stand in texts: without an escape in the text, those are the ones that were read.
    """
    colons = text.count(b":")
    return colons == keys or (b"\\" not in text and colons == count_colons(records))


def count_colons(values: Iterable[Any]) -> int:
    """How many colons the values are written with: one a member, and those in texts."""
    total = 0
    left = [*values]
    while left:
        part = left.pop()
        if type(part) is str:
            total += part.count(":")
        elif type(part) is dict:
            total += len(part)
            left += [*part, *part.values()]
        elif type(part) is list:
            left += part
    return total


def holds_odd_numbers(records: Sequence[dict[str, Any]], known: set[str]) -> bool:
    """Whether a field that is none of the known ones holds a number that strict JSON refuses."""
    further = {*chain.from_iterable(records)} - known
    left = [record[field] for field in further for record in records if field in record]
    while left:
        part = left.pop()
        if type(part) is dict:
            left += part.values()
        elif type(part) is list:
            left += part
        elif (type(part) is float and not math.isfinite(part)) or (type(part) is int and is_long(part)):
            return True
    return False


def is_long(number: int) -> bool:
    """Whether the integer has more digits than strict JSON takes."""
    return not -(10 ** (DIGITS - 1)) < number < 10**DIGITS


def texts_of(values: Sequence[Any]) -> Sequence[str | None] | None:
    """The names, integers as their digits; None where there is anything else."""
    kinds = {*map(type, values)}
    if kinds <= TEXTS:
        return values
    if not kinds <= INTEGERS or any(is_long(value) for value in values if value is not None):
        return None
    return [None if value is None else str(value) for value in values]


def values_of(maps: Sequence[dict[str, Any]], *, most_names: int = MOST_NAMES) -> Values | None:
    """The values of maps as columns, shape (len(maps),) each; None where one is no number, or there are more names."""
    shapes = Counter(map(tuple, maps))
    names = dict.fromkeys(chain.from_iterable(shapes))
    if len(names) > most_names:
        return None
    if len(shapes) == 1:
        flat = column_of([*chain.from_iterable(map(dict.values, maps))])
        columns = {} if flat is None else dict(zip(names, flat.reshape(len(maps), len(names)).T, strict=True))
    else:
        found = {name: column_of([one.get(name) for one in maps]) for name in names}
        columns = {name: column for name, column in found.items() if column is not None}
    if len(columns) < len(names):
        return None
    return Values(columns, {name: sum(n for shape, n in shapes.items() if name in shape) for name in names})


def column_of(values: Sequence[Any]) -> Floats | None:
    """The numbers, NaN for None, shape (n,); None where there is anything else, true and false among it."""
    if not {*map(type, values)} <= NUMBERS:
        return None
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        return None

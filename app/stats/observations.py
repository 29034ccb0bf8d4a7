"""Ratings as columns: what every analysis starts from, and what only whole columns show to be wrong."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from saiten.core.messages import Message
from saiten_server.core.errors import MOST_FAULTS, PLACES, InvalidLines, InvalidRequest
from saiten_server.core.validation import clip

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.integer[Any])

NO_RATER = NO_DIALOGUE = -1

SPARSE = 8
"""How many times the number of rows the keys may reach, for a table by key to be worth its memory."""

MISSING_VALUE = array("d", [float("nan")])


@dataclass(frozen=True)
class Observations:
    """`n` rows, each the values of one item of one system by one rater, named or not.

    `system`, `item` and `rater` have shape (n,) and index `systems`, `items` and `raters`; `rater` is NO_RATER where
    none is named. `ratings` and `scores` hold a column of shape (n,) by aspect, NaN where there is no value: humans'
    ratings, and the values of a metric or a judge beside them (equal on all rows of an item). `similarity` is b, where
    given, `probability` that with which the row's item was chosen for people to rate. `lines` are the rows' 1-based
    line numbers in what they were read from. `folded` are the aspects whose values stand as minus their distance from
    that level, the best of their scale. `dialogue`, of shape (n,), numbers the dialogue that the row's item is a turn
    of, NO_DIALOGUE where none is named; None where none is named at all. `sampled` is the probability with which a
    monitor sampled the row's item, None where all are 1.
    """

    systems: tuple[str, ...]
    items: tuple[str, ...]
    raters: tuple[str, ...]
    system: Integers
    item: Integers
    rater: Integers
    ratings: Mapping[str, Floats]
    scores: Mapping[str, Floats] = field(default_factory=dict)
    similarity: Floats | None = None
    lines: Integers | None = None
    folded: Mapping[str, float] = field(default_factory=dict)
    dialogue: Integers | None = None
    probability: Floats | None = None
    sampled: Floats | None = None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.system)

    @cached_property
    def unit(self) -> Integers:
        """The row's unit, that is one system's item: numbers from 0 in order of (system, item); shape (n,)."""
        return number_keys(self.system * max(1, len(self.items)) + self.item)

    @cached_property
    def units(self) -> int:
        """How many units there are."""
        return int(self.unit.max()) + 1 if self.n else 0

    @cached_property
    def unit_system(self) -> Integers:
        """Each unit's system, shape (units,)."""
        found = np.zeros(self.units, dtype=np.int64)
        found[self.unit] = self.system
        return found

    @cached_property
    def unit_item(self) -> Integers:
        """Each unit's item, shape (units,)."""
        found = np.zeros(self.units, dtype=np.int64)
        found[self.unit] = self.item
        return found

    @cached_property
    def unit_cluster(self) -> Integers:
        """Each unit's cluster, what is not independent of each other: all that was answered to one item, and all items
        of one dialogue; numbers from 0 with gaps, shape (units,)."""
        if self.dialogue is None:
            return self.unit_item
        named = np.flatnonzero(self.dialogue != NO_DIALOGUE)
        return join_shared(self.item[named], self.dialogue[named], len(self.items))[self.unit_item]

    @property
    def cluster(self) -> Integers:
        """Each row's cluster, shape (n,)."""
        return self.unit_cluster[self.unit]

    @cached_property
    def unit_order(self) -> Integers:
        """The units by the texts of their items, then of their systems: in whatever order the rows came; shape
        (units,)."""
        return np.lexsort((places(self.systems)[self.unit_system], places(self.items)[self.unit_item]))

    def means(self, column: Floats) -> Floats:
        """The mean of the column's values of each unit, shape (units,); NaN for a unit without any."""
        return average_groups(column, self.unit, self.units)


def weigh_inversely(probability: Floats) -> Floats | None:
    """Weights by the inverse of the probabilities, on average 1, shape (n,); None where all are equal."""
    if not len(probability) or float(np.ptp(probability)) == 0:
        return None
    weights: Floats = (1 / probability).astype(np.float64)
    weights /= weights.mean()
    return weights


def weigh_units(observations: Observations, units: Integers) -> Floats | None:
    """What these units count for by the inverse of the probabilities with which a monitor sampled their items, on
    average 1, shape (len(units),); None where all count the same."""
    if observations.sampled is None:
        return None
    return weigh_inversely(observations.means(observations.sampled)[units])


def refuse_uneven(observations: Observations) -> None:
    """Raises InvalidRequest where items were sampled with different probabilities: for what counts each item once."""
    sampled = observations.sampled
    if sampled is not None and weigh_inversely(sampled) is not None:
        raise InvalidRequest(Message("analysis-of-uneven-sample"), pointer="/batches")


def number_keys(keys: Integers) -> Integers:
    """Each key's place among the different ones, from 0, shape (n,). Keys are not negative. Where they are numbered
    like that already they are handed back as they are."""
    most = int(keys.max()) + 1 if len(keys) else 0
    if most > SPARSE * len(keys):
        return np.unique(keys, return_inverse=True)[1].astype(np.int64)
    # Nothing is sorted: of ten million keys that takes three times as long, and twice the memory.
    held = np.zeros(most, dtype=np.bool_)
    held[keys] = True
    if held.all():
        return keys
    numbers: Integers = np.cumsum(held)
    numbers -= 1
    return numbers[keys]


def count_keys(keys: Integers) -> int:
    """How many different keys there are, none of them negative or much larger than their number; shape (n,)."""
    # `np.unique` takes thirty times as long where most are different.
    return int(np.count_nonzero(np.bincount(keys)))


def list_distinct(keys: NDArray[Number]) -> NDArray[Number]:
    """The different keys, ascending; shape (n,) to (different keys,)."""
    # `np.unique`, which hashes them, takes twenty times as long where most are different.
    ordered = np.sort(keys)
    begins = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return ordered[begins]


def number_first(keys: Integers) -> Integers:
    """Each key's place among the different ones in the order in which they first come, from 0; shape (n,)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.ones(len(keys), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    del ordered
    first = order[begins]
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    number = np.cumsum(begins)
    number -= 1
    np.take(place, number, out=number, mode="clip")  # in place: "raise" would take a copy
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = number
    return found


def join_shared(members: Integers, groups: Integers, count: int) -> Integers:
    """The connected component of each of `count` members, of whom those that share a group belong together; shape
    (count,). `members` and `groups`, both of shape (n,) and numbered from 0, say who is in which group."""
    if not len(members):
        return np.arange(count)
    group = np.full(count, -1, dtype=np.int64)
    group[members] = groups
    if np.array_equal(group[members], groups):  # each is in one group, and no two groups are joined
        return number_led(group, int(groups.max()) + 1)
    # scipy costs a tenth of a second to load.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = count + int(groups.max()) + 1
    graph = coo_array((np.ones(len(members), dtype=np.int8), (members, count + groups)), shape=(size, size))
    found: Integers = connected_components(graph, directed=False)[1][:count].astype(np.int64)
    return found


def number_led(group: Integers, groups: int) -> Integers:
    """A number for each member's group, in the order of the groups' first members; −1 is a group of its own; shape
    (n,)."""
    lead = np.arange(len(group))
    held = np.flatnonzero(group >= 0)
    first = np.empty(groups, dtype=np.int64)
    first[group[held[::-1]]] = held[::-1]  # backwards, so that the first is written last
    lead[held] = first[group[held]]
    number = np.cumsum(lead == np.arange(len(group))) - 1
    found: Integers = number[lead]
    return found


def average_groups(values: Floats, group: Integers, groups: int) -> Floats:
    """The mean of the values of each group, shape (groups,), NaN for a group without any; `group` numbers from 0."""
    held = ~np.isnan(values)
    counts = np.bincount(group[held], minlength=groups)
    totals = np.bincount(group[held], weights=values[held], minlength=groups)
    means: Floats = np.divide(totals, counts, out=np.full(groups, np.nan), where=counts > 0)
    return means


def places(texts: Sequence[str]) -> Integers:
    """Each text's place among them all once they are sorted, shape (len(texts),)."""
    found = np.empty(len(texts), dtype=np.int64)
    found[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return found


class NumberColumn:
    """Numbers by row, NaN where there is none. `lines` counts the lines that name the column, `first` is the first."""

    __slots__ = ("_last", "_values", "first", "lines")

    def __init__(self) -> None:
        self._values = array("d")
        self._last = 0
        self.first = 0
        self.lines = 0

    def put(self, row: int, value: float | None, line: int) -> None:
        """Sets the value of a row after all earlier ones; None means no value."""
        if line != self._last:
            self._last = line
            self.lines += 1
            self.first = self.first or line
        if value is not None:
            if row > len(self._values):
                self._values.extend(MISSING_VALUE * (row - len(self._values)))
            self._values.append(value)

    def extend(self, row: int, values: Floats, lines: Sequence[int]) -> None:
        """Sets the values of the rows from `row` on, one for each of the lines, NaN for none."""
        self._last = lines[-1]
        self.lines += len(lines)
        self.first = self.first or lines[0]
        self._values.extend(MISSING_VALUE * (row - len(self._values)))
        self._values.frombytes(values.tobytes())

    def filled(self, rows: int) -> Floats:
        """The values of that many rows, shape (rows,). The column must not grow afterwards: the memory is shared."""
        self._values.extend(MISSING_VALUE * (rows - len(self._values)))
        return np.frombuffer(self._values) if rows else np.empty(0)


def integers(values: array[int]) -> Integers:
    """The array, shape (n,), without a copy."""
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)


Pairs = tuple[Callable[[Message, Message], Message], Integers, Integers]
"""What is wrong, given the earlier line and whose it is, and the rows with the earlier rows that they clash with."""


class Faults(NamedTuple):
    """How many there are, and those on the first lines as (line, what is wrong)."""

    total: int
    first: list[tuple[int, Message]]


def repetitions(read: Observations, noun: str) -> Faults:
    """Lines that rate an aspect of an item that the same rater, or again an unnamed one, rated before."""
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
        found.append((partial(say_repeated, repr(clip(aspect))), rows[again], rows[again - 1]))
    return described(read, found, noun)


def say_repeated(aspect: str, before: Message, whose: Message) -> Message:
    """That a line rates an aspect that the line `before` rated."""
    return Message("rates-again", aspect=aspect, before=before, whose=whose)


def contradictions(read: Observations, noun: str) -> Faults:
    """Lines whose score, similarity or probability is another than an earlier line's of the same item."""
    columns = [(Message("its-score", name=repr(clip(aspect))), column) for aspect, column in read.scores.items()]
    columns += [] if read.similarity is None else [(Message("its-similarity"), read.similarity)]
    columns += [] if read.probability is None else [(Message("its-probability"), read.probability)]
    found: list[Pairs] = []
    for value, column in columns:
        if agree_within(read.unit, read.units, column):
            continue
        rows = np.flatnonzero(~np.isnan(column))
        first = np.zeros(read.units, dtype=np.int64)
        # The last of several values put in one place stays, so that from the back it is the first row.
        first[read.unit[rows[::-1]]] = rows[::-1]
        rows = rows[column[rows] != column[first[read.unit[rows]]]]
        found.append((partial(say_contradicted, value), rows, first[read.unit[rows]]))
    return described(read, found, noun)


def say_contradicted(value: Message, before: Message, whose: Message) -> Message:
    """That a line has another value than the line `before`."""
    return Message("is-another", value=value, before=before, whose=whose)


def check_rows(read: Observations, noun: str, faults: Sequence[tuple[int, Message]] = (), total: int = 0) -> None:
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
    """Whether all values of each group are equal; shapes (n,), `group` numbers from 0, and NaN means no value."""
    held = ~np.isnan(column)
    whole = bool(held.all())
    group, column = (group, column) if whole else (group[held], column[held])
    one = np.empty(groups)
    one[group] = column
    return bool((one[group] == column).all())


def described(read: Observations, found: list[Pairs], noun: str) -> Faults:
    """Puts into words the faults of the first lines."""
    lines = np.arange(1, read.n + 1) if read.lines is None else read.lines
    first: list[tuple[int, Message]] = []
    for say, rows, earlier in found:
        for place in np.argsort(lines[rows], kind="stable")[:MOST_FAULTS]:
            before = PLACES[noun](int(lines[earlier[place]]))
            first.append((int(lines[rows[place]]), say(before, name(read, int(rows[place])))))
    first.sort(key=lambda fault: fault[0])
    return Faults(sum(len(rows) for _, rows, _ in found), first[:MOST_FAULTS])


def name(read: Observations, row: int) -> Message:
    """The row's item, system and rater, for a fault."""
    item, system = repr(clip(read.items[read.item[row]])), clip(read.systems[read.system[row]])
    if read.rater[row] == NO_RATER:
        return Message("item-of-system", item=item, system=repr(system)) if system else Message("item", item=item)
    rater = repr(clip(read.raters[read.rater[row]]))
    if system:
        return Message("item-of-system-and-rater", item=item, system=repr(system), rater=rater)
    return Message("item-of-rater", item=item, rater=rater)

"""Ratings as columns: what every analysis starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

NO_RATER = -1

NO_DIALOGUE = -1

SPARSE = 8
"""So many times the number of rows keys may run to, for a table by key to be worth its memory."""


@dataclass(frozen=True)
class Observations:
    """`n` rows, each what one rater (or nobody in particular) said of one item of one system.

    `system`, `item` and `rater` have shape (n,) and index `systems`, `items` and `raters`; `rater` is NO_RATER where
    none is named. `ratings` and `scores` hold a column of shape (n,) by aspect, NaN where there is no value: humans'
    ratings, and the values of a metric or a judge beside them (equal on all rows of an item). `similarity` is b, where
    given. `lines` are the rows' 1-based line numbers in what they were read from. `folded` are the aspects whose values
    stand as minus their distance from that level, the best of their scale. `dialogue`, of shape (n,), numbers the
    dialogue that the row's item is a turn of, NO_DIALOGUE where none is named; None where none is named at all.
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
        # scipy costs a tenth of a second to load.
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        named = np.flatnonzero(self.dialogue != NO_DIALOGUE)
        items, dialogues = len(self.items), int(self.dialogue.max(initial=0)) + 1
        edges = self.item[named], items + self.dialogue[named]
        graph = coo_array((np.ones(len(named), dtype=np.int8), edges), shape=(items + dialogues,) * 2)
        joined: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
        return joined[self.unit_item]

    @property
    def cluster(self) -> Integers:
        """Each row's cluster, shape (n,)."""
        return self.unit_cluster[self.unit]

    @cached_property
    def unit_order(self) -> Integers:
        """The units by the texts of their items, then of their systems: in whatever order the rows came; shape
        (units,)."""
        found: Integers = np.lexsort((places(self.systems)[self.unit_system], places(self.items)[self.unit_item]))
        return found

    def means(self, column: Floats) -> Floats:
        """The mean of the column's values of each unit, shape (units,); NaN for a unit without any."""
        return average_groups(column, self.unit, self.units)


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


def number_first(keys: Integers) -> Integers:
    """Each key's place among the different ones in the order in which they first come, from 0; shape (n,)."""
    first, number = np.unique(keys, return_index=True, return_inverse=True)[1:]
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[number]


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

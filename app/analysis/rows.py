"""What was read so far: rows of who said what of which item, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from app.analysis.blocks import Block, Values
from app.analysis.columns import Column, integers
from app.analysis.observations import NO_RATER, Observations

NONE = -1
"""The number of no name: NO_RATER, NO_DIALOGUE."""


class Unit(NamedTuple):
    """The numbers of a system and of an item."""

    system: int
    item: int


class Rows:
    """Grows by one row, or by many; nothing is checked. Names are numbered in the order in which they first come."""

    def __init__(self) -> None:
        self.ratings: dict[str, Column] = {}
        self.scores: dict[str, Column] = {}
        self.similarity = Column()
        self._systems: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._raters: dict[str, int] = {}
        self._dialogues: dict[str, int] = {}
        self._dialogue = array("q")
        self._system, self._item, self._rater, self._line = array("q"), array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._line)

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.ratings) + len(self.scores) + 5 + bool(self._dialogues)

    def number(self, system: str, item: str) -> Unit:
        """The unit of these names."""
        return Unit(
            self._systems.setdefault(system, len(self._systems)), self._items.setdefault(item, len(self._items))
        )

    def append(
        self,
        unit: Unit,
        rater: str | None,
        ratings: Mapping[str, float | None],
        *,
        scores: Mapping[str, float | None],
        similarity: float | None,
        line: int,
        dialogue: str | None = None,
    ) -> None:
        """Adds a row of that line; every aspect has its column."""
        row = len(self._line)
        self._system.append(unit.system)
        self._item.append(unit.item)
        self._rater.append(NO_RATER if rater is None else self._raters.setdefault(rater, len(self._raters)))
        self._dialogue.append(number_optional([dialogue], self._dialogues)[0])
        self._line.append(line)
        for aspect, value in ratings.items():
            self.ratings[aspect].put(row, value, line)
        for aspect, value in scores.items():
            self.scores[aspect].put(row, value, line)
        if similarity is not None:
            self.similarity.put(row, similarity, line)

    def extend(self, block: Block) -> None:
        """Adds a row for each record of the block; every aspect has its column."""
        row, last = len(self._line), block.lines[-1]
        self._system.extend(number_names([name or "" for name in block.systems], self._systems))
        self._item.extend(number_names(block.items, self._items))
        self._rater.extend(number_optional(block.raters, self._raters))
        self._dialogue.extend(number_optional(block.dialogues, self._dialogues))
        self._line.extend(block.lines)
        for columns, values in ((self.ratings, block.ratings), (self.scores, block.scores)):
            put_values(columns, values, row, last)
        if block.similarity is not None:
            given = np.flatnonzero(~np.isnan(block.similarity))
            self.similarity.first = self.similarity.first or block.lines[given[0]]
            self.similarity.put_all(row, block.similarity, last, len(given))

    def observations(self, order: Sequence[str] | None) -> Observations:
        """The columns, the aspects of `order` first and in it. No row can be added afterwards: the memory is shared."""
        rows = len(self._line)
        place = {aspect: number for number, aspect in enumerate(order or ())}
        in_order = sorted(self.ratings, key=lambda aspect: place.get(aspect, 0))
        return Observations(
            systems=tuple(self._systems),
            items=tuple(self._items),
            raters=tuple(self._raters),
            system=integers(self._system),
            item=integers(self._item),
            rater=integers(self._rater),
            ratings={aspect: self.ratings[aspect].filled(rows) for aspect in in_order},
            scores={aspect: column.filled(rows) for aspect, column in self.scores.items()},
            similarity=self.similarity.filled(rows) if self.similarity.lines else None,
            lines=integers(self._line),
            dialogue=integers(self._dialogue) if self._dialogues else None,
        )


def put_values(columns: Mapping[str, Column], values: Values, row: int, line: int) -> None:
    """Sets the values of the rows from that one on."""
    for name, column in values.columns.items():
        columns[name].put_all(row, column, line, values.named[name])


def number_names(names: Sequence[str], known: dict[str, int]) -> list[int]:
    """Each name's number; those that are not known yet are numbered in order."""
    for name in dict.fromkeys(names):
        if name not in known:
            known[name] = len(known)
    return [*map(known.__getitem__, names)]


def number_optional(names: Sequence[str | None], known: dict[str, int]) -> list[int]:
    """The same, and −1 (NO_RATER, NO_DIALOGUE) for an empty name, or none."""
    for name in dict.fromkeys(names):
        if name and name not in known:
            known[name] = len(known)
    return [known[name] if name else NONE for name in names]

"""Which pairs a preference run compares: the responses that two runs have to one item with one context.

A response is an item's key, a candidate's number and a context's key, as 64-bit numbers, so that twenty runs of a
hundred thousand responses take some megabytes each. Texts are not looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from saiten_server.stats.observations import Integers

PairTuple = tuple[int, int, int, int]
"""The places of two runs, and the positions in these."""

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number (2⁶⁴ ÷ the golden ratio) that spreads candidates' numbers over the keys of their item."""


@dataclass(frozen=True)
class Responses:
    """The responses of one run, all of shape (n,): positions ascending, keys, and contexts, 0 where none is known. Of
    conversations, which have none, all contexts are alike."""

    positions: Integers
    keys: NDArray[np.uint64]
    contexts: Integers
    failed: int = 0

    @property
    def count(self) -> int:
        """How many there are, of which several of one key are one, with those that failed."""
        return len(self.keys) + self.failed

    @staticmethod
    def make(rows: Sequence[tuple[int, int, int | None, int | None]], *, whole: bool) -> Responses:
        """From rows of position, item's key, candidate's number and context's key. The first one of a key counts."""
        known = [row for row in rows if whole or row[3] is not None]
        table = np.array([(row[0], row[1], row[2] or 0, row[3] or 1) for row in known], dtype=np.int64).reshape(-1, 4)
        keys = table[:, 1].astype(np.uint64) + table[:, 2].astype(np.uint64) * SPREAD
        _, first = np.unique(keys, return_index=True)
        first.sort()
        return Responses(table[first, 0], keys[first], table[first, 3], len(rows) - len(known))


@dataclass(frozen=True)
class ChosenPairs:
    """The pairs in the order in which they are judged, all of shape (pairs,): the places of their two runs and the
    positions in these; `owners` are the place of the run whose item id and dialogue the pair has, and its position
    there, of shape (pairs, 2), the same for all pairs of one item. `left_out` counts, as `PairPlan` says."""

    runs: Integers
    positions: Integers
    owners: Integers
    items: int
    left_out: dict[str, int]

    def __len__(self) -> int:
        return len(self.runs)

    def take(self, rows: Sequence[int]) -> ChosenPairs:
        """The same with these pairs alone, in the order of the plan."""
        chosen = np.sort(np.array(rows, dtype=np.int64))
        items = len(np.unique(self.owners[chosen], axis=0)) if len(chosen) else 0
        return replace(
            self, runs=self.runs[chosen], positions=self.positions[chosen], owners=self.owners[chosen], items=items
        )

    def list_places(self) -> list[PairTuple]:
        """The two runs and the two positions of each pair."""
        return [
            (*runs, *positions) for runs, positions in zip(self.runs.tolist(), self.positions.tolist(), strict=True)
        ]

    def list_rows(self, judged: Collection[PairTuple] = ()) -> dict[tuple[int, int], list[int]]:
        """The rows of every two runs that were not judged, in the order of the plan."""
        found: dict[tuple[int, int], list[int]] = {}
        for row, place in enumerate(self.list_places()):
            if place not in judged:
                found.setdefault(place[:2], []).append(row)
        return found

    def count_items(self, judged: Collection[PairTuple], rows: Sequence[int]) -> int:
        """How many items have a pair that was judged, or is among these rows."""
        mine = [row for row, place in enumerate(self.list_places()) if place in judged]
        return self.take([*mine, *rows]).items


def list_pairs(count: int, baseline: int | None) -> Iterator[tuple[int, int]]:
    """The places of every two runs, or of the baseline with every other."""
    if baseline is None:
        yield from combinations(range(count), 2)
        return
    yield from ((baseline, other) for other in range(count) if other != baseline)


def plan_pairs(runs: Sequence[Responses], baseline: int | None, most: int | None = None) -> ChosenPairs:
    """All pairs, or the first `most`. All pairs of an item follow each other, and items come in the order of their
    keys, which is as good as random and the same every time: whatever a budget leaves of a run is a sample of items."""
    left_out = Counter(failed=sum(run.failed for run in runs), contexts=0)
    found: list[Integers] = []
    keys: list[NDArray[np.uint64]] = []
    for one, other in list_pairs(len(runs), baseline):
        left, right = runs[one], runs[other]
        common, mine, theirs = np.intersect1d(left.keys, right.keys, assume_unique=True, return_indices=True)
        same = left.contexts[mine] == right.contexts[theirs]
        left_out["contexts"] += int((~same).sum())
        positions = np.stack([left.positions[mine][same], right.positions[theirs][same]], axis=1)
        places = np.broadcast_to(np.array([one, other], dtype=np.int64), positions.shape)
        found.append(np.concatenate([places, positions], axis=1))
        keys.append(common[same])
    table, key = np.concatenate(found), np.concatenate(keys)
    left_out["alone"] = sum(len(run.keys) for run in runs) - count_paired(table)
    order = np.argsort(key, kind="stable")
    if most is not None:
        left_out["budget_calls"] = max(0, len(order) - most)
        order = order[:most]
    table, key = table[order], key[order]
    owners, items = find_owners(runs, table, key)
    return ChosenPairs(table[:, :2], table[:, 2:], owners, items, {name: n for name, n in left_out.items() if n})


def count_paired(table: Integers) -> int:
    """How many responses are in any pair."""
    each = np.concatenate([table[:, [0, 2]], table[:, [1, 3]]])
    return len(np.unique(each, axis=0))


def find_owners(runs: Sequence[Responses], table: Integers, key: NDArray[np.uint64]) -> tuple[Integers, int]:
    """For each pair the run that comes first among those with a pair of this item, with the position there."""
    distinct, place = np.unique(key, return_inverse=True)
    owner = np.full(len(distinct), len(runs), dtype=np.int64)
    np.minimum.at(owner, place, table[:, :2].min(axis=1))
    positions = np.zeros(len(distinct), dtype=np.int64)
    for number, run in enumerate(runs):
        mine = np.flatnonzero(owner == number)
        order = np.argsort(run.keys)
        positions[mine] = run.positions[order[np.searchsorted(run.keys, distinct[mine], sorter=order)]]
    return np.stack([owner[place], positions[place]], axis=1), len(distinct)

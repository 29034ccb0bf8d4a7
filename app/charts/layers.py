"""Where the boxes of a graph stand: in layers, lower aspects below, each layer in an order with few crossings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

Edge = tuple[str, str]
"""The lower aspect and the higher."""

Stop = tuple[str, str, int]
"""Where an edge passes a layer between its ends."""

Place = str | Stop
SWEEPS = 4


@dataclass(frozen=True)
class Layers:
    """`rows` are the layers with their boxes and stops from left to right, the lowest layer first; `edges` those that
    do not follow from others; `alone` the aspects without any."""

    rows: tuple[tuple[Place, ...], ...]
    edges: tuple[Edge, ...]
    alone: tuple[str, ...]


def arrange(names: Sequence[str], edges: Sequence[Edge]) -> Layers:
    """Layers by the longest way to each aspect. Raises graphlib's CycleError, a ValueError, for edges in a circle."""
    kept = reduce(edges)
    joined = [name for name in names if any(name in edge for edge in kept)]
    depths = find_depths(joined, kept)
    rows: list[list[Place]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for name in joined:
        rows[depths[name]].append(name)
    for lower, higher in kept:
        for depth in range(depths[lower] + 1, depths[higher]):
            rows[depth].append((lower, higher, depth))
    alone = tuple(name for name in names if name not in depths)
    return Layers(tuple(map(tuple, order(rows, kept, depths))), kept, alone)


def reduce(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """The edges without those that follow from two others or more."""
    higher: dict[str, set[str]] = {}
    for lower, one in edges:
        higher.setdefault(lower, set()).add(one)
    above: dict[str, set[str]] = {}
    for name in TopologicalSorter(higher).static_order():
        above[name] = higher.get(name, set()).union(*(above[one] for one in higher.get(name, ())))
    return tuple(edge for edge in dict.fromkeys(edges) if not any(edge[1] in above[one] for one in higher[edge[0]]))


def find_depths(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each aspect. One with nothing below it stands right under the lowest of those above."""
    lower = {name: [one for one, other in edges if other == name] for name in names}
    depths: dict[str, int] = {}
    for name in TopologicalSorter(lower).static_order():
        depths[name] = max((depths[one] + 1 for one in lower[name]), default=0)
    lifted = {name: min(depths[other] for one, other in edges if one == name) - 1 for name in names if not lower[name]}
    return depths | lifted


def follow(edge: Edge, depths: Mapping[str, int]) -> list[Place]:
    """All places of an edge, from its lower end to its higher."""
    lower, higher = edge
    return [lower, *((lower, higher, depth) for depth in range(depths[lower] + 1, depths[higher])), higher]


def order(rows: list[list[Place]], edges: Sequence[Edge], depths: Mapping[str, int]) -> list[list[Place]]:
    """Each layer by the mean position of its neighbours, up and down (Sugiyama 1981), so that few edges cross."""
    beside: dict[Place, list[Place]] = {place: [] for row in rows for place in row}
    for edge in edges:
        way = follow(edge, depths)
        for one, other in pairwise(way):
            beside[one].append(other)
            beside[other].append(one)
    for sweep in range(SWEEPS):
        numbers = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for number in numbers:
            next_row = rows[number - 1 if sweep % 2 == 0 else number + 1]
            at = {place: position - (len(next_row) - 1) / 2 for position, place in enumerate(next_row)}
            means = {place: average([at[one] for one in beside[place] if one in at]) for place in rows[number]}
            rows[number].sort(key=means.__getitem__)
    return rows


def average(positions: Sequence[float]) -> float:
    """The mean; the middle where there is nothing."""
    return sum(positions) / len(positions) if positions else 0.0

"""Correlations, with the cases told apart in which there is none."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Literal

import numpy as np
from scipy.stats import kendalltau, rankdata

from app.analysis.observations import Floats, Integers, Mask, Observations
from app.analysis.significance import join_ties
from app.domain.errors import InvalidRequest

Statistic = Literal["spearman", "pearson"]

FEWEST = 3
"""Values of which a correlation says something: that of any two pairs is 1 or −1."""

FREQUENT = 4
"""So often each value must be there on average for counting to be faster than sorting."""

MOST_SQUARE = 400_000_000
"""Items by the square of the number of aspects, up to which each aspect is held against each other."""


def obstacle(x: Floats, y: Floats, x_name: str = "scores", y_name: str = "ratings") -> str | None:
    """Why two columns of shape (n,) without NaN have no correlation; None where they have one."""
    if len(x) < FEWEST:
        return f"fewer than {FEWEST} items have both"
    for column, name in ((x, x_name), (y, y_name)):
        if column.min() == column.max():
            return f"all {name} are equal"
    return None


def count(n: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def refuse_wide(aspects: int, items: int) -> None:
    """Raises InvalidRequest where holding each of the aspects against each other on so many items takes a minute."""
    if aspects * aspects * items > MOST_SQUARE:
        raise InvalidRequest(
            f"{aspects:,} aspects are too many to hold each against each other on {items:,} items; "
            f"on so many, at most {isqrt(MOST_SQUARE // items):,} are taken"
        )


def settle(values: Floats, size: Floats | None = None) -> Floats:
    """The values, shape (n,), with those set equal that only rounding parts: what is equal in arithmetic is equal here.

    Ranks and ties hang on it. `size`, of shape (n,), is the sum of the absolute numbers that each value was added up
    from, by default its own: one absurd value has no say in how far others are equal. NaN stays.
    """
    return join_ties(values, np.abs(values) if size is None else size)


def settled_means(observations: Observations, column: Floats) -> Floats:
    """The column's means by unit, shape (units,), settled."""
    return settle(observations.means(column), observations.means(np.abs(column)))


def pearson(x: Floats, y: Floats) -> Floats:
    """Pearson's r along the last axis, shape (…, n) to (…); NaN where one side is constant."""
    (x, x_moves), (y, y_moves) = deviations(x), deviations(y)
    products = np.einsum("...i,...i->...", x, y)
    squares = np.einsum("...i,...i->...", x, x) * np.einsum("...i,...i->...", y, y)
    r = np.divide(products, np.sqrt(squares), out=np.full(products.shape, np.nan), where=x_moves & y_moves)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped


def deviations(values: Floats) -> tuple[Floats, Mask]:
    """Deviations from the mean along the last axis, in units of the largest, so that no square is lost to underflow;
    and whether there are any."""
    moves = values.max(axis=-1) > values.min(axis=-1)
    centred = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    scaled: Floats = np.divide(centred, largest, out=np.zeros_like(centred), where=largest > 0)
    return scaled, moves


def rank(values: Floats) -> Floats:
    """Mid-ranks from 1 along the last axis."""
    if values.ndim == 1:
        distinct = np.unique(values)
        if FREQUENT * len(distinct) <= len(values):
            return rank_places(np.searchsorted(distinct, values))
    ranks: Floats = rankdata(values, axis=-1)
    return ranks


def rank_places(places: Integers) -> Floats:
    """The mid-ranks, from 1, of values of which each one's place among the different ones is given; shapes (n,)."""
    counts = np.bincount(places)
    # Ties take the places from the end of what is smaller to their own end, and share their mean.
    middle: Floats = np.cumsum(counts) - (counts - 1) / 2
    return middle[places]


def spearman(x: Floats, y: Floats) -> Floats:
    """Spearman's ρ along the last axis; NaN where one side is constant."""
    return pearson(rank(x), rank(y))


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's τ-b of two columns of which `obstacle` says that they have one."""
    return float(kendalltau(x, y).statistic)


STATISTICS: dict[Statistic, Callable[[Floats, Floats], Floats]] = {"spearman": spearman, "pearson": pearson}


def rank_within(group: Integers, values: Floats) -> Floats:
    """Each value's mid-rank, from 1, among those of its group; shapes (n,)."""
    distinct = np.unique(values)
    count = int(group.max(initial=-1)) + 1
    if FREQUENT * count * len(distinct) <= len(values):
        return rank_counted(group, count, values, distinct)
    order = np.lexsort((values, group))
    groups, ordered = group[order], values[order]
    new_group = np.concatenate([[True], groups[1:] != groups[:-1]])
    new_value = new_group | np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(new_value)
    lengths = np.diff(np.append(starts, len(order)))
    # Ties share the mean of the places that they take together, counted from where their group begins.
    middle = starts + (lengths + 1) / 2
    run = np.cumsum(new_value) - 1
    begins = np.flatnonzero(new_group)[np.cumsum(new_group) - 1]
    ranks = np.empty(len(order))
    ranks[order] = middle[run] - begins
    return ranks


def rank_counted(group: Integers, groups: int, values: Floats, distinct: Floats) -> Floats:
    """The same of values that are often equal, by counting them: `distinct` are the different ones in order."""
    width = len(distinct)
    place = np.searchsorted(distinct, values) + group * width
    counts = np.bincount(place, minlength=groups * width).reshape(groups, width)
    middle = np.cumsum(counts, axis=1) - (counts - 1) / 2
    ranks: Floats = middle.reshape(-1)[place]
    return ranks


def pearson_within(group: Integers, groups: int, x: Floats, y: Floats) -> Floats:
    """Pearson's r in each of the groups 0 … groups − 1, shape (groups,); NaN where a side is constant or too few."""
    count = np.bincount(group, minlength=groups)
    enough = count >= FEWEST
    centred = []
    for column in (x, y):
        low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
        np.minimum.at(low, group, column)
        np.maximum.at(high, group, column)
        enough &= high > low
        mean = np.bincount(group, weights=column, minlength=groups) / np.maximum(count, 1)
        deviation = column - mean[group]
        largest = np.zeros(groups)
        np.maximum.at(largest, group, np.abs(deviation))
        centred.append(deviation / np.where(largest > 0, largest, 1)[group])
    a, b = centred
    products = np.bincount(group, weights=a * b, minlength=groups)
    squares = np.bincount(group, weights=a * a, minlength=groups) * np.bincount(group, weights=b * b, minlength=groups)
    r = np.divide(products, np.sqrt(squares), out=np.full(groups, np.nan), where=enough)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped

"""How aspects hang together in very many results, from how often each combination of values occurs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.analysis.observations import Floats, Integers
from app.analysis.statistics import FEWEST, deviations, settle
from app.domain.reports import Correlations, Matrix

Pattern = tuple[tuple[float | None, ...], int]
"""A combination of values, None for none, and how many results have it."""


def correlate_patterns(names: Sequence[str], patterns: Sequence[Pattern]) -> Correlations:
    """The matrices over all pairs of the named aspects, whose values the combinations hold in the same order: those of
    `correlate_aspects` over the results themselves, but for rounding."""
    counted = [(values, count) for values, count in patterns if count > 0]
    table = np.array([values for values, _ in counted], dtype=np.float64).reshape(len(counted), len(names))
    counts = np.array([count for _, count in counted], dtype=np.int64)
    columns = {name: settle(table[:, place]) for place, name in enumerate(names)}
    by_rank: Matrix = {a: dict.fromkeys(names) for a in names}
    by_value: Matrix = {a: dict.fromkeys(names) for a in names}
    n: dict[str, dict[str, int]] = {a: dict.fromkeys(names, 0) for a in names}
    undefined: dict[str, dict[str, str]] = {}
    for place, a in enumerate(names):
        for b in names[place:]:
            both = ~np.isnan(columns[a]) & ~np.isnan(columns[b])
            x, y, held = columns[a][both], columns[b][both], counts[both]
            n[a][b] = n[b][a] = int(held.sum())
            reason = find_obstacle(x, y, held, (a, b))
            if reason is not None:
                undefined.setdefault(a, {})[b] = reason
                continue
            by_rank[a][b] = by_rank[b][a] = pearson_weighted(rank_weighted(x, held), rank_weighted(y, held), held)
            by_value[a][b] = by_value[b][a] = pearson_weighted(x, y, held)
    return Correlations(spearman=by_rank, pearson=by_value, n=n, undefined=undefined)


def find_obstacle(x: Floats, y: Floats, counts: Integers, names: tuple[str, str]) -> str | None:
    """Why two columns of which each row stands for so many results have no correlation; None where they have one."""
    if counts.sum() < FEWEST:
        return f"fewer than {FEWEST} items have both"
    for column, name in zip((x, y), names, strict=True):
        if column.min() == column.max():
            return f"all ratings of {name} are equal"
    return None


def rank_weighted(values: Floats, counts: Integers) -> Floats:
    """The mid-rank, from 1, that each row's results share, shape (n,)."""
    distinct, place = np.unique(values, return_inverse=True)
    held = np.bincount(place, weights=counts, minlength=len(distinct))
    # Ties take the places from the end of what is smaller to their own end, and share their mean.
    middle: Floats = np.cumsum(held) - (held - 1) / 2
    return middle[place]


def pearson_weighted(x: Floats, y: Floats, counts: Integers) -> float:
    """Pearson's r of columns that are not constant, each row counted so many times."""
    (x, _), (y, _) = deviations(x), deviations(y)
    x, y = (column - np.average(column, weights=counts) for column in (x, y))
    r = np.sum(counts * x * y) / np.sqrt(np.sum(counts * x * x) * np.sum(counts * y * y))
    return float(np.clip(r, -1.0, 1.0))

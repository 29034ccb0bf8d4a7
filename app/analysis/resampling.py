"""The bootstrap over clusters: many resamples at once, and intervals by expanded percentiles.

What several systems answered to one context is not independent: a hard context is hard for all of them. Nor are the
turns of one dialogue. So clusters are drawn, each with all of its pairs (Davison & Hinkley 1997, section 3.8), and a
resample is told by how often each pair is in it: of pairs that are equal together, since ratings have few values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit
from scipy.stats import kendalltau

from app.analysis.observations import Floats, Integers

CELLS = 2_000_000
"""Drawn at once: resamples by pairs. It bounds the memory."""

MOST_PAIRED = 4_000
"""Different pairs up to which the signs of all their differences are kept for Kendall's τ: 16 MB, and 64 or 128 MB
while they are multiplied."""

EXACT_IN_SINGLE = 2**24
"""Integers below it are exact in single precision."""

NANOSECONDS = 25_000_000_000
"""Of one processor, that the resamples of all aspects of a report may take together, as reckoned by `reckon`."""

FEWEST_RESAMPLES = 200
"""Fewer do not tell where a percentile lies: there is no interval then."""

COEFFICIENTS = ("spearman", "pearson", "kendall")

LEAST_DEFINED = 0.95
"""Share of resamples that must have the figure: percentiles of those that happen to have one would be too narrow."""

FEWEST_CLUSTERS = 3
"""Clusters of which resamples say something: those of two are both, or one of them twice."""

Counts = Integers
"""How often each pair is in each resample, shape (resamples, n)."""

Figure = Callable[[Counts], Floats]
"""A figure of each resample, shape (resamples,); NaN where it has none."""


def draw(cluster: Integers, resamples: int, seed: int | tuple[int, int]) -> Iterator[Counts]:
    """How often each pair is in each resample of the clusters, in parts of shapes (resamples at once, n).

    `cluster`, of shape (n,), is each pair's, numbered from 0 without gaps; as many are drawn as there are, with
    replacement. The same seed (and stream) gives the same.
    """
    generator = np.random.default_rng(seed)
    clusters = count_clusters(cluster)
    at_once = max(1, CELLS // max(1, len(cluster)))
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, clusters, size=(rows, clusters)) + np.arange(rows)[:, None] * clusters
        counts = np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)
        # As many clusters as pairs: each is its own.
        yield counts if clusters == len(cluster) else counts[:, cluster]


def count_clusters(cluster: Integers) -> int:
    """How many there are."""
    return int(cluster.max()) + 1 if len(cluster) else 0


class Groups:
    """Which rows are of one group, so that counts of rows become counts of groups."""

    def __init__(self, group: Integers) -> None:
        """`group`, of shape (n,), is each row's, numbered from 0 without gaps."""
        self._order = np.argsort(group, kind="stable")
        held = np.bincount(group)
        self._starts = np.cumsum(held) - held

    def sum(self, counts: Counts) -> Counts:
        """Shape (resamples, n) to (resamples, groups)."""
        found: Counts = np.add.reduceat(counts[:, self._order], self._starts, axis=1)
        return found


def resample(
    x: Floats, y: Floats, cluster: Integers, resamples: int, seed: int, *, names: Sequence[str] = COEFFICIENTS
) -> dict[str, Floats]:
    """Of Spearman's ρ, Pearson's r and Kendall's τ-b those named, in every resample, shape (resamples,), by name.

    The columns are of shape (n,), and vary.
    """
    (x_values, x_place), (y_values, y_place) = (np.unique(column, return_inverse=True) for column in (x, y))
    cells, cell = np.unique(x_place * len(y_values) + y_place, return_inverse=True)
    groups = Groups(cell)
    x, y = x_values[cells // len(y_values)], y_values[cells % len(y_values)]
    makers = {"spearman": spearman_of, "pearson": pearson_of, "kendall": kendall_of}
    figures: dict[str, Figure] = {name: makers[name](x, y) for name in names}
    found: dict[str, list[Floats]] = {name: [np.empty(0)] for name in figures}
    for counts in draw(cluster, resamples, seed):
        held = groups.sum(counts)
        for name, figure in figures.items():
            found[name].append(figure(held))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def afford(x: Floats, y: Floats, resamples: int, nanoseconds: float) -> tuple[int, tuple[str, ...]]:
    """How many of the resamples there is time for, of two columns of shape (n,), and of which coefficients.

    Where there are too few with Kendall's τ, which takes the longest, it is left out; where there are too few even so,
    there are none. The interval of so many items is narrow: a few hundred resamples tell where it ends.
    """
    cells = count_cells(x, y)
    for names in (COEFFICIENTS, COEFFICIENTS[:2]):
        most = int(nanoseconds / reckon(len(x), cells, with_kendall="kendall" in names))
        if most >= min(resamples, FEWEST_RESAMPLES):
            return min(resamples, most), names
    return 0, ()


def count_cells(x: Floats, y: Floats) -> int:
    """How many different pairs there are."""
    (x_values, x_place), (y_values, y_place) = (np.unique(column, return_inverse=True) for column in (x, y))
    return len(np.unique(x_place * max(1, len(y_values)) + y_place)) if len(x_values) else 0


def reckon(n: int, cells: int, *, with_kendall: bool) -> float:
    """About how many nanoseconds one resample of n pairs takes, `cells` of them different: measured, not promised."""
    calls = 300_000 / max(1, CELLS // max(1, n))
    plain = 20 * n + 120 * cells + calls
    if not with_kendall:
        return plain
    return plain + (0.03 * cells * cells if cells <= MOST_PAIRED else 180 * n)


def interval_of(figures: Floats, clusters: int) -> tuple[float, float] | str:
    """The 95 % interval of a figure's resamples, NaN where it has none; or why there is no interval.

    The percentiles are expanded for the number of clusters that were drawn: Φ(±√(n / (n − 1)) · t) in place of 2.5 and
    97.5 %, t being Student's with n − 1 degrees of freedom. Of few items a resample varies too little, by just that
    factor where the figure is a mean of normal values (Hesterberg 2015, section 5.3).
    """
    known = figures[~np.isnan(figures)]
    if clusters < FEWEST_CLUSTERS:
        return f"fewer than {FEWEST_CLUSTERS} independent items or dialogues to draw from"
    if not len(figures):
        return "no resamples were asked for"
    if len(known) < LEAST_DEFINED * len(figures):
        missing = f"{len(figures) - len(known)} of {len(figures)} resamples"
        return f"{missing} have no figure: too few independent items or dialogues"
    tail = float(ndtr(-sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, 0.975)))
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


class ResampledRanks:
    """The mid-ranks of a column, shape (n,), in its resamples. The column is sorted once, and no resample is."""

    def __init__(self, values: Floats) -> None:
        self._place = np.unique(values, return_inverse=True)[1]
        self._groups = Groups(self._place)

    def count(self, counts: Counts) -> Counts:
        """How often each distinct value is in each resample, shape (resamples, distinct)."""
        return self._groups.sum(counts)

    def of(self, counts: Counts) -> Floats:
        """The rank from 1 that each pair has in a resample that holds it, shape (resamples, n)."""
        held = self.count(counts)
        # Ties take the places from the end of what is smaller to their own end, and share their mean.
        middle = np.cumsum(held, axis=1) - (held - 1) / 2
        ranks: Floats = middle[:, self._place]
        return ranks


def deviations(counts: Counts, values: Floats) -> Floats:
    """Deviations from each resample's mean, in units of its largest, of a column of shape (n,) or (resamples, n).

    Shape (resamples, n). They are 0 where the resample is constant or a pair is not in it.
    """
    held = counts > 0
    rows = np.broadcast_to(values, counts.shape)
    low = np.where(held, rows, np.inf).min(axis=1, keepdims=True)
    high = np.where(held, rows, -np.inf).max(axis=1, keepdims=True)
    mean = np.einsum("ri,ri->r", counts, rows)[:, None] / counts.sum(axis=1, keepdims=True)
    largest = np.where(high > low, np.maximum(high - mean, mean - low), np.inf)
    found: Floats = np.where(held, rows - mean, 0.0) / largest
    return found


def correlate_deviations(counts: Counts, x: Floats, y: Floats) -> Floats:
    """Pearson's r in each resample, shape (resamples,), of `deviations`; NaN where one side is constant."""
    weighted = counts * x
    products = np.einsum("ri,ri->r", weighted, y)
    squares = np.einsum("ri,ri->r", weighted, x) * np.einsum("ri,ri->r", counts * y, y)
    r = np.divide(products, np.sqrt(squares), out=np.full(len(counts), np.nan), where=squares > 0)
    clipped: Floats = np.clip(r, -1.0, 1.0)
    return clipped


def pearson_of(x: Floats, y: Floats) -> Figure:
    """R of the pairs of two columns, shapes (n,)."""
    return lambda counts: correlate_deviations(counts, deviations(counts, x), deviations(counts, y))


def spearman_of(x: Floats, y: Floats) -> Figure:
    """ρ of the pairs of two columns, shapes (n,)."""
    a, b = ResampledRanks(x), ResampledRanks(y)
    return lambda counts: correlate_deviations(
        counts, deviations(counts, a.of(counts)), deviations(counts, b.of(counts))
    )


def kendall_of(x: Floats, y: Floats) -> Figure:
    """τ-b of the pairs of two columns, shapes (n,)."""
    if len(x) > MOST_PAIRED:
        return lambda counts: np.array([kendall_of_row(x, y, row) for row in counts])
    signs = sign_of_differences(x) * sign_of_differences(y)
    columns = ResampledRanks(x), ResampledRanks(y)

    def figure(counts: Counts) -> Floats:
        # A pair of pairs counts the product of their counts. No sum of the matrix product is above a resample's size.
        size = counts.sum(axis=1)
        exact = np.float32 if size.max() < EXACT_IN_SINGLE else np.float64
        signed = (counts.astype(exact) @ signs.astype(exact)).astype(np.float64)
        concordance = np.einsum("ri,ri->r", signed, counts.astype(np.float64))
        untied = [(size * size - (column.count(counts) ** 2).sum(axis=1)).astype(np.float64) for column in columns]
        scale = np.sqrt(untied[0] * untied[1])
        tau: Floats = np.divide(concordance, scale, out=np.full(len(counts), np.nan), where=scale > 0)
        return np.clip(tau, -1.0, 1.0)

    return figure


def kendall_of_row(x: Floats, y: Floats, row: Integers) -> float:
    """τ-b of one resample; NaN where a side is constant."""
    a, b = np.repeat(x, row), np.repeat(y, row)
    if a.min() == a.max() or b.min() == b.max():
        return np.nan
    return float(kendalltau(a, b).statistic)


def sign_of_differences(values: Floats) -> NDArray[np.int8]:
    """The sign of each value less each other, shape (n, n)."""
    place = np.unique(values, return_inverse=True)[1].astype(np.int32)
    signs: NDArray[np.int8] = np.sign(place[:, None] - place[None, :]).astype(np.int8)
    return signs

"""Is a difference of two means beyond chance? Tests about the means themselves, with clusters as the units.

A cluster is a dialogue with its turns, or an item that stands alone. Both tests compare the studentised difference with
what it would be had chance decided: which run of a pair is which (sign flips), or which run a cluster is of
(permutations). Studentised, they also hold where only the means are equal and not the distributions (Janssen 1997,
Chung & Romano 2013). Ranks cannot do that: a signed-rank test is none of the mean.

Time and memory are bounded: flips are made a block at a time, and of very many clusters chance moves several at once,
the same ones in every flip. Such flips are a subgroup of all, so that the test stays one of the right level.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import ceil, comb

import numpy as np

from app.analysis.differences import level
from app.analysis.observations import Floats, Integers

FEWEST_CLUSTERS = 6
"""Of five clusters with one sign 2 of 2^5 flips are as far out: p = 0.0625 is the least that there can be."""

FLIPS = 10_000
MOST_FLIPS = 100_000
PER_LEVEL = 20
"""Flips that are expected below the level of a test, so that chance in drawing them hardly matters."""

MOST_MOVED = 2_000
"""Clusters that chance moves one by one."""

MANY = 60
"""Clusters of which never all flips or permutations can be tried."""

CELLS = 2_000_000
"""Flips by clusters in memory at once."""

TIES = 1e-9
"""Statistics that differ by less, relative to themselves, are equal but for rounding."""


def count_flips(significance: float) -> int:
    """How many flips or permutations are drawn for a test at this level, where there are too many to list."""
    return int(min(MOST_FLIPS, max(FLIPS, ceil(PER_LEVEL / significance))))


def find_least_p(flips: int, left: int, right: int | None = None) -> float:
    """The smallest two-sided p that there can be: of so many clusters that differ, or of two runs of so many."""
    left, right = min(left, MANY), None if right is None else min(right, MANY)
    ways = 2**left if right is None else comb(left + right, left)
    return min(1.0, 2 / ways if can_list(ways, flips, halved=right is None) else 1 / (flips + 1))


def can_list(ways: int, flips: int, *, halved: bool) -> bool:
    """Whether all ways can be tried. Of sign flips each has a mirror with the same statistic: half of them do."""
    return ways // (1 + halved) <= flips


def flip_signs(sums: Floats, counts: Floats, generator: np.random.Generator, *, flips: int = FLIPS) -> float:
    """The two-sided p of a mean difference of pairs, from sums of differences and numbers of pairs by cluster.

    Both have shape (clusters,). A flip changes the sign of whole clusters. All are listed where they are few enough,
    else `flips` are drawn. Clusters without a difference have no say in which of them are as far out.
    """
    scale = float(np.abs(sums).max(initial=0.0))
    moved = level(sums / scale) != 0 if scale else np.zeros(len(sums), dtype=bool)
    if not moved.any():
        return 1.0
    features = np.stack([sums[moved] / scale, counts[moved]], axis=1)
    still = float(counts[~moved] @ counts[~moved])
    if len(features) > MOST_MOVED:
        features = merge(features, MOST_MOVED, generator)
    own, sizes = features.T
    weights = np.stack([own, own * sizes], axis=1)
    total, sizes_squared, squares = float(counts.sum()), still + float(sizes @ sizes), float(own @ own)

    def weigh(shifts: Floats) -> Floats:
        """T² / (1 + T² / k), of shape (flips,), which is finite where all differences are equal; T is the mean by its
        cluster-robust error, k the number of clusters that differ."""
        sum_flipped, weighted = shifts.T
        mean = sum_flipped / total
        found = squares - 2 * mean * weighted + mean**2 * sizes_squared
        statistic: Floats = sum_flipped**2 / (np.maximum(found, 0) + sum_flipped**2 / len(own))
        return statistic

    # A sign that is flipped takes its cluster's weight off twice.
    least = float(weigh(weights.sum(axis=0)[None])[0]) * (1 - TIES)
    exact = can_list(2 ** len(own), flips, halved=True)
    signs = list_signs(len(own)) if exact else draw_signs(len(own), flips, generator)
    beyond = tried = 0
    for flipped in signs:
        beyond += int(np.sum(weigh(weights.sum(axis=0) - 2 * flipped @ weights) >= least))
        tried += len(flipped)
    return beyond / tried if exact else (1 + beyond) / (1 + tried)


def merge(features: Floats, blocks: int, generator: np.random.Generator) -> Floats:
    """Sums of clusters drawn into so many blocks, shape (clusters, k) to (blocks, k)."""
    starts = np.linspace(0, len(features), blocks, endpoint=False).astype(np.int64)
    merged: Floats = np.add.reduceat(features[generator.permutation(len(features))], starts, axis=0)
    return merged


def list_signs(clusters: int) -> Iterator[Floats]:
    """Every choice of clusters to flip, the last left out, whose flips mirror the others; of shape (rows, clusters)."""
    rows = max(1, CELLS // clusters)
    for start in range(0, 2 ** (clusters - 1), rows):
        numbers = np.arange(start, min(start + rows, 2 ** (clusters - 1)))
        yield ((numbers[:, None] >> np.arange(clusters)) & 1).astype(np.float64)


def draw_signs(clusters: int, flips: int, generator: np.random.Generator) -> Iterator[Floats]:
    """So many random choices of clusters to flip, in blocks of shape (rows, clusters)."""
    rows, width = max(1, CELLS // clusters), -(-clusters // 8)
    for start in range(0, flips, rows):
        size = min(rows, flips - start)
        packed = np.frombuffer(generator.bytes(size * width), dtype=np.uint8).reshape(size, width)
        yield np.unpackbits(packed, axis=1, count=clusters).astype(np.float64)


def split_anew(
    baseline: tuple[Floats, Floats],
    candidate: tuple[Floats, Floats],
    generator: np.random.Generator,
    *,
    flips: int = FLIPS,
) -> float:
    """The two-sided p of the difference of two runs' means, each from its sums and numbers of values by cluster.

    A permutation gives each run as many clusters as it has. All are listed where they are few enough, else `flips` are
    drawn.
    """
    runs = [np.stack(run, axis=1) for run in (baseline, candidate)]
    sums, counts = np.concatenate(runs).T
    mean = float(sums.sum() / counts.sum())
    scale = float(np.abs(sums - mean * counts).max())
    if scale <= TIES * float(np.abs(sums).max()):
        return 1.0
    together = -(-(len(runs[0]) + len(runs[1])) // MOST_MOVED)
    parts = []
    for run in runs:
        centred = np.stack([(run[:, 0] - mean * run[:, 1]) / scale, run[:, 1]], axis=1)
        parts.append(merge(centred, -(-len(run) // together), generator) if together > 1 else centred)
    first, pooled = len(parts[0]), np.concatenate(parts)
    own, sizes = pooled.T
    features = np.stack([own, sizes, own**2, own * sizes, sizes**2], axis=1)
    everything = features.sum(axis=0)

    def weigh(chosen: Floats) -> tuple[Floats, Floats]:
        """Squared difference of the means and its variance, both of shape (splits,)."""
        found = [describe_sums(chosen, first), describe_sums(everything - chosen, len(pooled) - first)]
        return (found[0][0] - found[1][0]) ** 2, found[0][1] + found[1][1]

    ((squared,), (variance,)) = weigh(features[:first].sum(axis=0)[None])
    exact = can_list(comb(len(pooled), first), flips, halved=False)
    splits = list_splits(len(pooled), first) if exact else draw_splits(len(pooled), first, flips, generator)
    beyond = tried = 0
    for labels in splits:
        others, variances = weigh(labels @ features)
        beyond += int(np.sum(others * variance >= squared * variances * (1 - TIES)))
        tried += len(labels)
    return beyond / tried if exact else (1 + beyond) / (1 + tried)


def describe_sums(sums: Floats, clusters: int) -> tuple[Floats, Floats]:
    """Means and their cluster-robust variances, from sums over `clusters` clusters of S, m, S², Sm and m², S being a
    cluster's sum and m its number of values; shape (splits, 5) to twice (splits,)."""
    own, sizes, squares, products, sizes_squared = sums.T
    mean = own / sizes
    found = (squares - 2 * mean * products + mean**2 * sizes_squared) / sizes**2
    # What is left of rounding is no variance.
    found = np.where(found > TIES * squares / sizes**2, found, 0.0)
    return mean, found * clusters / max(1, clusters - 1)


def list_splits(clusters: int, first: int) -> Iterator[Floats]:
    """Every choice of the first run's clusters as ones among zeros, shape (splits, clusters)."""
    chosen = np.array(list(combinations(range(clusters), first)), dtype=np.int64).reshape(-1, first)
    yield label(chosen, clusters)


def draw_splits(clusters: int, first: int, flips: int, generator: np.random.Generator) -> Iterator[Floats]:
    """So many random choices, in blocks of shape (rows, clusters)."""
    rows = max(1, CELLS // clusters)
    for start in range(0, flips, rows):
        keys = generator.random((min(rows, flips - start), clusters), dtype=np.float32)
        yield label(np.argpartition(keys, first - 1, axis=1)[:, :first], clusters)


def label(chosen: Integers, clusters: int) -> Floats:
    """Ones where a cluster is chosen; shape (rows, first) to (rows, clusters)."""
    labels = np.zeros((len(chosen), clusters))
    np.put_along_axis(labels, chosen, 1.0, axis=1)
    return labels

"""The bootstrap over items: many resamples at once, and intervals by percentile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from app.analysis.observations import Floats, Integers
from app.analysis.statistics import pearson

CELLS = 2_000_000
"""Drawn at once: resamples by items. It bounds the memory."""

MOST_PAIRED = 4_000
"""Items up to which the signs of all pairs are kept for Kendall's τ: 64 MB."""

MOST_DRAWS = 20_000_000
FEWEST_RESAMPLES = 200

LEAST_DEFINED = 0.95
"""Share of resamples that must have the figure: percentiles of those that happen to have one would be too narrow."""


def draw(n: int, resamples: int, seed: int | tuple[int, int]) -> Iterator[Integers]:
    """Indices of n items with replacement, shapes (resamples at once, n), the same for the same seed (and stream)."""
    generator = np.random.default_rng(seed)
    at_once = max(1, CELLS // max(1, n))
    for start in range(0, resamples, at_once):
        yield generator.integers(0, n, size=(min(at_once, resamples - start), n))


def interval_of(figures: Floats) -> tuple[float, float] | str:
    """The 95 % percentile interval of a figure's resamples, NaN where it has none; or why there is no interval."""
    known = figures[~np.isnan(figures)]
    if not len(figures):
        return "no resamples were asked for"
    if len(known) < LEAST_DEFINED * len(figures):
        return f"{len(figures) - len(known)} of {len(figures)} resamples have no figure: too few different items"
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


class ResampledRanks:
    """The mid-ranks of a column in its resamples. The column, shape (n,), is sorted once, and no resample is."""

    def __init__(self, values: Floats) -> None:
        distinct, self._place = np.unique(values, return_inverse=True)
        self._distinct = len(distinct)

    def of(self, drawn: Integers) -> Floats:
        """Ranks from 1, shape (resamples, n), of what was drawn."""
        places = self._place[drawn]
        offsets = np.arange(len(drawn))[:, None] * self._distinct
        count = np.bincount((places + offsets).ravel(), minlength=len(drawn) * self._distinct)
        count = count.reshape(len(drawn), self._distinct)
        # Ties take the places from the end of what is smaller to their own end, and share their mean.
        middle = np.cumsum(count, axis=1) - (count - 1) / 2
        ranks: Floats = np.take_along_axis(middle, places, axis=1)
        return ranks


def resampled_spearman(x: Floats, y: Floats, resamples: int, seed: int) -> Floats:
    """ρ in each resample of the pairs, shape (resamples,); NaN where a side is constant."""
    x_ranks, y_ranks = ResampledRanks(x), ResampledRanks(y)
    return joined([pearson(x_ranks.of(drawn), y_ranks.of(drawn)) for drawn in draw(len(x), resamples, seed)])


def resampled_pearson(x: Floats, y: Floats, resamples: int, seed: int) -> Floats:
    """R in each resample of the pairs, shape (resamples,); NaN where a side is constant."""
    return joined([pearson(x[drawn], y[drawn]) for drawn in draw(len(x), resamples, seed)])


def resampled_mean(values: Floats, resamples: int, seed: int) -> Floats:
    """The mean of each resample, shape (resamples,)."""
    return joined([values[drawn].mean(axis=1) for drawn in draw(len(values), resamples, seed)])


def affordable(n: int, resamples: int) -> int:
    """How many of the resamples n items get: all up to MOST_PAIRED, beyond no more than take a few seconds.

    The interval of so many is narrow, and a few hundred resamples tell where it ends.
    """
    return resamples if n <= MOST_PAIRED else min(resamples, max(FEWEST_RESAMPLES, MOST_DRAWS // n))


def resampled_kendall(x: Floats, y: Floats, resamples: int, seed: int) -> Floats:
    """τ-b in each resample of the pairs, shape (resamples,); NaN where a side is constant."""
    if len(x) > MOST_PAIRED:
        return joined([kendall_rows(x[drawn], y[drawn]) for drawn in draw(len(x), resamples, seed)])
    signs = (sign_of_differences(x) * sign_of_differences(y)).astype(np.float32)
    return joined([kendall_of_counts(x, y, signs, drawn) for drawn in draw(len(x), resamples, seed)])


def kendall_rows(x: Floats, y: Floats) -> Floats:
    """τ-b row by row, shapes (resamples, n) to (resamples,)."""
    constant = (x.min(axis=1) == x.max(axis=1)) | (y.min(axis=1) == y.max(axis=1))
    rows = [np.nan if none else float(kendalltau(a, b).statistic) for a, b, none in zip(x, y, constant, strict=True)]
    return np.array(rows)


def kendall_of_counts(x: Floats, y: Floats, signs: NDArray[np.float32], drawn: Integers) -> Floats:
    """τ-b from how often each item was drawn: a pair of items counts the product of their counts.

    `signs` is 1 for a concordant pair, −1 for a discordant one, 0 for a tie, shape (n, n). All sums are of integers
    that float32 holds exactly, or are taken in float64.
    """
    n = len(x)
    count = counts_of(np.arange(n), drawn).astype(np.float32)
    concordance = np.einsum("ri,ri->r", (count @ signs).astype(np.float64), count.astype(np.float64))
    untied = [n * n - (counts_of(places(column), drawn) ** 2).sum(axis=1) for column in (x, y)]
    scale = np.sqrt(untied[0].astype(np.float64) * untied[1])
    tau: Floats = np.divide(concordance, scale, out=np.full(len(drawn), np.nan), where=scale > 0)
    return np.clip(tau, -1.0, 1.0)


def counts_of(place: Integers, drawn: Integers) -> Integers:
    """How often each place, from 0, was drawn: shape (resamples, places)."""
    width = int(place.max()) + 1
    flat = place[drawn] + np.arange(len(drawn))[:, None] * width
    return np.bincount(flat.ravel(), minlength=len(drawn) * width).reshape(len(drawn), width)


def places(values: Floats) -> Integers:
    """Each value's number among the distinct values."""
    found: Integers = np.unique(values, return_inverse=True)[1]
    return found


def sign_of_differences(values: Floats) -> NDArray[np.int8]:
    """The sign of each value less each other, shape (n, n)."""
    place = places(values).astype(np.int32)
    signs: NDArray[np.int8] = np.sign(place[:, None] - place[None, :]).astype(np.int8)
    return signs


def joined(parts: list[Floats]) -> Floats:
    """All parts as one column, empty where there is none."""
    return np.concatenate(parts) if parts else np.empty(0)

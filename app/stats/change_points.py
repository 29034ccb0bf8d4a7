"""Where the level of a series of run means changed: optimal partitioning of means with known standard errors.

Of all ways to cut the series into pieces, the one with the least weighted sum of squares around the pieces' means plus
a penalty per cut (Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval"; PELT of Killick
et al. 2012 finds the same one, with less work on long series). The penalty grows with the logarithm of the number of
runs: `python -m benchmarks.trends` measures how often a lane without a change has one marked. A piece has at least two
runs: a single one that is off is what a gate is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from app.stats.observations import Floats

FEWEST = 2
"""Runs of a piece."""

PENALTY, PENALTY_PER_LOG = 4.0, 1.5
"""Of a cut among n runs: PENALTY + PENALTY_PER_LOG · log(n), against a gain that has χ² of one degree by chance."""

MOST_RUNS = 1_000
COVERED = 0.95
QUANTILE = 1.96


@dataclass(frozen=True)
class ChangePoint:
    """A change of the level. `at` is the number of the first run after it, from 0; `earliest` and `latest` hold it with
    95 % probability where it is one. `difference` is that of the levels after and before, with its 95 % interval; since
    the largest was searched for, it is on average a little too large."""

    at: int
    earliest: int
    latest: int
    difference: float
    interval: tuple[float, float]


def find_change_points(means: Sequence[float], errors: Sequence[float]) -> list[ChangePoint]:
    """The changes of the level, in the order of the runs, of which there are at most MOST_RUNS. `errors` are the means'
    standard errors; one below their median counts as the median, since of few dialogues a small one is luck, and zero
    where all ratings of a run were the same. Raises ValueError for anything else. n runs take time of order n²."""
    values, known = np.asarray(means, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if values.shape != known.shape or len(values) > MOST_RUNS or not np.isfinite([values, known]).all():
        raise ValueError(f"at most {MOST_RUNS} finite means with as many errors can be searched")
    if len(values) < 2 * FEWEST or not (known > 0).any():
        return []
    weights = 1 / np.maximum(known, np.median(known[known > 0])) ** 2
    # Sums before each run; of values around their mean, so that no digits are lost.
    centred = values - np.average(values, weights=weights)
    sums = np.zeros((2, len(values) + 1))
    sums[:, 1:] = np.cumsum([weights, weights * centred], axis=1)
    cuts = [0, *partition(sums, PENALTY + PENALTY_PER_LOG * log(len(values))), len(values)]
    return [describe(sums, *around) for around in zip(cuts, cuts[1:], cuts[2:], strict=False)]


def partition(sums: Floats, penalty: float) -> list[int]:
    """The first run of each piece but the first one."""
    weights, values = sums
    n = len(weights) - 1
    least, last = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    least[0] = -penalty
    for end in range(FEWEST, n + 1):
        starts = slice(0, end - FEWEST + 1)
        gains = (values[end] - values[starts]) ** 2 / (weights[end] - weights[starts])
        costs = least[starts] - gains + penalty
        last[end] = np.argmin(costs)
        least[end] = costs[last[end]]
    cuts, end = list[int](), int(last[n])
    while end:
        cuts.append(end)
        end = int(last[end])
    return cuts[::-1]


def describe(sums: Floats, start: int, at: int, end: int) -> ChangePoint:
    """The change at a run, between the ends of the pieces on both sides. Where it is, is told by the likelihood of each
    place with the best levels on both sides, as a distribution over the places (Smith 1975, with flat priors)."""
    weights, values = sums
    places = np.arange(start + 1, end)
    sides = [(weights[places] - weights[start], values[places] - values[start])]
    sides.append((weights[end] - weights[places], values[end] - values[places]))
    gains = sum(value**2 / weight for weight, value in sides)
    chances = np.exp((gains - gains.max()) / 2) / np.sqrt(sides[0][0] * sides[1][0])
    order = np.argsort(-chances, kind="stable")
    enough = int(np.searchsorted(np.cumsum(chances[order]), COVERED * chances.sum())) + 1
    held = places[order[:enough]]
    (before, below), (after, above) = ((weight[at - start - 1], value[at - start - 1]) for weight, value in sides)
    difference, reach = float(above / after - below / before), QUANTILE * sqrt(1 / before + 1 / after)
    return ChangePoint(
        at,
        min(at, int(held.min())),
        max(at, int(held.max())),
        difference,
        (difference - reach, difference + reach),
    )

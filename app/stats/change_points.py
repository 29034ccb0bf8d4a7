"""Where the level of a series of run means changed: optimal partitioning of means with their standard errors and the
noise between builds.

Of all ways to cut the series into pieces, the one with the least weighted sum of squares around the pieces' means plus
a penalty per cut (Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval"; PELT of Killick
et al. 2012 finds the same one, with less work on long series). The penalty grows with the logarithm of the number of
runs, and is larger for few, of which the noise is not known well: `python -m benchmarks.trends` measures how often a
lane without a change has one marked. A piece has at least two runs, and a run that is off alone, between two that are
not, is left out: it is what a gate is for.

The variance between builds is how much the means of a bot's builds differ beyond what their items explain. A judge that
answers a little differently each night, sampled responses, or a changed machine move a whole build's mean. That shows
in the differences of successive builds, which a lasting change of the level touches only once. Each squared difference
is divided by its variance and counts at most CAP, so that one change or one odd build hardly moves the estimate
(Huber's proposal 2; Rice 1984 for the differences).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import chdtr, chdtri

from saiten_server.stats.observations import Floats, Integers

CAP = 4.0
"""The most that one squared standardised difference counts: that of two standard deviations."""

EXPECTED = float(chdtr(3, CAP) + CAP * (1 - chdtr(1, CAP)))
"""The mean of a χ² of one degree that is cut off at CAP."""

EFFICIENCY = 0.6
"""Independent differences to a successive one, of which two share a build, cut off at CAP; by simulation."""

NOISE_STEPS = 40


def estimate_noise(squares: Floats, variances: Floats, *, chance: float | None = None) -> Floats:
    """The variance between builds, from squared differences of successive builds and the variances that their items
    explain, of shape (..., n) to (...); NaN squares do not count. With `chance` it is an upper bound that lies below
    the variance with about that chance; without any difference it is infinite. Without `chance` it is 0 then."""
    held = ~np.isnan(squares)
    filled, known = np.where(held, squares, 0.0), np.where(held, variances, 1.0)
    n = held.sum(axis=-1)
    target = EXPECTED * n
    if chance is not None:
        freedom = np.maximum(EFFICIENCY * n, 0.5)
        target = target * np.minimum(1.0, chdtri(freedom, 1 - chance) / freedom)
    # The sum falls as the variance grows, and at `high` it lies below the target.
    high = (filled.sum(axis=-1) + 1e-12) / np.maximum(2 * target, 1e-300)
    low = np.zeros_like(high)
    for _ in range(NOISE_STEPS):
        middle = (low + high) / 2
        spread = np.maximum(known + 2 * middle[..., None], 1e-300)
        above = np.minimum(filled / spread, CAP).sum(axis=-1) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found: Floats = np.where(n > 0, low, 0.0 if chance is None else np.inf)
    return found


FEWEST_RUNS = 2
"""Runs of a piece."""

PENALTY, PENALTY_PER_LOG = 4.0, 1.5
"""Of a cut among n runs: PENALTY + PENALTY_PER_LOG · log(n), against a gain that has χ² of one degree by chance."""

PENALTY_OF_FEW = 8.0
"""The penalty times 1 + PENALTY_OF_FEW / n, as the noise is estimated from the same n runs."""

ODD_ERRORS = 2.5
"""Standard errors by which a run that is off alone differs from the run before it and from the run after it."""

MOST_SERIES_RUNS = 1_000
COVERED = 0.95
QUANTILE = 1.96


@dataclass(frozen=True)
class ChangePoint:
    """A change of the level. `at` is the number of the first run after it, from 0; `earliest` and `latest` hold it with
    95% probability where it is one. `difference` is that of the levels after and before, with its 95% interval; since
    the largest was searched for, it is on average a little too large."""

    at: int
    earliest: int
    latest: int
    difference: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class LevelChanges:
    """The changes of a series' level, in the order of the runs, and the standard deviation between builds that the
    runs' own errors do not explain: `noise`, in scale points; None for fewer runs than can be searched."""

    changes: list[ChangePoint]
    noise: float | None


def find_change_points(means: Sequence[float], errors: Sequence[float]) -> list[ChangePoint]:
    """The changes that `find_levels` finds."""
    return find_levels(means, errors).changes


def find_levels(means: Sequence[float], errors: Sequence[float]) -> LevelChanges:
    """The changes of the level of at most MOST_SERIES_RUNS runs, and the noise between them. `errors` are the means'
    standard errors; one below their median counts as the median, since of few dialogues a small one is luck, and zero
    where all ratings of a run were the same. Raises ValueError for anything else. n runs take time of order n²."""
    values, known = np.asarray(means, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if values.shape != known.shape or len(values) > MOST_SERIES_RUNS or not np.isfinite([values, known]).all():
        raise ValueError(f"at most {MOST_SERIES_RUNS} finite means with as many errors can be searched")
    if len(values) < 2 * FEWEST_RUNS or not (known > 0).any():
        return LevelChanges([], None)
    own = np.maximum(known, np.median(known[known > 0])) ** 2
    noise = float(estimate_noise(np.diff(values) ** 2, own[1:] + own[:-1]))
    variances = own + noise
    kept = find_steady(values, variances)
    weights = 1 / variances[kept]
    # Sums before each run; of values around their mean, so that no digits are lost.
    centred = values[kept] - np.average(values[kept], weights=weights)
    sums = np.zeros((2, len(kept) + 1))
    sums[:, 1:] = np.cumsum([weights, weights * centred], axis=1)
    cuts = [0, *partition(sums, find_penalty(len(kept))), len(kept)]
    found = [describe_change(sums, *around) for around in zip(cuts, cuts[1:], cuts[2:], strict=False)]
    places = kept.tolist()
    changes = [
        replace(one, at=places[one.at], earliest=places[one.earliest], latest=places[one.latest]) for one in found
    ]
    return LevelChanges(changes, sqrt(noise))


def find_penalty(runs: int) -> float:
    """What a cut among so many runs costs."""
    return (PENALTY + PENALTY_PER_LOG * log(runs)) * (1 + PENALTY_OF_FEW / runs)


def find_steady(values: Floats, variances: Floats) -> Integers:
    """The places of the runs that are not off alone."""
    steps = np.diff(values) / np.sqrt(variances[1:] + variances[:-1])
    turned, least = steps[1:] * steps[:-1] < 0, np.minimum(np.abs(steps[1:]), np.abs(steps[:-1]))
    found: Integers = np.flatnonzero(np.concatenate([[True], ~(turned & (least > ODD_ERRORS)), [True]]))
    return found


def partition(sums: Floats, penalty: float) -> list[int]:
    """The first run of each piece but the first one."""
    weights, values = sums
    n = len(weights) - 1
    least, last = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    least[0] = -penalty
    for end in range(FEWEST_RUNS, n + 1):
        starts = slice(0, end - FEWEST_RUNS + 1)
        gains = (values[end] - values[starts]) ** 2 / (weights[end] - weights[starts])
        costs = least[starts] - gains + penalty
        last[end] = np.argmin(costs)
        least[end] = costs[last[end]]
    cuts, end = list[int](), int(last[n])
    while end:
        cuts.append(end)
        end = int(last[end])
    return cuts[::-1]


def describe_change(sums: Floats, start: int, at: int, end: int) -> ChangePoint:
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

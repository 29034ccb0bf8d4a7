"""The drop that pairs would show in four of five runs, from the available data.

What a drop would look like is taken from the clusters' own changes: each is weighted by exp(−λ · change), which gives
the mean any value between the largest fall and the largest rise. Of normal changes this is a shift that leaves the
spread as it is. Where most clusters have not changed, as at the end of a scale, more of them fall, while rises hardly
become fewer: λ counts for a rise by the share of clusters that differ. Where many clusters differ, the drop found with
80% power follows from their weighted spread. Where few do, the sign-flip test is simulated: of five clusters that
differ it finds nothing, whatever the spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.statistics import POWER, reach
from saiten_server.stats.statistics import level as level_out

MANY_DIFFER = 16.0
"""Clusters that decide, as expected at the drop, from which the spread tells what is found."""

SAMPLES, FLIPS_PER_DRAW = 256, 4
LISTED = 10
"""Clusters of which all flips are listed."""

MOST_DRAWN = 128
"""Clusters that differ in a simulated sample; where more do, their spread tells."""

MOST_APART = 2_000
"""Different clusters that are weighted; of more, neighbours are joined."""

STEEPEST = 60.0
"""The weight of the largest change, as the exponent of e, is at most that of no change by so much."""

UNCERTAIN = 1.5
"""Chosen by simulation at the upper end of the scale and in its middle (`judge_stated`): at an end the drop itself, and
not only its error, hangs on how large the few falls are."""

POWER_STEPS, SIMULATED_STEPS = 24, 8
STILL = 1e-9


@dataclass(frozen=True)
class Changes:
    """What pairs fall by, added up by cluster. `falls` are these sums in units of the largest change, `counts` numbers
    of pairs, `times` how often there are such clusters; all of shape (distinct clusters,)."""

    falls: Floats
    counts: Floats
    times: Floats

    @cached_property
    def clusters(self) -> int:
        return int(self.times.sum())

    @cached_property
    def differing(self) -> Integers:
        """The places of the clusters that differ."""
        return np.flatnonzero(np.abs(self.falls) > STILL)

    @cached_property
    def moved(self) -> float:
        """The share of clusters that differ."""
        return float(self.times[self.differing].sum()) / self.clusters

    def weigh(self, tilt: float) -> Floats:
        """The clusters' weights, which add up to 1."""
        exponents = tilt * np.where(self.falls > 0, self.falls, self.moved * self.falls)
        weights = self.times * np.exp(exponents - exponents.max())
        shares: Floats = weights / weights.sum()
        return shares

    def describe(self, tilt: float) -> tuple[float, float]:
        """The mean drop of a pair and its standard error, as expected with these weights."""
        weights = self.weigh(tilt)
        size = float(weights @ self.counts)
        drop = float(weights @ self.falls) / size
        variance = float(weights @ (self.falls - drop * self.counts) ** 2)
        return drop, sqrt(variance / (self.clusters - 1)) / size

    @property
    def allowance(self) -> float:
        """By what factor a drop is larger than it seems, since the sample's own spread is not known exactly: how often
        clusters differ varies by chance, which the weights say, but so does how much they do. The variance of a
        sample's variance is about (kurtosis − 1) / n; `UNCERTAIN` is how much of it counts."""
        if len(self.differing) == 0:
            return 1.0
        times, squares = self.times[self.differing], self.falls[self.differing] ** 2
        differ = float(times.sum())
        kurtosis = differ * float(times @ squares**2) / float(times @ squares) ** 2
        return sqrt(self.clusters / (self.clusters - 1)) * (1 + UNCERTAIN * (kurtosis - 1) / differ)

    def can_simulate(self, tilt: float) -> bool:
        """Whether a simulated sample holds all clusters that differ."""
        differ = self.clusters * float(self.weigh(tilt)[self.differing].sum())
        return self.clusters <= MOST_DRAWN or differ < 0.8 * MOST_DRAWN

    def count_deciding(self, tilt: float) -> float:
        """How many clusters decide about a flip: as many that change equally would give sums of the same kurtosis."""
        weights, squares = self.weigh(tilt), self.falls**2
        return self.clusters * float(weights @ squares) ** 2 / float(weights @ squares**2)


@dataclass(frozen=True)
class Simulation:
    """Samples of as many clusters, with one set of random numbers for all weights. `found` is of shape (samples,),
    `places` of shape (samples, MOST_DRAWN), and `signs`, those of a flip, of shape (MOST_DRAWN, flips)."""

    found: Floats
    places: Floats
    signs: NDArray[np.float32]

    @classmethod
    @cache
    def draw(cls) -> Simulation:
        """The same numbers each time, so that a verdict does not hang on them."""
        generator = np.random.default_rng(0)
        numbers = np.arange(2 ** (LISTED - 1))
        # Flips come in mirrored pairs: the first cluster keeps its sign.
        listed = (numbers >> np.arange(LISTED)[:, None]) & 1
        others = generator.integers(0, 2, size=(MOST_DRAWN - LISTED, len(numbers)))
        signs = (1 - 2 * np.concatenate([listed, others])).astype(np.float32)
        # Evenly spread: how many clusters differ matters most.
        found = generator.permutation((np.arange(SAMPLES) + 0.5) / SAMPLES)
        return cls(found, generator.random((SAMPLES, MOST_DRAWN)), signs)

    def find_power(self, changes: Changes, tilt: float, level: float) -> float:
        """The share of samples in which a sign-flip test finds a drop at this level."""
        weights = changes.weigh(tilt)[changes.differing]
        chances = np.cumsum(list_chances(changes.clusters, min(1.0, float(weights.sum()))))
        held = np.searchsorted(chances, self.found).clip(max=len(chances) - 1)
        most = max(1, int(held.max()))
        places = np.searchsorted(np.cumsum(weights) / weights.sum(), self.places[:, :most]).clip(max=len(weights) - 1)
        drawn = np.where(np.arange(most) < held[:, None], changes.falls[changes.differing][places], 0.0)
        drawn = drawn.astype(np.float32)
        total = drawn.sum(axis=1)
        # A few samples at a time: matrices so small are multiplied without starting threads, which wait for each other.
        flipped = np.matmul(drawn.reshape(-1, FLIPS_PER_DRAW, most), self.signs[:most]).reshape(SAMPLES, -1)
        beyond = np.abs(flipped) >= total[:, None] * (1 - 1e-5)
        return float(np.mean((beyond.mean(axis=1) < level) & (total > 0)))


def list_chances(n: int, share: float) -> Floats:
    """The chances of 0, 1, … of n, but of no more than `MOST_DRAWN`."""
    k = np.arange(min(n, MOST_DRAWN) + 1)
    if share >= 1:
        return np.where(k == k[-1], 1.0, 0.0)
    ways: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chances: Floats = np.exp(ways + k * np.log(share) + (n - k) * np.log1p(-share))
    return chances


def merge_alike(falls: Floats, counts: Floats) -> Changes:
    """Equal clusters as one; where too many differ, neighbours are joined."""
    pairs, times = np.unique(falls + 1j * counts, return_counts=True)
    found = np.stack([pairs.real, pairs.imag, np.ones(len(pairs))]) * times
    if len(pairs) > MOST_APART:
        found = np.add.reduceat(found, np.linspace(0, len(pairs), MOST_APART, endpoint=False).astype(np.int64), axis=1)
    return Changes(found[0] / found[2], found[1] / found[2], found[2])


def find_detectable(sums: Floats, counts: Floats, *, level: float, freedom: float, error: float) -> float:
    """The smallest mean drop found with 80% power at this two-sided level, from the clusters' sums of changes and
    numbers of pairs, both of shape (clusters,). Infinite where no drop made of such changes is. Where more has risen
    than fallen, a drop is taken to be like that rise. `error` is the standard error of the mean change, and `freedom`
    has its degrees."""
    scale = float(np.abs(sums).max())
    side = 1.0 if sums.sum() > 0 else -1.0
    changes = merge_alike(side * level_out(sums / scale), counts)
    quantiles = reach(level, freedom)

    def lacks(tilt: float, factor: float = 1.0) -> bool:
        drop, spread = changes.describe(tilt)
        return drop < factor * quantiles * spread

    if not lacks(-STEEPEST):
        return quantiles * error
    tilt = search_end(lacks, -STEEPEST, STEEPEST, POWER_STEPS)
    if changes.count_deciding(tilt) >= MANY_DIFFER or not changes.can_simulate(tilt):
        return changes.describe(tilt)[0] * scale * changes.allowance
    low = search_end(lambda one: lacks(one, 0.5), -STEEPEST, tilt, POWER_STEPS)
    high = search_end(lambda one: changes.can_simulate(one) and lacks(one, 3), tilt, STEEPEST, POWER_STEPS)
    simulation = Simulation.draw()
    if simulation.find_power(changes, high, level) < POWER:
        return inf
    tilt = search_end(lambda one: simulation.find_power(changes, one, level) < POWER, low, high, SIMULATED_STEPS)
    return changes.describe(tilt)[0] * scale * changes.allowance


def search_end(holds: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Up to where it holds, between a number for which it does and one for which it does not, by so many halvings."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high

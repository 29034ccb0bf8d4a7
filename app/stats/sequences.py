"""Is the newest of a sequence of builds worse than the build at its start, however many builds are looked at?

The null is that nothing changed since the baseline: all builds have the same expected mean, from which each is off by
its own sample of responses and by a noise between builds, and dialogues that are hard for one are hard for all. A test
of one pair of builds takes that noise for a change, and thirty of them share the error of one baseline.

Here night k may spend 3 alpha / ((k + 2) (k + 3)) of the error rate, which adds up to alpha over all nights (the union
bound, which holds however the nights depend on each other). It looks at the newest 1, 2, 4, … builds together, each
time against the baseline and against the baseline with all builds in between, and shares its part among these looks.
Means are compared by what the dialogues' values say of the covariance of all builds. The noise is bounded from above by
the differences of successive builds, but for that between the builds that are compared, which a change would be in. So
the first nights, of which the noise is not known, find little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import stdtrit

from saiten_server.stats.change_points import estimate_noise
from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.resampling import count_freedom
from saiten_server.stats.statistics import POWER

NOISE_CHANCE = 0.15
"""How often the bound of the noise lies below it."""


@dataclass(frozen=True)
class Builds:
    """The means of builds, the baseline's first, shape (..., builds); their covariance by what dialogues are rated in
    which builds, shape (..., builds, builds); t's degrees of freedom, and the dialogues."""

    means: Floats
    covariance: Floats
    freedom: float
    units: int
    parts: Floats | None = None
    """What each dialogue contributes to the error of each build's mean, shape (..., units, builds)."""


@dataclass(frozen=True)
class Looks:
    """What a night looks at, shape (..., looks): by how much the window's mean lies below that of its reference
    (`drops`) and below the baseline's (`below`), the standard errors of `drops`, and the builds of each window, shape
    (looks,), in ascending order, by `weights`, shape (looks, builds). `newest` is by how much the newest build alone
    lies below the baseline, shape (...). A drop counts beyond `quantile` standard errors."""

    drops: Floats
    below: Floats
    errors: Floats
    windows: Integers
    weights: Floats
    newest: Floats
    quantile: float
    freedom: float

    @property
    def significant(self) -> Mask:
        """Which looks find a drop that lasts to the newest build: of the window and of each shorter one, down to the
        newest build alone, at least half lies below the baseline itself. What rose before and came back is no drop, and
        what was mended is none any more."""
        low = np.minimum.accumulate(self.below, axis=-1)
        found: Mask = (self.drops > self.quantile * self.errors) & (low > self.drops / 2)
        return found

    @property
    def detectable(self) -> Floats:
        """The smallest lasting drop that one of the looks shows with 80% power, shape (...); infinite where the noise
        is not known."""
        found: Floats = self.errors.min(axis=-1) * (self.quantile + float(stdtrit(self.freedom, POWER)))
        return found


def spend(alpha: float, night: int) -> float:
    """What night k, from 1, may spend of the error rate of all nights together."""
    return 3 * alpha / ((night + 2) * (night + 3))


def describe_builds(values: Floats, clusters: Integers) -> Builds:
    """The builds' means and their covariance, from the values of each item, shape (items, builds), NaN where there is
    none, and the numbers of the items' dialogues, shape (items,). Each build has a value."""
    _, places = np.unique(clusters, return_inverse=True)
    units, builds = int(places.max()) + 1, values.shape[1]
    held = ~np.isnan(values)
    sums, counts = np.zeros((units, builds)), np.zeros((units, builds))
    np.add.at(sums, places, np.where(held, values, 0.0))
    np.add.at(counts, places, held)
    totals = counts.sum(axis=0)
    means = sums.sum(axis=0) / totals
    shares = np.minimum(counts / totals, 1 - 1e-9)
    # As for one mean (CR2), by build.
    parts = (sums - counts * means) / np.sqrt(1 - shares) / totals
    freedom = [
        min(count_freedom(share[share > 0], n[n > 0]), count_freedom(share[share > 0], n[n > 0] ** 2))
        for share, n in zip(shares.T, counts.T, strict=True)
        if (share > 0).sum() > 1
    ]
    return Builds(means, parts.T @ parts, max(1.0, min(freedom, default=1.0)), units, parts)


def look_at_newest_build(builds: Builds, *, level: float, rules: int = 1) -> Looks:
    """What the newest of the builds shows at this level, one-sided, for all looks together. There is at least one build
    beside the baseline. So many rules share the chance that the bound of the noise is too low: a smaller level alone
    does not make up for that."""
    means = builds.means
    last = means.shape[-1] - 1
    weights, windows = list_contrasts(last)
    below = means[..., :1] - np.stack([means[..., last + 1 - window :].mean(axis=-1) for window in windows], axis=-1)
    return Looks(
        drops=means @ weights.T,
        below=below,
        errors=find_errors(builds, weights, [(last - window,) for window in windows], NOISE_CHANCE / rules),
        windows=windows,
        weights=weights,
        newest=means[..., 0] - means[..., last],
        quantile=-float(stdtrit(builds.freedom, level / len(windows))),
        freedom=builds.freedom,
    )


def find_errors(
    builds: Builds, weights: Floats, skipped: Sequence[tuple[int, ...]], chance: float = NOISE_CHANCE
) -> Floats:
    """The standard errors of sums of the builds' means with these weights, shape (sums, builds), to (..., sums). The
    noise is bounded by the differences of successive builds but those `skipped`, by their places, for each sum."""
    covariance = builds.covariance
    squares = np.diff(builds.means, axis=-1) ** 2
    own = np.diagonal(covariance, axis1=-2, axis2=-1)
    between = own[..., 1:] + own[..., :-1] - 2 * np.diagonal(covariance, offset=1, axis1=-2, axis2=-1)
    places = np.arange(squares.shape[-1])
    noises = [
        estimate_noise(np.where(np.isin(places, one), np.nan, squares), np.maximum(between, 0.0), chance=chance)
        for one in skipped
    ]
    explained = np.maximum(np.einsum("lb,...bc,lc->...l", weights, covariance, weights), 0.0)
    found: Floats = np.sqrt(explained + np.stack(noises, axis=-1) * (weights**2).sum(axis=1))
    return found


def list_contrasts(last: int) -> tuple[Floats, Integers]:
    """The weights of each look's builds, reference less window, shape (looks, last + 1), and the builds of its window,
    shape (looks,)."""
    rows, windows = list[Floats](), list[int]()
    for window in (2**power for power in range(last.bit_length())):
        for reference in sorted({1, last + 1 - window}):
            row = np.zeros(last + 1)
            row[:reference] = 1 / reference
            row[last + 1 - window :] = -1 / window
            rows.append(row)
            windows.append(window)
    return np.stack(rows), np.array(windows)


def measure_noise(builds: Builds) -> float:
    """The standard deviation between builds that the items do not explain, in points of the scale."""
    squares = np.diff(builds.means) ** 2
    own = np.diagonal(builds.covariance)
    between = own[1:] + own[:-1] - 2 * np.diagonal(builds.covariance, offset=1)
    return sqrt(float(estimate_noise(squares, np.maximum(between, 0.0))))

"""What the data say of a rule on the mean: at its minimum, below it, or they cannot tell.

A scale has ends, so that what is rare may not have occurred yet: ten threes are what a mean of 3.1 gives one time in
three, if one rating in ten is a four. The t-interval takes that as impossible. It is therefore made with a few values
added at the end of the scale that speaks against the finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from scipy import stats

from app.analysis.differences import DECIMALS, POWER
from app.analysis.gate_rules import Finding, lack
from app.analysis.observations import Floats
from app.analysis.statistics import count


@dataclass(frozen=True)
class Minimum:
    """A least mean that is asked for. `scale` holds the lowest and highest value that an item can have.

    `alpha` is this rule's own, two-sided; `shortfall` is that below the minimum which the data must be able to show.
    `best` is the value that distances are measured from, where they are what counts; `ratings` their ratings' mean.
    """

    values: Floats
    least: float
    scale: tuple[float, float]
    alpha: float
    shortfall: float
    best: float | None = None
    ratings: float | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.round(self.values.mean(), DECIMALS))

    @property
    def added(self) -> int:
        """How many values are added: one, and more where alpha is small, since a skewed mean nears the normal slowly.

        With z²/4 of them the interval covers what is rare (Poisson) at every alpha from 0.2 to 0.0008.
        """
        z = NormalDist().inv_cdf(1 - self.alpha / 2)
        return max(1, ceil(z * z / 4))

    @property
    def quantile(self) -> float:
        """Of t, with the values added."""
        return float(stats.t.ppf(1 - self.alpha / 2, self.n + self.added - 1))

    def bound(self, end: float) -> float:
        """The end of the interval towards this end of the scale.

        At least what a share of such values would make of the mean that n values miss altogether with chance alpha.
        """
        widened = np.append(self.values, np.full(self.added, end))
        side = 1 if end > self.mean else -1
        reached = float(widened.mean()) + side * self.quantile * find_error(widened)
        unseen = self.mean + (1 - self.alpha ** (1 / self.n)) * (end - self.mean)
        low, high = self.limits
        found = max(reached, unseen) if side > 0 else min(reached, unseen)
        return float(np.clip(found, low, high))

    @property
    def limits(self) -> tuple[float, float]:
        """The scale; a blend may lie beyond it."""
        return min(self.scale[0], float(self.values.min())), max(self.scale[1], float(self.values.max()))

    def find_needed(self, shortfall: float) -> int:
        """How many values show a shortfall of so much with 80 % power, by the spread of these with those added.

        The values added at the top lift the mean, so that n D = (t + z) s √(n + m) + m (top − least) must hold.
        """
        spread = max(find_error(np.append(self.values, np.full(self.added, end))) for end in self.limits)
        spread *= sqrt(self.n + self.added)
        slope = (self.quantile + NormalDist().inv_cdf(POWER)) * spread / shortfall
        lifted = self.added * (1 + (self.limits[1] - self.least) / shortfall)
        return ceil(((slope + sqrt(slope**2 + 4 * lifted)) / 2) ** 2 - self.added)


def find_error(values: Floats) -> float:
    """s/√n."""
    return float(values.std(ddof=1)) / sqrt(len(values))


def judge_minimum(asked: Minimum) -> Finding:
    """Whether the mean reaches the minimum: it fails, and it passes, only where that is shown."""
    if not asked.n:
        return Finding("no-values", "inconclusive", "there are no values")
    figures = tell_mean(asked)
    lowest, highest = (asked.bound(end) for end in asked.limits)
    if asked.mean < round(asked.least, DECIMALS):
        told = f"{figures}; {tell_interval(asked, 'upper')} reaches {highest:.3f}"
        if highest < asked.least:
            return Finding("below-minimum", "fail", told)
        needed = asked.find_needed(asked.least - asked.mean)
        return lack(f"{told}: about {count(needed, 'item')} would show so small a shortfall")
    if lowest >= asked.least:
        return Finding("held", "pass", f"{figures}; {tell_interval(asked, 'lower')} ends at {lowest:.3f}")
    needed, aim = asked.find_needed(asked.shortfall), f"a shortfall of {asked.shortfall:g}"
    if needed <= asked.n:
        return Finding("held", "pass", f"{figures}; {aim} would have been seen with 80 % power")
    return lack(f"{figures}, but {aim} need not have been seen: about {count(needed, 'item')} would do")


def tell_mean(asked: Minimum) -> str:
    """The mean, of what, and what it should be."""
    of = ""
    if asked.best is not None and asked.ratings is not None:
        of = f" of minus the distance from {asked.best:g}, with a mean rating of {asked.ratings:.3f},"
    return f"the mean{of} is {asked.mean:.3f} ({count(asked.n, 'item')}), at least {asked.least:g} is asked for"


def tell_interval(asked: Minimum, end: str) -> str:
    """Which interval this is."""
    level = f"{100 * (1 - asked.alpha):.4g} %"
    return f"its {level} interval, with {count(asked.added, 'value')} added at the scale's {end} end,"

"""What the data say of a rule on the mean: at its minimum, below it, or they cannot tell.

A scale has ends, so that what is rare may not have occurred yet: ten threes are what a mean of 3.1 gives one time in
three, if one rating in ten is a four. The t-interval takes that as impossible. It is therefore made with a few values
added at the end of the scale that speaks against the finding. Where values are of dialogues, dialogues are what varies,
and whole dialogues are what is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from app.analysis.differences import DECIMALS, reach
from app.analysis.estimates import Clustered, add_up, describe_clusters, find_quantile
from app.analysis.gate_rules import Finding, lack
from app.analysis.observations import Floats, Integers
from app.analysis.statistics import count


@dataclass(frozen=True)
class Minimum:
    """A least mean that is asked for. `scale` holds the lowest and highest value that an item can have.

    `alpha` is this rule's own, two-sided; `shortfall` is that below the minimum which the data must be able to show.
    `best` is the value that distances are measured from, where they are what counts; `ratings` their ratings' mean.
    `clusters`, of the shape of `values`, number their dialogues; None where each value stands alone.
    """

    values: Floats
    least: float
    scale: tuple[float, float]
    alpha: float
    shortfall: float
    best: float | None = None
    ratings: float | None = None
    clusters: Integers | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.round(self.values.mean(), DECIMALS))

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """Sums and numbers of the values by dialogue, shapes (units,)."""
        return add_up(self.values, np.arange(self.n) if self.clusters is None else self.clusters)

    @property
    def units(self) -> int:
        """How many dialogues the values are of, each that stands alone counting as one."""
        return len(self.sums[0])

    @property
    def turns(self) -> float:
        """Values to a dialogue, on average."""
        return self.n / self.units

    @property
    def added(self) -> int:
        """How many dialogues are added: one, and more where alpha is small: a skewed mean nears the normal slowly.

        With z²/4 of them the interval covers what is rare (Poisson) at every alpha from 0.2 to 0.0008.
        """
        z = NormalDist().inv_cdf(1 - self.alpha / 2)
        return max(1, ceil(z * z / 4))

    def widen(self, end: float) -> Clustered:
        """The mean with dialogues of the usual length added, of which each value is this end of the scale."""
        sums, counts = self.sums
        lengths = np.full(self.added, self.turns)
        return describe_clusters(np.append(sums, end * lengths), np.append(counts, lengths))

    def bound(self, end: float) -> float:
        """The end of the interval towards this end of the scale.

        At least what a share of such dialogues would make of the mean that so many miss altogether with chance alpha.
        """
        widened = self.widen(end)
        side = 1 if end > self.mean else -1
        reached = widened.mean + side * find_quantile(widened.freedom, self.alpha) * widened.error
        unseen = self.mean + (1 - self.alpha ** (1 / self.units)) * (end - self.mean)
        low, high = self.limits
        found = max(reached, unseen) if side > 0 else min(reached, unseen)
        return float(np.clip(found, low, high))

    @property
    def limits(self) -> tuple[float, float]:
        """The scale; a blend may lie beyond it."""
        return min(self.scale[0], float(self.values.min())), max(self.scale[1], float(self.values.max()))

    def find_needed(self, shortfall: float) -> int:
        """How many values show a shortfall of so much with 80 % power, by the spread of these with those added.

        The dialogues added at the top lift the mean, so that n D = (t + t') s √(n + m) + m (top − least) must hold of n
        dialogues and m added, where t' is the quantile for the power.
        """
        widened = max((self.widen(end) for end in self.limits), key=lambda found: found.error)
        slope = reach(self.alpha, widened.freedom) * widened.error * sqrt(self.units + self.added) / shortfall
        lifted = self.added * (1 + (self.limits[1] - self.least) / shortfall)
        return ceil((((slope + sqrt(slope**2 + 4 * lifted)) / 2) ** 2 - self.added) * self.turns)


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
        return lack(f"{told}: about {tell_items(asked, needed)} would show so small a shortfall")
    if lowest >= asked.least:
        return Finding("held", "pass", f"{figures}; {tell_interval(asked, 'lower')} ends at {lowest:.3f}")
    needed, aim = asked.find_needed(asked.shortfall), f"a shortfall of {asked.shortfall:g}"
    if needed <= asked.n:
        return Finding("held", "pass", f"{figures}; {aim} would have been seen with 80 % power")
    return lack(f"{figures}, but {aim} need not have been seen: about {tell_items(asked, needed)} would do")


def tell_items(asked: Minimum, items: int) -> str:
    """So many items, and in how many dialogues where several share one."""
    if asked.units == asked.n:
        return count(items, "item")
    return f"{count(items, 'item')} in {count(ceil(items / asked.turns - 1e-9), 'dialogue')}"


def tell_mean(asked: Minimum) -> str:
    """The mean, of what, and what it should be."""
    of = ""
    if asked.best is not None and asked.ratings is not None:
        of = f" of minus the distance from {asked.best:g}, with a mean rating of {asked.ratings:.3f},"
    return f"the mean{of} is {asked.mean:.3f} ({tell_items(asked, asked.n)}), at least {asked.least:g} is asked for"


def tell_interval(asked: Minimum, end: str) -> str:
    """Which interval this is."""
    level = f"{100 * (1 - asked.alpha):.4g} %"
    added = count(asked.added, "dialogue" if asked.units < asked.n else "value")
    return f"its {level} interval, with {added} added at the scale's {end} end,"

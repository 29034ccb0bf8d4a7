"""What sign flips and permutations cannot see in few clusters: skewness, and changes that have not occurred yet.

Flips of signs take the changes for symmetric. If nine dialogues in ten fall a little and one in ten rises by far, the
mean stays as it is, and yet all of ten dialogues fall in a third of all samples: the flips give p = 0.002. Two checks
give a p of their own, and the largest p counts.

- A skewed sample: the t statistic is corrected by the sample's third moment (Hall 1992), where that matters.
- A sample that hardly varies: of n dialogues that all changed by d, others that change by r the other way may be
  missing. If the true mean change is 0, n such dialogues miss them with a probability of at most (r / (r + d))^n. What
  r can be, the scale says. Where dialogues vary enough that one of them hardly moves the mean, their spread tells.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from saiten_server.stats.observations import Floats

SKEWED = 0.2
"""Third moment of a mean, in standard errors, below which the t test's error rate moves by less than 0.02."""

BEYOND = 5.0
"""Standard errors from which a mean change is not put down to skewness that the sample shows: with one cluster that is
far from n others, this takes events that six are expected of."""

FAR = 1.25
"""By how many standard errors one more cluster, at the scale's end, must move the mean to count."""


def find_skewed_p(mean: float, parts: Floats, freedom: float, *, noise: float = 0.0, beyond: float = BEYOND) -> float:
    """The two-sided p of a mean change by Hall's transformation of t; 0 where the sample is not skewed against the
    finding. `parts`, shape (clusters,), are what clusters contribute to the error (`Clustered`), and `noise` is a
    variance that comes from elsewhere. `beyond` is for levels that are smaller than a plain gate's."""
    error = float(np.sqrt(parts @ parts + noise))
    if not error:
        return 0.0
    skewness, t = float(np.sum((parts / error) ** 3)), mean / error
    if skewness * t >= 0 or abs(skewness) < SKEWED or abs(t) > beyond:
        return 0.0
    corrected = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    return min(1.0, 2 * float(stdtr(freedom, -corrected * np.sign(t))))


def find_unseen_p(mean: float, error: float, room: float, clusters: int) -> float:
    """The p of a mean change of so many clusters if those are missing that change the other way by `room`, at least 0;
    0 where the clusters' spread tells enough of others. It is one-sided, for only one side of the scale is far."""
    if not mean or is_told_by_spread(error, room, clusters):
        return 0.0
    return float((room / (room + abs(mean))) ** clusters)


def find_unseen_shift(mean: float, error: float, room: float, clusters: int, alpha: float) -> float:
    """How far clusters that change by `room`, and that so many miss altogether with a probability of alpha, would
    move the mean; 0 where the clusters' spread tells enough of others. It is where `find_unseen_p` is alpha."""
    if is_told_by_spread(error, room, clusters):
        return 0.0
    return (1 - float(alpha ** (1 / clusters))) * (room + abs(mean))


def is_told_by_spread(error: float, room: float, clusters: int) -> bool:
    """Whether one more cluster, which changes by `room`, would hardly move the mean."""
    return room <= FAR * error * clusters


def find_least_mean(level: float, error: float, room: float, clusters: int) -> float:
    """The mean change from which `find_unseen_p` is below the level."""
    if is_told_by_spread(error, room, clusters):
        return 0.0
    return room * float((1 / level) ** (1 / clusters) - 1)

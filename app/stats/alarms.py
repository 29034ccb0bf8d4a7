"""Has a live stream become worse than its reference period, however often one looks?

A conversation i has a value y, a size k (1 for a rating, its system turns for a rate per turn) and the inverse w of the
probability with which it was sampled. A slot is an hour of the day or a day of the week. In slot s the level is
sum(w y) / sum(w k) (Horvitz and Thompson), in the reference r_s and in the live stream since some day l_s, with the
variances v_s of both together; conversations are the units. The difference is the mean of l_s - r_s weighted by
1 / v_s, so that each slot is compared with itself and a season is no change; its variance v is 1 / sum(1 / v_s).

How well the difference is known (1 / v) only grows, and multiplied by it the difference is a Brownian motion in 1 / v,
of which the error of the reference is a part. With the side that is worse as positive and z = difference / sqrt(v), the
likelihood ratio of a change for the worse, averaged over half a normal distribution of standard deviation t, is

    e = 2 sqrt(1 - s) exp(s z^2 / 2) Phi(z sqrt(s)),    s = t^2 / (t^2 + v)

(Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021). While nothing became worse its mean is at most 1 at any
time. The variance is estimated, so this holds for large counts (Waudby-Smith et al. 2024, arXiv 2103.06476); one
conversation at the far end of the scale is added to it, for data that hardly vary. t is a quarter of a standard
deviation, about the change that is to be found.

A change may begin on any day, and what was good before must not hide it: a sequence e_d starts on each day
d = 0, 1, ... of the life, with the share 1 / ((d + 1) (d + 2)) of what there is to spend, and there is an alarm once

    sum(e_d / ((d + 1) (d + 2))) >= 1 / alpha,

which happens in a life without a change for the worse with a probability of at most alpha (Ville's inequality): days
next to each other speak for the same change, and their evidence is added where the union bound takes the best alone.

The interval that is shown is that of the day from which on the change is clearest, at its share of alpha to either
side. Robbins' two-sided mixture bounds it at all times together: a true difference leaves

    difference +- sqrt(v (1 + v / t^2) (log(1 + t^2 / v) + 2 log(1 / level)))

at any time with a probability of at most `level`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from saiten_server.stats.observations import Floats, Mask

AlarmState = Literal["ok", "alarm", "not-enough"]

SUMS = ("n", "wy", "wk", "wwyy", "wwyk", "wwkk")
"""What is added up by slot, in the order of the last axis; `wwyy` is sum((w y)^2), and so on."""

FEWEST_REFERENCE = 50
FEWEST_LIVE = 20
"""Conversations below which nothing is said, counted as what their weights are worth."""

SHRINKING = 20
"""As many conversations the reference's variance counts as in that of the live stream."""

MIXTURE = 0.25
"""The difference at which the bound is narrowest, in standard deviations."""


class Differences(NamedTuple):
    """The live streams' difference from the reference, its variance, t^2 and the conversations that it is of, each of
    shape (...); the variance is infinite where there is not enough."""

    difference: Floats
    variance: Floats
    mixture: Floats
    units: Floats

    @property
    def known(self) -> Mask:
        """Where there is enough, shape (...)."""
        return np.isfinite(self.variance)

    def radius(self, level: float | Floats) -> Floats:
        """The half width of the interval at this level, shape (...); infinite where there is not enough."""
        return np.where(self.known, find_radius(np.where(self.known, self.variance, 1.0), self.mixture, level), np.inf)

    def evidence(self, worse: Literal[-1, 1]) -> Floats:
        """log e of a change to that side, shape (...); minus infinity where there is not enough."""
        return np.where(self.known, find_evidence(worse * self.difference, self.variance, self.mixture), -np.inf)


@dataclass(frozen=True)
class StreamLook:
    """What one look at a measure found. `since` is the day, from 0, from which the difference with its interval is
    taken; None where there is not enough. `resolved` says that an alarm ended with this look."""

    state: AlarmState
    since: int | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    count: int = 0
    resolved: bool = False


class RaisedAlarm(NamedTuple):
    """An alarm that is on: the day on which it was raised, and the difference that it found."""

    day: int
    difference: float


def sum_conversations(values: Floats, sizes: Floats, weights: Floats) -> Floats:
    """The sums of conversations one by one, each argument of shape (...,), to (..., sums)."""
    y, k = weights * values, weights * sizes
    found: Floats = np.stack([np.ones_like(y), y, k, y * y, y * k, k * k], axis=-1)
    return found


def compare_stream(reference: Floats, live: Floats, *, width: float) -> Differences:
    """The difference of live streams from the reference, both of shape (..., slots, sums). `width` is the range of a
    value per size: 4 on a scale from 1 to 5, 1 for a share."""
    own, own_count = estimate_variance(reference, width)
    later, later_count = estimate_variance(live, width)
    shared = (SHRINKING * own + later_count * later) / (SHRINKING + later_count)
    r_mean, r_error = read_slots(reference)
    l_mean, l_error = read_slots(live)
    known = (r_error > 0) & (l_error > 0) & (reference[..., 0] > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(known, 1 / (own[..., None] * r_error + shared[..., None] * l_error), 0.0)
    information = precision.sum(axis=-1)
    compared = np.where(known[..., None], live, 0.0)
    enough = (own_count >= FEWEST_REFERENCE) & (count_worth(compared) >= FEWEST_LIVE) & (information > 0)
    information = np.where(enough, information, 1.0)
    difference = np.where(enough, (precision * np.where(known, l_mean - r_mean, 0.0)).sum(axis=-1) / information, 0.0)
    variance = np.where(enough, 1 / information, np.inf)
    mixture = np.broadcast_to(MIXTURE**2 * own, variance.shape)
    return Differences(difference, variance, mixture, compared[..., 0].sum(axis=-1))


def find_evidence(rise: Floats, variance: Floats, mixture: Floats) -> Floats:
    """log e of a rise by that much of an estimate with this variance; t^2 is `mixture`."""
    share = mixture / (mixture + variance)
    z = rise / np.sqrt(variance)
    found: Floats = np.log(2) + (np.log1p(-share) + share * z**2) / 2 + log_ndtr(z * np.sqrt(share))
    return found


def find_radius(variance: Floats, mixture: Floats, level: float | Floats) -> Floats:
    """The half width of the interval that holds at all times, where the estimate has this variance; t^2 is
    `mixture`."""
    ratio = mixture / variance
    found: Floats = np.sqrt(variance * (1 + 1 / ratio) * (np.log1p(ratio) - 2 * np.log(level)))
    return found


def read_slots(sums: Floats) -> tuple[Floats, Floats]:
    """The level of each slot and its variance in units of one conversation's, from (..., slots, sums) to (..., slots);
    0 where a slot has none."""
    total = sums[..., 2]
    there = total > 0
    divisor = np.where(there, total, 1.0)
    return np.where(there, sums[..., 1] / divisor, 0.0), np.where(there, sums[..., 5] / divisor**2, 0.0)


def count_worth(sums: Floats) -> Floats:
    """How many conversations of one weight and size these are worth (Kish 1965), from (..., slots, sums) to (...)."""
    total, scale = sums[..., 2].sum(axis=-1), sums[..., 5].sum(axis=-1)
    found: Floats = np.where(scale > 0, total**2 / np.where(scale > 0, scale, 1.0), 0.0)
    return found


def estimate_variance(sums: Floats, width: float) -> tuple[Floats, Floats]:
    """The variance of one conversation of weight and size 1 around the level of its slot, and what the conversations
    are worth, from (..., slots, sums) to (...)."""
    mean, _ = read_slots(sums)
    squares = sums[..., 3] - 2 * mean * sums[..., 4] + mean**2 * sums[..., 5]
    count, scale = count_worth(sums), sums[..., 5].sum(axis=-1)
    freedom = np.maximum(count - (sums[..., 0] > 0).sum(axis=-1), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(scale > 0, np.maximum(squares.sum(axis=-1), 0.0) / scale * count / freedom, 0.0)
    return (each * count + width**2) / (count + 1), count


def share_of_day(day: int) -> float:
    """The share of the error rate of a whole life that the sequence which starts on this day, from 0, may spend."""
    return 1 / ((day + 1) * (day + 2))


def look_at_stream(
    reference: Floats,
    live: Floats,
    *,
    first: int,
    alpha: float,
    width: float,
    worse: Literal[-1, 1],
    raised: RaisedAlarm | None = None,
) -> StreamLook:
    """What the stream shows now. `reference` has the shape (slots, sums), `live` (days, slots, sums), its first day
    being the day `first` of the life: before it nothing is looked at, such as what an alarm that was resolved was
    about. `worse` is the sign of a change for the worse; `raised` is the alarm that is on.

    An alarm is resolved once the days after it show, at `alpha`, a difference of less than half of the one that was
    found: that is what a repair has to reach, and what chance reaches rarely.
    """
    days = live.shape[0]
    since = np.cumsum(live[::-1], axis=0)[::-1]
    shares = np.array([share_of_day(first + day) for day in range(days)])
    found = compare_stream(reference[None], since, width=width)
    if not found.known.any():
        return StreamLook("alarm" if raised else "not-enough")
    if raised is not None:
        after = max(0, raised.day + 1 - first)
        lasting = compare_stream(reference[None], since[after:], width=width)
        radius = lasting.radius(alpha)
        mended = worse * lasting.difference + radius < worse * raised.difference / 2
        if mended.any():
            return tell_look(lasting, radius, int(np.argmax(mended)), "ok", first + after, resolved=True)
    evidence = found.evidence(worse)
    crossed = np.logaddexp.reduce(evidence + np.log(shares)) >= -np.log(alpha)
    # Of the days from which on there is a change the one from which on it is clearest: since then it has lasted.
    place = int(np.argmax(evidence))
    return tell_look(found, found.radius(2 * alpha * shares), place, "alarm" if crossed or raised else "ok", first)


def tell_look(
    found: Differences, radius: Floats, place: int, state: AlarmState, first: int, *, resolved: bool = False
) -> StreamLook:
    """The finding of the sequence at this place."""
    difference, around = float(found.difference[place]), float(radius[place])
    interval = (difference - around, difference + around)
    return StreamLook(state, first + place, difference, interval, int(found.units[place]), resolved)

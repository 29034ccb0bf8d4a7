"""Faults over the turns of conversations: how often by turn, whether they grow, and how long a conversation stays
without one.

The survival curve is Kaplan and Meier's (1958) over the system's turns: the event is the first faulty turn, and a
conversation without one is censored at its end. Its pointwise interval is Greenwood's on the scale log(−log S)
(Kalbfleisch and Prentice, 1980), which never leaves 0 to 1. Conversations count as independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.resampling import IntervalEstimate, estimate_mean, estimate_rate

MOST_STEPS = 20
"""Ranges of turns that rates are given for."""

PERCENT = (0.0, 100.0)


class ConversationTurns(NamedTuple):
    """A conversation: how many turns the system has in it, at least 1, and which of them are faulty, counted from 0,
    ascending."""

    system_turns: int
    faulty: Sequence[int]


@dataclass(frozen=True)
class TurnRate:
    """The system's turns number `first` to `last`, from 1: how many there are, how many of them are faulty, and their
    rate per 100 with its 95 % interval, None where there is none."""

    first: int
    last: int
    turns: int
    faulty: int
    rate: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class SurvivalStep:
    """After the system's turn number `turn`, from 1: the share of conversations without a faulty turn so far, with its
    pointwise 95 % interval; `faults` of the `at_risk` conversations that came so far without one had theirs there.
    There is no interval before the first fault, nor where every conversation has one."""

    turn: int
    at_risk: int
    faults: int
    share: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class TurnReading:
    """What the turns of `conversations` conversations say. `change` is the rate in the second half of a conversation
    minus that in its first half, per 100 system turns, as the mean over conversations of at least two system turns.
    `median` is the first turn after which at most half are without a fault; None where more than half stay so."""

    conversations: int
    faultless: int
    rates: tuple[TurnRate, ...]
    survival: tuple[SurvivalStep, ...]
    change: IntervalEstimate

    @property
    def median(self) -> int | None:
        return next((step.turn for step in self.survival if step.share <= 0.5), None)


def read_turns(talks: Sequence[ConversationTurns]) -> TurnReading:
    """The figures of these conversations. Cost: linear in their turns."""
    lengths = np.array([talk.system_turns for talk in talks], np.int64)
    first = np.array([talk.faulty[0] + 1 if talk.faulty else 0 for talk in talks], np.int64)
    halves = [find_change(talk) for talk in talks if talk.system_turns > 1]
    changes, ones = np.array(halves, np.float64), np.ones(len(halves))
    return TurnReading(
        conversations=len(talks),
        faultless=int((first == 0).sum()),
        rates=tuple(rate_turns(talks, lengths)),
        survival=tuple(estimate_survival(np.where(first > 0, first, lengths), first > 0)),
        change=estimate_mean(changes, ones, bounds=(-PERCENT[1], PERCENT[1])),
    )


def find_change(talk: ConversationTurns) -> float:
    """The rate in the second half minus that in the first, per 100 turns; a turn in the middle is in neither."""
    half = talk.system_turns // 2
    early = sum(turn < half for turn in talk.faulty)
    late = sum(turn >= talk.system_turns - half for turn in talk.faulty)
    return PERCENT[1] * (late - early) / half


def rate_turns(talks: Sequence[ConversationTurns], lengths: Integers) -> list[TurnRate]:
    """The rates by turn, or by ranges of equally many turns where there are more than `MOST_STEPS`."""
    longest = int(lengths.max(initial=0))
    width = -(-longest // MOST_STEPS) or 1
    ranges = -(-longest // width)
    faulty = np.zeros((ranges, len(talks)))
    for place, talk in enumerate(talks):
        for turn in talk.faulty:
            faulty[turn // width, place] += 1
    found = []
    for number in range(ranges):
        counts: Floats = np.clip(lengths - number * width, 0, width).astype(np.float64)
        estimate = estimate_rate(PERCENT[1] * faulty[number], counts, bounds=PERCENT)
        turns, wrong = int(counts.sum()), int(faulty[number].sum())
        start, end = number * width + 1, min((number + 1) * width, longest)
        found.append(TurnRate(start, end, turns, wrong, PERCENT[1] * wrong / turns, estimate.interval))
    return found


def estimate_survival(ends: Integers, failed: np.typing.NDArray[np.bool_], alpha: float = 0.05) -> list[SurvivalStep]:
    """The curve from the turn at which each conversation failed, or else ended, both shape (conversations,), from 1.
    A step per turn, so that a page can read it as a table."""
    quantile = NormalDist().inv_cdf(1 - alpha / 2)
    longest = int(ends.max(initial=0))
    left = np.bincount(ends, minlength=longest + 1)
    faults = np.bincount(ends[failed], minlength=longest + 1)
    at_risk = len(ends) - np.cumsum(left) + left
    # In fractions: 4/5 · 3/4 · 5/6 is a half, and in binary a little more.
    steps, share, variance = [], Fraction(1), 0.0
    for turn in range(1, longest + 1):
        n, d = int(at_risk[turn]), int(faults[turn])
        share *= Fraction(n - d, n)
        variance += d / (n * (n - d)) if n > d else 0.0
        steps.append(SurvivalStep(turn, n, d, float(share), find_survival_interval(float(share), variance, quantile)))
    return steps


def find_survival_interval(share: float, variance: float, quantile: float) -> tuple[float, float] | None:
    """S to the power of exp(± z · se / log S), from Greenwood's sum; None where S is 0 or 1."""
    if not 0.0 < share < 1.0:
        return None
    margin = quantile * sqrt(variance) / abs(log(share))
    return share ** exp(margin), share ** exp(-margin)

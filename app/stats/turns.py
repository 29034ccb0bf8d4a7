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

from saiten_server.stats.observations import Floats, Integers, weigh_inversely
from saiten_server.stats.resampling import IntervalEstimate, estimate_mean, estimate_rate

MOST_STEPS = 20
"""Ranges of turns that rates are given for."""

PERCENT = (0.0, 100.0)


class ConversationTurns(NamedTuple):
    """A conversation: how many turns the system has in it, at least 1, and which of them are faulty, counted from 0,
    ascending. `probability` is that with which it was sampled."""

    system_turns: int
    faulty: Sequence[int]
    probability: float = 1.0


@dataclass(frozen=True)
class TurnRate:
    """The system's turns number `first` to `last`, from 1: how many there are, how many of them are faulty, and their
    rate per 100, by weight, with its 95% interval, None where there is none."""

    first: int
    last: int
    turns: int
    faulty: int
    rate: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class SurvivalStep:
    """After the system's turn number `turn`, from 1: the share, by weight, of conversations without a faulty turn so
    far, with its pointwise 95% interval; `faults` of the `at_risk` conversations that came so far without one had
    theirs there. There is no interval before the first fault, nor where every conversation has one."""

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
    """The figures of these conversations, each weighted by the inverse of its probability; counts are not. Cost: linear
    in their turns."""
    lengths = np.array([talk.system_turns for talk in talks], np.int64)
    first = np.array([talk.faulty[0] + 1 if talk.faulty else 0 for talk in talks], np.int64)
    weights = weigh_inversely(np.array([talk.probability for talk in talks], np.float64))
    shares = np.ones(len(talks)) if weights is None else weights
    halved = lengths > 1
    changes = np.array([find_change(talk) for talk in talks if talk.system_turns > 1], np.float64)
    ends, failed = np.where(first > 0, first, lengths), first > 0
    return TurnReading(
        conversations=len(talks),
        faultless=int((first == 0).sum()),
        rates=tuple(rate_turns(talks, lengths, shares)),
        survival=tuple(estimate_survival(ends, failed) if weights is None else weigh_survival(ends, failed, weights)),
        change=estimate_mean(shares[halved] * changes, shares[halved], bounds=(-PERCENT[1], PERCENT[1])),
    )


def find_change(talk: ConversationTurns) -> float:
    """The rate in the second half minus that in the first, per 100 turns; a turn in the middle is in neither."""
    half = talk.system_turns // 2
    early = sum(turn < half for turn in talk.faulty)
    late = sum(turn >= talk.system_turns - half for turn in talk.faulty)
    return PERCENT[1] * (late - early) / half


def rate_turns(talks: Sequence[ConversationTurns], lengths: Integers, shares: Floats) -> list[TurnRate]:
    """The rates by turn, or by ranges of equally many turns where there are more than `MOST_STEPS`. `shares`, shape
    (conversations,), are what conversations count for."""
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
        estimate = estimate_rate(
            PERCENT[1] * shares * faulty[number], shares * counts, bounds=PERCENT, weighted=bool(np.ptp(shares))
        )
        turns, wrong = int(counts.sum()), int(faulty[number].sum())
        start, end = number * width + 1, min((number + 1) * width, longest)
        rate = PERCENT[1] * float(shares @ faulty[number]) / float(shares @ counts)
        found.append(TurnRate(start, end, turns, wrong, rate, estimate.interval))
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


def weigh_survival(
    ends: Integers, failed: np.typing.NDArray[np.bool_], weights: Floats, alpha: float = 0.05
) -> list[SurvivalStep]:
    """As `estimate_survival`, of conversations with weights, shape (conversations,). The variance of log S is the sum
    of the squares of what each conversation moves it by (Williams 1995), with k / (k − 1) for the k conversations of
    one weight that the weights are worth (Kish); with equal weights and without that factor it is Greenwood's sum."""
    quantile = NormalDist().inv_cdf(1 - alpha / 2)
    size = int(ends.max(initial=0)) + 1

    def add(values: Floats, rows: np.typing.NDArray[np.bool_]) -> Floats:
        found: Floats = np.bincount(ends[rows], weights=values[rows], minlength=size).astype(np.float64)
        return found

    everyone = np.ones(len(ends), dtype=np.bool_)
    ones, squares = np.ones(len(ends)), weights**2
    left, lost, faults = add(ones, everyone), add(weights, everyone), add(ones, failed)
    fell, moved, ended = add(weights, failed), add(squares, failed), add(squares, ~failed)
    worth = weights.sum() ** 2 / squares.sum()
    widening = worth / (worth - 1) if worth > 1 else np.inf
    n, risk, rest = float(len(ends)), float(weights.sum()), float(squares.sum())
    steps, share, reached, settled = [], 1.0, 0.0, 0.0
    for turn in range(1, size):
        n, risk = n - left[turn - 1], risk - lost[turn - 1]
        hazard = min(1.0, fell[turn] / risk) if faults[turn] < n else 1.0
        before, share = reached, share * (1 - hazard)
        reached += hazard / (risk * (1 - hazard)) if hazard < 1 else 0.0
        # Who has ended moves log S by what it did until then, everyone else by what is reached now.
        settled += moved[turn] * (before - 1 / risk) ** 2 + ended[turn] * reached**2
        rest = max(0.0, rest - moved[turn] - ended[turn])
        variance = widening * (settled + rest * reached**2)
        interval = find_survival_interval(share, float(variance), quantile) if np.isfinite(variance) else None
        steps.append(SurvivalStep(turn, int(n), int(faults[turn]), share, interval))
    return steps


def find_survival_interval(share: float, variance: float, quantile: float) -> tuple[float, float] | None:
    """S to the power of exp(± z · se / log S), from Greenwood's sum; None where S is 0 or 1."""
    if not 0.0 < share < 1.0:
        return None
    margin = quantile * sqrt(variance) / abs(log(share))
    return share ** exp(margin), share ** exp(-margin)

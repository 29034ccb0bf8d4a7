"""Which pairs of systems to judge next, and when their order is known well enough to stop.

Stopping is group-sequential. Round k may spend 3 alpha / ((k + 2) (k + 3)) of the error rate, which adds up to alpha
over all rounds however many there are (`sequences.spend`). In each round all pairs of systems are tested together by
Holm's method at what the round may spend, and a pair that was resolved once stays resolved. So all pairs that are ever
resolved are right with probability 1 − alpha, whenever one stops, and however pairs were chosen in between. Rounds that
grow by half of what was judged before lose little of the power of a single look.

The next pairs are those that most reduce the uncertainty of what is not resolved: a look at systems i and j adds the
information h = p (1 − p) to their difference, and so takes h (c(kl)' V c(ij))² / (1 + h c(ij)' V c(ij)) from the
variance of the difference of k and l (Sherman & Morrison 1950). Each unresolved difference counts by the inverse of its
square plus its variance, so that those count most that still may be close. Items are taken in one given order, never by
what was answered to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.rank_sets import rank_systems
from saiten_server.stats.sequences import spend
from saiten_server.stats.shown_pairs import TIE, ShownPairs
from saiten_server.stats.strengths import estimate_strengths

SystemNumbers = tuple[int, int]
"""Two systems; of a resolved pair the better one first."""

CHOICE_PENALTY = 0.5
"""The precision of the prior of strengths for choosing: it gives systems strengths that were never shown yet. No test
uses it."""

STEPS = 48
"""Parts of a round, after each of which the expected uncertainty is computed again."""

FIRST_ITEMS = 10
"""Items of each pair in the first round: two more than the fewest clusters that a test takes."""

GROWTH = 0.5


@dataclass(frozen=True)
class PairStanding:
    """What is known after a round, from 1: `resolved` of all rounds so far, and the pairs that are not."""

    round: int
    resolved: frozenset[SystemNumbers]
    unresolved: tuple[SystemNumbers, ...]


def take_stock(
    pairs: ShownPairs, *, alpha: float = 0.05, number: int, before: frozenset[SystemNumbers] = frozenset()
) -> PairStanding:
    """Which pairs of systems are resolved after the round of this number, with those of the rounds `before`. Rounds are
    counted from 1, each once: a test that is not counted is not paid for."""
    found = set(before)
    if pairs.n:
        sets = rank_systems(pairs, alpha=spend(alpha, number))
        for better, worse in np.argwhere(sets.better).tolist():
            if (worse, better) not in before:
                found.add((better, worse))
    size = len(pairs.systems)
    unresolved = tuple(
        (i, j) for i in range(size) for j in range(i + 1, size) if (i, j) not in found and (j, i) not in found
    )
    return PairStanding(number, frozenset(found), unresolved)


def plan_round(systems: int, judged: int) -> int:
    """How many pairs of responses to judge in the next round, after so many."""
    if not judged:
        return FIRST_ITEMS * systems * (systems - 1) // 2
    return max(systems, round(GROWTH * judged))


def allocate(
    pairs: ShownPairs,
    unresolved: tuple[SystemNumbers, ...],
    available: Mapping[SystemNumbers, int],
    *,
    size: int,
    looks: int = 2,
) -> dict[SystemNumbers, int]:
    """How many items of each pair of systems (the lower number first) to judge next, `size` in all where there are so
    many `available`. Each item is shown in so many `looks`."""
    left = {pair: count for pair, count in available.items() if count > 0}
    size = min(size, sum(left.values()))
    chosen = dict.fromkeys(left, 0)
    if not size or not unresolved:
        return {}
    contrasts = list_contrasts([*left], len(pairs.systems))
    wanted = list_contrasts([*unresolved], len(pairs.systems))
    strengths, information = expect(pairs)
    gap = wanted @ strengths
    odds = contrasts @ strengths
    gain = looks / (2 + 2 * np.cosh(np.clip(odds, -20, 20)))
    keys, room = [*left], np.array([*left.values()])
    step = max(1, size // STEPS)
    while size:
        covariance = np.linalg.inv(information)
        crossed = wanted @ covariance @ contrasts.T
        own = np.einsum("ps,st,pt->p", contrasts, covariance, contrasts)
        variance = np.einsum("ps,st,pt->p", wanted, covariance, wanted)
        value = (1 / (gap**2 + variance)) @ crossed**2 * gain / (1 + gain * own)
        best = int(np.argmax(np.where(room > 0, value, -1.0)))
        taken = min(step, size, int(room[best]))
        chosen[keys[best]] += taken
        room[best] -= taken
        size -= taken
        information = information + taken * gain[best] * np.outer(contrasts[best], contrasts[best])
    return {pair: count for pair, count in chosen.items() if count}


def expect(pairs: ShownPairs) -> tuple[Floats, Floats]:
    """Strengths with a weak prior, shape (systems,), and their information, shape (systems, systems)."""
    size = len(pairs.systems)
    prior = CHOICE_PENALTY * np.eye(size)
    if not np.any(pairs.choice != TIE):
        return np.zeros(size), prior
    found = estimate_strengths(pairs.without_covariates(), penalty=CHOICE_PENALTY)
    return found.values, found.information + prior


def list_contrasts(pairs: list[SystemNumbers], systems: int) -> Floats:
    """A row of 1 and −1 for each pair, shape (pairs, systems)."""
    found = np.zeros((len(pairs), systems))
    rows: Integers = np.arange(len(pairs))
    found[rows, [i for i, _ in pairs]] = 1.0
    found[rows, [j for _, j in pairs]] = -1.0
    return found

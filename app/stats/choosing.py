"""Which items people should rate: the probability of each to be drawn, and a draw of fixed size that keeps them.

An estimate that weights ratings by the inverse of these probabilities has the least error where they are proportional
to the spread of the judge's residual (Neyman 1934; for a judge corrected by people: Zrnic & Candès 2024, arXiv
2403.03208). That spread is not known before people rate, and stands in for it what the results show: `combine_spreads`.
It may say nothing, so that every item keeps a floor, the least at which a signal that says nothing would cost at most
MOST_COST times the ratings of a uniform draw.

The draw is systematic, in a random order (Hartley & Rao 1962): one pass over any number of items, of fixed size, with
exactly the stated probabilities. Items of one dialogue stand together, so that a dialogue gives no more than its share
and ratings spread over as many dialogues as possible; *items* are drawn and not dialogues, since a second item of the
same dialogue tells less than one of another. Errors are by dialogue (`corrected`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from saiten_server.stats.observations import Floats, Integers

MOST_COST = 4 / 3
LEAST_FLOOR = 0.1
"""Share of the mean probability that every item has at least."""

CERTAIN = 1 - 1e-12
CHOOSING_STEPS = 40

Name = TypeVar("Name", bound=str)


def combine_spreads(signals: Mapping[Name, Floats]) -> tuple[Floats | None, tuple[Name, ...]]:
    """The expected residual of each item, shape (items,), and the signals that it is made of: √ of the mean over
    aspects of the sum of the squared signals, each a standard deviation as a share of the aspect's scale, of shape
    (items, aspects) with NaN for none. An item without a signal counts as the average one. None where no signal tells
    items apart."""
    variances: Floats | None = None
    used: list[Name] = []
    for name, spreads in signals.items():
        squares = np.square(spreads)
        held = ~np.isnan(squares)
        counts = held.sum(axis=0)
        if not counts.any():
            continue
        means = np.where(held, squares, 0.0).sum(axis=0) / np.maximum(counts, 1)
        filled = np.where(held, squares, means)
        if not np.ptp(filled, axis=0).any():
            continue
        used.append(name)
        variances = filled if variances is None else variances + filled
    if variances is None:
        return None, ()
    return np.sqrt(variances.mean(axis=1)), tuple(used)


def find_probabilities(residuals: Floats, size: int) -> Floats:
    """The probability of each item, shape (items,), to be among `size`, at most as many as there are: in proportion to
    floor + (1 − floor) · residual / mean residual, and at most 1. `residuals` are ≥ 0, and not all 0."""
    shares = residuals / residuals.mean()
    low, high = LEAST_FLOOR, 1.0
    if count_cost(mix(shares, low)) > MOST_COST:
        for _ in range(CHOOSING_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if count_cost(mix(shares, middle)) > MOST_COST else (low, middle)
        low = high
    return cap(mix(shares, low), size)


def mix(shares: Floats, floor: float) -> Floats:
    """Shares of the mean, each with the floor."""
    return floor + (1 - floor) * shares


def count_cost(shares: Floats) -> float:
    """How many times the ratings of a uniform draw these shares of the mean cost if residuals have nothing to do with
    them."""
    return float(np.mean(1 / shares))


def cap(shares: Floats, size: int) -> Floats:
    """Probabilities in proportion to the shares, with the sum `size`; what would have more than 1 has 1."""
    found = np.ones(len(shares))
    rest = np.arange(len(shares))
    if size >= len(shares):
        return found
    while len(rest):
        left = size - (len(shares) - len(rest))
        own = left * shares[rest] / shares[rest].sum()
        if (own < CERTAIN).all():
            found[rest] = own
            break
        rest = rest[own < CERTAIN]
    return found


def draw_items(probabilities: Floats, clusters: Integers, generator: np.random.Generator) -> Integers:
    """The items that are drawn, in random order: as many as the sum of the probabilities, a whole number, says.
    `clusters`, shape (items,), numbers the dialogues."""
    certain = np.flatnonzero(probabilities >= CERTAIN)
    rest = np.flatnonzero(probabilities < CERTAIN)
    size = round(float(probabilities[rest].sum()))
    if size:
        rest = rest[generator.permutation(len(rest))]
        places = generator.permutation(int(clusters.max()) + 1)
        rest = rest[np.argsort(places[clusters[rest]], kind="stable")]
        ends = np.cumsum(probabilities[rest])
        ends *= size / ends[-1]
        at = np.searchsorted(ends, generator.random() + np.arange(size), side="right")
        certain = np.concatenate([certain, rest[np.minimum(at, len(rest) - 1)]])
    return generator.permutation(certain)


def stratify(strata: Integers, size: int) -> Floats:
    """The probability of each item, shape (items,), if each stratum gives ratings in proportion to the square root of
    its items (power allocation: Bankier 1988), at least one and at most all: rare levels are seen more often than by
    chance, and frequent ones still have most. `strata` are numbers ≥ 0."""
    names, place, counts = np.unique(strata, return_inverse=True, return_counts=True)
    size = min(size, len(strata))
    if size < len(names):
        return np.full(len(strata), size / len(strata))
    wish = cap_counts(np.sqrt(counts.astype(np.float64)), counts, size)
    return (wish / counts)[place]


def cap_counts(shares: Floats, counts: Integers, size: int) -> Integers:
    """Whole numbers with the sum `size` in proportion to the shares, each at least 1 and at most its count, one rating
    at a time to the stratum that has the least of its share."""
    given = np.ones(len(counts), dtype=np.int64)
    for _ in range(size - len(counts)):
        given[np.argmin(np.where(given < counts, (given + 0.5) / shares, np.inf))] += 1
    return given


def weigh_items(probabilities: Floats, rounds: Integers, items: Integers, size: int) -> Floats:
    """The weight of each of `size` items among what people rated, shape (size,), 0 for what they did not: n entries,
    each an item that was rated in a round, with the probability with which that round drew it. Each round is an
    estimate by itself, whose weights have the sum of its items; an item of several rounds has the sum of its weights.
    So nothing need be known of a round about items that it did not draw."""
    inverse = 1 / probabilities
    numbers = np.unique(rounds, return_inverse=True)[1]
    sums, counts = np.bincount(numbers, inverse), np.bincount(numbers)
    found: Floats = np.bincount(items, inverse * (counts / sums)[numbers], size).astype(np.float64)
    return found

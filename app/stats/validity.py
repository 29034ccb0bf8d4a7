"""Whether a judge follows people: the figure that its badge rests on.

A judge that only tells a good system from a bad one says nothing of a response, so that responses are ranked within
their systems, and these ranks are correlated. One person's ratings show only that the judge agrees with this person:
items count that two named people or more rated.

Ratings come in day by day, and people look each time. So the interval holds at every number of items at once,
from `FEWEST_ITEMS` on (Robbins 1970): a sum of n normal values passes √n · √(a² + log(n / m)) at some n ≥ m with a
probability of 2 (1 − Φ(a) + a φ(a)). It holds for all aspects at once by Bonferroni's inequality.
"""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from saiten.core.messages import Message
from saiten_server.core.reliability import FEWEST_ITEMS
from saiten_server.core.reports import WithinSystems
from saiten_server.stats.agreement import NamedRatings, compare_raters, named_ratings
from saiten_server.stats.correlation_intervals import Estimate, estimate_within
from saiten_server.stats.observations import Floats, Integers, Mask, Observations, number_first, number_keys
from saiten_server.stats.statistics import FEWEST_CORRELATED, rank_within, settled_means

ALPHA = 0.05
ONE_RATER = Message("few-items-of-two-people", least=FEWEST_CORRELATED)
CONSTANT = Message("constant-within-systems")
TOO_FEW = Message("few-items-of-two-people", least=FEWEST_ITEMS)


def follow_people(observations: Observations, rating: str, scores: Floats, both: Mask, *, tests: int) -> WithinSystems:
    """Spearman's ρ within systems of the scores, by unit of shape (units,), and the rater means; of the units of the
    mask `both`, of shape (units,), that two named raters or more rated. `tests` aspects share the error of the
    intervals."""
    named = named_ratings(observations, rating, both)
    several = np.bincount(named.unit, minlength=observations.units) >= 2
    units = observations.unit_order[several[observations.unit_order]]
    kept = several[named.unit]
    named = NamedRatings(named.unit[kept], named.rater[kept], named.values[kept])
    undefined: dict[str, Message] = {}
    found = estimate_units(observations, rating, scores, units)
    interval: tuple[float, float] | Message = TOO_FEW
    if isinstance(found, Message):
        undefined["spearman"] = interval = found
    elif len(units) >= FEWEST_ITEMS:
        interval = found.interval(find_tail(len(units), tests))
    if isinstance(interval, Message):
        undefined["interval"] = interval
    agreement = compare_raters(rank_ratings(named, observations.unit_system))
    if agreement.reason is not None:
        undefined["agreement"] = agreement.reason
    return WithinSystems(
        n=len(units),
        systems=len(np.unique(observations.unit_system[units])),
        raters=len(np.unique(named.rater)),
        spearman=None if isinstance(found, Message) else found.value,
        interval=None if isinstance(interval, Message) else interval,
        agreement=agreement.spearman,
        undefined=undefined,
    )


def estimate_units(observations: Observations, rating: str, scores: Floats, units: Integers) -> Estimate | Message:
    """The correlation of these units within their systems, or why there is none."""
    if len(units) < FEWEST_CORRELATED:
        return ONE_RATER
    x, y = scores[units], settled_means(observations, observations.ratings[rating])[units]
    system = number_keys(observations.unit_system[units])
    for column in (x, y):
        low, high = np.full(system.max() + 1, np.inf), np.full(system.max() + 1, -np.inf)
        np.minimum.at(low, system, column)
        np.maximum.at(high, system, column)
        if not (high > low).any():
            return CONSTANT
    return estimate_within(x, y, number_first(observations.unit_cluster[units]), system)


def rank_ratings(named: NamedRatings, unit_system: Integers) -> NamedRatings:
    """The ratings as their ranks within the system that they are of, as a share of its ratings less a half, so that
    what systems differ by is no agreement."""
    if not len(named.values):
        return named
    system = number_keys(unit_system[named.unit])
    count = np.bincount(system)[system]
    grades = (rank_within(system, named.values) - (count + 1) / 2) / count
    return NamedRatings(named.unit, named.rater, grades)


def find_tail(n: int, tests: int) -> float:
    """What the interval of n items leaves to either side, so that those of so many aspects hold at every number of
    items from FEWEST_ITEMS on with 1 − ALPHA. `n` is at least that."""
    allowed = ALPHA / max(1, tests) / 2

    def pass_often(a: float) -> float:
        return float(ndtr(-a)) + a * exp(-a * a / 2) / sqrt(2 * pi) - allowed

    start = float(brentq(pass_often, 1.0, 40.0))
    return float(ndtr(-sqrt(start**2 + log(n / FEWEST_ITEMS))))

"""Rankings on people's scale: a judge's preferences for all pairs, corrected by people's for some.

Prediction-powered inference (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453; of rankings Chatzi et al. 2024, arXiv
2402.17826), in the form of Chen & Chen (2000) for regressions with a second sample: people's strengths on the pairs
that they saw, plus λ times how far the judge's strengths on all pairs differ from the judge's on those pairs. Each of
the three is fitted with its own position and tie terms, so that people and judge may differ in these. λ in [0, 1] makes
the mean variance of the strengths least; with λ = 0 they are people's alone. Errors come from what each cluster adds to
all three together, and t loses a degree of freedom to λ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from saiten.core.messages import Message
from saiten_server.core.reports import FEWEST_SHARED
from saiten_server.stats.observations import NO_RATER, Floats, Integers
from saiten_server.stats.rank_sets import RankSets, combine_groups, without_loose_ties
from saiten_server.stats.shown_pairs import ShownPairs, number_clusters
from saiten_server.stats.strengths import Strengths, Ties, estimate_strengths

MOST_SHARES = 40_000_000
"""Clusters by systems."""


@dataclass(frozen=True)
class CorrectedRanks:
    """Rank sets on people's scale with λ, or the reason why there are none. `seen` are the looks by people, `clusters`
    those with one."""

    sets: RankSets | None
    weight: float
    refused: Message | None
    seen: int
    clusters: int


def split_by_rater(pairs: ShownPairs) -> tuple[ShownPairs, ShownPairs]:
    """The judge's looks, and people's."""
    judged = pairs.rater == NO_RATER
    return pairs.within(judged), pairs.within(~judged)


def correct_ranks(
    judge: ShownPairs, people: ShownPairs, *, alpha: float = 0.05, ties: Ties = "davidson"
) -> CorrectedRanks:
    """The rank sets by people's looks with the judge's, of the same systems."""
    clusters = number_clusters(people)[1]
    same = judge.within(np.isin(key_pairs(judge), key_pairs(people)))

    def refuse(message: Message) -> CorrectedRanks:
        return CorrectedRanks(None, 0.0, message, people.n, clusters)

    if clusters < FEWEST_SHARED:
        return refuse(Message("ranking-few-people", clusters=clusters, needed=FEWEST_SHARED))
    if not all(is_strongly_connected(one) for one in (judge, people, same)):
        return refuse(Message("ranking-people-unconnected"))
    if (int(judge.cluster.max()) + 1) * len(judge.systems) > MOST_SHARES:
        return refuse(Message("ranking-correction-large"))
    found = [estimate_strengths(one, ties=ties) for one in (people, judge, same)]
    corrected, weight = combine(found[0], found[1], found[2], (people, judge, same))
    sets = combine_groups(people, lambda _: corrected, alpha=alpha)
    return CorrectedRanks(sets, weight, None, people.n, clusters)


def combine(
    people: Strengths, judge: Strengths, same: Strengths, seen: tuple[ShownPairs, ShownPairs, ShownPairs]
) -> tuple[Strengths, float]:
    """The corrected strengths, and λ. The terms are people's."""
    size = max(int(one.cluster.max()) for one in seen) + 1
    own, whole, part = (
        spread_shares(found, pairs, size) for found, pairs in zip((people, judge, same), seen, strict=True)
    )
    moved = whole - part
    varied = float(np.sum(moved * moved))
    weight = float(np.clip(-np.sum(own * moved) / varied, 0.0, 1.0)) if varied else 0.0
    shares = own + weight * moved
    values = people.values + weight * (judge.values - same.values)
    return (
        replace(people, values=values, covariance=shares.T @ shares, freedom=people.freedom - 1),
        weight,
    )


def spread_shares(found: Strengths, pairs: ShownPairs, size: int) -> Floats:
    """What each cluster adds to the error of each strength, by the number that all looks have it by; shape (size,
    systems)."""
    shares = np.zeros((size, len(found.values)))
    shares[np.unique(pairs.cluster)] = found.scores @ found.inverse
    return shares


def key_pairs(pairs: ShownPairs) -> Integers:
    """Each look's pair of systems on its item, as one number."""
    found: Integers = pairs.item * len(pairs.systems) ** 2 + pairs.pair
    return found


def is_strongly_connected(pairs: ShownPairs) -> bool:
    """Whether wins and ties lead from each system to each other, so that all strengths are finite."""
    if not len(pairs.first) or number_clusters(pairs)[1] < 2:
        return False
    outcomes = pairs.count_outcomes()
    return bool(connected_components(without_loose_ties(outcomes), connection="strong")[0] == 1) and bool(
        outcomes[..., 0].any()
    )

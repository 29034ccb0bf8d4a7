"""Which ranks systems can have: strengths with what all pairs of systems, tested together, leave open.

A pair is resolved where its p, by Holm's (1979) method over all pairs of systems, is below α: then all resolved pairs
are right with probability 1 − α, whichever they are. Of N systems, one that b are surely better and w surely worse than
can have each rank from 1 + b to N − w, and is tied with the best where b is 0 (Chatzi et al. 2024, arXiv 2402.17826,
have the same sets from a confidence region). So the best is among those tied with the best with probability 1 − α.

Systems that no one connects, directly or through others, are not compared. Where all between two groups was won by one
of them (a system that never wins is such a group), how much better it is has no finite estimate: strengths are given
within each group, and pairs between groups are tested by the signs of their clusters' sums, which needs no estimate.
Ties connect systems only where they have a bound (`without_loose_ties`).

The share of looks in which a system is preferred (`estimate_share`) needs no model of strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components
from scipy.special import expit, stdtr

from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.resampling import IntervalEstimate, add_up, add_up_moves, estimate_paired, estimate_rate
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs, number_clusters
from saiten_server.stats.statistics import LEAST_P
from saiten_server.stats.strengths import Strengths, Ties, estimate_strengths

FEWEST_CLUSTERS = 8
"""Below which intervals by sandwich were not found to hold."""

SIGN_WINS = 2.0
"""Two-sided: a group of k clusters that all agree has p = 2 · 2^(−k)."""

Estimate = Callable[[ShownPairs], Strengths]


@dataclass(frozen=True)
class RankSets:
    """Of N systems. `strengths` have shape (N,), NaN where there is none, with mean 0 within each group; `errors` are
    their standard errors and `freedom` t's degrees of freedom. `p` has shape (N, N), 1 where nothing is known.
    `better[i, j]` says that i is surely better than j. `rank` is by the estimate, `lowest` and `highest` are the ranks
    that cannot be excluded, from 1. `components` are the systems that somebody connects; `group` numbers those whose
    strengths have one scale. `fits` are the groups' estimates with their members."""

    strengths: Floats
    errors: Floats
    freedom: Floats
    p: Floats
    better: Mask
    rank: Integers
    lowest: Integers
    highest: Integers
    components: tuple[tuple[int, ...], ...]
    group: Integers
    never_wins: Mask
    never_loses: Mask
    fits: tuple[tuple[Integers, Strengths], ...]
    clusters: int

    @property
    def tied_with_best(self) -> Mask:
        """Which systems none is surely better than, shape (N,)."""
        found: Mask = np.logical_not(np.any(self.better, axis=0, keepdims=True))[0]
        return found

    @property
    def main(self) -> Strengths | None:
        """The estimate of the largest group: its terms are those of the ranking."""
        return max(self.fits, key=lambda fit: len(fit[0]))[1] if self.fits else None


def rank_systems(pairs: ShownPairs, *, alpha: float = 0.05, ties: Ties = "davidson", penalty: float = 0.0) -> RankSets:
    """The rank sets of systems that were compared. With a penalty all have strengths, on one scale."""

    def estimate(own: ShownPairs) -> Strengths:
        return estimate_strengths(own, ties=ties, penalty=penalty)

    return combine_groups(pairs, estimate, alpha=alpha, joined=penalty > 0)


def combine_groups(pairs: ShownPairs, estimate: Estimate, *, alpha: float, joined: bool = False) -> RankSets:
    """The rank sets with the strengths that `estimate` finds for each group of systems."""
    size = len(pairs.systems)
    outcomes = pairs.count_outcomes()
    beats = (outcomes[..., 0] > 0) | (outcomes[..., 1] > 0)
    component = connected_components(beats, directed=False)[1]
    if not joined:
        beats = without_loose_ties(outcomes)
    group = np.zeros(size, dtype=np.int64) if joined else connected_components(beats, connection="strong")[1]
    clusters = number_clusters(pairs)[1]
    strengths, errors, freedom = np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan)
    p, fits = np.ones((size, size)), []
    known = clusters >= FEWEST_CLUSTERS
    for number in range(int(group.max()) + 1):
        members = np.flatnonzero(group == number)
        own = pairs.among(members)
        if len(members) < 2 or np.all(own.choice == TIE) or number_clusters(own)[1] < 2:
            continue
        found = estimate(own)
        fits.append((members, found))
        strengths[members] = found.values
        errors[members], freedom[members] = found.errors, found.freedom
        if known:
            p[np.ix_(members, members)] = np.maximum(compare_strengths(found), bound_p(own))
    if known:
        between_groups(pairs, group, p)
    order = order_systems(beats, group, strengths)
    better = (adjust_holm(p) < alpha) & order
    return RankSets(
        strengths=strengths,
        errors=errors,
        freedom=freedom,
        p=p,
        better=better,
        rank=1 + count_above(order, component),
        lowest=1 + better.sum(axis=0),
        highest=np.bincount(component)[component] - better.sum(axis=1),
        components=tuple(tuple(np.flatnonzero(component == one).tolist()) for one in range(int(component.max()) + 1)),
        group=group,
        never_wins=np.logical_not(np.any(beats, axis=1, keepdims=True))[:, 0],
        never_loses=np.logical_not(np.any(beats, axis=0, keepdims=True))[0],
        fits=tuple(fits),
        clusters=clusters,
    )


def without_loose_ties(outcomes: Floats) -> Mask:
    """Who beat or tied with whom, shape (systems, systems), without the ties of a strongly connected group that they
    alone hold together: where no cycle of wins and ties has more wins than ties, the likelihood grows without end as
    the winners move away and ties become more likely alike. Two systems of which one won or tied are the least case."""
    won, tied = outcomes[..., 0] > 0, outcomes[..., 1] > 0
    found: Mask = won | tied
    group = connected_components(found, connection="strong")[1]
    for number in range(int(group.max()) + 1):
        own = np.ix_(*[np.flatnonzero(group == number)] * 2)
        if tied[own].any() and won[own].any() and not has_more_wins(won[own], tied[own]):
            found[own] = won[own]
    return found


def has_more_wins(won: Mask, tied: Mask) -> bool:
    """Whether some cycle has more wins than ties, of systems that are strongly connected."""
    try:
        bellman_ford(np.where(won, -1.0, np.where(tied, 1.0, 0.0)), indices=0)
    except NegativeCycleError:
        return True
    return False


def compare_strengths(found: Strengths) -> Floats:
    """The p of each pair's difference, two-sided, shape (systems, systems); 1 on the diagonal."""
    difference = found.values[:, None] - found.values[None, :]
    own = np.diagonal(found.covariance)
    error = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * found.covariance, 0.0))
    freedom = np.minimum(found.freedom[:, None], found.freedom[None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(error > 0, np.abs(difference) / error, 0.0)
    p: Floats = np.where(freedom >= 1, np.maximum(LEAST_P, 2 * stdtr(np.maximum(freedom, 1.0), -statistic)), 1.0)
    np.fill_diagonal(p, 1.0)
    return p


def bound_p(pairs: ShownPairs) -> Floats:
    """The smallest p that there can be of each pair of systems, shape (systems, systems): that of signs, if all of the
    clusters in which a system won or lost on balance spoke alike. Where most tie, errors by these few tell little."""
    decided = np.flatnonzero(pairs.choice != TIE)
    won = np.where(pairs.choice[decided] == FIRST, 1, -1)
    systems = np.concatenate([pairs.first[decided], pairs.second[decided]])
    size = len(pairs.systems)
    places, at = np.unique(np.tile(pairs.cluster[decided], 2) * size + systems, return_inverse=True)
    balance = np.bincount(at, weights=np.concatenate([won, -won]))
    clusters = np.bincount(places[balance != 0] % size, minlength=size)
    least: Floats = np.minimum(1.0, SIGN_WINS * 0.5 ** clusters.astype(np.float64))
    return np.maximum(least[:, None], least[None, :])


def between_groups(pairs: ShownPairs, group: Integers, p: Floats) -> None:
    """Sets the p of pairs of systems of different groups that were compared: all that was decided between them was won
    by one of the two."""
    apart = (group[pairs.first] != group[pairs.second]) & (pairs.choice != TIE)
    if not apart.any():
        return
    own = pairs.within(apart)
    clusters = int(own.cluster.max()) + 1
    agreeing = np.bincount(np.unique(own.pair * clusters + own.cluster) // clusters, minlength=p.size)
    for key in np.flatnonzero(agreeing):
        one, other = divmod(int(key), len(p))
        p[one, other] = p[other, one] = min(1.0, max(LEAST_P, SIGN_WINS * 0.5 ** int(agreeing[key])))


def order_systems(beats: Mask, group: Integers, strengths: Floats) -> Mask:
    """Whether i is better than j by the estimates: by their strengths in one group; else where wins and ties lead from
    i to j, and none back. Shape (systems, systems)."""
    reached = reach(beats)
    same = group[:, None] == group[None, :]
    with np.errstate(invalid="ignore"):
        stronger = strengths[:, None] > strengths[None, :]
    found: Mask = np.where(same, stronger, reached & ~reached.T)
    return found


def reach(beats: Mask) -> Mask:
    """Which systems wins lead to from which, shape (systems, systems)."""
    found = beats.copy()
    for _ in range(len(beats).bit_length()):
        found = found | ((found.astype(np.float32) @ found.astype(np.float32)) > 0)
    return found


def count_above(order: Mask, component: Integers) -> Integers:
    """How many systems of its own component are better than each."""
    counted: Integers = (order & (component[:, None] == component[None, :])).sum(axis=0)
    return counted


def adjust_holm(p: Floats) -> Floats:
    """Each pair's p adjusted for all pairs of systems (Holm 1979), shape (systems, systems)."""
    rows, columns = np.triu_indices(len(p), 1)
    found = np.ones_like(p)
    own = p[rows, columns]
    if not len(own):
        return found
    order = np.argsort(own, kind="stable")
    adjusted = np.empty(len(own))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(own[order] * np.arange(len(own), 0, -1)))
    found[rows, columns] = found[columns, rows] = adjusted
    return found


def list_resolved(sets: RankSets) -> list[tuple[int, int, float]]:
    """The resolved pairs, better and worse, each with its adjusted p; the surest first."""
    adjusted = adjust_holm(sets.p)
    found = [(int(i), int(j), float(adjusted[i, j])) for i, j in np.argwhere(sets.better)]
    return sorted(found, key=lambda one: one[2])


@dataclass(frozen=True)
class Consistency:
    """Pairs of systems on one item that one judge or rater saw in both orders: of each cluster how many, and in how
    many the two answers agreed; shapes (clusters,). `ties` are those with two ties, `opposed` those in which each order
    was answered for another system."""

    counts: Floats
    agreed: Floats
    ties: int
    opposed: int


def compare_orders(pairs: ShownPairs) -> Consistency:
    """How far answers depend on the order. Of several looks in one order the first counts."""
    cluster, clusters = number_clusters(pairs)
    base = len(pairs.systems) ** 2
    key = (pairs.item * base + pairs.pair) * (int(pairs.rater.max(initial=-1)) + 2) + pairs.rater + 1
    ahead = pairs.first < pairs.second
    answer = np.where(ahead, pairs.choice, np.choose(pairs.choice, [SECOND, FIRST, TIE]))
    one, of_one = np.unique(key[ahead], return_index=True)
    other, of_other = np.unique(key[~ahead], return_index=True)
    _, mine, theirs = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    first, second = answer[ahead][of_one[mine]], answer[~ahead][of_other[theirs]]
    units = cluster[ahead][of_one[mine]]
    agreed = first == second
    return Consistency(
        counts=np.bincount(units, minlength=clusters).astype(np.float64),
        agreed=np.bincount(units, weights=agreed, minlength=clusters).astype(np.float64),
        ties=int(np.sum(agreed & (first == TIE))),
        opposed=int(np.sum((first != second) & (first != TIE) & (second != TIE))),
    )


def share_preferred(strengths: Sequence[float], tie: float | None, ties: Ties = "davidson") -> float:
    """The chance that the first of two strengths is preferred, a tie counting half; `tie` is log ν or log δ."""
    odds = strengths[0] - strengths[1]
    even = 0.0 if tie is None else float(np.exp(tie))
    if ties == "ordinal":
        return float(expit(odds - even) + expit(odds + even)) / 2
    up, down = float(np.exp(odds / 2)), float(np.exp(-odds / 2))
    return (up + even / 2) / (up + down + even)


HALF = 0.5


def score_looks(pairs: ShownPairs, system: int) -> tuple[Floats, Floats]:
    """What each look at two systems scores for `system`, a tie half, and what it weighs, shapes (n,). Where it was
    shown first in some looks and second in others, either half weighs the same, so that what the order does cancels
    out."""
    ahead = pairs.first == system
    return np.where(pairs.choice == TIE, HALF, (pairs.choice == FIRST) == ahead), weigh_orders(ahead)


def count_share(pairs: ShownPairs, system: int) -> float:
    """The share of looks at two systems, of which there is at least one, in which `system` is preferred."""
    score, weight = score_looks(pairs, system)
    return float(np.average(score, weights=weight))


def estimate_share(pairs: ShownPairs, system: int, *, alpha: float = 0.05) -> IntervalEstimate:
    """The same with its interval over clusters; none with fewer than FEWEST_CLUSTERS. Where most looks are ties, and
    the others may be to one side, the share is a half and a small difference of wins and losses: its interval holds
    that of this difference too."""
    score, weight = score_looks(pairs, system)
    sums, counts = add_up(score, pairs.cluster, weight)
    found = estimate_rate(sums, counts, bounds=(0.0, 1.0), alpha=alpha)
    if found.clusters < FEWEST_CLUSTERS:
        return IntervalEstimate(found.mean, None, found.clusters, found.reason)
    moved = estimate_paired(*add_up_moves(score - HALF, pairs.cluster, weight), width=HALF, alpha=alpha).interval
    if found.interval is None or moved is None:
        return found
    ends = min(found.interval[0], HALF + moved[0]), max(found.interval[1], HALF + moved[1])
    return IntervalEstimate(found.mean, ends, found.clusters, None)


def weigh_orders(ahead: Mask) -> np.ndarray:
    """Weights with which both orders weigh the same, shape (n,); with a mean of 1."""
    first = int(ahead.sum())
    if not 0 < first < len(ahead):
        return np.ones(len(ahead))
    return np.where(ahead, len(ahead) / 2 / first, len(ahead) / 2 / (len(ahead) - first))

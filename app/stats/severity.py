"""How severe people are, in means on people's scale and in their differences.

A rater is a random effect crossed with items: who rates half a point lower does so everywhere, and no number of this
rater's ratings shows it. So a *mean* has the raters' variance in its error, as a one-way or crossed analysis of
variance has it (`measure_severity`), with as many degrees of freedom as raters leave. In a *difference* each rater
weighs the same on both sides (`contrast_raters`), so that what is added to all of a rater's ratings cancels, exactly
and however large: this is the fixed effect of the rater, to which the random effect comes where nothing is known of how
far raters differ, which few raters cannot show. Ratings by those who rated one side only tell nothing then.

Checked against ordinary and mixed models of statsmodels in the tests, and by `benchmarks.corrected_gate`.

What to mend first is told by how far a fault lowers the mean rating of all conversations. The weight of a fault is the
share p of conversations with it times the difference d of the mean ratings without it and with it. As the mean of all
is p times the mean with it plus 1 − p times the mean without it, p·d is also the mean without it less the mean of all.
It describes, and does not show that the fault is the cause: what occurs with other faults has their weight too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array

from saiten.core.messages import Message
from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.resampling import find_effective, find_quantile

UNDETERMINED = 1e-9
"""One minus the leverage, below which a residual is zero by construction."""


@dataclass(frozen=True)
class IndividualRatings:
    """Ratings one by one, all of shape (n,): the rated item's place in its sample, the rater's number, negative for one
    without a name, and the value. Numbers of raters are shared by all samples."""

    item: Integers
    rater: Integers
    value: Floats

    @property
    def raters(self) -> Integers:
        """The numbers of the raters who have a name, ascending."""
        return np.unique(self.rater[self.rater >= 0])

    def by(self, raters: Integers) -> IndividualRatings:
        """The ratings by these raters."""
        kept = np.isin(self.rater, raters)
        return IndividualRatings(self.item[kept], self.rater[kept], self.value[kept])

    def within(self, kept: Mask) -> IndividualRatings:
        """The ratings of the items that are `kept`, shape (items,), with these items' places among them."""
        place = np.cumsum(kept) - 1
        held = kept[self.item]
        return IndividualRatings(place[self.item[held]], self.rater[held], self.value[held])

    def weigh(self, weights: Floats | None) -> Floats:
        """What each rating weighs, an item's together as much as the item, and items 1 on average; shape (n,)."""
        number = np.bincount(self.item).astype(np.float64)
        if weights is None:
            return 1 / number[self.item]
        found = weights[self.item] / number[self.item]
        evened: Floats = found * (np.count_nonzero(number) / found.sum())
        return evened


class Severity(NamedTuple):
    """What the raters add to the variance of a mean. `variance` is that of the mean by the spread of the raters' own
    means, with `freedom` degrees of freedom; `noise` is the part of it that comes of their rating different items, or
    of chance, and that further ratings make smaller. `counted` is what the variance by items has of both already."""

    raters: int
    variance: float
    noise: float
    counted: float
    freedom: float

    @property
    def lasting(self) -> float:
        """The part that only more raters make smaller."""
        return max(0.0, self.variance - self.noise)


def measure_severity(
    said: IndividualRatings, scores: Floats, clusters: Integers, weights: Floats | None, weight: float
) -> Severity:
    """Of the mean of people's ratings less `weight` times the judge's `scores`, by two raters or more; ratings without
    a name count as one rater's. `scores`, `clusters` and `weights` have shape (items,)."""
    own = said.weigh(weights)
    own = own / own.sum()
    raters, rater = np.unique(np.maximum(said.rater, -1), return_inverse=True)
    count = len(raters)
    left = said.value - weight * scores[said.item]
    shares = np.bincount(rater, own, count)
    means = np.bincount(rater, own * left, count) / shares
    squared = float(shares @ shares)
    spread = float(shares @ (means - shares @ means) ** 2)
    homes, home = np.unique(clusters[said.item], return_inverse=True)
    cells, cell = np.unique(home * count + rater, return_inverse=True)
    part = own / shares[rater]
    moved: Floats = np.bincount(cell, part * (left - means[rater])).astype(np.float64)
    # As in CR2: a residual is too small by as much as it drew the rater's mean to itself.
    moved = moved / np.sqrt(np.maximum(1 - np.bincount(cell, part), UNDETERMINED))
    together = np.bincount(cells // count, shares[cells % count] * moved, len(homes))
    noise = float(shares[cells % count] @ (moved * moved) - together @ together)
    scale = squared / (1 - squared)
    # How much of the severity is among the items' own differences: all where each rater rated one item.
    within, whole = np.bincount(cell, own), np.bincount(home, own)
    among = within @ within - 2 * (within * whole[cells // count]) @ shares[cells % count] + squared * whole @ whole
    counted = noise * scale + max(0.0, spread - noise) * scale * float(among) / squared
    cubed = float(np.sum(shares**3))
    freedom = (1 - squared) ** 2 / (squared - 2 * cubed + squared**2)
    return Severity(count, spread * scale, noise * scale, counted, max(1.0, freedom))


class Contrast(NamedTuple):
    """Two sides in which each rater weighs the same; first the baseline, then the candidate. `means` has shape (2, 2),
    side by people and judge, and `parts` (2, 2, clusters) what each cluster adds to the error of that; `clusters` are
    their numbers, ascending. `freedom` is that of each side, and `effective` how many ratings of equal weight
    theirs count as."""

    clusters: Integers
    means: Floats
    parts: Floats
    freedom: tuple[float, float]
    effective: tuple[float, float]


class SideRatings(NamedTuple):
    """What one side brings to a contrast; all but `said` of shape (items,)."""

    said: IndividualRatings
    scores: Floats
    clusters: Integers
    weights: Floats | None


def contrast_raters(sides: Sequence[SideRatings]) -> Contrast | None:
    """The contrast of two sides by the raters of both: least squares with an effect for each rater and one for the
    side, with errors by cluster corrected as CR2 (Bell & McCaffrey 2002, Pustejovsky & Tipton 2018). None where no
    rater rated both sides."""
    own: Floats = np.concatenate([side.said.weigh(side.weights) for side in sides])
    side = np.repeat([0, 1], [len(one.said.item) for one in sides])
    item = np.concatenate([one.said.item for one in sides])
    rater = np.unique(np.concatenate([one.said.rater for one in sides]), return_inverse=True)[1]
    names, home = np.unique(np.concatenate([one.clusters[one.said.item] for one in sides]), return_inverse=True)
    clusters, cluster = names.astype(np.int64), home.astype(np.int64)
    people = np.concatenate([one.said.value for one in sides])
    values = np.stack([people, np.concatenate([one.scores[one.said.item] for one in sides])])
    total = np.bincount(rater, own)
    moved = side - (np.bincount(rater, own * side) / total)[rater]
    power = float(own @ moved**2)
    if power <= UNDETERMINED * float(own.sum()):
        return None
    weights = own * np.abs(moved) / power
    means = np.stack([(values[:, side == one] @ weights[side == one]) for one in (0, 1)])
    within = values - np.stack([np.bincount(rater, own * column) / total for column in values])[:, rater]
    root = np.sqrt(own)
    residual = root * (within - (means[1] - means[0])[:, None] * moved)
    basis = Basis(rater, root / np.sqrt(total[rater]), root * moved / np.sqrt(power), len(total))
    pull = np.stack([np.where(side == one, weights / root, 0.0) for one in (0, 1)])
    pull = basis.correct(pull, cluster, len(clusters))
    parts: Floats = np.stack(
        [np.stack([np.bincount(cluster, one * column, len(clusters)) for column in residual]) for one in pull]
    )
    effective = []
    for one in (0, 1):
        each = np.bincount(item[side == one], weights[side == one])
        effective.append(float(1 / (each @ each)))
    freedom = [basis.count_freedom(one, cluster, len(clusters)) for one in pull]
    return Contrast(clusters, means, parts, (freedom[0], freedom[1]), (effective[0], effective[1]))


class Basis(NamedTuple):
    """An orthonormal basis of what least squares fits, by rating: a column for each of the `raters`, of which `own` is
    the value in the rating's `rater`'s, and the `side`'s column; all of shape (n,)."""

    rater: Integers
    own: Floats
    side: Floats
    raters: int

    def correct(self, pull: Floats, cluster: Integers, clusters: int) -> Floats:
        """The rows of `pull`, shape (sides, n), multiplied by the inverse root of one minus the leverage, cluster by
        cluster; what has no residual by construction becomes zero."""
        found: Floats = np.zeros_like(pull)
        cells, place = np.unique(cluster * self.raters + self.rater, return_inverse=True)
        home = cells // self.raters
        local = (np.arange(len(cells)) - np.searchsorted(home, home))[place]
        order = np.argsort(cluster, kind="stable")
        size = np.bincount(cluster, minlength=clusters)
        start = np.cumsum(size) - size
        for each in np.unique(size).tolist():
            rows = order[start[size == each][:, None] + np.arange(each)]
            block = np.zeros((*rows.shape, int(local[rows].max()) + 2))
            np.put_along_axis(block, local[rows][:, :, None], self.own[rows][:, :, None], axis=2)
            block[:, :, -1] = self.side[rows]
            left, singular, _ = np.linalg.svd(block, full_matrices=False)
            rest = 1 - singular**2
            by = np.where(rest > UNDETERMINED, 1 / np.sqrt(np.maximum(rest, UNDETERMINED)), 0.0) - 1
            for one, column in zip(found, pull, strict=True):
                held = column[rows][:, None, :]
                one[rows] = (held + ((held @ left) * by[:, None, :]) @ left.transpose(0, 2, 1))[:, 0, :]
        return found

    def count_freedom(self, pull: Floats, cluster: Integers, clusters: int) -> float:
        """Bell and McCaffrey's degrees of freedom of the variance that this corrected row makes, shape (n,), were all
        ratings independent and alike in spread."""
        size = np.bincount(cluster, pull * pull, clusters)
        values = np.concatenate([self.own * pull, self.side * pull])
        columns = np.concatenate([self.rater, np.full(len(pull), self.raters)])
        fitted = coo_array((values, (np.tile(cluster, 2), columns)), shape=(clusters, self.raters + 1)).tocsr()
        overlap = fitted.multiply(fitted).sum(axis=1)
        trace = float(np.sum(size - overlap))
        product = (fitted.T @ fitted).data
        squares = float(size @ size - 2 * size @ overlap + product @ product)
        return max(1.0, trace**2 / squares) if squares > 0 else 1.0


FEWEST_DIALOGUES = 8
"""Dialogues below which there is no interval."""
FEWEST_OF_EACH = 3
"""Dialogues with the fault, and without it, below which there is none either."""

TOO_FEW = Message("fewer-dialogues", least=FEWEST_DIALOGUES)
FEW_WITH = Message("fewer-dialogues-with-fault", least=FEWEST_OF_EACH)
FEW_WITHOUT = Message("fewer-dialogues-without-fault", least=FEWEST_OF_EACH)
NONE_WITHOUT = Message("every-conversation-has-fault")
NO_SPREAD = Message("no-spread-by-fault")


@dataclass(frozen=True)
class Priority:
    """One fault: the `share` of conversations with it in (0, 1], `effect` (the mean rating without it less the mean
    with it, in scale points) and `weight`, their product. `interval` is of the weight; `reason` says why there is none.
    """

    share: float
    effect: float | None
    weight: float | None
    interval: tuple[float, float] | None
    reason: Message | None


def find_average(values: Floats, weights: Floats | None) -> float:
    """The mean of values that there are, by their weights if any."""
    return float(values.mean() if weights is None else weights @ values / weights.sum())


LEAST_WORTH = 1.5
"""Dialogues that any are worth at least: of one alone no spread is known."""


def count_worth(clusters: Integers, weights: Floats | None) -> float:
    """How many dialogues these are; with weights, how many of equal weight they are worth (Kish)."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights).astype(np.float64)
    return float(len(sums)) if weights is None else max(LEAST_WORTH, find_effective(sums))


def weigh_fault(
    ratings: Floats, has: Mask, clusters: Integers, weights: Floats | None = None, *, alpha: float = 0.05
) -> Priority:
    """The weight of a fault, with its interval at 1 − alpha by the delta method over clusters. All arguments have shape
    (n,), and at least one conversation has the fault; `weights` are on average 1, None where all are. Residuals are
    corrected for the number of clusters in each of the two groups, or for what they are worth by weights, and the
    degrees of freedom are one less than the smaller of these."""
    share = find_average(has.astype(np.float64), weights)
    if has.all():
        return Priority(share, None, None, None, NONE_WITHOUT)
    means = [find_average(ratings[group], None if weights is None else weights[group]) for group in (~has, has)]
    effect = means[0] - means[1]
    units, places = np.unique(clusters, return_inverse=True)
    without, with_fault = (len(np.unique(clusters[group])) for group in (~has, has))
    found = Priority(share, effect, share * effect, None, None)
    lacks = ((len(units) < FEWEST_DIALOGUES, TOO_FEW), (with_fault < FEWEST_OF_EACH, FEW_WITH))
    for lacking, reason in (*lacks, (without < FEWEST_OF_EACH, FEW_WITHOUT)):
        if lacking:
            return Priority(share, effect, found.weight, None, reason)
    worth = [count_worth(clusters[group], None if weights is None else weights[group]) for group in (~has, has)]
    scales = sqrt(worth[0] / (worth[0] - 1)) * share / (1 - share), -sqrt(worth[1] / (worth[1] - 1))
    residuals = np.where(has, scales[1] * (ratings - means[1]), scales[0] * (ratings - means[0]))
    each = effect * (has - share) + residuals
    parts = np.bincount(places, weights=each if weights is None else weights * each) / len(ratings)
    whole = count_worth(clusters, weights)
    error = sqrt(whole / (whole - 1) * float(parts @ parts))
    if not error:
        return Priority(share, effect, found.weight, None, NO_SPREAD)
    margin = find_quantile(max(1.0, min(worth) - 1), alpha) * error
    return Priority(share, effect, found.weight, (share * effect - margin, share * effect + margin), None)

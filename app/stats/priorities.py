"""What to mend first: how far a fault that some conversations have lowers the mean rating of all of them.

The weight of a fault is the share p of conversations with it times the difference d of the mean ratings without it and
with it. As the mean of all is p times the mean with it plus 1 − p times the mean without it, p·d is also the mean
without it less the mean of all. It describes, and does not show that the fault is the cause: what occurs with other
faults has their weight too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from saiten.core.messages import Message
from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.resampling import find_quantile

FEWEST_CLUSTERS = 8
"""Dialogues below which there is no interval."""
FEWEST_OF_EACH = 3
"""Dialogues with the fault, and without it, below which there is none either."""

TOO_FEW = Message("fewer-dialogues", least=FEWEST_CLUSTERS)
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


def weigh_fault(ratings: Floats, has: Mask, clusters: Integers, *, alpha: float = 0.05) -> Priority:
    """The weight of a fault, with its interval at 1 − alpha by the delta method over clusters. All arguments have shape
    (n,), and at least one conversation has the fault. Residuals are corrected for the number of clusters in each of the
    two groups, and the degrees of freedom are one less than the smaller number of these."""
    share = float(has.mean())
    if share == 1:
        return Priority(share, None, None, None, NONE_WITHOUT)
    means = [float(ratings[group].mean()) for group in (~has, has)]
    effect = means[0] - means[1]
    units, places = np.unique(clusters, return_inverse=True)
    without, with_fault = (len(np.unique(clusters[group])) for group in (~has, has))
    found = Priority(share, effect, share * effect, None, None)
    lacks = ((len(units) < FEWEST_CLUSTERS, TOO_FEW), (with_fault < FEWEST_OF_EACH, FEW_WITH))
    for lacking, reason in (*lacks, (without < FEWEST_OF_EACH, FEW_WITHOUT)):
        if lacking:
            return Priority(share, effect, found.weight, None, reason)
    scales = sqrt(without / (without - 1)) * share / (1 - share), -sqrt(with_fault / (with_fault - 1))
    residuals = np.where(has, scales[1] * (ratings - means[1]), scales[0] * (ratings - means[0]))
    parts = np.bincount(places, weights=effect * (has - share) + residuals) / len(ratings)
    error = sqrt(len(units) / (len(units) - 1) * float(parts @ parts))
    if not error:
        return Priority(share, effect, found.weight, None, NO_SPREAD)
    margin = find_quantile(min(with_fault, without) - 1.0, alpha) * error
    return Priority(share, effect, found.weight, (share * effect - margin, share * effect + margin), None)

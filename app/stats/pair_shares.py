"""How often one of two systems is preferred, a tie counting half, with neither order counting more than the other."""

from __future__ import annotations

import numpy as np

from saiten_server.stats.observations import Mask
from saiten_server.stats.rank_sets import FEWEST_CLUSTERS
from saiten_server.stats.resampling import IntervalEstimate, add_up, estimate_rate
from saiten_server.stats.shown_pairs import FIRST, TIE, ShownPairs

HALF = 0.5


def estimate_share(pairs: ShownPairs, system: int, *, alpha: float = 0.05) -> IntervalEstimate:
    """The share of looks at two systems in which `system` is preferred, and its interval over clusters; there is at
    least one look. Where it was shown first in some looks and second in others, either half weighs the same, so that
    what the order does cancels out. No interval with fewer than FEWEST_CLUSTERS clusters."""
    ahead = pairs.first == system
    score = np.where(pairs.choice == TIE, HALF, (pairs.choice == FIRST) == ahead)
    weight = weigh_orders(ahead)
    sums, counts = add_up(score * weight, pairs.cluster)[0], add_up(weight, pairs.cluster)[0]
    found = estimate_rate(sums, counts, bounds=(0.0, 1.0), alpha=alpha)
    if found.clusters < FEWEST_CLUSTERS:
        return IntervalEstimate(found.mean, None, found.clusters, found.reason)
    return found


def weigh_orders(ahead: Mask) -> np.ndarray:
    """Weights with which both orders weigh the same, shape (n,); with a mean of 1."""
    first = int(ahead.sum())
    if not 0 < first < len(ahead):
        return np.ones(len(ahead))
    return np.where(ahead, len(ahead) / 2 / first, len(ahead) / 2 / (len(ahead) - first))

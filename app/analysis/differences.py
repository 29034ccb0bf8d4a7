"""How large a difference of two samples is, how small a one would have been seen, and what many tests amount to.

Values are in scale points, differences are candidate minus baseline. The tests of a comparison are in
`permutations.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import stdtrit

from app.analysis.observations import Floats

POWER = 0.8
DECIMALS = 9
"""Values equal to so many decimals are equal: 7/3 − 2 and 1/3 are one difference and must share a rank."""


def level(values: Floats) -> Floats:
    """The values with rounding noise taken off."""
    rounded: Floats = np.round(values, DECIMALS) + 0.0
    return rounded


def find_cliffs_delta(baseline: Floats, candidate: Floats) -> float:
    """P(candidate > baseline) − P(candidate < baseline) over all pairs of values, in [−1, 1] (Cliff 1993).

    That is 2U / (n·m) − 1, with U from mid-ranks. Both sides have at least one value.
    """
    left, right = level(baseline), level(candidate)
    ranks = stats.rankdata(np.concatenate([right, left]))[: right.size]
    u = float(ranks.sum()) - right.size * (right.size + 1) / 2
    return 2 * u / (left.size * right.size) - 1


def adjust_holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down adjustment, in the order given: reject where the result is below alpha.

    None is a test that could not be made: it stays None and does not count among the tests.
    """
    made = [(p, index) for index, p in enumerate(probabilities) if p is not None]
    adjusted: list[float | None] = [None] * len(probabilities)
    highest = 0.0
    for step, (p, index) in enumerate(sorted(made)):
        highest = max(highest, min(1.0, (len(made) - step) * p))
        adjusted[index] = highest
    return adjusted


def reach(alpha: float, freedom: float) -> float:
    """How many standard errors a difference must have to be significant, two-sided at alpha, with 80 % power.

    Both quantiles are those of t, whose degrees of freedom the error has.
    """
    return float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, POWER))

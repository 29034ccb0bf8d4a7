"""How large a difference of two samples is, how small a one would have been seen, and what many tests amount to.

Values are in scale points, differences are candidate minus baseline. The tests of a comparison are in
`permutations.py`; Wilcoxon's, which is one of ranks, is that of the judge check (`drift.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import stdtrit

from app.analysis.observations import Floats

MOST_SIGNS = 13
"""Non-zero differences up to which all 2^n signs count where ties forbid the plain exact test, as in scipy."""

POWER = 0.8
DECIMALS = 9
"""Values equal to so many decimals are equal: 7/3 − 2 and 1/3 are one difference and must share a rank."""


def level(values: Floats) -> Floats:
    """The values with rounding noise taken off."""
    rounded: Floats = np.round(values, DECIMALS) + 0.0
    return rounded


def test_paired(differences: Floats) -> float:
    """The two-sided p of Wilcoxon's signed-rank test of paired differences, shape (n,).

    Zeros are dropped before anything else, so that scipy decides between its exact and its asymptotic test by the
    differences that count (Wilcoxon 1945). Where none is left p is 1.
    """
    kept = drop_zeros(differences)
    if not kept.size:
        return 1.0
    if kept.size <= MOST_SIGNS and np.unique(np.abs(kept)).size < kept.size:
        ranks = stats.rankdata(np.abs(kept))
        return find_exact(ranks, ranks[kept > 0])
    return bound(float(stats.wilcoxon(kept, zero_method="wilcox").pvalue))


def drop_zeros(differences: Floats) -> Floats:
    """The differences that are not zero, without rounding noise."""
    levelled = level(differences)
    kept: Floats = levelled[levelled != 0]
    return kept


def find_exact(ranks: Floats, chosen: Floats) -> float:
    """The two-sided p of a rank sum among all choices of `ranks`.

    Doubled mid-ranks are whole numbers, so that the choices can be counted by their sum, one rank after the other
    (Streitberg & Röhmel 1986). Equal to scipy's PermutationMethod, which takes a tenth of a second for it.
    """
    doubled = np.round(2 * ranks).astype(np.int64)
    counts = np.zeros(int(doubled.sum()) + 1)  # ways by their sum
    counts[0] = 1
    for rank in doubled:
        counts[rank:] += counts[:-rank].copy()
    at = round(2 * float(chosen.sum()))
    return bound(2 * min(counts[: at + 1].sum(), counts[at:].sum()) / counts.sum())


def bound(p: float) -> float:
    """A probability: a continuity correction may take it a little above 1."""
    return min(1.0, max(0.0, p))


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

"""How much the means of a bot's builds differ beyond what their items explain: the variance between builds.

A judge that answers a little differently each night, sampled responses, or a changed machine move a whole build's mean.
That shows in the differences of successive builds, which a lasting change of the level touches only once. Each squared
difference is divided by its variance and counts at most CAP, so that one change or one odd build hardly moves the
estimate (Huber's proposal 2; Rice 1984 for the differences).
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtr, chdtri

from saiten_server.stats.observations import Floats

CAP = 4.0
"""The most that one squared standardised difference counts: that of two standard deviations."""

EXPECTED = float(chdtr(3, CAP) + CAP * (1 - chdtr(1, CAP)))
"""The mean of a χ² of one degree that is cut off at CAP."""

EFFICIENCY = 0.6
"""Independent differences to a successive one, of which two share a build, cut off at CAP; by simulation."""

NOISE_STEPS = 40


def estimate_noise(squares: Floats, variances: Floats, *, chance: float | None = None) -> Floats:
    """The variance between builds, from squared differences of successive builds and the variances that their items
    explain, of shape (..., n) to (...); NaN squares do not count. With `chance` it is an upper bound that lies below
    the variance with about that chance; without any difference it is infinite. Without `chance` it is 0 then."""
    held = ~np.isnan(squares)
    filled, known = np.where(held, squares, 0.0), np.where(held, variances, 1.0)
    n = held.sum(axis=-1)
    target = EXPECTED * n
    if chance is not None:
        freedom = np.maximum(EFFICIENCY * n, 0.5)
        target = target * np.minimum(1.0, chdtri(freedom, 1 - chance) / freedom)
    # The sum falls as the variance grows, and at `high` it lies below the target.
    high = (filled.sum(axis=-1) + 1e-12) / np.maximum(2 * target, 1e-300)
    low = np.zeros_like(high)
    for _ in range(NOISE_STEPS):
        middle = (low + high) / 2
        spread = np.maximum(known + 2 * middle[..., None], 1e-300)
        above = np.minimum(filled / spread, CAP).sum(axis=-1) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found: Floats = np.where(n > 0, low, 0.0 if chance is None else np.inf)
    return found

"""Is a drop that a sequence of builds found mended, and could skewed data have made it?

The null is turned round: nothing changed since the drop was found. The newest 1, 2, 4, … builds are compared with those
that it was found in, and with all from these on. The j-th build since may spend what night j may of alpha, so a bot
that is as bad as it was is taken for mended in at most alpha of all sequences. Then little may be left of the drop: of
the window and of the newest build alone at most half, and of the window no more than chance explains.
"""

from __future__ import annotations

from math import inf, log

import numpy as np
from scipy.special import stdtrit

from saiten_server.comparison.sequences.values import SequenceDrop
from saiten_server.stats.observations import Integers, Mask
from saiten_server.stats.resampling import BEYOND, find_skewed_p, find_unseen_p
from saiten_server.stats.sequences import Builds, Looks, find_errors, list_contrasts, spend

LEFT_CHANCE = 0.05
"""How often what is left of a mended drop is taken for more than chance."""


def is_mended(
    builds: Builds, nights: Integers, drop: SequenceDrop, *, tolerated: float, alpha: float, night: int
) -> bool:
    """Whether the newest builds show that the drop is mended. `nights` are the builds' places, 0 for the baseline;
    `night` is that of the newest one, and `alpha` the error rate for all builds since the drop was found."""
    means, last = builds.means, len(nights) - 1
    start = int(np.searchsorted(nights, drop.first))
    end = max(start + 1, int(np.searchsorted(nights, drop.night, side="right")))
    later = last + 1 - end
    if later < 1:
        return False
    # One row for the builds that the drop was found in, and one for each later build.
    rows = np.zeros((later + 1, last + 1))
    rows[0, start:end] = 1 / (end - start)
    rows[1:, end:] = np.eye(later)
    weights, windows = list_contrasts(later)
    rises = -weights @ rows
    remains = np.stack([np.arange(last + 1) == 0] * len(windows)).astype(np.float64)
    for row, window in zip(remains, windows, strict=True):
        row[last + 1 - window :] = -1 / window
    skipped = [(start - 1, last - int(window)) for window in windows]
    level = spend(alpha, night - drop.night) / len(windows)
    left = remains @ means
    risen = rises @ means > float(stdtrit(builds.freedom, 1 - level)) * find_errors(builds, rises, skipped)
    margin = float(stdtrit(builds.freedom, 1 - LEFT_CHANCE)) * find_errors(builds, remains, skipped)
    little = np.maximum(left, means[0] - means[-1]) <= max(tolerated, drop.size / 2)
    return bool((risen & little & (left - tolerated <= margin)).any())


def find_sound(builds: Builds, looks: Looks, room: float, *, level: float) -> Mask:
    """Which significant looks at one sequence hold though the data are skewed, shape (looks,). `room` is by how much a
    dialogue could have risen above its level in the baseline, by the scale."""
    found = looks.significant.copy()
    parts = builds.parts
    if parts is None:
        return found
    allowed = level / len(looks.windows)
    beyond = max(BEYOND, -log(allowed)) if allowed > 0 else inf
    for place in np.flatnonzero(found):
        contrast, drop = parts @ looks.weights[place], float(looks.drops[place])
        explained = float(contrast @ contrast)
        noise = max(0.0, float(looks.errors[place]) ** 2 - explained)
        skewed = find_skewed_p(drop, contrast, builds.freedom, noise=noise, beyond=beyond) / 2
        unseen = find_unseen_p(drop, explained**0.5, max(0.0, room), builds.units)
        found[place] = max(skewed, unseen) <= allowed
    return found

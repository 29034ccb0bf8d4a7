"""Looks at pairs as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count

import numpy as np

from saiten_server.preferences.values import ShownPair
from saiten_server.stats.observations import NO_RATER, Floats
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs

CHOICE_CODES = {"first": FIRST, "second": SECOND, "tie": TIE}

LENGTH = "length"
"""The covariate of the difference in length."""


def list_columns(shown: Sequence[ShownPair], systems: Sequence[str]) -> ShownPairs:
    """The looks as columns, of these systems. A covariate that not all looks have is left out. Raises KeyError for a
    system that is none of them."""
    place = {name: number for number, name in enumerate(systems)}
    items, clusters, raters = (defaultdict[str, int](count().__next__) for _ in range(3))
    columns = np.array(
        [
            (
                place[one.first],
                place[one.second],
                CHOICE_CODES[one.choice],
                items[one.item],
                clusters[one.cluster],
                NO_RATER if one.rater is None else raters[one.rater],
            )
            for one in shown
        ],
        dtype=np.int64,
    ).reshape(-1, 6)
    first, second, choice, item, cluster, rater = columns.T
    return ShownPairs(tuple(systems), first, second, choice, item, cluster, rater, covariates=list_covariates(shown))


def list_covariates(shown: Sequence[ShownPair]) -> dict[str, Floats]:
    """The differences that all looks have, the first's less the second's; that in length as `scale_lengths` makes
    it."""
    if not shown:
        return {}
    names = set(shown[0].covariates).intersection(*(one.covariates for one in shown[1:]))
    found = {name: np.array([one.covariates[name] for one in shown], dtype=np.float64) for name in sorted(names)}
    lengths = [
        one.first_length - one.second_length
        for one in shown
        if one.first_length is not None and one.second_length is not None
    ]
    if len(lengths) == len(shown):
        found[LENGTH] = scale_lengths(np.array(lengths, dtype=np.float64))
    return {name: values for name, values in found.items() if np.any(values)}


def scale_lengths(differences: Floats) -> Floats:
    """Differences in length as AlpacaEval 2 takes them (Dubois et al. 2024, arXiv 2404.04475): in standard deviations,
    and bounded by tanh. They are not centred, so that 0 stays equal length."""
    scale = float(np.sqrt(np.mean(differences**2))) if len(differences) else 0.0
    found: Floats = np.tanh(differences / scale) if scale else np.zeros(len(differences))
    return found

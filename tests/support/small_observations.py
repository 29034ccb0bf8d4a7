"""Observations from plain rows, as a test writes them."""

from collections.abc import Iterable, Mapping
from math import nan

import numpy as np

from saiten_server.stats.observations import NO_RATER, Observations

Row = tuple[str, str, Mapping[str, float]]


def observe(rows: Iterable[Row]) -> Observations:
    """Rows of (system, item, ratings); an aspect that a row lacks is NaN there."""
    rows = list(rows)
    systems = tuple(dict.fromkeys(system for system, _, _ in rows))
    items = tuple(dict.fromkeys(item for _, item, _ in rows))
    aspects = dict.fromkeys(name for _, _, ratings in rows for name in ratings)
    return Observations(
        systems=systems,
        items=items,
        raters=(),
        system=np.array([systems.index(system) for system, _, _ in rows], dtype=np.int64),
        item=np.array([items.index(item) for _, item, _ in rows], dtype=np.int64),
        rater=np.full(len(rows), NO_RATER, dtype=np.int64),
        ratings={name: np.array([ratings.get(name, nan) for _, _, ratings in rows]) for name in aspects},
    )

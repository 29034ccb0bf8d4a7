"""Observations for tests, from records or from tables of raters by items."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from saiten_server.stats.observations import NO_RATER, Floats, Observations
from saiten_server.stats.reading import ObservationReader


def observe(records: Iterable[Any], **settings: Any) -> Observations:
    """The observations of records, numbered from 1."""
    reader = ObservationReader(**settings)
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    return reader.finish()


def observe_table(table: Sequence[Sequence[float]] | Floats, aspect: str = "natural") -> Observations:
    """Raters' ratings of one aspect, shape (raters, items), NaN where there is none."""
    values = np.asarray(table, dtype=np.float64)
    raters, items = values.shape
    rater, item = np.divmod(np.arange(values.size), items)
    return Observations(
        systems=("A",),
        items=tuple(map(str, range(items))),
        raters=tuple(map(str, range(raters))),
        system=np.zeros(values.size, dtype=np.int64),
        item=item,
        rater=rater,
        ratings={aspect: values.ravel()},
    )


def observe_columns(
    ratings: Mapping[str, Floats],
    scores: Mapping[str, Floats] | None = None,
    similarity: Floats | None = None,
    systems: Sequence[int] | None = None,
) -> Observations:
    """One row an item, without raters; `systems` are the items' systems, shapes (n,)."""
    n = len(next(iter(ratings.values())))
    system = np.zeros(n, dtype=np.int64) if systems is None else np.asarray(systems, dtype=np.int64)
    return Observations(
        systems=tuple(f"system {number}" for number in range(int(system.max(initial=0)) + 1)),
        items=tuple(map(str, range(n))),
        raters=(),
        system=system,
        item=np.arange(n),
        rater=np.full(n, NO_RATER),
        ratings={aspect: np.asarray(column, dtype=np.float64) for aspect, column in ratings.items()},
        scores={aspect: np.asarray(column, dtype=np.float64) for aspect, column in (scores or {}).items()},
        similarity=None if similarity is None else np.asarray(similarity, dtype=np.float64),
    )

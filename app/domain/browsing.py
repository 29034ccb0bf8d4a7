"""How a batch's results are sorted and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.batch import Candidate, Entry
from app.domain.summary import Scores

MOST_MEASURES = 40
"""Measures of a batch that results can be sorted and filtered by: those after the fortieth are shown only."""

ANY_ASPECT = "*"
"""In `ResultQuery.unrated`: whichever aspect it is."""


@dataclass(frozen=True)
class ResultQuery:
    """Which results of a batch, and in which order.

    A measure is an aspect (the mean of its samples), a composite, or `NAME.blended`. `sort` is a measure, or None for
    the batch's own order; results without a value of it come last either way, and equal ones in the batch's order.
    With `target`, results are sorted by their distance from it. `values` wants measures to have these values,
    `unrated` an aspect without a rating, `text` what context, response or item id contain (case counts for no ASCII
    letter).
    """

    sort: str | None = None
    descending: bool = False
    target: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    status: str | None = None
    system: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Browsed:
    """One result as a table shows it. `evaluation` is its id, that of a failure too."""

    entry: Entry
    evaluation: str
    scores: Scores
    candidate: Candidate


@dataclass(frozen=True)
class BrowsedPage:
    """`total` counts all results that fit, of which these are some."""

    total: int
    rows: Sequence[Browsed]

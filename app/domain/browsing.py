"""How a batch's results are sorted and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.batch import Candidate, Entry
from app.domain.summary import Scores

MOST_MEASURES = 40
"""Measures of a batch by which results can be sorted and filtered; any further ones are only shown."""

ANY_ASPECT = "*"
"""In `ResultQuery.unrated`: any aspect."""


FINDING = "finding:"
"""Comes before the code of a finding where findings stand among warnings."""


@dataclass(frozen=True)
class ResultQuery:
    """Which results of a batch, and in which order.

    A measure is an aspect (the mean of its samples), a composite, or `NAME.blended`. `sort` is a measure, or None for
    the batch's order; results without a value come last, and equal ones keep the batch's order. With `target`, results
    are sorted by their distance from it. `values` filters by the values of measures, `unrated` by an aspect without a
    rating, `finding` by the code of a conversation's findings, and `text` by context, response or item id, ignoring
    case and width.
    """

    sort: str | None = None
    descending: bool = False
    target: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    finding: str | None = None
    status: str | None = None
    system: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Browsed:
    """One result as a table shows it. `evaluation` is its id; a failure has one too."""

    entry: Entry
    evaluation: str
    scores: Scores
    candidate: Candidate


@dataclass(frozen=True)
class BrowsedPage:
    """A page of the results; `total` counts all results that match."""

    total: int
    rows: Sequence[Browsed]

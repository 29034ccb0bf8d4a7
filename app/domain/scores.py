"""One result as figures: what summaries and analyses read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.domain.batch import Entry


class Scores(NamedTuple):
    """One result as summaries and analyses need it. `aspects` holds (mean rating or None, blended value or None,
    unrated reason or None, rating or None) by aspect.

    `similarity` is b; `system` is what the candidate's own metadata name as such; `context` is the digest of its
    dialogue context.
    """

    status: str
    aspects: Mapping[str, tuple[float | None, float | None, str | None, int | None]]
    composites: Mapping[str, float | None]
    warnings: tuple[str, ...] = ()
    failure: str | None = None
    similarity: float | None = None
    system: str | None = None
    context: str | None = None


class Scored(NamedTuple):
    """A result's place in its batch, its id as an evaluation, and its scores."""

    entry: Entry
    evaluation: str
    scores: Scores


class ValuesPage(NamedTuple):
    """Values of some results by `names`: aspects, composites and `NAME.blended`. A row has the position, the digest of
    the cluster (None where the result stands alone), and the values in the order of the names, None for a missing one.
    """

    names: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

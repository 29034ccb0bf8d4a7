"""The result of one candidate, as it is stored and read back, and how results and cases of several runs are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.evaluation import CallTrace, Evaluation
from saiten_server.core.redaction import texts_asked
from saiten_server.runs.summary import SYSTEM


@dataclass(frozen=True)
class Result:
    """A candidate's evaluation, or the `failure` in its place, which has an id of its own too. `asked` is what was
    evaluated, and `trace` the calls to the judge: where many results are read, both are left out. `untold` says why the
    texts of an adopted result are not there."""

    id: str
    entry: Entry
    evaluation: Evaluation | None = None
    failure: Failure | None = None
    asked: Candidate | None = None
    trace: tuple[CallTrace, ...] = ()
    untold: Message | None = None

    @property
    def candidate(self) -> Candidate:
        """What was evaluated. Raises ValueError where it was left out."""
        if self.asked is None:
            raise ValueError("this result was read without its candidate")
        return self.asked

    @property
    def system(self) -> str | None:
        """What produced the response, as its evaluation says; None for a failure."""
        return self.evaluation.metadata.get(SYSTEM) if self.evaluation else None

    @property
    def status(self) -> str:
        """`scored`, `partial` or `failed`."""
        return self.evaluation.status if self.evaluation else "failed"

    def line(self) -> dict[str, Any]:
        """The result as one line of NDJSON: the place in the batch first, then the evaluation's fields, and the texts
        where they were read and are still there."""
        place, texts = self.entry.model_dump(), texts_asked(self.asked)
        if self.evaluation is not None:
            return {**place, **self.evaluation.model_dump(mode="json"), **texts}  # which has `dialogue` too
        error = self.failure.model_dump() if self.failure else None
        return {**place, "status": "failed", "error": error, **texts}


ANY_ASPECT = "*"
"""In `ResultQuery.unrated`: any aspect."""


@dataclass(frozen=True)
class ResultQuery:
    """Which results of a batch, and in which order.

    A measure is an aspect (the mean of its samples), a composite, or `NAME.blended`. `sort` is a measure, or None for
    the batch's order; results without a value come last, and equal ones keep the batch's order. With `target`, results
    are sorted by their distance from it; with `by_spread`, by how far their samples are apart. With `ranked`, positions
    in order, there are no other results.

    `levels` filters by the least and the most that a measure may be, `unrated` by an aspect without a rating, `warning`
    by a warning or, after `FINDING`, the code of a conversation's findings, `metadata` by an entry, and `text` by
    context, response or item id, ignoring case and width.
    """

    sort: str | None = None
    descending: bool = False
    target: float | None = None
    by_spread: bool = False
    ranked: tuple[int, ...] | None = None
    levels: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    status: str | None = None
    metadata: tuple[str, str] | None = None
    text: str | None = None


MOST_BROWSED_RUNS = 8
MOST_RESULTS = 500_000
"""Results of all chosen runs, whose values are in memory together: 40 MB."""

CaseSort = Literal["drop", "gain", "runs", "samples", "people", "worst", "best", "item"]
"""Largest drop or gain from the first run to another; most disagreement of runs, of a response's samples, or of judge
and people; worst or best value in any run; the first run's order."""

CaseChoice = Literal["all", "changed", "beyond"]
"""All cases, those whose values differ from the first run's, or those that differ by more than the judge's noise."""


@dataclass(frozen=True)
class CaseQuery:
    """Which cases, and in which order. A case is an item with all runs' responses to it.

    `measure` is what values and changes are of: an aspect, a composite or `NAME.blended`; None for all aspects.
    `levels` are the least and the most that any run's value of a measure may be. `unrated` is an aspect without a
    rating in any run, `warning` and `status` are of any response, `text` is in any context, response or item id, and
    `metadata` is an entry of any item.
    """

    sort: CaseSort = "drop"
    measure: str | None = None
    show: CaseChoice = "all"
    levels: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    status: str | None = None
    text: str | None = None
    metadata: tuple[str, str] | None = None


@dataclass(frozen=True)
class CaseScale:
    """Lowest and highest value of a measure, and the best one where that lies inside."""

    low: float
    high: float
    best: float | None = None

    @property
    def width(self) -> float:
        """How far a value can be from the best one."""
        return (self.high - self.low if self.best is None else max(self.best - self.low, self.high - self.best)) or 1.0


@dataclass(frozen=True)
class CaseRow:
    """A case with the runs' responses in their order. `positions` are those of the first response to it in each run,
    None where a run has none, and `counts` how many there are. `values` are the means of these, by measure; `shares`
    and `changes` are of what the query measures: the mean share of the scale, and its difference from the first run,
    positive toward the best."""

    positions: Sequence[int | None]
    counts: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    shares: Sequence[float | None]
    changes: Sequence[float | None]
    disagreement: float | None = None
    """By what the cases are sorted, as a share of the scale; None where they are not sorted by disagreement."""


@dataclass(frozen=True)
class CasePage:
    """Cases from an offset on. `total` counts those that match, `cases` all; `warnings` counts results by code."""

    total: int
    cases: int
    rows: Sequence[CaseRow]
    warnings: Mapping[str, int] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)

"""A run in memory: its results as columns, each declared once.

Loads numpy, so requests that are only checked do not import it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from app.domain.comparison import FINDING
from app.domain.conversation import KIND
from app.domain.model import key_of
from app.domain.summary import Kind, MeasureKey

Places = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]

JUDGED_KINDS: tuple[Kind, ...] = ("aspect", "composite", "blended")
"""What a judge's verdict gives; findings have kinds of their own."""


class Label(NamedTuple):
    """What results have in common that are alike in all but their numbers: the status, the warnings (`finding:CODE`
    among them for the findings in a conversation), the aspects without a rating, those of them that do not apply to a
    conversation, and the system of the candidate's own metadata, None where these name none."""

    status: str
    warnings: frozenset[str] = frozenset()
    unrated: frozenset[str] = frozenset()
    inapplicable: frozenset[str] = frozenset()
    system: str | None = None


def is_judged(label: Label) -> bool:
    """Whether the results are no failures: a judgement without a single rating is one of a failed status."""
    return label.status != "failed" or bool(label.unrated)


class RunRatings(NamedTuple):
    """People's ratings one by one, each of shape (ratings,): the response's row, the rater's key, and the value."""

    row: Integers
    rater: Integers
    value: Floats


class RunNames(NamedTuple):
    """What results are called, which only those who show or look up names read; each of shape (n,), by position."""

    positions: Places
    evaluations: Sequence[str]
    items: Sequence[str]
    candidates: Places


class Column(NamedTuple):
    """What a column of a run is. `absent` stands where there is no value, and `source` is the column of
    `result_figures` that it is read from; None for one that is made in memory."""

    dtype: DTypeLike
    absent: float
    meaning: str
    source: str | None = None


@dataclass(frozen=True)
class RunFrame:
    """The results of a run as columns of shape (n,), in the run's order; `COLUMNS` are those that every run has.

    `labels` are what `label` numbers. `values` holds each measure by kind and name: the mean rating by aspect,
    composites, blended ratings by aspect, and findings (as `finding:CODE`, or `finding:kind:KIND`) in system turns with
    one per 100; NaN where there is no value. `people` holds the means of people's ratings by name, NaN where there is
    none, and `said` the ratings themselves; both are empty where no one rated. `noise` is the variance of the mean over
    a response's samples by aspect, NaN where there are fewer than two; empty unless it was read.
    """

    positions: Annotated[
        Places, Column(np.int32, 0, "the result's place in its batch or file, from 0, ascending", "position")
    ]
    items: Annotated[Integers, Column(np.int64, 0, "key of the item's id (`key_of`)", "item_key")]
    contexts: Annotated[
        Integers, Column(np.int64, 0, "key of the digest of the dialogue context; 0 where not known", "context_key")
    ]
    clusters: Annotated[
        Integers, Column(np.int64, 0, "key of the dialogue that the response is a turn of; 0 where none", "cluster")
    ]
    spread: Annotated[
        Singles,
        Column(
            np.float32,
            np.nan,
            "mean standard deviation of the samples over the aspects with several, as a share of each scale",
            "spread",
        ),
    ]
    similarity: Annotated[Floats, Column(np.float64, np.nan, "relevance of the response to its context, b")]
    system_turns: Annotated[Places, Column(np.int32, 0, "the system's turns in a conversation; 0 where there is none")]
    label: Annotated[Integers, Column(np.int64, 0, "the number of one of the `labels`")]
    weights: Annotated[Floats, Column(np.float64, 1, "what people's ratings of it weigh, relative to other responses")]
    candidates: Annotated[
        Places, Column(np.int32, -1, "the number of the response among the item's candidates; −1 where none, or unread")
    ]
    texts: Annotated[
        Integers, Column(np.int64, 0, "key of the context and the response as they came; 0 where gone, or unread")
    ]
    labels: tuple[Label, ...]
    values: Mapping[MeasureKey, Floats]
    people: Mapping[str, Floats] = field(default_factory=dict)
    said: Mapping[str, RunRatings] = field(default_factory=dict)
    noise: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def nbytes(self) -> int:
        columns = [getattr(self, name) for name in COLUMNS]
        return sum(int(each.nbytes) for each in (*columns, *self.values.values(), *self.people.values()))

    @cached_property
    def judged(self) -> int:
        """How many results are no failures."""
        return int(np.count_nonzero(self.marked(is_judged)))

    @cached_property
    def valued(self) -> bool:
        """Whether any result has a rating."""
        return any(kind in JUDGED_KINDS and not np.isnan(column).all() for (kind, _), column in self.values.items())

    @cached_property
    def inapplicable(self) -> Mapping[str, int]:
        """By aspect the results that it does not apply to."""
        return self.count_labels(lambda label: label.inapplicable)

    def count_labels(self, names: Callable[[Label], Iterable[str]]) -> Counter[str]:
        """The results by the names that their labels have."""
        found = Counter[str]()
        for label, count in zip(self.labels, np.bincount(self.label, minlength=len(self.labels)), strict=True):
            found.update(dict.fromkeys(names(label), int(count)))
        return found

    def marked(self, has: Callable[[Label], bool]) -> Flags:
        """The rows whose label has something, shape (n,)."""
        return np.array([has(label) for label in self.labels], dtype=bool)[self.label]

    def take(self, rows: Integers) -> RunFrame:
        """The run of these rows alone, without people's ratings and noise."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        values = {key: column[rows] for key, column in self.values.items()}
        return replace(self, **columns, values=values, people={}, said={}, noise={})

    def at(self, positions: Places) -> Integers:
        """The rows of these positions, those that there are."""
        rows = np.searchsorted(self.positions, positions)
        there = rows < len(self.positions)
        found: Integers = rows[there][self.positions[rows[there]] == positions[there]]
        return found


COLUMNS: Mapping[str, Column] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(RunFrame, include_extras=True).items()
    if get_origin(hint) is Annotated
}


def make_frame(
    count: int,
    values: Mapping[MeasureKey, Floats],
    labels: Sequence[Label] = (Label("scored"),),
    **columns: NDArray[Any],
) -> RunFrame:
    """A run of so many results from the columns that are known, by name; what is not known is absent."""
    if unknown := columns.keys() - COLUMNS.keys():
        raise TypeError(f"a run has no column {unknown}")
    found: dict[str, Any] = {name: np.full(count, one.absent, dtype=one.dtype) for name, one in COLUMNS.items()}
    found |= {name: np.asarray(given, dtype=COLUMNS[name].dtype) for name, given in columns.items()}
    return RunFrame(labels=tuple(labels), values=values, **found)


class FrameRows:
    """Results that come one by one, and the run of all."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: dict[str, list[float]] = {}
        self._values: dict[MeasureKey, array[float]] = {}
        self._labels: dict[Label, int] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, label: Label, values: Mapping[MeasureKey, float | None], **columns: float) -> None:
        """Takes in a result with its values, None for none, and columns by name; each has the same ones."""
        for key, value in values.items():
            if (column := self._values.get(key)) is None:
                column = self._values[key] = array("d")
            if len(column) < self._count:
                self._fill(column)
            column.append(nan if value is None else value)
        columns["label"] = self._labels.setdefault(label, len(self._labels))
        for name, given in columns.items():
            self._columns.setdefault(name, []).append(given)
        self._count += 1

    def _fill(self, column: array[float]) -> None:
        column.extend([nan] * (self._count - len(column)))

    def finish(self) -> RunFrame:
        """The run. Nothing may be added any more."""
        for column in self._values.values():
            self._fill(column)
        values = {key: np.frombuffer(column, dtype=np.float64) for key, column in self._values.items() if column}
        columns = {name: np.array(given) for name, given in self._columns.items()}
        return make_frame(self._count, values, [*self._labels], **columns)


def kind_of(finding: str) -> Kind:
    """What a rate of findings is of: kinds of faults are tested among themselves."""
    return "kind" if finding.startswith(FINDING + KIND) else "finding"


def key_all(names: Sequence[str | None]) -> Integers:
    """The keys of the names, 0 of None; shape (n,)."""
    keys = {name: key_of(name) for name in {*names} if name is not None}
    return np.array([0 if name is None else keys[name] for name in names], dtype=np.int64)

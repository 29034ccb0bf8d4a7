"""A run in memory: its results as columns, each declared once.

Loads numpy, so requests that are only checked do not import it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import nan
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from saiten_server.core.conversation import FINDING, KIND, FaultyTurns
from saiten_server.core.model import key_of
from saiten_server.runs.summary import Kind, MeasureKey
from saiten_server.stats.observations import weigh_inversely

MEASURE_KINDS: tuple[Kind, ...] = ("aspect", "composite", "blended", "finding", "kind")


Places = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]

JUDGED_KINDS: tuple[Kind, ...] = ("aspect", "composite", "blended")
"""What a judge's verdict gives; findings have kinds of their own."""


class Label(NamedTuple):
    """What results have in common that are alike in all but their numbers: the status, the warnings (`finding:CODE`
    among them for the findings in a conversation), why aspects have no rating, the system and its build in the
    candidate's own metadata, None where these name none, and the code of the failure in the place of an evaluation."""

    status: str
    warnings: frozenset[str] = frozenset()
    reasons: frozenset[tuple[str, str | None]] = frozenset()
    system: str | None = None
    build: str | None = None
    failure: str | None = None

    @property
    def unrated(self) -> frozenset[str]:
        """The aspects without a rating."""
        return frozenset(name for name, _ in self.reasons)

    @property
    def inapplicable(self) -> frozenset[str]:
        """Those of them that do not apply to the conversation."""
        return frozenset(name for name, reason in self.reasons if reason == "not-applicable")


def is_judged(label: Label) -> bool:
    """Whether the results are no failures: a judgement without a single rating is one of a failed status."""
    return label.status != "failed" or bool(label.unrated)


class RunRatings(NamedTuple):
    """People's ratings one by one, each of shape (ratings,): the response's row, the rater's key, and the value."""

    row: Integers
    rater: Integers
    value: Floats


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

    `labels` are what `label` numbers, and `faults` what `fault` does: the faulty turns of a conversation, None of
    anything else. `values` holds each measure by kind and name: the mean rating by aspect, composites, blended ratings
    by aspect, and findings (as `finding:CODE`, or `finding:kind:KIND`) in system turns with one per 100; NaN where
    there is no value. `ratings` are those of aspects where they are not the mean. `people` holds the means of people's
    ratings by name, NaN where there is none, and `said` the ratings themselves; both are empty where no one rated.
    `noise` is the variance of the mean over a response's samples by aspect, NaN where there are fewer than two; empty
    unless it was read.
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
    candidates: Annotated[
        Places, Column(np.int32, -1, "the number among the item's responses, from 0; −1 of a single one", "candidate")
    ]
    similarity: Annotated[
        Floats, Column(np.float64, np.nan, "b, the similarity of the response to the utterance before it", "similarity")
    ]
    label: Annotated[Integers, Column(np.int64, 0, "the number of one of the `labels`")]
    fault: Annotated[Integers, Column(np.int64, 0, "the number of one of the `faults`")]
    weights: Annotated[Floats, Column(np.float64, 1, "what people's ratings of it weigh, relative to other responses")]
    probability: Annotated[
        Floats,
        Column(np.float64, 1, "that with which a monitor sampled the conversation; 1 of anything else", "probability"),
    ]
    texts: Annotated[
        Integers, Column(np.int64, 0, "key of the context and the response as they came; 0 where gone, or unread")
    ]
    labels: tuple[Label, ...]
    values: Mapping[MeasureKey, Floats]
    ratings: Mapping[str, Floats] = field(default_factory=dict)
    faults: tuple[FaultyTurns | None, ...] = (None,)
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

    def find_rows(self, has: Callable[[Label], bool]) -> Integers:
        """The numbers of these rows."""
        return np.flatnonzero(self.marked(has))

    def read(self, key: MeasureKey) -> Floats:
        """The values of a measure, shape (n,); all NaN where no result has it."""
        column = self.values.get(key)
        return np.full(len(self), np.nan) if column is None else column

    @cached_property
    def system_turns(self) -> Integers:
        """The system's turns in each conversation, shape (n,); 0 of anything else."""
        return np.array([0 if one is None else one.system_turns for one in self.faults], dtype=np.int64)[self.fault]

    def count_faults(self, code: str) -> Floats:
        """The system turns with a finding of the code, shape (n,); NaN where that is not known."""
        turns = [None if one is None else one.turns_of(code) for one in self.faults]
        return np.array([np.nan if one is None else len(one) for one in turns])[self.fault]

    @cached_property
    def shares(self) -> Floats | None:
        """What each result counts for beside the others, by the inverse of the probability with which it was sampled,
        on average 1 (Horvitz and Thompson 1952), shape (n,); None where all count the same."""
        return weigh_inversely(self.probability)

    def take(self, rows: Integers) -> RunFrame:
        """The run of these rows alone, without people's ratings and noise."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        values = {key: column[rows] for key, column in self.values.items()}
        ratings = {name: column[rows] for name, column in self.ratings.items()}
        return RunFrame(labels=self.labels, faults=self.faults, values=values, ratings=ratings, **columns)

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
    *,
    ratings: Mapping[str, Floats] | None = None,
    faults: Sequence[FaultyTurns | None] = (None,),
    **columns: NDArray[Any],
) -> RunFrame:
    """A run of so many results from the columns that are known, by name; what is not known is absent."""
    if unknown := columns.keys() - COLUMNS.keys():
        raise TypeError(f"a run has no column {unknown}")
    # What is absent takes no memory, and nothing writes into a frame.
    found: dict[str, Any] = {
        name: np.broadcast_to(np.array(one.absent, dtype=one.dtype), count) for name, one in COLUMNS.items()
    }
    found |= {name: np.asarray(given, dtype=COLUMNS[name].dtype) for name, given in columns.items()}
    return RunFrame(labels=tuple(labels), values=values, ratings=ratings or {}, faults=tuple(faults), **found)


def join_frames(frames: Sequence[RunFrame]) -> RunFrame:
    """The results of all in one run, without what people said."""
    if len(frames) < 2:
        return frames[0] if frames else make_frame(0, {}, [])
    columns: dict[str, Any] = {name: np.concatenate([getattr(frame, name) for frame in frames]) for name in COLUMNS}
    labels: dict[Label, int] = {}
    numbers = [np.array([labels.setdefault(one, len(labels)) for one in frame.labels])[frame.label] for frame in frames]
    first = np.cumsum([0, *(len(frame.faults) for frame in frames)])
    columns["label"] = np.concatenate(numbers)
    columns["fault"] = np.concatenate([frame.fault + number for frame, number in zip(frames, first, strict=False)])
    return RunFrame(
        labels=tuple(labels),
        faults=tuple(chain.from_iterable(frame.faults for frame in frames)),
        values=join_columns([frame.values for frame in frames], [*map(len, frames)]),
        ratings=join_columns([frame.ratings for frame in frames], [*map(len, frames)]),
        **columns,
    )


def join_columns(parts: Sequence[Mapping[Any, Floats]], sizes: Sequence[int]) -> dict[Any, Floats]:
    """The columns of parts of so many rows, one after another: NaN where a part lacks one."""
    nothing = [np.full(size, np.nan) for size in sizes]
    keys = dict.fromkeys(chain.from_iterable(parts))
    return {key: np.concatenate([part.get(key, own) for part, own in zip(parts, nothing, strict=True)]) for key in keys}


class LoadedColumns(Mapping[Any, Floats]):
    """Columns that are made again whenever one is looked at, for a run whose values do not fit into memory together.
    `loaders` make each by its key."""

    def __init__(self, loaders: Mapping[Any, Callable[[], Floats]]) -> None:
        self._loaders = loaders

    def __getitem__(self, key: Any) -> Floats:
        return self._loaders[key]()

    def __contains__(self, key: object) -> bool:
        return key in self._loaders

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


class FrameRows:
    """Results that come one by one, and the run of all."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: dict[str, list[float]] = {}
        self._values: dict[MeasureKey, array[float]] = {}
        self._labels: dict[Label, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def cells(self) -> int:
        """How many values the run has, those that results lack among them."""
        return self._count * len(self._values)

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
        columns: dict[str, Any] = {name: np.array(given) for name, given in self._columns.items()}
        return make_frame(self._count, values, [*self._labels], **columns)


def kind_of(finding: str) -> Kind:
    """What a rate of findings is of: kinds of faults are tested among themselves."""
    return "kind" if finding.startswith(FINDING + KIND) else "finding"


def key_all(names: Sequence[str | None]) -> Integers:
    """The keys of the names, 0 of None; shape (n,)."""
    keys = {name: key_of(name) for name in {*names} if name is not None}
    return np.array([0 if name is None else keys[name] for name in names], dtype=np.int64)

"""Runs from Parquet files of results: a folder or an `fsspec` URL becomes a `RunFrame`, a column at a time.

pyarrow reads them, because scorers speak Arrow already: polars would be a second library of its size. Columns of which
row groups' statistics tell everything (all null, or all alike) are not read, and the values of a large run are read
whenever they are looked at, so that it takes as much memory as its keys and one measure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from saiten.core.messages import Message
from saiten_server.core.batch import BatchUsage
from saiten_server.core.conversation import FINDING, FaultyTurns, codes_of, list_codes
from saiten_server.core.dialogue import digest_context
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import key_of
from saiten_server.core.rubric import Rubric
from saiten_server.offline.frame_files import UNTOLD
from saiten_server.offline.opened_files import FrameFiles
from saiten_server.runs.frame import Floats, Integers, Label, LoadedColumns, RunFrame, kind_of, make_frame
from saiten_server.runs.summary import LEAST_PROBABILITY, MeasureKey

MOST_DISTINCT_VALUES = 10_000
"""Different statuses, systems, reasons and so on: of a run there are a few dozen."""

MOST_FAULTY = 4_000_000
"""Different lists of a conversation's faulty turns."""

USED = ("judge_calls", "prompt_tokens", "completion_tokens")

HELD_BYTES = 64 << 20
"""Values of a run that are kept in memory. Those of a larger one are read again whenever they are looked at."""

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Fibonacci hashing: an odd number that spreads keys over 64 bits."""

Codes = NDArray[np.int32]
Loaders = Mapping[MeasureKey, Callable[[], Floats]]
Key = TypeVar("Key")


class FileRun(NamedTuple):
    """A run that was read from files: its results, how many have each signature, and how many rows were left out
    because their results stand in an earlier row too. `usage` is what the results took, and `place` tells the file and
    the row group of a result's row."""

    frame: RunFrame
    signatures: Counter[str]
    repeated: int
    usage: BatchUsage
    place: Callable[[int], str]


class Rows(NamedTuple):
    """The rows of files that count: `kept` are their numbers in order, None where all do."""

    files: FrameFiles
    kept: Integers | None

    @property
    def size(self) -> int:
        """How many there are."""
        return self.files.rows if self.kept is None else len(self.kept)

    def take(self, column: NDArray[Any]) -> NDArray[Any]:
        """These rows of a column, of shape (n,)."""
        return column if self.kept is None else column[self.kept]

    def numbers(self, name: str, absent: float, dtype: Any) -> NDArray[Any]:
        """A column of numbers; `absent` where it is null."""
        return self.take(self.files.read_numbers(name, absent, dtype))

    def floats(self, name: str) -> Floats:
        """A column of values, NaN where there is none. Raises InvalidRequest for an infinite one."""
        found = self.numbers(name, np.nan, np.float64)
        if np.isinf(found).any():
            row = int(np.flatnonzero(np.isinf(found))[0])
            raise InvalidRequest(Message("frame-value-infinite", place=self.place(row), column=name))
        return found

    def codes(self, name: str, most: int | None = None) -> tuple[Codes, list[str | None]]:
        """A column of texts as numbers of what it holds."""
        codes, values = self.files.read_codes(name, most or MOST_DISTINCT_VALUES)
        return self.take(codes), values

    def place(self, row: int) -> str:
        """The file and the row group of a row."""
        return self.files.place(row if self.kept is None else int(self.kept[row]))


def read_run(files: FrameFiles, rubric: Rubric) -> FileRun:
    """The run that the files hold, with what the rubric measures: each row that was written twice counts once, by its
    first. Raises InvalidRequest, which names the file and the row group."""
    rows = Rows(files, find_kept(files))
    faults, fault = read_faults(rows)
    labels, label = read_labels(rows, rubric, [codes_of(one) for one in faults], fault)
    values = list_loaders(rows, rubric, faults, fault)
    ratings = {
        one.id: partial(read_rating_column, rows, one.id)
        for one in rubric.aspects
        if rows.files.holds(f"rating.{one.id}")
    }
    frame = make_frame(
        rows.size,
        load(values, rows.size),
        labels,
        ratings=load(ratings, rows.size),
        faults=faults,
        positions=np.arange(rows.size, dtype=np.int32),
        items=rows.numbers("item_key", 0, np.int64),
        contexts=rows.numbers("context_key", 0, np.int64),
        clusters=read_clusters(rows),
        candidates=rows.numbers("candidate", -1, np.int32),
        similarity=rows.numbers("similarity", np.nan, np.float64),
        spread=rows.numbers("spread", np.nan, np.float32),
        probability=read_probabilities(rows),
        label=label,
        fault=fault,
    )
    return FileRun(frame, count_signatures(rows), files.rows - rows.size, add_usage(rows), rows.place)


NO_CONTEXT = key_of(digest_context(()))


def read_clusters(rows: Rows) -> Integers:
    """The clusters of results, 0 of one that stands alone. Results that name no dialogue and answer one context are a
    cluster, as at the intake of a service, which also sees what continues a context."""
    clusters = rows.numbers("cluster_key", 0, np.int64)
    contexts = rows.numbers("context_key", 0, np.int64)
    places = np.flatnonzero((clusters == 0) & (contexts != 0) & (contexts != NO_CONTEXT))
    ordered = np.sort(contexts[places])
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(shared):
        return clusters
    own = contexts[places]
    found: Integers = clusters.copy()
    found[places] = np.where(np.isin(own, shared), own, 0)
    return found


def find_kept(files: FrameFiles) -> Integers | None:
    """The rows that are not written a second time, by their numbers in order; None where all are: an engine that
    retries writes rows twice. Rows of one key are of equal texts, and of different items they are different results."""
    hashed = files.read_numbers("row_key", 0, np.int64).view(np.uint64) * MIX
    hashed ^= files.read_numbers("item_key", 0, np.int64).view(np.uint64)
    hashed *= MIX
    candidates = files.read_numbers("candidate", -1, np.int32)
    if candidates.flags.writeable:
        hashed ^= candidates.astype(np.int64).view(np.uint64)
    ordered = np.sort(hashed)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    del ordered
    first: Integers = np.sort(np.unique(hashed, return_index=True)[1])
    return first


def read_probabilities(rows: Rows) -> Floats:
    """With which each result's conversation was sampled, 1 where none was, shape (n,). Raises InvalidRequest for what
    is no probability."""
    found: Floats = rows.numbers("probability", 1.0, np.float64)
    wrong = np.flatnonzero(~((found >= LEAST_PROBABILITY) & (found <= 1)))
    if len(wrong):
        raise InvalidRequest(Message("frame-probability-invalid", place=rows.place(int(wrong[0]))))
    return found


def read_faults(rows: Rows) -> tuple[list[FaultyTurns | None], Integers]:
    """The faulty turns of conversations, each once, and their numbers by row; None of anything else."""
    turns = rows.numbers("system_turns", 0, np.int32)
    codes, texts = rows.codes("faults", MOST_FAULTY)
    if len(texts) == 1 and texts[0] is None:
        return [None], np.broadcast_to(np.int64(0), rows.size)
    known, first, fault = np.unique(
        codes.astype(np.int64) << 32 | np.maximum(turns, 0), return_index=True, return_inverse=True
    )
    found = []
    for pair, row in zip(known.tolist(), first.tolist(), strict=True):
        text, count = texts[pair >> 32], pair & 0xFFFFFFFF
        try:
            found.append(None if text is None or not count else parse_faulty(text, count))
        except ValueError:
            raise InvalidRequest(Message("frame-faults-invalid", place=rows.place(row))) from None
    return found, fault


def parse_faulty(text: str, system_turns: int) -> FaultyTurns:
    """The faulty turns in a cell. Raises ValueError for anything else."""
    told = json.loads(text)
    if not isinstance(told, dict) or not all(isinstance(turns, list) for turns in told.values()):
        raise ValueError(text)
    if not all(type(turn) is int and 0 <= turn < system_turns for turns in told.values() for turn in turns):
        raise ValueError(text)
    return FaultyTurns(system_turns, told)


def read_labels(
    rows: Rows, rubric: Rubric, found: Sequence[Sequence[str]], fault: Integers
) -> tuple[list[Label], Integers]:
    """What results have in common, each once, and its number by row. `found` are the codes of the findings of each of
    the faults, and `fault` the number of these by row."""
    kinds = [*dict.fromkeys(map(tuple, found))]
    names = ["status", "warnings", "system", "build", "failure", *(f"unrated.{one.id}" for one in rubric.aspects)]
    columns: list[Sequence[Any]] = [kinds]
    radix = len(kinds)
    label: Integers = np.broadcast_to(np.int64(0), rows.size)
    if radix > 1:
        label = np.array([kinds.index(tuple(one)) for one in found], dtype=np.int64)[fault]
    shares = [1]
    for name in names:
        codes, values = rows.codes(name)
        columns.append(values)
        shares.append(radix)
        if len(values) > 1:
            if radix * len(values) >= 2**62:
                raise InvalidRequest(
                    Message("frame-values-most", name=rows.files.name, column=name, most=MOST_DISTINCT_VALUES)
                )
            label = label + codes.astype(np.int64) * radix
        radix *= len(values)
    known, label = number_codes(label, radix)
    told = [
        [column[code // share % len(column)] for column, share in zip(columns, shares, strict=True)] for code in known
    ]
    return [make_label(rubric, found, cells) for found, *cells in told], label


def number_codes(codes: Integers, size: int) -> tuple[list[int], Integers]:
    """Those of the codes, smaller than `size`, that occur, and the number of each row's; shape (n,)."""
    if size == 1 or not len(codes):
        return [0], codes
    if size > 1 << 20:
        known, numbers = np.unique(codes, return_inverse=True)
        return known.tolist(), numbers
    counts = np.bincount(codes, minlength=size)
    known = np.flatnonzero(counts)
    places = np.zeros(size, dtype=np.int64)
    places[known] = np.arange(len(known))
    return known.tolist(), places[codes]


def make_label(rubric: Rubric, found: Sequence[str], cells: Sequence[str | None]) -> Label:
    """The label of rows with these `cells` and findings of these codes, as that of a stored result is made."""
    status, warnings, system, build, failure, *unrated = cells
    reasons = frozenset(
        (one.id, one_word(reason)) for one, reason in zip(rubric.aspects, unrated, strict=True) if reason is not None
    )
    warned = frozenset((*(warnings or "").split(), *(FINDING + code for code in found)))
    return Label(status or "failed", warned, reasons, system, build, failure)


def one_word(reason: str) -> str | None:
    """The reason as a name without spaces; None where none is told."""
    word = "-".join(reason.split())
    return None if word in {"", UNTOLD} else word


def list_loaders(rows: Rows, rubric: Rubric, faults: Sequence[FaultyTurns | None], fault: Integers) -> Loaders:
    """What loads each measure: all aspects of the rubric, of its composites and blends what any result has, and the
    rates of findings that are known."""
    files = rows.files
    found: dict[MeasureKey, Callable[[], Floats]] = {}
    for one in rubric.aspects:
        found["aspect", one.id] = partial(rows.floats, f"mean.{one.id}")
    for composite in rubric.composites:
        found["composite", composite.id] = partial(rows.floats, f"composite.{composite.id}")
    for one in rubric.aspects:
        if files.holds(f"blended.{one.id}"):
            found["blended", one.id] = partial(rows.floats, f"blended.{one.id}")
    known = [one for one in faults if one is not None]
    for code in dict.fromkeys(code for one in known for code in list_codes(one)):
        name = FINDING + code
        found[kind_of(name), name] = partial(rate_rows, faults, fault, code)
    return found


def rate_rows(faults: Sequence[FaultyTurns | None], fault: Integers, code: str) -> Floats:
    """How many of 100 system turns have a finding of the code, shape (n,)."""
    rates = [None if one is None else one.rate_of(code) for one in faults]
    column: Floats = np.array([np.nan if rate is None else rate for rate in rates])[fault]
    return column


def read_rating_column(rows: Rows, aspect: str) -> Floats:
    """The ratings of an aspect where they are not the mean, else NaN; shape (n,)."""
    ratings, means = rows.floats(f"rating.{aspect}"), rows.floats(f"mean.{aspect}")
    column: Floats = np.where(ratings == means, np.nan, ratings)
    return column


def load(loaders: Mapping[Key, Callable[[], Floats]], rows: int) -> Mapping[Key, Floats]:
    """The values of a small run, and of a large one what loads them."""
    if len(loaders) * rows * 8 <= HELD_BYTES:
        return {key: loader() for key, loader in loaders.items()}
    return LoadedColumns(loaders)


def count_signatures(rows: Rows) -> Counter[str]:
    """How many results have each signature."""
    codes, values = rows.codes("signature")
    counts = np.bincount(codes, minlength=len(values)).tolist()
    return Counter({value: count for value, count in zip(values, counts, strict=True) if value is not None and count})


def add_usage(rows: Rows) -> BatchUsage:
    """What the results took together; the cost is not known where that of one is not."""
    counts = {name: int(rows.numbers(name, 0, np.int64).sum()) for name in USED}
    costs = rows.floats("cost_usd")
    cost = None if np.isnan(costs).any() else float(costs.sum())
    return BatchUsage(**counts, cost_usd=cost)

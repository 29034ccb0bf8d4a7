"""The cases of some runs beside each other: paired, sorted and filtered as columns.

Cases are paired as a comparison pairs items: by id, and by context too where an id stands for several contexts, or is
only a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from saiten_server.comparison.pairing import find_shared_ids
from saiten_server.runs.frame import JUDGED_KINDS, Flags, Label, RunFrame
from saiten_server.runs.result import CasePage, CaseQuery, CaseRow, CaseScale
from saiten_server.runs.summary import flat_name
from saiten_server.stats.observations import Floats, Integers

NOISE = 2.0
"""Standard deviations of samples beyond which a change counts."""

BY_CHANCE = np.float32(1e-6)
"""Differences below it are rounding."""


def identify(frames: Sequence[RunFrame], *, numbered: bool, comparable: bool) -> list[Integers]:
    """A key for each row of each run, equal where rows are of one case. `numbered`: the items of a run have nothing but
    numbers, which say little by themselves; `comparable`: equal contexts have equal keys in all runs."""
    shared = find_shared_ids(*frames)
    keys = []
    for number, frame in enumerate(frames):
        by_context = np.ones(len(frame.items), dtype=bool) if numbered else np.isin(frame.items, shared)
        contexts = frame.contexts.copy()
        if not comparable and number:
            contexts ^= number
        elif numbered:
            contexts = np.where(contexts == 0, -number - 1, contexts)
        # Multiplied by an odd number, or an item's and a context's key would cancel each other out.
        mixed = (frame.items.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ contexts.view(np.uint64)
        keys.append(np.where(by_context, mixed.view(np.int64), frame.items))
    return keys


@dataclass(frozen=True)
class CaseTable:
    """Cases in order of their first appearance. `case` holds each frame's rows' cases, `first` the row of the first
    response and `counts` their number, both of shape (runs, cases), `first` −1 where there is none. `shares` has the
    means by measure, as shares of the scale from the worst to the best value, NaN where there is none; `raw` the means
    themselves. `aspects` are the measures that count where none is chosen."""

    frames: Sequence[RunFrame]
    case: Sequence[Integers]
    first: Integers
    counts: Integers
    shares: Mapping[str, Floats]
    raw: Mapping[str, Floats]
    scales: Mapping[str, CaseScale]
    aspects: tuple[str, ...]
    spread: Floats

    @property
    def nbytes(self) -> int:
        columns = [*self.case, self.first, self.counts, *self.shares.values(), *self.raw.values(), self.spread]
        return sum(column.nbytes for column in columns)

    @cached_property
    def statuses(self) -> Mapping[str, int]:
        """Results by status."""
        return self._count(lambda label: [label.status])

    @cached_property
    def warnings(self) -> Mapping[str, int]:
        """Results by warning."""
        return self._count(lambda label: sorted(label.warnings))

    def _count(self, names: Callable[[Label], Iterable[str]]) -> Mapping[str, int]:
        found = Counter[str]()
        for frame in self.frames:
            found.update(frame.count_labels(names))
        return dict(found.most_common())

    def measures(self, measure: str | None) -> tuple[str, ...]:
        """What counts: the measure, or all aspects."""
        return self.aspects if measure is None else (measure,) if measure in self.shares else ()

    def mean(self, measure: str | None) -> Floats:
        """The mean share of what counts, shape (runs, cases)."""
        return average_runs([self.shares[name] for name in self.measures(measure)], self.first.shape)

    def change(self, measure: str | None) -> Floats:
        """The mean difference from the first run over what both have of it, shape (runs, cases); the first run's are
        0 or NaN."""
        columns = (self.shares[name] for name in self.measures(measure))
        return average_runs([shares - shares[0] for shares in columns], self.first.shape)

    def disagree(self, measure: str | None) -> Floats:
        """How far the runs are apart, shape (cases,)."""
        ranges = []
        for name in self.measures(measure):
            shares = self.shares[name]
            high, low = fold_runs(np.fmax, shares), fold_runs(np.fmin, shares)
            ranges.append(np.where((~np.isnan(shares)).sum(axis=0) > 1, high - low, np.nan))
        return average_runs(ranges, self.first.shape[1:])

    def beyond_noise(self, measure: str | None) -> Flags:
        """The cases in which a run differs from the first by more than the samples of either response do; where a
        response has one sample, by more than one level of an aspect, shape (cases,)."""
        changes = np.abs(self.change(measure))
        noise = NOISE * np.sqrt(self.spread**2 + self.spread[0] ** 2)
        beyond = changes > noise + BY_CHANCE
        steps = np.zeros(changes.shape, dtype=bool)
        for name in self.measures(measure):
            apart = np.abs(self.shares[name] - self.shares[name][0]) * self.scales[name].width
            steps |= apart > 1 + 1e-4
        found: Flags = np.logical_or.reduce(np.where(np.isnan(noise), steps, beyond)[1:], axis=0)
        return found

    def mark(self, rows: Sequence[Flags | Integers]) -> Flags:
        """The cases of these rows of the frames, shape (cases,)."""
        found = np.zeros(self.first.shape[1], dtype=bool)
        for cases, chosen in zip(self.case, rows, strict=True):
            found[cases[chosen]] = True
        return found


def average_runs(columns: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    """The mean of those that are there, NaN where none is."""
    total, held = np.zeros(shape), np.zeros(shape)
    for column in columns:
        there = ~np.isnan(column)
        total += np.where(there, column, 0.0)
        held += there
    mean: Floats = np.divide(total, held, out=np.full(shape, np.nan), where=held > 0)
    return mean


def fold_runs(take: np.ufunc, values: Floats) -> Floats:
    """The least or the greatest over the runs, NaN where there is none."""
    folded: Floats = take.reduce(values, axis=0)
    return folded


def make_case_table(
    frames: Sequence[RunFrame], keys: Sequence[Integers], scales: Mapping[str, CaseScale], aspects: Sequence[str]
) -> CaseTable:
    """The runs' results case by case."""
    _, starts, found = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    rank = np.empty(len(starts), dtype=np.int64)
    rank[np.argsort(starts)] = np.arange(len(starts))
    cases = np.split(rank[found.ravel()], np.cumsum([len(key) for key in keys])[:-1])
    shape = len(frames), len(starts)
    first, counts = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for run, case in enumerate(cases):
        counts[run] = np.bincount(case, minlength=shape[1])
        # Backwards, so that the first row of a case is written last.
        first[run][case[::-1]] = np.arange(len(case))[::-1]
    measures = dict.fromkeys(key for frame in frames for key in frame.values if key[0] in JUDGED_KINDS)
    raw, shares, known = {}, {}, dict(scales)
    for key in measures:
        name = flat_name(key)
        columns = [frame.read(key) for frame in frames]
        raw[name] = average_cases(columns, cases, shape)
        if name not in known:
            ends = [float(np.nan_to_num(take.reduce(raw[name], axis=None))) for take in (np.fmin, np.fmax)]
            known[name] = CaseScale(*ends)
        scale = known[name]
        if scale.best is None:
            shares[name] = (raw[name] - scale.low) / scale.width
        else:
            shares[name] = average_cases([1 - np.abs(one - scale.best) / scale.width for one in columns], cases, shape)
    spread = average_cases([frame.spread for frame in frames], cases, shape)
    kept = tuple(name for name in aspects if name in shares)
    return CaseTable(frames, cases, first, counts, shares, raw, known, kept, spread)


def average_cases(columns: Sequence[NDArray[np.floating]], cases: Sequence[Integers], shape: tuple[int, int]) -> Floats:
    """The means by case of what is there, shape (runs, cases)."""
    means = np.full(shape, np.nan)
    for run, (column, case) in enumerate(zip(columns, cases, strict=True)):
        there = ~np.isnan(column)
        held = np.bincount(case[there], minlength=shape[1])
        total = np.bincount(case[there], weights=column[there], minlength=shape[1])
        np.divide(total, held, out=means[run], where=held > 0)
    return means


def choose_cases(
    table: CaseTable, query: CaseQuery, found: Sequence[Sequence[NDArray[np.int32]]], people: Floats | None
) -> tuple[Integers, Floats | None]:
    """The matching cases in order, shape (n,), and by what disagreement they are sorted, shape (cases,). `found` are
    the positions by run that each search left; `people` is how far the judge is from people, shape (cases,)."""
    kept = np.ones(table.first.shape[1], dtype=bool)
    for places in found:
        kept &= table.mark([frame.at(some) for frame, some in zip(table.frames, places, strict=True)])
    wanted: list[Callable[[Label], bool]] = []
    if (warning := query.warning) is not None:
        wanted.append(lambda label: warning in label.warnings)
    if (status := query.status) is not None:
        wanted.append(lambda label: label.status == status)
    if (unrated := query.unrated) is not None:
        wanted.append(lambda label: bool(label.unrated) if unrated == "*" else unrated in label.unrated)
    for has in wanted:
        kept &= table.mark([frame.marked(has) for frame in table.frames])
    for name, (least, most) in query.levels.items():
        raw = table.raw.get(name)
        kept &= False if raw is None else ((raw >= least) & (raw <= most)).any(axis=0)
    if query.show == "changed":
        moved = [
            np.abs(table.shares[name] - table.shares[name][0]) > BY_CHANCE for name in table.measures(query.measure)
        ]
        kept &= np.logical_or.reduce([each.any(axis=0) for each in moved]) if moved else False
    elif query.show == "beyond":
        kept &= table.beyond_noise(query.measure)
    key, apart = sort_key(table, query, people)
    chosen = np.flatnonzero(kept)
    # NaN comes last, and equal ones stay in their order.
    return (chosen if key is None else chosen[np.argsort(key[chosen], kind="stable")]), apart


def sort_key(table: CaseTable, query: CaseQuery, people: Floats | None) -> tuple[Floats | None, Floats | None]:
    """What the cases are sorted by, lowest first, and the disagreement where they are sorted by that; both (cases,)."""
    if query.sort in {"drop", "gain"} and len(table.frames) > 1:
        changes = table.change(query.measure)[1:]
        return (fold_runs(np.fmin, changes) if query.sort == "drop" else -fold_runs(np.fmax, changes)), None
    if query.sort in {"worst", "best", "drop", "gain"}:
        mean = table.mean(query.measure)
        return (-fold_runs(np.fmax, mean) if query.sort in {"best", "gain"} else fold_runs(np.fmin, mean)), None
    if query.sort == "item":
        return None, None
    if query.sort == "runs":
        apart: Floats | None = table.disagree(query.measure)
    else:
        apart = fold_runs(np.fmax, table.spread) if query.sort == "samples" else people
    apart = np.full(table.first.shape[1], np.nan) if apart is None else apart
    return -apart, apart


def measure_people(table: CaseTable, ratings: Mapping[tuple[int, int], Mapping[str, float]]) -> Floats:
    """How far the judge is from people's mean rating, as a share of the scale, the farthest run's; shape (cases,).
    `ratings` are by run and case."""
    apart = np.full(table.first.shape[1], np.nan)
    for (run, case), given in ratings.items():
        found = [
            abs(value - float(table.raw[name][run, case])) / table.scales[name].width
            for name, value in given.items()
            if name in table.raw and not np.isnan(table.raw[name][run, case])
        ]
        if found:
            apart[case] = np.fmax(apart[case], sum(found) / len(found))
    return apart


def page_of(
    table: CaseTable, query: CaseQuery, order: Integers, apart: Floats | None, *, offset: int, limit: int
) -> CasePage:
    """The cases from number `offset` on."""
    changes, shares = table.change(query.measure), table.mean(query.measure)

    def known(value: float) -> float | None:
        return None if np.isnan(value) else float(value)

    rows = []
    for case in order[offset : offset + limit].tolist():
        first = table.first[:, case].tolist()
        places = [
            None if row < 0 else int(frame.positions[row]) for frame, row in zip(table.frames, first, strict=True)
        ]
        values = {name: [known(value) for value in means[:, case]] for name, means in table.raw.items()}
        own_shares, differences = ([known(value) for value in each[:, case]] for each in (shares, changes))
        own = None if apart is None else known(apart[case])
        rows.append(CaseRow(places, table.counts[:, case].tolist(), values, own_shares, differences, own))
    return CasePage(len(order), table.first.shape[1], rows, table.warnings, table.statuses)

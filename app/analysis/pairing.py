"""Which items of two runs belong together, and their values side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.analysis.observations import Floats, Integers
from app.domain.comparison import ChosenTest, Kind, Pairing, PairingTest, Run, RunItem
from app.domain.errors import InvalidRequest

Key = tuple[str, int | None]
MeasureKey = tuple[Kind, str]

LEAST_SHARE = 0.5
"""Of the smaller run's items, how many must find a partner for `auto` to pair."""


@dataclass(frozen=True)
class Columns:
    """A run by measure. `keys` are its distinct items (with candidate), shape (n,); `contexts` their digests.

    `columns` hold the values by kind and name, each of shape (n,), NaN where there is none. `repeated` counts the keys
    that occur several times: each has the mean of its values.
    """

    keys: tuple[Key, ...]
    contexts: tuple[str | None, ...]
    columns: Mapping[MeasureKey, Floats]
    repeated: int

    def column(self, measure: MeasureKey) -> Floats:
        """One measure's values; all NaN where the run does not have it."""
        return self.columns.get(measure, np.full(len(self.keys), np.nan))


def list_measures(*runs: Run) -> list[MeasureKey]:
    """What the runs have values of: aspects, composites, blended aspects, each in order of appearance."""
    aspects = dict.fromkeys(name for run in runs for name in run.aspects)
    composites = dict.fromkeys(name for run in runs for item in run.items for name in item.composites)
    blended = dict.fromkeys(name for run in runs for item in run.items for name in item.blended)
    found: list[MeasureKey] = [("aspect", name) for name in aspects]
    return [*found, *(("composite", name) for name in composites), *(("blended", name) for name in blended)]


def tabulate(run: Run) -> Columns:
    """The run's values by measure, one row an item."""
    rows: dict[Key, int] = {}
    row = np.array([rows.setdefault((one.item, one.candidate), len(rows)) for one in run.items], dtype=np.int64)
    contexts: dict[Key, str | None] = {}
    for one in run.items:
        contexts.setdefault((one.item, one.candidate), one.context)
    columns = {measure: average(read_column(run, measure), row, len(rows)) for measure in list_measures(run)}
    times = Counter(row.tolist())
    return Columns(tuple(rows), tuple(contexts.values()), columns, sum(count > 1 for count in times.values()))


def read_column(run: Run, measure: MeasureKey) -> Floats:
    """One measure of every item, NaN for none. An aspect whose best value is given counts by minus its distance."""
    kind, name = measure
    values = np.array([values_of(item, kind).get(name) for item in run.items], dtype=np.float64)
    return -np.abs(values - run.best[name]) if kind == "aspect" and name in run.best else values


def values_of(item: RunItem, kind: Kind) -> Mapping[str, float | None]:
    """The item's values of one kind, by name."""
    return {"aspect": item.ratings, "composite": item.composites, "blended": item.blended}[kind]


def average(values: Floats, row: Integers, rows: int) -> Floats:
    """The mean of each row's values, shape (rows,), NaN for a row without any."""
    held = ~np.isnan(values)
    counts = np.bincount(row[held], minlength=rows)
    totals = np.bincount(row[held], weights=values[held], minlength=rows)
    means: Floats = np.divide(totals, counts, out=np.full(rows, np.nan), where=counts > 0)
    return means


def pair_up(
    baseline: Columns, candidate: Columns, *, asked: ChosenTest, numbered: bool
) -> tuple[Pairing, Integers, Integers]:
    """The pairing, and the pairs' rows in both runs, each of shape (pairs,).

    Where `numbered`, an item's number alone says little: a pair has the same context too. Raises InvalidRequest where
    pairs are asked for and there are none.
    """
    places = {key: row for row, key in enumerate(candidate.keys)}
    found = [(row, places[key]) for row, key in enumerate(baseline.keys) if key in places]
    contexts = [(baseline.contexts[left], candidate.contexts[right]) for left, right in found]
    if numbered:
        same = [one is not None and one == other for one, other in contexts]
        found = [pair for pair, kept in zip(found, same, strict=True) if kept]
        differing = 0
    else:
        differing = sum(one is not None and other is not None and one != other for one, other in contexts)
    test, reason = choose(asked, len(found), min(len(baseline.keys), len(candidate.keys)), numbered=numbered)
    pairing = Pairing(
        test=test,
        pairs=len(found),
        only_baseline=len(baseline.keys) - len(found),
        only_candidate=len(candidate.keys) - len(found),
        contexts_differ=differing,
        reason=reason,
    )
    rows = np.array(found, dtype=np.int64).reshape(-1, 2)
    return pairing, rows[:, 0], rows[:, 1]


def choose(asked: ChosenTest, pairs: int, items: int, *, numbered: bool) -> tuple[PairingTest, str]:
    """Paired or not, and why in one sentence. `items` are the smaller run's."""
    found = f"{pairs} of the smaller run's {items} items are in the other run too"
    if numbered:
        found += ", by number and context"
    if asked == "unpaired":
        return "unpaired", f"unpaired, as asked for; {found}"
    if asked == "paired":
        if not pairs:
            raise InvalidRequest(f"the runs cannot be paired: {found}", pointer="/test")
        return "paired", f"paired, as asked for: {found}"
    if pairs and pairs >= LEAST_SHARE * items:
        return "paired", f"paired: {found}"
    return (
        "unpaired",
        f"unpaired, since less than half find a partner: {found}" if items else "unpaired: a run is empty",
    )

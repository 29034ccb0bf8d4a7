"""Which items of two runs belong together, and their values side by side.

The item is the unit: all responses to one dialogue context share what makes it easy or hard, so that they are averaged
before anything is paired or tested. Eight responses to each of 25 contexts are 25 values, not 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.domain.comparison import ChosenTest, ComparedRun, Pairing, PairingTest
from app.domain.errors import InvalidRequest
from app.domain.run_frame import RunFrame, RunTable
from app.domain.summary import Kind, MeasureKey
from app.stats.observations import Floats, Integers, Mask, average_groups, join_shared, number_first
from app.stats.statistics import count
from saiten.core.messages import Message

KINDS: tuple[Kind, ...] = ("aspect", "composite", "blended", "finding", "kind")
FOLDED: tuple[Kind, ...] = ("aspect", "finding", "kind")
"""What may have a best value that is not the highest."""

INCOMPARABLE = "contexts cannot be compared, for texts of a run were hashed or dropped"


@dataclass(frozen=True)
class Columns:
    """A run by measure. `keys` are its items, shape (n, 2): the key of the id, and that of the context where the id
    alone does not tell items apart, else 0. `contexts` has shape (n,), 0 where not known.

    `columns` hold each item's mean by kind and name, of shape (n,), NaN where there is none. `unfolded` holds the means
    of the ratings themselves for the aspects that count by their distance from their best value. `responses` counts
    what the items were averaged from, `averaged` the items with several. `clusters` are keys of the items' dialogues,
    shape (n,), 0 where an item stands alone; empty where none is known. `row` is each response's item, shape
    (responses,).
    """

    keys: Integers
    contexts: Integers
    columns: Mapping[MeasureKey, Floats]
    responses: int
    averaged: int = 0
    unfolded: Mapping[MeasureKey, Floats] = field(default_factory=dict)
    clusters: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    row: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def column(self, measure: MeasureKey) -> Floats:
        """One measure's values; all NaN where the run does not have it."""
        return self.columns.get(measure, np.full(len(self.keys), np.nan))

    def rating_column(self, measure: MeasureKey) -> Floats:
        """The same before it was turned into a distance."""
        return self.unfolded.get(measure, self.column(measure))


@dataclass(frozen=True)
class Paired:
    """Two runs by measure, the baseline's first, and the rows of the pairs in either, each of shape (pairs,)."""

    pairing: Pairing
    columns: tuple[Columns, Columns]
    rows: tuple[Integers, Integers]


def match_runs(baseline: ComparedRun, candidate: ComparedRun, *, asked: ChosenTest = "auto") -> Paired:
    """Which items of two runs belong together; raises InvalidRequest if pairs are asked for and there are none."""
    shared_ids = find_shared_ids(baseline.table, candidate.table)
    best = {**baseline.best, **candidate.best}
    columns = tabulate(baseline, shared_ids, best), tabulate(candidate, shared_ids, best)
    numbered, comparable = baseline.numbered or candidate.numbered, are_comparable(baseline, candidate)
    pairing, *rows = pair_up(*columns, asked=asked, numbered=numbered, comparable=comparable)
    return Paired(pairing, columns, (rows[0], rows[1]))


def list_measures(*runs: ComparedRun) -> list[MeasureKey]:
    """What the runs have values of, by kind in the order of `KINDS`, each in order of appearance."""
    found = dict.fromkeys(measure for run in runs for measure in run.table.values)
    return sorted(found, key=lambda measure: KINDS.index(measure[0]))


def are_comparable(baseline: ComparedRun, candidate: ComparedRun) -> bool:
    """Whether the contexts of both runs use the same kind of digest."""
    return baseline.texts == candidate.texts and baseline.texts != "drop"


def find_shared_ids(*runs: RunTable | RunFrame) -> Integers:
    """The keys of the ids that stand for several contexts within one of the runs. Contexts that are not known tell
    nothing."""
    found = []
    for run in runs:
        known = np.flatnonzero(run.contexts)
        items, contexts = run.items[known], run.contexts[known]
        order = np.argsort(items, kind="stable")
        same, other = (np.diff(column[order]) for column in (items, contexts))
        found.append(items[order][1:][(same == 0) & (other != 0)])
    return np.unique(np.concatenate(found))


def tabulate(run: ComparedRun, shared_ids: Integers | None = None, best: Mapping[str, float] | None = None) -> Columns:
    """The run's values by measure, one row an item, with the mean of its candidates and repeats. Under `shared_ids` an
    item is identified by its id and its context. Aspects with a `best` value count by minus their distance from it.
    Without these two the run's own are taken."""
    apart = find_shared_ids(run.table) if shared_ids is None else shared_ids
    best = run.best if best is None else best
    table = run.table
    keys = np.stack([table.items, np.where(np.isin(table.items, apart), table.contexts, 0)], axis=1)
    row = number_first(number_keys(keys) if len(apart) else table.items)
    size = int(row.max(initial=-1)) + 1
    ratings = table.values
    folded: dict[MeasureKey, Floats] = {
        measure: fold(values, best[measure[1]])
        for measure, values in ratings.items()
        if measure[0] in FOLDED and measure[1] in best
    }
    return Columns(
        keys=take_first(keys, row, size),
        contexts=take_first(table.contexts, row, size, known=table.contexts != 0),
        columns={measure: average_groups(values, row, size) for measure, values in {**ratings, **folded}.items()},
        responses=len(table),
        averaged=int(np.sum(np.bincount(row) > 1)),
        unfolded={measure: average_groups(ratings[measure], row, size) for measure in folded},
        clusters=name_clusters(table.clusters, row, size),
        row=row,
    )


def number_keys(keys: Integers) -> Integers:
    """A number for each row of the keys, equal for equal rows; shape (n, k) to (n,)."""
    found = np.zeros(len(keys), dtype=np.int64)
    for column in keys.T:
        codes = np.unique(column, return_inverse=True)[1]
        # Smaller than n, both of them, so that the product does not run over.
        found = np.unique(found * len(keys) + codes, return_inverse=True)[1].astype(np.int64)
    return found


def take_first(values: Integers, row: Integers, size: int, known: Mask | None = None) -> Integers:
    """For each of `size` items the value of its first response, of those that are `known`; else 0. `row` is each
    response's item."""
    found = np.zeros((size, *values.shape[1:]), dtype=np.int64)
    if size:
        places = np.arange(len(row))[::-1] if known is None else np.flatnonzero(known)[::-1]
        # Backwards, so that the first is written last.
        found[row[places]] = values[places]
    return found


def name_clusters(clusters: Integers, row: Integers, size: int) -> Integers:
    """The key of each item's dialogue, shape (size,), from those of its responses, shape (responses,): 0 where none is
    known, and empty where none is known of any item. Dialogues that share an item are one and have the key of the
    first."""
    known = clusters != 0
    if not known.any():
        return np.empty(0, dtype=np.int64)
    joined = join_shared(row[known], number_first(clusters[known]), size)
    return take_first(clusters, joined[row], int(joined.max()) + 1, known=known)[joined]


def fold(ratings: Floats, best: float) -> Floats:
    """Minus the distance from the best value: too stiff is as wrong as too casual."""
    return -np.abs(ratings - best)


def pair_up(
    baseline: Columns, candidate: Columns, *, asked: ChosenTest, numbered: bool, comparable: bool = True
) -> tuple[Pairing, Integers, Integers]:
    """The pairing, and the pairs' rows in both runs, each of shape (pairs,). Where `numbered`, an item's number alone
    says little: a pair has the same context too. `comparable`: contexts of the two runs tell whether they are the same.
    Raises InvalidRequest where pairs are asked for and there are none."""
    rows = find_partners(baseline.keys, candidate.keys)
    before, after = (own.contexts[found] for own, found in zip((baseline, candidate), rows.T, strict=True))
    differing = 0
    if numbered:
        rows = rows[(before != 0) & (before == after) & comparable]
    elif comparable:
        differing = int(np.sum((before != 0) & (after != 0) & (before != after)))
    test: PairingTest = "unpaired" if asked == "unpaired" else "paired"
    paired = test == "paired"
    items = min(len(baseline.keys), len(candidate.keys))
    reason = explain(asked, len(rows), items, numbered=numbered, comparable=comparable)
    numbers = number_units(baseline, candidate, rows)
    units = [len(np.unique(own)) for own in ([numbers[0][rows[:, 0]]] if paired else numbers)]
    if items and (len(rows) or not paired):
        reason += tell_units(baseline, candidate, rows, units)
    pairing = Pairing(
        test=test,
        pairs=len(rows),
        only_baseline=len(baseline.keys) - len(rows),
        only_candidate=len(candidate.keys) - len(rows),
        contexts_differ=differing,
        baseline_items=len(baseline.keys),
        baseline_responses=baseline.responses,
        candidate_items=len(candidate.keys),
        candidate_responses=candidate.responses,
        reason=reason,
        unit="dialogue" if len(baseline.clusters) or len(candidate.clusters) else "item",
        clusters=min(units),
    )
    return pairing, rows[:, 0], rows[:, 1]


def find_partners(baseline: Integers, candidate: Integers) -> Integers:
    """The rows of equal keys, which are different within a run: shapes (n, k) and (m, k) to (pairs, 2), in order of the
    first."""
    numbers = number_keys(np.concatenate([baseline, candidate]))
    place = np.full(len(numbers), -1, dtype=np.int64)
    place[numbers[len(baseline) :]] = np.arange(len(candidate))
    partner = place[numbers[: len(baseline)]]
    rows = np.flatnonzero(partner >= 0)
    return np.stack([rows, partner[rows]], axis=1)


def number_units(baseline: Columns, candidate: Columns, rows: Integers) -> list[Integers]:
    """The unit of each item of the baseline run, and of the candidate run: a number, which the two items of a pair
    share; shapes (items,). `rows`, of shape (pairs, 2), are the pairs' rows in both runs.

    Items that share a dialogue in either run are of one unit, and so are all that are joined in this way: a dialogue
    that one run does not know, or knows only in part, makes its items no less dependent.
    """
    sizes = len(baseline.keys), len(candidate.keys)
    place = np.arange(sum(sizes))
    place[sizes[0] + rows[:, 1]] = rows[:, 0]
    clusters = np.concatenate(
        [
            own.clusters if len(own.clusters) else np.zeros(size, dtype=np.int64)
            for own, size in zip((baseline, candidate), sizes, strict=True)
        ]
    )
    known = clusters != 0
    unit = join_shared(place[known], number_first(clusters[known]), len(place))[place]
    return [unit[: sizes[0]], unit[sizes[0] :]]


def number_items(columns: Columns) -> Integers:
    """The units of a run's items by itself; shape (items,)."""
    known = np.flatnonzero(columns.clusters)
    return join_shared(known, number_first(columns.clusters[known]), len(columns.keys))


def tell_units(baseline: Columns, candidate: Columns, rows: Integers, units: Sequence[int]) -> str:
    """What is independent, and which run's dialogues tell it, as the end of a sentence. `rows` are those of the pairs
    in both runs, `units` the numbers of units: of the pairs, or of both runs."""
    if not len(baseline.clusters) and not len(candidate.clusters):
        return "; no dialogues are known, so that items are the units"
    if len(units) > 1:
        return f"; the units are {units[0]:,} and {count(units[1], 'dialogue')}"
    found = f"; the units are {count(units[0], 'dialogue')}"
    # What is joined further has fewer parts, so that as many parts are the same parts.
    same = [
        len(np.unique(number_items(own)[rows[:, side]])) == units[0] for side, own in enumerate((baseline, candidate))
    ]
    if any(same):
        return f"{found}, as the {'candidate' if same[1] else 'baseline'} run has them"
    return f"{found}: those of both runs, joined where they share an item"


def explain(asked: ChosenTest, pairs: int, items: int, *, numbered: bool, comparable: bool = True) -> str:
    """Paired or not, and why in one sentence. `items` are the smaller run's."""
    found = (
        f"{pairs:,} of the smaller run's {count(items, 'item')} {'is' if pairs == 1 else 'are'} in the other run too"
    )
    if numbered:
        found += ", by number and context"
    if not comparable:
        found += f"; {INCOMPARABLE}"
    if asked == "unpaired":
        return f"unpaired, as asked for; {found}"
    if asked == "paired":
        if not pairs:
            raise InvalidRequest(Message("runs-not-paired", reason=found), pointer="/test")
        return f"paired, as asked for: {found}"
    if not items:
        return "not compared: a run is empty"
    return f"paired: {found}" if pairs else f"not compared: {found}; `unpaired` compares all items of both runs"

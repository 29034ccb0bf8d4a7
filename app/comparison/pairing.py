"""Which items of two runs belong together, and their values side by side.

The item is the unit: all responses to one dialogue context share what makes it easy or hard, so that they are averaged
before anything is paired or tested. Eight responses to each of 25 contexts are 25 values, not 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from saiten.core.messages import Message
from saiten_server.comparison.values import ChosenTest, ComparedRun, Pairing, PairingTest
from saiten_server.core.errors import InvalidRequest
from saiten_server.runs.frame import MEASURE_KINDS, LoadedColumns, RunFrame, make_frame
from saiten_server.runs.summary import Kind, MeasureKey
from saiten_server.stats.observations import (
    Floats,
    Integers,
    Mask,
    average_groups,
    count_keys,
    join_shared,
    number_first,
)
from saiten_server.stats.phrases import join_clauses, tell_count

FOLDED: tuple[Kind, ...] = ("aspect", "finding", "kind")
"""What may have a best value that is not the highest."""

INCOMPARABLE = Message("incomparable-contexts")


@dataclass(frozen=True)
class ItemMeans:
    """A run by item: `frame` has a row for each, with the means of its responses; its clusters are joined, so that an
    item is in one.

    `apart` is the key of an item's context where its id alone does not tell items apart, else 0, shape (n,). `item_of`
    is each response's item, None where each is one of its own. `unfolded` holds the means of the ratings themselves for
    the aspects that count by their distance from their best value.
    """

    frame: RunFrame
    apart: Integers
    item_of: Integers | None = None
    unfolded: Mapping[MeasureKey, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def row(self) -> Integers:
        """Each response's item, shape (responses,)."""
        return np.arange(len(self.frame)) if self.item_of is None else self.item_of

    @property
    def keys(self) -> Integers:
        """The items, shape (n, 2): the key of the id, and what tells it apart."""
        return np.stack([self.frame.items, self.apart], axis=1)

    def column(self, measure: MeasureKey) -> Floats:
        """One measure's values; all NaN where the run does not have it."""
        return self.frame.read(measure)

    def rating_column(self, measure: MeasureKey) -> Floats:
        """The same before it was turned into a distance."""
        return self.unfolded.get(measure, self.column(measure))


@dataclass(frozen=True)
class Paired:
    """Two runs by measure, the baseline's first, the rows of the pairs in either, each of shape (pairs,), and the unit
    of each item, of shapes (items,)."""

    pairing: Pairing
    means: tuple[ItemMeans, ItemMeans]
    rows: tuple[Integers, Integers]
    units: tuple[Integers, Integers]


def match_runs(baseline: ComparedRun, candidate: ComparedRun, *, asked: ChosenTest = "auto") -> Paired:
    """Which items of two runs belong together; raises InvalidRequest if pairs are asked for and there are none."""
    shared_ids = find_shared_ids(baseline.frame, candidate.frame)
    best = {**baseline.best, **candidate.best}
    means = average_items(baseline, shared_ids, best), average_items(candidate, shared_ids, best)
    numbered, comparable = baseline.numbered or candidate.numbered, are_comparable(baseline, candidate)
    return pair_items(*means, asked=asked, numbered=numbered, comparable=comparable)


def list_measures(*runs: ComparedRun) -> list[MeasureKey]:
    """What the runs have values of, by kind in the order of `MEASURE_KINDS`, each in order of appearance."""
    found = dict.fromkeys(measure for run in runs for measure in run.frame.values)
    return sorted(found, key=lambda measure: MEASURE_KINDS.index(measure[0]))


def are_comparable(baseline: ComparedRun, candidate: ComparedRun) -> bool:
    """Whether the contexts of both runs use the same kind of digest."""
    return baseline.texts == candidate.texts and baseline.texts != "drop"


def find_shared_ids(*runs: RunFrame) -> Integers:
    """The keys of the ids that stand for several contexts within one of the runs. Contexts that are not known tell
    nothing."""
    found = [np.empty(0, dtype=np.int64)]
    for run in runs:
        if are_different(run.items):
            continue
        known = np.flatnonzero(run.contexts)
        items, contexts = run.items[known], run.contexts[known]
        order = np.argsort(items, kind="stable")
        same, other = (np.diff(column[order]) for column in (items, contexts))
        found.append(items[order][1:][(same == 0) & (other != 0)])
    return np.unique(np.concatenate(found))


def are_different(keys: Integers) -> bool:
    """Whether no key occurs twice; shape (n,)."""
    ordered = np.sort(keys)
    return not bool((ordered[1:] == ordered[:-1]).any())


def average_items(
    run: ComparedRun, shared_ids: Integers | None = None, best: Mapping[str, float] | None = None
) -> ItemMeans:
    """The run by item, with the mean of its candidates and repeats. Under `shared_ids` an item is identified by its id
    and its context. Aspects with a `best` value count by minus their distance from it. Without these two the run's own
    are taken."""
    shared = find_shared_ids(run.frame) if shared_ids is None else shared_ids
    best = run.best if best is None else best
    frame = run.frame
    if not len(shared) and are_different(frame.items):
        return take_responses(frame, best)
    apart = np.where(np.isin(frame.items, shared), frame.contexts, 0)
    row = number_first(number_keys(np.stack([frame.items, apart], axis=1)) if len(shared) else frame.items)
    size = int(row.max(initial=-1)) + 1
    folded = {measure: fold_ratings(frame.values[measure], best[measure[1]]) for measure in list_folded(frame, best)}
    made = make_frame(
        size,
        {measure: average_groups(values, row, size) for measure, values in {**frame.values, **folded}.items()},
        items=take_first(frame.items, row, size),
        contexts=take_first(frame.contexts, row, size, known=frame.contexts != 0),
        clusters=name_clusters(frame.clusters, row, size),
        probability=average_groups(frame.probability, row, size),
    )
    unfolded = {measure: average_groups(frame.values[measure], row, size) for measure in folded}
    return ItemMeans(made, take_first(apart, row, size), row, unfolded)


def list_folded(frame: RunFrame, best: Mapping[str, float]) -> list[MeasureKey]:
    """The measures that have a best value."""
    return [measure for measure in frame.values if measure[0] in FOLDED and measure[1] in best]


def take_responses(frame: RunFrame, best: Mapping[str, float]) -> ItemMeans:
    """The run by item where each has one response: the mean of one value is that value. Values that are loaded when
    they are looked at stay so."""
    folded = list_folded(frame, best)
    loaders = {measure: partial(frame.values.__getitem__, measure) for measure in frame.values}
    values = LoadedColumns({**loaders, **{measure: partial(fold_column, frame, measure, best) for measure in folded}})
    kept = {name: getattr(frame, name) for name in ("items", "contexts", "clusters", "probability")}
    made = make_frame(len(frame), values, **kept)
    unfolded = LoadedColumns({measure: loaders[measure] for measure in folded})
    return ItemMeans(made, np.broadcast_to(np.int64(0), len(frame)), None, unfolded)


def fold_column(frame: RunFrame, measure: MeasureKey, best: Mapping[str, float]) -> Floats:
    """A measure's values by their distance from the best one."""
    return fold_ratings(frame.values[measure], best[measure[1]])


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
    known. Dialogues that share an item are one and have the key of the first."""
    known = clusters != 0
    if not known.any():
        return np.zeros(size, dtype=np.int64)
    joined = join_shared(row[known], number_first(clusters[known]), size)
    return take_first(clusters, joined[row], int(joined.max()) + 1, known=known)[joined]


def fold_ratings(ratings: Floats, best: float) -> Floats:
    """Minus the distance from the best value: too stiff is as wrong as too casual."""
    return -np.abs(ratings - best)


def pair_items(
    baseline: ItemMeans, candidate: ItemMeans, *, asked: ChosenTest, numbered: bool, comparable: bool = True
) -> Paired:
    """The pairs of two runs. Where `numbered`, an item's number alone
    says little: a pair has the same context too. `comparable`: contexts of the two runs tell whether they are the same.
    Raises InvalidRequest where pairs are asked for and there are none."""
    whole = baseline.apart.any() or candidate.apart.any()
    rows = find_partners(*(own.keys if whole else own.frame.items[:, None] for own in (baseline, candidate)))
    before, after = (own.frame.contexts[found] for own, found in zip((baseline, candidate), rows.T, strict=True))
    differing = 0
    if numbered:
        rows = rows[(before != 0) & (before == after) & comparable]
    elif comparable:
        differing = int(np.sum((before != 0) & (after != 0) & (before != after)))
    test: PairingTest = "unpaired" if asked == "unpaired" else "paired"
    paired = test == "paired"
    items = min(len(baseline), len(candidate))
    reason = choose_test(asked, len(rows), items, numbered=numbered, comparable=comparable)
    numbers = number_units(baseline, candidate, rows)
    units = [count_keys(own) for own in ([numbers[0][rows[:, 0]]] if paired else numbers)]
    if items and (len(rows) or not paired):
        reason = join_clauses([reason, tell_units(baseline, candidate, rows, units)])
    pairing = Pairing(
        test=test,
        pairs=len(rows),
        only_baseline=len(baseline) - len(rows),
        only_candidate=len(candidate) - len(rows),
        contexts_differ=differing,
        baseline_items=len(baseline),
        baseline_responses=len(baseline.row),
        candidate_items=len(candidate),
        candidate_responses=len(candidate.row),
        reason=reason,
        unit="dialogue" if baseline.frame.clusters.any() or candidate.frame.clusters.any() else "item",
        clusters=min(units),
    )
    return Paired(pairing, (baseline, candidate), (rows[:, 0], rows[:, 1]), numbers)


def find_partners(baseline: Integers, candidate: Integers) -> Integers:
    """The rows of equal keys, which are different within a run: shapes (n, k) and (m, k) to (pairs, 2), in order of the
    first."""
    if baseline.shape[1] == 1:
        return match_keys(baseline[:, 0], candidate[:, 0])
    numbers = number_keys(np.concatenate([baseline, candidate]))
    return match_keys(numbers[: len(baseline)], numbers[len(baseline) :])


def match_keys(baseline: Integers, candidate: Integers) -> Integers:
    """The same of keys of one part; shapes (n,) and (m,)."""
    orders = np.argsort(baseline), np.argsort(candidate)
    ordered = candidate[orders[1]]
    # Both in order: in any other one a search would miss the cache at each step.
    place = np.searchsorted(ordered, baseline[orders[0]])
    place[place == len(ordered)] = 0
    partner = np.full(len(baseline), -1, dtype=np.int64)
    if len(ordered):
        equal = ordered[place] == baseline[orders[0]]
        partner[orders[0][equal]] = orders[1][place[equal]]
    rows = np.flatnonzero(partner >= 0)
    return np.stack([rows, partner[rows]], axis=1)


def number_units(baseline: ItemMeans, candidate: ItemMeans, rows: Integers) -> tuple[Integers, Integers]:
    """The unit of each item of the baseline run, and of the candidate run: a number, which the two items of a pair
    share; shapes (items,). `rows`, of shape (pairs, 2), are the pairs' rows in both runs.

    Items that share a dialogue in either run are of one unit, and so are all that are joined in this way: a dialogue
    that one run does not know, or knows only in part, makes its items no less dependent.
    """
    sizes, ours, theirs = (len(baseline), len(candidate)), baseline.frame.clusters, candidate.frame.clusters
    if len(rows) == sizes[1] and np.array_equal(ours[rows[:, 0]], theirs[rows[:, 1]]):
        unit, own = number_items(baseline), np.empty(sizes[1], dtype=np.int64)
        own[rows[:, 1]] = unit[rows[:, 0]]  # the candidate run has nothing to join
        return unit, own
    place = np.arange(sum(sizes))
    place[sizes[0] + rows[:, 1]] = rows[:, 0]
    clusters = np.concatenate([ours, theirs])
    known = clusters != 0
    unit = join_shared(place[known], number_first(clusters[known]), len(place))[place]
    return unit[: sizes[0]], unit[sizes[0] :]


def count_units(clusters: Integers) -> int:
    """How many units there are of items with these dialogues: those, and each item without one; shape (n,)."""
    ordered = np.sort(clusters)
    alone = int(np.searchsorted(ordered, 0, side="right") - np.searchsorted(ordered, 0))
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered)) + max(0, alone - 1)


def number_items(means: ItemMeans) -> Integers:
    """The units of a run's items by itself; shape (items,)."""
    clusters = means.frame.clusters
    known = np.flatnonzero(clusters)
    return join_shared(known, number_first(clusters[known]), len(clusters))


def tell_units(baseline: ItemMeans, candidate: ItemMeans, rows: Integers, units: Sequence[int]) -> Message:
    """What is independent, and which run's dialogues tell it. `rows` are those of the pairs in both runs, `units` the
    numbers of units: of the pairs, or of both runs."""
    if not baseline.frame.clusters.any() and not candidate.frame.clusters.any():
        return Message("items-are-units")
    if len(units) > 1:
        return Message("units-of-both", baseline=units[0], candidate=tell_count(units[1], "dialogue"))
    # What is joined further has fewer parts, so that as many parts are the same parts.
    both = baseline.frame.clusters, candidate.frame.clusters
    same = (side for side in (1, 0) if count_units(both[side][rows[:, side]]) == units[0])
    name = {1: "units-of-candidate", 0: "units-of-baseline", None: "joined-units"}[next(same, None)]
    return Message(name, units=tell_count(units[0], "dialogue"))


def choose_test(asked: ChosenTest, pairs: int, items: int, *, numbered: bool, comparable: bool = True) -> Message:
    """Paired or not, and why. `items` are the smaller run's."""
    name = f"{'one-is' if pairs == 1 else 'are'}-in-both{'-by-number' if numbered else ''}"
    found = join_clauses(
        [Message(name, pairs=pairs, items=tell_count(items, "item")), *([] if comparable else [INCOMPARABLE])]
    )
    if asked == "unpaired":
        return join_clauses([Message("unpaired-as-asked"), found])
    if asked == "paired":
        if not pairs:
            raise InvalidRequest(Message("runs-not-paired", reason=found), pointer="/test")
        return Message("paired-as-asked", found=found)
    if not items:
        return Message("empty-run")
    if pairs:
        return Message("paired", found=found)
    return join_clauses([Message("not-compared", found=found), Message("unpaired-compares-all")])

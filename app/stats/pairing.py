"""Which items of two runs belong together, and their values side by side.

The item is the unit: all responses to one dialogue context share what makes it easy or hard, so that they are averaged
before anything is paired or tested. Eight responses to each of 25 contexts are 25 values, not 200.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.domain.comparison import ChosenTest, ComparedRun, Kind, Pairing, PairingTest
from app.domain.errors import InvalidRequest
from app.stats.observations import Floats, Integers, average_groups
from app.stats.statistics import count

Key = tuple[str, str | None]
"""An item: its id, and its context where the id alone does not tell items apart."""

MeasureKey = tuple[Kind, str]

KINDS: tuple[Kind, ...] = ("aspect", "composite", "blended", "finding")
FOLDED: tuple[Kind, ...] = ("aspect", "finding")
"""What may have a best value that is not the highest."""

INCOMPARABLE = "contexts cannot be compared, for texts of a run were hashed or dropped"


@dataclass(frozen=True)
class Columns:
    """A run by measure. `keys` are its items, shape (n,), `contexts` their digests, None where not known.

    `columns` hold each item's mean by kind and name, of shape (n,), NaN where there is none. `unfolded` holds the means
    of the ratings themselves for the aspects that count by their distance from their best value. `responses` counts
    what the items were averaged from, `averaged` the items with several. `clusters` are digests of the items'
    dialogues, None where an item stands alone; empty where none is known.
    """

    keys: tuple[Key, ...]
    contexts: tuple[str | None, ...]
    columns: Mapping[MeasureKey, Floats]
    responses: int
    averaged: int = 0
    unfolded: Mapping[MeasureKey, Floats] = field(default_factory=dict)
    clusters: tuple[str | None, ...] = ()
    row: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def column(self, measure: MeasureKey) -> Floats:
        """One measure's values; all NaN where the run does not have it."""
        return self.columns.get(measure, np.full(len(self.keys), np.nan))

    def rating_column(self, measure: MeasureKey) -> Floats:
        """The same before it was turned into a distance."""
        return self.unfolded.get(measure, self.column(measure))


@dataclass(frozen=True)
class Paired:
    """Two runs by measure, the baseline's first, and the rows of the pairs in either, each of shape (pairs,).
    `shared_ids` are those under which an item is identified by its context too."""

    pairing: Pairing
    columns: tuple[Columns, Columns]
    rows: tuple[Integers, Integers]
    shared_ids: frozenset[str]


def match_runs(baseline: ComparedRun, candidate: ComparedRun, *, asked: ChosenTest = "auto") -> Paired:
    """Which items of two runs belong together; raises InvalidRequest if pairs are asked for and there are none."""
    shared_ids = find_shared_ids(baseline, candidate)
    best = {**baseline.best, **candidate.best}
    columns = tabulate(baseline, shared_ids, best), tabulate(candidate, shared_ids, best)
    numbered, comparable = baseline.numbered or candidate.numbered, are_comparable(baseline, candidate)
    pairing, *rows = pair_up(*columns, asked=asked, numbered=numbered, comparable=comparable)
    return Paired(pairing, columns, (rows[0], rows[1]), shared_ids)


def list_measures(*runs: ComparedRun) -> list[MeasureKey]:
    """What the runs have values of: aspects, composites, blended aspects, findings, each in order of appearance."""
    found = dict.fromkeys(measure for run in runs for measure in run.columns)
    return sorted(found, key=lambda measure: KINDS.index(measure[0]))


def are_comparable(baseline: ComparedRun, candidate: ComparedRun) -> bool:
    """Whether the contexts of both runs use the same kind of digest."""
    return baseline.texts == candidate.texts and baseline.texts != "drop"


def find_shared_ids(*runs: ComparedRun) -> frozenset[str]:
    """The ids that stand for several contexts within one of the runs. Contexts that are not known tell nothing."""
    found: set[str] = set()
    for run in runs:
        contexts: dict[str, str] = {}
        for one in run.items:
            if one.context is not None and contexts.setdefault(one.item, one.context) != one.context:
                found.add(one.item)
    return frozenset(found)


def tabulate(
    run: ComparedRun, shared_ids: Collection[str] | None = None, best: Mapping[str, float] | None = None
) -> Columns:
    """The run's values by measure, one row an item, with the mean of its candidates and repeats. Under `shared_ids` an
    item is identified by its id and its context. Aspects with a `best` value count by minus their distance from it.
    Without these two the run's own are taken."""
    apart = find_shared_ids(run) if shared_ids is None else shared_ids
    best = run.best if best is None else best
    rows: dict[Key, int] = {}
    contexts: list[str | None] = []
    clusters: list[str | None] = []
    row = np.empty(len(run.items), dtype=np.int64)
    for place, one in enumerate(run.items):
        row[place] = at = rows.setdefault((one.item, one.context if one.item in apart else None), len(rows))
        if at == len(contexts):
            contexts.append(one.context)
            clusters.append(one.cluster)
        contexts[at] = one.context if contexts[at] is None else contexts[at]
        clusters[at] = one.cluster if clusters[at] is None else clusters[at]
    ratings = {measure: np.array(values, dtype=np.float64) for measure, values in run.columns.items()}
    folded: dict[MeasureKey, Floats] = {
        measure: fold(values, best[measure[1]])
        for measure, values in ratings.items()
        if measure[0] in FOLDED and measure[1] in best
    }
    return Columns(
        keys=tuple(rows),
        contexts=tuple(contexts),
        columns={measure: average_groups(values, row, len(rows)) for measure, values in {**ratings, **folded}.items()},
        responses=len(run.items),
        averaged=int(np.sum(np.bincount(row) > 1)),
        unfolded={measure: average_groups(ratings[measure], row, len(rows)) for measure in folded},
        clusters=tuple(clusters) if any(one is not None for one in clusters) else (),
        row=row,
    )


def number_clusters(clusters: Sequence[str | None]) -> Integers:
    """A number for each dialogue, shape (items,); an item that stands alone has one of its own."""
    numbers: dict[str, int] = {}
    found = [len(clusters) + row if one is None else numbers.setdefault(one, row) for row, one in enumerate(clusters)]
    return np.array(found, dtype=np.int64)


def fold(ratings: Floats, best: float) -> Floats:
    """Minus the distance from the best value: too stiff is as wrong as too casual."""
    return -np.abs(ratings - best)


def pair_up(
    baseline: Columns, candidate: Columns, *, asked: ChosenTest, numbered: bool, comparable: bool = True
) -> tuple[Pairing, Integers, Integers]:
    """The pairing, and the pairs' rows in both runs, each of shape (pairs,). Where `numbered`, an item's number alone
    says little: a pair has the same context too. `comparable`: contexts of the two runs tell whether they are the same.
    Raises InvalidRequest where pairs are asked for and there are none."""
    places = {key: row for row, key in enumerate(candidate.keys)}
    found = [(row, places[key]) for row, key in enumerate(baseline.keys) if key in places]
    contexts = [(baseline.contexts[left], candidate.contexts[right]) for left, right in found]
    if numbered:
        same = [comparable and one is not None and one == other for one, other in contexts]
        found = [pair for pair, kept in zip(found, same, strict=True) if kept]
        differing = 0
    else:
        known = [(one, other) for one, other in contexts if comparable and one is not None and other is not None]
        differing = sum(one != other for one, other in known)
    rows = np.array(found, dtype=np.int64).reshape(-1, 2)
    test: PairingTest = "unpaired" if asked == "unpaired" else "paired"
    items = min(len(baseline.keys), len(candidate.keys))
    reason = explain(asked, len(found), items, numbered=numbered, comparable=comparable)
    paired = test == "paired"
    numbers = [number_pairs(baseline, candidate, rows)] if paired else number_runs(baseline, candidate)
    units = [len(np.unique(own)) for own in numbers]
    if items and (len(rows) or not paired):
        reason += tell_units(baseline, candidate, units)
    pairing = Pairing(
        test=test,
        pairs=len(found),
        only_baseline=len(baseline.keys) - len(found),
        only_candidate=len(candidate.keys) - len(found),
        contexts_differ=differing,
        baseline_items=len(baseline.keys),
        baseline_responses=baseline.responses,
        candidate_items=len(candidate.keys),
        candidate_responses=candidate.responses,
        reason=reason,
        unit="dialogue" if baseline.clusters or candidate.clusters else "item",
        clusters=min(units),
    )
    return pairing, rows[:, 0], rows[:, 1]


def number_pairs(baseline: Columns, candidate: Columns, rows: Integers) -> Integers:
    """The dialogues of the pairs, of which `rows` of shape (pairs, 2) are the rows in both runs: those of the candidate
    run, where it knows none those of the baseline run, else each pair its own; shape (pairs,)."""
    if not candidate.clusters and not baseline.clusters:
        return np.arange(len(rows))
    side = 1 if candidate.clusters else 0
    return number_clusters((baseline, candidate)[side].clusters)[rows[:, side]]


def number_runs(baseline: Columns, candidate: Columns) -> list[Integers]:
    """The dialogues of each run's items, where it knows none each item its own; shapes (items,)."""
    return [number_clusters(own.clusters or (None,) * len(own.keys)) for own in (baseline, candidate)]


def tell_units(baseline: Columns, candidate: Columns, units: Sequence[int]) -> str:
    """What is independent, as the end of a sentence."""
    if not baseline.clusters and not candidate.clusters:
        return "; no dialogues are known, so that items are the units"
    if len(units) == 1:
        whose = "candidate" if candidate.clusters else "baseline"
        return f"; the units are {count(units[0], 'dialogue')}, as the {whose} run has them"
    return f"; the units are {units[0]:,} and {count(units[1], 'dialogue')}"


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
            raise InvalidRequest(f"the runs cannot be paired: {found}", pointer="/test")
        return f"paired, as asked for: {found}"
    if not items:
        return "not compared: a run is empty"
    return f"paired: {found}" if pairs else f"not compared: {found}; `unpaired` compares all items of both runs"

"""The items that changed most between two runs, paired as their comparison pairs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from app.domain.comparison import Changes, ComparedRun, ItemChange, ItemSide, ResponsePlace, RunItem
from app.stats.gate import name_of
from app.stats.gate_plan import find_scale, locate
from app.stats.observations import Floats
from app.stats.pairing import Key, MeasureKey, Paired, list_measures, match_runs
from app.stats.statistics import level

MOST_RESPONSES = 20
"""Responses of an item whose places are listed; the others are only counted."""

NO_VALUES = "no pair has a value on both sides"


def find_changes(
    baseline: ComparedRun, candidate: ComparedRun, measure: str | None = None, *, most: int = 10
) -> Changes:
    """The paired items with the largest drops and the largest gains, at most `most` of each; of equal ones those that
    come first in the baseline run.

    `measure` is an aspect, a composite or `NAME.blended`; without one all aspects count together. Raises UnknownAspect
    where neither run has the measure. Whether the runs were scored alike is not looked at.
    """
    known = list_measures(baseline, candidate)
    aspects: list[MeasureKey] = [key for key in known if key[0] == "aspect"]
    chosen = None if measure is None else locate(measure, known, (baseline, candidate), "/measure")
    best = {**baseline.best, **candidate.best}
    paired = match_runs(baseline, candidate)
    empty = Changes(
        measure=measure,
        unit="share" if chosen is None else "points",
        pairs=0,
        dropped=0,
        gained=0,
        drops=(),
        gains=(),
        best={name: value for kind, name in aspects if (value := best.get(name)) is not None},
    )
    if not paired.pairing.pairs:
        return empty.model_copy(update={"code": "unpaired", "reason": paired.pairing.reason})
    moved = find_differences(paired, chosen) if chosen else average_shares(paired, aspects, (baseline, candidate))
    if np.isnan(moved).all():
        return empty.model_copy(update={"code": "no-values", "reason": NO_VALUES})
    drops, gains = rank_largest(moved, most), rank_largest(-moved, most)
    shown = dict.fromkeys([*aspects, *([chosen] if chosen else [])])
    described = describe(paired, (baseline, candidate), [*drops, *gains], moved, list(shown))
    return empty.model_copy(
        update={
            "pairs": int((~np.isnan(moved)).sum()),
            "dropped": int((moved < 0).sum()),
            "gained": int((moved > 0).sum()),
            "drops": tuple(described[: len(drops)]),
            "gains": tuple(described[len(drops) :]),
        }
    )


def find_differences(paired: Paired, measure: MeasureKey) -> Floats:
    """Candidate minus baseline by pair, shape (pairs,), NaN where a side has no value; of minus the distance from the
    best value where there is one."""
    before, after = (own.column(measure)[rows] for own, rows in zip(paired.columns, paired.rows, strict=True))
    return level(after - before)


def average_shares(paired: Paired, aspects: Sequence[MeasureKey], runs: tuple[ComparedRun, ComparedRun]) -> Floats:
    """Each pair's mean difference over the aspects that both sides have, as shares of their scales; shape (pairs,)."""
    total, held = np.zeros(len(paired.rows[0])), np.zeros(len(paired.rows[0]))
    for key in aspects:
        moved = find_differences(paired, key)
        rated = ~np.isnan(moved)
        total[rated] += moved[rated] / find_width(key, paired, runs)
        held += rated
    return level(np.divide(total, held, out=np.full(len(total), np.nan), where=held > 0))


def find_width(aspect: MeasureKey, paired: Paired, runs: tuple[ComparedRun, ComparedRun]) -> float:
    """How much an aspect can change by: its scale's width, that of the distance from a best level inside; where no
    run tells the scale, what the values take up of it."""
    scales = [scale for run in runs if (scale := find_scale(aspect[1], run)) is not None]
    values = np.concatenate([own.column(aspect) for own in paired.columns])
    width = scales[-1][1] - scales[-1][0] if scales else float(np.nanmax(values) - np.nanmin(values))
    return width or 1.0


def rank_largest(moved: Floats, most: int) -> list[int]:
    """The pairs with the most negative values, the most negative first; shape (pairs,) with NaN for none."""
    below = np.flatnonzero(moved < 0)
    return [int(pair) for pair in below[np.argsort(moved[below], kind="stable")[:most]]]


def describe(
    paired: Paired,
    runs: tuple[ComparedRun, ComparedRun],
    chosen: Sequence[int],
    moved: Floats,
    measures: Sequence[MeasureKey],
) -> list[ItemChange]:
    """The chosen pairs, each with both sides' values of these measures."""
    keys = [[own.keys[rows[pair]] for pair in chosen] for own, rows in zip(paired.columns, paired.rows, strict=True)]
    found = [gather_responses(run, own, paired.shared_ids) for run, own in zip(runs, keys, strict=True)]
    differences = {name_of(key): find_differences(paired, key) for key in measures}
    return [
        ItemChange(
            item=keys[0][place][0],
            baseline=describe_side(paired, 0, pair, measures, found[0][keys[0][place]]),
            candidate=describe_side(paired, 1, pair, measures, found[1][keys[1][place]]),
            difference=float(moved[pair]),
            differences={name: float(own[pair]) for name, own in differences.items() if not np.isnan(own[pair])},
        )
        for place, pair in enumerate(chosen)
    ]


def describe_side(
    paired: Paired, side: int, pair: int, measures: Sequence[MeasureKey], responses: Sequence[RunItem]
) -> ItemSide:
    """One run's side of a pair: 0 is the baseline's."""
    columns, row = paired.columns[side], int(paired.rows[side][pair])
    values = {name_of(key): float(columns.rating_column(key)[row]) for key in measures}
    return ItemSide(
        values={name: None if np.isnan(value) else value for name, value in values.items()},
        responses=tuple(
            ResponsePlace(position=one.position, candidate=one.candidate) for one in responses[:MOST_RESPONSES]
        ),
        count=len(responses),
    )


def gather_responses(run: ComparedRun, keys: Iterable[Key], shared_ids: frozenset[str]) -> Mapping[Key, list[RunItem]]:
    """The responses to each of these items, in order."""
    found: dict[Key, list[RunItem]] = {key: [] for key in keys}
    wanted = {item for item, _ in found}
    for one in run.items:
        if one.item in wanted:
            key = one.item, one.context if one.item in shared_ids else None
            if key in found:
                found[key].append(one)
    return found

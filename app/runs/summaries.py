"""Summaries of batches: from the figures that the store keeps, or from all scores where it has none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from math import inf, sqrt
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from saiten.core.messages import Message
from saiten_server.core.batch import ENDED_STATUSES, EXPIRED, Batch, Counts
from saiten_server.core.conversation import ANY_CODE, FAULT_KINDS, FINDING, FINDING_CODES, KIND, KIND_CODES
from saiten_server.core.errors import JudgeReplyInvalid, StoreError
from saiten_server.core.evaluation import OVERALL
from saiten_server.core.rubric import Aspect, Rubric, range_of
from saiten_server.runs.summary import (
    BLENDED,
    BUILD,
    MISSING,
    SYSTEM,
    AspectSummary,
    AspectTally,
    BuildFixes,
    Coverage,
    FaultTally,
    FindingRate,
    FindingSummary,
    FixFirst,
    Intervals,
    MeanEstimate,
    MeasureKey,
    Moments,
    Spread,
    Summary,
    Tally,
    add_faulty,
    flat_name,
    raise_count,
)
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.stats.phrases import NO_VALUES

if TYPE_CHECKING:
    from saiten_server.runs.frame import Label, RunFrame
    from saiten_server.runs.store.batches import BatchStore
    from saiten_server.stats.observations import Floats, Integers


NO_TALLY = AspectTally()
NO_MOMENTS = Moments()
NOT_KEPT = Message("measures-not-kept")


def summarize_tally(rubric: Rubric, tally: Tally, batch: Batch, intervals: Intervals) -> Summary:
    """The results in figures; the bill, the total and the signatures are the batch's own. Everything that the rubric
    has is there, then what only older results have."""
    known, measured = intervals.measures, tally.measured
    aspects = {aspect.id: aspect for aspect in rubric.aspects}
    names = dict.fromkeys([*aspects, *tally.aspects])
    composites = dict.fromkeys([*(composite.id for composite in rubric.composites), *tally.composites])
    rated = int(sum(tally.aspects.get(aspect.id, NO_TALLY).means.n for aspect in rubric.aspects))
    unfit = sum(tally.aspects.get(aspect.id, NO_TALLY).reasons["not-applicable"] for aspect in rubric.aspects)
    expected = batch.counts.total * len(rubric.aspects) - unfit
    findings = summarize_findings(tally, known) if rubric.unit == "conversation" else None
    return Summary(
        batch=batch.id,
        name=batch.name,
        status=batch.status,
        rubric=batch.rubric,
        rubric_version=batch.rubric_version,
        counts=count_statuses(tally, batch.counts.total),
        coverage=Coverage(rated=rated, expected=expected, share=rated / expected if expected else None),
        aspects={
            name: summarize_aspect(
                name,
                aspects.get(name),
                tally.aspects.get(name, NO_TALLY),
                known,
                measured.aspects.get(name, NO_TALLY),
            )
            for name in names
        },
        composites={
            name: spread(
                tally.composites.get(name, NO_MOMENTS), known.get(name), measured.composites.get(name, NO_MOMENTS)
            )
            for name in composites
        },
        warnings=rank_counts(tally.warnings),
        failures=rank_counts(tally.failures),
        usage=batch.usage,
        signature=batch.signature,
        signatures=batch.signatures,
        findings=findings,
        faulty_turns=None if findings is None else findings.any,
        kinds=summarize_kinds(tally, known) if rubric.kinds else None,
        fix_first=intervals.fix_first if rubric.kinds else None,
        fix_first_by_system=intervals.fix_first_by_system if rubric.kinds else {},
        fix_first_by_build=intervals.fix_first_by_build if rubric.kinds else (),
        clusters=intervals.clusters,
    )


def summarize_aspect(
    name: str,
    aspect: Aspect | None,
    tally: AspectTally,
    known: Mapping[str, MeanEstimate],
    measured: AspectTally,
) -> AspectSummary:
    """The aspect in figures; None for one that the rubric does not have any more. `measured` has the same as `tally`,
    by weight where results have weights."""
    levels: dict[int, float] = dict.fromkeys(aspect.values, 0) if aspect else {}
    levels |= share_out(measured.levels, tally.levels)
    return AspectSummary(
        **dict(spread(tally.means, known.get(name), measured.means)),
        unrated=tally.reasons.total(),
        unrated_reasons=rank_counts(tally.reasons),
        histogram={str(level): count for level, count in sorted(levels.items())},
        blended=spread(tally.blended, known.get(name + BLENDED), measured.blended) if tally.blended.n else None,
    )


def share_out(weighed: Counter[int], counted: Counter[int]) -> dict[int, float]:
    """The counts by weight, adding up to how many there are."""
    if weighed is counted or not counted:
        return dict(counted)
    unit = counted.total() / weighed.total()
    return {level: count * unit for level, count in weighed.items()}


def summarize_findings(tally: Tally, known: Mapping[str, MeanEstimate]) -> FindingSummary:
    """The findings in figures, by every code that there is."""
    rates = {code: find_rate(tally, code, known) for code in FINDING_CODES}
    return FindingSummary(any=rates.pop(ANY_CODE), codes=rates)


def summarize_kinds(tally: Tally, known: Mapping[str, MeanEstimate]) -> dict[str, FindingRate]:
    """The findings in figures, by every kind of fault that there is."""
    return {kind: find_rate(tally, KIND + kind, known) for kind in FAULT_KINDS}


def find_rate(tally: Tally, code: str, known: Mapping[str, MeanEstimate]) -> FindingRate:
    """What the findings of one code amount to."""
    found, measured = (one.findings.get(code, FaultTally()) for one in (tally, tally.measured))
    estimate = known.get(FINDING + code)

    def per_hundred(turns: float, of: float) -> float | None:
        return 100 * turns / of if of else None

    return FindingRate(
        conversations=int(found.conversations),
        system_turns=int(sum(found.system_turns)),
        turns=int(sum(found.turns)),
        rate=per_hundred(sum(measured.turns), sum(measured.system_turns)),
        interval=estimate.interval if estimate else None,
        clusters=estimate.clusters if estimate else 0,
        reason=estimate.reason if estimate else NO_VALUES,
        thirds=tuple(map(per_hundred, measured.turns, measured.system_turns)),
    )


def spread(moments: Moments, estimate: MeanEstimate | None, measured: Moments) -> Spread:
    """What the values amount to: as many as `moments` has, with mean and spread of `measured`, maybe by weight."""
    n = int(moments.n)
    if not n:
        return Spread(n=0, mean=None, sd=None, interval=None, reason=NO_VALUES)
    freedom = n - 1 if measured is moments else measured.n * (n - 1) / n
    return Spread(
        n=n,
        mean=measured.mean,
        sd=sqrt(measured.squares / freedom) if n > 1 else None,
        interval=estimate.interval if estimate else None,
        clusters=estimate.clusters if estimate else 0,
        reason=estimate.reason if estimate else NOT_KEPT,
    )


def count_statuses(tally: Tally, total: int) -> Counts:
    """Counted here rather than taken from the batch, which may have gone on since its results were read."""
    done, expired = tally.statuses, tally.failures[EXPIRED.code]
    queued, failed = max(0, total - tally.results), done["failed"] - expired
    return Counts(
        total=total, queued=queued, scored=done["scored"], partial=done["partial"], failed=failed, expired=expired
    )


async def add_up(store: BatchStore, project: str, batch_id: str) -> Tally:
    """The figures of every result that the batch has now. They are read some at a time, and counted in a thread."""
    tally = Tally()
    async for frame in read_frames(store, project, batch_id):
        tally.merge(await asyncio.to_thread(tally_frame, frame))
    return tally


async def read_frames(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[RunFrame]:
    """The columns of every result that the batch has now, in order, some results at a time."""
    after = -1
    while len(frame := await store.frame(project, batch_id, after=after, limit=FRAME_ROWS)):
        yield frame
        after = int(frame.positions[-1])


def tally_frame(frame: RunFrame) -> Tally:
    """The figures of these results. numpy is loaded here."""
    tally = count_frame(frame)
    if len(frame):
        tally.probabilities = float(frame.probability.min()), float(frame.probability.max())
        if tally.probabilities[0] < 1:
            tally.weighed = count_frame(frame, 1 / frame.probability)
    return tally


def count_frame(frame: RunFrame, weights: Floats | None = None) -> Tally:
    """The figures of results that each count for so many, shape (n,): for 1 without weights."""
    import numpy as np

    def total(numbers: Integers, size: int) -> list[float]:
        found: list[float] = np.bincount(numbers, weights=weights, minlength=size).tolist()
        return found

    tally = Tally()
    for label, count in zip(frame.labels, total(frame.label, len(frame.labels)), strict=True):
        if count:
            add_label(tally, label, count)
    for key in frame.values:
        add_values(tally, frame, key, weights)
    for faulty, count in zip(frame.faults, total(frame.fault, len(frame.faults)), strict=True):
        if faulty is not None and count:
            add_faulty(tally, faulty, count)
    return tally


def add_values(tally: Tally, frame: RunFrame, key: MeasureKey, weights: Floats | None) -> None:
    """Adds the values of a measure, where there are any."""
    import numpy as np

    (kind, name), column = key, frame.values[key]
    held = ~np.isnan(column)
    if not held.any():
        return
    moments = find_moments(column[held], None if weights is None else weights[held])
    if kind == "composite":
        tally.composites[name] = moments
    elif kind == "blended":
        tally.aspects.setdefault(name, AspectTally()).blended = moments
    elif kind == "aspect":
        aspect = tally.aspects.setdefault(name, AspectTally())
        aspect.means, aspect.levels = moments, count_levels(frame, name, weights)


def add_label(tally: Tally, label: Label, count: float) -> None:
    """Adds what so many results with the label have in common."""
    raise_count(tally.statuses, label.status, count)
    for code in label.warnings:
        if not code.startswith(FINDING):
            raise_count(tally.warnings, code, count)
    if label.status == "failed":
        raise_count(tally.failures, label.failure or JudgeReplyInvalid.code, count)
    for name, reason in label.reasons:
        raise_count(tally.aspects.setdefault(name, AspectTally()).reasons, reason or MISSING, count)


def count_levels(frame: RunFrame, aspect: str, weights: Floats | None = None) -> Counter[int]:
    """How many results have each rating of the aspect: its own where it is told apart from the mean, else the mean."""
    import numpy as np

    given, apart = frame.read(("aspect", aspect)), frame.ratings.get(aspect)
    if apart is not None:
        given = np.where(np.isnan(apart), given, apart)
    whole = given % 1 == 0
    levels, place = np.unique(given[whole], return_inverse=True)
    counts = np.bincount(place, weights=None if weights is None else weights[whole], minlength=len(levels))
    return Counter(dict(zip(map(int, levels.tolist()), counts.tolist(), strict=True)))


def find_moments(values: Floats, weights: Floats | None = None) -> Moments:
    """Mean and squared deviations of the values, of which there is at least one: equal ones deviate by exactly 0."""
    apart = values - values[0]
    if weights is not None:
        total = float(weights.sum())
        middle = float((weights * apart).sum()) / total
        return Moments(total, float(values[0]) + middle, float((weights * (apart - middle) ** 2).sum()))
    mean = float(apart.mean())
    return Moments(len(values), float(values[0]) + mean, float(((apart - mean) ** 2).sum()))


def rank_counts(counter: Counter[str]) -> dict[str, int]:
    """The counts by name, the most frequent first, equal ones by name."""
    return dict(sorted(counter.items(), key=lambda entry: (-entry[1], entry[0])))


MOST_READ_AT_ONCE = 20_000
"""Results whose values are read while a request waits for them, which takes a fifth of a second."""

STILL_RUNNING = Message("batch-still-running")

Bounds = Mapping[str, tuple[float, float]]
"""Lowest and highest value by measure; blended ones have no scale and are not in it."""


def bounds_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of everything that a rubric measures: its aspects and composites."""
    aspects = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
    return {**aspects, **{composite.id: range_of(composite, rubric) for composite in rubric.composites}}


def estimate_means(frames: Sequence[RunFrame], bounds: Bounds) -> Intervals:
    """The interval of each measure's mean over the results of all. numpy and scipy are loaded here."""
    import numpy as np

    from saiten_server.runs.frame import JUDGED_KINDS
    from saiten_server.stats.observations import weigh_inversely
    from saiten_server.stats.resampling import estimate_mean

    if not any(map(len, frames)):
        return Intervals(results=0, clusters=None, measures={})
    cluster, known = number_clusters(np.concatenate([frame.clusters for frame in frames]))
    units, weights = int(cluster.max()) + 1, weigh_inversely(np.concatenate([frame.probability for frame in frames]))
    found = {}
    for key in dict.fromkeys(key for frame in frames for key in frame.values if key[0] in JUDGED_KINDS):
        column = np.concatenate([frame.read(key) for frame in frames])
        held = ~np.isnan(column)
        own = None if weights is None else weights[held]
        values = column[held] if own is None else own * column[held]
        sums = np.bincount(cluster[held], weights=values, minlength=units).astype(np.float64)
        counts = np.bincount(cluster[held], weights=own, minlength=units).astype(np.float64)
        name = flat_name(key)
        one = estimate_mean(sums, counts, bounds=bounds.get(name), weighted=weights is not None)
        found[name] = MeanEstimate(clusters=one.clusters, interval=one.interval, reason=one.reason)
    return Intervals(results=len(cluster), clusters=units if known else None, measures=found)


def estimate_findings(frame: RunFrame) -> dict[str, MeanEstimate]:
    """The intervals of the rates of findings, as `finding:CODE`. numpy and scipy are loaded here."""
    import numpy as np

    from saiten_server.stats.resampling import estimate_rate

    cluster, _ = number_clusters(frame.clusters)
    found = {}
    for code in (*FINDING_CODES, *KIND_CODES):
        turns = frame.count_faults(code)
        rows = np.flatnonzero(~np.isnan(turns))
        shares = 1 if frame.shares is None else frame.shares[rows]
        sums, sizes = (
            np.bincount(cluster[rows], weights=shares * each).astype(np.float64)
            for each in (100 * turns[rows], frame.system_turns[rows])
        )
        rate = estimate_rate(sums, sizes, bounds=(0.0, 100.0), weighted=frame.shares is not None)
        found[FINDING + code] = MeanEstimate(clusters=rate.clusters, interval=rate.interval, reason=rate.reason)
    return found


def rank_kinds(frame: RunFrame) -> tuple[FixFirst, ...]:
    """What to mend first: the kinds of faults that occur, by how far they lower the mean `overall`, the furthest first
    and what has no weight last. numpy and scipy are loaded here."""
    import numpy as np

    from saiten_server.stats.severity import weigh_fault

    overall = frame.read(("aspect", OVERALL))
    rated = np.flatnonzero(~np.isnan(overall) & ~np.isnan(frame.count_faults(KIND_CODES[0])))
    ratings, shares = overall[rated], None if frame.shares is None else frame.shares[rated]
    counted = frame.system_turns[rated] if shares is None else shares * frame.system_turns[rated]
    clusters = number_clusters(frame.clusters[rated])[0] if len(rated) else np.empty(0, np.int64)
    found = []
    for kind in FAULT_KINDS:
        turns = frame.count_faults(KIND + kind)[rated]
        if not turns.any():
            continue
        weighed = weigh_fault(ratings, turns > 0, clusters, shares)
        found.append(
            FixFirst(
                kind=kind,
                conversations=int(np.count_nonzero(turns)),
                of=len(rated),
                rate=100 * float((turns if shares is None else shares * turns).sum()) / float(counted.sum()),
                effect=weighed.effect,
                weight=weighed.weight,
                interval=weighed.interval,
                reason=weighed.reason,
            )
        )
    return tuple(sorted(found, key=lambda one: -inf if one.weight is None else one.weight, reverse=True))


def rank_kinds_by_system(frame: RunFrame, own: Mapping[str, str]) -> dict[str, tuple[FixFirst, ...]]:
    """The same by system, where results have several; `own` are the metadata of all, for results without any."""
    systems = [label.system or own.get(SYSTEM) for label in frame.labels]
    groups = group_rows(frame, systems)
    groups.pop(None, None)
    return {name or "": rank_kinds(frame.take(groups[name])) for name in sorted(groups)} if len(groups) > 1 else {}


def rank_kinds_by_build(frame: RunFrame, own: Mapping[str, str]) -> tuple[BuildFixes, ...]:
    """The same by system and build, where results have several builds."""
    builds = [(label.system or own.get(SYSTEM), label.build or own.get(BUILD)) for label in frame.labels]
    groups = group_rows(frame, builds)
    if len(groups) < 2 or not any(build for _, build in groups):
        return ()
    ordered = sorted(groups, key=lambda group: [name or "" for name in group])
    return tuple(
        BuildFixes(system=key[0], build=key[1], fix_first=rank_kinds(frame.take(groups[key]))) for key in ordered
    )


def group_rows(frame: RunFrame, groups: Sequence[Any]) -> dict[Any, Integers]:
    """The rows by group; `groups` has that of each label."""
    import numpy as np

    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    of_label = np.array([numbers[group] for group in groups], dtype=np.int64)
    found = {group: np.flatnonzero(of_label[frame.label] == number) for group, number in numbers.items()}
    return {group: rows for group, rows in found.items() if len(rows)}


def number_clusters(keys: Integers) -> tuple[Integers, bool]:
    """Each result's cluster, from 0 without gaps, shape (n,), and whether any was given; 0 is none: one of its own."""
    import numpy as np

    alone = np.flatnonzero(keys == 0)
    names, numbers = np.unique(keys, return_inverse=True)
    first = int(names[0] == 0)
    cluster = numbers.astype(np.int64) - first
    cluster[alone] = len(names) - first + np.arange(len(alone))
    return cluster, len(names) > first


NOT_COMPUTED = Intervals(results=0, clusters=None, measures={})
FRAME_ROWS = 20_000
"""Results that are read at a time, in a twentieth of a second."""


class Summaries:
    """Sums batches up."""

    def __init__(self, store: BatchStore, rubrics: RubricSource) -> None:
        self._store = store
        self._rubrics = rubrics
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def summarize(self, project: str, batch: Batch) -> Summary:
        """The summary of the results that there are now. Raises UnknownRubric where its rubric is gone."""
        rubric = self._rubrics.nearest(batch.rubric_name)
        return (await self._sum(project, [(batch, rubric)]))[batch.id]

    async def summarize_all(
        self, project: str, batches: Sequence[Batch], *, intervals: bool = True
    ) -> dict[str, Summary]:
        """The summaries by batch, without those whose rubric is gone. Without `intervals` only those that are kept are
        given: to compute one takes every value of its batch."""
        known = {rubric.id for rubric in self._rubrics.list()}
        found = [(batch, self._rubrics.nearest(batch.rubric_name)) for batch in batches if batch.rubric in known]
        return await self._sum(project, found, intervals=intervals)

    async def _sum(
        self, project: str, asked: Sequence[tuple[Batch, Rubric]], *, intervals: bool = True
    ) -> dict[str, Summary]:
        ids = [batch.id for batch, _ in asked]
        kept, estimated = await self._store.tallies(project, ids), await self._store.intervals(project, ids)
        found = {}
        for batch, rubric in asked:
            tally = kept.get(batch.id) or await self._add_up(project, batch)
            known = estimated.get(batch.id)
            if known is None and intervals:
                known = await self._find_intervals(project, batch, rubric, tally)
            found[batch.id] = summarize_tally(rubric, tally, batch, known or NOT_COMPUTED)
        return found

    async def _find_intervals(self, project: str, batch: Batch, rubric: Rubric, tally: Tally) -> Intervals:
        """The intervals, out of every value; those of a batch that has ended are kept likewise."""
        if batch.status not in ENDED_STATUSES and tally.results > MOST_READ_AT_ONCE:
            names = [*tally.aspects, *tally.composites, *(name + BLENDED for name in tally.aspects)]
            names += (FINDING + code for code in tally.findings)
            waiting = MeanEstimate(clusters=0, interval=None, reason=STILL_RUNNING)
            return Intervals(results=tally.results, clusters=None, measures=dict.fromkeys(names, waiting))
        async with self._turns.setdefault(batch.id, asyncio.Lock()):
            # Who asked before may have kept them meanwhile.
            if (known := (await self._store.intervals(project, [batch.id])).get(batch.id)) is not None:
                return known
            # Memory: 8 bytes per value. Another thread does the work.
            frame = await self._store.frames.read_frame(project, batch.id)
            found = await asyncio.to_thread(
                estimate_frames, [frame], rubric, batch.metadata, findings=bool(tally.findings)
            )
            if batch.status in ENDED_STATUSES:
                with suppress(StoreError):
                    await self._store.keep_intervals(project, batch.id, found)
            return found

    async def _add_up(self, project: str, batch: Batch) -> Tally:
        """The figures, out of every score; those of a batch that has ended are kept for who asks again."""
        tally = await add_up(self._store, project, batch.id)
        if batch.status in ENDED_STATUSES:
            with suppress(StoreError):  # a full disk must not prevent the answer
                await self._store.keep_tally(project, batch.id, tally)
        return tally


def estimate_frames(frames: Sequence[RunFrame], rubric: Rubric, own: Mapping[str, str], *, findings: bool) -> Intervals:
    """The intervals over the results of all, with `findings` those of conversations too; `own` are the batch's
    metadata."""
    found = estimate_means(frames, bounds_of(rubric))
    if not findings:
        return found
    more = weigh_findings(frames, rubric, own)
    return found.model_copy(update={**more, "measures": {**found.measures, **more["measures"]}})


def weigh_findings(frames: Sequence[RunFrame], rubric: Rubric, own: Mapping[str, str]) -> dict[str, Any]:
    """The parts of `Intervals` that are of conversations alone; `own` are the batch's metadata."""
    import numpy as np

    from saiten_server.runs.frame import join_frames

    every = join_frames(frames)
    frame = every.take(np.flatnonzero(every.system_turns))
    found: dict[str, Any] = {"measures": estimate_findings(frame)}
    if rubric.kinds:
        found["fix_first"] = rank_kinds(frame)
        found["fix_first_by_system"] = rank_kinds_by_system(frame, own)
        found["fix_first_by_build"] = rank_kinds_by_build(frame, own)
    return found

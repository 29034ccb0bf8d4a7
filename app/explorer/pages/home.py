"""What `/` says above its list of runs: the best system of each name, and what to fix first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from saiten_server.core.batch import Batch
from saiten_server.core.errors import SaitenError
from saiten_server.explorer.pages.leaderboard import choose_ranked, pick_first, rank_runs
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.language import Speech
from saiten_server.runs.names import name_measures, system_of
from saiten_server.runs.summary import Summary
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

MOST_RANKED_NAMES = 3
"""Names whose systems are ranked."""

MOST_FIXES = 3
"""Lines of each kind: drops, kinds of faults, warnings."""

NOT_OF_THE_BOT = frozenset({"baseline-judge"})
"""Warnings that say nothing of the system."""


class BestSystem(NamedTuple):
    """The systems of a name that no other is shown to be better than, on one measure by its name."""

    name: str
    rubric: str
    measure: str
    systems: Sequence[str]


class FallenAspect(NamedTuple):
    """An aspect, and the pairs of runs (before, now) between which it became worse."""

    aspect: str
    pairs: Sequence[tuple[Batch, Batch]]


class FrequentKind(NamedTuple):
    """A kind of fault in a run, per 100 system turns."""

    kind: str
    rate: float
    run: Batch


class FrequentWarning(NamedTuple):
    """A warning by its code, and the run that has it most, with the number of its results."""

    code: str
    results: int
    run: Batch


class Fixes(NamedTuple):
    """What to fix first."""

    drops: Sequence[FallenAspect]
    faults: Sequence[FrequentKind]
    warnings: Sequence[FrequentWarning]

    def __bool__(self) -> bool:
        return bool(self.drops or self.faults or self.warnings)


def newest_of(batches: Sequence[Batch]) -> list[Batch]:
    """The newest completed run of each name, system and rubric; `batches` are newest first."""
    found: dict[tuple[str | None, str | None, str], Batch] = {}
    for batch in batches:
        if batch.status == "completed":
            found.setdefault((batch.name, system_of(batch), batch.rubric), batch)
    return [*found.values()]


def find_fixes(
    worse: Sequence[tuple[Batch, Batch, str]], newest: Sequence[Batch], summaries: Mapping[str, Summary]
) -> Fixes:
    """`worse` holds the runs before and now with the name of each aspect that became worse."""
    drops: dict[str, list[tuple[Batch, Batch]]] = {}
    for before, now, aspect in worse:
        drops.setdefault(aspect, []).append((before, now))
    known = [(batch, summaries[batch.id]) for batch in newest if batch.id in summaries]
    faults = [FrequentKind(kind, rate, batch) for batch, summary in known for kind, rate in rank_kinds(summary)[:1]]
    warned: dict[str, FrequentWarning] = {}
    for batch, summary in known:
        for code, count in summary.warnings.items():
            if code not in NOT_OF_THE_BOT and (code not in warned or count > warned[code].results):
                warned[code] = FrequentWarning(code, count, batch)
    return Fixes(
        [FallenAspect(*one) for one in sorted(drops.items(), key=lambda one: -len(one[1]))[:MOST_FIXES]],
        sorted(faults, key=lambda one: -one.rate)[:MOST_FIXES],
        sorted(warned.values(), key=lambda one: -one.results)[:MOST_FIXES],
    )


def rank_kinds(summary: Summary) -> list[tuple[str, float]]:
    """Kinds of faults with their rates: what lowers `overall` most first, else what is most frequent."""
    if summary.fix_first:
        return [(one.kind, one.rate) for one in summary.fix_first]
    rates = [(kind, one.rate) for kind, one in (summary.kinds or {}).items() if one.rate]
    return sorted(rates, key=lambda one: -one[1])


async def find_best_systems(
    container: Container,
    project: str,
    speech: Speech,
    batches: Sequence[Batch],
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> tuple[list[BestSystem], bool]:
    """The best systems of the newest names that have two, and whether some are still to be computed; the last two as
    of `rank_runs`."""
    completed = [batch for batch in batches if batch.status == "completed" and batch.name is not None]
    names = [*dict.fromkeys(batch.name for batch in completed if batch.name is not None)][: 2 * MOST_RANKED_NAMES]
    found = []
    for name in names:
        named = [one for one in completed if one.name == name]
        found.append(await rank_name(container, project, speech, name, named, rated=rated, wait_seconds=wait_seconds))
    best = [one for one in found if isinstance(one, BestSystem)]
    return best[:MOST_RANKED_NAMES], any(isinstance(one, PendingComputation) for one in found)


async def rank_name(
    container: Container,
    project: str,
    speech: Speech,
    name: str,
    batches: Sequence[Batch],
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> BestSystem | PendingComputation | None:
    """None where there are not two systems, or they are not told apart at all."""
    runs = choose_ranked(batches, set()).runs
    rubric = find_rubric(container, runs[0].rubric_name) if len(runs) > 1 else None
    if rubric is None:
        return None
    try:
        ranked = await rank_runs(container, project, runs, rubric, rated=rated, wait_seconds=wait_seconds)
    except SaitenError:
        return None  # the leaderboard says why
    if isinstance(ranked, PendingComputation):
        return ranked
    measure = pick_first([aspect.id for aspect in rubric.aspects if aspect.id in ranked.judged])
    if not measure:
        return None
    places = ranked.judged[measure]
    systems = [system_of(run) or "" for run, (first, _) in zip(runs, places, strict=True) if first == 1]
    if not 0 < len(systems) < len(runs):
        return None
    return BestSystem(name, rubric.id, name_measures(rubric, speech)[measure], systems)

"""Which runs the page of aspects looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.batch import Batch
from app.meta.overview import MOST_BATCHES, MOST_RESULTS
from app.web.dashboard.run_values import build_of, line_of, system_of

MOST_BUILDS = 2
"""Of each system that is chosen at first: the newest run and the one before it."""


@dataclass(frozen=True)
class Choice:
    """The rubric, its completed runs to choose from (newest first), and those chosen. `left_out` counts runs that were
    asked for and are too many."""

    rubric: str
    rubrics: tuple[str, ...]
    runs: tuple[Batch, ...]
    chosen: tuple[Batch, ...]
    left_out: int


def choose(runs: Sequence[Batch], *, rubric: str, asked: Sequence[str], is_final: bool) -> Choice | None:
    """What to look at; None where there is no run. A single run asked for, unless that `is_final`, is looked at among
    those chosen at first: alone it has nothing to be told from."""
    by_rubric: dict[str, list[Batch]] = {}
    for run in runs:
        by_rubric.setdefault(run.rubric_name, []).append(run)
    if not by_rubric:
        return None
    named_so = next((name for name in by_rubric if rubric in (name, name.partition("@")[0])), None)
    wanted = next((run.rubric_name for run in runs if run.id in asked), None)
    name = named_so or wanted or max(by_rubric, key=lambda each: count_systems(by_rubric[each]))
    mine = by_rubric[name]
    named = [run for run in mine if run.id in asked]
    if not named or (len(named) == 1 and not is_final):
        first = suggest(mine)
        named = [run for run in mine if run in first or run in named]
    chosen = fit(named, asked)
    return Choice(name, tuple(by_rubric), tuple(mine), tuple(chosen), len(named) - len(chosen))


def count_systems(runs: Sequence[Batch]) -> int:
    """How many systems the runs are of."""
    return len({owner_of(run) for run in runs})


def owner_of(run: Batch) -> str:
    """Whose the run is."""
    return system_of(run) or run.name or run.id


def suggest(runs: Sequence[Batch]) -> list[Batch]:
    """Of each system the newest run, and the one before it of the same name."""
    found: dict[str, list[Batch]] = {}
    for run in runs:
        members = found.setdefault(owner_of(run), [])
        if not members or (len(members) < MOST_BUILDS and line_of(run) == line_of(members[0]) is not None):
            members.append(run)
    return [run for members in found.values() for run in members]


def fit(runs: Sequence[Batch], asked: Sequence[str]) -> list[Batch]:
    """As many of the runs as are looked at together, those that were asked for before others."""
    kept: list[Batch] = []
    for run in sorted(runs, key=lambda each: each.id not in asked):
        results = sum(each.counts.total for each in kept) + run.counts.total
        if len(kept) < MOST_BATCHES and results <= MOST_RESULTS:
            kept.append(run)
    return [run for run in runs if run in kept]


def name_systems(systems: Sequence[str], runs: Sequence[Batch]) -> Mapping[str, str]:
    """What to call the systems of an overview of these runs: a second run of a system stands there with its id in
    brackets, and here with its build, on a line of its own."""
    names = {system: system for system in systems}
    owners: dict[str, str] = {}
    for run in runs:
        owner = owner_of(run)
        label = owner if owners.setdefault(owner, run.id) == run.id else f"{owner} ({run.id})"
        build = build_of(run)
        if label in names and build:
            names[label] = f"{owner}\n{build}"
    shown = list(names.values())
    return {system: name if shown.count(name) == 1 else system for system, name in names.items()}

"""`/compare`: whether a run is better or worse than another, and the dialogues that changed most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from app.comparison.computations import Examination, PendingComputation
from app.container import Container
from app.domain.batch import Batch, BatchFilter
from app.domain.browsing import Browsed
from app.domain.comparison import Changes, ChangeUnit, ItemChange, ItemSide
from app.domain.dialogue import Utterance
from app.domain.errors import SignatureMismatch, UnknownAspect
from app.domain.rubric import Rubric
from app.ratings.reliability import asked_of, attach_states
from app.storage.sql.browsing import ResultBrowser
from app.web.dashboard.compare_view import (
    build_chart,
    explain_pieces,
    list_names,
    list_reasons,
    make_tables,
    name_measures,
    shorten,
)
from app.web.dashboard.language import Speech, query, speech_of
from app.web.dashboard.page import PageRoute, render
from app.web.dashboard.run_values import (
    build_of,
    examine,
    find_obstacle,
    find_predecessors,
    find_rubric,
    is_missing,
    judges_of,
    paint,
    signatures_of,
    system_of,
)
from app.web.dashboard.session import Project
from app.web.dependencies import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_LISTED = 100
"""Runs to choose from; older ones are picked on the list of runs."""

LONGEST = 100
"""Characters of an id or a measure."""


@dataclass(frozen=True)
class CompareQuery:
    """The page's parameters. `measure` is what the dialogues are chosen by, empty for all aspects together."""

    baseline: str
    candidate: str
    measure: str
    mismatch: bool

    def address(self, **changes: Any) -> str:
        """This page, asked otherwise."""
        given = {**vars(self), "mismatch": "1" if self.mismatch else None, **changes}
        return query("/compare", **given)


@router.get("/compare")
async def show_comparison(request: Request, container: Serving, project: Project) -> Response:
    """Two runs side by side; without two of them the choice of runs."""
    asked = read_asked(request)
    speech = speech_of(request)
    picked = [await find_picked(container, project, batch_id) for batch_id in (asked.baseline, asked.candidate)]
    runs = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=MOST_LISTED)
    runs += [batch for batch in picked if batch is not None and batch.id not in {run.id for run in runs}]
    baseline, candidate = picked
    if baseline is None or candidate is None:
        chosen = await suggest(container, project, runs, baseline, candidate)
        return render(
            request, "compare.html", state="pick", asked=asked, runs=runs, chosen=chosen, **describe(container)
        )
    found = await gather(container, project, speech, asked, (baseline, candidate))
    swapped = asked.address(baseline=candidate.id, candidate=baseline.id)
    chosen = {"baseline": baseline.id, "candidate": candidate.id}
    both = {"baseline": baseline, "candidate": candidate, "swapped": swapped, "names": shorten(baseline, candidate)}
    return render(
        request, "compare.html", asked=asked, runs=runs, chosen=chosen, **both, **describe(container), **found
    )


def read_asked(request: Request) -> CompareQuery:
    """The parameters, truncated."""
    given = {
        name: request.query_params.get(name, "").strip()[:LONGEST] for name in ("baseline", "candidate", "measure")
    }
    return CompareQuery(**given, mismatch=request.query_params.get("mismatch") == "1")


def describe(container: Container) -> dict[str, Any]:
    """Functions on runs for the templates."""
    return {"system_of": system_of, "build_of": build_of, "judges_of": lambda batch: judges_of(container, batch)}


async def find_picked(container: Container, project: str, batch_id: str) -> Batch | None:
    """The run of this id, None where none is named. Raises NotFound for one that the project has not."""
    return await container.batches.find(project, batch_id) if batch_id else None


async def suggest(
    container: Container, project: str, runs: list[Batch], baseline: Batch | None, candidate: Batch | None
) -> dict[str, str]:
    """What stands chosen at first: the newest run, and the one before it of its name and system."""
    first = candidate or next((run for run in runs if baseline is None or run.id != baseline.id), None)
    before = baseline
    if first is not None and before is None:
        before = (await find_predecessors(container.batches, project, [first])).get(first.id)
    if before is None:
        before = next((run for run in runs if first is not None and run.id != first.id), None)
    return {"baseline": before.id if before else "", "candidate": first.id if first else ""}


async def gather(
    container: Container, project: str, speech: Speech, asked: CompareQuery, both: tuple[Batch, Batch]
) -> dict[str, Any]:
    """The state of the page, and what it takes to show it."""
    rubric = find_rubric(container, both[1].rubric_name)
    obstacle = find_obstacle(container, both)
    if obstacle is not None or rubric is None:
        return obstacle or {"state": "gone"}
    try:
        examined = await ask(container, project, asked, rubric, both)
    except SignatureMismatch as error:
        pieces = explain_pieces(error.pieces)
        return {"state": "mismatch", "pieces": pieces, "anyway": asked.address(mismatch="1")}
    if isinstance(examined, PendingComputation):
        return {"state": "computing"}
    report = await make_report(container, project, speech, rubric=rubric, both=both, found=examined)
    return {"state": "ready", **report}


async def ask(
    container: Container, project: str, asked: CompareQuery, rubric: Rubric, both: tuple[Batch, Batch]
) -> Examination | PendingComputation:
    """The comparison, once it is computed; an unknown measure is ignored."""
    known = {aspect.id for aspect in rubric.aspects} | {composite.id for composite in rubric.composites}
    measure = asked.measure if asked.measure.removesuffix(".blended") in known else None
    try:
        return await examine(container, project, both, rubric, measure=measure, mismatch=asked.mismatch)
    except UnknownAspect:
        return await examine(container, project, both, rubric, mismatch=asked.mismatch)


async def make_report(
    container: Container, project: str, speech: Speech, *, rubric: Rubric, both: tuple[Batch, Batch], found: Examination
) -> dict[str, Any]:
    """Everything that the comparison shows."""
    names = name_measures(rubric, speech)
    tables = make_tables(found.comparison, rubric, speech)
    lines = {line for batch in both for line in signatures_of(batch)}
    gate = attach_states(found.gate, await container.ratings.reliabilities.states(project, lines, asked_of(found.gate)))
    chart = await paint(container, speech, build_chart(tables.aspects, shorten(*both), speech))
    reader = ResponseReader(container.dashboard.browser, project, (both[0].id, both[1].id), names)
    measures = [*tables.aspects, *tables.composites, *tables.blended]
    return {
        "comparison": gate.comparison,
        "gate": gate,
        "reasons": list_reasons(gate, names, speech),
        "tables": tables,
        "worse": list_names(tables.aspects, "worse", speech),
        "better": list_names(tables.aspects, "better", speech),
        "chart": chart,
        "painting": is_missing(chart),
        "changes": found.changes,
        "dialogues": await reader.read(found.changes),
        "measures": measures,
        "pieces": explain_pieces(found.comparison.signature_differences),
        "rubric": rubric,
    }


MOST_SHOWN = 5
"""Of drops and of gains."""


@dataclass(frozen=True)
class SideView:
    """One run's response. `address` is its item page's; None where its text is not there any more. `count` are all of
    the item's responses, of which this is the first."""

    response: str | None
    utterance: Utterance | None
    address: str | None
    count: int


@dataclass(frozen=True)
class ValueView:
    """A measure of the item in both runs. `difference` is candidate minus baseline, in points toward the best."""

    name: str
    before: float | None
    after: float | None
    difference: float | None


@dataclass(frozen=True)
class ChangeView:
    item: str
    difference: float
    unit: ChangeUnit
    baseline: SideView
    candidate: SideView
    values: tuple[ValueView, ...]

    @property
    def is_shared(self) -> bool:
        """Whether both answer the same last utterance."""
        return self.baseline.utterance == self.candidate.utterance


@dataclass(frozen=True)
class Dialogues:
    drops: tuple[ChangeView, ...]
    gains: tuple[ChangeView, ...]


@dataclass(frozen=True)
class ResponseReader:
    """Reads responses of the two runs; ids are the baseline's first."""

    browser: ResultBrowser
    project: str
    ids: tuple[str, str]
    names: Mapping[str, str]

    async def read(self, changes: Changes) -> Dialogues:
        """The largest drops and gains with their texts."""
        drops, gains = changes.drops[:MOST_SHOWN], changes.gains[:MOST_SHOWN]
        before = await self._read_side(self.ids[0], [change.baseline for change in (*drops, *gains)])
        after = await self._read_side(self.ids[1], [change.candidate for change in (*drops, *gains)])
        views = [
            ChangeView(
                change.item,
                change.difference,
                changes.unit,
                describe_side(self.ids[0], change.baseline, before),
                describe_side(self.ids[1], change.candidate, after),
                tuple(list_values(change, self.names)),
            )
            for change in (*drops, *gains)
        ]
        return Dialogues(tuple(views[: len(drops)]), tuple(views[len(drops) :]))

    async def _read_side(self, batch_id: str, sides: Sequence[ItemSide]) -> Mapping[int, Browsed]:
        """The first response of each, by its position."""
        positions = [position for side in sides if (position := position_of(side)) is not None]
        return {found.entry.position: found for found in await self.browser.read(self.project, batch_id, positions)}


def position_of(side: ItemSide) -> int | None:
    """Where the first of its responses stands."""
    return next((place.position for place in side.responses), None)


def describe_side(batch_id: str, side: ItemSide, found: Mapping[int, Browsed]) -> SideView:
    """The side as the page shows it; without texts where they were erased meanwhile."""
    position = position_of(side)
    if position is None or position not in found:
        return SideView(None, None, None, side.count)
    candidate = found[position].candidate
    utterance = candidate.context[-1] if candidate.context else None
    return SideView(candidate.response, utterance, f"/runs/{batch_id}/items/{position}", side.count)


def list_values(change: ItemChange, names: Mapping[str, str]) -> Sequence[ValueView]:
    """The item's values by measure."""
    return [
        ValueView(names.get(name, name), before, change.candidate.values.get(name), change.differences.get(name))
        for name, before in change.baseline.values.items()
    ]

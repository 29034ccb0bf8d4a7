"""`/explore`: the verdict on two runs, and the cases of some runs beside each other, sorted and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response

from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.conversation import FINDING, FINDING_CODES, KIND_CODES
from saiten_server.core.rubric import Level, Rubric
from saiten_server.explorer.pages import disagreements, run_values
from saiten_server.explorer.pages.cases import CaseView, read_cases
from saiten_server.explorer.pages.exploration import (
    LINES,
    OF_SEVERAL,
    Exploration,
    find_usual,
    list_numbers,
    read_exploration,
    translate_query,
)
from saiten_server.explorer.pages.items import (
    ItemColumn,
    ItemLine,
    ItemList,
    list_item_columns,
    read_listed,
    show_columns,
)
from saiten_server.explorer.pages.verdict import give_verdict
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import mark, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, redirect, render
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, name_measures, system_of
from saiten_server.runs.result import MOST_BROWSED_RUNS, MOST_RESULTS, CaseChoice, CasePage, CaseSort
from saiten_server.scoring.reasons import is_explainable
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

CASES_PER_PAGE = 15
"""Cases on a page, each with all its texts."""

MOST_FILED = 100_000
"""Responses of one run in a file."""

MOST_RUNS_LISTED = 30
"""Runs to choose from."""

MOST_FOUND = 20
"""Runs in which a text is counted."""

SORTS: Mapping[CaseSort, str] = {
    "drop": mark("largest drop"),
    "gain": mark("largest gain"),
    "runs": mark("disagreement between runs"),
    "samples": mark("disagreement between samples"),
    "people": mark("disagreement of judge and people"),
    "worst": mark("worst value"),
    "best": mark("best value"),
    "item": mark("original order"),
}
CASE_CHOICES: Mapping[CaseChoice, str] = {
    "all": mark("all cases"),
    "changed": mark("only what changed"),
    "beyond": mark("only beyond the judge's noise"),
}
RUN_LETTERS = "ABCDEFGH"


class AskedCases(NamedTuple):
    """What an address asks for, with the runs and their rubric, None where it is no longer installed. `names` are of
    all measures, and `columns` of those that the only run has."""

    state: Exploration
    runs: Sequence[Batch]
    rubric: Rubric | None
    names: Mapping[str, str]
    columns: Sequence[ItemColumn] = ()
    choosing: bool = False

    @property
    def is_list(self) -> bool:
        """Whether these are the responses of one run, of whatever size."""
        return len(self.runs) == 1

    @property
    def obstacle(self) -> str | None:
        """Why there are no cases, as a kind of page; None where there may be some."""
        if self.choosing or not self.runs:
            return "pick"
        if self.is_list:
            return None
        if self.rubric is None:
            return "gone"
        if len({batch.rubric for batch in self.runs}) > 1:
            return "rubrics"
        return "large" if sum(batch.counts.total for batch in self.runs) > MOST_RESULTS else None


async def read_asked_cases(request: Request, container: Container, project: str) -> AskedCases:
    """What the address asks for. Raises NotFound for a run that the project does not have."""
    asked = request.query_params
    roles = [asked[name] for name in ("baseline", "candidate") if asked.get(name)]
    given = [*roles, *asked.getlist("run")]
    ids = [*dict.fromkeys(one.strip()[:100] for one in given if one.strip())][:MOST_BROWSED_RUNS]
    picked = [await container.batches.find(project, batch_id) for batch_id in ids]
    if "pick" in asked:
        # Out of a list of runs, the oldest is what the others are compared with.
        picked.sort(key=lambda batch: (batch.created_at, batch.id))
    rubric = find_rubric(container, picked[0].rubric_name) if picked else None
    names = name_measures(rubric, speech_of(request)) if rubric else {}
    columns: Sequence[ItemColumn] = ()
    if len(picked) == 1:
        columns = list_item_columns(await container.dashboard.browser.measures(project, picked[0].id), rubric)
        names = {column.measure: names.get(column.measure, column.measure) for column in columns}
    usual = find_usual([*names], rubric) if columns else None
    state = read_exploration(asked, [*names], [batch.id for batch in picked], usual)
    return AskedCases(state, picked, rubric, names, columns, choosing=bool(roles) and len(picked) < 2)


@router.get("/explore")
async def show_cases(request: Request, container: Serving, project: Project) -> Response:
    """The cases of the runs in the address, and of two of them the verdict; without any, a choice of runs, and those
    that hold a text."""
    asked = await read_asked_cases(request, container, project)
    state, obstacle = asked.state, asked.obstacle
    if state.gate is not None and not asked.runs:
        kept = await container.comparison.gates.find(project, state.gate)
        runs = [run for role, run in sorted((kept.runs or {}).items()) if run is not None]
        return redirect(query("/explore", run=runs, gate=kept.id if len(runs) > 1 else None))
    wanted = BatchFilter(rubric=asked.runs[0].rubric if asked.runs else None)
    listed = await container.batches.list(project, wanted, after=None, limit=MOST_RUNS_LISTED)
    listed = [*asked.runs, *(batch for batch in listed if batch.id not in state.runs)]
    page = {
        **describe_view(asked),
        "listed": listed,
        "chosen": state.runs,
        "sorts": {sort: text for sort, text in SORTS.items() if not asked.is_list or sort not in OF_SEVERAL},
        "choices": CASE_CHOICES,
        "most_runs": MOST_BROWSED_RUNS,
        "most": MOST_RESULTS,
        "kind": obstacle,
        "outcome": None,
    }
    if may_write(request):
        page["explainable"] = partial(is_explainable, judge=container.scoring.context.judge.kind)
    if obstacle == "pick":
        baseline = asked.runs[0] if asked.runs and request.query_params.get("baseline") else None
        candidate = asked.runs[0] if asked.runs and baseline is None else None
        page["chosen"] = await suggest_pair(container, project, listed, baseline, candidate)
        page["texts"] = await find_runs(container, project, state.cases.text) if state.cases.text else None
        return render(request, "explore.html", **page)
    if len(asked.runs) == 2 and obstacle in (None, "large"):
        both = asked.runs[0], asked.runs[1]
        rubric, speech = cast(Rubric, asked.rubric), speech_of(request)
        page |= await give_verdict(container, project, speech, state, rubric=rubric, both=both)
    if obstacle is None:
        page |= await gather_cases(container, project, asked)
    return render(request, "explore.html", **page)


@router.get("/runs/{batch_id}/items")
async def list_items(request: Request, container: Serving, project: Project, batch_id: str) -> Response:
    """The former address of a run's responses."""
    await container.batches.find(project, batch_id)
    return redirect(query("/explore", **translate_query(batch_id, request.query_params)))


@router.get("/compare")
@router.get("/aspects")
async def lead(request: Request) -> Response:
    """The former addresses of the verdict on two runs, and of how aspects are related."""
    path = "/explore/aspects" if request.url.path == "/aspects" else "/explore"
    return redirect(f"{path}?{request.url.query}" if request.url.query else path)


async def suggest_pair(
    container: Container, project: str, listed: Sequence[Batch], baseline: Batch | None, candidate: Batch | None
) -> list[str]:
    """The runs that are chosen at first: the newest, and its name's pinned baseline, else the run before it of its name
    and system."""
    runs = [batch for batch in listed if batch.status == "completed"]
    first = candidate or next((run for run in runs if baseline is None or run.id != baseline.id), None)
    before = baseline
    if first is not None and before is None:
        before = (await container.comparison.pinned(project, [first])).get(first.id)
        before = before or (await run_values.find_predecessors(container.batches, project, [first])).get(first.id)
    if before is None:
        before = next((run for run in runs if first is not None and run.id != first.id), None)
    return [run.id for run in (before, first) if run is not None]


def describe_view(asked: AskedCases) -> dict[str, Any]:
    """What every view of cases needs."""
    return {
        "state": asked.state,
        "runs": asked.runs,
        "rubric": asked.rubric,
        "names": asked.names,
        "expected": asked.rubric.source_language if asked.rubric else "en",
        "columns": show_columns(asked.columns, asked.state.measure),
        "letters": RUN_LETTERS,
        "system_of": system_of,
        "build_of": build_of,
    }


async def find_runs(container: Container, project: str, text: str) -> list[tuple[Batch, int]]:
    """The newest runs that hold the text, each with how many of its items do."""
    search, found = container.dashboard.explorer.search, []
    for batch_id in await search.list_batches(project, text, limit=MOST_FOUND):
        count = len(await search.find(project, batch_id, text))
        if count:
            found.append((await container.batches.find(project, batch_id), count))
    return found


class FoundCases(NamedTuple):
    """Cases from an offset on. `total` counts those that match, `all` all; `lines` are those of one run's responses by
    position; `warnings` and `statuses` count responses by code, None where that is not counted."""

    total: int
    all: int
    cases: Sequence[CaseView]
    lines: Mapping[int, ItemLine]
    warnings: Mapping[str, int | None]
    statuses: Mapping[str, int]


async def gather_cases(container: Container, project: str, asked: AskedCases) -> dict[str, Any]:
    """The cases on the page, once they are there."""
    number, rows = asked.state.number, LINES if asked.is_list else CASES_PER_PAGE
    found = await list_cases(container, project, asked, offset=(number - 1) * rows, limit=rows)
    if not isinstance(found, PendingComputation) and number > (last := max(1, -(-found.total // rows))):
        number = last
        found = await list_cases(container, project, asked, offset=(number - 1) * rows, limit=rows)
    if isinstance(found, PendingComputation):
        return {"kind": "computing"}
    last, silent = max(1, -(-found.total // rows)), find_silent(found.cases, asked)
    return {
        "kind": "cases",
        "found": found,
        "number": number,
        "last": last,
        "numbers": list_numbers(number, last),
        "start": (number - 1) * rows,
        "silent": [RUN_LETTERS[run] for run in silent],
        "was_asked": any(asked.runs[run].judge.explain for run in silent),
        "alike": len({run_names.signatures_of(batch) for batch in asked.runs}) == 1,
        "chips": await list_chips(container, project, asked, counted=not found.total),
        "most_filed": MOST_FILED if found.total > MOST_FILED and asked.is_list else None,
    }


def find_silent(cases: Sequence[CaseView], asked: AskedCases) -> list[int]:
    """The runs whose responses on the page have ratings of the judge, and none of these a reason. Of conversations
    findings are the reasons."""
    if asked.rubric is None or asked.rubric.unit == "conversation":
        return []
    silent = []
    for run in range(len(asked.runs)):
        results = [result for case in cases if (result := case.sides[run].result) is not None]
        found = [result.evaluation for result in results if result.evaluation is not None]
        verdicts = [verdict for evaluation in found for verdict in evaluation.aspects.values()]
        told = any(verdict.reason for verdict in verdicts) or any(evaluation.explained for evaluation in found)
        if not told and any(verdict.unrated is None for verdict in verdicts):
            silent.append(run)
    return silent


async def list_cases(
    container: Container, project: str, asked: AskedCases, *, offset: int, limit: int
) -> FoundCases | PendingComputation:
    """The cases from an offset on, of an address without an obstacle."""
    if asked.is_list:
        places = await find_places(container, project, asked, asked.state, offset=offset, limit=limit)
        if isinstance(places, PendingComputation):
            return places
        cases, lines = await read_item_lines(container, project, asked, places, places.positions, first=offset)
        return FoundCases(
            places.total, asked.runs[0].counts.total, cases, lines, *await count_codes(container, project, asked)
        )
    page = await look_beside(container, project, asked, asked.state, offset=offset, limit=limit)
    if isinstance(page, PendingComputation):
        return page
    cases = await read_cases(container, project, asked.runs, asked.rubric, page.rows)
    return FoundCases(page.total, page.cases, cases, {}, page.warnings, page.statuses)


async def look_beside(
    container: Container, project: str, asked: AskedCases, state: Exploration, *, offset: int, limit: int
) -> CasePage | PendingComputation:
    """The cases of several runs."""
    explorer, rubric = container.dashboard.explorer, cast(Rubric, asked.rubric)
    return await explorer.look(project, asked.runs, rubric, state.cases, offset=offset, limit=limit)


class ListedPlaces(NamedTuple):
    """Where the responses of a list are: how many, the positions of some, and how far the judge is from people where
    they are sorted by that."""

    total: int
    positions: Sequence[int]
    apart: Mapping[int, float]


async def find_places(
    container: Container, project: str, asked: AskedCases, state: Exploration, *, offset: int, limit: int
) -> ListedPlaces | PendingComputation:
    """The matching responses of the only run."""
    batch, rubric, apart = asked.runs[0], asked.rubric, dict[int, float]()
    if state.cases.sort == "people" and rubric is not None:
        known = await disagreements.find_disagreements(container, project, batch, rubric)
        if isinstance(known, PendingComputation):
            return known
        apart = known.rank(state.cases.measure, {aspect.id: aspect.scale for aspect in rubric.aspects})
    ranked = [*apart] if state.cases.sort == "people" else None
    wanted = state.query(rubric.best if rubric else {}, ranked)
    total, positions = await container.dashboard.browser.find(project, batch.id, wanted, offset=offset, limit=limit)
    return ListedPlaces(total, positions, apart)


async def read_item_lines(
    container: Container, project: str, asked: AskedCases, places: ListedPlaces, some: Sequence[int], *, first: int
) -> tuple[list[CaseView], dict[int, ItemLine]]:
    """Some of the responses, of which the first is of that number in the list."""
    listed = ItemList(asked.runs[0], asked.state, asked.columns, asked.rubric)
    return await read_listed(container, project, listed, some, first=first, apart=places.apart)


async def count_codes(
    container: Container, project: str, asked: AskedCases
) -> tuple[Mapping[str, int | None], Mapping[str, int]]:
    """The responses of the only run by warning and by status."""
    batch, warnings = asked.runs[0], dict[str, int | None]()
    for summary in (await container.batches.summaries(project, [batch], intervals=False)).values():
        warnings |= summary.warnings  # a run whose rubric is gone is not summed up
    if asked.rubric is not None and asked.rubric.unit == "conversation":
        codes = (*FINDING_CODES, *KIND_CODES) if asked.rubric.kinds else FINDING_CODES
        warnings |= {FINDING + code: None for code in codes}
    counts = batch.counts
    statuses = {"scored": counts.scored, "partial": counts.partial, "failed": counts.failed + counts.expired}
    return warnings, statuses


class Chip(NamedTuple):
    """A filter in force. `address` is the view without it, `total` how many cases that has, if counted. Of a value,
    `measure` and `level` are what it is of."""

    name: str
    value: str
    address: str
    measure: str = ""
    level: Level | None = None
    total: int | None = None


async def list_chips(container: Container, project: str, asked: AskedCases, *, counted: bool) -> list[Chip]:
    """The filters in force."""
    chips = []
    aspects = {aspect.id: aspect for aspect in asked.rubric.aspects} if asked.rubric else {}
    for name, value, without in asked.state.without_each():
        total, find = None, find_places if asked.is_list else look_beside
        if counted:
            left = await find(container, project, asked, without, offset=0, limit=0)
            total = None if isinstance(left, PendingComputation) else left.total
        measure, _, ends = value.rpartition(":") if name == "value" else ("", "", value)
        levels = aspects[measure].levels if measure in aspects else ()
        level = next((one for one in levels if str(one.value) == ends), None)
        chips.append(Chip(name, ends, without.address(), measure, level, total))
    return chips

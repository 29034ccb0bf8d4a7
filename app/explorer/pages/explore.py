"""`/explore`: the verdict on two runs, and the cases of some runs beside each other, sorted and filtered.

The cases of one run are a list of its responses: their values against their scales, and what was found in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response

from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.conversation import FINDING, FINDING_CODES, KIND_CODES
from saiten_server.core.evaluation import Evaluation
from saiten_server.core.rubric import Aspect, Level, Rubric, range_of
from saiten_server.explorer.pages import disagreements, run_values
from saiten_server.explorer.pages.cases import CaseView, read_cases, read_run_cases, show_beginning, view_cases
from saiten_server.explorer.pages.exploration import (
    LINES,
    OF_SEVERAL,
    Exploration,
    find_usual,
    list_numbers,
    read_exploration,
    translate_query,
)
from saiten_server.explorer.pages.verdict import give_verdict
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import mark, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, redirect, render
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, name_measures, system_of
from saiten_server.runs.result import MOST_BROWSED_RUNS, MOST_RESULTS, CaseChoice, CasePage, CaseRow, CaseSort, Result
from saiten_server.runs.summary import BLENDED, find_faulty, measure_spread
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


MOST_LINE_VALUES = 9
"""Values in a line; a response that is open has all."""

SHADES = 5


class ItemColumn(NamedTuple):
    """A measure. `aspect` is None of a composite, and of an aspect that the rubric no longer has."""

    measure: str
    aspect: Aspect | None
    scale: tuple[float, float] | None

    @property
    def is_blended(self) -> bool:
        return self.measure.endswith(BLENDED)

    @property
    def name(self) -> str:
        """The aspect's or the composite's id."""
        return self.measure.removesuffix(BLENDED)

    def level(self, value: float) -> Level | None:
        """The level of the scale that the value is, if it is one."""
        if self.aspect is None or self.is_blended:
            return None
        return next((level for level in self.aspect.levels if level.value == value), None)

    def shade(self, value: float) -> int:
        """How far the value is from the best one: 0 not at all, to `SHADES`, as far as the scale goes."""
        if self.scale is None:
            return 0
        low, high = self.scale
        inside = self.aspect.best if self.aspect else None
        best = high if inside is None else inside
        farthest = max(best - low, high - best)
        off = best - value if inside is None else abs(best - value)
        return round(SHADES * min(1.0, max(0.0, off) / farthest)) if farthest else 0


class ItemCell(NamedTuple):
    """One value of a result; `unrated` is the reason why there is none."""

    column: ItemColumn
    value: float | None
    level: Level | None = None
    shade: int = 0
    unrated: str | None = None

    @property
    def digits(self) -> int:
        """Decimals: none for a rating, two for a computed value."""
        computed = self.column.aspect is None or self.column.is_blended
        return 2 if computed or (self.value or 0.0) % 1 else 0


def list_item_columns(measures: Sequence[str], rubric: Rubric | None) -> list[ItemColumn]:
    """The run's measures: aspects in the rubric's order, each with its blended value behind it, then composites."""
    aspects = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    ranges = {composite.id: range_of(composite, rubric) for composite in rubric.composites} if rubric else {}
    ordered = [name for aspect in aspects for name in (aspect, aspect + BLENDED)]
    known = [name for name in (*ordered, *ranges) if name in measures]
    columns = []
    for measure in dict.fromkeys([*known, *measures]):
        aspect = aspects.get(measure.removesuffix(BLENDED))
        columns.append(ItemColumn(measure, aspect, aspect.scale if aspect else ranges.get(measure)))
    return columns


def cell_of(column: ItemColumn, evaluation: Evaluation | None) -> ItemCell:
    """What a result has there."""
    if evaluation is None:
        return ItemCell(column, None)
    found = evaluation.aspects.get(column.name)
    if found is None:
        value = evaluation.composites.get(column.name)
    else:
        value = found.blended if column.is_blended else found.mean
    if value is None:
        missing = found.unrated if found and not column.is_blended else None
        return ItemCell(column, None, unrated=missing.reason if missing else None)
    return ItemCell(column, value, column.level(value), column.shade(value))


def show_columns(columns: Sequence[ItemColumn], measure: str | None) -> list[ItemColumn]:
    """The columns of a line: aspects and composites, and the measure that the list is sorted by."""
    plain = [column for column in columns if not column.is_blended or column.measure == measure]
    others = sum(column.measure != measure for column in plain) - MOST_LINE_VALUES + 1
    left_out = [column for column in plain if column.measure != measure][::-1][: max(0, others)]
    return [column for column in plain if column not in left_out]


class ItemLine(NamedTuple):
    """A response's line in the list. `response` is its beginning, and `findings` counts the faulty turns of a
    conversation by code."""

    result: Result
    cells: Sequence[ItemCell]
    response: str
    findings: Mapping[str, int]


class ItemList(NamedTuple):
    """The responses of a run as they are listed; `rubric` is None where it is no longer installed."""

    batch: Batch
    state: Exploration
    columns: Sequence[ItemColumn]
    rubric: Rubric | None


async def read_listed(
    container: Container,
    project: str,
    listed: ItemList,
    places: Sequence[int],
    *,
    first: int,
    apart: Mapping[int, float],
) -> tuple[list[CaseView], dict[int, ItemLine]]:
    """The results at these positions as cases with all texts, and their lines by position. The first of them is number
    `first` of the list; `apart` is how far the judge is from people. What was erased meanwhile is left out."""
    batch, state, columns, rubric = listed
    run = await read_run_cases(container, project, batch, places)
    shown, rows, lines = show_columns(columns, state.measure), [], {}
    for position, result in run.found.items():
        evaluation = result.evaluation
        cells = [cell_of(column, evaluation) for column in columns]
        values = {cell.column.measure: [cell.value] for cell in cells}
        spread = measure_spread(evaluation.aspects.values()) if evaluation else None
        disagreement = spread if state.cases.sort == "samples" else apart.get(position)
        rows.append(CaseRow([position], [1], values, [None], [None], disagreement))
        line = [cell for cell in cells if cell.column in shown]
        lines[position] = ItemLine(result, line, show_beginning(result.candidate.response), count_findings(result))
    views = []
    numbers = {position: number for number, position in enumerate(places, start=first)}
    for view in view_cases([run], rubric, rows):
        position = view.row.positions[0] or 0
        address = state.item(position, numbers[position])
        views.append(view._replace(sides=[view.sides[0]._replace(address=address)]))
    return views, lines


def count_findings(result: Result) -> dict[str, int]:
    """The faulty turns of a conversation by code; none of a response or a failure."""
    conversation = result.candidate.conversation
    if result.evaluation is None or conversation is None:
        return {}
    found = find_faulty(result.evaluation, conversation).found
    return {code: len(turns) for code, turns in found.items() if turns}

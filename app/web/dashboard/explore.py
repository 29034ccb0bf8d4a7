"""`/explore`: the cases of some runs beside each other, sorted and filtered, each with all that is known of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast, get_args

from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams

from app.comparison.computations import PendingComputation
from app.container import Container
from app.domain.batch import Batch, BatchFilter
from app.domain.browsing import ANY_ASPECT
from app.domain.cases import MOST_RESULTS, MOST_RUNS, CaseChoice, CasePage, CaseQuery, CaseRow, CaseSort
from app.domain.dialogue import Utterance
from app.domain.evaluation import AspectResult
from app.domain.human_rating import StoredRating
from app.domain.rubric import Aspect, Level, Rubric
from app.domain.summary import SYSTEM
from app.storage.sql.frames import WholeResult
from app.web.dashboard import run_values
from app.web.dashboard.item import RaterView, ResponseNames, view_ratings
from app.web.dashboard.items import STATUSES, clean, list_numbers, read_number, shorten, write_value
from app.web.dashboard.language import mark, query, speech_of
from app.web.dashboard.page import PageRoute, Project, render
from app.web.dashboard.rubric import Piece, compare_texts, replace_text
from app.web.dashboard.run_values import build_of, find_rubric, name_measures, system_of
from app.web.dependencies import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ROWS = 15
"""Cases on a page, each with all its texts."""

MOST_LISTED = 30
"""Runs to choose from."""

MOST_FOUND = 20
"""Runs in which a text is counted."""

MOST_MOVES = 4
"""Aspects that a case's line names."""

MOST_COMPARED = 1500
"""Characters of either response up to which they are compared one by one."""

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
CHOICES: Mapping[CaseChoice, str] = {
    "all": mark("all cases"),
    "changed": mark("only what changed"),
    "beyond": mark("only beyond the judge's noise"),
}
LETTERS = "ABCDEFGH"

CLUSTER = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*|\r\n|"
    ".(?:[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
    "|\u200d.)*",
    re.DOTALL,
)
"""What readers take for one character."""


@dataclass(frozen=True)
class Exploration:
    """The page's state: runs, of which the first is what the others are compared with, cases, and the page's number."""

    runs: tuple[str, ...]
    cases: CaseQuery
    number: int = 1

    def parameters(self) -> dict[str, Any]:
        """The state as an address has it."""
        cases = self.cases
        aspect, least, most = cases.level or (None, None, None)
        return {
            "run": list(self.runs),
            "sort": None if cases.sort == self.usual_sort else cases.sort,
            "measure": cases.measure,
            "show": None if cases.show == "all" else cases.show,
            "aspect": aspect,
            "least": None if least is None or math.isinf(least) else write_value(least),
            "most": None if most is None or math.isinf(most) else write_value(most),
            **{name: getattr(cases, name) for name in ("unrated", "warning", "status", "text")},
            "meta": "=".join(cases.metadata) if cases.metadata else None,
        }

    @property
    def usual_sort(self) -> CaseSort:
        return "drop" if len(self.runs) > 1 else "worst"

    def address(self, path: str = "/explore", *, number: int = 1) -> str:
        """This page, or the one of another number."""
        return query(path, **self.parameters(), page=number if number > 1 else None)

    def with_runs(self, *runs: str) -> str:
        """The address of the same cases of other runs."""
        return replace(self, runs=runs).address()

    def where(self, **changes: Any) -> str:
        """The address of other cases of the same runs."""
        return replace(self, cases=replace(self.cases, **changes)).address()


def read_exploration(asked: QueryParams, measures: Sequence[str], runs: Sequence[str]) -> Exploration:
    """What the address says, of measures that there are."""
    sort, show, measure = asked.get("sort"), asked.get("show"), asked.get("measure")
    status, unrated = asked.get("status"), asked.get("unrated")
    key, between, value = (clean(asked.get("meta")) or "").partition("=")
    usual: CaseSort = "drop" if len(runs) > 1 else "worst"
    cases = CaseQuery(
        sort=cast(CaseSort, sort) if sort in get_args(CaseSort) else usual,
        measure=measure if measure in measures else None,
        show=cast(CaseChoice, show) if show in get_args(CaseChoice) and len(runs) > 1 else "all",
        level=read_level(asked, measures),
        unrated=unrated if unrated == ANY_ASPECT or unrated in measures else None,
        warning=clean(asked.get("warning")),
        status=status if status in STATUSES else None,
        text=clean(asked.get("text")),
        metadata=(key.strip(), value.strip()) if key.strip() and between else None,
    )
    return Exploration(tuple(runs), cases, read_number(asked.get("page"), least=1) or 1)


def read_level(asked: QueryParams, measures: Sequence[str]) -> tuple[str, float, float] | None:
    """The aspect and the ends between which its value is to be; None where either end is missing or no number."""
    aspect, ends = asked.get("aspect"), []
    for name, otherwise in (("least", -math.inf), ("most", math.inf)):
        given = (asked.get(name) or "").strip()[:20]
        try:
            ends.append(float(given) if given else otherwise)
        except ValueError:
            return None
    if aspect is None or aspect not in measures or any(map(math.isnan, ends)) or all(map(math.isinf, ends)):
        return None
    return aspect, ends[0], ends[1]


class Asked(NamedTuple):
    """What an address asks for, with the runs and their rubric, None where it is no longer installed."""

    state: Exploration
    runs: Sequence[Batch]
    rubric: Rubric | None
    names: Mapping[str, str]

    @property
    def obstacle(self) -> str | None:
        """Why there are no cases, as a kind of page; None where there may be some."""
        if not self.runs:
            return "pick"
        if self.rubric is None:
            return "gone"
        if len({batch.rubric for batch in self.runs}) > 1:
            return "rubrics"
        return "large" if sum(batch.counts.total for batch in self.runs) > MOST_RESULTS else None


async def read_asked(request: Request, container: Container, project: str) -> Asked:
    """What the address asks for. Raises NotFound for a run that the project does not have."""
    asked = request.query_params
    ids = [*dict.fromkeys(one.strip()[:100] for one in asked.getlist("run") if one.strip())][:MOST_RUNS]
    picked = [await container.batches.find(project, batch_id) for batch_id in ids]
    if "pick" in asked:
        # Out of a list of runs, the oldest is what the others are compared with.
        picked.sort(key=lambda batch: (batch.created_at, batch.id))
    rubric = find_rubric(container, picked[0].rubric_name) if picked else None
    names = name_measures(rubric, speech_of(request)) if rubric else {}
    return Asked(read_exploration(asked, list(names), [batch.id for batch in picked]), picked, rubric, names)


@router.get("/explore")
async def show_cases(request: Request, container: Serving, project: Project) -> Response:
    """The cases of the runs in the address; without any, a choice of runs, and those that hold a text."""
    asked = await read_asked(request, container, project)
    state = asked.state
    wanted = BatchFilter(rubric=asked.runs[0].rubric if asked.runs else None)
    listed = await container.batches.list(project, wanted, after=None, limit=MOST_LISTED)
    page = {
        **describe(asked),
        "listed": [*asked.runs, *(batch for batch in listed if batch.id not in state.runs)],
        "sorts": SORTS,
        "choices": CHOICES,
        "most_runs": MOST_RUNS,
        "most": MOST_RESULTS,
    }
    if not asked.runs:
        found = await find_runs(container, project, state.cases.text) if state.cases.text else None
        return render(request, "explore.html", **page, kind="pick", found=found)
    return render(request, "explore.html", **page, **await gather(container, project, asked))


def describe(asked: Asked) -> dict[str, Any]:
    """What every view of cases needs."""
    state, runs, rubric, names = asked
    return {"state": state, "runs": runs, "rubric": rubric, "names": names, "letters": LETTERS, "name_run": name_run}


def name_run(batch: Batch) -> str:
    """A run in few words."""
    return " · ".join(filter(None, (batch.name or batch.id, system_of(batch), build_of(batch))))


async def find_runs(container: Container, project: str, text: str) -> list[tuple[Batch, int]]:
    """The newest runs that hold the text, each with how many of its items do."""
    search, found = container.dashboard.explorer.search, []
    for batch_id in await search.list_batches(project, text, limit=MOST_FOUND):
        count = len(await search.find(project, batch_id, text))
        if count:
            found.append((await container.batches.find(project, batch_id), count))
    return found


async def gather(container: Container, project: str, asked: Asked) -> dict[str, Any]:
    """The kind of the page, and what it takes to show it."""
    if asked.obstacle is not None:
        return {"kind": asked.obstacle}
    number = asked.state.number
    page = await look(container, project, asked, offset=(number - 1) * ROWS, limit=ROWS)
    if not isinstance(page, PendingComputation) and number > (last := max(1, -(-page.total // ROWS))):
        number = last
        page = await look(container, project, asked, offset=(number - 1) * ROWS, limit=ROWS)
    if isinstance(page, PendingComputation):
        return {"kind": "computing"}
    last = max(1, -(-page.total // ROWS))
    return {
        "kind": "cases",
        "found": page,
        "cases": await read_cases(container, project, asked, page.rows),
        "number": number,
        "last": last,
        "numbers": list_numbers(number, last),
        "start": (number - 1) * ROWS,
        "alike": len({run_values.signatures_of(batch) for batch in asked.runs}) == 1,
        "chips": list_chips(asked.state),
    }


async def look(
    container: Container, project: str, asked: Asked, *, offset: int, limit: int
) -> CasePage | PendingComputation:
    """The cases from an offset on, of an address without an obstacle."""
    explorer, rubric = container.dashboard.explorer, cast(Rubric, asked.rubric)
    return await explorer.look(project, asked.runs, rubric, asked.state.cases, offset=offset, limit=limit)


class CaseSide(NamedTuple):
    """One run's response to a case; `pieces` is how it differs from the first run's, None where that is not told.
    `context` is there where the first response answers another one."""

    result: WholeResult | None
    responses: int
    address: str
    pieces: Sequence[Piece] | None
    context: Sequence[Utterance] | None
    raters: Sequence[RaterView]


class CaseRating(NamedTuple):
    """An aspect or another measure in each run: its `values`, and the judge's verdicts where it is an aspect."""

    name: str
    aspect: Aspect | None
    values: Sequence[float | None]
    verdicts: Sequence[AspectResult | None]

    @property
    def move(self) -> tuple[float, float] | None:
        """The first run's value and the one farthest from it; None where none differs."""
        first = self.values[0]
        others = [value for value in self.values[1:] if value is not None and value != first]
        if first is None or not others:
            return None
        return first, max(others, key=lambda value: abs(value - first))

    def level(self, run: int) -> Level | None:
        """The level that the value is, if it is one."""
        value = self.values[run]
        return next((one for one in self.aspect.levels if one.value == value), None) if self.aspect else None


class CaseView(NamedTuple):
    """A case as the page shows it."""

    row: CaseRow
    item: str
    context: Sequence[Utterance]
    excerpt: str
    sides: Sequence[CaseSide]
    ratings: Sequence[CaseRating]
    notes: Sequence[str]

    @property
    def moves(self) -> Sequence[tuple[str, tuple[float, float]]]:
        """The first few aspects that differ between runs, with two values each."""
        moved = [(rating.name, rating.move) for rating in self.ratings if rating.aspect and rating.move]
        return [(name, move) for name, move in moved if move][:MOST_MOVES]


async def read_cases(container: Container, project: str, asked: Asked, rows: Sequence[CaseRow]) -> list[CaseView]:
    """The cases with all texts. What was erased meanwhile is left out."""
    frames, runs, rubric = container.dashboard.explorer.frames, asked.runs, cast(Rubric, asked.rubric)
    read, rated = [], []
    for number, batch in enumerate(runs):
        positions = [place for row in rows if (place := row.positions[number]) is not None]
        found = await frames.read_whole(project, batch.id, positions)
        read.append(found)
        rated.append([rating for _, rating in await frames.read_ratings(project, batch.id, [*found.values()])])
    views = []
    for row in rows:
        results = [
            None if place is None else found.get(place) for place, found in zip(row.positions, read, strict=True)
        ]
        known = next((one for one in results if one is not None), None)
        if known is None:
            continue
        sides = [
            view_side(row.counts[number], batch, results, number, rated[number]) for number, batch in enumerate(runs)
        ]
        views.append(view_case(row, known, results, sides, rubric))
    return views


def view_side(
    count: int, batch: Batch, results: Sequence[WholeResult | None], number: int, ratings: Sequence[StoredRating]
) -> CaseSide:
    """A run's response beside the others'."""
    one, first = results[number], results[0]
    if one is None:
        return CaseSide(None, count, "", None, None, ())
    context = one.candidate.context
    known = next(each.candidate.context for each in results if each is not None)
    pieces = tell_apart(first.candidate.response, one.candidate.response) if number and first is not None else None
    names = ResponseNames(one.id, batch, one.entry, one.candidate.metadata.get(SYSTEM))
    address = f"/runs/{batch.id}/items/{one.entry.position}"
    other = None if context == known else context
    return CaseSide(one, count, address, pieces, other, view_ratings(ratings, names))


def tell_apart(before: str, after: str) -> Sequence[Piece] | None:
    """How two responses differ, character by character; None where they are equal, or too long for that."""
    if before == after or max(len(before), len(after)) > MOST_COMPARED:
        return None
    old, new = CLUSTER.findall(before), CLUSTER.findall(after)
    return compare_clusters(old, new)


def compare_clusters(before: Sequence[str], after: Sequence[str]) -> list[Piece]:
    """The difference of two texts in characters as readers see them: each is one code point for the comparison."""
    numbers: dict[str, str] = {}
    old, new = (
        "".join(numbers.setdefault(one, chr(0x10000 + len(numbers))) for one in text) for text in (before, after)
    )
    back = {number: one for one, number in numbers.items()}
    pieces = join_changes(compare_texts(old, new) if old and new else replace_text(old, new))
    return [Piece(piece.kind, "".join(back[one] for one in piece.text)) for piece in pieces]


def join_changes(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with changes joined that a single common character keeps apart: it is common by chance."""
    joined: list[Piece] = []
    gone = new = ""
    for number, (kind, text) in enumerate(pieces):
        if kind == "gone":
            gone += text
        elif kind == "new":
            new += text
        elif len(text) == 1 and (gone or new) and number + 1 < len(pieces):
            gone, new = gone + text, new + text
        else:
            joined += [*replace_text(gone, new), Piece("same", text)]
            gone = new = ""
    return [*joined, *replace_text(gone, new)]


def view_case(
    row: CaseRow,
    known: WholeResult,
    results: Sequence[WholeResult | None],
    sides: Sequence[CaseSide],
    rubric: Rubric,
) -> CaseView:
    """The case with its ratings in the rubric's order."""
    aspects = {aspect.id: aspect for aspect in rubric.aspects}
    ordered = [*aspects, *(composite.id for composite in rubric.composites)]
    ratings = []
    for name in [*ordered, *(each for each in row.values if each not in ordered)]:
        values = row.values.get(name, [None] * len(results))
        verdicts = [one.evaluation.aspects.get(name) if one is not None and one.evaluation else None for one in results]
        if any(value is not None for value in values) or any(verdicts):
            ratings.append(CaseRating(name, aspects.get(name), values, verdicts))
    notes = [
        code
        for one in results
        if one is not None and one.evaluation
        for code in (warned.code for warned in one.evaluation.warnings)
        if code != "baseline-judge"
    ]
    context = known.candidate.context
    excerpt = shorten(context[-1].text if context else known.candidate.response)
    return CaseView(row, known.entry.item, context, excerpt, sides, ratings, list(dict.fromkeys(notes)))


def list_chips(state: Exploration) -> list[tuple[str, str, str]]:
    """The filters in force: name, value, and the address without it."""
    cases = state.cases
    chips = []
    if cases.level is not None:
        aspect, least, most = cases.level
        ends = ["" if math.isinf(end) else write_value(end) for end in (least, most)]
        chips.append(("level", f"{aspect} {ends[0]}–{ends[1]}", state.where(level=None)))
    for name in ("text", "warning", "status", "unrated"):
        value = getattr(cases, name)
        if value is not None:
            chips.append((name, value, state.where(**{name: None})))
    if cases.metadata is not None:
        chips.append(("metadata", " = ".join(cases.metadata), state.where(metadata=None)))
    if cases.show != "all":
        chips.append(("show", cases.show, state.where(show="all")))
    return chips

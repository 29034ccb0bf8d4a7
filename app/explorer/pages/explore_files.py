"""`/explore.csv`, `/explore.ndjson` and `/explore.html`: the cases of a view of the explorer as a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from saiten.core.spreadsheet import Cell, write_rows
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import COMPACT
from saiten_server.core.rubric import Rubric
from saiten_server.explorer.pages.cases import CaseView
from saiten_server.explorer.pages.explore import (
    MOST_FILED,
    RUN_LETTERS,
    AskedCases,
    describe_view,
    find_places,
    list_cases,
    read_asked_cases,
    read_item_lines,
)
from saiten_server.explorer.pages.verdict import give_verdict
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import speech_of
from saiten_server.platform.web.page import PageRoute, Project, read_assets, render_text
from saiten_server.scoring.reasons import reasons_of

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

router = APIRouter(include_in_schema=False, route_class=PageRoute)

CASES_AT_ONCE = 50
"""Cases that are read at a time."""

MOST_REPORTED = 100
"""Cases of a report."""

T = TypeVar("T")


async def read_open(request: Request, container: Container, project: str) -> AskedCases:
    """What the address asks for; raises InvalidRequest where there are no cases to be had."""
    asked = await read_asked_cases(request, container, project)
    if asked.obstacle is not None:
        raise InvalidRequest(Message("runs-to-explore"))
    return asked


async def wait_for(ask: Callable[[], Awaitable[T | PendingComputation]]) -> T:
    """The answer, once it is there."""
    while True:
        answer = await ask()
        if not isinstance(answer, PendingComputation):
            return answer
        # Where too many others compute, the answer comes at once.
        await asyncio.sleep(0.2)


async def read_pages(container: Container, project: str, asked: AskedCases) -> AsyncIterator[Sequence[CaseView]]:
    """All cases of the view, some at a time; of one run at most `MOST_FILED`."""
    if asked.is_list:
        find = partial(find_places, container, project, asked, asked.state, offset=0, limit=MOST_FILED)
        places = await wait_for(find)
        for first in range(0, len(places.positions), CASES_AT_ONCE):
            some = places.positions[first : first + CASES_AT_ONCE]
            yield (await read_item_lines(container, project, asked, places, some, first=first))[0]
        return
    offset, total = 0, 1
    while offset < total:
        found = await wait_for(partial(list_cases, container, project, asked, offset=offset, limit=CASES_AT_ONCE))
        yield found.cases
        offset, total = offset + CASES_AT_ONCE, found.total


@router.get("/explore.ndjson")
async def download_ndjson(request: Request, container: Serving, project: Project) -> Response:
    """A line a case, with all texts, values and reasons."""
    asked = await read_open(request, container, project)

    async def write() -> AsyncIterator[bytes]:
        async for cases in read_pages(container, project, asked):
            yield await asyncio.to_thread(write_case_lines, cases, asked)

    return stream_file(write(), "application/x-ndjson", "cases.ndjson")


@router.get("/explore.csv")
async def download_csv(request: Request, container: Serving, project: Project) -> Response:
    """A row a case, with columns for each run."""
    asked = await read_open(request, container, project)
    measures = [*asked.names]

    async def write() -> AsyncIterator[bytes]:
        yield write_rows([[*list_heads(asked, measures)]])
        async for cases in read_pages(container, project, asked):
            yield await asyncio.to_thread(write_cases, cases, asked, measures)

    return stream_file(write(), "text/csv; charset=utf-8; header=present", "cases.csv")


@router.get("/explore.html")
async def download_report(request: Request, container: Serving, project: Project) -> Response:
    """The verdict on two runs and the first cases of the view, as one file that needs neither script nor service."""
    asked = await read_open(request, container, project)
    found = await wait_for(partial(list_cases, container, project, asked, offset=0, limit=MOST_REPORTED))
    verdict = await wait_for_verdict(request, container, project, asked) if len(asked.runs) == 2 else {"outcome": None}
    made = {**verdict, "found": found, "base": str(request.base_url), "style": read_assets()["app.css"].decode()}
    text = await asyncio.to_thread(render_text, request, "explore_report.html", **describe_view(asked), **made)
    headers = {"Content-Disposition": 'attachment; filename="cases.html"', "Cache-Control": "no-store"}
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")


VERDICT_TRIES = 50
"""How often a report looks whether the verdict and its chart are there, every fifth of a second."""


async def wait_for_verdict(request: Request, container: Container, project: str, asked: AskedCases) -> dict[str, Any]:
    """What the page says of the two runs; without the chart where that takes too long."""
    both, rubric = (asked.runs[0], asked.runs[1]), cast(Rubric, asked.rubric)
    for _ in range(VERDICT_TRIES):
        page = await give_verdict(container, project, speech_of(request), asked.state, rubric=rubric, both=both)
        if page["outcome"] != "computing" and not page.get("painting"):
            break
        await asyncio.sleep(0.2)
    return page


def stream_file(parts: AsyncIterator[bytes], media_type: str, name: str) -> Response:
    """The file, as it is made."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, headers=headers, media_type=media_type)


def write_cases(cases: Sequence[CaseView], asked: AskedCases, measures: Sequence[str]) -> bytes:
    """A row a case."""
    return write_rows([[*list_cells(case, asked, measures)] for case in cases])


def write_case_lines(cases: Sequence[CaseView], asked: AskedCases) -> bytes:
    """A line a case."""
    return "".join(COMPACT.encode(tell_case(case, asked)) + "\n" for case in cases).encode()


def tell_case(case: CaseView, asked: AskedCases) -> dict[str, Any]:
    """A case as JSON."""
    return {
        "item": case.item,
        "context": [{"speaker": said.speaker, "text": said.text} for said in case.context],
        "runs": [tell_side(case, asked, number) for number in range(len(asked.runs))],
    }


def tell_side(case: CaseView, asked: AskedCases, number: int) -> dict[str, Any]:
    """What a run has of a case; `values` are means over its responses, of which the first is told."""
    side = case.sides[number]
    told: dict[str, Any] = {
        "run": asked.runs[number].id,
        "position": case.row.positions[number],
        "responses": side.responses,
        "change": case.row.changes[number] if number else None,
        "values": {name: values[number] for name, values in case.row.values.items()},
    }
    if side.result is not None:
        evaluation = side.result.evaluation
        told["response"] = side.result.candidate.response
        told["reasons"] = reasons_of(evaluation) if evaluation else {}
        told["warnings"] = [warned.code for warned in evaluation.warnings] if evaluation else []
        told["failure"] = side.result.failure.code if side.result.failure else None
        told["people"] = [
            {"rater": view.rater, "ratings": view.ratings, "comments": view.comments} for view in side.raters
        ]
    return told


CASE_FIELDS = ("run", "position", "response", "change")


def list_heads(asked: AskedCases, measures: Sequence[str]) -> Iterator[str]:
    """The names of the columns."""
    yield from ("item", "context")
    for letter in RUN_LETTERS[: len(asked.runs)]:
        yield from (name if asked.is_list else f"{letter}.{name}" for name in (*CASE_FIELDS, *measures))


def list_cells(case: CaseView, asked: AskedCases, measures: Sequence[str]) -> Iterator[Cell]:
    """The cells of a case."""
    yield case.item
    yield "\n".join(f"{said.speaker}: {said.text}" for said in case.context)
    for number in range(len(asked.runs)):
        told = tell_side(case, asked, number)
        yield from (told.get(name) for name in CASE_FIELDS)
        yield from (told["values"].get(name) for name in measures)

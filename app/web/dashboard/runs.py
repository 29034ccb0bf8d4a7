"""`/`: the project's runs, newest first, two of which can be picked for a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from fastapi import APIRouter, Request, Response

from app.bootstrap import Service
from app.domain.batch import Batch, BatchFilter, BatchStatus
from app.domain.errors import InvalidRequest
from app.domain.rubric import Rubric
from app.domain.summary import Summary
from app.scores import SYSTEM
from app.web.dashboard.glance import glance
from app.web.dashboard.page import PageRoute, render
from app.web.dashboard.run_values import (
    Column,
    JudgeName,
    build_of,
    columns_of,
    find_predecessors,
    find_rubric,
    judges_of,
    mean_of,
    system_of,
)
from app.web.dashboard.session import Project
from app.web.dashboard.speech import speech_of
from app.web.dashboard.texts import query
from app.web.evaluations import Serving
from app.web.pages import read_cursor, write_cursor

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE = 25
STATUSES: tuple[BatchStatus, ...] = get_args(BatchStatus)
LONGEST = 200
"""Characters of a filter; nothing that somebody looks for is longer."""


@dataclass(frozen=True)
class Asked:
    """The page's parameters, with what does not fit left out. `baseline` and `candidate` are runs picked before."""

    text: str = ""
    rubric: str = ""
    status: str = ""
    system: str = ""
    baseline: str = ""
    candidate: str = ""

    def filter(self) -> BatchFilter:
        """What to list."""
        return BatchFilter(
            text=self.text or None,
            rubric=self.rubric or None,
            status=next((status for status in STATUSES if status == self.status), None),
            metadata={SYSTEM: self.system} if self.system else {},
        )

    def is_filter(self) -> bool:
        return bool(self.text or self.rubric or self.status or self.system)

    def address(self, cursor: str | None = None) -> str:
        """This list, or the page of it that begins at the cursor."""
        return query("/", **vars(self), cursor=cursor)


@dataclass(frozen=True)
class RunRow:
    """A run as the list shows it. `before` is the run that it is best held against."""

    batch: Batch
    summary: Summary | None
    system: str | None
    build: str | None
    judges: tuple[JudgeName, ...]
    means: tuple[tuple[Column, float | None], ...]
    before: Batch | None


@dataclass(frozen=True)
class RunGroup:
    """The runs of one rubric, `id` with its version; `rubric` is None for one that is not installed any more."""

    id: str
    rubric: Rubric | None
    columns: tuple[Column, ...]
    rows: tuple[RunRow, ...]


@router.get("/")
async def show_runs(request: Request, service: Serving, project: Project) -> Response:
    """The runs that fit the filter, a page at a time."""
    service.charts.warm()  # whoever looks at the list looks at a run next
    asked = read_asked(request)
    after = read_place(request.query_params.get("cursor"))
    found = await service.desk.list(project, asked.filter(), after=after, limit=PAGE + 1)
    batches = found[:PAGE]
    rows = await make_rows(service, project, batches)
    picked = {name: await find_picked(service, project, getattr(asked, name)) for name in ("baseline", "candidate")}
    return render(
        request,
        "runs.html",
        asked=asked,
        groups=group(service, rows),
        count=len(rows),
        glances=await glance(service, project, speech_of(request), asked.filter()) if after is None else (),
        picked=picked,
        shown={row.batch.id for row in rows},
        systems=sorted({row.system for row in rows if row.system}),
        rubrics=service.instruments.rubrics.list(),
        statuses=STATUSES,
        system_of=system_of,
        build_of=build_of,
        first=None if after is None else asked.address(),
        following=asked.address(write_cursor(batches[-1])) if len(found) > PAGE else None,
        cleared=query("/", baseline=asked.baseline, candidate=asked.candidate),
        origin=str(request.base_url).rstrip("/"),
    )


def read_asked(request: Request) -> Asked:
    """The parameters, whatever was sent."""
    given = {name: request.query_params.get(name, "").strip()[:LONGEST] for name in vars(Asked())}
    if given["status"] not in STATUSES:
        given["status"] = ""
    return Asked(**given)


def read_place(cursor: str | None) -> tuple[datetime, str] | None:
    """Where the page begins; the first page for a cursor that is none."""
    try:
        return read_cursor(cursor or None)
    except InvalidRequest:
        return None


async def find_picked(service: Service, project: str, batch_id: str) -> Batch | None:
    """The run that was picked on another page of the list."""
    return await service.desk.look(project, batch_id) if batch_id else None


async def make_rows(service: Service, project: str, batches: Sequence[Batch]) -> list[RunRow]:
    """The runs with their figures and predecessors."""
    summaries = await service.desk.summaries(project, batches, intervals=False)
    befores = await find_predecessors(service.desk, project, [each for each in batches if each.status == "completed"])
    return [make_row(service, batch, summaries, befores) for batch in batches]


def make_row(service: Service, batch: Batch, summaries: Mapping[str, Summary], befores: Mapping[str, Batch]) -> RunRow:
    """One run."""
    summary, rubric = summaries.get(batch.id), find_rubric(service, batch.rubric_name)
    return RunRow(
        batch=batch,
        summary=summary,
        system=system_of(batch),
        build=build_of(batch),
        judges=judges_of(service, batch),
        means=tuple((column, mean_of(summary, column.id)) for column in (columns_of(rubric) if rubric else ())),
        before=befores.get(batch.id),
    )


def group(service: Service, rows: Sequence[RunRow]) -> list[RunGroup]:
    """The runs by rubric and version, that of the newest run first: within a group all have the same aspects."""
    by_rubric: dict[str, list[RunRow]] = {}
    for row in rows:
        by_rubric.setdefault(row.batch.rubric_name, []).append(row)
    groups = []
    for name, members in by_rubric.items():
        rubric = find_rubric(service, name)
        columns = columns_of(rubric) if rubric else ()
        groups.append(RunGroup(name, rubric, columns, tuple(members)))
    return groups

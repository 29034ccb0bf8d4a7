"""`/runs/{id}/disagreements`: the responses that people rated unlike the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from saiten_server.comparison.disagreements import Disagreements, RatedTwice, cross_tabulate
from saiten_server.core.batch import Batch
from saiten_server.core.rubric import Rubric
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.pages.run_values import mark_ratings
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.runs.names import build_of, name_measures, signatures_of, system_of
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/runs", include_in_schema=False, route_class=PageRoute)

DISAGREEMENTS_PAGE = 50
MOST_SENT = 200
"""Responses that the page offers for one round."""

MOST_CELL_CHARACTERS = 100


@router.get("/{run_id}/disagreements")
async def show_disagreements(request: Request, container: Serving, project: Project, run_id: str) -> Response:
    """One aspect's matrix, and its responses: of one cell, or all that were rated unlike."""
    batch = await container.batches.find(project, run_id)
    rubric = find_rubric(container, batch.rubric_name)
    page: dict[str, Any] = {"batch": batch, "rubric": rubric, "system": system_of(batch), "build": build_of(batch)}
    if rubric is None:
        return render(request, "disagreements.html", state="gone", **page)
    found = await find_disagreements(container, project, batch, rubric)
    if isinstance(found, PendingComputation):
        return render(request, "disagreements.html", state="computing", **page)
    if not found.aspects:
        return render(request, "disagreements.html", state="empty", **page)
    asked = {
        name: request.query_params.get(name, "").strip()[:MOST_CELL_CHARACTERS]
        for name in ("aspect", "judge", "people")
    }
    aspect = asked["aspect"] if asked["aspect"] in found.aspects else next(iter(found.aspects))
    rows, is_cell = choose_cell(found.aspects[aspect], asked["judge"], asked["people"])
    number = read_page(request.query_params.get("page", ""), len(rows))
    shown = rows[(number - 1) * DISAGREEMENTS_PAGE : number * DISAGREEMENTS_PAGE]
    read = await container.dashboard.browser.read(project, batch.id, [row.position for row in shown])
    names = name_measures(rubric, speech_of(request))

    def address(**changes: Any) -> str:
        """This page, asked otherwise."""
        cell = {"judge": asked["judge"], "people": asked["people"]} if is_cell else {}
        return query(f"/runs/{batch.id}/disagreements", **{"aspect": aspect, **cell, **changes})

    return render(
        request,
        "disagreements.html",
        state="ready",
        **page,
        names=names,
        aspects=[name for name in names if name in found.aspects],
        aspect=aspect,
        trust=await container.ratings.reliabilities.weakest(project, signatures_of(batch), [aspect]),
        rated=found.aspects[aspect],
        table=cross_tabulate(found.aspects[aspect]),
        cell=(asked["judge"], asked["people"]) if is_cell else None,
        rows=[(row, read.get(row.position)) for row in shown],
        total=len(rows),
        page=number,
        pages=-(-len(rows) // DISAGREEMENTS_PAGE),
        address=address,
        write=write_value,
        sent=query("/rate", run=batch.id, positions=",".join(str(row.position) for row in rows[:MOST_SENT])),
        sent_count=min(MOST_SENT, len(rows)),
        may_write=may_write(request),
    )


async def find_disagreements(
    container: Container, project: str, batch: Batch, rubric: Rubric
) -> Disagreements | PendingComputation:
    """The batch's disagreements, once they are computed."""
    key = ("disagreements", state_of(batch), rubric.digest, await mark_ratings(container, project))
    return await container.dashboard.computations.get(
        project, key, lambda: container.comparison.disagree(project, batch.id)
    )


def choose_cell(rows: Sequence[RatedTwice], judge: str, people: str) -> tuple[Sequence[RatedTwice], bool]:
    """The responses of the cell of these values, as addresses write them, and that it is a cell; else those that the
    judge and people rated unlike."""
    if judge and people:
        cell = [row for row in rows if (write_value(row.judge), write_value(row.median)) == (judge, people)]
        if cell:
            return cell, True
    return [row for row in rows if row.difference], False


def write_value(value: float) -> str:
    """A value in an address."""
    return f"{value:.6g}"


def read_page(text: str, rows: int) -> int:
    """The number of a page that there is."""
    last = max(1, -(-rows // DISAGREEMENTS_PAGE))
    return min(last, max(1, int(text))) if text.isascii() and text.isdigit() and len(text) < 6 else 1

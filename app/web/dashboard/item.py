"""`/runs/{id}/items/{position}` and `/evaluations/{id}`: one response with everything that is known of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import Response as PlainResponse

from app.bootstrap import Service
from app.domain.batch import Batch, Candidate, ItemResult
from app.domain.errors import NotFound
from app.domain.evaluation import Evaluation, Record
from app.domain.redaction import kind_of_text
from app.domain.rubric import name_version
from app.web.dashboard.item_integrity import view_integrity
from app.web.dashboard.item_order import Place, find_place
from app.web.dashboard.item_query import read_listing, read_number
from app.web.dashboard.item_ratings import RaterView, find_ratings
from app.web.dashboard.item_ratings import Response as Rated
from app.web.dashboard.item_views import (
    codes_at,
    current,
    digits_of,
    list_aspects,
    list_composites,
    list_said,
    results_of,
)
from app.web.dashboard.items import ROWS, address_of
from app.web.dashboard.page import PageRoute, render
from app.web.dashboard.run_values import find_rubric
from app.web.dashboard.session import Project
from app.web.evaluations import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

Position = Annotated[int, Path(ge=0, lt=2**31)]


@router.get("/runs/{batch_id}/items/{position}")
async def show_item(
    request: Request, service: Serving, project: Project, batch_id: str, position: Position
) -> Response:
    """One result of a run, with the ones before and after it in the list that the visitor came from."""
    batch = await service.desk.find(project, batch_id)
    place = await locate(request, service, project, batch, position)
    if place is None:
        return show_pending(request, batch, position)
    found = place.found
    result = await read_result(service, project, batch_id, position)
    record = await service.store.find(project, found.evaluation)
    ratings = await find_ratings(
        service.meta, project, Rated(found.evaluation, batch, found.entry, found.scores.system)
    )
    back = address_of(batch_id, place.listing, place.at // ROWS + 1) + f"#at-{position}"
    more = {"batch": batch, "place": place, "entry": found.entry, "failure": result.failure, "back": back}
    return await show(
        request, service, project, record, candidate=found.candidate, rubric=batch.rubric_name, ratings=ratings, **more
    )


@router.get("/evaluations/{evaluation_id}")
async def show_evaluation(request: Request, service: Serving, project: Project, evaluation_id: str) -> Response:
    """One evaluation, of a run or not."""
    record = await service.store.find(project, evaluation_id)
    if record is None:
        raise NotFound("there is no such evaluation in this project")
    asked = record.request
    candidate = Candidate.model_construct(
        context=asked.context, response=asked.response, reference=asked.reference, metadata=asked.metadata
    )
    ratings = await find_ratings(service.meta, project, Rated(evaluation_id))
    none = dict.fromkeys(("batch", "place", "entry", "failure", "back"))
    return await show(
        request,
        service,
        project,
        record,
        candidate=candidate,
        rubric=name_of(record.evaluation),
        ratings=ratings,
        **none,
    )


async def locate(request: Request, service: Service, project: str, batch: Batch, position: int) -> Place | None:
    """The result in the list that the address names; None where there is none yet."""
    rubric = find_rubric(service, batch.rubric_name)
    measures = await service.browser.measures(project, batch.id)
    return await find_place(
        service.browser,
        project,
        batch.id,
        position,
        listing=read_listing(request.query_params, measures, rubric),
        at=read_number(request.query_params.get("at")),
        best=rubric.best if rubric else {},
    )


async def read_result(service: Service, project: str, batch_id: str, position: int) -> ItemResult:
    """The result at a position that has one; NotFound where it was erased meanwhile."""
    async for page in service.desk.results(project, batch_id, after=position - 1, limit=1):
        if page[0].entry.position == position:
            return page[0]
    raise NotFound("this item is not there any more")


def show_pending(request: Request, batch: Batch, position: int) -> Response:
    """The page of a candidate without a result; raises NotFound where there is none and will be none."""
    if position >= batch.counts.total or batch.status in {"completed", "cancelled"}:
        raise NotFound("this run has no result at this position")
    return render(request, "item_pending.html", batch=batch, position=position)


async def show(
    request: Request,
    service: Service,
    project: str,
    record: Record | None,
    *,
    candidate: Candidate,
    rubric: str,
    ratings: list[RaterView],
    **more: Any,
) -> PlainResponse:
    """The page of a response, with or without an evaluation."""
    known = find_rubric(service, rubric)
    evaluation = await service.reliabilities.mark(project, record.evaluation) if record else None
    warned = [(warning.where, warning.code) for warning in evaluation.warnings] if evaluation else []
    translation = evaluation.translation if evaluation else None
    return render(
        request,
        "item.html",
        evaluation=evaluation,
        trace=record.trace if record else (),
        rubric=known,
        said=list_said(candidate.context, translation, warned),
        response=candidate.response,
        response_warnings=codes_at("response", warned),
        translation=translation,
        references=candidate.reference or (),
        metadata=candidate.metadata,
        gone=kind_of_text(candidate.response),
        expected=known.source_language if known else "en",
        ratings=ratings,
        rated_aspects=list(dict.fromkeys(name for view in ratings for name in view.ratings)),
        digits=digits_of,
        **describe(evaluation, service),
        **more,
    )


def name_of(evaluation: Evaluation) -> str:
    """The rubric by which it was made, with its version."""
    return name_version(evaluation.rubric.id, evaluation.rubric.version)


def describe(evaluation: Evaluation | None, service: Service) -> dict[str, Any]:
    """The ratings' part of the page."""
    if evaluation is None:
        return {"aspects": (), "composites": (), "paths": {}, "is_current": True, "integrity": None}
    rubric = current(evaluation, find_rubric(service, name_of(evaluation)))
    return {
        "aspects": list_aspects(evaluation, rubric),
        "composites": list_composites(evaluation, rubric),
        "paths": results_of(evaluation),
        "is_current": rubric is not None,
        "integrity": view_integrity(evaluation, rubric),
    }

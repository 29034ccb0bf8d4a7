"""`/v1/evaluations`: score one response, and read a score again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from app.bootstrap import Service
from app.domain.errors import NotFound
from app.domain.evaluation import Evaluation, EvaluationRequest
from app.pipeline import evaluate
from app.web.body import body_of
from app.web.idempotency import once
from app.web.openapi import EXAMPLE, PROBLEMS, creates

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"])

Include = Literal["trace", "request"]


def service_of(request: Request) -> Service:
    """The service that this application serves."""
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(service_of)]


@router.post(
    "",
    summary="Score one response",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    openapi_extra=creates(EvaluationRequest, EXAMPLE),
)
async def create_evaluation(
    request: Request, service: Serving, body: Annotated[EvaluationRequest, Depends(body_of(EvaluationRequest))]
) -> Response:
    """Rates every aspect of the rubric, blends the relevance in, signs and stores the result."""

    async def make() -> Response:
        record = await evaluate(body, service.instruments)
        project: str = request.state.project
        await service.store.save(project, record)
        evaluation = await service.reliabilities.mark(project, record.evaluation)
        return Response(evaluation.model_dump_json(), media_type="application/json")

    return await once(request, service.store, make)


@router.get("/{evaluation_id}", summary="Read a score again", responses={200: {"model": Evaluation}, **PROBLEMS})
async def read_evaluation(
    request: Request, service: Serving, evaluation_id: str, include: Annotated[list[Include] | None, Query()] = None
) -> Response:
    """The stored result; `include=trace` adds the judge's raw replies, `include=request` what was asked."""
    project: str = request.state.project
    record = await service.store.find(project, evaluation_id)
    if record is None:
        raise NotFound("there is no such evaluation in this project")
    evaluation = await service.reliabilities.mark(project, record.evaluation)
    more: dict[str, Any] = {}
    if include and "trace" in include:
        more["trace"] = [call.model_dump(mode="json") for call in record.trace]
    if include and "request" in include:
        more["request"] = record.request.model_dump(mode="json")
    if not more:
        return Response(evaluation.model_dump_json(), media_type="application/json")
    return JSONResponse(evaluation.model_dump(mode="json") | more)

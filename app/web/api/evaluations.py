"""`/v1/evaluations`: score one response, and read a score again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from app.domain.errors import NotFound
from app.domain.evaluation import CallTrace, Evaluation, EvaluationRequest, require_rubric, write_json
from app.governance.policies import settle_for
from app.scoring.evaluate import evaluate
from app.web.body import JSON, body_of
from app.web.dependencies import Serving, refuse_other_queries
from app.web.idempotency import once
from app.web.limits import evaluating, require_place, require_price
from app.web.openapi import PROBLEMS, form, reads

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"])

Include = Literal["trace", "request"]

EXAMPLE = {
    "rubric": "ja-dialogue",
    "context": [
        {"speaker": "A", "text": "週末はどこかに出かけましたか？"},
        {"speaker": "B", "text": "はい、家族で海まで行ってきました。"},
    ],
    "response": "いいですね。海の水はもう冷たくありませんでしたか？",
    "metadata": {"system": "bot-a"},
}


class ReadEvaluation(Evaluation):
    """An evaluation with the extra fields that `include` selects."""

    trace: list[CallTrace] | None = None
    request: EvaluationRequest | None = None


@router.post(
    "",
    summary="Score one response",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    openapi_extra=reads({JSON: form(EvaluationRequest, EXAMPLE)}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def create_evaluation(
    request: Request, container: Serving, body: Annotated[EvaluationRequest, Depends(body_of(EvaluationRequest))]
) -> Response:
    """Rates every aspect of the rubric, blends in the relevance, signs the result and stores it."""
    require_rubric(body)

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, body.rubric, body.judge)
            asked = await settle_for(request.state.project, body, container.governance.policies)
            record = await evaluate(asked, container.scoring.context, scope)
        project: str = request.state.project
        written = write_json(record)
        await container.scoring.evaluations.save(project, record, tuple(scope.keys), written=written.record)
        badge = await container.ratings.reliabilities.badge_of(project, record.evaluation)
        return Response(written.mark(badge), media_type="application/json")

    return await once(request, container.scoring.evaluations, make)


@router.get("/{evaluation_id}", summary="Read a score again", responses={200: {"model": ReadEvaluation}, **PROBLEMS})
async def read_evaluation(
    request: Request, container: Serving, evaluation_id: str, include: Annotated[list[Include] | None, Query()] = None
) -> Response:
    """The stored result; `include=trace` adds the judge's raw replies, `include=request` the request."""
    refuse_other_queries(request, "include", repeated="include")
    project: str = request.state.project
    record = await container.scoring.evaluations.find(project, evaluation_id)
    if record is None:
        raise NotFound("there is no such evaluation in this project")
    evaluation = await container.ratings.reliabilities.mark(project, record.evaluation)
    more: dict[str, Any] = {}
    if include and "trace" in include:
        more["trace"] = [call.model_dump(mode="json") for call in record.trace]
    if include and "request" in include:
        more["request"] = record.request.model_dump(mode="json")
    if not more:
        return Response(evaluation.model_dump_json(), media_type="application/json")
    return JSONResponse(evaluation.model_dump(mode="json") | more)

"""`/v1/comparisons`, `/v1/gates` and `/v1/judge-checks`: is it better, may it go out, and does the judge still rate as
it did."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.domain.analysis_request import ComparisonRequest, GateRequest
from app.domain.comparison import Comparison, GateReport
from app.domain.judge_check import JudgeCheck, JudgeCheckRequest
from app.web.analyses import may_write
from app.web.body import JSON, body_of
from app.web.evaluations import Serving
from app.web.limits import evaluating, require_place, require_price
from app.web.meta_openapi import CHECKS_JUDGE, COMPARES, GATES
from app.web.openapi import PROBLEMS
from app.web.problems import Refused

router = APIRouter(prefix="/v1", tags=["comparisons"])


@router.post(
    "/comparisons",
    summary="Compare two batches",
    responses={200: {"model": Comparison}, **PROBLEMS},
    openapi_extra=COMPARES,
)
async def compare_batches(
    request: Request, service: Serving, body: Annotated[ComparisonRequest, Depends(body_of(ComparisonRequest))]
) -> Response:
    """Every measure of both, with test, effect size, interval and the smallest difference that so many items show.

    409 `signature-mismatch`, with the differing `pieces`, where the two were not scored the same way.
    """
    comparison = await service.meta.compare(request.state.project, body)
    return Response(comparison.model_dump_json(), media_type=JSON)


@router.post(
    "/gates", summary="Pass or fail a batch", responses={200: {"model": GateReport}, **PROBLEMS}, openapi_extra=GATES
)
async def gate_batch(
    request: Request, service: Serving, body: Annotated[GateRequest, Depends(body_of(GateRequest))]
) -> Response:
    """The verdict, with every reason. `check_judge` asks the judge for the anchors first; that needs a key that
    writes."""
    if not body.check_judge:
        report = await service.meta.gate(request.state.project, body)
    else:
        refuse_reader(request)
        async with evaluating(request) as scope:
            if body.judge_check is None:  # else the judge is not asked
                rated = await service.desk.find(request.state.project, body.candidate)
                require_price(request, rated.rubric_name, rated.judge, pointer="/check_judge")
            report = await service.meta.gate(request.state.project, body, scope)
    return Response(report.model_dump_json(), media_type=JSON)


@router.post(
    "/judge-checks",
    summary="Check the judge for drift",
    responses={200: {"model": JudgeCheck}, **PROBLEMS},
    openapi_extra=CHECKS_JUDGE,
    dependencies=[Depends(require_place)],
)
async def check_judge(
    request: Request, service: Serving, body: Annotated[JudgeCheckRequest, Depends(body_of(JudgeCheckRequest))]
) -> Response:
    """Scores the rubric's frozen anchors, past every cache, and compares with the ratings that were stored."""
    async with evaluating(request) as scope:
        require_price(request, body.rubric, body.judge)
        check = await service.meta.check_judge(request.state.project, body, scope)
    return Response(check.model_dump_json(), media_type=JSON)


def refuse_reader(request: Request) -> None:
    """Raises Refused (403) where the key may only read: what it asks for costs money."""
    if not may_write(request):
        detail = "this key may only read, and checking the judge costs judge calls"
        raise Refused(403, "insufficient-scope", "The key's scope does not allow this", detail)

"""`/v1/comparisons` and `/v1/judge-checks`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from saiten_server.comparison.given_bodies import read_runs, receive_runs
from saiten_server.comparison.judge_checks.values import JudgeCheck, JudgeCheckRequest
from saiten_server.comparison.requests import ComparisonRequest
from saiten_server.comparison.values import Comparison
from saiten_server.platform.web.body import JSON, body_of, while_connected
from saiten_server.platform.web.dependencies import Serving, answer_in_language, tell_value
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_place, require_price

COMPARISON = {"baseline": "ba_…", "candidate": "ba_…", "alpha": 0.05, "test": "auto"}
router = APIRouter(prefix="/v1", tags=["comparisons"])


@router.post(
    "/comparisons",
    summary="Compare two runs",
    responses={200: {"model": Comparison}, **PROBLEMS},
    openapi_extra=read_runs(ComparisonRequest, COMPARISON),
)
async def compare_batches(request: Request, container: Serving) -> Response:
    """Every measure of both runs, with test, effect size, interval and smallest detectable difference. A run is the id
    of a batch, or `{"results": […]}`, of which nothing is stored.

    409 `signature-mismatch`, with the differing `pieces`, if the two were not scored in the same way.
    """
    body, given = await receive_runs(request, ComparisonRequest)
    comparison = await container.comparison.compare(request.state.project, body, given)
    return await answer_in_language(request, container, comparison)


@router.post(
    "/judge-checks",
    summary="Check the judge for drift",
    responses={200: {"model": JudgeCheck}, **PROBLEMS},
    openapi_extra=reads({JSON: form(JudgeCheckRequest, {"rubric": "ja-dialogue"})}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def check_judge(
    request: Request, container: Serving, body: Annotated[JudgeCheckRequest, Depends(body_of(JudgeCheckRequest))]
) -> Response:
    """Scores the rubric's frozen anchors without any cache, and compares them with the stored ratings."""

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, body.rubric, body.judge)
            checking = container.comparison.check_judge(request.state.project, body, scope)
            check = await while_connected(request, checking)
        return tell_value(request, check)

    return await once(request, container.scoring.evaluations, make)

"""`/v1/estimates`: what a batch would cost."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from app.batches.intake import Spool
from app.domain.batch import EstimateReport
from app.governance.policies import settle_for
from app.web.api.batches import BATCH_BODY
from app.web.body import JSON, receive_batch
from app.web.dependencies import Serving
from app.web.openapi import PROBLEMS, reads

router = APIRouter(prefix="/v1/estimates", tags=["batches"])


@router.post(
    "",
    summary="Estimate a batch",
    responses={200: {"model": EstimateReport}, **PROBLEMS},
    openapi_extra=reads(BATCH_BODY),
)
async def create_estimate(request: Request, container: Serving) -> Response:
    """Calls, tokens, translated characters and cost of the batch in the body, which is validated as a batch would be.

    Nothing is stored, and no judge or translator is called.
    """
    async with Spool() as spool:
        intake = await receive_batch(request, container.batches, spool)
        options = await settle_for(request.state.project, intake.options, container.governance.policies)
        report = await container.batches.estimate(replace(intake, options=options))
    return Response(report.model_dump_json(), media_type=JSON)

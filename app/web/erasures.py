"""`/v1/erasures`: removes everything that bears certain metadata."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from app.domain.evaluation import Metadata
from app.domain.model import Value
from app.web.audit import Administering
from app.web.body import body_of
from app.web.evaluations import Serving
from app.web.meta_openapi import reads
from app.web.openapi import PROBLEMS

router = APIRouter(prefix="/v1/erasures", tags=["governance"])


class ErasureRequest(Value):
    """Which metadata entries mark what is to be erased: all of them together."""

    metadata: Annotated[Metadata, Field(min_length=1)]


class ErasureReport(BaseModel):
    """What was erased: whole batches, candidates of other batches, and single evaluations."""

    batches: int
    candidates: int
    evaluations: int


ERASES = reads(ErasureRequest, {"metadata": {"user": "u-42"}})


@router.post(
    "",
    summary="Erase by metadata",
    responses={200: {"model": ErasureReport}, **PROBLEMS},
    openapi_extra=ERASES,
    dependencies=[Administering],
)
async def erase(
    request: Request, service: Serving, body: Annotated[ErasureRequest, Depends(body_of(ErasureRequest))]
) -> dict[str, int]:
    """Erases batches, candidates of other batches and single evaluations whose own metadata hold all these entries,
    with their texts, results and human ratings, in the store and in the call cache. Needs the scope `admin`.

    In the place of a candidate stands a failure with the code `erased`. What is still being scored on its own when this
    is asked for is stored afterwards: stop sending first. Asked for twice, the second finds nothing.
    """
    return asdict(await service.erasures.erase(request.state.project, body.metadata, actor=request.state.actor))

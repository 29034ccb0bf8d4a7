"""`/v1/erasures`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from saiten_server.core.evaluation import Metadata
from saiten_server.core.model import Value
from saiten_server.erasure.service import ErasureService
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Administering, Serving
from saiten_server.platform.web.openapi import PROBLEMS, form, reads

router = APIRouter(prefix="/v1/erasures", tags=["governance"])


class ErasureRequest(Value):
    """The metadata entries, all of which must match."""

    metadata: Annotated[Metadata, Field(min_length=1)]


class ErasureReport(BaseModel):
    """What was erased: whole batches, candidates of other batches, single evaluations, datasets' items, and live
    conversations."""

    batches: int
    candidates: int
    evaluations: int
    dataset_items: int
    live_conversations: int


@router.post(
    "",
    summary="Erase by metadata",
    responses={200: {"model": ErasureReport}, **PROBLEMS},
    openapi_extra=reads({JSON: form(ErasureRequest, {"metadata": {"user": "u-42"}})}),
    dependencies=[Administering],
)
async def erase_by_metadata(
    request: Request, container: Serving, body: Annotated[ErasureRequest, Depends(body_of(ErasureRequest))]
) -> dict[str, int]:
    """Erases batches, candidates of other batches, single evaluations and items of datasets whose own metadata hold all
    these entries, with their texts, results and human ratings, in the store and in the call cache. Needs the scope
    `admin`. Live conversations are found by their attributes, and by `conversation`, the caller's name.

    A candidate is replaced by a failure with the code `erased`. Single evaluations in progress are stored afterwards,
    so stop sending first. A second identical request erases nothing.
    """
    state = request.state
    return asdict(await container.find(ErasureService).erase(state.project, body.metadata, actor=state.actor))

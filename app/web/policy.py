"""`/v1/policy`: what holds for all evaluations of the key's project."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.domain.policy import ProjectPolicy
from app.governance.policies import PolicyDesk
from app.web.audit import Administering
from app.web.body import JSON, body_of
from app.web.evaluations import Serving
from app.web.meta_openapi import reads
from app.web.openapi import PROBLEMS

router = APIRouter(prefix="/v1/policy", tags=["governance"])

POLICY = reads(ProjectPolicy, {"integrity": "flag", "texts": "hash", "after_days": 30.0})


@router.get("", summary="Read the project's policy", responses={200: {"model": ProjectPolicy}, **PROBLEMS})
async def read_policy(request: Request, service: Serving) -> Response:
    """How suspected attacks are dealt with, and how long texts are kept. Any key of the project may read it."""
    found = await service.policies.find_policy(request.state.project)
    return Response(found.model_dump_json(), media_type=JSON)


@router.put(
    "",
    summary="Set the project's policy",
    responses={200: {"model": ProjectPolicy}, **PROBLEMS},
    openapi_extra=POLICY,
    dependencies=[Administering],
)
async def set_policy(
    request: Request, service: Serving, body: Annotated[ProjectPolicy, Depends(body_of(ProjectPolicy))]
) -> Response:
    """Sets the whole policy: what is left out is as by default. Needs the scope `admin`.

    Texts that are to go sooner now, go within a minute or so; what is hashed or dropped does not come back.
    """
    desk = PolicyDesk(policies=service.policies, audit=service.audit, now=service.instruments.now)
    found = await desk.change(request.state.project, body, actor=request.state.actor)
    return Response(found.model_dump_json(), media_type=JSON)

"""`/v1/audit`, `/v1/policy`, `/v1/erasures` and `/v1/judge/pause`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from saiten_server.core.access import AuditEvent, ProjectPolicy
from saiten_server.governance.policies import PolicyService
from saiten_server.platform.flow_state import find_pause
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Administering, Serving, link_next, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS, form, reads

MOST_NUMBER = 2**53


class AuditPage(BaseModel):
    """Events, newest first. `next` is the value of `before` for the next page; null on the last."""

    items: list[AuditEvent]
    next: int | None


audit = APIRouter(prefix="/v1/audit", tags=["governance"], dependencies=[Administering])


@audit.get("", summary="Read the audit log", responses={200: {"model": AuditPage}, **PROBLEMS})
async def list_audit_events(
    request: Request,
    container: Serving,
    *,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER, description="`next` of the page before")] = None,
) -> Response:
    """What administrators did in the key's project, newest first: keys, policies, erasures, refused attempts.

    `next` and the `Link` header lead to the next page; new events do not shift the pages.
    """
    refuse_other_queries(request, "limit", "before")
    # One more than requested shows whether there is a next page.
    found = await container.governance.audit.events(request.state.project, before=before, limit=limit + 1)
    following = found[limit - 1].number if len(found) > limit else None
    page = AuditPage(items=found[:limit], next=following)
    headers = {} if following is None else link_next(request, before=str(following))
    return Response(page.model_dump_json(), headers=headers, media_type=JSON)


policy = APIRouter(prefix="/v1/policy", tags=["governance"])


@policy.get("", summary="Read the project's policy", responses={200: {"model": ProjectPolicy}, **PROBLEMS})
async def read_policy(request: Request, container: Serving) -> Response:
    """How suspected attacks are handled, and how long texts are kept. Any key of the project may read it."""
    found = await container.governance.policies.find_policy(request.state.project)
    return Response(found.model_dump_json(), media_type=JSON)


@policy.put(
    "",
    summary="Set the project's policy",
    responses={200: {"model": ProjectPolicy}, **PROBLEMS},
    openapi_extra=reads({JSON: form(ProjectPolicy, {"integrity": "flag", "texts": "hash", "after_days": 30.0})}),
    dependencies=[Administering],
)
async def set_policy(
    request: Request, container: Serving, body: Annotated[ProjectPolicy, Depends(body_of(ProjectPolicy))]
) -> Response:
    """Sets the whole policy: fields that are left out get their defaults. Needs the scope `admin`.

    A shorter retention takes effect within about a minute; hashed or dropped texts cannot be restored.
    """
    service = PolicyService(
        policies=container.governance.policies, audit=container.governance.audit, now=container.scoring.context.now
    )
    found = await service.change(request.state.project, body, actor=request.state.actor)
    return Response(found.model_dump_json(), media_type=JSON)


judge_pause = APIRouter(prefix="/v1/judge/pause", tags=["governance"])


class JudgePause(BaseModel):
    """For how long the judge's endpoint is not called, because it asked for a pause: 0 if it may be called. `until` is
    when the pause ends, in UTC. `translator_seconds` is the same of the translator."""

    seconds: float
    until: datetime | None
    translator_seconds: float


@judge_pause.get("", summary="Read the judge's pause", responses={200: {"model": JudgePause}, **PROBLEMS})
async def read_judge_pause(container: Serving) -> Response:
    """Whether the judge's endpoint has asked for no calls (`Retry-After` or an exhausted rate limit), and until when;
    and for how long the translator has. A pause holds for all projects, and with Redis for all processes."""
    seconds = await container.flow.find_pause()
    until = container.scoring.context.now() + timedelta(seconds=seconds) if seconds else None
    pause = JudgePause(seconds=seconds, until=until, translator_seconds=await find_pause(container.pauses))
    return Response(pause.model_dump_json(), media_type=JSON)


@judge_pause.delete(
    "", status_code=204, summary="End the judge's pause", responses={**PROBLEMS}, dependencies=[Administering]
)
async def end_judge_pause(request: Request, container: Serving) -> Response:
    """Calls the judge again at once, a few calls first, and the translator. Needs the scope `admin`.

    If an endpoint still refuses, it asks for its next pause.
    """
    state, now = request.state, container.scoring.context.now()
    of_translator = await find_pause(container.pauses)
    await container.pauses.reopen()
    left = await container.flow.reopen()
    detail = {"seconds": round(left, 3), "translator_seconds": round(of_translator, 3)}
    event = AuditEvent(
        at=now, project=state.project, actor=state.actor, action="judge.reopened", target="judge", detail=detail
    )
    await container.governance.audit.note(event)
    return Response(status_code=204)

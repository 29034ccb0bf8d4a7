"""`/v1/audit`, `/v1/policy`, `/v1/judge/pause`, `/v1/info`, health checks and metrics."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.staticfiles import StaticFiles

from saiten.core.messages import Message
from saiten_server import __version__
from saiten_server.core.access import AuditEvent, ProjectPolicy
from saiten_server.core.errors import StoreUnavailable
from saiten_server.governance.limits import describe_key
from saiten_server.governance.policies import PolicyService
from saiten_server.platform.flow_state import find_pause
from saiten_server.platform.web import problems
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import (
    MOST_CURSOR,
    Administering,
    Serving,
    Whole,
    link_next,
    refuse_other_queries,
)
from saiten_server.platform.web.openapi import PROBLEMS, answers, form, reads
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.providers.registry import is_baseline

if TYPE_CHECKING:
    from saiten_server.container import Container


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
    limit: Annotated[Whole, Query(ge=1, le=1000)] = 100,
    before: Annotated[Whole | None, Query(ge=1, le=MOST_CURSOR, description="`next` of the page before")] = None,
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


policy_router = APIRouter(prefix="/v1/policy", tags=["governance"])


@policy_router.get("", summary="Read the project's policy", responses={200: {"model": ProjectPolicy}, **PROBLEMS})
async def read_policy(request: Request, container: Serving) -> Response:
    """How suspected attacks are handled, and how long texts are kept. Any key of the project may read it."""
    found = await container.governance.policies.find_policy(request.state.project)
    return Response(found.model_dump_json(), media_type=JSON)


@policy_router.put(
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


router = APIRouter(tags=["operate"])
probes = APIRouter(tags=["operate"])
"""The routes that a worker serves too."""

METRICS = {"content": {"text/plain": {"schema": {"type": "string"}}}}

READY_SECONDS = 3.0
"""A store that takes longer to answer counts as unavailable."""


class JudgeInfo(BaseModel):
    """The judge of a service; `baseline`: it is the embedded one."""

    model_config = ConfigDict(extra="allow")

    kind: str
    model: str | None = None
    baseline: bool = False


class Info(BaseModel):
    """A service: its version, judge, rubrics and limits, the bytes that the caller's project stores, and the caller's
    key with its limits and today's cost. A limit that is None does not bound."""

    model_config = ConfigDict(extra="allow")

    version: str
    judge: JudgeInfo
    translator: str | None = None
    encoder: dict[str, Any] | str | None = None
    rubrics: tuple[str, ...] = ()
    rubric_versions: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    limits: dict[str, int | None] = Field(default_factory=dict)
    key: dict[str, Any] | None = None
    stored_bytes: int = 0


@probes.get("/livez", summary="Alive")
async def check_liveness() -> dict[str, str]:
    """Checks nothing else: a database outage is not a reason to restart the service."""
    return {"status": "alive"}


@probes.get("/readyz", summary="Ready", responses={503: PROBLEMS[503]})
async def check_readiness(request: Request, container: Serving) -> dict[str, str]:
    """Whether the store answers. The judge is not checked: restarting Saiten would not repair it."""
    if request.app.state.draining:
        raise RequestRefused(503, "stopping", Message("service-stopping"))
    try:
        async with asyncio.timeout(READY_SECONDS):
            await container.scoring.evaluations.ping()
    except TimeoutError:
        raise StoreUnavailable(Message("database-too-slow", seconds=READY_SECONDS)) from None
    return {"status": "ready"}


@probes.get("/metrics", summary="Prometheus metrics", response_class=Response, responses={200: METRICS})
async def read_metrics(container: Serving) -> Response:
    """Names start with `saiten_`; no label contains text of the caller."""
    return Response(generate_latest(container.telemetry.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/info", summary="Which service this is", responses={200: answers(Info), **PROBLEMS})
async def read_info(request: Request, container: Serving) -> dict[str, Any]:
    """Version, judge, translator, encoder, limits, what the caller's project stores in bytes, and the caller's key:
    its limits, and what it has cost today."""
    context, quota = container.scoring.context, container.governance.quota
    judge, rubrics = context.judge, context.rubrics
    return {
        "version": __version__,
        "judge": {"kind": judge.kind, "model": judge.default_model, "baseline": is_baseline(judge.kind)},
        "translator": None if context.translator is None else context.translator.engine,
        "encoder": container.scoring.encoder_settings,
        "rubrics": [rubric.id for rubric in rubrics.list()],
        "rubric_versions": {rubric.id: list(rubrics.versions(rubric.id)) for rubric in rubrics.list()},
        "limits": {**container.settings.limits.model_dump(), "project_bytes": quota.most},
        "stored_bytes": await quota.used(request.state.project),
        "key": await describe_key(request),
    }


def mount_assets(application: FastAPI) -> None:
    """Swagger UI's script, style and icon."""
    # The package is not imported: only its files are used.
    found = find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("no module named 'fastapi_swagger'", name="fastapi_swagger")
    folder = Path(found.origin).parent / "resources"
    application.mount("/docs/assets", StaticFiles(directory=folder), name="docs-assets")


def create_probes(container: Container) -> FastAPI:
    """The application behind a worker's metrics port."""
    application = FastAPI(title="Saiten worker", docs_url=None, redoc_url=None, openapi_url=None)
    application.state.container = container
    application.state.draining = False
    application.include_router(probes)
    problems.install(application)
    return application

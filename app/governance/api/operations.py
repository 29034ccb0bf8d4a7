"""Health checks, metrics, `/v1/info` and the API documentation."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.staticfiles import StaticFiles

from saiten_server import __version__
from saiten_server.core.errors import StoreUnavailable
from saiten_server.governance.limits import describe_key
from saiten_server.platform.web import problems
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.openapi import PROBLEMS, answers
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.providers.registry import is_baseline

if TYPE_CHECKING:
    from saiten_server.container import Container

from saiten.core.messages import Message

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

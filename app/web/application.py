"""The FastAPI application: routes, error table and the layers around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from pydantic import BaseModel

from app import __version__
from app.bootstrap import announce, open_service, warming, working
from app.domain.policy import ProjectPolicy
from app.openers import open_tracing
from app.settings import Settings
from app.web import (
    analyses,
    audit,
    batch_events,
    batch_results,
    batches,
    comparisons,
    docs,
    erasures,
    estimates,
    evaluations,
    openapi,
    operations,
    policy,
    problems,
    ratings,
    rubrics,
)
from app.web.admission import Admission
from app.web.batch_openapi import DOCUMENTED
from app.web.bodies import Bodies
from app.web.dashboard import router as dashboard
from app.web.direct import Direct
from app.web.limits import Places
from app.web.meta_openapi import META_DOCUMENTED
from app.web.middleware import Gatekeeper, RequestFrame

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

    from app.adapters.tracing import Tracing

DESCRIPTION = """Scores what dialogue systems say in Japanese and Korean: rubric aspects by a judge, BERTScore relevance
blended in, and a signature that says how each score was made."""


NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI's own: its records hold query strings and what errors say, and a variable would turn them on."""

RESOURCES = (
    evaluations,
    batches,
    batch_results,
    batch_events,
    estimates,
    comparisons,
    analyses,
    ratings,
    rubrics,
    audit,
    policy,
    erasures,
    operations,
    docs,
)
"""In the order of the OpenAPI document."""


def create_application(settings: Settings) -> FastAPI:
    """The service over HTTP. Adapters are opened when the server starts, and closed when it stops."""
    tracing = open_tracing(settings)
    application = FastAPI(
        title="Saiten",
        version=__version__,
        description=DESCRIPTION,
        lifespan=partial(live, settings, tracing),
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    set_state(application, settings)
    documented: list[type[BaseModel]] = [*DOCUMENTED, *META_DOCUMENTED, ProjectPolicy, erasures.ErasureRequest]
    application.openapi = lambda: openapi.describe(application, documented)  # type: ignore[method-assign]
    for resource in RESOURCES:
        application.include_router(resource.router)
    application.include_router(operations.probes)
    docs.mount_assets(application)
    dashboard.install(application)
    problems.install(application)
    add_layers(application)
    if tracing is not None:
        tracing.watch_application(application)
    return application


@asynccontextmanager
async def live(settings: Settings, tracing: Tracing | None, application: FastAPI) -> AsyncIterator[None]:
    """The time between start and stop, with the service open."""
    application.state.stopping = asyncio.Event()
    async with (
        open_service(settings, tracing) as service,
        working(service, application.state.stopping),
        warming(settings),
    ):
        application.state.service = service
        announce(service)
        yield


def set_state(application: FastAPI, settings: Settings) -> None:
    """What routes and layers find in `application.state`, beside `service` and `stopping`, which `live` sets."""
    state = application.state
    state.limits = settings.limits
    state.body_timeout_seconds = settings.body_timeout_seconds
    state.bodies = Bodies()
    state.draining = False
    state.secure_cookies = settings.secure_cookies
    state.parting_seconds = 0.0
    state.places = Places(settings.most_evaluations)
    state.refusals = audit.Refusals()
    state.admission = Admission(lambda: state.service.keyring, allow_anonymous=settings.allow_anonymous)


def add_layers(application: FastAPI) -> None:
    """What each request passes on its way in, the last one first."""
    state = application.state
    application.add_middleware(Direct, routes=evaluations.router.routes, endpoints=[evaluations.create_evaluation])
    application.add_middleware(Gatekeeper, admission=state.admission)
    application.add_middleware(RequestFrame, telemetry=lambda: state.service.telemetry)

"""The FastAPI application: routes, error table and the layers around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app import __version__
from app.bootstrap import Service, announce, open_service, working
from app.settings import Settings
from app.web import (
    analyses,
    batch_events,
    batch_results,
    batches,
    comparisons,
    docs,
    estimates,
    evaluations,
    openapi,
    operations,
    problems,
    ratings,
    rubrics,
)
from app.web.admission import Admission
from app.web.batch_openapi import DOCUMENTED
from app.web.dashboard import router as dashboard
from app.web.meta_openapi import META_DOCUMENTED
from app.web.middleware import Gatekeeper, RequestFrame

DESCRIPTION = """Scores what dialogue systems say in Japanese and Korean: rubric aspects by a judge, BERTScore relevance
blended in, and a signature that says how each score was made."""


def create_application(settings: Settings) -> FastAPI:
    """The service over HTTP. Adapters are opened when the server starts, and closed when it stops."""

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        application.state.stopping = asyncio.Event()
        async with open_service(settings) as service, working(service, application.state.stopping):
            application.state.service = service
            announce(service)
            yield

    application = FastAPI(
        title="Saiten",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
    )
    application.state.limits = settings.limits
    application.state.body_timeout_seconds = settings.body_timeout_seconds
    application.openapi = lambda: openapi.describe(application, (*DOCUMENTED, *META_DOCUMENTED))  # type: ignore[method-assign]
    application.state.draining = False
    batching = (batches, batch_results, batch_events, estimates)
    for resource in (evaluations, *batching, comparisons, analyses, ratings, rubrics, operations, docs):
        application.include_router(resource.router)
    application.include_router(operations.probes)
    docs.mount_assets(application)
    dashboard.install(application)
    problems.install(application)

    def service() -> Service:
        found: Service = application.state.service
        return found

    admission = Admission(lambda: service().keyring, allow_anonymous=settings.allow_anonymous)
    application.state.admission = admission
    application.add_middleware(Gatekeeper, admission=admission)
    application.add_middleware(RequestFrame)
    return application

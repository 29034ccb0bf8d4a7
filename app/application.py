"""The FastAPI application: routes, error table and the layers around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from cachetools import LRUCache
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from saiten_server import __version__
from saiten_server.container import Container, announce, open_container, warming, working
from saiten_server.core.batch import Batch
from saiten_server.governance.api import mount_assets
from saiten_server.platform.capability import CAPABILITIES, find_parts
from saiten_server.platform.settings import Settings, open_tracing
from saiten_server.platform.sql.tables import can_store
from saiten_server.platform.web import openapi, page, problems
from saiten_server.platform.web.admission import Authenticator
from saiten_server.platform.web.body import BodyMemory
from saiten_server.platform.web.dependencies import Refusals
from saiten_server.platform.web.middleware import Gatekeeper, RequestFrame
from saiten_server.runs.watching import RunWatch, StreamPlaces
from saiten_server.scoring.limits import MOST_EXPERIENCES, EvaluationPlaces
from saiten_server.scoring.pages import Attempts

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

    from saiten_server.platform.tracing import Tracing

DESCRIPTION = """Scores what dialogue systems say in Japanese and Korean: rubric aspects by a judge, BERTScore relevance
blended in, and a signature that says how each score was made."""

NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI's own telemetry stays off: it records query strings and error texts, and an environment variable could
enable it."""


def find_routes(part: str) -> Iterator[BaseRoute]:
    """The routes of every capability's modules that are called `part`, in the order of `CAPABILITIES`."""
    for capability in CAPABILITIES:
        for module in find_parts(capability, part):
            for router in vars(module).values():
                if isinstance(router, APIRouter):
                    yield from router.routes


def is_general(route: BaseRoute) -> list[bool]:
    """For each part of a route's path whether it stands for anything: what is said sorts before what is not, so that no
    page hides another."""
    return ["{" in part for part in route.path.split("/")] if isinstance(route, Route) else []


def create_application(settings: Settings) -> FastAPI:
    """The service over HTTP. Its container is opened when the server starts, and closed when it stops."""
    tracing = open_tracing(settings)
    application = FastAPI(
        title="Saiten",
        version=__version__,
        description=DESCRIPTION,
        lifespan=partial(open_while_serving, settings, tracing),
        openapi_url=None,  # FastAPI would make the document on the event loop, which takes seconds
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )

    async def find_runs(project: str, ids: Sequence[str]) -> list[Batch]:
        container: Container = application.state.container
        # Of any kind: a stream is opened once its run was found in the service of its kind.
        return await container.worker.store.find_all(project, [run for run in ids if can_store(run)])

    # What routes and layers read; `container` and `stopping` are set at the start.
    state = application.state
    state.limits = settings.limits
    state.body_timeout_seconds = settings.body_timeout_seconds
    state.bodies = BodyMemory()
    state.draining = False
    state.secure_cookies = settings.secure_cookies
    state.close_seconds = 0.0
    state.places = EvaluationPlaces(settings.most_evaluations)
    state.experiences = LRUCache(MOST_EXPERIENCES)
    state.refusals = Refusals()
    state.streams = StreamPlaces(settings.project_streams)
    state.watch = RunWatch(find_runs)
    state.attempts = Attempts()
    state.admission = Authenticator(
        lambda: state.container.governance.keys,
        allow_anonymous=settings.allow_anonymous,
        host_names=(settings.allowed_hosts or "").split(","),
    )
    application.openapi = lambda: openapi.describe_api(application)  # type: ignore[method-assign]
    application.add_route("/openapi.json", openapi.ServedDocument(application).answer, include_in_schema=False)
    # Not `include_router`: it builds each route once more for this application, which takes longer than all else at the
    # start, and matches every request twice.
    routes = application.router.routes
    routes.extend(find_routes("api"))
    mount_assets(application)
    # Pages come after the API's routes, so that none of them hides one.
    routes.extend(sorted([*page.router.routes, *find_routes("pages")], key=is_general))
    routes.extend(page.assets.routes)
    problems.install(application)
    application.add_exception_handler(HTTPException, page.answer_http_error)
    # A request passes the layer that was added last first.
    application.add_middleware(Gatekeeper, admission=state.admission)
    application.add_middleware(
        RequestFrame, telemetry=lambda: state.container.telemetry, answer_defect=page.answer_defect
    )
    if tracing is not None:
        tracing.watch_application(application)
    return application


@asynccontextmanager
async def open_while_serving(settings: Settings, tracing: Tracing | None, application: FastAPI) -> AsyncIterator[None]:
    """The application's lifespan: opens the container and runs the embedded worker."""
    application.state.stopping = asyncio.Event()
    async with (
        open_container(settings, tracing) as container,
        working(container, application.state.stopping),
        warming(settings),
        page.compiling_templates(),
    ):
        application.state.container = container
        announce(container)
        try:
            yield
        finally:
            await application.state.attempts.close()

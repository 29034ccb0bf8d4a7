"""What a worker answers over HTTP: alive, ready, metrics, and nothing else."""

from __future__ import annotations

from fastapi import FastAPI

from app.bootstrap import Service
from app.web import operations, problems


def create_probes(service: Service) -> FastAPI:
    """The application behind a worker's metrics port."""
    application = FastAPI(title="Saiten worker", docs_url=None, redoc_url=None, openapi_url=None)
    application.state.service = service
    application.state.draining = False
    application.include_router(operations.probes)
    problems.install(application)
    return application

"""All pages of the dashboard."""

from __future__ import annotations

from fastapi import FastAPI

from app.web.dashboard import aspects, assets, attempt, compare, item, items, live, rate, run, runs, session, sheet

PAGES = (session, runs, run, live, items, item, attempt, rate, sheet, compare, aspects)


def install(application: FastAPI) -> None:
    """Adds the pages. After the API's routes, so that none of them hides one."""
    for part in PAGES:
        application.include_router(part.router)
    application.include_router(assets.router)
